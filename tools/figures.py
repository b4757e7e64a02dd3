"""The figures of the experiments' pages, drawn again from docs/records: `python tools/figures.py [NAME ...]`.

A name is that of a file in docs/assets, such as `experiments/rank-paper`. Figures whose run is not kept are not listed
below, and stay as they are.
"""

import argparse
import tarfile
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from gnomon_lab.figures import Figure
from gnomon_lab.papers import experiment
from gnomon_lab.report.drawing import save
from gnomon_lab.report.over_seeds import figures_over_seeds
from gnomon_lab.runs import Found, all_runs
from gnomon_lab.runs.files import replace_file

DOCS = Path(__file__).parent.parent / "docs"
FIGURES = {
    "anatomy": "anatomy/3c3d3924-seed0/anatomy",
    "anatomy-order": "anatomy/3c3d3924-seeds/order-over-seeds",
    "grok-digits": "grok-digits/805ddd2f-seed0/curves",
    "experiments/accelerate": "accelerate/ce92d9b9-seed0/cross-entropy",
    "experiments/anatomy-order-small": "anatomy/4f42a8d7-seeds/order-over-seeds",
    "experiments/central-path": "central-path/96a87089-seed0/growth-10x100x64",
    "experiments/clustered-flow": "clustered-flow/1b4e2b4d-seed0/digits",
    "experiments/collapsed-flow": "collapsed-flow/7a73cc30-seed0/losses",
    "experiments/delayed-robustness": "delayed-robustness/916a5132-seed0/curves",
    "experiments/elsewhere": "elsewhere/21714ef9-seed0/accuracies",
    "experiments/general-flow": "general-flow/731eb7c3-seed0/general-flow",
    "experiments/grok-digits": "grok-digits/805ddd2f-seed0/centroids",
    "experiments/inhibit": "inhibit/618bee0f-seed0/inhibit",
    "experiments/init-scaling": "init-scaling/67fcc962-seed0/scaling",
    "experiments/layer-denoising": "layer-denoising/9da13cdf-seed0/layers",
    "experiments/kernel-linearisation": "kernel-linearisation/1a719902-seed0/ridges",
    "experiments/lazy-penalty-paper": "lazy-penalty/a1c41587-seeds/less-time",
    "experiments/linear-rfm": "linear-rfm/3e0066b3-seed0/distance-exact",
    "experiments/modular-addition": "modular-addition/f9b61ae1-seeds/fixed-seeds",
    "experiments/modular-addition-learned": "modular-addition/3f80b382-seed0/learned",
    "experiments/mse-collapse": "mse-collapse/c84c08c8-seed0/collapse-fashion_mnist-resnet18",
    "experiments/mse-collapse-loss": "mse-collapse/c84c08c8-seed0/loss-fashion_mnist-resnet18",
    "experiments/mse-vs-ce": "mse-vs-ce/78b14834-seed0/losses-fashion_mnist-resnet18",
    "experiments/mse-vs-ce-long": "mse-vs-ce/a0080c21-seed0/losses-fashion_mnist-resnet18",
    "experiments/nfa": "nfa/16d52514-seed0/nfa",
    "experiments/ntk-regime": "ntk-regime/708e1b2d-seed0/regime",
    "experiments/rank": "rank/32048b29-seed0/mse",
    "experiments/rank-paper": "rank/3405c76c-seed0/cross-entropy",
    "experiments/rank-paper-mse": "rank/a8d89d35-seed0/mse",
    "experiments/rfm-addition": "rfm-addition/a8e62321-seed0/curves",
    "experiments/row-alignment": "row-alignment/1606749f-seed0/cross-entropy",
    "experiments/steering": "steering/d4995e6b-seeds/less-time",
    "experiments/truncation": "truncation/d88c80b0-seed0/film-2-collapse",
    "experiments/truncation-bias": "truncation-bias/b529c426-seed0/rates-digits",
    "experiments/truncation-practice": "truncation-practice/4964ab1c-seed0/clusters",
    "experiments/verdict": "verdict/9fa129d7-seed0/verdict",
    "experiments/which-lambda": "which-lambda/f37539a3-seed0/coefficients",
    "experiments/xor": "xor/ec8d0c05-seed0/GrokAlign",
    "experiments/xor-weight-decay": "xor/ec8d0c05-seed0/weight-decay",
}
"""Which figure of which run, or of all seeds of a setting, a file shows."""


def figures_of(runs: Mapping[str, Found], folder: str) -> Iterable[Figure]:
    """The figures of a run, or of all seeds of a setting, by the folder that `gnomon report` would write them to."""
    digest, _, seed = folder.rpartition("-")
    if seed != "seeds":
        return experiment(runs[folder].experiment).figures(runs[folder].records())
    found = [run for name, run in runs.items() if name.startswith(f"{digest}-seed")]
    seeds = [run.records() for run in sorted(found, key=lambda run: run.seed)]
    return figures_over_seeds(experiment(found[0].experiment), seeds)


def redraw(names: Collection[str]) -> None:
    """Draws some files of FIGURES."""
    with TemporaryDirectory() as root:
        for kept in {FIGURES[name].partition("/")[0] for name in names}:
            with tarfile.open(DOCS / "records" / f"{kept}.tar.xz") as opened:
                opened.extractall(root, filter="data")
        runs = {"/".join(run.folder.parts[-2:]): run for run in all_runs(Path(root))[0]}
        for name in names:
            folder, _, wanted = FIGURES[name].rpartition("/")
            figure = next(figure for figure in figures_of(runs, folder) if figure.name == wanted)
            replace_file(DOCS / "assets" / f"{name}.svg", partial(save, figure))
            print(f"{name}.svg")


def main() -> None:
    """Draws those that are named, by default all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="files in docs/assets, without .svg; default: all")
    given = parser.parse_args().names
    if unknown := [name for name in given if name not in FIGURES]:
        parser.error(f"names: expected some of {', '.join(FIGURES)}, got {', '.join(unknown)}")
    redraw(given or FIGURES)


if __name__ == "__main__":
    main()
