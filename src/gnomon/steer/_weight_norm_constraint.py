"""A constraint on the weights' norm, which holds it after each step of the optimizer."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.errors import EmptyError, RangeError, public, within
from gnomon.steer._attach import attach_after, detach
from gnomon.steer._parameters import joint_norm, named, not_the_state, require_entries


class WeightNormConstraint:
    r"""Holds the joint norm of all parameters at a multiple of its initial value.

    $\theta \leftarrow \frac{\alpha\|\theta_0\|}{\|\theta\|}\,\theta$ after each step of the optimizer

    Call it after each step, and with $\alpha \ne 1$ once before the first forward pass:

        constraint = WeightNormConstraint(model.parameters(), alpha=0.5)
        constraint()
        ...
        optimizer.step()
        constraint()

    Or `constraint.attach(optimizer)`, if a framework makes the steps: it is then called after each of them, the norm is
    in `optimizer.state_dict()`, and a resumed run holds the same. With $\alpha \ne 1$ make and call it before weights
    are loaded, as in the constructor of a LightningModule, whose `configure_optimizers`, in which it is attached, comes
    after that: else a resumed run starts from trained weights times $\alpha$.

    According to the paper, a network generalises late where the norm of its weights is above that of the solutions that
    generalise, and at once where it is held there. Biases are parameters too; pass only the weights to hold these
    alone.

    Source:
        Liu et al., arXiv:2210.01117, whose code holds all parameters of the MNIST network, and the decoder's of the one
        for modular addition.
    Args:
        parameters: `model.named_parameters()`, or `model.parameters()`, which leaves errors without names; those that
            are frozen when this is made are left alone.
        alpha: α > 0; the paper's scans go from 0.1 to 10.
    Raises:
        RangeError: if alpha is out of range, a tensor is not a parameter, or is given twice; if the norm is zero, NaN
            or infinite.
        EmptyError: if there are no parameters, or all are frozen.
    Cost: O(p) time.
    Example:
        >>> import torch, gnomon
        >>> w = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> constraint = gnomon.WeightNormConstraint([w], alpha=2.0)
        >>> optimizer = torch.optim.SGD([w], lr=1.0)
        >>> constraint.attach(optimizer)
        >>> w.grad = torch.tensor([3.0, 0.0])
        >>> optimizer.step()  # To (0, 4), whose norm is 4, and then to the norm 10.
        >>> w.tolist()
        [0.0, 10.0]
    """

    @full_precision
    def __init__(self, parameters: Iterable[Tensor | tuple[str, Tensor]], alpha: float = 1.0) -> None:
        _checks.settings(_checks.above_0("alpha", alpha))
        self._parameters = [(name, parameter) for name, parameter in named(parameters) if parameter.requires_grad]
        if not self._parameters:
            raise EmptyError("parameters", "one that requires gradients", "none", "Unfreeze what is to be trained.")
        self.norm = alpha * self._now()

    @public
    @torch.no_grad()
    def __call__(self) -> None:
        """Rescales the parameters in place.

        Raises:
            RangeError: if their norm is zero, NaN or infinite; then nothing has been changed.
        """
        scale = self.norm / self._now()
        for _, parameter in self._parameters:
            parameter.mul_(scale.to(parameter.device))

    def attach(self, optimizer: torch.optim.Optimizer) -> None:
        """Rescales after each step of the optimizer from now on, and is saved in its `state_dict`.

        It does not rescale immediately. To resume, attach before the optimizer's `load_state_dict`, which otherwise
        leaves this state out without a word; a copy of the optimizer, or a pickle, has nothing attached.
        `torch.distributed.checkpoint` omits the state, as it does Grokfast's: save it separately, load both, and attach
        then.

        Raises:
            TypeError: if it is not an optimizer.
            RangeError: if the optimizer is LBFGS, which compares gradients at points between which the weights are
                rescaled; if it lacks one of the parameters, or has a method already.
            CheckpointError: on loading, if the optimizer's state has no method's state in it.
        """
        with within("WeightNormConstraint.attach"):
            attach_after(self, optimizer, self._parameters)

    def detach(self) -> None:
        """Leaves the optimizer, whose steps and `state_dict` are plain from now on; nothing if it is not attached.

        The norm is kept: attached again, it is held again. What is saved in between is loaded before attaching.
        """
        detach(self)

    def state_dict(self) -> dict[str, Any]:
        """The norm that is held."""
        return {"norm": self.norm}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Holds that norm from then on.

        Raises:
            CheckpointError: if it is a state of something else.
        """
        require_entries(state_dict, "WeightNormConstraint", norm=Tensor)
        norm = state_dict["norm"]
        if norm.ndim or norm.is_complex() or not 0 < norm < math.inf:
            got = f"{norm.item():.3g}" if norm.numel() == 1 else f"shape {tuple(norm.shape)}"
            raise not_the_state("a norm that is one number, finite and above 0", got, "WeightNormConstraint")
        self.norm = norm.to(self.norm)

    def _now(self) -> Tensor:
        norm = joint_norm(parameter.detach() for _, parameter in self._parameters)
        if not 0 < norm < math.inf:
            raise RangeError(
                "parameters",
                "a norm above 0 and finite",
                f"{norm.item():.3g}",
                "A diverged network is the usual cause of a large one; a zero one has no direction.",
            )
        return norm
