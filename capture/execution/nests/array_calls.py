"""Functions of NumPy and methods of arrays that loop nests call with whole arrays.

Contract: `ArrayCalls.called_with_arrays` gives what a function gives, None where it is not one of
these. An argument that is not understood raises `NotNest`.
"""

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from dynajit.capture.execution.nests.complex_numbers import is_complex
from dynajit.capture.execution.nests.formulas import is_whole
from dynajit.capture.execution.nests.reductions import REDUCTIONS, Reductions, dtype_of
from dynajit.capture.execution.nests.values import (
    COMPLEX_DTYPES,
    DTYPES,
    LARGEST_MEDIUM,
    Array,
    Complex,
    Formula,
    Group,
    Listing,
    Literal,
    NotNest,
    Number,
    Slice,
    as_number,
)
from dynajit.capture.execution.nests.views import ONE, ZERO
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType

Named = dict[str, Any]


class ArrayCalls(Reductions):
    """See the module's text. Mutable: steps are appended."""

    def called_with_arrays(self, target: Any, given: Sequence[Any], named: Named) -> Any:
        """What a function gives; None: it is not one that is known for such arguments."""
        maker = _MAKERS.get(id(target))
        if maker is not None:
            return maker(self, *given, **named)
        function = _OF_NUMBERS.get(id(target))
        if function is None and not any(map(is_whole, given)):
            return None
        function = function or _FUNCTIONS.get(id(target))
        return None if function is None else _bound(function, self, given, named)

    def method(self, name: str, target: Any, given: Sequence[Any], named: Named) -> Any:
        """What a method of an array gives."""
        function = _METHODS.get(name)
        if function is None:
            raise NotNest
        return _bound(function, self, (target, *given), named)

    def copied(self, value: Any) -> Array:
        """`value.copy()`."""
        return self.held(value)

    def converted_to(self, value: Any, dtype: Any) -> Array:
        """`value.astype(dtype)`."""
        return self.held(value, dtype_of(dtype))

    def filled_with(self, array: Any, value: Any) -> Literal:
        """`array.fill(value)`."""
        if not isinstance(array, Array) or is_whole(value):
            raise NotNest
        self.assign(array, value)
        return Literal(None)

    def cut(self, value: Any, low: Any, high: Any) -> Any:
        """`np.clip(value, low, high)`."""
        return self.of_numpy("minimum", (self.of_numpy("maximum", (value, low)), high))

    def real_parts(self, value: Any) -> Any:
        """`value.real`, or `np.real(value)`."""
        return self._parts_named("real", value)

    def imaginary_parts(self, value: Any) -> Any:
        """`value.imag`, or `np.imag(value)`."""
        return self._parts_named("imag", value)

    def _parts_named(self, name: str, value: Any) -> Any:
        """
        Raises:
            NotNest: imaginary parts of real numbers are asked for.
        """
        if not is_whole(value):
            return self.part_of_number(value, name)
        if value.dtype.is_complex:
            array = self.held(value) if isinstance(value, Formula) else value
            return self.parts_of(array)[name == "imag"]
        if name == "imag" or not isinstance(value, Array):
            raise NotNest
        return self.part(value, Literal(...))

    def conjugates(self, value: Any) -> Any:
        """`value.conj()`, or `np.conj(value)`."""
        if not is_whole(value):
            return self.conjugate(value)
        if not value.dtype.is_complex:
            raise NotNest  # the array itself
        return self.of_numpy("conjugate", (value,))

    def angles(self, z: Any) -> Any:
        """`np.angle(z)`."""
        if is_whole(z) and z.dtype.is_complex:
            return self.formula(self._angle, z)
        return self._angle(z)

    def _angle(self, value: Any) -> Number:
        """The angle of a number, as one of NumPy's."""
        if not is_complex(value):
            raise NotNest
        return self.angle(self.numpy_number(value))

    def rounded(self, value: Any) -> Any:
        """`np.round(value)`."""
        return self.of_numpy("rint", (value,))

    def turned(self, m: Any, axis: Any = None) -> Any:
        """`np.flip(m, axis)`: a view."""
        array = self.held(m) if isinstance(m, Formula) else m
        if not isinstance(array, Array):
            raise NotNest
        rank, none = len(array.sizes), Literal(None)
        axes = self._axes(axis, rank)
        backwards = Slice(none, none, Literal(-1))
        everything = Slice(none, none, none)
        keys = [backwards if dim in axes else everything for dim in range(rank)]
        return self.part(array, Group(tuple(keys)))

    def outer(self, a: Any, b: Any) -> Any:
        """`np.outer(a, b)`."""
        a, b = (self.held(value) if isinstance(value, Formula) else value for value in (a, b))
        if not all(isinstance(value, Array) and len(value.sizes) == 1 for value in (a, b)):
            raise NotNest
        column = self.part(a, Group((Literal(...), Literal(None))))
        return self.binary("*", column, b)

    def made(self, value: Any, shape: Any, dtype: Any = None) -> Array:
        """`np.full` and its kin."""
        kind = dtypes.float64 if _is_none(dtype) else dtype_of(dtype)
        return self.filled(kind, self.sizes_of(shape), value)

    def made_full(self, shape: Any, fill_value: Any, dtype: Any = None) -> Array:
        """`np.full`."""
        if not isinstance(fill_value, Number) and _is_none(dtype):
            kinds: dict[type, DType] = {
                float: dtypes.float64, int: dtypes.int64, complex: dtypes.complex128
            }  # fmt: skip
            of_python = kinds.get(type(getattr(fill_value, "value", None)))
            kind = fill_value.dtype if isinstance(fill_value, Complex) else of_python
        else:
            kind = fill_value.dtype if _is_none(dtype) else dtype_of(dtype)
        if kind is None:
            raise NotNest
        return self.filled(kind, self.sizes_of(shape), fill_value)

    def counted(self, start: Any, stop: Any = None) -> Array:
        """`np.arange` of ints."""
        first, last = (ZERO, start) if _is_none(stop) else (start, stop)
        low, high = self.as_int(first), self.as_int(last)
        for number in (low, high):
            if isinstance(number, Number):
                self.require_between(number, -LARGEST_MEDIUM, LARGEST_MEDIUM)
        found = self.new(dtypes.int64, (self.greater(self.minus(high, low), ZERO),))
        self.each(
            found.sizes,
            lambda at: self.set_element(found, at, as_number(self.plus(at[0], low)).operand),
        )
        return found

    def made_of(self, items: Any, dtype: Any = None) -> Array:
        """`np.array` of a list or a tuple of numbers."""
        if not isinstance(items, (Group, Listing)) or not items.items:
            raise NotNest
        numbers = [item if is_complex(item) else as_number(item) for item in items.items]
        kind = dtype_of(dtype) if not _is_none(dtype) else self._joint_dtype(numbers)
        found = self.new(kind, (Literal(len(numbers)),))
        for place, number in enumerate(numbers):
            self.set_element(found, (Literal(place),), self.stored(number, kind))
        return found

    def _joint_dtype(self, numbers: Sequence[Any]) -> DType:
        """That of an array of numbers, those of Python's counting as NumPy's."""
        kinds = [
            np.dtype(complex) if isinstance(number, Literal) else number.dtype.numpy
            for number in numbers
        ]
        found = dtypes.from_numpy(np.result_type(*kinds))
        if found.name not in {**DTYPES, **COMPLEX_DTYPES}:
            raise NotNest
        return found

    def made_like(self, number: Any, array: Any, dtype: Any = None) -> Array:
        """`np.zeros_like` and its kin."""
        if not is_whole(array):
            raise NotNest
        kind = array.dtype if _is_none(dtype) else dtype_of(dtype)
        return self.filled(kind, array.sizes, number)


