"""The documentation is true: its code runs, its examples hold, its errata can be computed."""

import dataclasses
import doctest
import importlib
import inspect
import linecache
import math
import pkgutil
import re
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import get_args

import pytest
import torch
from docs.captions import with_captions
from docs.sections import with_index
from matplotlib import pyplot
from torch import nn
from torch.nn import functional

import gnomon
import gnomon.regions
from gnomon import GrokAlign, centroid, centroid_alignment, centroid_inner_product, input_jacobian, jacobian_alignment
from gnomon._kinds import is_ours
from gnomon.data import xor_clusters
from gnomon.models import mlp
from gnomon_lab.papers import EXPERIMENTS
from tests.drawn import normal

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DRAWN = ROOT / "docs" / "assets" / "quantities"
MAPS = {"regions.slice_regions", "regions.decision_boundary"}
"""Drawn, and no quantities."""
MODULES = ["gnomon", *(module.name for module in pkgutil.walk_packages(gnomon.__path__, "gnomon."))]


@pytest.fixture(autouse=True)
def closed():
    """The figures of a page's code: of more than twenty matplotlib warns."""
    yield
    pyplot.close("all")


@pytest.mark.bad_input
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    names = {"__name__": page.stem}
    with torch.random.fork_rng():
        for block in blocks:
            exec(compile(block, page.name, "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_is_as_narrow_as_a_page(page):
    """The column of text holds 90 letters; what is printed there, under `text`, goes on in the next line."""
    fence = re.compile(r"^( *)```(\w*)(?: title=.*?)?\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
    fences = fence.findall(page.read_text(encoding="utf-8"))
    code = [line for _, language, block in fences if language != "text" for line in block.splitlines()]
    assert [line for line in code if len(line) > 90] == []


def test_the_pages_muon_gets_no_embedding():
    page = (ROOT / "docs" / "quantities" / "steer.md").read_text(encoding="utf-8")
    (block,) = (b for b in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE) if "Muon(" in b)
    names = {"torch": torch, "model": nn.Sequential(nn.Embedding(50, 8), nn.LayerNorm(8), nn.Linear(8, 8))}
    exec(block, names)
    table, *norm, matrix, bias = names["model"].parameters()
    muon, adamw = ({*optimizer.param_groups[0]["params"]} for optimizer in names["optimizers"])
    assert (muon, adamw) == ({matrix}, {table, *norm, bias})


@pytest.mark.bad_input
def test_the_alignment_of_the_first_code_rises_with_the_accuracy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for page in (ROOT / "README.md", ROOT / "docs" / "index.md"):
        block = re.search(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)[1]
        names = {}
        with torch.random.fork_rng():
            exec(compile(block, page.name, "exec"), names)
        accuracy, alignment = (names["probe"].history[name] for name in ("accuracy", "jacobian_alignment"))
        assert accuracy[0] < 0.2 < 0.95 < accuracy[-1]
        assert 2 * alignment[0] < alignment[-1]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_hold(name):
    linecache.clearcache()  # doctest looks at every file that is in it
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_every_public_name_has_its_section():
    index = with_index((ROOT / "docs" / "quantities.md").read_text(encoding="utf-8"))
    listed = re.findall(r"^\| \[`(\w+)`\]\(quantities/\w+\.md#gnomon\.\1\) \| \S.+ \|$", index, re.MULTILINE)
    assert sorted(listed) == sorted(gnomon.__all__)


def test_an_experiments_figures_have_their_captions():
    folder = ROOT / "docs" / "experiments"
    page = with_captions((folder / "which-lambda.md").read_text(encoding="utf-8"), folder)
    assert '{ .figure }\n\n<p class="caption">Steps to the goal as a multiple' in page
    assert "of <code>usual</code>, errors" in page
    drawn = "![No caption](../assets/experiments/steering-tasks.svg){ .figure }"
    assert with_captions(drawn, folder) == drawn


def test_every_quantity_begins_with_three_lines_on_how_to_read_it():
    """So do those beside `gnomon.measure` that have a picture of a healthy run and an unhealthy one."""
    section = (
        r"Reading:\n    Low, high: \S(?:.+\n {8})*.+\n    Generalising: (?:.+\n {8})*.+\n    Misleads: (?:.+\n {8})*.+"
    )
    quantities = {name for name in gnomon.measure.__all__ if name.islower()} | {
        path.stem for path in DRAWN.glob("*.svg")
    }
    docstrings = {name: inspect.getdoc(attrgetter(name)(gnomon)) for name in quantities - MAPS}
    parts = {name: docstring.split("\n\n")[1] for name, docstring in docstrings.items()}
    assert [name for name, part in parts.items() if re.fullmatch(section, part) is None] == []


def own_classes(annotation):
    """gnomon's classes in an annotation."""
    parts = get_args(annotation)
    own = {annotation} if isinstance(annotation, type) and is_ours(annotation) else set()
    return own.union(*map(own_classes, parts))


def test_every_class_that_a_public_name_gives_is_public():
    public = {getattr(gnomon, name) for name in gnomon.__all__}
    given = {thing for thing in public if inspect.isfunction(thing)}
    for kind in public - given:
        members = [part for name, part in vars(kind).items() if not name.startswith("_")]
        given |= {part.fget if isinstance(part, property) else part for part in members}
        fields = [field.type for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
        assert own_classes(tuple[*fields]) <= public, kind.__name__
    for function in filter(inspect.isfunction, given):
        assert own_classes(inspect.signature(function).return_annotation) <= public, function.__qualname__


def test_every_name_of_regions_has_its_section():
    page = (ROOT / "docs" / "regions.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^::: gnomon\.regions\.(\w+)$", page, re.MULTILINE)) == set(gnomon.regions.__all__)


def test_every_link_of_the_navigation_exists_and_every_page_is_in_it():
    listed = re.findall(r"^ +- .*?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    pages = [*PAGES[1:], *(path.with_suffix(".md") for path in (ROOT / "docs" / "notebooks").glob("*.ipynb"))]
    assert sorted(listed) == sorted(page.relative_to(ROOT / "docs").as_posix() for page in pages)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_shows_its_figure(name):
    page = ROOT / "docs" / "experiments" / f"{name}.md"
    assert page.is_file(), f"docs/experiments/{name}.md: expected the page of the experiment"
    figures = re.findall(r"^!\[[^\]]+\]\((\S+)\)\{ \.figure \}$", page.read_text(encoding="utf-8"), re.MULTILINE)
    line = f"![what it shows](../assets/experiments/{name}.svg){{ .figure }}"
    assert figures, f"docs/experiments/{name}.md: expected a figure, on lines of its own: {line}"
    missing = [figure for figure in figures if not (page.parent / figure).is_file()]
    assert missing == [], f"docs/experiments/{name}.md: expected files for its figures, copied from the run's figures/"


# docs/errata.md, row by row.


def test_theorem_2_mse_has_minimisers_that_are_not_aligned():
    x, across = normal(6), normal(6, seed=1)
    across -= (across @ x) / (x @ x) * x
    label, other = torch.eye(10, dtype=torch.float64)[:2]
    alpha = 2 / (x @ x)
    jacobian = torch.outer(label, x) / (x @ x) + torch.outer(other, across / across.norm()) / x.norm()
    torch.testing.assert_close(jacobian @ x, label)
    torch.testing.assert_close(jacobian.square().sum(), alpha)
    alignment = jacobian_alignment(jacobian[None], x[None]).item()
    torch.testing.assert_close(alignment, math.sqrt(0.5))
    of_the_proof = torch.outer(label, x) * alpha.sqrt() / x.norm()
    loss = (of_the_proof @ x - label).square().sum().item()
    torch.testing.assert_close(loss, (math.sqrt(2) - 1) ** 2)


def test_theorem_2_cross_entropy_has_zero_centroids():
    outputs, label, alpha, x = 10, 4, 3.0, normal(6)
    free = normal(outputs, 6, seed=1).requires_grad_()
    settings = {"max_iter": 1000, "tolerance_grad": 1e-14, "tolerance_change": 1e-16}
    optimizer = torch.optim.LBFGS([free], line_search_fn="strong_wolfe", **settings)

    def constrained():
        return math.sqrt(alpha) * free / free.norm()

    def closure():
        optimizer.zero_grad()
        loss = functional.cross_entropy((constrained() @ x)[None], torch.tensor([label]))
        loss.backward()
        return loss

    optimizer.step(closure)
    jacobian = constrained().detach()
    assert jacobian.sum(0).norm() < 1e-6 * jacobian.norm()
    torch.testing.assert_close(jacobian_alignment(jacobian[None], x[None]), torch.ones(1, dtype=torch.float64))
    expected = torch.full((outputs,), -math.sqrt(alpha / (outputs * (outputs - 1))), dtype=torch.float64)
    expected[label] = math.sqrt(alpha * (outputs - 1) / outputs)
    torch.testing.assert_close(jacobian @ x / x.norm(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("factors", "cosine"), [((1.0, 1.0), 1.0), ((1.0, -2.0), -1.0), ((1.0, -1.0), 0.0)])
def test_proposition_6_says_nothing_of_the_sign(factors, cosine):
    x = normal(1, 6)
    jacobian = torch.tensor(factors, dtype=torch.float64)[None, :, None] * x[:, None]
    torch.testing.assert_close(jacobian_alignment(jacobian, x), torch.ones(1, dtype=torch.float64))
    expected = torch.tensor([cosine], dtype=torch.float64)
    torch.testing.assert_close(centroid_alignment(jacobian.sum(1), x), expected)


def test_aligned_centroids_do_not_make_aligned_jacobians():
    x, across = torch.tensor([[1.0, 0.0]]).double(), torch.tensor([[0.0, 3.0]]).double()
    jacobian = torch.stack([x + across, x - across], 1)
    torch.testing.assert_close(centroid_alignment(jacobian.sum(1), x).item(), 1.0)
    torch.testing.assert_close(jacobian_alignment(jacobian, x).item(), 1 / math.sqrt(10))


def share_of_pairs_against_a_power_diagram(model, x):
    """Of the pairs from regions with different centroids, those with a negative product of the differences."""
    sites = centroid(model, x).detach()
    apart = sites[:, None] - sites
    products = ((x[:, None] - x) * apart).sum(-1)
    return (products[apart.norm(dim=-1) > 1e-9] < -1e-9).double().mean().item()


def test_centroids_are_sites_of_one_power_diagram_only_for_convex_sums():
    turned = nn.Sequential(nn.ReLU(), nn.Linear(1, 1, bias=False)).double()
    nn.init.constant_(turned[1].weight, -1)
    assert share_of_pairs_against_a_power_diagram(turned, torch.tensor([[1.0], [-1.0]]).double()) == 1
    shares = []
    for seed in range(20):
        model = mlp((2, 16, 3), generator=torch.Generator().manual_seed(seed)).double()
        x = normal(500, 2, seed=seed)
        shares.append(share_of_pairs_against_a_power_diagram(model, x))
        with torch.no_grad():
            model[2].weight.abs_()
        assert share_of_pairs_against_a_power_diagram(model, x) == 0
    assert [round(value, 2) for value in (min(shares), median(shares), max(shares))] == [0.03, 0.47, 0.85]


def test_omitting_biases_is_not_enough_for_zero_offsets():
    model, x = nn.Hardtanh(), torch.tensor([[2.0]])
    offset = model(x) - (input_jacobian(model, x) * x).sum(-1)
    torch.testing.assert_close(offset, torch.ones(1, 1))


def test_the_inner_product_moves_under_a_constant_kernel():
    model, x, labels = nn.Linear(4, 1, bias=False).double(), normal(8, 4), (normal(8, seed=1) > 0).double()
    kernel = x @ x.T  # of the gradients in the weight, whatever the weight is
    residual = labels - model(x)[:, 0].sigmoid().detach()
    before = centroid_inner_product(centroid(model, x), x).detach()
    functional.binary_cross_entropy_with_logits(model(x)[:, 0], labels).backward()
    with torch.no_grad():
        model.weight -= 0.1 * model.weight.grad
    moved = centroid_inner_product(centroid(model, x), x).detach() - before
    torch.testing.assert_close(moved, 0.1 / 8 * kernel @ residual)
    assert moved.norm() > 0.01
    torch.testing.assert_close(before + moved, model(x)[:, 0].detach())


def test_alignment_stays_where_the_outputs_double():
    model, x = mlp((5, 8, 3), generator=torch.Generator().manual_seed(0)).double(), normal(6, 5)
    once = centroid(model, x).detach()
    torch.testing.assert_close(centroid_alignment(2 * once, x), centroid_alignment(once, x))
    change = (centroid_inner_product(2 * once, x) - centroid_inner_product(once, x)) / (
        x.norm(dim=1) * once.norm(dim=1)
    )
    torch.testing.assert_close(change, centroid_alignment(once, x))


def test_a_network_that_ignores_the_noise_of_xor_is_hardly_aligned():
    x = xor_clusters(5, 40_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64).x
    signal = torch.cat([x[:, :2], torch.zeros_like(x[:, 2:])], 1)
    expected = torch.full((5,), math.sqrt(2 / 101.995), dtype=torch.float64)
    torch.testing.assert_close(centroid_alignment(signal, x), expected)
    assert round(expected[0].item(), 3) == 0.140


def test_one_projection_is_low_by_the_closed_form():
    def factor(outputs):
        ratio = math.lgamma(outputs / 2) - math.lgamma((outputs + 1) / 2)
        return math.sqrt(outputs / math.pi) * math.exp(ratio)

    torch.testing.assert_close([factor(10), factor(10**6)], [0.818049, math.sqrt(2 / math.pi)], rtol=1e-5, atol=0)
    x = normal(40_000, 2)
    for weight, expected in ((torch.outer(normal(10), normal(2, seed=1)), factor(10)), (torch.eye(2).double(), 1.0)):
        model = nn.Linear(2, len(weight), bias=False).double()
        model.weight = nn.Parameter(weight)
        ratio = GrokAlign(1.0, generator=torch.Generator().manual_seed(0))(model, x) / weight.norm()
        # The standard deviation of one draw is below the mean's: five standard errors of 40,000.
        torch.testing.assert_close(ratio.item(), expected, rtol=0, atol=5 * math.sqrt(1 - expected**2) / 200 + 1e-12)


def test_theorem_4_and_lemmas_7_and_8_hold():
    model, x, other = mlp((5, 16, 1)).double(), normal(1, 5), normal(1, 5, seed=1)
    first, second = model[0].weight.detach(), model[2].weight.detach()

    def gradient(sample):
        return torch.cat([g.flatten() for g in torch.autograd.grad(model(sample).sum(), list(model.parameters()))])

    on = [(first @ sample[0] > 0).double() for sample in (x, other)]
    rows = torch.autograd.functional.jacobian(lambda sample: model(sample)[0], x)[:, 0]
    torch.testing.assert_close(centroid(model, x)[0].detach(), rows.sum(0))
    torch.testing.assert_close(centroid(model, x)[0].detach(), (second * on[0] @ first).T @ torch.ones(1).double())
    kernel = (first @ x[0]).relu() @ (first @ other[0]).relu() + (x[0] @ other[0]) * (second * on[0] * on[1] @ second.T)
    torch.testing.assert_close(kernel.squeeze(), gradient(x) @ gradient(other))


# docs/quantities/jacobian.md, "Centroids under cross-entropy".


def test_cross_entropy_does_not_see_the_centroid():
    jacobian, x, row = normal(7, 10, 5), normal(7, 5, seed=1), normal(7, 1, 5, seed=2)
    labels = torch.arange(7)

    def loss(jacobian):
        return functional.cross_entropy(torch.einsum("ncd,nd->nc", jacobian, x), labels)

    torch.testing.assert_close(loss(jacobian + row), loss(jacobian))
    torch.testing.assert_close((jacobian + row).sum(1), jacobian.sum(1) + 10 * row[:, 0])
    sites = jacobian.sum(1, keepdim=True)
    rest = (jacobian - sites / 10).square().sum((1, 2))
    torch.testing.assert_close(jacobian.square().sum((1, 2)), rest + sites.square().sum((1, 2)) / 10)
