"""NumPy's functions that make arrays, over tensors: float64 where nobody says otherwise."""

import inspect
import math
from fractions import Fraction
from typing import Any

import numpy as np

from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.symint import SymInt, floordiv, is_at_least, larger
from dynajit.ops.calls.arguments import constant, is_tensor
from dynajit.ops.functions.arrays.host_made import by_numpy
from dynajit.ops.functions.arrays.shapes import refuse_lossy
from dynajit.ops.functions.arrays.table import Order, left, name_of, stands_for
from dynajit.ops.functions.arrays.types import (
    as_tensor,
    in_dtype,
    kind_of,
    own_dtype,
    refuse_given,
    require_c_order,
    sizes_of,
)
from dynajit.ops.functions.shapes.shape import broadcast_to
from dynajit.ops.table.op_table import TABLE

#: What is computed with in nests only.
_UNSIGNED = [dtype.numpy for dtype in dtypes.UNSIGNED]


def _filled(value: Any, shape: Any, dtype: Any) -> Any:
    kind = np.dtype(np.float64 if dtype is None else dtype)
    if kind in _UNSIGNED and value in (0, 1):  # nests fill them further
        return TABLE.full(
            int(value), shape=sizes_of(shape), dtype=dtypes.from_numpy(kind), device=CPU
        )
    own = own_dtype(kind)
    return TABLE.full(in_dtype(value, kind), shape=sizes_of(shape), dtype=own, device=CPU)


def _by_columns(value: Any, shape: Any, dtype: Any, order: Any) -> Any:
    """As many as `shape` says, which lie as `order` says."""
    if order != "F":
        require_c_order(order)
        return _filled(value, shape, dtype)
    made = _filled(value, sizes_of(shape)[::-1], dtype)
    return TABLE.permute(made, dims=tuple(range(len(made.shape)))[::-1])


def _on_cpu(name: str, device: Any, like: Any) -> None:
    if device not in (None, "cpu") or like is not None:
        raise left(f"device= or like= of numpy.{name}")


@stands_for(np.zeros, np.empty, gives_arrays=True)
def zeros(shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None,
          like: Any = None) -> Any:  # fmt: skip
    """Zeros; `empty` is not promised any others."""
    _on_cpu("zeros", device, like)
    return _by_columns(0, shape, dtype, order)


@stands_for(np.ndarray, gives_arrays=True)
def ndarray(shape: Any, dtype: Any = float, buffer: Any = None, offset: Any = 0,
            strides: Any = None, order: Any = None) -> Any:  # fmt: skip
    """As `empty`; not over memory that there is."""
    refuse_given("ndarray", buffer=buffer, strides=strides)
    if type(offset) is not int or offset:
        raise left("offset= of numpy.ndarray")
    return _by_columns(0, shape, dtype, order)


@stands_for(np.ones, gives_arrays=True)
def ones(shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None,
         like: Any = None) -> Any:  # fmt: skip
    """Ones."""
    _on_cpu("ones", device, like)
    return _by_columns(1, shape, dtype, order)


@stands_for(np.full, gives_arrays=True)
def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", *,
         like: Any = None) -> Any:  # fmt: skip
    """One value everywhere, by default in its own dtype."""
    require_c_order(order)
    refuse_given("full", like=like)
    kind = np.dtype(kind_of(fill_value)) if dtype is None else np.dtype(dtype)
    value = as_tensor(fill_value)
    refuse_lossy(value, kind)
    return TABLE.clone(broadcast_to(in_dtype(value, kind), sizes_of(shape)))


def _like(value: Any, a: Any, dtype: Any, order: Any, shape: Any) -> Any:
    require_c_order(order, "K", "A")
    a = as_tensor(a)
    kind = a.dtype.numpy if dtype is None else np.dtype(dtype)
    if shape is not None:
        return _filled(value, shape, kind)
    base = in_dtype(a, kind) if a.dtype.numpy == kind else None
    if base is None:
        return _filled(value, tuple(a.shape), kind)
    # by an operation of elements, so that the result lies as the array does
    made = as_tensor(value, kind)
    return TABLE.where(TABLE.eq(base, base), made, made)


@stands_for(np.zeros_like, np.empty_like, gives_arrays=True)
def zeros_like(a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None,
               *, device: Any = None) -> Any:  # fmt: skip
    """Zeros, as many as an array has elements."""
    return _like(0, a, dtype, order, shape)


