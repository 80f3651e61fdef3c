"""Random numbers that turns of a loop nest draw, from generators that were there before it.

Contract: the state of a generator is an operand of the nest, which is asked for in each call, and
what it is behind the last draw a result (`capture.emit.drawing`); nothing that is drawn is known
while capturing. Numbers have the values and the classes that NumPy and Python give, to the bit
(`codegen/headers/random.h`); what else there is to draw, and arrays of numbers, raise `NotNest`.
"""

import functools
import platform
import random
import sys
import types
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from dynajit.capture.bytecode.instructions import Instruction
from dynajit.capture.execution.nests.array_calls import ArrayCalls
from dynajit.capture.execution.nests.inputs import Inputs
from dynajit.capture.execution.nests.values import (
    WHOLE,
    Generator,
    ListOf,
    Literal,
    Method,
    NotNest,
    Number,
    Outer,
    as_number,
)
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.frames import Frame
from dynajit.capture.places import sources
from dynajit.capture.values.functions import BoundMethod
from dynajit.capture.values.generator_states import CLASSES
from dynajit.capture.values.symbolic import Known, Opaque, Value
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category

#: Whether NumPy's own formulas are computed operation by operation: where processors have products
#: and sums in one, compilers of its C put them together.
_IS_BY_OPERATIONS: Final = platform.machine().lower() in ("x86_64", "amd64")

#: Whether `int` is `int64` for NumPy.
_HAS_LONG_INTS: Final = np.dtype(int).itemsize == 8


