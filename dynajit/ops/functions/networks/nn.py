"""Library functions of neural networks, with the signatures of `torch.nn.functional`.

Contract: tensors in, tensors out; no module state, nothing in place. `dynajit.nn.functional`
publishes them.
"""

from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import (
    ArgumentError,
    ArgumentNotImplementedError,
    ArgumentRuntimeError,
    DivisionError,
    DTypeError,
    InvalidValueError,
    InvalidValueRuntimeError,
    ShapeError,
    UnsupportedError,
)
from dynajit.core.types import dtypes, symint
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import agree, fits_within, shapes_agree
from dynajit.core.types.value_types import Shape, Size, numel
from dynajit.ops.calls import arguments
from dynajit.ops.calls.arguments import (
    cast,
    dim_of,
    require_tensor,
    run_time_float,
    with_integers,
)
from dynajit.ops.calls.autocast import autocast, widened
from dynajit.ops.calls.contents import occurs
from dynajit.ops.calls.dtypes_of_operands import require_parameters, require_same_dtype
from dynajit.ops.calls.placing import as_suggested, contiguous
from dynajit.ops.calls.positions import numbers_for
from dynajit.ops.calls.public import InPlace, Out, public
from dynajit.ops.functions.creation import creation as creation_functions
from dynajit.ops.functions.matrices.matrix import matmul
from dynajit.ops.functions.reductions.reduction import norm
from dynajit.ops.functions.shapes.shape import repeat_interleave
from dynajit.ops.rows.random import blocks_of
from dynajit.ops.table.op_table import TABLE, Autocast
from dynajit.ops.table.type_rules import broadcast_shapes, normalize_dims

# ---------------------------------------------------------------------------------------------
# activations


@public("nn.functional", out=Out.SAME_DTYPE, numpy_names=True)
def gelu(input: Any, approximate: str = "none") -> Any:
    """Gaussian error linear unit; `approximate` is "none" or "tanh"."""
    if approximate not in ("none", "tanh"):
        raise ArgumentRuntimeError(f"gelu(approximate={approximate!r}): expected 'none' or 'tanh'.")
    return TABLE.gelu(input, approximate=approximate)


@public("nn.functional", inplace_argument=True, saves_input=True)
def silu(input: Any) -> Any:
    """x * sigmoid(x)."""
    if input.dtype.is_complex:
        return TABLE.div(input, TABLE.add(TABLE.exp(TABLE.neg(input)), 1))
    return TABLE.silu(input)


@public("nn.functional", inplace_argument=True, saves_input=True)
def mish(input: Any) -> Any:
    """x * tanh(softplus(x))."""
    return TABLE.mish(input)


@public("nn.functional", out=Out.SAME_DTYPE, numpy_names=True)
def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta x)) / beta."""
    return TABLE.softplus(input, beta=run_time_float(beta), threshold=run_time_float(threshold))


@public("nn.functional", out=Out.SAME_DTYPE, numpy_names=True)
def logsigmoid(input: Any) -> Any:
    """log(sigmoid(x))."""
    return TABLE.log_sigmoid(input)


@public("nn.functional", inplace_argument=True, saves_input=True, in_place=InPlace.FUNCTION)
def leaky_relu(input: Any, negative_slope: Any = 0.01) -> Any:
    """x where positive, else negative_slope * x."""
    if isinstance(negative_slope, str):
        raise ArgumentError(f"leaky_relu: negative_slope={negative_slope!r}.  Expected a number.")
    return TABLE.leaky_relu(input, negative_slope=run_time_float(negative_slope))


@public(out=Out.ABSENT, method=True)
@public("nn.functional")
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def prelu(input: Any, weight: Any) -> Any:
    """x where positive, else weight * x; one weight, or one per channel (dim 1).

    Raises:
        ShapeError: the weights are not that many.
        DTypeError: they have another dtype than x.
    """
    if len(require_tensor(weight, "prelu", "weight").shape) > 1:
        raise ShapeError(
            "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = "
            f"{len(weight.shape)}"
        )
    require_same_dtype("prelu", input, weight=weight)
    if numel(tuple(weight.shape)) == 1:
        weight = weight if input.shape else TABLE.reshape(weight, shape=())
    else:
        channels = input.shape[1] if len(input.shape) > 1 else 1
        if not agree(weight.shape[0], channels):
            raise ShapeError(
                f"prelu: Mismatch of parameter numbers and input channel size. Found parameter "
                f"numbers = {numel(tuple(weight.shape))} and channel size = {channels}."
            )
        shape = tuple(weight.shape[0] if d == 1 else 1 for d in range(len(input.shape)))
        weight = TABLE.reshape(weight, shape=shape)
    return TABLE.where(TABLE.gt(input, 0), input, TABLE.mul(input, weight))


@public("nn.functional", inplace_argument=True, saves_input=True, in_place=InPlace.FUNCTION)
def elu(input: Any, alpha: float = 1.0) -> Any:
    """x where positive, else alpha * (exp(x) - 1)."""
    return TABLE.elu(input, alpha=run_time_float(alpha), scale=1.0)


@public(out=Out.ABSENT)
@public("nn.functional", inplace_argument=True, saves_input=True, in_place=InPlace.FUNCTION)
def selu(input: Any) -> Any:
    """Scaled elu. Source of the constants: G. Klambauer et al., arXiv:1706.02515."""
    return TABLE.elu(input, alpha=1.6732632423543772, scale=1.0507009873554805)


@public(out=Out.ABSENT)
@public("nn.functional", inplace_argument=True, in_place=InPlace.FUNCTION)
def celu(input: Any, alpha: float = 1.0) -> Any:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).

    Raises:
        DivisionError: alpha is 0.
    """
    if alpha == 0:
        raise DivisionError("celu: alpha cannot be 0 for CELU.")
    return TABLE.mul(TABLE.elu(TABLE.div(input, alpha), alpha=1.0, scale=1.0), alpha)


