"""Library functions that make tensors from sizes, numbers and random numbers.

Contract: they go through `dispatch`, so they run eagerly and are recorded by capture. Without
`dtype` floats are float32 and integers int64. Other layouts than `strided` are refused. What is
made like a tensor lies in memory as that tensor does, unless `memory_format` says otherwise. Random
functions take the next numbers of the default generator, or of `generator`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from dynajit.core.errors import (
    ArgumentError,
    ArgumentRuntimeError,
    DeviceError,
    DTypeError,
    DTypeNotImplementedError,
    ShapeError,
    UnsupportedError,
)
from dynajit.core.types import dtypes, symint
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.memory_format import order_in
from dynajit.core.types.symint import SymInt
from dynajit.core.types.tensor_layouts import require_strided, require_strided_like
from dynajit.core.types.value_types import Shape
from dynajit.ops.calls import arguments, contents
from dynajit.ops.calls.arguments import (
    cast,
    device_of,
    float_operand,
    is_tensor,
    non_negative,
    sizes,
    spread,
    unchanged_by,
    with_integers,
)
from dynajit.ops.calls.dtypes_of_operands import as_written, refuse_complex_dtype
from dynajit.ops.calls.positions import triangle_positions
from dynajit.ops.calls.public import Out, public
from dynajit.ops.functions.creation.random_fills import (
    check_bounds,
    check_count,
    check_probabilities,
    integers,
)
from dynajit.ops.functions.reductions.reduction import topk
from dynajit.ops.rows.random import blocks_of
from dynajit.ops.table import dispatch
from dynajit.ops.table.op_table import TABLE
from dynajit.ops.table.result_layouts import Order, lies_by_rows, preserved_order


def _dtype(dtype: Any, default: DType | None = None) -> DType:
    if dtype is None:
        return dtypes.default_floating() if default is None else default
    return arguments.dtype_of(dtype)


_NONE: Final[Mapping[str, Any]] = {}

#: What may be among the options: arguments without an effect, and what functions read there.
_OPTIONS: Final = frozenset((
    "dtype", "end", "generator", "high", "layout", "low", "memory_format", "pin_memory",
    "requires_grad", "size", "start", "step",
))  # fmt: skip


def _finish(result: Any, requires_grad: bool, options: Mapping[str, Any] = _NONE) -> Any:
    """The tensor as the rest of the arguments wants it.

    Raises:
        ArgumentError: there is an option that no function knows.
        UnsupportedError: `pin_memory=True` while a graph is recorded, or another layout.
    """
    if options and not options.keys() <= _OPTIONS:
        unknown = sorted(options.keys() - _OPTIONS)[0]
        raise ArgumentError(
            f"got an unexpected keyword argument {unknown!r} for a function that makes a tensor.  "
            "Expected dtype, device, requires_grad, layout, pin_memory, memory_format or generator."
        )
    if options:
        require_strided(options.get("layout"))
    if options.get("pin_memory"):
        if dispatch.is_recording():
            raise UnsupportedError("pin_memory=True: graphs make no pinned memory.")
        result = result.pin_memory()
    return result.requires_grad_(True) if requires_grad else result


@public(out=Out.FACTORY)
def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None,
         requires_grad: bool = False, **options: Any) -> Any:  # fmt: skip
    """One number everywhere; without dtype that of the number, or of a tensor's kind of number."""
    shape = non_negative(sizes(spread((size,)), "full"), "full")
    value = arguments.operand(fill_value)
    category = value.dtype.category if is_tensor(value) else arguments.category_of(value)
    kind = _dtype(dtype, dtypes.default_of(category))
    value = arguments.fitting(value, kind, "full")
    result = TABLE.full(value, shape=shape, dtype=kind, device=device_of(device))
    return _finish(result, requires_grad, options)


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
                  **options: Any) -> Any:  # fmt: skip
    """A number as a tensor without dims, of the default dtype whatever the number's kind.

    Raises:
        DTypeError: a complex number, and a dtype that is not.
    """
    kind = _dtype(dtype)
    if isinstance(s, complex) and not kind.is_complex and kind.category is not Category.BOOL:
        raise DTypeError(f"value cannot be converted to type {kind.name} without overflow")
    return full((), s, dtype=kind, device=device, requires_grad=requires_grad, **options)


