"""The report: one file that needs nothing else, says what it was given, and works in a browser."""

import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from plotly.offline import get_plotlyjs

from gnomon.errors import EmptyError, ShapeError
from gnomon_lab.figures import (
    Curves,
    ImageFrame,
    ImageRow,
    ImageSlider,
    Line,
    Mark,
    Panel,
    Points,
    Polylines,
    RegionFrame,
    RegionMap,
    Scatter,
    ScatterPanel,
    Space,
    SpaceFaces,
    SpaceFrame,
    SpacePoints,
)
from gnomon_lab.report.page import UNJUDGED, Report, Table, render, write
from gnomon_lab.runs import Claim

HOSTILE = '</script><script>alert("pwned")</script><img src="https://example.org/x.png" onerror=alert(1)>'
SLOW = ("GPU stall", "willReadFrequently")  # what Chromium says of plotly's speed in space is no complaint


def example(words="baseline"):
    """A report as a short training gives it."""
    rng = np.random.default_rng(0)
    steps = (0.0, *np.geomspace(1, 10_000, 25).round().tolist())
    rise = tuple(1 / (1 + np.exp(-3 * (np.log10(max(s, 0.5)) - 2))) for s in steps)
    late = tuple(1 / (1 + np.exp(-4 * (np.log10(max(s, 0.5)) - 3))) for s in steps)
    marks = (Mark(f"{words} memorised, step 100", 100.0), Mark("GrokAlign grokked, step 1,000", 1000.0, 1))
    accuracy = (Line(f"{words}, training", steps, rise, dashed=True), Line("GrokAlign, unseen", steps, late, colour=1))
    panels = (
        Panel("Accuracy", "fraction correct", accuracy, marks, (0, 1.05)),
        Panel("Centroid alignment", "cosine", (Line("GrokAlign, unseen", steps, late, colour=1),), marks),
    )
    digits = rng.random((10, 8, 8))
    frames = tuple(
        ImageFrame(f"step {k * 100}", (ImageRow("digits", digits), ImageRow(words, rng.normal(size=(10, 8, 8)))))
        for k in range(12)
    )
    return Report(
        title=f"Grokking, {words}",
        summary=f"GrokAlign grokked at step 1,000; {words} never did.",
        introduction=f"First paragraph.\nStill the first.\n\nSecond paragraph about {words}.",
        table=Table(("net", "unseen digits"), ((words, "80.1 %"), ("GrokAlign", "99.2 %"))),
        claims=(
            Claim(f"GrokAlign beats {words}", "a paper, section 4", "5× sooner", "12× sooner", True),
            Claim("The centroids align", "a paper, figure 3", "cosine > 0.95", "0.90", False),
        ),
        figures=(
            Curves("grokking", f"Which net groks, {words}?", "Accuracy over training.", "training step", panels),
            ImageSlider("centroids", "What the nets look at", "Centroids.", frames),
        ),
        details={
            "command": f"gnomon run {words}",
            "config": {"steps": 10_000, "seeds": [0, 1], "of": {"torch": "2.0", "k": 1}},
        },
        worth={words: "Settled: probably not."},
        then="Call `gnomon list` next.",
    )


