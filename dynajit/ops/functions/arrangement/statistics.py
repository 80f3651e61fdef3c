"""Library functions of statistics and numerical analysis: quantiles, covariances, integrals.

Contract: the first parameter is the tensor, so most functions are methods of `TensorMethods`, too.
All are composed of rows, so they compile and differentiate.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dynajit.core.errors import ArgumentError, ArgumentRuntimeError, DTypeError, ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import agree, equals
from dynajit.core.types.value_types import numel
from dynajit.ops.calls.arguments import cast, common_dtype, dim_of, is_tensor, with_integers
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.contents import accepts, holds
from dynajit.ops.calls.dtypes_of_operands import require_category, require_same_dtype
from dynajit.ops.calls.placing import contiguous
from dynajit.ops.calls.public import InPlace, Out, public
from dynajit.ops.functions.elements.complex import conj
from dynajit.ops.functions.matrices.matrix import mm
from dynajit.ops.functions.reductions.pair import distance
from dynajit.ops.functions.reductions.reduction import ValuesIndices, diff, mean, median, norm, sum
from dynajit.ops.functions.shapes.shape import movedim, reshape, sliced, transpose, unsqueeze
from dynajit.ops.rows.composites import count_operand, wide
from dynajit.ops.table.families import floating_of, normalize_dims
from dynajit.ops.table.op_table import TABLE, Autocast
from dynajit.ops.table.type_rules import broadcast_shapes

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods

# ---------------------------------------------------------------------------------------------
# without NaN


def _dims_of(input: Any, dim: Any, function: str) -> tuple[int, ...]:
    if dim is None:
        return tuple(range(len(input.shape)))
    return normalize_dims(dim, len(input.shape), function)


@public(out=Out.AS_DTYPE, method=True)
def nansum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Sum along `dim` of the elements that are numbers.

    Raises:
        DTypeError: of complex numbers.
    """
    if input.dtype.is_complex:
        raise DTypeError("nansum does not support complex inputs.  Sum .real and .imag apart.")
    live = input if not input.dtype.is_floating_point else TABLE.where(_is_number(input), input, 0)
    return sum(live, dim, keepdim, dtype=dtype)


def _is_number(x: "TensorMethods") -> Any:
    return TABLE.eq(x, x)


@public(method=True)
def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Mean along `dim` of the elements that are numbers; NaN where there are none."""
    if not input.dtype.is_floating_point:
        raise DTypeError(
            f"nanmean(): expected input to have floating point dtype but got {input.dtype.name}"
        )
    dims = _dims_of(input, dim, "nanmean")
    count = TABLE.sum(_is_number(input), dim=dims, keepdim=keepdim)
    total = nansum(input, dim, keepdim, dtype=dtype)
    return TABLE.div(total, cast(count, total.dtype))


@public(method=True)
def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle of the elements that are numbers, the lower of two; with `dim` (values,
    indices). NaN where there are none."""
    if dim is None:
        flat = reshape(input, -1)
        if equals(flat.shape[0], 0):
            return median(flat)
        return TABLE.shared_by_equals(TABLE.detach(nanmedian(flat, 0).values), flat)
    d = dim_of(input, dim, "nanmedian")
    if not input.shape:
        zero = TABLE.full(0, shape=(), dtype=dtypes.int64, device=input.device)
        return ValuesIndices(TABLE.clone(input), zero)
    order = TABLE.argsort(input, dim=d, descending=False)
    count = TABLE.sum(_is_number(input), dim=(d,), keepdim=True)
    middle = TABLE.floor_divide(TABLE.clamp_min(TABLE.sub(count, 1), 0), 2)
    position = TABLE.gather(order, middle, dim=d)
    pair = ValuesIndices(TABLE.gather(input, position, dim=d), position)
    if keepdim:
        return pair
    return ValuesIndices(*(TABLE.select(part, dim=d, index=0) for part in pair))


# ---------------------------------------------------------------------------------------------
# quantiles

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@public(out=Out.SAME_DTYPE, method=True)
@autocast(cpu=Autocast.FULL)
def quantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Any:  # fmt: skip
    """Values below which the parts q of the elements along `dim` lie; NaN if one element is.

    Args:
        input: float32 or float64.
        q: a number in [0, 1], or a vector of them: its size is then the first of the result.
        interpolation: between two elements: "linear", "lower", "higher", "midpoint" or "nearest".

    Raises:
        ShapeError, DTypeError: q or input is not as above.
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@public(out=Out.SAME_DTYPE, method=True)
@autocast(cpu=Autocast.FULL)
def nanquantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Any:  # fmt: skip
    """`quantile` of the elements that are numbers."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


