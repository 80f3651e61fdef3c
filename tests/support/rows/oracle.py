"""PyTorch as the referee of the op table: which function a row corresponds to, and how to compare.

`function(op)` is a callable that takes torch tensors, numbers and the row's attributes, or None
where PyTorch is not installed or has no such function.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.ops import Kind, Op
from tests.support.rows.samples import Sample

try:
    import torch
except ImportError:
    torch = None


def from_numpy(array: Any) -> Any:
    """A torch tensor with a copy of the array."""
    if array.dtype == dtypes.bfloat16.numpy:
        return torch.tensor(np.array(array, np.float32)).to(torch.bfloat16)
    return torch.tensor(np.array(array))


def to_torch(operands: Any) -> list[Any]:
    """Arrays as tensors; numbers and None as they are."""
    return [from_numpy(x) if isinstance(x, np.ndarray) else x for x in operands]


def attributes(own: dict[str, Any]) -> dict[str, Any]:
    """The row's attributes with torch's dtypes and without the device."""
    result = {}
    for name, value in own.items():
        if isinstance(value, DType):
            result[name] = getattr(torch, value.name)
        elif name != "device":
            result[name] = value
    return result


def to_numpy(tensor: Any) -> np.ndarray:
    """The tensor's array; bfloat16 as ml_dtypes' bfloat16."""
    tensor = tensor.detach().resolve_conj().contiguous()
    if tensor.dtype is torch.bfloat16:
        return np.asarray(tensor.to(torch.float32).numpy()).astype(dtypes.bfloat16.numpy)
    return np.asarray(tensor.numpy())


def function(op: Op) -> Callable[..., Any] | None:
    """The PyTorch function of a row, with the row's calling convention."""
    if torch is None:
        return None
    if op.name in CALLS:
        return CALLS[op.name]
    if op.kind is Kind.POINTWISE:
        return functools.partial(_pointwise, getattr(torch, op.name))
    if op.kind is Kind.REDUCTION:
        return functools.partial(_reduction, getattr(torch, op.name))
    return None


def _tensors(*operands: Any) -> Any:
    """The operands, numbers as tensors, in one shape."""
    return torch.broadcast_tensors(*(torch.as_tensor(x) for x in operands))


def _is_drawn(uniform: Any, p: Any) -> Any:
    """No function of PyTorch's, but what its `bernoulli` does with a number that it has drawn."""
    dtype = torch.result_type(uniform, p)
    if not dtype.is_floating_point:
        raise TypeError
    return (_tensors(uniform, p)[0] < _tensors(uniform, p)[1]).to(dtype)


def _pointwise(call: Any, *operands: Any) -> Any:
    """Numbers become zero-dim tensors where the function takes tensors only."""
    try:
        return call(*operands)
    except TypeError:
        first = next(x.dtype for x in operands if isinstance(x, torch.Tensor))
        return call(
            *(
                x
                if isinstance(x, torch.Tensor)
                else torch.tensor(x, dtype=first if first.is_floating_point else None)
                for x in operands
            )
        )