class Page(HTMLParser):
    """Collects what a browser would see: elements, attributes, scripts, styles, text."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.scripts, self.styles, self.words, self._inside = [], [], [], [], ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        kind = {"script": self.scripts, "style": self.styles}.get(self._inside, self.words)
        kind.append(data)


def test_the_page_refers_to_nothing_outside_itself():
    page = Page(render(example()))
    for tag, attributes in page.elements:
        for name in ("src", "href", "srcset", "data", "action", "poster", "background", "xlink:href"):
            assert attributes.get(name, "#").startswith(("#", "data:")), (tag, attributes)
        assert tag not in {"iframe", "object", "embed", "base"}
    for style in [*page.styles, *(attributes.get("style") or "" for _, attributes in page.elements)]:
        assert "@import" not in style
        assert "url(" not in style
    own = [script for script in page.scripts if script.strip() != get_plotlyjs().strip()]
    assert len(own) == len(page.scripts) - 1
    assert not re.search(r"https?://|\bfetch\(|XMLHttpRequest|import\(", "".join(own))
    policy = next(a["content"] for tag, a in page.elements if tag == "meta" and a.get("http-equiv"))
    assert policy.startswith("default-src 'none';")  # and the browser enforces it


def test_plotly_stands_in_the_page_exactly_once():
    html = render(example())
    assert html.count(get_plotlyjs()) == 1
    assert len(re.findall(r"\* plotly\.js v[\d.]+", html)) == 1
    assert len(html) - len(get_plotlyjs()) < 300_000


def test_the_page_is_whole_html():
    html = render(example())
    page = Page(html)
    assert html.startswith("<!DOCTYPE html>")
    assert ("html", {"lang": "en"}) in page.elements
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in page.elements
    assert [tag for tag, _ in page.elements].count("h1") == 1
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    text = " ".join(" ".join(page.words).split())
    assert "1 of 2 claims reproduced Not reproduced: The centroids align: 0.90" in text
    assert text.index("1 of 2 claims") < text.index("First paragraph.")
    assert "Call gnomon list next." in text
    assert "Is more training worth it? baseline. Settled: probably not." in text
    assert ("code", {}) in page.elements
    assert "✓ reproduced GrokAlign beats baseline expected 5× sooner measured 12× sooner source a paper" in text
    assert "✗ not reproduced The centroids align expected cosine > 0.95 measured 0.90" in text
    assert "First paragraph. Still the first." in text
    assert "seeds [0, 1] of torch 2.0, k 1" in text


def test_hostile_words_stay_words():
    clean, page = Page(render(example())), Page(render(example(HOSTILE)))
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in clean.elements]
    assert f"GrokAlign beats {HOSTILE}" in "".join(page.words)
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_a_page_without_claims_figures_and_details():
    report = Report("t", "s", "i", Table(("a",), (("b",),)))
    page = Page(render(report))
    tags = [attributes.get("id") for _, attributes in page.elements]
    assert "claims" not in tags
    assert "figures" not in tags
    assert UNJUDGED not in "".join(page.words)
    assert UNJUDGED in "".join(Page(render(dataclasses.replace(report, claims=()))).words)


def test_write_replaces_the_page_whole(tmp_path):
    path = tmp_path / "report.html"
    write(example("old"), path)
    write(example("new"), path)
    assert path.read_text(encoding="utf-8") == render(example("new"))
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("columns", "rows", "error", "message"),
    [
        (("a",), (), EmptyError, r"Table\(rows\): expected at least one column and one row, got 1 columns and 0 rows"),
        (("a", "b"), (("1",),), ShapeError, r"Table\(rows\): expected 2 cells in each row, got 1 in row 0"),
    ],
)
def test_table_errors(columns, rows, error, message):
    with pytest.raises(error, match=message):
        Table(columns, rows)


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a report offline; fails the test on any complaint of the page or request out of it."""
    complaints, contexts = [], []

    def open_report(report, width=1280, scheme="light", touch=False):
        write(report, tmp_path / "report.html")
        screen = {"viewport": {"width": width, "height": 900}, "has_touch": touch, "is_mobile": touch}
        context = browser.new_context(color_scheme=scheme, **screen)
        contexts.append(context)
        context.set_offline(True)
        page = context.new_page()
        page.on("console", lambda m: complaints.append(m.text) if complains(m) else None)
        page.on("pageerror", lambda e: complaints.append(str(e)))
        page.on("dialog", lambda d: (complaints.append(d.message), d.dismiss()))
        page.on(
            "request", lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else complaints.append(r.url)
        )
        page.goto((tmp_path / "report.html").as_uri())
        page.wait_for_function(
            "n => document.querySelectorAll('.plot[data-drawn]').length === n", arg=len(report.figures)
        )
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.mark.browser
def test_points_in_rows_can_be_read_off_on_a_phone(opened):
    """The axis had one number, and its title was cut."""
    rows = tuple(f"quantities of group {row}, boosted" for row in range(5))
    points = Points("networks left out", (0.45, 0.6, 0.7, 0.8, 0.86), tuple(map(float, range(5))))
    panels = tuple(
        ScatterPanel(title, "AUROC, mean over families; 0.5 says nothing", "", (points,), rows=rows) for title in "ab"
    )
    page = opened(dataclasses.replace(example("baseline"), figures=(Scatter("s", "Points", "", panels),)), 400)
    (plot,) = [page.locator(".plot").bounding_box()]
    boxes = "all => all.map(e => e.getBoundingClientRect().toJSON())"
    titles = page.locator(".g-xtitle, .g-x2title").evaluate_all(boxes)
    panels_of = page.locator(".annotation, .xtick text, .x2tick text").evaluate_all(boxes)
    assert len(titles) == 2
    for box in titles:
        assert plot["x"] <= box["left"] < box["right"] <= plot["x"] + plot["width"]
        assert box["bottom"] <= plot["y"] + plot["height"]
        assert not any(_overlap(box, other) for other in panels_of)
    for axis in ("xtick", "x2tick"):
        assert page.locator(f".{axis} text").count() >= 3