def _is_none(value: Any) -> bool:
    return value is None or (isinstance(value, Literal) and value.value is None)


def _bound(function: Callable[..., Any], nest: Any, given: Sequence[Any], named: Named) -> Any:
    """A call.

    Raises:
        NotNest: its arguments are others than the function has here.
    """
    names = function.__code__.co_varnames[1 : function.__code__.co_argcount]
    least = len(names) - len(function.__defaults__ or ())
    found = dict(zip(names, given, strict=False))
    if len(given) > len(names) or not set(named) <= set(names) - set(found):
        raise NotNest
    found |= named
    if not set(names[:least]) <= set(found):
        raise NotNest
    return function(nest, **found)


def _reduction(name: str) -> Callable[..., Any]:
    def reduce(nest: Reductions, a: Any, axis: Any = None) -> Any:
        return nest.reduced(name, a, axis)

    return reduce


def _in_order(name: str) -> Callable[..., Any]:
    def reduce(nest: Reductions, a: Any) -> Any:
        return nest.in_order(name, a)

    return reduce


def _maker(number: float) -> Callable[..., Any]:
    def make(nest: ArrayCalls, shape: Any, dtype: Any = None) -> Any:
        return nest.made(Literal(number), shape, dtype)

    return lambda nest, *given, **named: _bound(make, nest, given, named)


