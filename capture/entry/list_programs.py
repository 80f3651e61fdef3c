"""Programs over Python's numbers and lists of them that run as one loop nest.

Contract: a `ListProgram` is called in place of a function in which no tensor can turn up
(`plain_programs`). It reads lists of numbers into memory, runs the nest that the function was
captured as with arrays over that memory (`Refusals.lists`), and writes the numbers that differ
back; lists that the nest makes, and those that it changes the length of, it hands over. Where lists
are no such lists (other numbers, lists in two places, sizes that differ), or the nest refuses its
values, nothing has happened, and the function runs plainly; and so it does where that is faster,
which one call finds out, and one more once lists or numbers have become much larger.
"""

import contextlib
import math
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, TypeAlias

import numpy as np

from dynajit.capture import _capture
from dynajit.capture.bytecode.instructions import decode
from dynajit.capture.emit.drawing import rehearsing
from dynajit.capture.execution.nests.calls import HANDED
from dynajit.capture.guards.tree import CompiledGuards
from dynajit.capture.tensors.size_memory import Place, SizeMemory
from dynajit.core.errors import LaunchFailed
from dynajit.core.records import record

#: Class of numbers -> the dtype of their memory.
DTYPES: Final[dict[type, Any]] = {
    float: np.float64, int: np.int64, bool: np.bool_, complex: np.complex128
}  # fmt: skip

#: Lists within each other.
MOST_DIMS: Final = 3

#: Versions of one program, for other sizes than a version knows.
MOST_VERSIONS: Final = 4

#: Calls that were refused, for each that was not, from which nothing is tried any more.
MOST_REFUSED: Final = 4

MSG_CHANGED: Final = (
    "a list was changed by another thread while compiled code computed its numbers."
)

#: How many times as large a list or an int must be as those for which plain Python was faster,
#: before it is asked again which is.
GROWN: Final = 4

#: How often that is asked.
MOST_MEASURED: Final = 12

Version: TypeAlias = tuple[CompiledGuards, Callable[..., Any]]
Make: TypeAlias = Callable[[tuple[Any, ...], SizeMemory], Version | None]
"""(arguments with arrays in place of lists, what is known of sizes) -> a version, or None."""


@record
class Read:
    """A list whose numbers were read.

    Args:
        numbers: the list.
        kind: the class of its numbers.
        shape: its length, and those of the lists in it.
        memory: what holds its numbers.
    """

    numbers: list[Any]
    kind: type
    shape: tuple[int, ...]
    memory: Any


@record
class Made:
    """A list that a nest has made, or made longer or shorter.

    Args:
        parameter: the one whose list it is; None: it is a new list.
        numbers: what is in it.
    """

    parameter: str | None
    numbers: Any


class ListProgram:
    """See the module's text. Mutable.

    Args:
        plain: the function, as plain Python.
        make: compiles a version; gives None where the program is no nest.
        arguments: of a call that a version is made for at once.

    Attributes:
        ran: calls that a nest has served.
        refused: calls that ran plainly all the same.
        is_given_up: all calls do.
    """

    def __init__(self, plain: FunctionType, make: Make, arguments: tuple[Any, ...]) -> None:
        self._plain, self._make = plain, make
        self._parameters = decode(plain.__code__).parameters
        self._sizes = _sizes_of(plain, arguments)
        self._versions: list[Version] = []
        self.refused = self.ran = self._attempts = 0
        self._is_faster = False
        self._measured_count = 0
        self._slow_at: tuple[int, ...] = ()
        self._fewest = 0.0
        read = _read(arguments)
        if read is None:
            self.is_given_up = not any(type(given) is list and not given for given in arguments)
        else:
            self.is_given_up = self._version(read[0]) is None

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """The program's result; may be a tail call (`_capture.tail_call`)."""
        if keywords:
            return self._plain(*args, **keywords)
        is_plain = self.is_given_up or len(args) != len(self._parameters)
        if is_plain or self._is_small(args):
            return _capture.tail_call(self._plain, *args)
        started, attempts = time.perf_counter(), self._attempts
        found = _read(args)
        version = None if found is None else self._version(found[0])
        if found is None or version is None:
            return self._run_plainly(args)
        given, lists = found
        read_after = time.perf_counter()
        is_measuring = bool(self.ran) and not self._is_faster and attempts == self._attempts
        try:
            with rehearsing() if is_measuring else contextlib.nullcontext():
                result = version(*given)
        except LaunchFailed:
            return self._run_plainly(args)
        result, made = _taken(result)
        if is_measuring:
            # Nothing is written back for a measurement: that takes about as long as reading did.
            writing_s = read_after - started
            return self._measured(args, time.perf_counter() - started + writing_s)
        self.ran += 1
        by_name = dict(zip(self._parameters, args, strict=True))
        changed = {
            id(by_name[item.parameter]): item.numbers
            for item in made.values()
            if item.parameter is not None
        }
        for read in lists:
            _write_back(read, changed.get(id(read.numbers)))
        new = {
            name: item.numbers.tolist() if item.parameter is None else by_name[item.parameter]
            for name, item in made.items()
        }
        return _with_lists(result, lists, new)

    def _run_plainly(self, args: tuple[Any, ...]) -> Any:
        self.refused += 1
        self.is_given_up = self.refused > MOST_REFUSED * (self.ran + 1)
        return _capture.tail_call(self._plain, *args)

    def _is_small(self, args: tuple[Any, ...]) -> bool:
        """Whether plain Python is faster, for all that is known."""
        if self._slow_at:
            sizes = zip(map(_size_of, args), self._slow_at, strict=True)
            return all(size <= GROWN * slow for size, slow in sizes)
        return bool(self._fewest) and _length_of(args) < self._fewest

    def _measured(self, args: tuple[Any, ...], elapsed_s: float) -> Any:
        """Run plainly, after the nest took a time for the same, and keep what is faster: of calls
        with fewer items plain Python, where it took less than that time for so many."""
        started = time.perf_counter()
        result = self._plain(*args)
        plain_s = time.perf_counter() - started
        self._is_faster = elapsed_s <= plain_s
        self._fewest = _length_of(args) * elapsed_s / plain_s if plain_s else 0.0
        sizes = tuple(map(_size_of, args))
        self._slow_at = () if self._is_faster else tuple(map(max, sizes, self._slow_at or sizes))
        self._measured_count += 1
        self.is_given_up = not self._is_faster and self._measured_count == MOST_MEASURED
        return result

    def _version(self, given: tuple[Any, ...]) -> Callable[..., Any] | None:
        """What serves a call, made if there is none."""
        for guards, function in self._versions:
            if guards.evaluator.check(given, self._plain):
                return function
        if self._attempts >= MOST_VERSIONS:
            return None
        self._attempts += 1
        made = self._make(given, self._sizes)
        if made is None or not made[0].evaluator.check(given, self._plain):
            return None
        self._versions.append(made)
        return made[1]


