"""`gnomon watch` as a user meets it: its server, its page in a browser, and what it complains of."""

import http.client
import io
import json
import re
import shutil
import socket
import sys
import threading
import urllib.error
import urllib.request
import webbrowser

import pytest
from rich.console import Console

from gnomon_lab.cli import main
from gnomon_lab.watching import terminal
from gnomon_lab.watching.answer import answer
from gnomon_lab.watching.folder import Watched
from gnomon_lab.watching.page import page as written
from gnomon_lab.watching.server import Server
from tests.lab.test_watching import line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with one run of two arms, in which one works."""
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "runs" / "digits" / "1-seed0"
    run.mkdir(parents=True)
    arms = [line(step, arm=arm, **{"test/accuracy": 0.1 * step}) for arm in ("plain", "aligned") for step in range(3)]
    (run / "records.jsonl").write_text("".join(arms))
    return tmp_path


@pytest.fixture
def served(folder):
    """Its address; the server ends when `close` is called, at the latest with the test."""
    with Server(Watched(folder / "runs")) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def gnomon(folder, monkeypatch, capsys):
    """Calls `gnomon watch` in this process: its exit code, and what it printed."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["gnomon", "watch", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capsys.readouterr()

    return call


def ask(server, path="readings", **headers):
    request = urllib.request.Request(server.url + path, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def refused(server, path, **headers):
    with pytest.raises(urllib.error.HTTPError) as error:
        ask(server, path, **headers)
    error.value.close()
    return error.value.code


def test_a_reading_is_there_when_it_is_asked_for(served, folder):
    first = json.loads(ask(served))
    assert [run["label"] for run in first["runs"]] == ["plain", "aligned"]
    assert first["runs"][0]["values"] == {"test/accuracy": [0, 0.1, 0.2]}
    with (folder / "runs/digits/1-seed0/records.jsonl").open("a") as records:
        records.write(line(3, arm="aligned", **{"test/accuracy": 1}))
    then = json.loads(ask(served, f"readings?since={first['version']}"))
    assert then["runs"][1]["steps"] == [0, 1, 2, 3]


def test_the_server_is_for_this_machine_and_its_own_page_alone(served):
    host, port = served.server_address
    assert host == "127.0.0.1"
    assert "<!DOCTYPE html>" in ask(served, "")
    assert "<!DOCTYPE html>" in ask(served, "", Host="localhost")
    for name in ("example.org", f"example.org:{port}", f"127.0.0.1.example.org:{port}", "", "localhost.example.org"):
        assert refused(served, "", Host=name) == 403
        assert refused(served, "readings", Host=name) == 403
    for path in (
        "etc/passwd",
        "../../etc/passwd",
        "page.js",
        "readings/",
        "?x",
        "readings?since=-1",
        "readings?since=x",
    ):
        assert refused(served, path) == 404
    for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
        connection = http.client.HTTPConnection(host, port, timeout=10)
        connection.request(method, "/readings")
        assert connection.getresponse().status == 501
        connection.close()


def test_readers_who_leave_do_not_end_it(served, capfd):
    for _ in range(3):
        with socket.create_connection(served.server_address[:2]) as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            reader.sendall(b"GET /readings HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert json.loads(ask(served))["there"]
    assert capfd.readouterr().err == ""


def test_it_says_that_the_folder_is_gone(served, folder):
    assert json.loads(ask(served))["runs"]
    shutil.rmtree(folder / "runs")
    told = json.loads(ask(served))
    assert (told["there"], told["runs"]) == (False, [])


def test_it_says_where_it_serves_and_ends_quietly(gnomon, monkeypatch):
    opened = []

    def serve(server):
        assert json.loads(ask_in_turn(server))["runs"]
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "serve_forever", serve)
    monkeypatch.setattr(webbrowser, "open", opened.append)
    code, out, err = gnomon("runs")
    assert (code, err, opened) == (0, "", [])
    assert out.startswith("http://127.0.0.1:")
    code, out, _ = gnomon("--open", "--port", "0")
    assert opened == [out.split()[0]]


def ask_in_turn(server):
    """Asks a server that nobody runs: it handles the one request."""
    said = []
    thread = threading.Thread(target=lambda: said.append(ask(server)))
    thread.start()
    server.handle_request()
    thread.join()
    return said[0]


def test_once_writes_a_page_of_its_own(gnomon, folder):
    code, out, err = gnomon("runs", "--once", "--out", "page.html", "--only", "test/*")
    assert (code, out, err) == (0, "page.html\n", "")
    assert '"test/accuracy": [0,0.1,0.2]' in (folder / "page.html").read_text()


@pytest.mark.bad_input
def test_the_page_overwrites_no_readings_and_nothing_of_a_run(gnomon, folder):
    (folder / "runs/mine.jsonl").write_text(line(0, loss=1))
    run = folder / "runs/digits/1-seed0"
    (run / "config.json").write_text("{}")
    before = {path: path.read_bytes() for path in (folder / "runs").rglob("*") if path.is_file()}
    for path in ("runs/mine.jsonl", run / "records.jsonl", run / "config.json"):
        code, out, err = gnomon("runs", "--once", "--out", str(path))
        assert (code, out) == (2, "")
        assert re.search(r"\(--out\): expected a file (that is not read here|outside a run's folder), got '", err)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.bad_input
@pytest.mark.parametrize("begun", ["records.jsonl", ".lock"])
def test_the_page_is_not_written_into_a_run(gnomon, folder, begun):
    """A new result.json would say that the run is finished, and a figure is one of its own."""
    run = folder / "runs/digits/2-seed0"
    (run / "figures").mkdir(parents=True)
    for name in ("config.json", begun, "figures/curves.svg"):
        (run / name).write_text("")
    (folder / "latest").symlink_to(run)
    for path in ("result.json", "figures/curves.svg", "figures/page.html", "page.html"):
        for place in (run, folder / "latest"):
            code, out, err = gnomon("runs", "--once", "--out", str(place / path))
            assert (code, out) == (2, "")
            assert f"(--out): expected a file outside a run's folder, got '{place / path}'. Name another file." in err
    assert sorted(path.name for path in run.rglob("*.*")) == sorted({"config.json", begun, "curves.svg"})
    assert gnomon("runs", "--once", "--out", "runs/digits/page.html")[::2] == (0, "")


def test_the_page_has_a_name_of_its_own(gnomon, folder):
    assert gnomon("runs", "--once") == (0, "watch.html\n", "")
    assert '"test/accuracy": [0,0.1,0.2]' in (folder / "watch.html").read_text()


def test_once_says_that_there_is_nothing_yet(gnomon, folder):
    (folder / "empty").mkdir()
    assert gnomon("empty", "--once") == (0, "watch.html\nno readings in empty yet\n", "")


def test_on_a_terminal_once(gnomon):
    code, out, err = gnomon("runs", "--once", "--terminal")
    assert (code, err) == (0, "")
    assert "plain: step 2, last " in out
    assert "test/accuracy" in out


def test_where_there_is_no_terminal_the_latest_reading_is_a_line(gnomon, folder, monkeypatch):
    waits = iter(["", line(3, arm="plain", **{"test/accuracy": 1}), None])

    def wait(seconds):
        news = next(waits)
        if news is None:
            raise KeyboardInterrupt
        with (folder / "runs/digits/1-seed0/records.jsonl").open("a") as records:
            records.write(news)

    monkeypatch.setattr(terminal.time, "sleep", wait)
    code, out, err = gnomon("--terminal")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "plain: step 2: test/accuracy 0.2 (and 1 more)",
        "plain: step 3: test/accuracy 1 (and 1 more)",
        "",
    ]


