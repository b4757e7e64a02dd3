"""How the vectors of the classes stand to each other: lengths and angles."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon.errors import ShapeError
from gnomon.linalg import length, unit


def variation_of_lengths(**named: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    """The coefficient of variation of the lengths of the vectors, which come under the argument's name."""
    (vectors,) = named.values()
    _checks.rows(**named)
    _checks.finite(**named)
    lengths = length(vectors)
    # A ratio, so that the largest can be divided out: squares neither overflow nor underflow.
    largest = lengths.detach().amax()
    lengths = lengths / torch.where(largest > 0, largest, 1)
    mean = lengths.mean()
    return lengths.std(correction=0) / torch.where(mean > 0, mean, 1)


def pair_cosines(**named: Float[Tensor, "k p"]) -> Float[Tensor, "q"]:
    """The cosines of all q = k(k - 1)/2 pairs of different vectors."""
    vectors = at_least_two(**named)
    first, second = torch.triu_indices(len(vectors), len(vectors), 1, device=vectors.device)
    directions = unit(vectors)
    return (directions @ directions.mT)[first, second]


def distance_from_simplex(**named: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    """The mean distance of the cosines of all pairs from that of a simplex, -1/(k - 1)."""
    (vectors,) = named.values()
    return (pair_cosines(**named) + 1 / (len(vectors) - 1)).abs().mean()


def distance_of_cosines(vectors: Float[Tensor, "k p"], wanted: Float[Tensor, "k k"]) -> Float[Tensor, ""]:
    """The Frobenius norm of the difference of the cosines between all vectors from those wanted."""
    directions = unit(vectors)
    return torch.linalg.matrix_norm(directions @ directions.mT - wanted)


def at_least_two(**named: Float[Tensor, "k p"]) -> Float[Tensor, "k p"]:
    """The vectors, if they are finite, and two or more."""
    ((argument, vectors),) = named.items()
    _checks.rows(**named)
    _checks.finite(**named)
    if len(vectors) < 2:
        raise ShapeError(
            argument,
            "vectors (k, p) of at least 2 classes",
            f"shape {_checks.shape_of(vectors)}",
            "Pass one for each class.",
        )
    return vectors
