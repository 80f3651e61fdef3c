"""Sums and their kin over arrays in a loop nest, products of matrices, and new arrays.

Contract: `Reductions.reduced` has the dtype that NumPy gives. Floats are added up in an order of
its own, in float64, and so agree with NumPy's to rounding. What NumPy raises for (the largest of
nothing) or warns of (the mean of nothing) refuses.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from dynajit.capture.execution.nests.formulas import Formulas, is_whole
from dynajit.capture.execution.nests.values import (
    COMPLEX_DTYPES,
    DTYPES,
    PYTHON_DTYPES,
    Array,
    Complex,
    Formula,
    Group,
    Literal,
    NotNest,
    Number,
    Outer,
    as_number,
)
from dynajit.capture.execution.nests.views import ZERO, Whole
from dynajit.capture.values.symbolic import Known
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category, DType
from dynajit.ir.nests import Register, Step

#: Products of numbers in a product of matrices: larger ones are worth code of their own.
MOST_PRODUCTS: Final = 1 << 16

#: Dtypes whose sums are added up as what they are.
_OWN_TOTALS: Final = (dtypes.float64, dtypes.int64, dtypes.uint64)


class Reductions(Formulas):
    """See the module's text. Mutable: steps are appended."""

    # -- reductions

    def reduced(self, name: str, value: Any, axis: Any = None) -> Any:
        """`value.name(axis)`: a number, or an array where dims are left."""
        value = _whole(value)
        rank = len(value.sizes)
        axes = self._axes(axis, rank)
        kept = tuple(size for dim, size in enumerate(value.sizes) if dim not in axes)
        if not kept:
            return self._reduced(name, value, axes, ())
        if name not in REDUCTIONS:
            raise NotNest
        sample, self.steps = self.steps, []
        try:
            dtype = self._reduced(name, value, axes, (ZERO,) * len(kept)).dtype
        finally:
            self.steps = sample
        found = self.new(dtype, kept)

        def one(indices: Sequence[Whole]) -> None:
            number = self._reduced(name, value, axes, indices)
            self.set_element(found, indices, self.stored(number, dtype))

        self.each(kept, one)
        return found

    def _axes(self, axis: Any, rank: int) -> tuple[int, ...]:
        if axis is None or (isinstance(axis, Literal) and axis.value is None):
            return (*range(rank),)
        items = axis.items if isinstance(axis, Group) else (axis,)
        found = []
        for item in items:
            if not isinstance(item, Literal) or type(item.value) is not int:
                raise NotNest
            if not -rank <= item.value < rank or item.value % rank in found:
                raise NotNest
            found.append(item.value % rank)
        return tuple(found)

    def _reduced(
        self, name: str, value: Any, axes: Sequence[int], kept: Sequence[Whole]
    ) -> Number | Complex:
        """One number of a reduction."""
        sizes = [value.sizes[dim] for dim in axes]
        function, is_of_nothing = REDUCTIONS[name]
        for size in () if is_of_nothing else sizes:
            self._require_some(size)
        return function(self, _Elements(self, value, axes, kept), sizes)  # type: ignore[no-any-return]

    def _require_some(self, size: Whole) -> None:
        if isinstance(size, Literal):
            if not size.value:
                raise NotNest
            return
        self.require_compared("gt", dtypes.int64, size.operand, 0)

    def _accumulator(self, dtype: DType, start: Any) -> Register:
        found = self.register(dtype)
        self.steps.append(Step("set", found, (start,)))
        return found

    def total(self, elements: "_Elements", sizes: Sequence[Whole]) -> Any:
        """A sum."""
        dtype = elements.dtype
        if dtype.is_complex:
            return Complex(*(self.total(part, sizes) for part in elements.parts()))
        if dtype.category < Category.FLOATING:
            whole = _whole_dtype(dtype)
            return Number(self._summed(elements, sizes, whole, "add", 0), whole, False)
        found = self._summed(elements, sizes, dtypes.float64, "add", 0.0)
        return Number(self.cast(Number(found, dtypes.float64, False), dtype), dtype, False)

    def product(self, elements: "_Elements", sizes: Sequence[Whole]) -> Number:
        """A product."""
        dtype = elements.dtype
        if dtype.category < Category.FLOATING:
            dtype = _whole_dtype(dtype)
        return Number(self._summed(elements, sizes, dtype, "mul", 1), dtype, False)

    def _summed(
        self,
        elements: "_Elements",
        sizes: Sequence[Whole],
        dtype: DType,
        operation: str,
        start: Any,
    ) -> Register:
        found = self._accumulator(dtype, start)

        def one(indices: Sequence[Whole]) -> None:
            number = elements.at(indices)
            given = self.cast(Number(number.operand, number.dtype, False), dtype)
            self.steps.append(Step(operation, found, (found, given), dtype))

        is_total = operation == "add" and dtype is dtypes.float64
        self.each(sizes, one, found if is_total else None)
        return found

    def mean(self, elements: "_Elements", sizes: Sequence[Whole]) -> Any:
        """A mean."""
        if elements.dtype.is_complex:
            return Complex(*(self.mean(part, sizes) for part in elements.parts()))
        is_float = elements.dtype.category >= Category.FLOATING
        found = self._summed(elements, sizes, dtypes.float64, "add", 0.0)
        count = self.float_count(sizes)
        mean = self.emit("div", dtypes.float64, found, count, dtype=dtypes.float64)
        dtype = elements.dtype if is_float else dtypes.float64
        return Number(self.cast(Number(mean, dtypes.float64, False), dtype), dtype, False)

    def float_count(self, sizes: Sequence[Whole]) -> Any:
        """How many elements there are, as a float."""
        count: Any = 1.0
        for size in sizes:
            factor = self.cast(as_number(size), dtypes.float64)
            count = self.emit("mul", dtypes.float64, count, factor, dtype=dtypes.float64)
        return count

    def largest(self, elements: "_Elements", sizes: Sequence[Whole]) -> Number:
        """The largest, or NaN."""
        return self._extreme_of(elements, sizes, "maximum")

    def least(self, elements: "_Elements", sizes: Sequence[Whole]) -> Number:
        """The least, or NaN."""
        return self._extreme_of(elements, sizes, "minimum")

    def _extreme_of(self, elements: "_Elements", sizes: Sequence[Whole], function: str) -> Number:
        dtype = elements.dtype
        found = self._accumulator(dtype, elements.at([ZERO] * len(sizes)).operand)

        def one(indices: Sequence[Whole]) -> None:
            given = elements.at(indices).operand
            if dtype.category >= Category.FLOATING:
                step = Step("call", found, (given, found), dtype, name=function)
            else:
                comparison = "gt" if function == "maximum" else "lt"
                truth = self.compared(comparison, dtype, given, found)
                step = Step("select", found, (truth, given, found), dtype)
            self.steps.append(step)

        self.each(sizes, one)
        return Number(found, dtype, False)

    def place_of_largest(self, elements: "_Elements", sizes: Sequence[Whole]) -> Number:
        """Where the first of the largest is, or the first NaN."""
        return self._first_place(elements, sizes, "gt")

    def place_of_least(self, elements: "_Elements", sizes: Sequence[Whole]) -> Number:
        """Where the first of the least is, or the first NaN."""
        return self._first_place(elements, sizes, "lt")

    def _first_place(
        self, elements: "_Elements", sizes: Sequence[Whole], comparison: str
    ) -> Number:
        if len(sizes) != 1:
            raise NotNest
        dtype = elements.dtype
        best = self._accumulator(dtype, elements.at([ZERO]).operand)
        place = self._accumulator(dtypes.int64, 0)

        def one(indices: Sequence[Whole]) -> None:
            given = elements.at(indices).operand
            truth = self.compared(comparison, dtype, given, best)
            if dtype.category >= Category.FLOATING:
                is_nan = self.compared("ne", dtype, given, given)
                is_first = self.emit(
                    "both", dtypes.bool_, is_nan, self.compared("eq", dtype, best, best)
                )
                truth = self.emit("either", dtypes.bool_, truth, is_first)
            index = as_number(indices[0]).operand
            self.steps.append(Step("select", place, (truth, index, place), dtypes.int64))
            self.steps.append(Step("select", best, (truth, given, best), dtype))

        self.each(sizes, one)
        return Number(place, dtypes.int64, False)

    def any_of(self, elements: "_Elements", sizes: Sequence[Whole]) -> Number:
        """Whether one is true."""
        return self._joint(elements, sizes, "either", False)

    def all_of(self, elements: "_Elements", sizes: Sequence[Whole]) -> Number:
        """Whether all are true."""
        return self._joint(elements, sizes, "both", True)

    def _joint(
        self, elements: "_Elements", sizes: Sequence[Whole], operation: str, start: bool
    ) -> Number:
        found = self._accumulator(dtypes.bool_, start)

        def one(indices: Sequence[Whole]) -> None:
            truth = self.truth(elements.at(indices)).operand
            self.steps.append(Step(operation, found, (found, truth)))

        self.each(sizes, one)
        return Number(found, dtypes.bool_, False)

    def variance(self, elements: "_Elements", sizes: Sequence[Whole]) -> Number:
        """The mean square of the distance from the mean."""
        if elements.dtype is not dtypes.float64:
            raise NotNest
        mean = self.mean(elements, sizes).operand
        found = self._accumulator(dtypes.float64, 0.0)

        def one(indices: Sequence[Whole]) -> None:
            given = elements.at(indices).operand
            apart = self.emit("sub", dtypes.float64, given, mean, dtype=dtypes.float64)
            square = self.emit("mul", dtypes.float64, apart, apart, dtype=dtypes.float64)
            self.steps.append(Step("add", found, (found, square), dtypes.float64))

        self.each(sizes, one, found)
        result = self.emit(
            "div", dtypes.float64, found, self.float_count(sizes), dtype=dtypes.float64
        )
        return Number(result, dtypes.float64, False)

    def deviation(self, elements: "_Elements", sizes: Sequence[Whole]) -> Number:
        """The root of the variance."""
        return self.of_numpy("sqrt", (self.variance(elements, sizes),))  # type: ignore[no-any-return]

    def length_of(self, value: Any) -> Number:
        """`np.linalg.norm(value)`."""
        value = _whole(value)
        if value.dtype.category < Category.FLOATING:
            raise NotNest
        square = self.formula(self._square_of_size, value)
        return self.of_numpy("sqrt", (self.reduced("sum", square),))  # type: ignore[no-any-return]

    def _square_of_size(self, value: Any) -> Number:
        if not isinstance(value, Complex):
            return self.binary("*", value, value)  # type: ignore[no-any-return]
        real, imag = (self.binary("*", part, part) for part in (value.real, value.imag))
        return self.binary("+", real, imag)  # type: ignore[no-any-return]

    def running(self, value: Any) -> Array:
        """`np.cumsum(value)`, of one dim."""
        value = _whole(value)
        dtype = value.dtype
        if dtype not in (dtypes.float64, dtypes.int64, dtypes.uint64) or len(value.sizes) != 1:
            raise NotNest
        found = self.new(dtype, value.sizes)
        total = self._accumulator(dtype, 0)

        def one(indices: Sequence[Whole]) -> None:
            given = self.element_of(value, indices).operand
            self.steps.append(Step("add", total, (total, given), dtype))
            self.set_element(found, indices, total)

        self.each(value.sizes, one)
        return found

    def in_order(self, name: str, value: Any) -> Any:
        """`sum`, `min` and `max` of Python's over an array of one dim.

        Raises:
            NotNest: it is none.
        """
        value = _whole(value)
        if len(value.sizes) != 1 or value.dtype is dtypes.bool_ or value.dtype.is_complex:
            raise NotNest
        dtype = value.dtype
        self._require_some(value.sizes[0])
        if name == "sum":
            if dtype not in (dtypes.float64, dtypes.int64, dtypes.uint64):
                raise NotNest
            total = self._accumulator(dtype, 0)
        else:
            total = self._accumulator(dtype, self.element_of(value, [ZERO]).operand)

        def one(indices: Sequence[Whole]) -> None:
            given = self.element_of(value, indices).operand
            if name == "sum":
                step = Step("add", total, (total, given), dtype)
            else:
                truth = self.compared("lt" if name == "min" else "gt", dtype, given, total)
                step = Step("select", total, (truth, given, total), dtype)
            self.steps.append(step)

        self.each(value.sizes, one)
        return Number(total, dtype, False)

    # -- products

    def dot(self, a: Any, b: Any) -> Any:
        """`a @ b`, of one or two dims each."""
        a, b = _whole(a), _whole(b)
        if not (1 <= len(a.sizes) <= 2 and 1 <= len(b.sizes) <= 2):
            raise NotNest
        rows, columns = a.sizes[:-1], b.sizes[1:]
        self.require_equal(a.sizes[-1], b.sizes[0])
        inner = a.sizes[-1]
        self._check_costs((*rows, inner, *columns))
        if rows and isinstance(b, Formula):
            b = self.held(b)
        if columns and isinstance(a, Formula):
            a = self.held(a)

        def one(indices: Sequence[Whole]) -> Number | Complex:
            row, column = indices[: len(rows)], indices[len(rows) :]
            elements = _Products(self, a, b, row, column)
            if elements.dtype is dtypes.bool_:
                raise NotNest
            dtype = elements.dtype
            if dtype.is_complex:
                return self.total(elements, (inner,))  # type: ignore[no-any-return]
            is_float = dtype.category >= Category.FLOATING
            kind = dtypes.float64 if is_float else dtype
            found = self._summed(elements, (inner,), kind, "add", 0)
            return Number(self.cast(Number(found, kind, False), dtype), dtype, False)

        sizes = (*rows, *columns)
        if not sizes:
            return one(())
        steps, self.steps = self.steps, []
        try:
            dtype = one((ZERO,) * len(sizes)).dtype
        finally:
            self.steps = steps
        found = self.new(dtype, sizes)
        if columns and dtype in _OWN_TOTALS and not _is_turned(b):
            self._add_rows(found, a, b, inner)
        else:
            self.each(sizes, lambda at: self.set_element(found, at, self.stored(one(at), dtype)))
        return found

    def _add_rows(self, found: Array, a: Any, b: Any, inner: Whole) -> None:
        """A product of matrices as a sum of the second one's rows, whose memory lies together."""
        rows, columns = found.sizes[:-1], found.sizes[-1:]
        self.each(found.sizes, lambda at: self.set_element(found, at, 0))

        def one(at: Sequence[Whole]) -> None:
            *row, place, column = at
            elements = _Products(self, a, b, row, (column,))
            product = self.cast(elements.at((place,)), found.dtype)
            before = self.element_of(found, (*row, column)).operand
            total = self.emit("add", found.dtype, before, product, dtype=found.dtype)
            self.set_element(found, (*row, column), total)

        self.each((*rows, inner, *columns), one)

    def _check_costs(self, sizes: Sequence[Whole]) -> None:
        if len(sizes) < 3 or any(isinstance(n, Literal) and n.value == 1 for n in sizes):
            return
        known = [size.value for size in sizes if isinstance(size, Literal)]
        if len(known) < len(sizes) or math.prod(known) > MOST_PRODUCTS:
            raise NotNest

    # -- new arrays

    def sizes_of(self, shape: Any) -> tuple[Whole, ...]:
        """The sizes that a shape asks for."""
        items = shape.items if isinstance(shape, Group) else (shape,)
        if not items:
            raise NotNest
        found = []
        for item in items:
            size = self.as_int(item)
            if isinstance(size, Literal) and size.value < 0:
                raise NotNest
            if isinstance(size, Number):
                self.require_compared("ge", dtypes.int64, size.operand, 0)
            found.append(size)
        return tuple(found)


