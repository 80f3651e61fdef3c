"""Functions of NumPy and methods of arrays that loop nests call with whole arrays.

Contract: `ArrayCalls.called_with_arrays` gives what a function gives, None where it is not one of
these. An argument that is not understood raises `NotNest`.
"""

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from dynajit.capture.execution.nests.array_functions import ArrayFunctions, is_none
from dynajit.capture.execution.nests.formulas import is_whole
from dynajit.capture.execution.nests.reductions import REDUCTIONS, Reductions
from dynajit.capture.execution.nests.values import (
    Literal,
    NotNest,
    Number,
)
from dynajit.capture.execution.nests.views import ONE, ZERO

Named = dict[str, Any]


class ArrayCalls(ArrayFunctions):
    """See the module's text. Mutable: steps are appended."""

    def called_with_arrays(self, target: Any, given: Sequence[Any], named: Named) -> Any:
        """What a function gives; None: it is not one that is known for such arguments."""
        maker = _MAKERS.get(id(target))
        if maker is not None:
            return maker(self, *given, **named)
        function = _OF_NUMBERS.get(id(target))
        if function is None and any(map(is_whole, given)):
            function = _FUNCTIONS.get(id(target))
        if function is None and any(map(_is_of_numpy, given)):
            function = _OPERATORS.get(id(target))
        return None if function is None else _bound(function, self, given, named)

    def method(self, name: str, target: Any, given: Sequence[Any], named: Named) -> Any:
        """What a method of an array gives."""
        function = _METHODS.get(name)
        if function is None:
            raise NotNest
        return _bound(function, self, (target, *given), named)


def _is_of_numpy(value: Any) -> bool:
    """Whether operators with the value are NumPy's."""
    return is_whole(value) or (isinstance(value, Number) and not value.is_python)


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
    def reduce(nest: ArrayFunctions, a: Any, axis: Any = None, keepdims: Any = None) -> Any:
        found = nest.reduced(name, a, axis)
        if keepdims is None:
            return found
        if not isinstance(keepdims, Literal):
            raise NotNest
        return nest.with_dims_kept(found, a, axis) if keepdims.value else found

    return reduce


def _in_order(name: str) -> Callable[..., Any]:
    def reduce(nest: Reductions, a: Any) -> Any:
        return nest.in_order(name, a)

    return reduce