def _constant(name: str, value: float) -> Any:
    def function(*size: Any, dtype: Any = None, device: Any = None,
                 requires_grad: bool = False, **options: Any) -> Any:  # fmt: skip
        shape = non_negative(sizes(spread(size, options.get("size")), name), name)
        kind = _dtype(dtype)
        result = TABLE.full(value, shape=shape, dtype=kind, device=device_of(device))
        order = order_in(options.get("memory_format"), len(shape)) if options else None
        result = result if order is None else TABLE.laid_out(result, order=order)
        return _finish(result, requires_grad, options)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Tensor of {value:g}s: `{name}(2, 3)` or `{name}((2, 3))`."
    return function


def _full_like(input: Any, value: Any, dtype: Any, place: Any, options: Mapping[str, Any]) -> Any:
    """One number everywhere, in the memory format that the options name: by default input's."""
    in_parts = getattr(input, "_made_alike", None)
    if in_parts is not None:
        return in_parts(lambda shape: TABLE.full(value, shape=shape, dtype=dtype, device=place))
    shape = tuple(input.shape)
    order = _order_like(input, options)
    if order is None:
        return TABLE.full(value, shape=shape, dtype=dtype, device=place)
    one = TABLE.full(value, shape=(), dtype=dtype, device=place)
    return TABLE.laid_out(TABLE.expand(one, shape=shape), order=order)


def _order_like(input: Any, options: Mapping[str, Any]) -> Order:
    """The dims of what is made like a tensor, from the outermost in memory on."""
    is_sparse = getattr(input, "is_sparse", False)
    if not options and (is_sparse or lies_by_rows(input)):
        return None
    order = order_in(options.get("memory_format"), len(input.shape))
    return order if order is not None or is_sparse else preserved_order(input)


def _drawn_like(input: Any, result: Any, options: Mapping[str, Any]) -> Any:
    """Random numbers in the memory format that the options name: by default input's."""
    in_parts = getattr(input, "_part_of_whole", None)
    if in_parts is not None:
        return in_parts(result)
    order = _order_like(input, options)
    return result if order is None else TABLE.laid_out(result, order=order)


def _constant_like(name: str, value: float) -> Any:
    def function(input: Any, *, dtype: Any = None, device: Any = None,
                 requires_grad: bool = False, **options: Any) -> Any:  # fmt: skip
        require_strided_like(input, options)
        place = input.device if device is None else device_of(device)
        result = _full_like(input, value, _dtype(dtype, input.dtype), place, options)
        return _finish(result, requires_grad, options)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Tensor of {value:g}s with the shape, dtype and device of input."
    return function


zeros = public(out=Out.FACTORY)(_constant("zeros", 0))
ones = public(out=Out.FACTORY)(_constant("ones", 1))
# Reading memory that nobody wrote would make results depend on what ran before.
empty = public(out=Out.FACTORY)(_constant("empty", 0))
zeros_like = public(out=Out.ABSENT)(_constant_like("zeros_like", 0))
ones_like = public(out=Out.ABSENT)(_constant_like("ones_like", 1))
empty_like = public(out=Out.ABSENT)(_constant_like("empty_like", 0))


@public(out=Out.ABSENT)
def full_like(input: Any, fill_value: Any, *, dtype: Any = None, device: Any = None,
              requires_grad: bool = False, **options: Any) -> Any:  # fmt: skip
    """One number everywhere, with the shape, dtype and device of input."""
    require_strided_like(input, options)
    place = input.device if device is None else device_of(device)
    kind = _dtype(dtype, input.dtype)
    value = arguments.fitting(fill_value, kind, "full_like")
    result = _full_like(input, value, kind, place, options)
    return _finish(result, requires_grad, options)