@pytest.mark.browser
def test_the_details_leave_their_values_room_on_a_phone(opened):
    """Names took two thirds of the width, however short, and values were broken within words."""
    page = opened(example("baseline"), 400)
    wide = "all => all.map(e => { e.closest('details').open = true; return e.getBoundingClientRect().width; })"
    values = page.locator("details dd").evaluate_all(wide)
    assert values
    assert min(values) > 200


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("words", ["baseline", HOSTILE], ids=["plain", "hostile"])
def test_every_figure_draws_at_every_width(opened, width, words):
    report = example(words)
    page = opened(report, width)
    for figure in page.locator("figure").all():
        sizes = figure.locator(".main-svg, canvas").evaluate_all(
            "all => all.map(e => e.getBoundingClientRect().toJSON())"
        )
        assert sizes
        assert all(size["width"] > 250 and size["height"] > 150 for size in sizes)
    curves, images = page.locator("figure").all()
    assert curves.locator(".scatterlayer .js-line").count() == 3
    assert images.locator(".heatmaplayer image").count() == 2
    if words == "baseline":  # the hostile title is longer than any screen
        assert page.evaluate("document.documentElement.scrollWidth") == width
        plot = images.locator(".plot").bounding_box()
        for label in images.locator(".slider-label").all():
            box = label.bounding_box()
            assert plot["x"] <= box["x"] <= box["x"] + box["width"] <= plot["x"] + plot["width"]
        boxes = curves.locator(".annotation").evaluate_all("all => all.map(e => e.getBoundingClientRect().toJSON())")
        assert len(boxes) == 4  # two labels of marks, two titles
        assert all(box["left"] >= 0 and box["right"] <= width for box in boxes)
        assert not any(_overlap(a, b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.browser
def test_a_legend_of_any_length_ends_above_the_first_panel(opened):
    """Its rows are counted here and set by plotly, which has to be told what an entry takes."""

    def figure(lines):
        entries = tuple(Line(f"Q = {k}", (0.0, 1.0), (0.0, float(k)), colour=k % 8, dashed=k > 7) for k in range(lines))
        panel = Panel("The panel", "value", entries)
        return Curves(f"lines-{lines}", f"{lines} lines", "Lines.", "time", (panel,))

    page = opened(dataclasses.replace(example(), figures=tuple(map(figure, range(2, 10)))))
    for place in range(8):
        drawn = page.locator("figure").nth(place)
        legend, title = (drawn.locator(of).bounding_box() for of in (".legend .scrollbox", ".annotation"))
        assert legend["y"] + legend["height"] <= title["y"] + 1, f"{place + 2} lines"


@pytest.mark.browser
def test_a_title_leaves_room_for_the_number_at_the_upper_end(opened):
    """They nearly touched: the title began 3 pixels above the axis, over half of a number that is 13 pixels high."""
    panel = Panel("A panel", "value", (Line("one", (0.0, 1.0), (0.0, 0.06)),), y_range=(0.0, 0.06))
    scattered = ScatterPanel("Points", "x", "y", (Points("all", (0.0, 1.0), (0.0, 1.0)),))
    figures = (
        Curves("curves", "Curves", "Lines.", "step", (panel,)),
        Scatter("scatter", "Scatter", "Points.", (scattered,)),
    )
    page = opened(dataclasses.replace(example(), figures=figures))
    for place in range(2):
        drawn = page.locator("figure").nth(place)
        title = drawn.locator(".annotation-text").bounding_box()
        numbers = [number.bounding_box() for number in drawn.locator(".ytick text").all()]
        assert title["y"] + title["height"] <= min(number["y"] for number in numbers) + 2  # with room below its letters


@pytest.mark.browser
def test_hovering_names_the_step_0_that_is_drawn_at_another_place(opened):
    steps = (0.5, *(10.0**k for k in range(7)), 1234567.0)
    panels = tuple(Panel(name, "", (Line("mean", steps, steps),)) for name in "ab")
    curves = Curves("timeline", "How it moved", "Means.", "step", panels, zero=0.5)
    page = opened(dataclasses.replace(example(), figures=(curves,)))
    hover = """async ([place, axes]) => {
      const plot = document.querySelector(".plot");
      Plotly.Fx.hover(plot, { xval: plot.data[0].x[place] }, axes);
      await new Promise((done) => setTimeout(done, 200));
      return plot.querySelector(".hoverlayer .legend text").textContent;
    }"""
    for axes in ("xy", "x2y2"):
        said = [page.evaluate(hover, [place, axes]) for place in (0, 1, 4, 8)]
        assert said == ["step 0", "step 1", "step 1,000", "step 1,234,567"]
    numbers = page.locator(".xtick text, .x2tick text").all_text_contents()
    assert numbers == ["1", "10", "100", "1,000", "10,000", "100,000", "1,000,000"]


@pytest.mark.browser
def test_the_slider_changes_what_is_shown(opened):
    page = opened(example())
    images = page.locator("figure").nth(1)
    drawn = "() => [...document.querySelectorAll('.heatmaplayer image')].map(e => e.getAttribute('href'))"

    def shown():
        return images.locator(".slider-label").first.text_content(), page.evaluate(drawn)

    assert all(image.startswith("data:image/png") for image in shown()[1])
    first_label, first = shown()
    assert first_label == "step 1100"  # what training came to
    rail = images.locator(".slider-rail-touch-rect")
    rail.scroll_into_view_if_needed()
    box = rail.bounding_box()
    page.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + box["height"] / 2)
    page.wait_for_function(f"first => ({drawn})().some((href, i) => href !== first[i])", arg=first)  # after the label
    moved_label, moved = shown()
    assert moved_label == "step 800"
    assert sum(a != b for a, b in zip(first, moved, strict=True)) == 1  # the digits stay, the net's images change
    images.locator(".plot").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => document.querySelector('.slider-label').textContent === 'step 700'")


@pytest.mark.browser
def test_the_keyboard_plays_from_the_start_and_pauses(opened):
    page = opened(example())
    page.locator("figure").nth(1).locator(".plot").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "▶ Play"
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.slider-label').textContent === 'step 0'")
    page.wait_for_function("() => document.querySelector('.slider-label').textContent === 'step 200'")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Pause"
    page.keyboard.press("Space")
    paused = page.evaluate("document.querySelector('.slider-label').textContent")
    page.wait_for_timeout(700)  # longer than a frame
    assert page.evaluate("document.querySelector('.slider-label').textContent") == paused
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    moved = "label => !['step 0', 'step 100', label].includes(document.querySelector('.slider-label').textContent)"
    page.wait_for_function(moved, arg=paused)  # goes on where it stopped


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_print_holds_all_of_every_figure_in_dark_ink(opened, scheme):
    """At 1,280 pixels a figure is wider than the paper."""
    page = opened(example(), scheme=scheme)
    page.evaluate(WATCH_PRINT)
    paper = page.pdf(format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) > 1
    seen = page.evaluate("window.seen")
    assert [width < 670 for width in seen["widths"]] == [True, True]  # 794 pixels less margins of 1.2 cm and edges
    assert seen["ink"] == "rgb(31, 41, 51)"
    screen = page.locator(".main-svg").evaluate_all("all => all.map(svg => svg.getBoundingClientRect().width)")
    assert all(width > 800 for width in screen)  # and comes back


WATCH_PRINT = """() => addEventListener("beforeprint", () => {
    const svgs = [...document.querySelectorAll(".plot")].map((plot) => plot.querySelector(".main-svg"));
    window.seen = {
        widths: svgs.map((svg) => 0.8 * svg.width.baseVal.value),
        ink: getComputedStyle(document.querySelector(".annotation-text")).fill,
    };
})"""

LET_GO_WHILE_A_FRAME_IS_DRAWN = """plot => {
    const before = plot._fullLayout;
    const wait = () => {
        if (plot._fullLayout === before) setTimeout(wait);
        else plot.dispatchEvent(new MouseEvent("mouseup"));
    };
    plot.on("plotly_sliderstart", () => setTimeout(wait));
    plot.on("plotly_sliderend", () => { plot.dataset.free = "yes"; });
}"""


@pytest.mark.browser
def test_a_slider_let_go_while_a_frame_is_drawn_still_follows(opened):
    """plotly 6 forgets that the mouse is up when the layout is made again between the press and the release."""
    page = opened(example())
    images = page.locator("figure").nth(1)
    plot = images.locator(".plot")
    plot.evaluate(LET_GO_WHILE_A_FRAME_IS_DRAWN)
    rail = images.locator(".slider-rail-touch-rect")
    rail.scroll_into_view_if_needed()
    box = rail.bounding_box()
    page.mouse.move(box["x"] + 0.75 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    images.locator(".plot[data-free]").wait_for()
    plot.press("ArrowLeft")
    page.wait_for_function("() => document.querySelector('.slider-label').textContent === 'step 700'")


@pytest.mark.browser
def test_light_dark_and_width_change_while_open(opened):
    page = opened(example())
    ink = "() => getComputedStyle(document.querySelector('.annotation-text')).fill"
    light = page.evaluate(ink)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"before => ({ink})() !== before", arg=light)
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_function("() => [...document.querySelectorAll('.plot .main-svg')].every(e => e.clientWidth < 400)")
    page.emulate_media(color_scheme="light")
    page.wait_for_function(f"before => ({ink})() === before", arg=light)


def panels():
    """Curves and points whose titles and names are wider than a phone; steps beyond 1,000, and a scale below 1."""
    title = "What is seen in this panel, in so many words that they do not fit on a line"
    line = Line("a", (1.0, 100.0, 10_000.0), (0.0, 1.0, 2.0))
    scale = Line("a", (0.0, 0.5, 1.0), (0.0, 1.0, 2.0))
    points = Points("p", (1.0, 1e6), (0.0, 1.0), values=(0.1, 0.3))
    names = ("short", "<b> & a name of a row that is much too long for a phone")
    marks = (Mark("here", 100.0),)
    return (
        Curves("steps", "Steps", "", "step", (Panel(title, "y", (line,), marks), Panel(title, "y", (line,), marks))),
        Curves("scale", "Scale", "", "σ", (Panel("p", "y", (scale,)),), log_x=False),
        Scatter("rows", "Rows", "", (
            ScatterPanel(title, "x", "", (points,), log_x=True, rows=names), ScatterPanel(title, "x", "y", (points,)),
        ), "warmth"),
    )  # fmt: skip


@pytest.mark.browser
def test_panels_fit_a_phone_and_are_whole_again_where_there_is_room(opened):
    page = opened(dataclasses.replace(example(), figures=panels()), 380)
    layouts = (
        "() => [...document.querySelectorAll('.plot')].map(({ _fullLayout: l }) => [l.width, l.margin.l, l.height])"
    )
    boxes = page.locator(".annotation, .legend .scrollbox, .xtitle, .cbtitle").evaluate_all(
        "all => all.map(e => e.getBoundingClientRect().toJSON())"
    )
    assert all(box["left"] >= 0 and box["right"] <= 380 for box in boxes)
    assert not any(_overlap(a, b) for i, a in enumerate(boxes) for b in boxes[:i])
    width, left, height = page.evaluate(layouts)[2]
    assert left <= 0.45 * width + 1
    steps, scale, rows = page.locator("figure").all()
    assert steps.locator(".x2tick text").all_text_contents() == ["1", "10", "100", "1k", "10k"]
    assert set(scale.locator(".xtick text").all_text_contents()) >= {"0", "0.5", "1"}
    names = rows.locator(".ytick text").all_text_contents()
    assert names[0] == "short"
    assert re.fullmatch("<b> & a name.*…", names[1])
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_function(f"() => ({layouts})().every(([width]) => width > 800)")
    assert tuple(rows.locator(".ytick text").all_text_contents()) == panels()[2].panels[0].rows
    assert page.evaluate(layouts)[2][1] > left
    assert page.evaluate(layouts)[2][2] < height
    assert steps.locator(".x2tick text").all_text_contents()[-1] == "10,000"


def wordy():
    """A map whose classes, moments and lines have long names, and curves of which two names begin alike."""
    square = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0]])
    names = [f"small unit, as proposition 4.2 wants it: {which} cluster" for which in ("first", "second")]
    ways = tuple(Polylines(name, (square,), colour) for colour, name in enumerate(names))
    frames = tuple(RegionFrame(f"s = {k}.000: 75 + 62 to go", (square,) * 3, np.arange(3), ways) for k in range(3))
    classes = ("untruncated", "truncated in part", "truncated")
    panel = Panel("p", "y", tuple(Line(way.label, (1.0, 2.0), (0.0, 1.0), colour=k) for k, way in enumerate(ways)))
    return (
        RegionMap("map", "Map", "", "x", "y", "a point here is", frames, classes=classes),
        Curves("curves", "Curves", "", "step", (panel,)),
    )


