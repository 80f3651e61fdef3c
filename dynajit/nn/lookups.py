"""`embedding` and `embedding_bag` of `nn.functional`: they shorten rows of their table.

Contract: what capture inlines, unlike the library's functions: so it sees the writes, as it does
any write of the program's own. The arithmetic is `ops.functions.networks.embedding`.
"""

from collections.abc import Callable
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.core.process.late import Late
from dynajit.eager.modes.grad_mode import is_grad_enabled, no_grad
from dynajit.ops.calls.public import public
from dynajit.ops.functions.networks.embedding import bagged, looked_up, shortened_rows

sparse_gradients = Late("dynajit.eager.sparse.gradients")


@public("nn.functional")
def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Rows of weight at the integers in input.

    Args:
        input: (*) of integers.
        weight: (n, d).
        padding_idx: a row that gets no gradient, or None.
        max_norm: longer rows among those looked up are shortened in place, to this norm.
        norm_type: which norm.
        scale_grad_by_freq: whether a row's gradient is divided by how often it is looked up.
        sparse: whether the gradient of weight is a sparse tensor, of the rows looked up.

    Returns:
        (*, d).

    Raises:
        UnsupportedError: `sparse` together with `scale_grad_by_freq`, where a gradient is recorded.
        ExpectationError: there is no row `padding_idx`.
        BoundsError: there is no such row.
    """
    if max_norm is not None:
        _shorten(input, weight, max_norm, norm_type)
    return _looking_up(weight, sparse)(input, weight, padding_idx, scale_grad_by_freq)


@public("nn.functional")
def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Sums, means or maxima of looked-up rows, one per bag; zeros for empty bags.

    Args:
        input: integers (bags, size), or (samples) with `offsets`.
        weight: (n, d).
        offsets: (bags): where each bag begins, 0 first; None with two dims.
        max_norm, norm_type, scale_grad_by_freq, sparse: see `embedding`.
        mode: "sum", "mean" or "max".
        per_sample_weights: factors of the rows, of the input's shape; with "sum" only.
        include_last_offset: whether one more offset says where the last bag ends.
        padding_idx: a row that counts in no bag, or None.

    Returns:
        (bags, d).

    Raises:
        InvalidValueError: ranks, shapes or the mode do not fit.
        ShapeError: bags that do not begin at 0, or not within the input.
        UnsupportedError: weights of samples with another mode than "sum"; `sparse` as above.
    """
    if sparse and mode == "max":
        raise InvalidValueError("max mode does not support sparse weights")
    if max_norm is not None:
        _shorten(input, weight, max_norm, norm_type)
    look_up = _looking_up(weight, sparse)
    return bagged(
        input, weight, offsets, scale_grad_by_freq, mode, look_up, per_sample_weights,
        include_last_offset, padding_idx,
    )  # fmt: skip


def _looking_up(weight: Any, sparse: bool) -> Callable[..., Any]:
    """What looks rows up: eagerly, if there will be a sparse gradient."""
    will_be = sparse and weight.requires_grad and is_grad_enabled()
    return sparse_gradients.looked_up if will_be else looked_up


def _shorten(input: Any, weight: Any, max_norm: float, norm_type: float) -> None:
    with no_grad():
        positions, rows = shortened_rows(input, weight, max_norm, norm_type)
        weight.index_copy_(0, positions, rows)
