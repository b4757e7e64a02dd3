import os

import pytest
import torch

# Small networks are slower and less repeatable with more threads; child processes inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(1)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)