def test_where_no_quantity_is_as_wanted_it_says_which_there_are(gnomon, folder, monkeypatch):
    words = "no quantity matches nosuch or loss*; there are test/accuracy"
    code, out, err = gnomon("runs", "--once", "--terminal", "--only", "nosuch", "loss*")
    assert (code, out) == (2, "")
    assert err.endswith(f"(--only): expected quantities that were read, got {words}. Correct it.\n")
    code, out, err = gnomon("runs", "--once", "--only", "nosuch", "loss*")
    assert (code, out) == (2, "watch.html\n")
    assert f"(--only): expected quantities that were read, got {words}. Correct it; watch.html has no curves." in err
    assert f'"unmatched": "{words}"' in (folder / "watch.html").read_text()
    waits = iter([None, None])

    def wait(seconds):
        if next(waits, 0) == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(terminal.time, "sleep", wait)
    assert gnomon("runs", "--terminal", "--only", "nosuch", "loss*") == (0, f"runs: {words}\n\n", "")


def test_the_picture_follows_on_a_terminal(folder, monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=60, height=20)
    watched, waits = Watched(folder / "runs"), iter([True, False])

    def wait(seconds):
        if not next(waits):
            raise KeyboardInterrupt
        with (folder / "runs/digits/1-seed0/records.jsonl").open("a") as records:
            records.write(line(77, arm="plain", **{"test/accuracy": 1}))

    monkeypatch.setattr(terminal.time, "sleep", wait)
    with pytest.raises(KeyboardInterrupt):
        terminal.follow(watched, console)
    assert "aligned: step 2" in console.file.getvalue()
    assert "plain: step 77" in console.file.getvalue()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "(DIR): expected a folder, or a file of readings, got 'nowhere', which is not there."),
        (["/dev/null"], "(DIR): expected a folder, or a file of readings, got '/dev/null', which is neither."),
        (
            ["words.txt", "runs"],
            "(DIR): expected one folder, or one file of readings, got 2 paths. Put them into one folder, and name",
        ),
        (["words.txt"], "(DIR): expected a file with one reading per line, got words.txt holds no readings."),
        (["--port", "65536"], "(--port): expected a port, 0 to 65535, got 65536."),
        (["--port", "x"], "expected valid arguments"),
        (["--once", "--out", "no/page.html"], "(--out): expected a file in a folder, got 'no/page.html'."),
        (["words.txt", "--once", "--out", "words.txt"], "(--out): expected a file that is not read here"),
        (
            ["--only", "accuracy", "runs/digits"],
            "(--only): expected quantities, got 'runs/digits', which is a file or folder. "
            "Name the path first, before the options.",
        ),
        (["--only", "accuracy", "words.txt"], "(--only): expected quantities, got 'words.txt'"),
        (["--out", "page.html"], "(--out): expected none without --once, got 'page.html'. Add --once."),
        (["--out", "watch.html"], "(--out): expected none without --once, got 'watch.html'. Add --once."),
        (
            ["--once", "--terminal", "--out", "watch.html"],
            "(--out): expected none beside --terminal, got 'watch.html'. Leave out --out or --terminal.",
        ),
        (["--terminal", "--out", "page.html"], "(--out): expected none beside --terminal, got 'page.html'."),
        (["--once", "--terminal", "--port", "80", "--open"], "(--port): expected none beside --terminal, got 80."),
        (["--once", "--port", "80"], "(--port): expected none beside --once, got 80. Leave out --port or --once."),
        (["--once", "--open"], "(--open): expected none beside --once. Leave out --open or --once."),
        (["--terminal", "--open"], "(--open): expected none beside --terminal. Leave out --open or --terminal."),
    ],
)
def test_what_is_wrong_is_one_line(gnomon, folder, monkeypatch, arguments, words):
    monkeypatch.setattr(Server, "serve_forever", lambda server: None)
    monkeypatch.setattr(terminal, "lines", lambda watched: [])
    (folder / "words.txt").write_text("some words\n" * 3)
    code, out, err = gnomon(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert err.startswith("gnomon: ")


def test_a_port_that_is_taken_is_named(gnomon):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = gnomon("--port", str(port))
    assert code == 2
    assert f"(--port): expected a free port, got {port}: Address already in use." in err


@pytest.mark.browser
def test_the_page_follows_and_says_when_it_is_left_alone(served, folder, browser):
    complaints = []
    with browser.new_context() as context:
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.clock.install()
        page.goto(served.url)
        page.get_by_text("step 2, last").first.wait_for()
        until_drawn(page, "at the end: plain 0.2, aligned 0.2")
        with (folder / "runs/digits/1-seed0/records.jsonl").open("a") as records:
            records.write(line(1000, arm="aligned", **{"test/accuracy": 0.75}))
        page.clock.run_for(4500)
        page.get_by_text("step 1,000, last").wait_for()
        until_drawn(page, "at the end: plain 0.2, aligned 0.75")
        page.get_by_role("button", name="plain").click()
        until_drawn(page, "at the end: aligned 0.75")
        served.shutdown()
        served.server_close()
        page.clock.run_for(4500)
        page.get_by_text("gnomon watch does not answer").wait_for()
    assert complaints == []


NOTE_WHAT_IS_DRAWN = """
window.written = [];
const pen = CanvasRenderingContext2D.prototype, fillText = pen.fillText;
pen.fillText = function (words, ...at) {
  window.written.push(words);
  fillText.call(this, words, ...at);
};
"""
# A function: an expression is evaluated again at each poll, which the page's security policy refuses after the first.
ARE_DRAWN = "() => window.written.includes('step')"


@pytest.mark.browser
def test_the_page_tells_settings_apart_and_says_that_none_is_wanted(folder, browser):
    for number, loss in enumerate(("mse", "ce")):
        run = folder / "runs" / "digits" / f"{number}-seed0"
        run.mkdir(exist_ok=True)
        (run / "records.jsonl").write_text(line(1, loss=0.5) + line(100, loss=0.25))
        (run / "config.json").write_text(json.dumps({"experiment": "digits", "config": {"loss": loss, "steps": 9}}))
    for only, words in ((("loss",), ""), (("nosuch",), "no quantity matches nosuch; there are loss")):
        (folder / "page.html").write_text(written(folder / "runs", answer(Watched(folder / "runs", only))))
        with browser.new_context() as context:
            page = context.new_page()
            page.add_init_script(NOTE_WHAT_IS_DRAWN)
            page.goto((folder / "page.html").as_uri())
            buttons = page.locator("#runs button")
            buttons.nth(1).wait_for()
            assert [buttons.nth(place).get_attribute("title") for place in (0, 1)] == ["--loss mse", "--loss ce"]
            assert page.locator("#unmatched").text_content() == words
            assert page.locator("section canvas").count() == (not words)
            if not words:
                page.wait_for_function(ARE_DRAWN)


@pytest.mark.browser
def test_numbers_are_told_apart_and_curves_that_are_not_named_counted(folder, browser):
    for run in range(8):
        (folder / "runs" / f"{run}.jsonl").write_text(line(0, loss=0.9999) + line(1, loss=0.99998))
    (folder / "page.html").write_text(written(folder / "runs", answer(Watched(folder / "runs", ("loss",)))))
    with browser.new_context() as context:
        page = context.new_page()
        page.add_init_script(NOTE_WHAT_IS_DRAWN)
        page.goto((folder / "page.html").as_uri())
        page.wait_for_function(ARE_DRAWN)
        said = page.evaluate("window.written.slice(0, window.written.indexOf('step'))")
        assert said == ["0.9999", "0.99992", "0.99994", "0.99996", "0.99998", "0", "1"]
        assert page.evaluate("[0.99996, 0.5, 1, 123456].map((value) => number(value))") == [
            "0.99996",
            "0.5",
            "1",
            "123,500",
        ]
        words = page.locator("section canvas").get_attribute("aria-label")
        assert words.endswith("5 0.99998, and 2 more")


@pytest.fixture
def shown(tmp_path, browser):
    """Shows readings, by file, on a page: the page with its charts drawn."""
    contexts = []

    def show(**readings):
        for name, lines in readings.items():
            (tmp_path / f"{name}.jsonl").write_text("".join(lines))
        (tmp_path / "page.html").write_text(written(tmp_path, answer(Watched(tmp_path))))
        contexts.append(browser.new_context())
        page = contexts[-1].new_page()
        page.add_init_script(NOTE_WHAT_IS_DRAWN)
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_function(ARE_DRAWN)
        return page

    yield show
    for context in contexts:
        context.close()


def vertical(page, quantity, *, log_x=False):
    """Both ends of what the vertical axis of a quantity must show."""
    axis = page.evaluate(f"axisOf(charts.get('{quantity}'), {json.dumps(log_x)})")
    return [10 ** axis[end] if axis["log"] else axis[end] for end in ("low", "high")]


@pytest.mark.browser
def test_an_axis_goes_as_far_as_the_bands_that_are_drawn(shown):
    """It was asked how many curves there are, not how many have the quantity."""
    few = {f"norm{run}": [line(k, norm=10 + k, **{"norm.q25": 2, "norm.q75": 30}) for k in (0, 1)] for run in range(2)}
    many = {f"loss{run}": [line(k, loss=1 + k, **{"loss.q25": -9, "loss.q75": 9}) for k in (0, 1)] for run in range(7)}
    page = shown(**few, **many)
    low, high = vertical(page, "norm")
    assert low < 2
    assert high > 30
    low, high = vertical(page, "loss")
    assert 0 < low < 1
    assert 2 < high < 3


@pytest.mark.browser
def test_a_band_is_broken_where_the_curve_is(shown):
    """It was filled across what was NaN."""
    told = [line(k, loss=5, **{"loss.q25": 4, "loss.q75": 6}) for k in range(9)]
    told[3], told[4], told[6] = line(3, loss=None), line(4, loss=None), line(6, other=1)
    page = shown(run=told)
    pieces = "pieces([...runs.values()][0], 'loss', false, {}).map((piece) => piece.map(({{ step }}) => step))"
    assert page.evaluate(pieces.format("false")) == [[0, 1, 2], [], [5, 7, 8]]
    filled = """() => {
      const canvas = document.querySelector("section canvas"), pen = canvas.getContext("2d"), found = [];
      canvas.chart.section.scrollIntoView();
      const { points } = canvas.places[0];
      const at = (x) => pen.getImageData(x * devicePixelRatio, (points[0].y + 9) * devicePixelRatio, 1, 1).data[3] > 0;
      const middle = (a, b) => (points[a].x + points[b].x) / 2;
      return [at(middle(0, 1)), at(middle(2, 3)), at(middle(3, 4))];
    }"""
    assert page.evaluate(filled) == [True, False, True]


@pytest.mark.browser
def test_a_reading_that_has_no_place_does_not_set_the_axis(shown):
    """Of a run with step 0 alone, on a logarithmic axis of steps."""
    page = shown(long=[line(k, loss=2 / (1 + k)) for k in (0, 1, 2, 4, 10, 100, 1000)], new=[line(0, loss=1e6)])
    assert vertical(page, "loss", log_x=True)[1] < 3
    assert vertical(page, "loss", log_x=False)[1] > 1e5


@pytest.mark.browser
def test_a_chart_has_the_steps_of_its_runs_alone(shown):
    """The longest of all runs made the curves of the others a vertical line."""
    solved = [line(10**k, residual=1 / (1 + k)) for k in range(11)]
    page = shown(solved=solved, trained=[line(k, loss=2 - k / 50) for k in range(31)])
    for quantity, last, log in (("residual", 10**10, True), ("loss", 30, False)):
        across = page.evaluate(f"axesOf(charts.get('{quantity}'))[0]")
        assert across["log"] == log
        high = 10 ** across["high"] if log else across["high"]
        assert last <= high < 2 * last
    page = shown(short=[line(k, residual=1) for k in range(31)])
    assert page.evaluate("axesOf(charts.get('residual'))[0]")["log"], "as the run that goes furthest"


@pytest.mark.browser
def test_the_steps_of_a_short_run_have_several_numbers(shown):
    """Of 35 steps there were two, 0 and 20."""
    for stride, words in ((1, ["0", "10", "20", "30"]), (4000, ["0", "50,000", "100,000"])):
        page = shown(run=[line(stride * k, loss=5 - k / 10, rise=k, norm=9 + k) for k in range(36)])
        assert page.evaluate("document.querySelector('section canvas').clientWidth") < 400
        written = page.evaluate("window.written.slice(0, window.written.indexOf('step'))")
        assert written[-len(words) :] == words


@pytest.mark.browser
def test_the_list_shows_all_of_a_long_name_on_a_phone(shown):
    """It was half as wide as the page, and ended in the midst of its sixth line."""
    name = "a run with a rather long name, lr=0.0001, width=1024, optimizer=adamw, penalty=grokalign, seed=0, attempt=3"
    page = shown(**{name: [line(k, loss=k) for k in range(20)]})
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("node('runs').scrollHeight <= node('runs').clientHeight")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.browser
def test_a_list_that_goes_on_shows_half_a_row_of_it_on_a_phone(shown):
    """It ended between two rows, as if there were no more."""
    page = shown(**{name: [line(k, loss=k) for k in range(20)] for name in "abcdefghij"})
    page.set_viewport_size({"width": 400, "height": 800})
    share = page.evaluate("""() => {
      const end = node("runs").getBoundingClientRect().bottom;
      const boxes = [...document.querySelectorAll("#runs button")].map((button) => button.getBoundingClientRect());
      return boxes.map(({ top, height }) => (end - top) / height).find((share) => share < 1);
    }""")
    assert 0.3 < share < 0.7
    assert " curves; snapshot of " in page.locator("#state").text_content()


@pytest.mark.browser
def test_paper_shows_the_charts_that_were_never_scrolled_to(shown):
    """They were blank: only what was seen was drawn."""
    page = shown(run=[line(k, **{f"quantity_{place}": k for place in range(40)}) for k in range(9)])
    told = "canvases => canvases.filter(canvas => (canvas.getAttribute('aria-label') ?? '').endsWith('run 8')).length"
    assert page.locator("section canvas").evaluate_all(told) < 40
    page.evaluate("addEventListener('beforeprint', () => { window.before = node('quantities').innerHTML; })")
    page.pdf()
    assert page.evaluate("window.before").count("run 8") == 40


@pytest.mark.browser
def test_paper_has_dark_ink_whatever_the_screen_has(shown):
    """A chart kept the colours of a dark screen on white paper: its numbers were pale grey."""
    page = shown(run=[line(k, loss=1 / (1 + k)) for k in range(9)])
    inked = "[...document.querySelectorAll('canvas')].map((canvas) => canvas.toDataURL())"
    page.evaluate(f"addEventListener('beforeprint', () => {{ window.before = {inked}; }})")
    kept = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(
            f"(light) => {inked}.every((ink, place) => ink !== light?.[place])", arg=kept.get("light")
        )
        kept[scheme] = page.evaluate(inked)
        page.pdf()
        kept[f"{scheme} on paper"] = page.evaluate("window.before")
    assert kept["dark"] != kept["light"]
    assert kept["dark on paper"] == kept["light on paper"]
    page.wait_for_function(f"(dark) => {inked}.every((ink, place) => ink === dark[place])", arg=kept["dark"])


def until_drawn(page, words):
    """Lets the page's frames pass until its canvas says so."""
    for _ in range(200):
        page.clock.run_for(20)
        if words in (page.locator("section canvas").get_attribute("aria-label") or ""):
            return
    raise AssertionError(words)