def new_full(input: Any, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None,
             requires_grad: bool = False, **options: Any) -> Any:  # fmt: skip
    """One number everywhere, with the dtype and device of input."""
    place = input.device if device is None else device_of(device)
    made = full(size, fill_value, dtype=_dtype(dtype, input.dtype), device=place, **options)
    in_parts = getattr(input, "_part_of_whole", None)
    if in_parts is not None:
        made = in_parts(made)
    return made.requires_grad_(True) if requires_grad else made


def _new(name: str, value: float) -> Any:
    def function(input: Any, *sizes_: Any, size: Any = None, dtype: Any = None, device: Any = None,
                 requires_grad: bool = False, **options: Any) -> Any:  # fmt: skip
        return new_full(input, spread(sizes_, size), value, dtype=dtype, device=device,
                        requires_grad=requires_grad, **options)  # fmt: skip

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Tensor of {value:g}s with the dtype and device of input."
    return function


new_zeros = _new("new_zeros", 0)
new_ones = _new("new_ones", 1)
new_empty = _new("new_empty", 0)


def strided_count(size: Sequence[int], stride: Sequence[int]) -> int:
    """How many elements of memory a tensor of these sizes and strides reaches."""
    if 0 in tuple(size):
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=False))


def new_empty_strided(input: Any, size: Any, stride: Any, *, requires_grad: bool = False,
                      **options: Any) -> Any:  # fmt: skip
    """Zeros with the dtype and device of input, that lie in memory by strides."""
    made = new_empty(input, strided_count(size, stride), **options).as_strided(size, stride)
    return made.requires_grad_(True) if requires_grad else made


