"""Universal functions: the types that CuPy computes, and no others."""

import numpy as np

from cupy import _array
from cupy._array import BFLOAT16, device_array, host, ndarray
from cupy._ufunc_types import SCATTERS, UFUNC_TYPES
from cupy.cuda import runtime

_NUMBERS = (bool, int, float, complex, np.generic)


def _dtype(character):
    return BFLOAT16 if character == "E" else np.dtype(character)


class ufunc:
    """A function of elements; `types` says of which."""

    def __init__(self, name, types, function):
        self.name = f"cupy_{name}"
        self.types = types.split()
        signatures = [signature.partition("->") for signature in self.types]
        self.nin, self.nout = len(signatures[0][0]), len(signatures[0][2])
        self.nargs = self.nin + self.nout
        self._scatter_op = SCATTERS.get(name)
        self._function = function
        self._routines = [
            (tuple(map(_dtype, given)), tuple(map(_dtype, result)))
            for given, _, result in signatures
        ]
        self.__doc__ = f"`{name}` on the device."

    def __repr__(self):
        return f"<ufunc '{self.name}'>"

    def __call__(self, *args, **kwargs):
        out = kwargs.pop("out", None)
        dtype = kwargs.pop("dtype", None)
        casting = kwargs.pop("casting", "same_kind")
        if kwargs:
            raise TypeError(f"Wrong arguments {kwargs}")
        if len(args) > self.nin and out is None:
            args, out = args[: self.nin], args[self.nin :]
            out = out[0] if self.nout == 1 else out
        if len(args) != self.nin:
            raise TypeError(f"Wrong number of arguments for {self.name!r}.")
        for argument in args:
            if not isinstance(argument, (ndarray, *_NUMBERS)):
                raise TypeError(f"Unsupported type {type(argument)}")
        given, results = self._routine(args, dtype)
        runtime._answer()
        cast = [self._cast(argument, kind) for argument, kind in zip(args, given, strict=True)]
        with np.errstate(all="ignore"):
            found = self._function(*cast)
        found = found if self.nout > 1 else (found,)
        outs = out if isinstance(out, tuple) else (out,) * self.nout
        made = tuple(
            self._result(value, kind, target, casting)
            for value, kind, target in zip(found, results, outs, strict=True)
        )
        return made if self.nout > 1 else made[0]

    def _routine(self, args, dtype):
        """The first signature that holds the operands; Python numbers are weak."""
        if dtype is not None:
            for given, results in self._routines:
                if results[0] == dtype:
                    return given, results
        for given, results in self._routines:
            if all(map(_holds, given, args)):
                if self.name == "cupy_subtract" and given[0].kind == "b":
                    break
                return given, results
        kinds = [getattr(a, "dtype", type(a).__name__) for a in args]
        raise TypeError(f"Wrong type ({kinds}) of arguments for {self.name}")

    def _cast(self, argument, kind):
        value = host(argument)
        with np.errstate(all="ignore"):
            return np.asarray(value).astype(kind, copy=False)

    def _result(self, value, kind, target, casting):
        value = np.asarray(value).astype(kind, copy=False)
        if target is None:
            return device_array(value)
        if not np.can_cast(kind, target.dtype, casting):
            raise TypeError(f"output (typecode '{kind.char}') could not be coerced")
        if value.shape != target.shape:
            value = np.broadcast_to(value, target.shape)
        with np.errstate(all="ignore"):
            host(target)[...] = value
        return target

    def at(self, a, indices, b=None):
        if self._scatter_op is None:
            raise NotImplementedError(f"`{self.name}.at` is not supported yet")
        if self._scatter_op != "add":
            raise NotImplementedError(f"the stand-in has no `{self.name}.at`")
        _array.add_at(a, indices, b)

    def reduce(self, array, axis=0, dtype=None, out=None, keepdims=False):
        if self.name not in ("cupy_add", "cupy_multiply"):
            raise NotImplementedError(f"`{self.name}.reduce` is not supported yet")
        with np.errstate(all="ignore"):
            return device_array(self._function.reduce(host(array), axis, dtype, None, keepdims))

    def accumulate(self, array, axis=0, dtype=None, out=None):
        if self.name not in ("cupy_add", "cupy_multiply"):
            raise NotImplementedError(f"`{self.name}.accumulate` is not supported yet")
        with np.errstate(all="ignore"):
            return device_array(self._function.accumulate(host(array), axis, dtype))

    def outer(self, A, B, **kwargs):
        return self(A.reshape(A.shape + (1,) * B.ndim), B, **kwargs)


def _holds(kind, argument):
    if isinstance(argument, (bool, int, float, complex)) and not isinstance(argument, np.generic):
        try:
            return np.result_type(type(argument)(0), kind) == kind
        except TypeError:
            return False
    return np.can_cast(argument.dtype, kind, "safe")


def _floor_divide(x, y):
    """Of floats, the floor of the rounded quotient: not that of the quotient."""
    return np.floor_divide(x, y) if x.dtype.kind in "iub" else np.floor(x / y)


def _remainder(x, y):
    return np.remainder(x, y) if x.dtype.kind in "iub" else x - np.floor(x / y) * y


def _left_shift(x, y):
    """Beyond the width anything may come out."""
    return np.left_shift(x, y & (8 * x.dtype.itemsize - 1))


def _right_shift(x, y):
    return np.right_shift(x, y & (8 * x.dtype.itemsize - 1))


_AS_A_GPU = {
    "floor_divide": _floor_divide, "remainder": _remainder, "left_shift": _left_shift,
    "right_shift": _right_shift,
}  # fmt: skip

UFUNCS = {
    name: ufunc(name, types, _AS_A_GPU.get(name, getattr(np, name)))
    for name, types in UFUNC_TYPES.items()
}


def _binary(name, reflected=False, in_place=False):
    function = UFUNCS[name]

    def operator(self, other):
        if not isinstance(other, (ndarray, *_NUMBERS)):
            if isinstance(other, np.ndarray):
                raise TypeError(f"Unsupported type {type(other)}")
            return NotImplemented
        if in_place:
            return function(self, other, out=self)
        return function(other, self) if reflected else function(self, other)

    return operator


_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "lshift": "left_shift",
    "rshift": "right_shift", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip
_COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal",
    "ne": "not_equal",
}  # fmt: skip
for _short, _name in _OPERATORS.items():
    setattr(ndarray, f"__{_short}__", _binary(_name))
    setattr(ndarray, f"__r{_short}__", _binary(_name, reflected=True))
    setattr(ndarray, f"__i{_short}__", _binary(_name, in_place=True))
for _short, _name in _COMPARISONS.items():
    setattr(ndarray, f"__{_short}__", _binary(_name))
ndarray.__neg__ = lambda self: UFUNCS["negative"](self)
ndarray.__pos__ = lambda self: UFUNCS["positive"](self)
ndarray.__abs__ = lambda self: UFUNCS["absolute"](self)
ndarray.__invert__ = lambda self: UFUNCS["invert"](self)
ndarray.conj = ndarray.conjugate = lambda self: (
    UFUNCS["conjugate"](self) if self.dtype.kind == "c" else self
)
