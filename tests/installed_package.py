"""What a wheel and an sdist hold, and whether what was installed from them works outside the checkout.

`make package` builds both, the wheel from the sdist, and runs this file from an empty folder, in an environment into
which nothing but the wheel was installed.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", "constraints.txt"]
BESIDE = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", ".gitignore"}
"""What an sdist holds beside `src`."""
MEGABYTES = 3.5
"""Neither may be larger; the corpus of trainings behind the verdict is more than half of it."""

READ = """
import time
from pathlib import Path

start = time.perf_counter()
import torch
import gnomon
from gnomon.data import digits, standardise
from gnomon.models import mlp

assert "site-packages" in Path(gnomon.__file__).parts, gnomon.__file__


def network():
    return mlp((64, 32, 10), generator=torch.Generator().manual_seed(0))


def trained(model, x, labels):
    # A training loop, of which the lines with a number are what gnomon takes.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    from gnomon import Probe, accuracy, jacobian_norm, nc1  # 1
    probe = Probe(model, (x, labels), [accuracy, jacobian_norm, nc1])  # 2
    for step in range(101):
        probe(step)  # 3
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), labels).backward()
        optimizer.step()
    figure, _ = probe.history.plot()  # 4
    figure.savefig("plot.png")  # 5
    return probe.history["accuracy"][-1]


if __name__ == "__main__":
    train, _ = standardise(*digits(100, generator=torch.Generator().manual_seed(0)))
    model = network()
    assert trained(model, *train) > 0.95
    torch.save(model.state_dict(), "network.pt")
    spent = f"{time.perf_counter() - start:.1f} s, {time.process_time():.1f} s of processor"
    print(f"five lines to a plot of one's own network: {spent}, with all imports")
    assert time.perf_counter() - start < 60
"""


def sources():
    """All files of the packages, by their place in a wheel."""
    folder = CHECKOUT / "src"
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix() for path in found if ".egg-info" not in path.as_posix()}


def archives():
    """Checks what the wheel and the sdist hold, and prints their sizes."""
    (wheel,), (sdist,) = (list((CHECKOUT / "dist").glob(f"gnomon-*{ending}")) for ending in (".whl", ".tar.gz"))
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == sources(), held ^ sources()
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    expected = BESIDE | {f"src/{name}" for name in sources()}
    assert held == expected, held ^ expected
    for path in (wheel, sdist):
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")
        assert path.stat().st_size < MEGABYTES * 1e6
    return wheel


def run(*command, cwd=None, code=0):
    """What a command prints, which has to end with this exit code."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def main():
    """Prints what was found; anything else than what is promised raises."""
    wheel = archives()
    gnomon = str(Path(sys.executable).with_name("gnomon"))
    said = run(gnomon, "list", code=2)
    print(said.strip())
    (requirement,) = re.findall(r"pip install '(.+)' in the folder of gnomon's sources", said)
    run(*PIP, requirement, cwd=CHECKOUT)  # what the error advises
    run(*PIP, "--force-reinstall", "--no-deps", str(wheel), cwd=CHECKOUT)

    Path("mine.py").write_text(READ, encoding="utf-8")
    print(run(sys.executable, "mine.py").strip())
    assert Path("plot.png").stat().st_size > 1e4
    print(run(gnomon, "run", "grok-digits", "--steps", "200"))
    (page,) = Path("runs").rglob("report.html")
    assert page.stat().st_size > 4e6  # with plotly's script
    measured = run(gnomon, "measure", "network.pt", "--model", "mine:network", "--data", "digits", "--report", "m.html")
    print(measured)
    assert "jacobian_norm" in measured
    assert Path("m.html").stat().st_size > 1e4
    shutil.rmtree("runs")


if __name__ == "__main__":
    main()