class Draws(ArrayCalls):
    """Steps that draw. Mutable: they are appended.

    Args:
        inputs: what the nest is given.
    """

    def __init__(self, inputs: Inputs) -> None:
        super().__init__(inputs.share)
        self._inputs = inputs

    def method_that_draws(self, callee: Any) -> Method | None:
        """The method of a generator that a value is; None: it is none."""
        if isinstance(callee, Method):
            return callee if isinstance(callee.target, Generator) else None
        if not isinstance(callee, Outer):
            return None
        value = callee.value
        if isinstance(value, BoundMethod) and isinstance(value.self, Opaque):
            function = value.function
            if value.self.python_type not in CLASSES or not isinstance(function, (Known, Opaque)):
                return None
            name = str(getattr(function.object, "__name__", ""))
            if getattr(value.self.python_type, name, None) is not function.object:
                return None
            if function.source is not None:
                self._inputs.recorder.guard(function.source, Kind.IDENTITY, function.object)
            return Method(name, self._inputs.convert(value.self))
        if not isinstance(value, (Known, Opaque)):
            return None
        function, name = value.object, str(getattr(value.object, "__name__", ""))
        if function is not np.random.seed and not isinstance(function, types.BuiltinMethodType):
            return None
        bound = np.random.rand if function is np.random.seed else function
        owner = getattr(bound, "__self__", None)
        if type(owner) not in CLASSES:
            return None
        if value.source is not None:
            self._inputs.recorder.guard(value.source, Kind.IDENTITY, function)
        found = self._inputs.recorder.wrap(owner, sources.Constant(owner))
        return Method(name, self._inputs.convert(found))

    def drawn(self, method: Method, arguments: Sequence[Any], named: dict[str, Any]) -> Any:
        """What a method of a generator gives.

        Raises:
            NotNest: it is none of those that are known, or gives more than a number.
        """
        generator = method.target
        known = _METHODS[generator.kind].get(method.name)
        if known is None:
            raise NotNest
        if generator.kind is not random.Random and not _draw_as_known():
            raise NotNest
        parameters, function = known
        given = dict(zip(parameters, arguments, strict=False))
        is_bound = len(given) == len(arguments) and not given.keys() & named.keys()
        if not is_bound or not named.keys() <= parameters.keys():
            raise NotNest
        return function(self, generator, **{**parameters, **given, **named})

    def _draw(self, generator: Generator, name: str, *operands: Any) -> Any:
        """The register of a float."""
        self.written[generator.slot] = None
        return self.emit("draw", dtypes.float64, *operands, slot=generator.slot, name=name)

    def _draw_int(
        self, generator: Generator, name: str, low: Any, high: Any, is_python: bool = True
    ) -> Number:
        """An int from `low` to one below `high`."""
        a, b = _as_int(low), _as_int(high)
        x, y = self.cast(a, dtypes.int64), self.cast(b, dtypes.int64)
        self.require_compared("lt", dtypes.int64, x, y)
        self.written[generator.slot] = None
        found = self.emit("draw", dtypes.int64, x, y, slot=generator.slot, name=name)
        extent = max(a.extent, b.extent) if a.is_python and b.is_python else WHOLE
        return Number(found, dtypes.int64, is_python, extent)

    def _standard(self, generator: Generator, name: str) -> Number:
        return Number(self._draw(generator, name), dtypes.float64, True)

    def _as_float(self, value: Any) -> Any:
        return self.cast(as_number(value), dtypes.float64)

    def _sum(self, start: Any, factor: Any, drawn: Any) -> Number:
        """`start + factor * drawn`."""
        product = self.emit("mul", dtypes.float64, factor, drawn, dtype=dtypes.float64)
        found = self.emit("add", dtypes.float64, start, product, dtype=dtypes.float64)
        return Number(found, dtypes.float64, True)

    # -- methods of NumPy's generators

    def random_number(self, generator: Generator) -> Number:
        """In [0, 1)."""
        return self._standard(generator, "random")

    def uniform_of_numpy(self, generator: Generator, low: Any, high: Any) -> Number:
        """`uniform(low, high)`: bounds that are far apart raise, and `Generator` asks for their
        order."""
        a, b = self._as_float(low), self._as_float(high)
        width = self.emit("sub", dtypes.float64, b, a, dtype=dtypes.float64)
        self._require_finite(width, dtypes.float64)
        if generator.kind is np.random.Generator:
            self.require_compared("gt", dtypes.float64, width, 0.0)
        return self._sum(a, width, self._draw(generator, "random"))

    def standard_normal(self, generator: Generator) -> Number:
        """`standard_normal()`."""
        return self._standard(generator, _NORMAL[generator.kind])

    def normal_of_numpy(self, generator: Generator, loc: Any, scale: Any) -> Number:
        """`normal(loc, scale)`."""
        start, factor = self._as_float(loc), self._positive(scale)
        return self._sum(start, factor, self._draw(generator, _NORMAL[generator.kind]))

    def _positive(self, scale: Any) -> Any:
        """A scale; a negative one raises."""
        factor = self._as_float(scale)
        self.require_compared("gt", dtypes.float64, factor, 0.0)
        return factor

    def standard_exponential(self, generator: Generator) -> Number:
        """`standard_exponential()`."""
        return self._standard(generator, _EXPONENTIAL[generator.kind])

    def exponential_of_numpy(self, generator: Generator, scale: Any) -> Number:
        """`exponential(scale)`."""
        factor = self._positive(scale)
        drawn = self._draw(generator, _EXPONENTIAL[generator.kind])
        found = self.emit("mul", dtypes.float64, factor, drawn, dtype=dtypes.float64)
        return Number(found, dtypes.float64, True)

    def randint_of_numpy(self, generator: Generator, low: Any, high: Any) -> Number:
        """`RandomState.randint(low, high)`."""
        bounds = (Literal(0), low) if _is_none(high) else (low, high)
        return self._draw_int(generator, "masked", *bounds)

    def integers(
        self, generator: Generator, low: Any, high: Any, size: Any, dtype: Any, endpoint: Any
    ) -> Number:
        """`Generator.integers(low, high)`, one of `int64`."""
        first, last = (Literal(0), low) if _is_none(high) else (low, high)
        if not (_is_none(size) and dtype is _NONE and isinstance(endpoint, Literal)):
            raise NotNest
        if endpoint.value:
            last = self.binary("+", last, Literal(1))
        return self._draw_int(generator, "scaled", first, last, is_python=False)

    def choice_of_numpy(self, generator: Generator, a: Any) -> Number:
        """`choice(n)`."""
        name = "masked" if generator.kind is np.random.RandomState else "scaled"
        is_python = _CHOOSES[generator.kind] is int
        return self._draw_int(generator, name, Literal(0), a, is_python=is_python)

    def seed_of_numpy(self, generator: Generator, seed: Any) -> Literal:
        """`seed(number)`."""
        return self._begun(generator, "seed", seed)

    def _begun(self, generator: Generator, name: str, seed: Any) -> Literal:
        given = as_number(seed)
        if given.dtype is not dtypes.int64 or not given.is_python:
            raise NotNest
        self.written[generator.slot] = None
        slot = generator.slot
        self.require(self.emit("draw", dtypes.bool_, given.operand, slot=slot, name=name))
        return Literal(None)

    # -- methods of Python's

    def uniform_of_python(self, generator: Generator, a: Any, b: Any) -> Any:
        """`uniform(a, b)`."""
        width = self.binary("-", b, a)
        return self.binary("+", a, self.binary("*", width, self.random_number(generator)))

    def randint_of_python(self, generator: Generator, a: Any, b: Any) -> Number:
        """`randint(a, b)`."""
        last = Number(_as_int(b).operand, dtypes.int64, True, _as_int(b).extent)
        return self._draw_int(generator, "bits", a, self.binary("+", last, Literal(1)))

    def randrange(self, generator: Generator, start: Any, stop: Any) -> Number:
        """`randrange(start, stop)`."""
        bounds = (Literal(0), start) if _is_none(stop) else (start, stop)
        return self._draw_int(generator, "bits", *bounds)

    def normal_of_python(self, generator: Generator, mu: Any, sigma: Any) -> Any:
        """`gauss(mu, sigma)`."""
        return self._normal_by(generator, "angle", mu, sigma)

    def normalvariate(self, generator: Generator, mu: Any, sigma: Any) -> Any:
        """`normalvariate(mu, sigma)`."""
        return self._normal_by(generator, "ratio", mu, sigma)

    def _normal_by(self, generator: Generator, name: str, mu: Any, sigma: Any) -> Any:
        drawn = self._standard(generator, name)
        return self.binary("+", mu, self.binary("*", drawn, sigma))

    def seed_of_python(self, generator: Generator, a: Any) -> Literal:
        """`seed(number)`."""
        return self._begun(generator, "python_seed", a)

    def expovariate(self, generator: Generator, lambd: Any) -> Any:
        """`expovariate(lambd)`."""
        return self.binary("/", self._standard(generator, "inverse"), lambd)

    def choice_of_python(self, generator: Generator, seq: Any) -> Any:
        """`choice(list)`."""
        if not isinstance(seq, ListOf) or len(seq.sizes) != 1:
            raise NotNest
        at = self._draw_int(generator, "bits", Literal(0), seq.sizes[0])
        return self.item(seq, at)