@stands_for(np.ones_like, gives_arrays=True)
def ones_like(a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None,
              *, device: Any = None) -> Any:  # fmt: skip
    """Ones, as many as an array has elements."""
    return _like(1, a, dtype, order, shape)


@stands_for(np.full_like, gives_arrays=True)
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: Any = "K", subok: bool = True,
              shape: Any = None, *, device: Any = None) -> Any:  # fmt: skip
    """One value, as often as an array has elements."""
    if is_tensor(fill_value) and not fill_value.shape:
        refuse_lossy(fill_value, a.dtype.numpy if dtype is None else np.dtype(dtype))
    elif type(fill_value) not in (bool, int, float):
        raise left("numpy.full_like of an array")
    return _like(fill_value, a, dtype, order, shape)


def _known(name: str, *values: Any) -> None:
    if any(type(value) not in (bool, int, float, type(None)) for value in values):
        raise left(f"numpy.{name} of numbers that vary")


def _known_or_varies(name: str, *values: Any) -> None:
    _known(name, *(value for value in values if not isinstance(value, SymInt)))


def _varies(*values: Any) -> bool:
    """Whether some of several integers are sizes that vary, and all are integers."""
    is_one = any(isinstance(value, SymInt) for value in values)
    return is_one and all(type(value) is int or isinstance(value, SymInt) for value in values)


def counted(start: Any, stop: Any = None, step: Any = 1) -> Any:
    """`arange` of integers of which some vary, as int64."""
    if stop is None:
        start, stop = 0, start
    if not step:
        raise left("numpy.arange by no step")
    count = larger(floordiv(stop - start + step - (1 if step > 0 else -1), step), 0)
    if type(step) is int:
        return TABLE.arange(start, step, size=count, dtype=dtypes.int64, device=CPU)
    number = TABLE.arange(0, 1, size=count, dtype=dtypes.int64, device=CPU)
    return TABLE.add(TABLE.mul(number, step), start)


def _without_fraction(bound: Any) -> Any:
    """A float that is a small integer as that: numbers that are counted from it are exact."""
    is_small = type(bound) is float and bound.is_integer() and abs(bound) < 1 << 31
    return int(bound) if is_small and str(bound) != "-0.0" else bound


@stands_for(np.arange, gives_arrays=True)
def arange(*bounds: Any, dtype: Any = None, device: Any = None) -> Any:
    """Numbers at equal steps; known now, or integers."""
    _on_cpu("arange", device, None)
    given = bounds[:-1] if len(bounds) > 1 and bounds[-1] is None else bounds  # as not given
    whole = tuple(map(_without_fraction, given))
    if _varies(*whole):
        is_float = any(type(bound) is float for bound in given)
        kind = np.float64 if is_float else np.int64
        return in_dtype(counted(*whole), kind if dtype is None else dtype)
    if len(whole) in (2, 3):
        found = _by_fractions(whole[0], whole[1], whole[2] if len(whole) > 2 else 1, dtype)
        if found is not None:
            return found
    _known("arange", *bounds)
    made = np.arange(*bounds, dtype=dtype)
    own_dtype(made.dtype)
    return constant(made, CPU)


#: Of the denominators of what `arange` goes by; see `_count_of_steps`.
_MOST_PARTS = 1 << 20


def _count_of_steps(start: Any, stop: Any, step: Any) -> Any:
    """How many numbers `arange` has where an end is a size, or None where that is not known.

    NumPy rounds the quotient of two floats, and then up. `step` is a fraction of small integers
    (0.1, 1.5), up to half of a float's last place. Where the quotient by the fraction is an
    integer, the rounded one is that integer: it is off by less than half of the distance between
    floats there. Where it is none, it is further from the next one than any rounding goes.
    """
    ends = [value if isinstance(value, SymInt) else Fraction(value) for value in (start, stop)]
    parts = Fraction(step).limit_denominator(1 << 10)
    scale = math.lcm(*(end.denominator for end in ends if isinstance(end, Fraction)))
    if not parts or abs(Fraction(step) / parts - 1) > Fraction(1, 1 << 54):
        return None
    if scale * abs(parts.numerator) * parts.denominator > _MOST_PARTS:
        return None
    first, last = (x * scale if isinstance(x, SymInt) else int(x * scale) for x in ends)
    way = (last - first) * (parts.denominator if parts > 0 else -parts.denominator)
    return larger(-floordiv(-way, scale * abs(parts.numerator)), 0)


