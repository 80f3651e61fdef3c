"""Functions of `torch` that few programs call: losses by number, cells, settings, symbolic numbers.

Contract: as PyTorch's. Losses and layers are those of `nn.functional` with their arguments in the
order of PyTorch's own bindings, where a reduction is a number (0, by default: none, 1: mean, 2:
sum). Settings of what does not exist here are kept, or answer that it is not there. Published under
these names by `dynajit`.
"""

import builtins
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final

from dynajit.core.errors import (
    ArgumentError,
    ArgumentRuntimeError,
    InvalidValueError,
    InvalidValueRuntimeError,
    ShapeError,
)
from dynajit.core.process.warning import Once
from dynajit.core.refusals import refused_function
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import SymInt as _SymInt
from dynajit.eager import _tensor
from dynajit.eager.modes.defaults import set_default_device, set_default_dtype
from dynajit.eager.operations.storages import BY_DTYPE, CLASSES, TypedStorage  # noqa: F401
from dynajit.eager.tape import anomaly
from dynajit.eager.tensor.shared_memory import frombuffer  # noqa: F401
from dynajit.eager.tensor.tensor import Tensor
from dynajit.eager.tensor.typed_names import type_named
from dynajit.namespaces.late_names import FURTHER, QUANTIZED
from dynajit.nn import functional as F
from dynajit.ops import functions
from dynajit.ops.calls.placing import as_computed
from dynajit.ops.functions.arrangement.arrangement import elements_at, strided_extent
from dynajit.ops.functions.creation.creation import strided_count
from dynajit.ops.functions.matrices.norm import matrix_norm, vector_norm
from dynajit.ops.functions.networks.recurrent import (  # noqa: F401
    gru_cell,
    lstm_cell,
    rnn_relu_cell,
    rnn_tanh_cell,
)
from dynajit.ops.functions.shapes.index import unsafe_chunk, unsafe_split  # noqa: F401
from dynajit.ops.table.overriding import publish_overridable
from dynajit.utils.dlpack import to_dlpack  # noqa: F401

newaxis: Final = None
row_stack = functions.vstack
dsmm = functions.spmm

# -- layers and losses ---------------------------------------------------------------------------

_REDUCTIONS: Final = ("none", "mean", "sum")


def _reduction(number: int) -> str:
    if number not in builtins.range(len(_REDUCTIONS)):
        raise InvalidValueError(f"reduction={number!r}: expected 0 (none), 1 (mean) or 2 (sum).")
    return _REDUCTIONS[number]