@public("nn.functional", inplace_argument=True, saves_input=True)
def relu6(input: Any) -> Any:
    """x cut to [0, 6]."""
    return hardtanh(input, 0.0, 6.0)


@public("nn.functional", inplace_argument=True, saves_input=True, in_place=InPlace.FUNCTION)
def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """x cut to [min_val, max_val], which lose their fraction for integers.

    Raises:
        InvalidValueError: min_val is above max_val.
        DTypeError: bools, or unsigned integers with a negative bound.
    """
    if min_val > max_val:
        raise InvalidValueError(
            f"hardtanh: min_val cannot be greater than max_val, but got {min_val} and {max_val}."
        )
    if require_tensor(input, "hardtanh").dtype.category is not Category.INTEGER:
        return TABLE.hardtanh(input, low=float(min_val), high=float(max_val))
    low, high = int(min_val), int(max_val)
    if input.dtype is dtypes.uint8 and min_val < 0:
        raise DTypeError("hardtanh: cannot do hardtanh on an unsigned type with negative limits")
    return TABLE.minimum(TABLE.maximum(input, low), high)


@public("nn.functional", inplace_argument=True, saves_input=True)
def hardsigmoid(input: Any) -> Any:
    """(x cut to [-3, 3] + 3) / 6."""
    return TABLE.hardsigmoid(input)


@public("nn.functional", inplace_argument=True, saves_input=True)
def hardswish(input: Any) -> Any:
    """x * (x + 3 cut to [0, 6]) / 6."""
    return TABLE.hardswish(input)


@public("nn.functional")
def softsign(input: Any) -> Any:
    """x / (1 + |x|)."""
    return TABLE.div(input, TABLE.add(TABLE.abs(input), 1.0))


@public("nn.functional")
def tanhshrink(input: Any) -> Any:
    """x - tanh(x)."""
    return TABLE.sub(input, TABLE.tanh(input))


@public()
@public("nn.functional", inplace_argument=True, saves_input=True, in_place=InPlace.FUNCTION)
def threshold(input: Any, threshold: float, value: float) -> Any:
    """x above the threshold, else value; NaN stays."""
    value = arguments.fitting(value, input.dtype, "threshold")
    wide = cast(input, dtypes.compute_dtype(input.dtype))  # the threshold is not rounded
    return cast(TABLE.where(TABLE.le(wide, threshold), value, input), input.dtype)


def _shrunk(name: str, input: Any, lambd: float, moved: Any) -> Any:
    """0 within [-lambd, lambd], ends included, else `moved`.

    Raises:
        UnsupportedError: of a dtype that is not floating.
    """
    if not input.dtype.is_floating_point:
        raise UnsupportedError(f'"{name}" not implemented for {input.dtype.name}.  Cast it first.')
    inside = TABLE.logical_and(TABLE.ge(input, -lambd), TABLE.le(input, lambd))
    return TABLE.where(inside, 0.0, moved)