#: Checksum of what NumPy 2.0 to 2.5 draw in `_draw_as_known`.
STREAMS: Final = 2349759277


@functools.cache
def _draw_as_known() -> bool:
    """Whether generators of NumPy's give the numbers that `random.h` gives, from all strips of the
    tables there: versions of NumPy may draw otherwise (its NEP 19)."""
    new = np.random.Generator(np.random.SFC64(7))
    old = np.random.RandomState(7)
    drawn: list[Any] = [new.standard_normal(4096), new.standard_exponential(4096)]
    drawn += [new.integers(0, 1000, 64), new.random(64)]
    drawn += [old.standard_normal(64), old.standard_exponential(64)]
    drawn += [old.randint(0, 1000, 64), old.random_sample(64)]
    return zlib.crc32(b"".join(each.astype("<f8").tobytes() for each in drawn)) == STREAMS


def _is_none(value: Any) -> bool:
    return isinstance(value, Literal) and value.value is None


def _as_int(value: Any) -> Number:
    """An int, of Python's or NumPy's, that int64 holds.

    Raises:
        NotNest: it is none.
    """
    found = as_number(value)
    is_int = found.dtype.category is Category.INTEGER and found.dtype is not dtypes.uint64
    if not is_int or found.dtype is dtypes.bool_:
        raise NotNest
    return found


#: The class of what `choice` gives, which NumPy's versions differ in.
_CHOOSES: Final = {
    np.random.Generator: type(np.random.Generator(np.random.PCG64(0)).choice(2)),
    np.random.RandomState: type(np.random.RandomState(0).choice(2)),
}

_NORMAL: Final = {np.random.Generator: "normal", np.random.RandomState: "polar"}
_EXPONENTIAL: Final = {np.random.Generator: "exponential", np.random.RandomState: "inverse"}

_Method = tuple[dict[str, Any], Callable[..., Any]]
"""Parameters and what they are where a call leaves them out, and what draws; a parameter without
such a value is bound by `_REQUIRED`, which no function takes for a number."""