def _whole(value: Any) -> Any:
    if not is_whole(value) or not value.sizes:
        raise NotNest
    return value


def _is_turned(matrix: Any) -> bool:
    """Whether elements lie together along the first dim."""
    if not isinstance(matrix, Array):
        return False
    return any(dim == 0 for dim, _ in matrix.places[-1].moves)


def _whole_dtype(dtype: DType) -> DType:
    """The dtype of a sum of bools or integers."""
    is_unsigned = dtype is not dtypes.bool_ and not dtype.is_signed
    return dtypes.uint64 if is_unsigned else dtypes.int64


class _Elements:
    """The elements of which one number of a reduction is made. Immutable.

    Args:
        nest: to which steps are appended.
        value: an array or a formula.
        axes: which are reduced.
        kept: an index along each of the others.
    """

    def __init__(
        self, nest: Reductions, value: Any, axes: Sequence[int], kept: Sequence[Whole]
    ) -> None:
        self._nest, self._value, self._axes, self._kept = nest, value, axes, kept

    @property
    def dtype(self) -> DType:
        """Of the elements."""
        return self._value.dtype  # type: ignore[no-any-return]

    def at(self, indices: Sequence[Whole]) -> Number:
        """One, by its indices along the axes.

        Raises:
            NotNest: it is complex.
        """
        return as_number(self.any_at(indices))

    def any_at(self, indices: Sequence[Whole]) -> Any:
        """One, real or complex, by its indices along the axes."""
        along = dict(zip(self._axes, indices, strict=True))
        kept = iter(self._kept)
        found = [along[d] if d in along else next(kept) for d in range(len(self._value.sizes))]
        return self._nest.element_of(self._value, found)

    def parts(self) -> tuple["_Elements", "_Elements"]:
        """The real and the imaginary parts of complex ones."""
        return _Parts(self, "real"), _Parts(self, "imag")