def _like(number: float) -> Callable[..., Any]:
    def make(nest: ArrayCalls, a: Any, dtype: Any = None) -> Any:
        return nest.made_like(Literal(number), a, dtype)

    return make


def _counted(nest: ArrayCalls, *given: Any, **named: Any) -> Any:
    return _bound(ArrayCalls.counted, nest, given, named)


def _array(nest: ArrayCalls, *given: Any, **named: Any) -> Any:
    if given and is_whole(given[0]):
        return _bound(ArrayCalls.copied, nest, given, named)
    return _bound(ArrayCalls.made_of, nest, given, named)


def _full(nest: ArrayCalls, *given: Any, **named: Any) -> Any:
    return _bound(ArrayCalls.made_full, nest, given, named)


_SAME: Final = {name: _reduction(name) for name in REDUCTIONS}

_METHODS: Final[dict[str, Callable[..., Any]]] = {
    **_SAME,
    "dot": Reductions.dot,
    "conj": ArrayCalls.conjugates,
    "conjugate": ArrayCalls.conjugates,
    "copy": ArrayCalls.copied,
    "astype": ArrayCalls.converted_to,
    "fill": ArrayCalls.filled_with,
    "cumsum": Reductions.running,
}

#: Methods that write to their array.
CHANGING: Final = frozenset(("fill",))

# By id: a class may hash by code of the program's.
_FUNCTIONS: Final[dict[int, Callable[..., Any]]] = {
    **{id(getattr(np, name)): function for name, function in _SAME.items()},
    id(np.amax): _SAME["max"],
    id(np.amin): _SAME["min"],
    id(np.dot): Reductions.dot,
    id(np.matmul): Reductions.dot,
    id(np.copy): ArrayCalls.copied,
    id(np.cumsum): Reductions.running,
    id(np.where): Reductions.where,
    id(np.outer): ArrayCalls.outer,
    id(np.flip): ArrayCalls.turned,
    id(np.flipud): lambda nest, m: nest.turned(m, ZERO),
    id(np.fliplr): lambda nest, m: nest.turned(m, ONE),
    id(np.linalg.norm): Reductions.length_of,
    id(np.zeros_like): _like(0),
    id(np.empty_like): _like(0),
    id(np.ones_like): _like(1),
    id(builtins.sum): _in_order("sum"),
    id(builtins.min): _in_order("min"),
    id(builtins.max): _in_order("max"),
}

#: Functions that take numbers, too.
_OF_NUMBERS: Final[dict[int, Callable[..., Any]]] = {
    id(np.clip): ArrayCalls.cut,
    id(np.round): ArrayCalls.rounded,
    id(np.real): ArrayCalls.real_parts,
    id(np.imag): ArrayCalls.imaginary_parts,
    id(np.angle): ArrayCalls.angles,
}

#: Functions that make arrays of none. What NumPy leaves undefined is 0.
_MAKERS: Final[dict[int, Callable[..., Any]]] = {
    id(np.zeros): _maker(0),
    id(np.empty): _maker(0),
    id(np.ones): _maker(1),
    id(np.full): _full,
    id(np.arange): _counted,
    id(np.array): _array,
}


__all__ = ["CHANGING", "ArrayCalls"]