def _quantile(
    name: str, input: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, skips: bool
) -> Any:
    _check_quantile(name, input, q, interpolation)
    rank = len(input.shape)
    x = reshape(input, -1) if dim is None or not rank else input
    d = 0 if dim is None or not rank else dim_of(input, dim, name)
    x = movedim(x, d, -1)
    if isinstance(x.shape[-1], int) and x.shape[-1] == 0:
        raise ShapeError(f"{name}() input tensor must be non-empty")
    found = _at_quantiles(x, _parts(q, x), interpolation, skips)
    kept = tuple(1 if dim is None or i == d else n for i, n in enumerate(input.shape))
    left = kept if keepdim else tuple(x.shape[:-1])
    if is_tensor(q) and q.shape:
        return reshape(movedim(found, -1, 0), (q.shape[0], *left))
    return reshape(found, left)


def _check_quantile(name: str, input: Any, q: Any, interpolation: str) -> None:
    if interpolation not in _INTERPOLATIONS:
        raise ShapeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )
    if input.dtype not in (dtypes.float32, dtypes.float64):
        raise DTypeError(f"{name}() input tensor must be either float or double dtype")
    if not is_tensor(q):
        if not 0 <= q <= 1:
            raise ShapeError(f"{name}() q must be in the range [0, 1] but got {q}")
    elif len(q.shape) > 1:
        raise ShapeError(f"{name}() q must be a scalar or 1D tensor")
    elif q.dtype is not input.dtype:
        raise DTypeError(f"{name}() q tensor must be same dtype as the input tensor")
    elif not accepts(q, _are_parts):
        raise ShapeError(f"{name}() q values must be in the range [0, 1]")


def _are_parts(q: Any) -> Any:
    """Not outside of [0, 1]: NaN gives NaN."""
    return TABLE.logical_not(TABLE.logical_or(TABLE.lt(q, 0), TABLE.gt(q, 1)))


def _parts(q: Any, x: Any) -> Any:
    """q as a vector."""
    if is_tensor(q):
        return reshape(q, -1)
    return TABLE.full(q, shape=(1,), dtype=x.dtype, device=x.device)


def _last_of(count: Any, dtype: Any) -> Any:
    """The last position among `count`, a number or a tensor of one."""
    return float(count - 1) if isinstance(count, int) else cast(TABLE.sub(count, 1), dtype)


def _at_quantiles(x: "TensorMethods", parts: Any, interpolation: str, skips: bool) -> Any:
    """Per row of x, the values at the parts of its order, (*, number of parts)."""
    last = len(x.shape) - 1
    order = TABLE.gather(x, TABLE.argsort(x, dim=last, descending=False), dim=last)
    numbers = TABLE.sum(_is_number(x), dim=(last,), keepdim=True)
    size = x.shape[-1]
    count = cast(numbers, x.dtype) if skips else count_operand(TABLE, size)
    rank = TABLE.clamp_min(TABLE.mul(parts, TABLE.sub(count, 1)), 0)
    rank = TABLE.expand(cast(rank, x.dtype), shape=(*x.shape[:-1], parts.shape[0]))
    if not skips:  # NaN is the last in order: it is the value, and gets the gradient
        whole = count_operand(TABLE, size)
        rank = TABLE.where(TABLE.lt(numbers, whole), _last_of(whole, x.dtype), rank)
    if interpolation in ("lower", "higher", "nearest"):
        row = {"lower": TABLE.floor, "higher": TABLE.ceil, "nearest": TABLE.round}[interpolation]
        found = TABLE.gather(order, cast(row(rank), dtypes.int64), dim=last)
    else:
        low = TABLE.floor(rank)
        below = TABLE.gather(order, cast(low, dtypes.int64), dim=last)
        above = TABLE.gather(order, cast(TABLE.ceil(rank), dtypes.int64), dim=last)
        weight = 0.5 if interpolation == "midpoint" else TABLE.sub(rank, low)
        found = TABLE.lerp(below, above, weight)
    return found


# ---------------------------------------------------------------------------------------------
# covariances