@public(also=("nn.functional.hardshrink",), out=Out.SAME_DTYPE, method=True)
def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """x where |x| > lambd, else 0."""
    return _shrunk("hardshrink", input, lambd, input)


@public("nn.functional", out=Out.SAME_DTYPE, numpy_names=True)
def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """x moved towards 0 by lambd, and 0 where it would cross.

    Raises:
        ShapeError: lambd is negative.
    """
    if not lambd >= 0:
        raise ShapeError(f"softshrink: lambda must be in range [0, inf), but found {lambd}.")
    wide = cast(input, dtypes.compute_dtype(input.dtype))
    amount = TABLE.where(TABLE.gt(input, 0), lambd, -lambd)
    moved = cast(TABLE.sub(wide, cast(amount, wide.dtype)), input.dtype)
    return _shrunk("softshrink", wide, lambd, moved)


@public("nn.functional")
def glu(input: Any, dim: int = -1) -> Any:
    """First half along `dim` times the sigmoid of the second."""
    d = dim_of(input, dim, "glu")
    if not input.shape:
        raise ShapeError("glu: a tensor without dims cannot be halved.")
    size = input.shape[d]
    half = size // 2
    if not agree(half * 2, size):
        raise ShapeError(f"glu: halving dimension must be even, but dimension {d} is size {size}.")
    shape = tuple(input.shape)
    ones = (1,) * len(shape)
    middle = tuple(half if i == d else n for i, n in enumerate(shape))
    start = tuple(half if i == d else 0 for i in range(len(shape)))
    first = TABLE.slice(input, start=(0,) * len(shape), stop=middle, step=ones)
    second = TABLE.slice(input, start=start, stop=shape, step=ones)
    return TABLE.mul(first, TABLE.sigmoid(second))


def _softmax_dim(input: Any, dim: int | None) -> int:
    """PyTorch's choice where no dim is given: 0 for 0, 1 and 3 dims, else 1."""
    if dim is None:
        dim = 0 if len(input.shape) in (0, 1, 3) else 1
    return dim_of(input, dim, "softmax")


def _along(name: str, input: Any, dim: int | None, third: Any, dtype: Any) -> Any:
    """Third comes `dtype` in `torch.softmax`, but a number without effect in `functional.softmax`,
    which is the same function here."""
    if dtype is None and not isinstance(third, int):
        dtype = third
    d = _softmax_dim(input, dim)
    x = cast(input, None if dtype is None else arguments.dtype_of(dtype))
    if not x.shape:
        return TABLE.reshape(TABLE[name](TABLE.reshape(x, shape=(1,)), dim=0), shape=())
    return TABLE[name](x, dim=d)


@public(also=("special.softmax",), out=Out.SAME_DTYPE, method=True)
@public("nn.functional")
def softmax(input: Any, dim: int | None = None, _stacklevel: Any = 3, dtype: Any = None) -> Any:
    """exp(x) over its sum along `dim`."""
    return _along("softmax", input, dim, _stacklevel, dtype)


@public(also=("special.log_softmax",), out=Out.SAME_DTYPE, method=True)
@public("nn.functional")
def log_softmax(input: Any, dim: int | None = None, _stacklevel: Any = 3, dtype: Any = None) -> Any:
    """log(softmax(x)) along `dim`."""
    return _along("log_softmax", input, dim, _stacklevel, dtype)


@public("nn.functional")
def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """softmax(-x) along `dim`; `_stacklevel` has no effect."""
    return softmax(TABLE.neg(input), dim, dtype=dtype)


# ---------------------------------------------------------------------------------------------
# layers


@public("nn.functional", out=Out.SAME_DTYPE, numpy_names=True)
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """input @ weight.T + bias; of a weight with one dim the products with it, without a bias.

    Raises:
        ShapeError: a weight with one dim, and a bias.
    """
    if weight.ndim == 1:
        if bias is not None:
            raise ShapeError("linear: a weight with one dim takes no bias.  Expected two dims.")
        return matmul(input, weight)
    return TABLE.linear(input, weight, bias)


