"""Programs in which no tensor and no array can turn up: to capture them is of no use.

Contract: `is_plain` looks at the objects that a call can reach, its arguments, the globals that its
code names, and those of the functions and classes among them, and runs no code of theirs. What it
does not know may hold or make tensors. It is a guess that costs time where it is wrong, and never
decides about a result: the original runs. `guards_of` are the facts about the arguments that it
relies on, with one item for all of those of a list. A program of few turns over numbers and lists
is asked again once these are much larger: with more turns it may be a nest.
"""

import builtins
import cmath
import random
import sys
from abc import ABCMeta
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dynajit.capture._capture import CompiledFunction
from dynajit.capture.breaks import SkipFrame
from dynajit.capture.bytecode.instructions import Instruction, decode
from dynajit.capture.guards.facts import Predicate
from dynajit.capture.guards.guards import Guard
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.places import sources
from dynajit.capture.places.sources import Source
from dynajit.capture.values.generator_states import CLASSES

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor

MSG_PLAIN: Final = "no tensor and no array can turn up in it"

#: Objects that are looked at before a program counts as one that nobody knows.
MOST_OBJECTS: Final = 400
#: Items of a container that stand for all of them.
MOST_ITEMS: Final = 4
#: Lists within each other whose first items are guarded.
MOST_DEPTH: Final = 3

#: How large ints and lists may be that may be the number of turns of a loop, where these are few:
#: those that are within one of these bounds are so in other calls of that version.
FEW: Final = (16, 64)

_NUMBERS_AND_TEXTS: Final = (
    bool, int, float, complex, str, bytes, bytearray, range, slice, type(None), type(...),
    type(NotImplemented), type(iter(range(0))), random.Random, Fraction, Decimal,
)  # fmt: skip
_SEQUENCES: Final = (list, tuple)
_SETS: Final = (set, frozenset, deque)
_DICTS: Final = (dict, defaultdict, OrderedDict, Counter)

#: Functions of NumPy's random numbers -> arguments in front of the size: without one they give a
#: number of Python's.
_DRAWS: Final = {
    "random": 0, "random_sample": 0, "rand": 0, "randn": 0, "standard_normal": 0, "uniform": 2,
    "normal": 2, "randint": 2, "integers": 2, "exponential": 1, "poisson": 1, "seed": 1,
}  # fmt: skip
_SIMPLE: Final = frozenset({"LOAD_CONST", "LOAD_FAST", "LOAD_GLOBAL"})

#: Modules of the standard library that give objects of any class.
_OF_ANYTHING: Final = frozenset({"gc", "importlib", "pickle", "runpy", "shelve"})


def refuse(executor: "Executor", is_long: bool = False, may_be_long: bool = False) -> None:
    """A program that has met no tensor so far has had loops, or cannot be captured any further.

    Args:
        is_long: the loops have many turns.
        may_be_long: they may have, which is looked at where something breaks in a first turn.

    Raises:
        SkipFrame: it will meet none.
    """
    if not executor.refusals.plain or executor.recorder.met_tensor:
        return
    function, given = executor.root_function, executor.given
    search = _Search()
    if search.is_plain_call(function, given):
        guards = guards_of(function, given)
        may_be_nest = is_long or (may_be_long and search.has_breaking)
        if not may_be_nest:
            guards += _bounds_of(function, given)
        raise SkipFrame(MSG_PLAIN, permanent=False, guards=guards, may_be_nest=may_be_nest)


def is_plain(function: FunctionType, arguments: Iterable[Any]) -> bool:
    """Whether no tensor and no array turns up in a call, as far as can be seen."""
    return _Search().is_plain_call(function, arguments)