@public(out=Out.ABSENT, method=True)
@with_integers
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Covariances of the rows of input, each a variable with one observation per column; of one
    variable a zero-dim tensor.

    Args:
        correction: taken off the number of observations.
        fweights: integers, how often each observation occurred.
        aweights: how important each observation is. The result has the dtype in which all meet.

    Raises:
        ShapeError: more than two dims, or weights that fit no observations, or are negative (where
            they are known).
    """
    if len(input.shape) > 2:
        raise ShapeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{len(input.shape)} dimensions"
        )
    if input.dtype is dtypes.bool_:
        raise DTypeError("cov(): bool dtype is not supported for input")
    x = input if len(input.shape) == 2 else reshape(input, (1, -1))
    x = cast(x, floating_of(x.dtype))
    weights = _observation_weights(x, fweights, aweights)
    if weights is None:
        total: Any = count_operand(TABLE, x.shape[1])
        average = mean(x, 1, True)
        factor = TABLE.sub(total, correction) if is_tensor(total) else total - correction
    else:
        total = sum(weights)
        average = TABLE.div(sum(TABLE.mul(x, weights), 1, True), total)
        factor = _weighted_factor(total, weights, aweights, correction)
    centred = TABLE.sub(x, average)
    scaled = centred if weights is None else TABLE.mul(centred, weights)
    least = TABLE.clamp_min(factor, 0) if is_tensor(factor) else max(factor, 0)
    product = mm(centred, transpose(conj(cast(scaled, centred.dtype)), 0, 1))
    result = TABLE.div(product, cast(least, product.dtype) if is_tensor(least) else least)
    return reshape(result, ()) if equals(x.shape[0], 1) else result


def _observation_weights(x: "TensorMethods", fweights: Any, aweights: Any) -> Any:
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is None:
            continue
        if len(weights.shape) > 1 or not agree(numel(tuple(weights.shape)), x.shape[1]):
            raise ShapeError(
                f"cov(): expected {name} to have the same numel as there are observations in the "
                f"input but got {numel(tuple(weights.shape))} != {x.shape[1]}"
            )
    if fweights is not None and fweights.dtype.category is not dtypes.Category.INTEGER:
        raise DTypeError(
            f"cov(): expected fweights to have integral dtype but got {fweights.dtype.name}"
        )
    if aweights is not None and not aweights.dtype.is_floating_point:
        raise DTypeError(
            f"cov(): expected aweights to have floating point dtype but got {aweights.dtype.name}"
        )
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is not None and not holds(TABLE.ge(weights, 0)):  # NaN is refused, too
            raise ShapeError(f"cov(): {name} cannot be negative")
    if fweights is None or aweights is None:
        weights = aweights if fweights is None else fweights
        return weights
    return TABLE.mul(fweights, aweights)


def _weighted_factor(total: Any, weights: Any, aweights: Any, correction: int) -> Any:
    """What the weighted products are divided by."""
    if correction == 0:
        return total
    if aweights is None:
        return TABLE.sub(total, correction)
    share = TABLE.div(sum(TABLE.mul(weights, aweights)), total)
    return TABLE.sub(total, TABLE.mul(share, correction))


@public(out=Out.ABSENT, method=True)
def corrcoef(input: Any) -> Any:
    """Correlation coefficients of the rows of input, between -1 and 1 (so are both parts of complex
    ones)."""
    if len(input.shape) > 2:
        raise ShapeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{len(input.shape)} dimensions"
        )
    c = cov(input)
    if not c.shape:
        return TABLE.div(c, c)
    variances = TABLE.diagonal(c, offset=0, dim1=0, dim2=1)
    deviation = TABLE.sqrt(TABLE.real(variances) if c.dtype.is_complex else variances)
    scaled = TABLE.div(TABLE.div(c, unsqueeze(deviation, 1)), unsqueeze(deviation, 0))
    if not c.dtype.is_complex:
        return TABLE.clamp(scaled, -1, 1)
    parts = (TABLE.clamp(part, -1, 1) for part in (TABLE.real(scaled), TABLE.imag(scaled)))
    return TABLE.complex(*parts)


# ---------------------------------------------------------------------------------------------
# integrals and slopes


def _panels(y: Any, x: Any, dx: Any, dim: int, name: str) -> Any:
    """Areas between neighbours along `dim`, by the trapezoidal rule."""
    require_category(name, Category.INTEGER, y=y, x=x)
    d = dim_of(y, dim, name)
    n = y.shape[d]
    kind = cast(y, floating_of(y.dtype if x is None else common_dtype((y, x))))
    if isinstance(n, int) and n == 0:
        return kind
    pairs = TABLE.add(sliced(kind, d, 1, n), sliced(kind, d, 0, n - 1))
    if x is None:
        step = 1.0 if dx is None else dx
        return TABLE.mul(pairs, step / 2.0 if not is_tensor(step) else TABLE.div(step, 2.0))
    if len(x.shape) == 1:
        if not agree(x.shape[0], n):
            raise ShapeError(
                f"{name}: There must be one `x` value for each sample point, got {x.shape[0]} for "
                f"{n}."
            )
        x = reshape(x, tuple(n if i == d else 1 for i in range(len(y.shape))))
        widths = diff(x, dim=d)
    else:
        widths = diff(x, dim=d - len(y.shape))
    return TABLE.div(TABLE.mul(pairs, widths), 2.0)


def _one_spacing(x: object, dx: Any, name: str) -> None:
    if x is not None and dx is not None:
        raise ArgumentError(f"{name}(): expected x or dx, not both.")
    if isinstance(dx, complex):
        raise ArgumentRuntimeError(f"{name}: Currently, we only support dx as a real number.")


@public(also=("trapz",), out=Out.ABSENT)
def trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """Integral of y along `dim` by the trapezoidal rule, over points x or steps of dx (1)."""
    _one_spacing(x, dx, "trapezoid")
    areas = _panels(y, x, dx, dim, "trapezoid")
    d = dim % max(len(areas.shape), 1)
    return sum(areas, d)


trapz = trapezoid


@public(out=Out.ABSENT)
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """Running integrals of y along `dim`, one element fewer than y; see `trapezoid`."""
    _one_spacing(x, dx, "cumulative_trapezoid")
    areas = _panels(y, x, dx, dim, "cumulative_trapezoid")
    return TABLE.cumsum(areas, dim=dim % len(areas.shape))


@public(out=Out.ABSENT)
@with_integers
def gradient(input: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> Any:
    """Slopes of input along each of `dim`: differences of second order inside, and of
    `edge_order` at the ends.

    Args:
        spacing: a number (1) for all dims, or per dim a number or the vector of coordinates.

    Raises:
        ShapeError: a dim has at most edge_order elements, or spacing does not fit.
        DTypeError: input holds bools.
    """
    require_category("gradient", Category.INTEGER, input=input)
    if edge_order not in (1, 2):
        raise ShapeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    dims = _dims_in_order(input, dim)
    spacing = 1 if spacing is None else spacing
    if isinstance(spacing, (int, float)) or (is_tensor(spacing) and not spacing.shape):
        steps: Sequence[Any] = [spacing] * len(dims)
    else:
        steps = [spacing] if is_tensor(spacing) else list(spacing)
    if len(steps) != len(dims):
        raise ShapeError(
            f"torch.gradient expected spacing to be unspecified, a scalar, or a list of length "
            f"{len(dims)}, but got a list of length {len(steps)}"
        )
    x = wide(TABLE, input)
    slopes = [_slopes(x, d, step, edge_order) for d, step in zip(dims, steps, strict=True)]
    return tuple(slopes if x is input else [cast(each, input.dtype) for each in slopes])


def _dims_in_order(input: Any, dim: Any) -> tuple[int, ...]:
    """The dims as they were asked for, counted from the front.

    Raises:
        BoundsError: a dim is out of range.
        ShapeError: a dim appears twice.
    """
    _dims_of(input, dim, "gradient")
    if dim is None:
        return tuple(range(len(input.shape)))
    return tuple(
        dim_of(input, d, "gradient") for d in (dim if isinstance(dim, (tuple, list)) else (dim,))
    )


def _slopes(x: "TensorMethods", d: int, step: Any, edge_order: int) -> Any:
    n = x.shape[d]
    if n <= edge_order:
        raise ShapeError("torch.gradient expected each dimension size to be at least edge_order+1")
    x = cast(x, floating_of(x.dtype))

    def part(value: Any, first: int, last: int) -> Any:
        size = value.shape[d]
        return sliced(value, d, first % size if first < 0 else first, last % (size + 1))

    along = tuple(-1 if i == d else 1 for i in range(len(x.shape)))
    if is_tensor(step) and step.shape:
        widths = reshape(diff(cast(step, x.dtype)), along)
    else:
        widths = TABLE.expand(
            reshape(_number(step, x), (1,) * len(x.shape)),
            shape=tuple(n - 1 if i == d else 1 for i in range(len(x.shape))),
        )

    rise = TABLE.div(diff(x, dim=d), widths)  # between neighbours
    before, after = part(widths, 0, -2), part(widths, 1, -1)
    whole = TABLE.add(before, after)
    if is_tensor(step) and step.shape:
        weighed = TABLE.mul(part(rise, 0, -2), after), TABLE.mul(part(rise, 1, -1), before)
        inside = TABLE.div(TABLE.add(*weighed), whole)
    else:  # what lies between does not count, infinite or not
        inside = TABLE.div(TABLE.sub(part(x, 2, -1), part(x, 0, -3)), whole)
    first, last = part(rise, 0, 1), part(rise, -1, -1)
    if edge_order == 2:
        bend = TABLE.div(diff(rise, dim=d), whole)
        first = TABLE.sub(first, TABLE.mul(part(bend, 0, 1), part(before, 0, 1)))
        last = TABLE.add(last, TABLE.mul(part(bend, -1, -1), part(after, -1, -1)))
    return TABLE.cat(first, inside, last, dim=d)


def _number(step: Any, like: Any) -> Any:
    if is_tensor(step):
        return cast(step, like.dtype)
    return TABLE.full(step, shape=(), dtype=like.dtype, device=like.device)


# ---------------------------------------------------------------------------------------------
# distances


@public(out=Out.ABSENT, numpy_names=False)
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def cdist(
    x1: Any, x2: Any, p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Any:  # fmt: skip
    """Distances of order p between all rows of x1 (*, n, k) and all of x2 (*, m, k), (*, n, m).

    Args:
        compute_mode: whether Euclidean distances are found by a matrix product: by default where
            there are more than 25 rows, always ("use_mm_for_euclid_dist"), or never
            ("donot_use_mm_for_euclid_dist").

    Raises:
        ShapeError: the rows differ in size, or p is negative.
        DTypeError: x1 and x2 have two dtypes, or one that is not floating.
    """
    if len(x1.shape) < 2 or len(x2.shape) < 2:
        raise ShapeError("cdist only supports at least 2D tensors")
    if not agree(x1.shape[-1], x2.shape[-1]):
        raise ShapeError("X1 and X2 must have the same number of columns")
    if not p >= 0:
        raise ShapeError("cdist only supports non-negative p values")
    if not (x1.dtype.is_floating_point and x2.dtype.is_floating_point):
        raise DTypeError(f"cdist only supports floating-point dtypes, got {x1.dtype.name}")
    require_same_dtype("cdist", x1, x2=x2)
    if p == 2 and _by_product(x1, x2, compute_mode):
        return _distances_by_product(x1, x2)
    return distance(TABLE.sub(unsqueeze(x1, -2), unsqueeze(x2, -3)), p)


def _by_product(x1: Any, x2: Any, mode: str) -> bool:
    modes = (
        "use_mm_for_euclid_dist_if_necessary",
        "use_mm_for_euclid_dist",
        "donot_use_mm_for_euclid_dist",
    )
    if mode not in modes:
        raise ArgumentError(f"{mode} is not a valid value for compute_mode")
    many = x1.shape[-2] > 25 or x2.shape[-2] > 25
    return mode == modes[1] or (mode == modes[0] and bool(many))


def _distances_by_product(x1: Any, x2: Any) -> Any:
    """|a - b|^2 = |a|^2 + |b|^2 - 2 a.b; equal rows get no gradient."""
    batch = broadcast_shapes([tuple(x1.shape[:-2]), tuple(x2.shape[:-2])], "cdist")
    a = TABLE.expand(x1, shape=(*batch, *x1.shape[-2:]))
    b = TABLE.expand(x2, shape=(*batch, *x2.shape[-2:]))
    squares = TABLE.add(
        unsqueeze(sum(TABLE.square(a), -1), -1), unsqueeze(sum(TABLE.square(b), -1), -2)
    )
    product = TABLE.matmul(a, transpose(b, -2, -1))
    apart = TABLE.sub(squares, TABLE.mul(product, 2))
    differs = TABLE.gt(apart, 0)
    return TABLE.where(differs, TABLE.sqrt(TABLE.where(differs, apart, 1)), 0)


@public(out=Out.ABSENT, method=True)
def dist(input: Any, other: Any, p: float = 2) -> Any:
    """Norm of order p of input - other."""
    return norm(TABLE.sub(input, other), p)


@public(out=Out.SAME_DTYPE, in_place=InPlace.METHOD, method=True)
@autocast(cuda=Autocast.FULL)
def renorm(input: Any, p: float, dim: int, maxnorm: float) -> Any:
    """input with each slice along `dim` whose norm of order p is above maxnorm scaled down to it.

    Raises:
        ShapeError: input has fewer than two dims, or a number is not positive.
    """
    if len(input.shape) < 2:
        raise ShapeError("renorm: input needs at least 2 dimensions, got 1 dimensions")
    if not p > 0:
        raise ShapeError("renorm: non-positive-norm not supported")
    if not maxnorm >= 0:
        raise ShapeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    d = dim_of(input, dim, "renorm")
    others = tuple(i for i in range(len(input.shape)) if i != d)
    sizes = norm(input, p, others, True)
    scale = TABLE.div(maxnorm, TABLE.add(sizes, 1e-7))
    return contiguous(TABLE.mul(input, TABLE.where(TABLE.gt(sizes, maxnorm), scale, 1.0)))