@public("nn.functional")
@with_integers
def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """int64 with a 1 at the class of each element, in a new last dim; -1 needs the contents."""
    if require_tensor(tensor, "one_hot", "tensor").dtype is not dtypes.int64:
        raise DTypeError(
            f"one_hot is only applicable to index tensor of type LongTensor, got "
            f"{tensor.dtype.name}.  Cast with .long()."
        )
    if num_classes == -1:
        num_classes = _class_count(tensor)
    elif tensor.device.type == "cpu":
        _check_classes(tensor, num_classes)
    classes = TABLE.arange(0, 1, size=num_classes, dtype=dtypes.int64, device=tensor.device)
    wide = TABLE.reshape(tensor, shape=(*tensor.shape, 1))
    # gather of an identity would check the range; a comparison needs no memory.
    return contiguous(cast(TABLE.eq(wide, classes), dtypes.int64))


def _class_count(tensor: Any) -> int:
    """One more than the largest class; the contents are looked at.

    Raises:
        ShapeError: a class is negative, or there is none.
    """
    classes = tensor.array
    if classes.size == 0:
        raise ShapeError(
            "one_hot: Can not infer total number of classes from empty tensor.  Pass a number."
        )
    _check_classes(tensor, None)
    return int(classes.max()) + 1


def _check_classes(tensor: Any, count: int | None) -> None:
    """Refuse classes that are negative, or not below the number of classes.

    Raises:
        ShapeError: there is such a class, or none at all and no number.
    """
    if 0 in tuple(tensor.shape):
        if count is not None and count <= 0:
            raise ShapeError(
                "one_hot: Can not infer total number of classes from empty tensor.  Pass a number."
            )
        return
    if occurs(TABLE.lt(tensor, 0)):
        lowest = int(tensor.array.min())
        raise ShapeError(f"one_hot: Class values must be non-negative, got {lowest}.")
    if count is not None and occurs(TABLE.ge(tensor, count)):
        highest = int(tensor.array.max())
        raise ShapeError(
            f"one_hot: Class values must be smaller than num_classes, {count}, got {highest}."
        )


def check_probability(p: float) -> None:
    """Refuse what is no probability.

    Raises:
        InvalidValueError: p is not in [0, 1].
    """
    if not 0.0 <= p <= 1.0:
        raise InvalidValueRuntimeError(
            f"dropout probability has to be between 0 and 1, but got {p}."
        )