_REQUIRED: Final = None


def _of(function: Callable[..., Any], **parameters: Any) -> _Method:
    given = {n: p if p is _REQUIRED else Literal(p) for n, p in parameters.items()}
    return given, function


_NONE: Final = Literal(None)

#: Of both kinds of generators of NumPy's: formulas of floats.
_FORMULAS: Final[dict[str, _Method]] = {
    "uniform": _of(Draws.uniform_of_numpy, low=0.0, high=1.0),
    "standard_normal": _of(Draws.standard_normal),
    "normal": _of(Draws.normal_of_numpy, loc=0.0, scale=1.0),
    "standard_exponential": _of(Draws.standard_exponential),
    "exponential": _of(Draws.exponential_of_numpy, scale=1.0),
}  # fmt: skip

#: Parameters of normal numbers of Python's, which may be left out from 3.11 on.
_PYTHON_NORMAL: Final[dict[str, Any]] = (
    {"mu": 0.0, "sigma": 1.0} if sys.version_info >= (3, 11) else dict.fromkeys(("mu", "sigma"))
)

_METHODS: Final[dict[type, dict[str, _Method]]] = {
    np.random.RandomState: {
        **dict.fromkeys(("rand", "random", "random_sample"), _of(Draws.random_number)),
        **(_FORMULAS if _IS_BY_OPERATIONS else {}),
        **({"randn": _of(Draws.standard_normal)} if _IS_BY_OPERATIONS else {}),
        **({
            "randint": ({"low": _REQUIRED, "high": _NONE}, Draws.randint_of_numpy),
            "choice": _of(Draws.choice_of_numpy, a=_REQUIRED),
        } if _HAS_LONG_INTS else {}),
        "seed": _of(Draws.seed_of_numpy, seed=_REQUIRED),
    },
    np.random.Generator: {
        "random": _of(Draws.random_number),
        **(_FORMULAS if _IS_BY_OPERATIONS else {}),
        "integers": ({
            "low": _REQUIRED, "high": _NONE, "size": _NONE, "dtype": _NONE,
            "endpoint": Literal(False),
        }, Draws.integers),
        "choice": _of(Draws.choice_of_numpy, a=_REQUIRED),
    },
    random.Random: {
        "random": _of(Draws.random_number),
        "uniform": _of(Draws.uniform_of_python, a=_REQUIRED, b=_REQUIRED),
        "randint": _of(Draws.randint_of_python, a=_REQUIRED, b=_REQUIRED),
        "randrange": ({"start": _REQUIRED, "stop": _NONE}, Draws.randrange),
        "gauss": _of(Draws.normal_of_python, **_PYTHON_NORMAL),
        "normalvariate": _of(Draws.normalvariate, **_PYTHON_NORMAL),
        "expovariate": _of(Draws.expovariate, lambd=_REQUIRED),
        "choice": _of(Draws.choice_of_python, seq=_REQUIRED),
        "seed": _of(Draws.seed_of_python, a=_REQUIRED),
    },
}  # fmt: skip


#: What keeps, gives or drops the second of two normal numbers.
OF_NORMALS: Final = frozenset({"angle", "polar", "python_seed", "seed"})

_NAMES: Final = frozenset().union(*_METHODS.values())
_NAMED: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


def draws(value: Value) -> bool:
    """Whether a value is a generator, or a method of one."""
    owner = value.self if isinstance(value, BoundMethod) else value
    return isinstance(owner, Opaque) and owner.python_type in CLASSES


def may_draw(frame: Frame, instructions: Iterable[Instruction]) -> bool:
    """Whether a part of a frame's code names what draws, or calls a function that does; it is a
    guess, which decides about no result."""
    return any(
        instruction.argument in _NAMES
        if instruction.operation in _NAMED
        else _is_known_to_draw(dict.get(frame.namespace.globals, instruction.argument))
        for instruction in instructions
        if instruction.operation in (*_NAMED, "LOAD_GLOBAL")
    )


def _is_known_to_draw(value: Any) -> bool:
    if isinstance(value, types.FunctionType):
        return not _NAMES.isdisjoint(value.__code__.co_names)
    is_method = isinstance(value, (types.MethodType, types.BuiltinMethodType))
    return is_method and type(value.__self__) in CLASSES


__all__ = ["OF_NORMALS", "Draws", "draws", "may_draw"]
