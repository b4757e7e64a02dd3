import functools
import gc
import inspect
import os
from collections import Counter
from pathlib import Path

import jaxtyping
import pytest
import torch

# Small networks are slower and less repeatable with more threads; child processes inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(1)


UNITS = Path(__file__).parent / "unit"
# Calls of one function in one test whose shapes are checked; those of a loop, of which there are thousands, are alike.
CHECKED = 5
calls: Counter[object] = Counter()


def pytest_configure(config):
    """Shapes are checked where a function names them; jaxtyping would wrap all, those within others at every call."""
    if config.getoption("jaxtyping_packages", None):
        jaxtyping.jaxtyped = functools.partial(_where_named, jaxtyping.jaxtyped)


def _where_named(jaxtyped, *context, **typechecker):
    """What the import hook writes above every function and class of gnomon."""
    checked = jaxtyped(*context, **typechecker)
    return checked if context else lambda each: _at_first(each, checked(each)) if _names_shapes(each) else each


def _names_shapes(each):
    function = each.__init__ if isinstance(each, type) else getattr(each, "__func__", getattr(each, "fget", each))
    kinds = getattr(function, "__annotations__", {}).values()
    return "<locals>" not in function.__qualname__ and any("jaxtyping." in repr(kind) for kind in kinds)


def _at_first(each, checked):
    """The function with its first calls checked; a class or a property as it is, checked."""
    if not inspect.isfunction(each):
        return checked

    @functools.wraps(each)
    def called(*args, **kwargs):
        if jaxtyping.config.jaxtyping_disable or calls[each] == CHECKED:
            return each(*args, **kwargs)
        calls[each] += 1
        return checked(*args, **kwargs)

    return called


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Shapes are checked in the tests of units, but for those that are marked."""
    calls.clear()
    marked = item.get_closest_marker("bad_input") or item.get_closest_marker("unchecked")
    jaxtyping.config.update("jaxtyping_disable", UNITS not in item.path.parents or marked is not None)
    return (yield)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported stays; else the garbage collector goes through a million objects again and again."""
    gc.disable()
    found = yield
    gc.enable()
    gc.freeze()
    return found


def pytest_collection_modifyitems(items):
    """What is marked so needs the folder of data sets: `.ci/run` has it."""
    if not os.environ.get("GNOMON_DATA"):
        for item in items:
            if item.get_closest_marker("data"):
                item.add_marker(pytest.mark.skip(reason="no folder of data sets: set GNOMON_DATA"))