def _size_of(argument: Any) -> int:
    """A number that grows with the work that an argument asks for."""
    if type(argument) is int:
        return max(1, abs(argument))
    if type(argument) is not list or not argument:
        return 1
    return len(argument) * (len(argument[0]) if type(argument[0]) is list else 1)


def _length_of(arguments: tuple[Any, ...]) -> int:
    """How many items the lists have."""
    return sum(len(argument) for argument in arguments if type(argument) is list)


def _sizes_of(function: FunctionType, arguments: tuple[Any, ...]) -> SizeMemory:
    """All sizes and numbers vary from the first call on."""
    names = decode(function.__code__).parameters
    numbers: set[Place] = {
        (name, None)
        for name, value in zip(names, arguments, strict=True)
        if type(value) in (int, float)
    }
    return SizeMemory(True, varying=numbers)


def _read(arguments: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Read]] | None:
    """Arguments with arrays in place of lists, and what was read; None: a list is none of numbers,
    or in two places."""
    given, lists = [], []
    met: list[int] = []
    for argument in arguments:
        if type(argument) is not list:
            given.append(argument)
            continue
        read = _read_list(argument, met)
        if read is None:
            return None
        lists.append(read)
        given.append(read.memory)
    return (tuple(given), lists) if len(set(met)) == len(met) else None


def _read_list(numbers: list[Any], met: list[int]) -> Read | None:
    """The numbers of a list.

    Args:
        met: gets the identities of all lists.
    """
    shape: list[int] = []
    level: list[Any] = [numbers]
    first: Any = numbers
    while type(first) is list:
        if not first or len(shape) == MOST_DIMS:
            return None
        met += map(id, level)
        shape.append(len(first))
        first = first[0]
        if type(first) is list:
            if not all(type(row) is list for inner in level for row in inner):
                return None
            level = [row for inner in level for row in inner]
    kind = type(first)
    if kind not in DTYPES:
        return None
    memory = np.empty(shape, DTYPES[kind])
    whole = tuple(shape)
    if not _capture.read_numbers(numbers, memory, kind, whole):
        return None
    return Read(numbers, kind, whole, memory)


def _taken(result: Any) -> tuple[Any, dict[str, Made]]:
    """A result, and the lists that a nest hands over, by what they are called in it."""
    if type(result) is not tuple or type(result[0]) is not str:
        return result, {}
    _, lists, found = result
    return found, {f"{HANDED}{number}": _made(*facts) for number, facts in enumerate(lists)}


def _made(parameter: str | None, dtype: str, address: int, *shape: int) -> Made:
    kind = np.dtype(dtype)
    memory = _capture.take_memory(address, kind.itemsize * math.prod(shape))
    return Made(parameter, np.frombuffer(memory, kind).reshape(shape))


def _write_back(read: Read, changed: Any) -> None:
    """Write the numbers of a list that differ.

    Args:
        changed: what it holds now, where its length may be another one; None: it is not.

    Raises:
        RuntimeError: it is no longer the list that was read.
    """
    numbers, memory, shape = read.numbers, read.memory, read.shape
    if changed is not None and len(numbers) == len(memory):
        kept = min(len(numbers), len(changed))
        del numbers[kept:]
        memory, shape = changed[:kept], (kept,)
    if not _capture.write_numbers(numbers, memory, read.kind, shape):
        raise RuntimeError(MSG_CHANGED)
    if changed is not None:
        numbers += changed[len(numbers) :].tolist()


def _with_lists(result: Any, lists: list[Read], made: dict[str, Any]) -> Any:
    """A result with lists in place of the arrays over their numbers, and of what new ones are
    called."""
    if type(result) is tuple:
        return tuple(_with_lists(item, lists, made) for item in result)
    if type(result) is np.ndarray:
        return next(read.numbers for read in lists if read.memory is result)
    return made[result] if type(result) is str else result


__all__ = ["ListProgram"]