def _by_fractions(start: Any, stop: Any, step: Any, dtype: Any) -> Any:
    """`arange` by fractions or from one to a size, which NumPy computes; None: it is another."""
    numbers = start, stop, step
    is_one = any(isinstance(value, SymInt) for value in (start, stop))
    if not is_one or type(step) not in (int, float) or not math.isfinite(step):
        return None
    if any(type(x) not in (int, float) and not isinstance(x, SymInt) for x in numbers):
        return None
    if any(type(x) is float and not abs(x) < 1 << 31 for x in numbers):
        return None
    kind = np.dtype(np.float64 if dtype is None else dtype)
    count = _count_of_steps(*numbers)
    if count is None or kind.kind != "f":
        return None
    named = () if kind == np.float64 else (kind.name,)
    return by_numpy("arange", (*numbers, *named), (count,), own_dtype(kind))


def _between(start: Any, stop: Any, num: Any, endpoint: bool) -> tuple[Any, Any]:
    """`linspace` between numbers or arrays in tensors, as NumPy computes it, and its step."""
    first, last = (as_tensor(x) for x in (start, stop))
    if any(x.dtype.name not in ("float64", "int64") for x in (first, last)):
        raise left("numpy.linspace between numbers of other dtypes")
    if not isinstance(num, (int, SymInt)) or not is_at_least(num, 2):
        raise left("numpy.linspace of so few numbers")
    first, last = (in_dtype(x, np.float64) for x in (first, last))
    apart, parts = TABLE.sub(last, first), num - 1 if endpoint else num
    step = TABLE.div(apart, parts)
    shape = (num, *(1,) * len(apart.shape))
    place = TABLE.reshape(TABLE.arange(0, 1, size=num, dtype=dtypes.int64, device=CPU), shape=shape)
    count = in_dtype(place, np.float64)
    small = TABLE.mul(TABLE.div(count, parts), apart)
    is_none = TABLE.eq(step, 0)
    dims = tuple(range(len(step.shape)))
    is_small = TABLE.any(is_none, dim=dims, keepdim=False) if dims else is_none
    found = TABLE.add(TABLE.where(is_small, small, TABLE.mul(count, step)), first)
    if endpoint:
        found = TABLE.where(TABLE.eq(place, num - 1), last, found)
    return found, step


@stands_for(np.linspace, needs_rows=Order.NOT_KNOWN)
def linspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False,
             dtype: Any = None, axis: Any = 0) -> Any:  # fmt: skip
    """Numbers at equal distances, and the distance where `retstep` says so."""
    ends = start, stop
    if axis != 0:
        raise left("numpy.linspace along another dim")
    is_open = any(is_tensor(end) or isinstance(end, (SymInt, list, tuple)) for end in ends)
    is_numpys = isinstance(num, SymInt) and is_at_least(num, 0) and dtype is not None
    if is_numpys and not retstep and not any(map(is_tensor, ends)):
        _known_or_varies("linspace", *ends, endpoint)
        kind = np.dtype(dtype)
        numbers = start, stop, num, endpoint, False, kind.name
        return by_numpy("linspace", numbers, (num,), own_dtype(kind))
    if is_open or isinstance(num, SymInt):
        found, step = _between(start, stop, num, endpoint)
        if dtype is not None:
            whole = np.dtype(dtype).kind in "iu"
            found = in_dtype(TABLE.floor(found) if whole else found, dtype)
        return (found, step) if retstep else found
    _known("linspace", start, stop, num)
    made, step = np.linspace(start, stop, num, endpoint, True, dtype)  # type: ignore[call-overload]
    own_dtype(made.dtype)
    return (
        (constant(made, CPU), constant(np.asarray(step), CPU)) if retstep else constant(made, CPU)
    )


def _by_diagonal(original: Any, compare: Any, rows: Any, columns: Any, k: Any, dtype: Any) -> Any:
    """Ones where the number of a column compares so with that of the diagonal in its row.

    Args:
        original: NumPy's function, which makes it of numbers that are known.
        compare: the row that compares.
    """
    wide = rows if columns is None else columns
    if _varies(rows, wide, k):
        down = TABLE.reshape(counted(rows), shape=(rows, 1))
        return in_dtype(compare(counted(wide), TABLE.add(down, k)), dtype)
    _known(name_of(original), rows, columns, k)
    own_dtype(dtype)
    return constant(original(rows, columns, k, np.dtype(dtype)), CPU)


