import os

import pytest
import torch

# Small networks are slower and less repeatable with more threads; child processes inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(1)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def pytest_collection_modifyitems(items):
    """Tests that are marked so need the folder of data sets; `.ci/run` has it."""
    if not os.environ.get("GNOMON_DATA"):
        for item in items:
            if item.get_closest_marker("data"):
                item.add_marker(pytest.mark.skip(reason="no folder of data sets: set GNOMON_DATA"))