class _Products(_Elements):
    """Products of the elements of a row and of a column. Immutable."""

    def __init__(
        self, nest: Reductions, a: Any, b: Any, row: Sequence[Whole], column: Sequence[Whole]
    ) -> None:
        self._nest, self._a, self._b, self._row, self._column = nest, a, b, row, column

    @property
    def dtype(self) -> DType:
        """Of the products."""
        nest = self._nest
        return nest.sampled(lambda x, y: nest.binary("*", x, y), (self._a, self._b))

    def any_at(self, indices: Sequence[Whole]) -> Any:
        """One, real or complex, by its index in the row and the column."""
        a = self._nest.element_of(self._a, (*self._row, *indices))
        b = self._nest.element_of(self._b, (*indices, *self._column))
        return self._nest.binary("*", a, b)


class _Parts(_Elements):
    """The real or the imaginary parts of elements. Immutable."""

    def __init__(self, elements: _Elements, name: str) -> None:
        self._elements, self._name = elements, name

    @property
    def dtype(self) -> DType:
        """Of the parts."""
        return dtypes.real_of(self._elements.dtype)

    def any_at(self, indices: Sequence[Whole]) -> Any:
        """One, by the indices of the element."""
        return getattr(self._elements.any_at(indices), self._name)


_Reduction = Callable[[Reductions, _Elements, Sequence[Whole]], Any]

