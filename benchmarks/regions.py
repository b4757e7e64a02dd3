"""Linear regions of a plane, beside SplineCam (Humayun et al., CVPR 2023).

SplineCam needs graph-tool, which is not on PyPI, and is not run here: its times are those that
were measured on a machine of this kind with graph-tool 2.45, one thread: 0.7 s for 447 regions (2-20-20-2), 8.7 s for
6,248 (2-50-50-50-2), 1.0 s for 324 (784-200-200-200-2), with affine maps in float32. It is compared by the time a
region, since the networks are not the same draws.
"""

from functools import partial
from pathlib import Path

import torch

from gnomon.models import mlp
from gnomon.regions import Plane, plane_through, slice_regions
from gnomon_lab.figures import Points, Scatter, ScatterPanel
from gnomon_lab.report.drawing import save
from timing import keep, median_seconds

SPLINECAM = {(2, 20, 20, 2): (447, 0.7), (2, 50, 50, 50, 2): (6248, 8.7), (784, 200, 200, 200, 2): (324, 1.0)}
"""Regions and seconds."""


def plane_of(widths, generator):
    """The whole plane, or the one through three inputs."""
    if widths[0] == 2:
        return Plane(torch.zeros(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64))
    return plane_through(*torch.randn(3, widths[0], generator=generator, dtype=torch.float64))


def beside_splinecam():
    """The three networks on boxes that hold about as many regions."""
    print("\nLinear regions, one thread, float64; SplineCam's figures as stated above")
    all_took = {}
    for widths, half in (((2, 20, 20, 2), 2.2), ((2, 50, 50, 50, 2), 2.2), ((784, 200, 200, 200, 2), 1.2)):
        generator = torch.Generator().manual_seed(0)
        model, plane = mlp(widths, bias=True, generator=generator).double(), plane_of(widths, generator)
        seconds, regions = median_seconds(partial(slice_regions, model, plane, (-half, half, -half, half)), rounds=7)
        count, theirs = SPLINECAM[widths]
        ratio = (theirs / count) / (seconds / len(regions))
        name = "-".join(map(str, widths))
        all_took[f"{name}, {len(regions):,} regions"] = seconds
        print(f"  {name:<22} {len(regions):>7,} regions {1e3 * seconds:9.1f} ms   {ratio:6.1f} x SplineCam's speed")
    keep("Linear regions, float64", all_took, rounds=7, clock="processor")


def over_decades(path):
    """Time against regions times units: no steeper than a straight line, as a cell meets few of the units."""
    print("\nSeconds against regions x units, 2-w-w-w-2")
    generator = torch.Generator().manual_seed(0)
    plane, work, took = plane_of((2,), generator), [], []
    for width in (20, 40, 80, 160, 320, 600):
        model = mlp((2, width, width, width, 2), bias=True, generator=generator).double()
        seconds, regions = median_seconds(
            partial(slice_regions, model, plane, (-2.5, 2.5, -2.5, 2.5), max_regions=2_000_000), rounds=1
        )
        work.append(len(regions) * 3.0 * width)
        took.append(seconds)
        each = 1e9 * seconds / work[-1]
        print(f"  width {width:>4} {len(regions):>9,} regions {seconds:8.2f} s   {each:7.1f} ns a region and unit")
    proportional = tuple(took[0] * this / work[0] for this in work)
    points = (
        Points("slice_regions", tuple(work), tuple(took), joined=True),
        Points("proportional", tuple(work), proportional, joined=True, colour=6),
    )
    panel = ScatterPanel("2-w-w-w-2, w = 20 to 600", "regions × units", "seconds", points, log_x=True, log_y=True)
    caption = "Time to find all linear regions of a plane's part, one thread, against regions times units."
    save(Scatter("regions-time", "Time grows no faster than regions times units", caption, (panel,)), path)


if __name__ == "__main__":
    beside_splinecam()
    over_decades(Path(__file__).parents[1] / "docs" / "assets" / "regions-time.svg")
