"""central-path: free features flow into neural collapse, each of two flows along its closed form (proposition 2)."""

from gnomon_lab.papers.mse_collapse.central_path.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
