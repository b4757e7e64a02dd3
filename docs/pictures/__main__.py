"""Draws what each quantity looks like in a healthy and in an unhealthy run: `python docs/pictures [NAME ...]`.

Without names all pictures are drawn. The numbers that a caption must name are printed, and stand in the picture's
description; `tests/unit/test_pictures.py` holds the captions of the pages against them.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import torch
from drawing import HEIGHT, STYLE, WIDTH, save
from matplotlib.figure import Figure
from runs import ADDITION, CLUSTERS, COLLAPSE, DIGITS
from table import PICTURES

FOLDER = Path(__file__).parents[1] / "assets" / "quantities"


def main(names: Sequence[str]) -> None:
    """Trains the pairs that the pictures need, draws them, and prints the numbers for the captions."""
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    chosen = {name: PICTURES[name] for name in names or PICTURES}
    for pair in (DIGITS, COLLAPSE, ADDITION, CLUSTERS):
        mine = {name: picture for name, picture in chosen.items() if picture.pair is pair}
        if not mine:
            continue
        start = time.process_time()
        runs = pair.runs(sorted({key for picture in mine.values() for key in picture.keys}))
        print(f"{', '.join(pair.arms)}: {time.process_time() - start:.0f} s of processor time", flush=True)
        for arm, run in runs.items():
            print(f"  {arm}: {run.correct()}")
        for name, picture in mine.items():
            with matplotlib.rc_context(STYLE):
                figure = Figure(figsize=(WIDTH / 96, HEIGHT / 96), dpi=96, facecolor="white")
                numbers = picture.draw(figure, runs)
                message = "; ".join(f"{arm}: {numbers[arm]}" for arm in numbers)
                metadata = {"Title": name, "Description": message, "Date": None, "Creator": "gnomon"}
                save(figure, FOLDER / f"{name}.svg", metadata)
            print(f"  {name}  {message}")


if __name__ == "__main__":
    main(sys.argv[1:])