@pytest.mark.browser
def test_a_phone_shows_all_of_every_name(opened):
    """Names that begin alike became the same, those below the bar overprinted, and the moment was cut."""
    page = opened(dataclasses.replace(example(), figures=wordy()), 390)
    right = page.locator(".plot").first.evaluate("plot => plot.getBoundingClientRect().right")
    for words in page.locator(".legendtext, .slider-label, .cbaxis text").all():
        box = words.bounding_box()
        assert 0 <= box["x"] < box["x"] + box["width"] <= right, words.text_content()
    boxes = page.locator(".cbaxis text").evaluate_all("all => all.map(e => e.getBoundingClientRect().toJSON())")
    assert len(boxes) == 3
    assert not any(_overlap(a, b) for i, a in enumerate(boxes) for b in boxes[:i])
    for figure in page.locator("figure").all():
        legend, title = (figure.locator(of).first.bounding_box() for of in (".legend .scrollbox", ".annotation"))
        assert legend["y"] + legend["height"] <= title["y"] + 1
    lines = page.locator(".legendtext").first.locator("tspan")
    assert lines.count() == 2
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_function("() => !document.querySelector('.legendtext tspan')")
    assert page.locator(".slider-label").first.evaluate("label => getComputedStyle(label).fontSize") == "18px"