def _with_output(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A function of so many operands, which no call names, and an array to write to."""
    if count == 1:
        return lambda nest, _x, out=None: _result(nest, function(nest, _x), out)
    return lambda nest, _x, _y, out=None: _result(nest, function(nest, _x, _y), out)


def _result(nest: ArrayFunctions, value: Any, out: Any) -> Any:
    return value if is_none(out) else nest.written_to(out, value)


def _operator(symbol: str) -> Callable[..., Any]:
    return _with_output(lambda nest, a, b: nest.binary(symbol, a, b), 2)


def _comparison(symbol: str) -> Callable[..., Any]:
    return _with_output(lambda nest, a, b: nest.compare(symbol, a, b), 2)


def _sign(symbol: str) -> Callable[..., Any]:
    return _with_output(lambda nest, a: nest.unary(symbol, a), 1)


def _maker(number: float) -> Callable[..., Any]:
    def make(nest: ArrayFunctions, shape: Any, dtype: Any = None) -> Any:
        return nest.made(Literal(number), shape, dtype)

    return lambda nest, *given, **named: _bound(make, nest, given, named)


def _like(number: float) -> Callable[..., Any]:
    def make(nest: ArrayFunctions, a: Any, dtype: Any = None) -> Any:
        return nest.made_like(Literal(number), a, dtype)

    return make


def _counted(nest: ArrayFunctions, *given: Any, **named: Any) -> Any:
    return _bound(ArrayFunctions.counted, nest, given, named)


def _array(nest: ArrayFunctions, *given: Any, **named: Any) -> Any:
    if given and is_whole(given[0]):
        return _bound(ArrayFunctions.copied, nest, given, named)
    return _bound(ArrayFunctions.made_of, nest, given, named)


def _full(nest: ArrayFunctions, *given: Any, **named: Any) -> Any:
    return _bound(ArrayFunctions.made_full, nest, given, named)


_SAME: Final = {name: _reduction(name) for name in REDUCTIONS}

_METHODS: Final[dict[str, Callable[..., Any]]] = {
    **_SAME,
    "dot": Reductions.dot,
    "conj": ArrayFunctions.conjugates,
    "conjugate": ArrayFunctions.conjugates,
    "copy": ArrayFunctions.copied,
    "astype": ArrayFunctions.converted_to,
    "fill": ArrayFunctions.filled_with,
    "cumsum": Reductions.running,
    "transpose": ArrayFunctions.axes_turned,
}

#: Methods that write to their array.
CHANGING: Final = frozenset(("fill",))


def may_write(target: Any, given: Sequence[Any]) -> bool:
    """Whether a call may write to one of its arguments."""
    return type(target) is np.ufunc and len(given) > target.nin


# By id: a class may hash by code of the program's.
_FUNCTIONS: Final[dict[int, Callable[..., Any]]] = {
    **{id(getattr(np, name)): function for name, function in _SAME.items()},
    id(np.amax): _SAME["max"],
    id(np.amin): _SAME["min"],
    id(np.dot): Reductions.dot,
    id(np.matmul): Reductions.dot,
    id(np.copy): ArrayFunctions.copied,
    id(np.cumsum): Reductions.running,
    id(np.where): Reductions.where,
    id(np.outer): ArrayFunctions.outer,
    id(np.inner): ArrayFunctions.inner,
    id(np.vdot): ArrayFunctions.inner,
    id(np.transpose): ArrayFunctions.axes_turned,
    id(np.expand_dims): ArrayFunctions.with_new_axis,
    id(np.diff): ArrayFunctions.differences,
    id(np.asarray): ArrayFunctions.same_array,
    id(np.full_like): ArrayFunctions.filled_like,
    id(np.count_nonzero): ArrayFunctions.number_of_true,
    id(np.flip): ArrayFunctions.turned,
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

_OPERATORS: Final[dict[int, Callable[..., Any]]] = {
    **{
        id(function): _operator(symbol)
        for function, symbol in {
            np.add: "+", np.subtract: "-", np.multiply: "*", np.divide: "/", np.power: "**",
            np.floor_divide: "//", np.remainder: "%", np.bitwise_and: "&", np.bitwise_or: "|",
            np.bitwise_xor: "^", np.left_shift: "<<", np.right_shift: ">>",
        }.items()
    },
    **{
        id(function): _comparison(symbol)
        for function, symbol in {
            np.greater: ">", np.greater_equal: ">=", np.less: "<", np.less_equal: "<=",
            np.equal: "==", np.not_equal: "!=",
        }.items()
    },
    id(np.negative): _sign("-"),
    id(np.positive): _sign("+"),
    id(np.invert): _sign("~"),
    id(np.logical_and): _with_output(ArrayFunctions.both_true, 2),
    id(np.logical_or): _with_output(ArrayFunctions.either_true, 2),
    id(np.logical_not): _with_output(ArrayFunctions.none_true, 1),
}  # fmt: skip

#: Functions that take numbers, or sequences of arrays, too.
_OF_NUMBERS: Final[dict[int, Callable[..., Any]]] = {
    id(np.clip): ArrayFunctions.cut,
    id(np.round): ArrayFunctions.rounded,
    id(np.real): ArrayFunctions.real_parts,
    id(np.imag): ArrayFunctions.imaginary_parts,
    id(np.angle): ArrayFunctions.angles,
    id(np.concatenate): ArrayFunctions.joined,
    id(np.hstack): ArrayFunctions.side_by_side,
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


__all__ = ["CHANGING", "ArrayCalls", "may_write"]