@public(out=Out.ABSENT)
@public("nn.functional", inplace_argument=True)
def dropout(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """input with elements zeroed with probability p and the others scaled by 1 / (1 - p)."""
    check_probability(p)
    if not training or p == 0:
        return input
    blocks = blocks_of(TABLE.rand, tuple(input.shape), dtypes.float32)
    seed, offset, shift = creation_functions.reserve(blocks, device=input.device)
    return TABLE.dropout(input, seed, offset, p=float(p), shift=shift)


@public(out=Out.ABSENT)
@public("nn.functional")
def layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None,
    eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Mean 0 and variance 1 over the trailing dims, times weight plus bias.

    Raises:
        DTypeError: weight or bias have another dtype than the input; beside 16-bit floats they may
            be float32.
    """
    require_parameters("layer_norm", input, weight=weight, bias=bias)
    shape = arguments.sizes(arguments.spread((normalized_shape,)), "layer_norm")
    return TABLE.layer_norm(input, weight, bias, normalized_shape=shape, eps=float(eps))


_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


@public(out=Out.ABSENT)
@public("nn.functional")
def rms_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None
) -> Any:
    """input over its root mean square over the trailing dims, times weight."""
    shape = arguments.sizes(arguments.spread((normalized_shape,)), "rms_norm")
    if eps is None:
        eps = _EPSILON.get(input.dtype.name, 2.0**-23)
    return TABLE.rms_norm(input, weight, normalized_shape=shape, eps=float(eps))


@public(out=Out.ABSENT)
@public("nn.functional")
@autocast(cuda=Autocast.FULL)
def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Mean 0 and variance 1 over groups of channels (dim 1), times weight plus bias per channel.

    Raises:
        ShapeError: the groups do not divide the channels.
        DTypeError: as of `layer_norm`.
    """
    require_parameters("group_norm", input, weight=weight, bias=bias)
    shape, num_groups = tuple(input.shape), arguments.size(num_groups, "group_norm")
    if len(shape) < 2 or not agree(shape[1] % num_groups, 0):
        raise ShapeError(
            f"group_norm: expected number of channels in input to be divisible by num_groups, got "
            f"input of shape {list(shape)} and num_groups={num_groups}."
        )
    group = numel(shape[1:]) // num_groups
    x = cast(input, dtypes.compute_dtype(input.dtype))
    flat = TABLE.reshape(x, shape=(shape[0], num_groups, group))
    unit = TABLE.layer_norm(flat, None, None, normalized_shape=(group,), eps=float(eps))
    result = TABLE.reshape(unit, shape=shape)
    per_channel = tuple(shape[1] if d == 1 else 1 for d in range(len(shape)))
    if weight is not None:
        result = TABLE.mul(result, TABLE.reshape(weight, shape=per_channel))
    if bias is not None:
        result = TABLE.add(result, TABLE.reshape(bias, shape=per_channel))
    return as_suggested(cast(result, input.dtype), input)


@public("nn.functional", out=Out.CAST)
def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Any:
    """input over its norm along `dim`, which counts as at least eps."""
    length = norm(input, p, dim, keepdim=True)
    return TABLE.div(input, TABLE.clamp_min(length, eps))


@public(also=("nn.functional.cosine_similarity",), out=Out.ABSENT)
@autocast(cuda=Autocast.FULL)
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """Product of x1 and x2 along `dim` over the product of their norms (each at least eps).

    Shape: broadcast, then without `dim`.
    """
    if not shapes_agree(x1.shape, x2.shape):
        shape = broadcast_shapes([tuple(x1.shape), tuple(x2.shape)], "cosine_similarity")
        x1, x2 = TABLE.expand(x1, shape=shape), TABLE.expand(x2, shape=shape)
    d = normalize_dims(dim, len(x1.shape), "cosine_similarity")
    if x1.dtype.is_complex or x2.dtype.is_complex:
        raise DTypeError(
            "cosine_similarity: expected common dtype to be floating point, yet it is complex"
        )
    common = dtypes.promote(x1.dtype, x2.dtype)
    x1, x2 = cast(x1, common), cast(x2, common)
    x1 = TABLE.div(x1, TABLE.clamp_min(norm(x1, 2, dim, keepdim=True), eps))
    x2 = TABLE.div(x2, TABLE.clamp_min(norm(x2, 2, dim, keepdim=True), eps))
    return TABLE.sum(TABLE.mul(x1, x2), dim=d, keepdim=False)


@public(also=("nn.functional.pairwise_distance",), out=Out.ABSENT)
def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """Norm of x1 - x2 + eps along the last dim."""
    return norm(TABLE.add(TABLE.sub(x1, x2), eps), p, -1, keepdim)


@public("nn.functional")
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """softmax(query @ key.T * scale + mask) @ value over the last two dims.

    Raises:
        ArgumentError: both a mask and is_causal were given.
        DTypeError: dtypes differ, or the mask is neither bool nor floating.
    """
    if attn_mask is not None and is_causal:
        raise ArgumentRuntimeError(
            "scaled_dot_product_attention: explicit attn_mask should not be set when "
            "is_causal=True."
        )
    if not query.dtype is key.dtype is value.dtype:
        raise DTypeError(
            "scaled_dot_product_attention: expected query, key, and value to have the same "
            f"dtype, but got {query.dtype.name}, {key.dtype.name} and {value.dtype.name}."
        )
    if attn_mask is not None and attn_mask.dtype not in (dtypes.bool_, *dtypes.FLOATING):
        raise DTypeError(
            "scaled_dot_product_attention: expected attn_mask dtype to be bool or floating, got "
            f"{attn_mask.dtype.name}."
        )
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key = repeat_interleave(key, times, -3)
        value = repeat_interleave(value, times, -3)
    seed = offset = None
    shift: Any = 0
    if dropout_p > 0:
        shape = _attention_shape(query, key)
        seed, offset, shift = creation_functions.reserve(
            blocks_of(TABLE.rand, shape, dtypes.float32), device=query.device
        )
    return TABLE.scaled_dot_product_attention(
        query, key, value, attn_mask, seed, offset, dropout_p=float(dropout_p),
        is_causal=is_causal, scale=None if scale is None else float(scale), shift=shift,
    )  # fmt: skip


def _attention_shape(query: Any, key: Any) -> Shape:
    batch = broadcast_shapes(
        [tuple(query.shape[:-2]), tuple(key.shape[:-2])], "scaled_dot_product_attention"
    )
    return (*batch, query.shape[-2], key.shape[-2])


# ---------------------------------------------------------------------------------------------
# padding


@public("nn.functional")
def pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """Elements added around the last dims: (left, right, top, bottom, ...) from the last dim on;
    negative amounts cut off.

    Modes: "constant", "reflect", "replicate", "circular".
    """
    if isinstance(pad, str):
        raise ArgumentError(f"pad: the amounts are {pad!r}.  Expected integers.")
    pad = [a if type(a) is int else arguments.whole_number(a, "pad") for a in pad]
    if len(pad) % 2 or len(pad) > 2 * len(input.shape):
        raise ShapeError(
            f"pad: padding length must be even and at most {2 * len(input.shape)}, got {len(pad)}."
        )
    amounts = [(0, 0)] * len(input.shape)
    for i in range(len(pad) // 2):
        amounts[-1 - i] = (pad[2 * i], pad[2 * i + 1])
    if mode == "constant":
        return _pad_constant(input, amounts, 0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise ArgumentNotImplementedError(
            f"pad(mode={mode!r}): expected 'constant', 'reflect', 'replicate' or 'circular'."
        )
    if value:
        raise ArgumentRuntimeError(f"pad(mode={mode!r}): this mode takes no value.")
    if len(pad) not in (2, 4, 6) or len(input.shape) - len(pad) // 2 not in (1, 2):
        raise ArgumentNotImplementedError(
            f"pad(mode={mode!r}): got {len(pad)} amounts for a tensor of {len(input.shape)} dims.  "
            "Expected two for each of 1, 2 or 3 last dims, with channels in front, or batches too."
        )
    lengths = tuple(input.shape)[1 if len(input.shape) - len(pad) // 2 == 2 else 0 :]
    if any(isinstance(n, int) and n == 0 for n in lengths):
        raise ShapeError(
            f"pad(mode={mode!r}): expected no dims without elements but that of the batch, got "
            f"{list(input.shape)}."
        )
    if mode == "replicate" or (mode == "reflect" and len(pad) <= 4):
        input = widened(input)
    result = input
    for d, (before, after) in enumerate(amounts):
        if before or after:
            positions = _padded_positions(result.shape[d], before, after, mode, input.device)
            result = TABLE.index_select(result, positions, dim=d)
    if not any(any(amount) for amount in amounts):
        return TABLE.clone(input)
    return result if mode == "circular" else as_suggested(result, input)


def _pad_constant(input: Any, amounts: list[tuple[int, int]], value: Any) -> Any:
    shape = tuple(input.shape)
    start = tuple(max(-before, 0) for before, _ in amounts)
    stop = tuple(n - max(-after, 0) for (_, after), n in zip(amounts, shape, strict=True))
    if any(start) or stop != shape:
        known = [n for n in zip(start, stop, strict=True) if isinstance(n[1], int)]
        if any(last < first for first, last in known):
            raise ShapeError(f"pad: the result of {list(shape)} would have a negative size.")
        input = TABLE.slice(input, start=start, stop=stop, step=(1,) * len(shape))
    added = tuple((max(before, 0), max(after, 0)) for before, after in amounts)
    if not any(a or b for a, b in added):
        return TABLE.clone(input)
    return TABLE.pad(
        input, before=tuple(a for a, _ in added), after=tuple(b for _, b in added), value=value
    )


def _padded_positions(n: Size, before: Size, after: Size, mode: str, device: Device) -> Any:
    """Which elements stand along a padded dim of size n."""
    limit, total = n - 1 if mode == "reflect" else n, n + before + after
    is_empty = isinstance(total, int) and total == 0
    if mode == "circular" and not is_empty:  # cut off first; what is left repeats
        limit = limit + symint.smaller(before, 0) + symint.smaller(after, 0)
    fits = all(fits_within(amount, limit) for amount in (before, after))
    if not fits_within(0, total) or not (mode == "replicate" or fits):
        raise ShapeError(
            f"pad(mode={mode!r}): padding ({before}, {after}) should be at most {max(limit, 0)} "
            f"for a dimension of size {n}, and cut off no more than there is."
        )
    m = numbers_for(device, n, before, after)
    index = m.arange(total)
    if mode == "circular":
        first, length = symint.larger(-before, 0), m.count(limit)
        place = index - m.count(symint.larger(before, 0))
        place = m.where(place < 0, place + length, place)
        return m.tensor(m.where(place < length, place, place - length) + m.count(first), device)
    place = index - m.count(before)
    if mode == "replicate":
        return m.tensor(m.minimum(m.maximum(place, 0), m.count(n - 1)), device)
    place = m.abs(place)
    return m.tensor(m.where(place < m.count(n), place, m.count(2 * (n - 1)) - place), device)