#: Name -> what gives it, and whether there is one of no elements.
REDUCTIONS: Final[dict[str, tuple[_Reduction, bool]]] = {
    "sum": (Reductions.total, True),
    "prod": (Reductions.product, True),
    "mean": (Reductions.mean, False),
    "max": (Reductions.largest, False),
    "min": (Reductions.least, False),
    "argmax": (Reductions.place_of_largest, False),
    "argmin": (Reductions.place_of_least, False),
    "any": (Reductions.any_of, True),
    "all": (Reductions.all_of, True),
    "var": (Reductions.variance, False),
    "std": (Reductions.deviation, False),
}


def dtype_of(value: Any) -> DType:
    """The dtype that an argument names.

    Raises:
        NotNest: it names none that registers have.
    """
    found: Any = None
    if isinstance(value, Outer) and isinstance(value.value, Known):
        found = value.value.object
    elif isinstance(value, Literal) and isinstance(value.value, str):
        found = value.value
    if type(found) is type and found in PYTHON_DTYPES:
        return PYTHON_DTYPES[found]
    if found is complex:
        return dtypes.complex128
    is_named = isinstance(found, (str, np.dtype))
    for dtype in (*DTYPES.values(), *COMPLEX_DTYPES.values()):
        if found == dtype.numpy if is_named else found is dtype.numpy.type:
            return dtype
    raise NotNest


__all__ = ["REDUCTIONS", "Reductions", "dtype_of"]
