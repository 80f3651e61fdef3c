"""What loop nests know of NumPy's functions over whole arrays: parts, joins, new arrays.

Contract: each method of `ArrayFunctions` is a function of NumPy, with its names of parameters, and
gives what that gives; an argument that is not understood raises `NotNest`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynajit.capture.execution.nests.complex_numbers import is_complex
from dynajit.capture.execution.nests.formulas import is_whole
from dynajit.capture.execution.nests.reductions import Reductions, dtype_of
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
from dynajit.ops.functions.arrays.reductions import GIVES_INTS


class ArrayFunctions(Reductions):
    """See the module's text. Mutable: steps are appended."""

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
        array = self._as_array(m)
        rank, none = len(array.sizes), Literal(None)
        axes = self._axes(axis, rank)
        backwards = Slice(none, none, Literal(-1))
        everything = Slice(none, none, none)
        keys = [backwards if dim in axes else everything for dim in range(rank)]
        return self.part(array, Group(tuple(keys)))

    def axes_turned(self, a: Any) -> Any:
        """`np.transpose(a)`: a view."""
        return self.transposed(self._as_array(a))

    def with_new_axis(self, a: Any, axis: Any) -> Any:
        """`np.expand_dims(a, axis)`: a view."""
        array = self._as_array(a)
        place = self._one_axis(axis, len(array.sizes) + 1)
        keys: list[Any] = [Slice(Literal(None), Literal(None), Literal(None))] * len(array.sizes)
        keys.insert(place, Literal(None))
        return self.part(array, Group(tuple(keys)))

    def _one_axis(self, axis: Any, rank: int) -> int:
        """
        Raises:
            NotNest: there are more, or none.
        """
        axes = self._axes(axis, rank)
        if len(axes) != 1:
            raise NotNest
        return axes[0]

    def _as_array(self, value: Any) -> Array:
        """An array, or what a formula computes.

        Raises:
            NotNest: it is none.
        """
        if isinstance(value, Formula):
            return self.held(value)
        if not isinstance(value, Array):
            raise NotNest
        return value

    def with_dims_kept(self, found: Any, a: Any, axis: Any) -> Array:
        """A reduction of `a` along some dims, which have one element each."""
        rank = len(a.sizes)
        if not is_whole(found):
            return self.filled(found.dtype, (ONE,) * rank, found)
        axes = self._axes(axis, rank)
        everything = Slice(Literal(None), Literal(None), Literal(None))
        keys = [Literal(None) if dim in axes else everything for dim in range(rank)]
        return self.part(found, Group(tuple(keys)))

    def joined(self, arrays: Any, axis: Any = ZERO) -> Array:
        """`np.concatenate(arrays, axis)`."""
        if not isinstance(arrays, (Group, Listing)) or not arrays.items:
            raise NotNest
        if not all(map(is_whole, arrays.items)):
            raise NotNest
        first, *rest = arrays.items
        rank = len(first.sizes)
        if any(len(value.sizes) != rank for value in rest):
            raise NotNest
        dim = self._one_axis(axis, rank)
        for value in rest:
            for other in {*range(rank)} - {dim}:
                self.require_equal(first.sizes[other], value.sizes[other])
        ends: list[Any] = [first.sizes[dim]]
        for value in rest:
            ends.append(self.plus(ends[-1], value.sizes[dim]))
        dtype = self._joint_dtype(arrays.items)
        found = self.new(dtype, (*first.sizes[:dim], ends[-1], *first.sizes[dim + 1 :]))
        for value, start in zip(arrays.items, [ZERO, *ends], strict=False):
            self._fill_from(found, dim, start, value)
        return found

    def _fill_from(self, target: Array, dim: int, start: Any, value: Any) -> None:
        """Fill the part of the target that begins at an index along one dim."""

        def one(at: Sequence[Any]) -> None:
            there = [*at]
            there[dim] = self.plus(there[dim], start)
            number = self.stored(self.element_of(value, at), target.dtype)
            self.set_element(target, there, number)

        self.each(value.sizes, one)

    def side_by_side(self, tup: Any) -> Array:
        """`np.hstack(arrays)`."""
        if not isinstance(tup, (Group, Listing)) or not all(map(is_whole, tup.items)):
            raise NotNest
        is_flat = all(len(value.sizes) == 1 for value in tup.items)
        return self.joined(tup, ZERO if is_flat else ONE)

    def differences(self, a: Any) -> Any:
        """`np.diff(a)` along the last dim."""
        array = self._as_array(a)
        if array.dtype is dtypes.bool_:
            raise NotNest
        none = Literal(None)
        later, sooner = Slice(ONE, none, none), Slice(none, Literal(-1), none)
        x, y = (self.part(array, Group((Literal(...), cut))) for cut in (later, sooner))
        return self.binary("-", x, y)

    def same_array(self, a: Any) -> Any:
        """`np.asarray(a)` of an array: the array."""
        return self._as_array(a)

    def filled_like(self, a: Any, fill_value: Any, dtype: Any = None) -> Array:
        """`np.full_like`."""
        return self.made_like(fill_value, a, dtype)

    def inner(self, a: Any, b: Any) -> Any:
        """`np.inner(a, b)` and `np.vdot(a, b)`, of one dim and real numbers."""
        if any(not is_whole(x) or len(x.sizes) != 1 or x.dtype.is_complex for x in (a, b)):
            raise NotNest
        return self.dot(a, b)

    def number_of_true(self, a: Any) -> Any:
        """`np.count_nonzero(a)`."""
        counted = self.reduced("sum", self.formula(self._is_true, a))
        return self.to_int(counted) if GIVES_INTS else counted

    def _is_true(self, value: Any) -> Number:
        return Number(as_number(self.truth(value)).operand, dtypes.bool_, False)

    def both_true(self, x1: Any, x2: Any) -> Any:
        """`np.logical_and(x1, x2)`."""
        return self.formula(lambda a, b: self._of_truths("both", a, b), x1, x2)

    def either_true(self, x1: Any, x2: Any) -> Any:
        """`np.logical_or(x1, x2)`."""
        return self.formula(lambda a, b: self._of_truths("either", a, b), x1, x2)

    def _of_truths(self, operation: str, a: Any, b: Any) -> Number:
        x, y = (self._is_true(value).operand for value in (a, b))
        return Number(self.emit(operation, dtypes.bool_, x, y), dtypes.bool_, False)

    def none_true(self, x: Any) -> Any:
        """`np.logical_not(x)`."""
        return self.formula(lambda a: self._opposite(self._is_true(a)), x)

    def written_to(self, out: Any, value: Any) -> Any:
        """`np.function(..., out=out)`: the array.

        Raises:
            NotNest: it is none, or of a dtype that NumPy refuses, or of other sizes.
        """
        if not isinstance(out, Array) or not is_whole(value):
            raise NotNest
        if not np.can_cast(value.dtype.numpy, out.dtype.numpy, "same_kind"):
            raise NotNest
        if len(value.sizes) > len(out.sizes):
            raise NotNest
        self.assign(out, value)
        return out

    def outer(self, a: Any, b: Any) -> Any:
        """`np.outer(a, b)`."""
        a, b = (self.held(value) if isinstance(value, Formula) else value for value in (a, b))
        if not all(isinstance(value, Array) and len(value.sizes) == 1 for value in (a, b)):
            raise NotNest
        column = self.part(a, Group((Literal(...), Literal(None))))
        return self.binary("*", column, b)

    def made(self, value: Any, shape: Any, dtype: Any = None) -> Array:
        """`np.full` and its kin."""
        kind = dtypes.float64 if is_none(dtype) else dtype_of(dtype)
        return self.filled(kind, self.sizes_of(shape), value)

    def made_full(self, shape: Any, fill_value: Any, dtype: Any = None) -> Array:
        """`np.full`."""
        if not isinstance(fill_value, Number) and is_none(dtype):
            kinds: dict[type, DType] = {
                float: dtypes.float64, int: dtypes.int64, complex: dtypes.complex128
            }  # fmt: skip
            of_python = kinds.get(type(getattr(fill_value, "value", None)))
            kind = fill_value.dtype if isinstance(fill_value, Complex) else of_python
        else:
            kind = fill_value.dtype if is_none(dtype) else dtype_of(dtype)
        if kind is None:
            raise NotNest
        return self.filled(kind, self.sizes_of(shape), fill_value)

    def counted(self, start: Any, stop: Any = None) -> Array:
        """`np.arange` of ints."""
        first, last = (ZERO, start) if is_none(stop) else (start, stop)
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
        kind = dtype_of(dtype) if not is_none(dtype) else self._joint_dtype(numbers)
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
        kind = array.dtype if is_none(dtype) else dtype_of(dtype)
        return self.filled(kind, array.sizes, number)


def is_none(value: Any) -> bool:
    """Whether an argument is left out, or None."""
    return value is None or (isinstance(value, Literal) and value.value is None)


__all__ = ["ArrayFunctions", "is_none"]