@stands_for(np.eye, gives_arrays=True)
def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, order: Any = "C") -> Any:
    """Ones on a diagonal."""
    require_c_order(order)
    return _by_diagonal(np.eye, TABLE.eq, N, M, k, dtype)


@stands_for(np.identity, gives_arrays=True)
def identity(n: Any, dtype: Any = None) -> Any:
    """Ones on the diagonal."""
    return eye(n, dtype=float if dtype is None else dtype)


@stands_for(np.tri, gives_arrays=True)
def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, *, like: Any = None) -> Any:
    """Ones on a diagonal and below."""
    refuse_given("tri", like=like)
    return _by_diagonal(np.tri, TABLE.le, N, M, k, dtype)


@stands_for(np.indices, gives_arrays=True)
def indices(dimensions: Any, dtype: Any = int, sparse: Any = False) -> Any:
    """The index along each dim of every place of an array, in a new dim in front."""
    sizes = sizes_of(dimensions)
    own_dtype(dtype)
    if not _varies(*sizes):
        _known("indices", *sizes)
        made = np.indices(sizes, np.dtype(dtype), sparse)
        return tuple(constant(x, CPU) for x in made) if sparse else constant(made, CPU)
    found = []
    for dim, size in enumerate(sizes):
        alone = tuple(size if d == dim else 1 for d in range(len(sizes)))
        along = TABLE.reshape(counted(size), shape=alone)
        found.append(in_dtype(along if sparse else broadcast_to(along, sizes), dtype))
    return tuple(found) if sparse else TABLE.stack(*found, dim=0)


def _triangle(size: Any) -> Any:
    """`numpy.bartlett`, as NumPy computes it."""
    if not is_at_least(size, 2):
        raise left("numpy.bartlett of so few numbers")
    place = in_dtype(counted(1 - size, size, 2), np.float64)
    height = TABLE.div(place, size - 1)
    one = as_tensor(1.0)
    return TABLE.where(TABLE.le(place, 0), TABLE.add(one, height), TABLE.sub(one, height))


def _spacing(size: Any, d: Any) -> Any:
    """The step between frequencies, rounded as NumPy's is."""
    if type(d) not in (int, float) or not is_at_least(size, 1):
        raise left("numpy.fft.fftfreq of so few numbers, or at distances that vary,")
    whole = TABLE.mul(as_tensor(float(d)), size)
    return TABLE.div(as_tensor(1.0), whole)


def _frequencies(size: Any, d: Any = 1.0) -> Any:
    """`numpy.fft.fftfreq`, as NumPy computes it."""
    place = counted(size)
    behind = TABLE.sub(place, size)
    is_front = TABLE.lt(place, floordiv(size - 1, 2) + 1)
    found = in_dtype(TABLE.where(is_front, place, behind), np.float64)
    return TABLE.mul(found, _spacing(size, d))


def _positive_frequencies(size: Any, d: Any = 1.0) -> Any:
    """`numpy.fft.rfftfreq`, as NumPy computes it."""
    found = in_dtype(counted(floordiv(size, 2) + 1), np.float64)
    return TABLE.mul(found, _spacing(size, d))


def _window(name: str) -> Any:
    """A window of NumPy's, which computes it: its cosines have bits of their own."""

    return lambda M: by_numpy(name, (M,), (larger(M, 0),), dtypes.float64)


def _kaiser(M: Any, beta: Any) -> Any:
    """`numpy.kaiser`, by NumPy."""
    _known_or_varies("kaiser", beta)
    return by_numpy("kaiser", (M, beta), (larger(M, 0),), dtypes.float64)


def _powers(name: str, ends: Any, num: Any, rest: Any, dtype: Any) -> Any:
    """`logspace` or `geomspace` between numbers, by NumPy, whose powers have bits of their own."""
    known = [end for end in ends if not isinstance(end, SymInt)]
    _known(name, *known, *rest)
    if not is_at_least(num, 1):
        raise left(f"numpy.{name} of so few numbers")
    is_positive = all(is_at_least(x, 1) if isinstance(x, SymInt) else x > 0 for x in ends)
    if name == "geomspace" and not is_positive:
        raise left("numpy.geomspace of numbers that are not positive")
    kind = np.dtype(np.float64 if dtype is None else dtype)
    given = () if dtype is None else (kind.name,)
    return by_numpy(name, (*ends, num, *rest, *given), (num,), own_dtype(kind))