@pytest.mark.browser
@pytest.mark.parametrize("touch", [True, False])
def test_a_finger_on_a_chart_scrolls_the_page_and_a_mouse_zooms(opened, touch):
    page = opened(dataclasses.replace(example(), figures=panels()[:2]), 380, touch=touch)
    assert page.evaluate("document.querySelector('.plot')._fullLayout.dragmode") == (False if touch else "zoom")
    page.locator(".nsewdrag").first.scroll_into_view_if_needed()
    box, before = page.locator(".nsewdrag").first.bounding_box(), page.evaluate("scrollY")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    if not touch:
        return
    finger = page.context.new_cdp_session(page)
    finger.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for moved in range(0, 250, 25):
        finger.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [{"x": x, "y": y - moved}]})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_function("before => scrollY > before + 100", arg=before)


def film():
    """A point that moves along a line above a face."""
    face = np.array([[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
    path = Polylines("path", (np.array([[0.0, 0.0, 4.0], [4.0, 4.0, 4.0]]),), dashed=True)
    frames = tuple(
        SpaceFrame(label, (SpacePoints("point", (np.array([[x, x, 4.0]]),)), path, SpaceFaces("face", (face,), 1)))
        for label, x in (("early", 0.0), ("late", 4.0))
    )
    return Space("film", "A point moves", "Over a face.", "east", "north", "up", frames)


@pytest.mark.browser
def test_a_film_in_space_fits_a_phone_and_stays_as_it_was_turned(opened):
    page = opened(Report("t", "s", "i", Table(("a",), (("b",),)), figures=(film(),)), width=390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    space = page.locator(".plot canvas").bounding_box()
    assert 250 < space["width"] == space["height"] < 390
    eye = "() => Object.values(document.querySelector('.plot').layout.scene.camera.eye)"
    first = page.evaluate(eye)
    middle = space["x"] + space["width"] / 2, space["y"] + space["height"] / 2
    page.mouse.move(*middle)
    page.mouse.wheel(0, 40)  # scrolls the page
    page.wait_for_function("() => scrollY === 40")
    assert page.evaluate(eye) == first
    page.mouse.down()
    page.mouse.move(middle[0] + 60, middle[1], steps=4)
    page.mouse.up()
    page.wait_for_function(f"first => ({eye})().some((place, i) => Math.abs(place - first[i]) > 0.1)", arg=first)
    turned = page.evaluate(eye)
    page.locator(".plot").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('.slider-label').textContent === 'late'")
    assert page.evaluate("() => document.querySelector('.plot').data[0].x[0]") == 4.0
    assert page.evaluate(eye) == pytest.approx(turned)
    page.mouse.dblclick(*middle)
    page.wait_for_function(f"first => ({eye})().every((place, i) => Math.abs(place - first[i]) < 1e-6)", arg=first)


def complains(message):
    return message.type in {"error", "warning"} and not any(words in message.text for words in SLOW)


def _overlap(a, b):
    apart = a["right"] <= b["left"] or b["right"] <= a["left"] or a["bottom"] <= b["top"] or b["bottom"] <= a["top"]
    return not apart


def test_numbers_of_a_cell_are_not_broken_at_the_sign_of_their_exponent(tmp_path):
    rows = (("a", "2.1e-09 (1e-09 to <4.8e-08)", ""), ("b", "3-5", "never"))
    write(Report("t", "s", "i", Table(("", "R", "S"), rows)), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    number = '<span class="number">{}</span>'.format
    cell = f"{number('2.1e-09')} ({number('1e-09')}\u00a0to\u00a0&lt;{number('4.8e-08')})"
    assert f'<td data-head="R"><span>{cell}</span></td><td data-head="S"></td>' in page
    assert '<td data-head="R"><span>3-5</span></td>' in page
