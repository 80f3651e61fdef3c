"""What is compiled while a program runs, for commands that explain or time it afterwards.

Contract: within `with watching() as found`, every use of `compile` in the process, in any thread,
adds a `Watched` to `found`, which gathers what capture made of its calls. What is kept has a bound
(`MOST_KEPT`). Outside of the block nothing is kept. `explain` gathers by a `Watched` of its own.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from dynajit.core.records import record

if TYPE_CHECKING:
    from dynajit.capture.entry.session import Compilation
    from dynajit.report.versions import Made

MOST_KEPT: Final = 200
"""Compilations of one `compile` that are kept, the first ones: each has graphs and kernels."""


@record(eq=False)
class Call:
    """A call that was compiled: `function(*args, **kwargs)`."""

    function: FunctionType
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(slots=True, eq=False)
class Watched:
    """One use of `compile`. Mutable: filled while the program runs.

    Args:
        name: in reports; empty until something was made.
        compiled: the function that was made.
        compilations: (what reports keep of it, what capture made of one call): those of the
            function, of its rests after breaks, and of functions below it.
        left_out: how many are not among them, for want of room.
        most: compilations that are kept; None: all.
        call: the first call of the function itself that was compiled.
    """

    name: str = ""
    compiled: Any = None
    compilations: "list[tuple[Made, Compilation]]" = field(default_factory=list)
    left_out: int = 0
    most: int | None = None
    call: Call | None = None

    def made(self, name: str, compiled: Any) -> None:
        """`compile` gave a function."""
        if self.compiled is None:
            self.name, self.compiled = name, compiled

    def add(
        self,
        made: "Made",
        function: FunctionType,
        arguments: tuple[Any, ...],
        compilation: "Compilation",
    ) -> None:
        """A call was compiled.

        Args:
            made: what reports keep of it.
            function: what was called.
            arguments: bound, in the order of `co_varnames`.
            compilation: what became of it.
        """
        original: Callable[..., Any] | None = getattr(self.compiled, "__wrapped__", None)
        if self.call is None and original is not None and function.__code__ is original.__code__:
            self.call = _call(function, arguments)
        if self.most is None or len(self.compilations) < self.most:
            self.compilations.append((made, compilation))
        else:
            self.left_out += 1


def _call(function: FunctionType, arguments: tuple[Any, ...]) -> Call:
    """The call that binds so."""
    code = function.__code__
    placed, named = code.co_argcount, code.co_kwonlyargcount
    args, values = arguments[:placed], arguments[placed : placed + named]
    kwargs = dict(zip(code.co_varnames[placed : placed + named], values, strict=True))
    rest = list(arguments[placed + named :])
    if code.co_flags & CO_VARARGS:
        args += tuple(rest.pop(0))
    if code.co_flags & CO_VARKEYWORDS:
        kwargs |= rest.pop(0)
    return Call(function, args, kwargs)


_watching: Final[list[list[Watched]]] = []


@contextmanager
def watching() -> Iterator[list[Watched]]:
    """A block in which every use of `compile` is gathered, in order."""
    found: list[Watched] = []
    _watching.append(found)
    try:
        yield found
    finally:
        _watching[:] = [other for other in _watching if other is not found]


def begun() -> Watched | None:
    """For a use of `compile`: where its calls are gathered; None if nobody watches."""
    if not _watching:
        return None
    watched = Watched(most=MOST_KEPT)
    _watching[-1].append(watched)
    return watched