@public(out=Out.RANGE)
def arange(*bounds: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
           **options: Any) -> Any:  # fmt: skip
    """`arange(end)`, `arange(start, end)`, `arange(start, end, step)`; the end is left out.

    int64 for integers, else the default dtype. Of an integer `dtype`, start and step lose their
    fraction; of int64 the end does, too, in front of the count.

    Raises:
        ArgumentError: step is 0 or leads away from the end.
    """
    named: dict[str, Any] = {
        key: options[key] for key in ("start", "end", "step") if key in options
    }
    given = _arange_bounds(bounds, named)
    if dtype is None and all(type(v) is int for v in given):  # the usual case, in half of the time
        start, end, step = given
        count: Any = -((start - end) // step) if step else 0
        if count > 0:
            result = TABLE.arange(
                start, step, size=count, dtype=dtypes.int64, device=device_of(device)
            )
            return _finish(result, requires_grad, options)
    start, end, step = given
    whole = all(not isinstance(v, (float, np.floating)) for v in (start, end, step))
    kind = _dtype(dtype, dtypes.int64 if whole else None)
    if kind is dtypes.int64:
        start, end, step = (arguments.coefficient(v, kind) for v in (start, end, step))
        whole = True
    if not all(isinstance(v, SymInt) or math.isfinite(v) for v in (start, end)):
        raise ArgumentRuntimeError(f"arange: unsupported range, {start} to {end}.")
    if not isinstance(step, SymInt) and step == 0:
        raise ArgumentRuntimeError("arange: step must be nonzero.")
    if whole:
        count = (end - start + step - (1 if step > 0 else -1)) // step
    else:
        count = _count(start, end, step)
    known = not any(isinstance(v, SymInt) for v in (start, end, step))
    if known and ((end < start) if step > 0 else (end > start)):
        raise ArgumentRuntimeError(
            f"arange({start}, {end}, {step}): upper bound and lower bound inconsistent with step "
            "sign."
        )
    start, step = arguments.coefficient(start, kind), arguments.coefficient(step, kind)
    result = TABLE.arange(start, step, size=count, dtype=kind, device=device_of(device))
    return _finish(result, requires_grad, options)


def _count(start: Any, end: Any, step: Any) -> Any:
    """How many numbers there are from start to end, for floats.

    With symbolic sizes among them it is an expression, if steps are whole or a whole part of 1.
    """
    if not any(isinstance(v, SymInt) for v in (start, end, step)):
        return math.ceil((end - start) / step)
    start, end = (int(v) if _is_whole(v) else v for v in (start, end))
    if isinstance(start, float) or isinstance(end, float) or isinstance(step, SymInt):
        return math.ceil((int(end) - int(start)) / step)
    if _is_whole(step):
        return -((start - end) // int(step))
    if _is_whole(1 / step):
        return (end - start) * int(1 / step)
    return math.ceil(int(end - start) / step)


def _is_whole(value: Any) -> bool:
    return isinstance(value, float | int) and float(value).is_integer()


def _bound(value: Any) -> Any:
    """A bound of a range as a number: NumPy's, and a tensor's only element."""
    if type(value) in (int, float):
        return value
    if is_tensor(value) and value.dtype.category is Category.INTEGER:
        return arguments.size(value, "arange")
    return value.item() if is_tensor(value) else arguments.operand(value)


def _arange_bounds(bounds: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, Any]:
    if not named and len(bounds) == 1 and type(bounds[0]) is int:  # nearly always
        return 0, bounds[0], 1
    given = [_bound(value) for value in bounds]
    named = {name: _bound(value) for name, value in named.items()}
    if len(given) == 1 and "end" not in named:
        return named.get("start", 0), given[0], named.get("step", 1)
    names = ("start", "end", "step")
    values = {**dict(zip(names, given, strict=False)), **named}
    if "end" not in values or len(given) > 3:
        raise ArgumentError("arange: expected arange(end), arange(start, end[, step]).")
    return values.get("start", 0), values["end"], values.get("step", 1)


@public(out=Out.RANGE)
@with_integers
def linspace(start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None,
             requires_grad: bool = False, **options: Any) -> Any:  # fmt: skip
    """`steps` evenly spaced numbers from start to end, both included, which lose their fraction
    first where `dtype` is an integer one."""
    for bound in (start, end):
        if is_tensor(bound) and len(bound.shape):
            raise ShapeError(
                "linspace only supports 0-dimensional start and end tensors, but got "
                f"{len(bound.shape)} dimension(s)."
            )
    if steps < 0:
        raise ArgumentRuntimeError(f"linspace: number of steps must be non-negative, got {steps}.")
    place = device_of(device)
    _refuse_complex("linspace", dtype, start, end)
    start, end = map(float_operand, _bounds_in(dtype, start, end))
    last = float_operand(steps - 1)
    step = (end - start) / last if steps > 1 else 0.0
    index = TABLE.arange(0, 1, size=steps, dtype=dtypes.float64, device=place)
    rising = TABLE.add(TABLE.mul(index, step), start)
    # From the middle on the numbers count back from the end, so that it is met exactly.
    falling = TABLE.sub(end, TABLE.mul(TABLE.sub(last, index), step))
    first_half = TABLE.lt(index, float_operand(symint.maximum(steps // 2, 1)))
    spread_over = dtypes.default_complex() if rising.dtype.is_complex else None
    result = cast(TABLE.where(first_half, rising, falling), _dtype(dtype, spread_over))
    return _finish(result, requires_grad, options)


def _is_complex(number: Any) -> bool:
    return number.dtype.is_complex if is_tensor(number) else isinstance(number, complex)


def _refuse_complex(function: str, dtype: Any, *bounds: Any) -> None:
    """
    Raises:
        DTypeError: a bound is complex, and the dtype is not.
    """
    if dtype is None or arguments.dtype_of(dtype).is_complex or not any(map(_is_complex, bounds)):
        return
    raise DTypeError(
        f"{function}: numbers between complex bounds cannot be cast to {dtype}.  Expected a "
        "complex dtype."
    )


def _bounds_in(dtype: Any, *bounds: Any) -> tuple[Any, ...]:
    """The bounds of a range as numbers of its dtype, if one is asked for."""
    if dtype is None:
        return bounds
    kind = arguments.dtype_of(dtype)
    whole = kind.category is Category.INTEGER
    wide = dtypes.complex128 if kind.is_complex else dtypes.float64
    return tuple(
        cast(cast(bound, kind) if whole else bound, wide)  # float32 would count some steps short
        if is_tensor(bound)
        else arguments.coefficient(bound, kind)
        for bound in bounds
    )


@public(out=Out.RANGE)
@with_integers
def logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None,
             device: Any = None, **options: Any) -> Any:  # fmt: skip
    """`base` to the powers `linspace(start, end, steps)`; of an integer `dtype` start and end lose
    their fraction first."""
    if isinstance(base, complex):
        raise ArgumentError(f"logspace(base={base}): expected a real number.")
    _refuse_complex("logspace", dtype, start, end)
    start, end = _bounds_in(dtype, start, end)
    is_complex = any(map(_is_complex, (start, end)))
    wide = dtypes.complex128 if is_complex else dtypes.float64
    powers = linspace(start, end, steps, dtype=wide, device=device)
    kind = _dtype(dtype, dtypes.default_complex() if is_complex else None)
    result = cast(TABLE.pow(base, powers), kind)
    return _finish(result, bool(options.get("requires_grad")), options)


@public(out=Out.FACTORY)
def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None,
        requires_grad: bool = False, **options: Any) -> Any:  # fmt: skip
    """Ones on the diagonal of an n by m (n) matrix, else zeros."""
    m = n if m is None else m
    shape = non_negative(sizes((n, m), "eye"), "eye")
    place = device_of(device)
    rows = TABLE.arange(0, 1, size=shape[0], dtype=dtypes.int64, device=place)
    columns = TABLE.arange(0, 1, size=shape[1], dtype=dtypes.int64, device=place)
    hit = TABLE.eq(TABLE.reshape(rows, shape=(shape[0], 1)), columns)
    return _finish(cast(hit, _dtype(dtype)), requires_grad, options)


@public(out=Out.ABSENT)
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """Grids of coordinates from one-dimensional tensors; "xy" swaps the first two dims."""
    if indexing not in ("ij", "xy"):
        raise ArgumentRuntimeError(f"meshgrid(indexing={indexing!r}): expected 'ij' or 'xy'.")
    given = list(spread(tensors))
    if not given:
        raise ArgumentRuntimeError("meshgrid expects a non-empty TensorList")
    if any(x.dtype is not given[0].dtype for x in given):
        raise DTypeError("meshgrid expects all tensors to have the same dtype")
    if any(x.device != given[0].device for x in given):
        raise DeviceError("meshgrid expects all tensors to have the same device")
    swap = indexing == "xy" and len(given) > 1
    if swap:
        given[0], given[1] = given[1], given[0]
    lengths = tuple(x.shape[0] if x.shape else 1 for x in given)
    grids = []
    for i, x in enumerate(given):
        column = TABLE.reshape(x, shape=tuple(n if d == i else 1 for d, n in enumerate(lengths)))
        grids.append(TABLE.expand(column, shape=lengths))
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def _triangle_in(
    name: str, shape: tuple[int, int], offset: int, dtype: Any, device: Any, options: dict[str, Any]
) -> Any:
    kind = _dtype(dtype, dtypes.int64)
    if kind.category is not Category.INTEGER:
        raise DTypeError(f"{name}: dtype is {kind.name}.  Expected an integer dtype.")
    found = triangle_positions(*shape, offset, name == "tril_indices", device_of(device))
    return _finish(cast(TABLE.stack(*found, dim=0), kind), False, options)


@public(out=Out.ABSENT)
@with_integers
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None,
                 **options: Any) -> Any:  # fmt: skip
    """Positions of the lower triangle of a row by col matrix, int64 or `dtype`, (2, n)."""
    return _triangle_in("tril_indices", (row, col), offset, dtype, device, options)


@public(out=Out.ABSENT)
@with_integers
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None,
                 **options: Any) -> Any:  # fmt: skip
    """Positions of the upper triangle of a row by col matrix, int64 or `dtype`, (2, n)."""
    return _triangle_in("triu_indices", (row, col), offset, dtype, device, options)


# ---------------------------------------------------------------------------------------------
# random numbers


def reserve(blocks: Any, generator: Any = None, device: Device = CPU) -> tuple[Any, Any, Any]:
    """(seed, offset, shift) of the next `blocks` blocks of a generator, by default the device's.

    Raises:
        UnsupportedError: an explicit generator while a graph is recorded.
        DeviceError: the generator is that of another kind of device.
    """
    if generator is None:
        return dispatch.reserve_random(blocks, device)
    if dispatch.is_recording():
        raise UnsupportedError(
            "a generator argument cannot be captured: its position would become a constant.  Use "
            "the default generator, or draw outside the compiled function."
        )
    if generator.device.type != device.type:
        raise DeviceError(
            f"Expected a '{device.type}' device type for generator but found "
            f"'{generator.device.type}'.  Pass a generator made with Generator({device.type!r})."
        )
    instead = dispatch.redirected()
    if instead is not None:
        return instead(blocks, device, generator)
    seed, offset = generator.reserve(blocks)
    return seed, offset, 0


def _draw(
    name: str, shape: Shape, dtype: Any, device: Any, generator: Any, requires_grad: bool = False,
    options: Mapping[str, Any] = _NONE,
) -> Any:  # fmt: skip
    row, kind = TABLE[name], _dtype(dtype)
    if kind.is_complex:
        drawn = _draw(name, (*shape, 2), dtypes.real_of(kind), device, generator)
        pairs = TABLE.view_as_complex(drawn)
        # Both parts of a standard normal number vary by 1/2.
        result = TABLE.mul(pairs, math.sqrt(0.5)) if name == "randn" else pairs
        return _finish(TABLE.clone(result), requires_grad, options)
    if kind.category is not Category.FLOATING:
        raise DTypeNotImplementedError(
            f"{name} is not defined for {kind.name}.  Expected a floating or complex dtype; for "
            "integers call randint."
        )
    place = device_of(device)
    seed, offset, shift = reserve(blocks_of(row, shape, kind), generator, place)
    result = row(seed, offset, shape=shape, dtype=kind, device=place, shift=shift)
    return _finish(result, requires_grad, options)


@public(out=Out.FACTORY)
def rand(*size: Any, generator: Any = None, dtype: Any = None, device: Any = None,
         requires_grad: bool = False, **options: Any) -> Any:  # fmt: skip
    """Uniform in [0, 1)."""
    shape = non_negative(sizes(spread(size, options.get("size")), "rand"), "rand")
    return _draw("rand", shape, dtype, device, generator, requires_grad, options)


@public(out=Out.FACTORY)
def randn(*size: Any, generator: Any = None, dtype: Any = None, device: Any = None,
          requires_grad: bool = False, **options: Any) -> Any:  # fmt: skip
    """Standard normal."""
    shape = non_negative(sizes(spread(size, options.get("size")), "randn"), "randn")
    return _draw("randn", shape, dtype, device, generator, requires_grad, options)


@public(out=Out.ABSENT)
def rand_like(input: Any, *, dtype: Any = None, device: Any = None, generator: Any = None,
              requires_grad: bool = False, **options: Any) -> Any:  # fmt: skip
    """Uniform in [0, 1), with the shape, dtype and device of input."""
    require_strided_like(input, options)
    place = input.device if device is None else device
    kind = input.dtype if dtype is None else dtype
    drawn = _draw("rand", tuple(input.shape), kind, place, generator)
    return _finish(_drawn_like(input, drawn, options), requires_grad, options)


@public(out=Out.ABSENT)
def randn_like(input: Any, *, dtype: Any = None, device: Any = None, generator: Any = None,
               requires_grad: bool = False, **options: Any) -> Any:  # fmt: skip
    """Standard normal, with the shape, dtype and device of input."""
    require_strided_like(input, options)
    place = input.device if device is None else device
    kind = input.dtype if dtype is None else dtype
    drawn = _draw("randn", tuple(input.shape), kind, place, generator)
    return _finish(_drawn_like(input, drawn, options), requires_grad, options)


@public(out=Out.FACTORY)
def randint(*bounds: Any, size: Any = None, generator: Any = None, dtype: Any = None,
            device: Any = None, requires_grad: bool = False, **options: Any) -> Any:  # fmt: skip
    """Integers in [low, high): `randint(high, size)` or `randint(low, high, size)`."""
    require_strided(options.get("layout"))
    given = list(bounds)
    if size is None and given and isinstance(given[-1], (tuple, list)):
        size = given.pop()
    low = options.get("low", given[0] if len(given) == 2 else 0)
    high = options.get("high", given[-1] if given else None)
    if size is None or high is None or len(given) > 2:
        raise ArgumentError("randint: expected randint(high, size) or randint(low, high, size).")
    low, high = arguments.size(low, "randint"), arguments.size(high, "randint")
    if not low < high:
        raise ArgumentRuntimeError(
            f"randint: random_ expects 'from' to be less than 'to', but got {low} >= {high}."
        )
    shape = non_negative(sizes(size, "randint"), "randint")
    result = _integers(low, high, shape, _dtype(dtype, dtypes.int64), device, generator)
    return _finish(result, requires_grad, options)


def _integers(low: int, high: int, shape: Shape, dtype: DType, device: Any, generator: Any) -> Any:
    check_bounds(low, high, dtype)

    def draw(row: str, kind: DType) -> Any:
        return _draw(row, shape, kind, device, generator)

    return cast(integers(draw, low, high), dtype)


@public(out=Out.ABSENT)
@with_integers
def randint_like(input: Any, low: int | None = None, high: int | None = None, *,
                 device: Any = None, **options: Any) -> Any:  # fmt: skip
    """Integers in [low, high), with the shape, dtype and device of input; in [0, low) where there
    is no high, in [0, high) where there is no low.

    Raises:
        ArgumentError: there is neither.
    """
    require_strided_like(input, options)
    refuse_complex_dtype("randint_like", input)
    if low is None and high is None:
        raise ArgumentError("randint_like: expected high, or low and high.")
    if low is None or high is None:
        low, high = 0, high if low is None else low
    assert high is not None
    kind = _dtype(options.get("dtype"), input.dtype)
    place = input.device if device is None else device
    drawn = _integers(low, high, tuple(input.shape), kind, place, options.get("generator"))
    result = _drawn_like(input, drawn, options)
    return _finish(result, bool(options.get("requires_grad")), options)


@public(out=Out.FACTORY)
@with_integers
def randperm(n: int, *, generator: Any = None, dtype: Any = None, device: Any = None,
             **options: Any) -> Any:  # fmt: skip
    """The integers 0 .. n-1 in random order.

    Raises:
        DTypeError: the dtype does not hold them.
    """
    require_strided(options.get("layout"))
    check_count(n, _dtype(dtype, dtypes.int64), "randperm")
    keys = _draw("rand", non_negative((n,), "randperm"), dtypes.float64, device, generator)
    result = cast(TABLE.argsort(keys, dim=0), _dtype(dtype, dtypes.int64))
    return _finish(result, bool(options.get("requires_grad")), options)


@public(out=Out.FACTORY)
def normal(mean: Any, std: Any = 1.0, size: Any = None, *, generator: Any = None,
           dtype: Any = None, device: Any = None, **options: Any) -> Any:  # fmt: skip
    """Normal with the given mean and standard deviation (numbers or tensors).

    Raises:
        ShapeError: a deviation is negative or NaN, as PyTorch's RuntimeError.
        DTypeError: the result does not fit the dtype of the mean's tensor, which it has, or of the
            deviations' where the mean is a number.
    """
    require_strided(options.get("layout"))
    if not (contents.accepts(std, lambda x: TABLE.ge(x, 0)) if is_tensor(std) else std >= 0):
        raise ShapeError(f"normal expects all elements of std to be at least 0.0, got {std}")
    if size is None:
        like = mean if is_tensor(mean) else std
        if not is_tensor(like):
            raise ArgumentError("normal: expected a size where mean and std are numbers.")
        shape = (
            tuple(TABLE.add(mean, std).shape)
            if is_tensor(mean) and is_tensor(std)
            else (tuple(like.shape))
        )
        noise = _draw("randn", shape, like.dtype, like.device, generator)
    else:
        place = CPU if device is None else device  # PyTorch's takes no account of a default one
        noise = _draw("randn", sizes(spread((size,)), "normal"), dtype, place, generator)
    result = TABLE.add(TABLE.mul(noise, std), mean)
    result = as_written("normal", result, noise.dtype)
    return _finish(result, bool(options.get("requires_grad")), options)


@public(method=True)
def bernoulli(input: Any, p: Any = None, *, generator: Any = None) -> Any:
    """1 with the probability in input (or p), else 0; shape and dtype of input.

    Raises:
        ShapeError: one is no probability, as PyTorch's RuntimeError.
    """
    chance = input if p is None else p
    check_probabilities(chance, "bernoulli")
    kind = dtypes.float64 if input.dtype is dtypes.float64 else dtypes.float32
    uniform = _draw("rand", tuple(input.shape), kind, input.device, generator)
    if is_tensor(chance):
        return cast(TABLE.is_drawn(uniform, chance), input.dtype)
    return unchanged_by(cast(TABLE.lt(uniform, chance), input.dtype), input, "bernoulli")


def _check_distribution(p: Any) -> None:
    """Refuse numbers (*, n) that are no probabilities, up to a factor.

    Raises:
        ShapeError: one is negative, infinite or NaN, or all of a row are 0.
    """
    good = TABLE.logical_and(TABLE.ge(p, 0), TABLE.lt(p, float("inf")))
    if not contents.holds(good):
        raise ShapeError(
            "multinomial: probability tensor contains either `inf`, `nan` or element < 0.  "
            "Expected numbers of at least 0; softmax makes such."
        )
    # Sums of such numbers are positive if one of them is.
    if not contents.holds(TABLE.any(TABLE.gt(p, 0), dim=(len(p.shape) - 1,), keepdim=False)):
        raise ShapeError(
            "multinomial: invalid multinomial distribution (sum of probabilities <= 0).  Expected "
            "a positive number in each row."
        )


@public(out=Out.SAME_DTYPE, method=True)
@with_integers
def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Any:
    """Positions drawn with probabilities proportional to the last dim of input.

    Without replacement the largest of `p / e` with standard exponential e are taken (the Gumbel
    trick: W. Kool et al., arXiv:1903.06059); with replacement uniforms are compared with sums.
    """
    rank = len(input.shape)
    if rank not in (1, 2) or input.dtype.category is not Category.FLOATING:
        raise ShapeError("multinomial: expected a floating tensor with 1 or 2 dims.")
    if num_samples <= 0:
        raise ShapeError(f"multinomial: cannot sample n_sample <= 0 samples, got {num_samples}.")
    if input.device.type == "cpu":
        _check_distribution(TABLE.detach(input))
    p = cast(input, dtypes.float64)
    if not replacement:
        if isinstance(p.shape[-1], int) and num_samples > p.shape[-1]:
            raise ShapeError(
                "multinomial: cannot sample more than prob_dist.size(-1) samples without "
                "replacement."
            )
        uniform = _draw("rand", tuple(p.shape), dtypes.float64, input.device, generator)
        waiting = TABLE.neg(TABLE.log1p(TABLE.neg(uniform)))
        return topk(TABLE.div(p, waiting), num_samples, -1).indices
    sums = TABLE.cumsum(p, dim=rank - 1, reverse=False)
    batch: Sequence[Any] = tuple(p.shape[:-1])
    last = TABLE.select(sums, dim=rank - 1, index=p.shape[-1] - 1)
    uniform = _draw("rand", (*batch, num_samples), dtypes.float64, input.device, generator)
    level = TABLE.mul(uniform, TABLE.reshape(last, shape=(*batch, 1)))
    below = TABLE.le(
        TABLE.reshape(sums, shape=(*batch, 1, p.shape[-1])),
        TABLE.reshape(level, shape=(*batch, num_samples, 1)),
    )
    return TABLE.sum(below, dim=(rank,), keepdim=False)