def embedding(
    weight: Any,
    indices: Any,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Rows of weight (n, d) at indices (*) -> (*, d); a negative `padding_idx` means none."""
    padding = padding_idx if padding_idx >= 0 else None
    return F.embedding(
        indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
    )


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """See `nn.functional.bilinear`."""
    return F.bilinear(input1, input2, weight, bias)


def batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """See `nn.functional.batch_norm`; `cudnn_enabled` has no effect."""
    return F.batch_norm(
        input, running_mean, running_var, weight, bias, training, momentum=momentum, eps=eps
    )


def instance_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """See `nn.functional.instance_norm`; `cudnn_enabled` has no effect."""
    return F.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def kl_div(input: Any, target: Any, reduction: int = 0, *, log_target: bool = False) -> Any:
    """See `nn.functional.kl_div`; reduction: see the module."""
    return F.kl_div(input, target, reduction=_reduction(reduction), log_target=log_target)


def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0
) -> Any:
    """See `nn.functional.cosine_embedding_loss`; reduction: see the module."""
    name = _reduction(reduction)
    return F.cosine_embedding_loss(input1, input2, target, margin=margin, reduction=name)


def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: int = 0) -> Any:
    """See `nn.functional.hinge_embedding_loss`; reduction: see the module."""
    return F.hinge_embedding_loss(input, target, margin=margin, reduction=_reduction(reduction))


def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0
) -> Any:
    """See `nn.functional.margin_ranking_loss`; reduction: see the module."""
    name = _reduction(reduction)
    return F.margin_ranking_loss(input1, input2, target, margin=margin, reduction=name)


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 0,
) -> Any:
    """See `nn.functional.triplet_margin_loss`; reduction: see the module."""
    name = _reduction(reduction)
    return F.triplet_margin_loss(
        anchor, positive, negative, margin=margin, p=p, eps=eps, swap=swap, reduction=name
    )


def poisson_nll_loss(
    input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int
) -> Any:
    """See `nn.functional.poisson_nll_loss`; reduction: see the module."""
    name = _reduction(reduction)
    return F.poisson_nll_loss(
        input, target, log_input=log_input, full=full, eps=eps, reduction=name
    )


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
) -> Any:
    """See `nn.functional.ctc_loss`; reduction: see the module."""
    lengths, name = (input_lengths, target_lengths), _reduction(reduction)
    return F.ctc_loss(
        log_probs, targets, *lengths, blank=blank, reduction=name, zero_infinity=zero_infinity
    )


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 0
) -> Any:
    """See `nn.functional.binary_cross_entropy_with_logits`; reduction: see the module."""
    name = _reduction(reduction)
    return F.binary_cross_entropy_with_logits(
        input, target, weight=weight, pos_weight=pos_weight, reduction=name
    )


def alpha_dropout(input: Any, p: float, train: bool) -> Any:
    """See `nn.functional.alpha_dropout`."""
    return F.alpha_dropout(input, p, train)


def feature_alpha_dropout(input: Any, p: float, train: bool) -> Any:
    """See `nn.functional.feature_alpha_dropout`."""
    return F.feature_alpha_dropout(input, p, train)


def dropout_(input: Any, p: float, train: bool) -> Any:
    """Dropout, in place."""
    return F.dropout(input, p, train, inplace=True)


def selu_(input: Any) -> Any:
    """`nn.functional.selu`, in place."""
    return F.selu(input, inplace=True)


def celu_(input: Any, alpha: float = 1.0) -> Any:
    """`nn.functional.celu`, in place."""
    return F.celu(input, alpha, inplace=True)


def threshold_(input: Any, threshold: float, value: float) -> Any:
    """`nn.functional.threshold`, in place."""
    return F.threshold(input, threshold, value, inplace=True)


# -- norms ---------------------------------------------------------------------------------------


def frobenius_norm(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The root of the sum of squares along dims; None: all."""
    return vector_norm(input, 2, dim, keepdim)


def nuclear_norm(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The sum of the singular values of matrices in two dims; None: of a matrix."""
    return matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim)


def fill(input: Any, value: Any) -> Any:
    """A tensor like `input` whose elements are all `value`, a number or a tensor without dims."""
    return input.clone().fill_(value)


def constant_pad_nd(input: Any, pad: Sequence[int], value: Any = 0) -> Any:
    """`nn.functional.pad` by a number: (before, after) of the last dim, then the one before it."""
    return F.pad(input, pad, value=value)


def as_strided_scatter(
    input: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None
) -> Any:
    """A copy of the input, row by row, with src at the elements of `as_strided`.

    Raises:
        ShapeError: elements lie outside of the input.
    """
    places = functions.arange(input.numel(), device=input.device)
    offset = storage_offset or 0
    strided_extent(size, stride, offset, input.numel())
    chosen = elements_at(places, size, stride, offset).reshape(-1)
    flat = src.expand(tuple(size)).reshape(-1)
    written = functions.index_copy(input.reshape(-1), 0, chosen, flat)
    return as_computed(written.reshape(tuple(input.shape)), input)


def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Any:
    """`nonzero` with `size` rows: those that are too many are left out, others have `fill_value`.

    Shape: (size, rank). It needs the contents.
    """
    found = functions.nonzero(input)[:size]
    missing = functions.full(
        (size - found.shape[0], found.shape[1]),
        fill_value,
        dtype=found.dtype,
        device=found.device,
    )
    return functions.cat([found, missing])


_GRID_MODES: Final = ("bilinear", "nearest", "bicubic")
_GRID_PADDINGS: Final = ("zeros", "border", "reflection")


def grid_sampler(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """`nn.functional.grid_sample`, whose modes are numbers: 0 bilinear, 1 nearest, 2 bicubic;
    0 zeros, 1 border, 2 reflection.

    Raises:
        InvalidValueError: another number.
    """
    for name, number, known in (
        ("interpolation_mode", interpolation_mode, _GRID_MODES),
        ("padding_mode", padding_mode, _GRID_PADDINGS),
    ):
        if number not in builtins.range(len(known)):
            raise InvalidValueError(f"grid_sampler: {name}={number!r}.  Expected 0, 1 or 2.")
    return F.grid_sample(
        input, grid, _GRID_MODES[interpolation_mode], _GRID_PADDINGS[padding_mode], align_corners
    )


grid_sampler_2d = grid_sampler_3d = grid_sampler


def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """The norm along all dims but one, which stay with size 1; dim -1: along all."""
    if dim == -1:
        return functions.norm(v, pow)
    dims = tuple(d for d in builtins.range(v.ndim) if d != dim % v.ndim)
    return functions.norm(v, pow, dims, True) if dims else functions.abs(v)


# -- making tensors ------------------------------------------------------------------------------


def empty_strided(size: Any, stride: Any, **options: Any) -> Any:
    """Zeros that lie in memory by strides; options as of `empty`.

    Raises:
        ShapeError: sizes and strides differ in number.
    """
    requires_grad = options.pop("requires_grad", False)
    count = strided_count(size, stride)
    made = functions.empty(count, **options).as_strided(size, stride)
    _tensor.forget_base(made)
    return made.requires_grad_(True) if requires_grad else made


def empty_permuted(size: Any, physical_layout: Any, **options: Any) -> Any:
    """Zeros whose dims lie in memory in an order, from the outermost to the innermost.

    Raises:
        ShapeError: the order does not name every dim once.
    """
    order = tuple(physical_layout)
    if sorted(order) != list(builtins.range(len(size))):
        raise ShapeError(
            f"empty_permuted: physical_layout={order} of size {tuple(size)}.  Expected every dim "
            "once."
        )
    requires_grad = options.pop("requires_grad", False)
    made = functions.empty(tuple(size[d] for d in order), **options)
    made = made.permute(tuple(order.index(d) for d in builtins.range(len(order))))
    return made.requires_grad_(True) if requires_grad else made


def range(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """start, start + step, ... up to `end` inclusive, of floats; `arange` leaves `end` out.

    Raises:
        InvalidValueError: step is 0, or goes away from `end`.
    """
    if end is None:
        start, end = 0, start
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end).",
        UserWarning,
        stacklevel=2,
    )
    if not step or (end - start) * step < 0:
        raise InvalidValueRuntimeError(
            f"range({start}, {end}, {step}): upper bound and lower bound inconsistent with step "
            "sign, or step is 0.  Expected a step that leads from start to end."
        )
    kind = dtype or dtypes.default_floating()
    if all(isinstance(number, int) for number in (start, end, step)):
        made = functions.arange(start, end + (1 if step > 0 else -1), step, device=device).to(kind)
    else:
        index = functions.arange(int((end - start) / step) + 1, dtype=dtypes.float64, device=device)
        made = (index * step + start).to(kind)
    return made.requires_grad_() if requires_grad else made


def set_default_tensor_type(t: Any) -> None:
    """Take the default dtype and device from a class of tensors, or from its name; the device by
    default is then the CPU's, or the current GPU.

    Raises:
        ArgumentError: its elements are no floats.
        DeviceError: it is on a GPU, and there is none.
    """
    dtype, is_cuda = type_named(t)
    set_default_dtype(dtype)
    set_default_device("cuda" if is_cuda else None)


def get_device(input: Any) -> int:
    """The number of a tensor's GPU; -1: it is on the CPU."""
    return int(input.get_device())


def is_distributed(input: Any) -> bool:
    """False: no tensor is."""
    return False


def typename(obj: Any) -> str:
    """The name of a tensor's class by element type, or the dotted name of an object's class."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", "") or ""
    is_plain = module in ("", "builtins", "__builtin__")
    return named.__qualname__ if is_plain else f"{module}.{named.__qualname__}"


# -- settings ------------------------------------------------------------------------------------


class _Settings:
    """What programs may set, and read again. Mutable: they do."""

    interop_threads = 1


def set_warn_always(b: bool) -> None:
    """Let warnings that are shown once in a process be shown each time; Python's filters decide
    about these, too."""
    Once.is_always = bool(b)


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was given."""
    return Once.is_always


def set_num_interop_threads(num: int) -> None:
    """Keep the number: operations run one after the other.

    Raises:
        InvalidValueError: it is not positive.
    """
    if num <= 0:
        raise InvalidValueError(f"set_num_interop_threads({num}): expected a positive integer")
    _Settings.interop_threads = int(num)


def get_num_interop_threads() -> int:
    """What `set_num_interop_threads` was given; 1."""
    return _Settings.interop_threads


def set_flush_denormal(mode: bool) -> bool:
    """False: subnormal numbers are not flushed to zero."""
    return False


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """See `autograd.set_detect_anomaly`."""
    anomaly.set_detect_anomaly(mode, check_nan)


def is_anomaly_enabled() -> bool:
    """Whether anomalies of backward are looked for."""
    return anomaly.is_detecting() is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Whether NaN is among them."""
    return anomaly.is_detecting() is not False


# -- symbolic numbers ----------------------------------------------------------------------------


class _Number(type):
    """Class of the classes of symbolic numbers: what programs see of sizes are plain numbers."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return cls is SymInt and isinstance(instance, _SymInt)

    def __call__(cls, node: Any) -> Any:
        raise TypeError(f"{cls.__name__}(node): sizes are plain numbers.  Use the number.")


class SymInt(metaclass=_Number):
    """Sizes of a graph that are not known; for `isinstance`."""


class SymFloat(metaclass=_Number):
    """There are none; for `isinstance`."""


class SymBool(metaclass=_Number):
    """There are none; for `isinstance`."""


def sym_int(a: Any) -> Any:
    """A number, rounded towards zero."""
    return int(a)


def sym_float(a: Any) -> Any:
    """A number as a float."""
    return float(a)


def sym_max(a: Any, b: Any) -> Any:
    """The larger number; a float if one of them is."""
    larger = max(a, b)
    return float(larger) if isinstance(a, float) or isinstance(b, float) else larger


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number; a float if one of them is."""
    smaller = min(a, b)
    return float(smaller) if isinstance(a, float) or isinstance(b, float) else smaller


def sym_not(a: Any) -> Any:
    """`not a`."""
    return not a


def sym_sum(args: Sequence[Any]) -> Any:
    """The sum of numbers."""
    return builtins.sum(args)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """t if b, else f; both of one type.

    Raises:
        ArgumentError: they are not.
    """
    if type(t) is not type(f):
        raise ArgumentError(
            f"sym_ite: expected two numbers of one type, got {type(t).__name__} and "
            f"{type(f).__name__}."
        )
    return t if b else f


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()
) -> Any:
    """`true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`.

    Args:
        pred: a bool, or a tensor with one element.

    Raises:
        ArgumentRuntimeError: `pred` is neither.
    """
    is_truth = isinstance(pred, (builtins.bool, SymBool)) or (
        isinstance(pred, Tensor) and pred.numel() == 1
    )
    if not is_truth:
        raise ArgumentRuntimeError(f"cond: expected pred to be bool or tensor, but got {pred}.")
    return true_fn(*operands) if pred else false_fn(*operands)


# -- what is refused -----------------------------------------------------------------------------

_WHY_QUANTIZED = "quantized tensors are not available.  Compute with floating or integer tensors."
_refused: dict[str, Callable[..., Any]] = {
    **{name: refused_function(name, _WHY_QUANTIZED) for name in QUANTIZED},
}
globals().update(_refused)
globals().update({name: BY_DTYPE[dtype] for name, dtype in CLASSES.items()})
Storage = BY_DTYPE[dtypes.float32]

__all__ = list(FURTHER)

_OF_TENSORS = (
    "alpha_dropout", "as_strided_scatter", "batch_norm", "bilinear",
    "binary_cross_entropy_with_logits",
    "constant_pad_nd", "cosine_embedding_loss", "ctc_loss", "embedding", "feature_alpha_dropout",
    "fill", "frobenius_norm", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "gru_cell",
    "hinge_embedding_loss", "instance_norm", "kl_div", "lstm_cell", "margin_ranking_loss",
    "nonzero_static", "norm_except_dim", "nuclear_norm", "poisson_nll_loss", "rnn_relu_cell",
    "rnn_tanh_cell", "triplet_margin_loss", "unsafe_chunk", "unsafe_split",
)  # fmt: skip
publish_overridable(globals(), _OF_TENSORS)
publish_overridable(globals(), ("empty_permuted", "empty_strided"), take_any_data=True)
