"""The empirical neural tangent kernel."""

from typing import overload

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.autodiff import gradient_kernel
from gnomon.errors import RangeError, ShapeError
from gnomon.linalg import Estimate
from gnomon.measure._estimates import Accuracy, warn_if_inaccurate
from gnomon.measure._mixtures import kernel_between


@overload
def ntk(
    model: nn.Module,
    x: Shaped[Tensor, "n *d"],
    x2: Shaped[Tensor, "m *d"] | None = None,
    *,
    trace: bool = True,
    memory: int | None = None,
) -> Float[Tensor, "n m"] | Float[Tensor, "n m c c"]: ...
@overload
def ntk(
    model: nn.Module,
    x: Shaped[Tensor, "n *d"],
    x2: Shaped[Tensor, "m *d"] | None = None,
    *,
    rtol: float | int,
    passes: int | None = None,
    seed: int = 0,
    memory: int | None = None,
) -> Estimate: ...
@full_precision
def ntk(
    model: nn.Module,
    x: Shaped[Tensor, "n *d"],
    x2: Shaped[Tensor, "m *d"] | None = None,
    *,
    trace: bool = True,
    rtol: float | int | None = None,
    passes: int | None = None,
    seed: int = 0,
    memory: int | None = None,
) -> Float[Tensor, "n m"] | Float[Tensor, "n m c c"] | Estimate:
    r"""The empirical neural tangent kernel: inner products of the outputs' gradients in the parameters.

    Reading:
        Low, high: Its size says how fast outputs learn, its pattern which samples learn together. Compare it only with
            its own value at the start, for instance by `cka`.
        Generalising: On digits its alignment with the start falls to 0.65 as a network groks, and to 0.96 in one that
            memorised.
        Misleads: A plain cosine, without centring: it is 0.92 to 0.96 for two untrained networks on 32 digits, whose
            alignment is 0.88 to 0.93, and on more digits less.

    $\Theta_{kl}(x, x') = \langle\nabla_\theta f_k(x), \nabla_\theta f_l(x')\rangle$, traced
    $\Theta(x, x') = \sum_k \Theta_{kk}(x, x')$

    The trace is the sum over the outputs. neural-tangents, among others, divides it by their number: divide this by c
    to compare. Parameters that do not require gradients do not count; hooks registered on the others change
    these gradients as they do in training. Follows torch's grad mode: inside `torch.no_grad()` the result has no graph
    and the memory budget holds; otherwise it can be differentiated in the parameters, and the graph of all samples is
    kept.

    With an accuracy the trace is an estimate, with an error for each entry and without a graph: the mean of the kernels
    of random mixtures of the outputs, each of which costs as much as a network with one output. For 128 outputs or
    fewer it is exact.

    Source:
        Jacot et al. 2018; Walker et al., arXiv:2506.12284, section 3. The methods of computing it: Novak et al., Fast
        finite width neural tangent kernel, 2022. The estimate of the trace: Hutchinson 1990.
    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the samples of the rows; token indices will do, as nothing is differentiated by them.
        x2: the samples of the columns; default: x, and then only half is computed.
        trace: whether to sum over equal outputs; otherwise the kernel is full.
        rtol: the error over the largest value at which the estimation stops, such as 0.05; default: no estimate.
        passes: for an estimate, the largest number of mixtures; at least 16; default: 256. A warning says if they do
            not suffice.
        seed: for an estimate, the seed of the mixtures, which are drawn independently of training's random numbers.
        memory: bytes to use beyond the result; default: 512 MiB. Samples are processed in blocks that fit.
    Returns:
        Traced, (n m): entry `[i, j]`. Full, (n m c c): entry `[i, j, k, l]` for output k at sample i of x and output l
        at sample j of x2. Positive semidefinite where x2 is x. Unit: outputs squared per parameter squared. For a
        linear layer without bias it is $\langle x, x'\rangle$ times the identity.
    Raises:
        ShapeError: if the outputs are not (n, c), or x2 has other axes than x.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity; if an accuracy is requested for the full kernel.
        UnsupportedModuleError: if in training mode BatchNorm mixes the samples or Dropout draws random numbers, if
            nothing is trainable, or if a layer outside the linear ones cannot be mapped over samples.
    Cost: c backward passes over the samples. Linear layers from a to h called once on one row per sample take
        O(n m (a + c h)), with no Jacobian formed; other parameters, p of them, take O(n m c p) (full: c² instead of c)
        by contraction of Jacobians, or, where it is cheaper, c m Jacobian-vector products over x. With an accuracy the
        number of mixtures replaces c, about 32 at 5 %: from about 250 outputs on that is faster. Precision: a sum of p
        terms; float32 gives about six digits of the largest entry. Half precision gives its own two or three: its
        gradients are rounded to it, and multiplied and summed in float32.
    Example:
        >>> import torch, gnomon
        >>> layer = torch.nn.Linear(2, 3, bias=False)
        >>> with torch.no_grad():
        ...     gnomon.ntk(layer, torch.tensor([[1.0, 2.0], [0.0, 1.0]]))
        tensor([[15.,  6.],
                [ 6.,  3.]])
    """
    _checks.samples(1, x=x)
    _checks.finite(x=x)
    if x2 is not None:
        _checks.samples(1, x2=x2)
        _checks.finite(x2=x2)
        if x2.shape[1:] != x.shape[1:]:
            raise ShapeError(
                "x2",
                f"samples of shape {tuple(x.shape[1:])} as in x",
                tuple(x2.shape[1:]),
                "Pass samples of one kind.",
            )
    if rtol is None:
        kernel = gradient_kernel(model, x, x2, trace=trace, memory=memory)
        _checks.finite(ntk=kernel)
        return kernel
    if not trace:
        raise RangeError("trace", "True where rtol is given", trace, "Leave out rtol: the whole kernel is exact.")
    accuracy = Accuracy.of(rtol, passes, seed)
    found = kernel_between(model, x, x2, accuracy, memory)
    _checks.finite(ntk=found.value)
    return warn_if_inaccurate("ntk", found, accuracy, found.value.abs().amax().expand_as(found.value))