class _Search:
    """The objects met so far. Mutable; used once.

    Attributes:
        has_breaking: there are generators of random numbers or complex numbers, which nests compute
            with, and whose use breaks.
    """

    def __init__(self) -> None:
        self._met: dict[int, Any] = {}
        self._has_generators = self._has_sizes = False
        self.has_breaking = False

    def is_plain_call(self, function: FunctionType, arguments: Iterable[Any]) -> bool:
        """See `is_plain`: nor may a generator of NumPy's be asked for more than a number, or an
        argument be of a class of the program's, whose attributes others may set."""
        given = tuple(arguments)
        if any(map(_is_of_program, given)):
            return False
        return self.all_plain((*given, function)) and not (self._has_generators and self._has_sizes)

    def all_plain(self, objects: Iterable[Any]) -> bool:
        return all(map(self._is_plain, objects))

    def _is_plain(self, obj: Any) -> bool:
        kind = type(obj)
        self.has_breaking |= kind in CLASSES or kind is complex or obj is random or obj is cmath
        if kind in _NUMBERS_AND_TEXTS or id(obj) in self._met:
            return True
        if len(self._met) >= MOST_OBJECTS:
            return False
        self._met[id(obj)] = obj
        if kind in _SEQUENCES:
            return self.all_plain(islice(obj, MOST_ITEMS))
        if kind in _SETS:
            return bool(obj) and self.all_plain(islice(obj, MOST_ITEMS))
        if kind in _DICTS:
            return bool(obj) and self.all_plain(islice(obj.values(), MOST_ITEMS))
        if kind in (np.random.Generator, np.random.RandomState):
            self._has_generators = True
            return True
        if kind is CompiledFunction:
            return self._is_plain(obj.__wrapped__)
        if kind is FunctionType:
            return self._is_plain_function(obj)
        if kind is MethodType:  # `random.randint` is one of a generator
            return _is_plain_module(obj.__func__.__module__) and self._is_plain(obj.__self__)
        if kind is BuiltinFunctionType:
            held = obj.__self__
            is_of_module = held is None or type(held) is ModuleType
            return _is_plain_module(obj.__module__) if is_of_module else self._is_plain(held)
        if kind is ModuleType:
            return _is_plain_module(obj.__name__)
        return kind in (type, ABCMeta) and self._is_plain_class(obj)

    def _is_plain_function(self, function: FunctionType) -> bool:
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        try:
            closed = [cell.cell_contents for cell in function.__closure__ or ()]
        except ValueError:  # nothing is in it so far
            return False
        # a global that holds nothing may hold a tensor in another call
        if any(held is None for held in closed):
            return False
        return self.all_plain((*closed, *defaults)) and self._is_plain_code(
            function.__code__, function.__globals__
        )

    def _is_plain_code(self, code: CodeType, namespace: dict[str, Any]) -> bool:
        instructions = decode(code).instructions
        for place, instruction in enumerate(instructions):
            if instruction.operation in _ATTRIBUTES and instruction.argument in _DRAWS:
                self._has_sizes |= not _is_draw(instructions, place)
            if instruction.operation == "IMPORT_NAME":
                if not _is_plain_module(instruction.argument):
                    return False
            elif instruction.operation == "LOAD_GLOBAL":
                name = instruction.argument
                found = dict.get(namespace, name, _missing)
                is_random = instructions[place + 1].argument == "random"
                if found is np and is_random and _is_draw(instructions, place + 2):
                    self.has_breaking = True
                    continue
                if found is None or not self._is_plain_global(name, found):
                    return False
        self.has_breaking |= any(type(literal) is complex for literal in code.co_consts)
        inner = (literal for literal in code.co_consts if isinstance(literal, CodeType))
        return all(self._is_plain_code(each, namespace) for each in inner)

    def _is_plain_global(self, name: str, found: Any) -> bool:
        if found is _missing:
            return name in vars(builtins)
        return self._is_plain(found)

    def _is_plain_class(self, cls: type) -> bool:
        """A class of Python's, or one of the program's that code makes instances of: these hold
        what their methods and that code put there. (What an argument holds nobody knows.)"""
        if cls.__module__ == builtins.__name__:
            return vars(builtins).get(cls.__name__) is cls
        if not _is_of_program(cls):
            return True
        parts = (part for base in cls.__mro__[:-1] for part in vars(base).values())
        return self.all_plain(map(_function_of, parts))


def _is_of_program(obj: Any) -> bool:
    """Whether an object is a class that is none of Python's."""
    return type(obj) in (type, ABCMeta) and not _is_plain_module(obj.__module__)


def _function_of(part: Any) -> Any:
    """What an item of a class's namespace runs: a method's function; None: nothing."""
    if isinstance(part, (staticmethod, classmethod)):
        return part.__func__
    if isinstance(part, property):
        return tuple(each for each in (part.fget, part.fset, part.fdel) if each is not None)
    return None if isinstance(part, _SLOTS) else part


_SLOTS: Final = (GetSetDescriptorType, MemberDescriptorType)

_missing: Final = object()
_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


def _is_draw(instructions: Sequence[Instruction], place: int) -> bool:
    """Whether a number is drawn by the method that is loaded at a place, with simple arguments."""
    if place >= len(instructions) or instructions[place].argument not in _DRAWS:
        return False
    behind = instructions[place + 1 :]
    count = next((n for n, each in enumerate(behind) if each.operation not in _SIMPLE), 0)
    is_called = behind[count].operation == "CALL" and behind[count].argument == (count, ())
    return is_called and count <= _DRAWS[instructions[place].argument]


def _is_plain_module(name: Any) -> bool:
    first = str(name).partition(".")[0]
    return first in sys.stdlib_module_names and first not in _OF_ANYTHING


def guards_of(function: FunctionType, arguments: Iterable[Any]) -> tuple[Guard, ...]:
    """The classes of arguments, and of the first items of lists and tuples."""
    names = decode(function.__code__).parameters
    return tuple(
        guard
        for index, (name, argument) in enumerate(zip(names, arguments, strict=True))
        for guard in _guards_of(argument, sources.Local(name, index), MOST_DEPTH)
    )


def _bounds_of(function: FunctionType, arguments: Sequence[Any]) -> tuple[Guard, ...]:
    """How large the small numbers and lists of a call with few turns may be in others; nothing
    where there is more than numbers and lists. What is large did not make the turns many.
    """
    if any(type(argument) not in (int, float, bool, list) for argument in arguments):
        return ()
    names = decode(function.__code__).parameters
    places = [sources.Local(name, index) for index, name in enumerate(names)]
    return tuple(
        guard
        for place, argument in zip(places, arguments, strict=True)
        if (guard := _bound_of(argument, place)) is not None
    )


def _bound_of(argument: Any, place: Source) -> Guard | None:
    if type(argument) not in (int, list):
        return None
    size = len(argument) if type(argument) is list else abs(argument)
    most = next((few for few in FEW if size <= few), None)
    if most is None:
        return None
    if type(argument) is list:
        return Guard(place, Kind.AT_MOST, most)
    return Guard(place, Kind.PREDICATE, Predicate(int, ((">=", -most), ("<=", most))))


def _guards_of(obj: Any, place: Source, depth: int) -> Iterator[Guard]:
    yield Guard(place, Kind.TYPE_IS, type(obj))
    if type(obj) in _SEQUENCES and depth:
        yield Guard(place, Kind.TRUE_VALUE, bool(obj))
        if obj:
            yield from _guards_of(obj[0], sources.Item(place, 0), depth - 1)


__all__ = ["guards_of", "is_plain", "refuse"]