def _reduction(call: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    if not dim and x.ndim:
        return torch.stack([call(e) for e in x.reshape(-1)]).reshape(x.shape)
    for d in reversed(dim):
        x = call(x, dim=d, keepdim=keepdim)
    return x if dim else call(x)


def _sums(call: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    if not dim and x.ndim:
        return call(x[None], dim=0)
    return call(x, dim=dim, keepdim=keepdim) if dim else call(x)


def _position(call: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    """Row-major position among the reduced dims: PyTorch takes one dim, so merge them."""
    if not x.ndim:
        return call(x)
    if not dim:
        return torch.zeros(x.shape, dtype=torch.int64) + 0 * call(x[None], dim=0)
    kept = [d for d in range(x.ndim) if d not in dim]
    merged = x.permute(*kept, *dim).reshape([x.shape[d] for d in kept] + [-1]) if kept else None
    if x.numel() == 0:
        merged = x
    result = call(x.reshape(-1)) if merged is None else call(merged, dim=-1)
    shape = [1 if d in dim else n for d, n in enumerate(x.shape) if keepdim or d not in dim]
    return result.reshape(shape)


def _scatter_like(name: str) -> Callable[..., Any]:
    return lambda x, index, source, *, dim: getattr(torch, name)(x, dim, index, source)


def _argsort(x: Any, *, dim: int, descending: bool, start: int, stop: int | None) -> Any:
    order = torch.argsort(x, dim=dim, descending=descending, stable=True)
    return order if order.ndim == 0 else order[(slice(None),) * dim + (slice(start, stop),)]


def _convolution(
    x: Any, weight: Any, bias: Any, *, stride: Any, before: Any, after: Any, dilation: Any,
    groups: int,
) -> Any:  # fmt: skip
    amounts = [amount for pair in zip(after[::-1], before[::-1], strict=True) for amount in pair]
    amounts = [amounts[i ^ 1] for i in range(len(amounts))]
    whole = torch.nn.functional.pad(x, amounts)
    run = getattr(torch.nn.functional, f"conv{x.ndim - 2}d")
    return run(whole, weight, bias, stride, 0, dilation, groups)


def _subscript(rank: int, indices: Any, dims: tuple[int, ...]) -> tuple[Any, ...]:
    layers = dict(zip(dims, indices, strict=True))
    return tuple(layers.get(d, slice(None)) for d in range(rank))


def _index(x: Any, indices: Any, *, dims: tuple[int, ...]) -> Any:
    return x[_subscript(x.ndim, indices, dims)]


def _index_put(accumulate: bool) -> Callable[..., Any]:
    def call(x: Any, indices: Any, source: Any, *, dims: tuple[int, ...]) -> Any:
        layers = dict(zip(dims, indices, strict=True))
        key = tuple(layers.get(d) for d in range(max(dims) + 1))
        return torch.index_put(x, key, source, accumulate)

    return call


def _pad(x: Any, *, before: Any, after: Any, value: Any) -> Any:
    pairs = [side for pair in reversed(list(zip(before, after, strict=True))) for side in pair]
    return torch.nn.functional.pad(x, pairs, value=value)


def _slice(x: Any, *, start: Any, stop: Any, step: Any) -> Any:
    return x[tuple(slice(*piece) for piece in zip(start, stop, step, strict=True))]


def _slice_scatter(x: Any, source: Any, *, start: Any, stop: Any, step: Any) -> Any:
    result = x.clone()
    result[tuple(slice(*piece) for piece in zip(start, stop, step, strict=True))] = source
    return result


def _select(x: Any, *, dim: int, index: int) -> Any:
    return torch.select(x, dim, index)


def _full(value: Any, *, shape: Any, dtype: Any) -> Any:
    return torch.full(
        shape, value.item() if isinstance(value, torch.Tensor) else value, dtype=dtype
    )


def _arange(start: Any, step: Any, *, size: int, dtype: Any) -> Any:
    if not size:
        return torch.zeros(0, dtype=dtype)
    whole = isinstance(start, int) and isinstance(step, int)
    return torch.arange(start, start + step * (size if whole else size - 0.5), step, dtype=dtype)


def _attention(q: Any, k: Any, v: Any, mask: Any, *random: Any, shift: int, **options: Any) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, **options)


def _norm(call: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    return call(x, dim=dim, keepdim=keepdim) if dim else call(x[None], dim=0)


def _class_loss(name: str) -> Callable[..., Any]:
    def call(x: Any, target: Any, weight: Any, **options: Any) -> Any:
        return getattr(torch.nn.functional, name)(x, target, weight, **options)

    return call


def _log_scan(x: Any, *, dim: int, reverse: bool) -> Any:
    flipped = torch.flip(x, (dim,)) if reverse else x
    result = torch.logcumsumexp(flipped, dim)
    return torch.flip(result, (dim,)) if reverse else result


def _running_position(x: Any, *, dim: int, largest: bool) -> Any:
    return (torch.cummax if largest else torch.cummin)(x, dim).indices


def _pivot_order(pivots: Any, *, rows: int) -> Any:
    """Rows change places one after the other, in plain Python."""
    orders = []
    for places in pivots.reshape(-1, pivots.shape[-1]).tolist():
        order = list(range(rows))
        for i, other in enumerate(places):
            order[i], order[other - 1] = order[other - 1], order[i]
        orders.append(order)
    return torch.tensor(orders, dtype=torch.int64).reshape(*pivots.shape[:-1], rows)


def _scatter_reduce(x: Any, index: Any, source: Any, *, dim: int, mode: str) -> Any:
    return x.scatter_reduce(dim, index, source, mode)


_SPECIAL_FUNCTIONS = (
    "erfinv", "ndtri", "log_ndtr", "erfcx", "i0", "i0e", "i1", "i1e",
    "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1", "zeta",
)  # fmt: skip


def _double(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function in float64, rounded once: PyTorch's own loses digits in narrower dtypes."""

    def call(*operands: Any) -> Any:
        tensors = [x for x in operands if isinstance(x, torch.Tensor)]
        kind = functools.reduce(torch.promote_types, [x.dtype for x in tensors])
        wide = [torch.as_tensor(x).double() for x in operands]
        return function(*wide).to(kind if kind.is_floating_point else torch.float32)

    return call


def _fma(x: Any, y: Any, z: Any) -> Any:
    """In float64 and rounded once: PyTorch has none. Floating only, as its `lerp`."""
    kinds = [each.dtype for each in (x, y, z) if isinstance(each, torch.Tensor)]
    if not all(kind.is_floating_point for kind in kinds):
        raise TypeError("fma of integers")
    x, y, z = (each.double() if isinstance(each, torch.Tensor) else each for each in (x, y, z))
    return (x * y + z).to(functools.reduce(torch.promote_types, kinds))


def _of_channels(x: Any) -> Any:
    """What belongs to each channel (C, elements), in float64."""
    return x.transpose(0, 1).flatten(1).double()


def _beside(center: Any, x: Any) -> Any:
    return center.reshape(-1, *((1,) * (x.dim() - 2)))


def _calls() -> dict[str, Callable[..., Any] | None]:
    nn = torch.nn.functional
    return {
        "where": torch.where,
        "cast": lambda x, *, dtype: x.to(dtype),
        "full": _full,
        "arange": _arange,
        "integer": lambda *, value: torch.tensor(value),
        "left_shift": torch.bitwise_left_shift,
        "right_shift": torch.bitwise_right_shift,
        "sum": functools.partial(_sums, torch.sum),
        "amax": functools.partial(_sums, torch.amax),
        "amin": functools.partial(_sums, torch.amin),
        "argmax": functools.partial(_position, torch.argmax),
        "argmin": functools.partial(_position, torch.argmin),
        "mean": functools.partial(_norm, torch.mean),
        "logsumexp": functools.partial(_norm, torch.logsumexp),
        "euclidean_norm": functools.partial(_norm, torch.linalg.vector_norm),
        "var": torch.var,
        "std": torch.std,
        "softmax": torch.softmax,
        "log_softmax": torch.log_softmax,
        "layer_norm": lambda x, w, b, *, normalized_shape, eps: nn.layer_norm(
            x, normalized_shape, w, b, eps
        ),
        "rms_norm": lambda x, w, *, normalized_shape, eps: nn.rms_norm(x, normalized_shape, w, eps),
        "batch_norm": lambda x, w, b, *, eps: nn.batch_norm(x, None, None, w, b, True, 0.1, eps),
        "channel_sum": lambda x: _of_channels(x).sum(1),
        "channel_squares": lambda x, c: (_of_channels(x - _beside(c, x)) ** 2).sum(1),
        "linear": nn.linear,
        "embedding": lambda w, i, *, padding_idx: nn.embedding(i, w, padding_idx),
        "embedding_by_frequency": lambda w, i, *, padding_idx: nn.embedding(
            i, w, padding_idx, scale_grad_by_freq=True
        ),
        "scaled_dot_product_attention": _attention,
        "nll_loss": _class_loss("nll_loss"),
        "cross_entropy": _class_loss("cross_entropy"),
        "soft_cross_entropy": _class_loss("cross_entropy"),
        "gelu": nn.gelu,
        "silu": nn.silu,
        "softplus": nn.softplus,
        "log_sigmoid": nn.logsigmoid,
        "leaky_relu": nn.leaky_relu,
        "elu": lambda x, *, alpha=1.0, scale=1.0: torch._C._nn.elu(x, alpha, scale),
        "hardswish": lambda x: nn.hardswish(x),
        "hardtanh": lambda x, *, low=-1.0, high=1.0: nn.hardtanh(x, low, high),
        "mish": nn.mish,
        "huber": lambda x, *, delta=1.0: nn.huber_loss(
            x, torch.zeros_like(x), reduction="none", delta=delta
        ),
        "binary_entropy": lambda x, target: nn.binary_cross_entropy(
            *torch.broadcast_tensors(x, torch.as_tensor(target, dtype=x.dtype)), reduction="none"
        ),
        "mse_loss": nn.mse_loss,
        "l1_loss": nn.l1_loss,
        "matmul": torch.matmul,
        "convolution": _convolution,
        "cumsum": torch.cumsum,
        "cumprod": torch.cumprod,
        "argsort": _argsort,
        "logcumsumexp": _log_scan,
        "running_position": _running_position,
        "pivot_order": _pivot_order,
        "searchsorted": torch.searchsorted,
        "scatter_reduce": _scatter_reduce,
        "polygamma": lambda x, *, n=0: torch.polygamma(n, x),
        "logit": lambda x, *, eps=None: torch.logit(x, eps),
        "unchanged_by": lambda x, y, *, refused="": _tensors(x, y)[0].clone(),
        "is_drawn": _is_drawn,
        "hardsigmoid": nn.hardsigmoid,
        **{
            name: functools.partial(_pointwise, functools.partial(torch.div, rounding_mode=mode))
            for name, mode in (("floored_quotient", "floor"), ("truncated_quotient", "trunc"))
        },
        **{
            name: functools.partial(_pointwise, getattr(torch.special, name))
            for name in ("entr", "xlog1py")
        },
        **{
            name: functools.partial(_reduction, getattr(torch, call))
            for name, call in (("largest", "amax"), ("farthest", "amax"), ("smallest", "amin"))
        },
        **{name: getattr(torch, name) for name in ("gcd", "lcm", "nextafter")},
        "fma": _fma,
        **{name: _double(getattr(torch, name)) for name in ("igamma", "igammac")},
        **{name: _double(getattr(torch.special, name)) for name in _SPECIAL_FUNCTIONS},
        # PyTorch's have 12 digits in float64; compared with SciPy in test_special_functions.
        **dict.fromkeys(("bessel_j0", "bessel_j1")),
        "reshape": torch.reshape,
        "permute": torch.permute,
        "expand": lambda x, *, shape: x.expand(shape),
        "slice": _slice,
        "slice_scatter": _slice_scatter,
        "gradient_sink": lambda x: torch.zeros_like(x),
        "with_derivative": lambda x, *others, derivative: x.clone(),
        "with_derivative_of_result": lambda x, *others, derivative: x.clone(),
        "overwrite": lambda x, source: x.clone().copy_(source),
        "overwrite_unrecorded": lambda x, source: x.clone().copy_(source),
        "select": _select,
        "pad": _pad,
        "flip": torch.flip,
        "cat": lambda *tensors, dim: torch.cat(tensors, dim),
        "stack": lambda *tensors, dim: torch.stack(tensors, dim),
        "clone": torch.clone,
        "tril": torch.tril,
        "triu": torch.triu,
        "diagonal": torch.diagonal,
        "unfold": lambda x, *, dim, size, step: x.unfold(dim, size, step),
        "index_select": lambda x, index, *, dim: torch.index_select(x, dim, index),
        "gather": lambda x, index, *, dim: torch.gather(x, dim, index),
        "index_add": _scatter_like("index_add"),
        "sparse_product": lambda rows, columns, values, matrix, *, count: torch.zeros(
            count, matrix.shape[1], dtype=matrix.dtype
        ).index_add(0, rows, values[:, None] * matrix[columns]),
        "scatter_add": _scatter_like("scatter_add"),
        "scatter": _scatter_like("scatter"),
        "index": _index,
        "index_put": _index_put(False),
        "index_accumulate": _index_put(True),
    }


CALLS: dict[str, Any] = {} if torch is None else _calls()

OTHER_EDGES: dict[str, tuple[float, ...]] = {
    # PyTorch's vectorised fmod gives NaN for quotients beyond float32.
    "fmod": (1e-42,),
    "remainder": (1e-42,),
    # PyTorch's vectorised float32 kernel gives NaN at inf.
    "gelu": (math.inf,),
    # PyTorch's trigamma is not infinite at negative integers.
    "polygamma": (-1.0,),
    # Two halves are 1, whose logarithm is 0; PyTorch's is -5e-17.
    "logaddexp2": (-1.0,),
    # PyTorch refuses values outside [0, 1].
    "binary_entropy": (-1.0, -0.5, 1.5, 2.0, 2.5, 1e30, -1e30, math.inf, -math.inf, math.nan),
}
"""Values left out of the comparison at edges, with the reason."""

OTHER_EDGE_GRADIENTS: dict[str, str] = {
    "polygamma": "PyTorch's trigamma has about ten digits",
    "binary_entropy": "PyTorch's gradient of the target is infinite where the loss is cut",
    "hardsigmoid": "PyTorch's sixth is that of float32 in float64, too",
    "is_drawn": "no function of PyTorch's",
}
"""Rows whose gradients at kinks differ from PyTorch's, with the reason."""

# (row, dtype name) -> why the acceptance of the dtype differs from PyTorch's.
REFUSALS: dict[tuple[str, str], str] = {
    **{
        ("hardtanh", name): "integers are not needed here"
        for name in ("int8", "int16", "int32", "int64")
    },
    **{
        ("truncated_quotient", name): "`div` has rows of their own for integers"
        for name in ("uint8", "int8", "int16", "int32", "int64")
    },
}


def refuses_differently(op: Op, dtype: DType) -> bool:
    """True for a stated difference."""
    return (op.name, dtype.name) in REFUSALS


def accepts(call: Any, sample: Sample) -> bool:
    """True if PyTorch runs the sample."""
    try:
        call(*to_torch(sample.inputs), **attributes(sample.attributes))
    except (RuntimeError, NotImplementedError, TypeError):
        return False
    return True


def differs(op: Op, dtype: DType, sample: Sample) -> bool:
    """True where PyTorch cannot be asked: it lacks the dtype, or has other random numbers."""
    if "dropout" in sample.name:
        return True
    if (op.name, dtype.name) in REFUSALS:
        return True
    call = function(op)
    return call is None or not accepts(call, sample)


TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-6, "float64": 1e-13}


def assert_equal(actual: np.ndarray, expected: Any, op: Op, dtype: DType, sample: Sample) -> None:
    """Equal shape and dtype, and values within the rounding of the result's dtype."""
    theirs = to_numpy(expected)
    assert (theirs.shape, theirs.dtype) == (actual.shape, actual.dtype), (op.name, sample.name)
    message = f"{op.name} {dtype.name} {sample.name}"
    is_edge = sample.name == "edges"
    factor = FACTORS.get(op.name, 1.0)
    assert_close(actual, theirs, dtype, factor, message, relative=is_edge, least=LEAST.get(op.name))


def assert_close(
    actual: np.ndarray,
    expected: np.ndarray,
    dtype: DType,
    factor: float,
    message: str,
    relative: bool = False,
    least: float | None = None,
) -> None:
    """Values equal within `factor` roundings of the coarser of the result's dtype and `dtype`.

    Errors count relative to the largest finite value (at most 1, and not below `least`), or, if
    `relative`, to each one.
    """
    name = dtypes.from_numpy(actual.dtype).name
    if name not in TOLERANCE:
        np.testing.assert_array_equal(actual, expected, err_msg=message)
        return
    rtol = max(TOLERANCE[name], TOLERANCE.get(dtype.name, 0.0)) * factor
    wide_actual, wide_expected = actual.astype(np.float64), expected.astype(np.float64)
    scale = np.nanmax(np.abs(wide_expected[np.isfinite(wide_expected)]), initial=0.0)
    atol = 0.0 if relative else rtol * min(max(scale, least or 0.0), 1.0)
    np.testing.assert_allclose(wide_actual, wide_expected, rtol, atol, err_msg=message)


LEAST: dict[str, float] = {"gelu": 1.0}
"""Rows whose rounding errors do not shrink with their values: 1 + erf(x) is rounded as 1 is, by
PyTorch as well (5e-6 of gelu(-2.93), 6e-5 of some values between -3 and -2)."""

FACTORS: dict[str, float] = {
    "scaled_dot_product_attention": 4.0,
    "pow": 4.0,
    "sum": 4.0,
    "prod": 4.0,
}
"""Rows whose rounding errors grow with their work."""