def _logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: Any = True, base: Any = 10.0, dtype: Any = None
) -> Any:
    """`numpy.logspace`."""
    return _powers("logspace", (start, stop), num, (endpoint, base), dtype)


def _geomspace(
    start: Any, stop: Any, num: Any = 50, endpoint: Any = True, dtype: Any = None
) -> Any:
    """`numpy.geomspace`."""
    return _powers("geomspace", (start, stop), num, (endpoint,), dtype)


def _up_to(number: Any) -> Any:
    """1 + 2 + ... + number; 0 of what is less."""
    positive = larger(number, 0)
    return floordiv(positive * (positive + 1), 2)


def _places_below(rows: Any, columns: Any, k: Any) -> Any:
    """How many places of a matrix are on its k-th diagonal or below: row i has `i + k + 1` of them,
    but none of less than 0 or of more than there are columns."""
    beyond = _up_to(rows + k - columns) - _up_to(k - columns)
    return _up_to(rows + k) - _up_to(k) - beyond


def _places_by_diagonal(name: str, n: Any, k: Any, m: Any) -> Any:
    """`numpy.tril_indices` or `triu_indices`."""
    columns = n if m is None else m
    if not _varies(n, k, columns):
        raise left(f"numpy.{name} of numbers that vary")
    is_below = name == "tril_indices"  # else it is below in the transposed matrix
    count = _places_below(n, columns, k) if is_below else _places_below(columns, n, -k)
    found = by_numpy(name, (n, k, m), (2, count), dtypes.int64)
    return tuple(TABLE.select(found, dim=0, index=place) for place in (0, 1))


def _lower_places(n: Any, k: Any = 0, m: Any = None) -> Any:
    """`numpy.tril_indices`."""
    return _places_by_diagonal("tril_indices", n, k, m)


def _upper_places(n: Any, k: Any = 0, m: Any = None) -> Any:
    """`numpy.triu_indices`."""
    return _places_by_diagonal("triu_indices", n, k, m)


def _places_on_diagonal(size: Any, ndim: Any = 2) -> Any:
    """`numpy.diag_indices`."""
    if type(ndim) is not int:
        raise left("numpy.diag_indices of dims that vary")
    return (counted(size),) * ndim


#: Functions of known numbers, which NumPy computes at once, and what they are of sizes that vary,
#: to NumPy's bits: a formula of rows, or a row that NumPy runs.
_OF_NUMBERS: dict[Any, Any] = {
    np.hanning: _window("hanning"),
    np.hamming: _window("hamming"),
    np.blackman: _window("blackman"),
    np.kaiser: _kaiser,
    np.bartlett: _triangle,
    np.logspace: _logspace,
    np.geomspace: _geomspace,
    np.fft.fftfreq: _frequencies,
    np.fft.rfftfreq: _positive_frequencies,
    np.diag_indices: _places_on_diagonal,
    np.triu_indices: _upper_places,
    np.tril_indices: _lower_places,
}


def _parts(value: Any) -> Any:
    return value if isinstance(value, (tuple, list)) else (value,)


def _enter_known(original: Any, formula: Any) -> None:
    name = name_of(original)

    @stands_for(original, gives_arrays=True)
    def known(*args: Any, **named: Any) -> Any:
        given = [x for v in (*args, *named.values()) for x in _parts(v)]
        plain = (bool, int, float, str, type(None), type, np.dtype)
        if not all(isinstance(value, plain) for value in given):
            if all(isinstance(value, (*plain, SymInt)) for value in given):
                return _bound(name, formula, args, named)
            raise left(f"numpy.{name} of numbers that vary")
        made = original(*args, **named)
        if isinstance(made, tuple):
            return tuple(constant(part, CPU) for part in made)
        own_dtype(made.dtype)
        return constant(made, CPU)


def _bound(name: str, formula: Any, args: Any, named: Any) -> Any:
    """What a formula gives that has the names of NumPy's parameters, but for the size's."""
    try:
        inspect.signature(formula).bind(*args, **named)
    except TypeError:
        raise left(f"numpy.{name} by these names") from None
    return formula(*args, **named)


for _original, _formula in _OF_NUMBERS.items():
    _enter_known(_original, _formula)
