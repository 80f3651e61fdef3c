"""Every tiny function three ways: plain Python, captured, and captured with a break everywhere.

`check(function, *arguments)` runs the function as plain Python once, then twice in each captured
form (the second call finds the published version), and compares result, exception, arguments,
globals and other surroundings, printed text and warnings. `case(function, *arguments)` is one row
of a table of tiny functions:

    CASES = [case(add, 1, 2), case(divide, 1, 0, breaks=1), case(total, [1, 2], graphs=0)]

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_is_as_in_plain_python(case, assert_captured):
        case.check(assert_captured)

Graphs are interpreted row by row, so no code generation takes part.
"""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, Final

from dynajit import eager
from dynajit.capture.entry import cache, session
from dynajit.capture.execution.forced import ForcedBreaks
from dynajit.capture.region.region import Region
from dynajit.eager.modes import random
from dynajit.ir.interpret import replay
from tests.support.python.comparison import same
from tests.support.python.surroundings import Surroundings

#: Calls of each captured form: the first compiles, the second finds what was published.
CALLS = 2


class Compiler:
    """Compiles functions with an interpreting backend; counts graphs and breaks.

    Args:
        changes: settings of `session.Options`.
    """

    def __init__(self, **changes: Any) -> None:
        self.graphs: list[Any] = []
        self.regions: list[Any] = []
        options = session.Options(self.backend, resume=self.compile, publish_all=True)
        self.options = replace(options, **changes)

    def backend(self, captured: Any) -> Callable[..., Any]:
        if captured.graph.calls:
            self.graphs.append(captured.graph)
        return lambda *operands: replay(captured.graph, operands, eager.from_numpy)

    def publish(self, function: FunctionType, arguments: tuple[Any, ...]) -> cache.Published:
        made = session.compile_entry(function, arguments, self.options)
        region = made.region
        self.regions.append(_described(region))
        if not isinstance(region, Region):
            return cache.Published(permanent=region.permanent, reason=region.reason)
        return cache.Published(
            guards=region.guards, function=made.function, is_scoped=bool(region.breaks)
        )

    def compile(self, function: FunctionType) -> Any:
        return cache.compiled_function(function, self.publish)

    @property
    def breaks(self) -> list[Any]:
        return [
            record
            for region in self.regions
            if isinstance(region, Region)
            for record in region.breaks
        ]

    @property
    def skips(self) -> list[str]:
        return [region.reason for region in self.regions if not isinstance(region, Region)]


def _described(region: Any) -> Any:
    """The region without the values in it: a test must not keep the program's objects alive."""
    if not isinstance(region, Region):
        return region
    return replace(region, inputs=(), effects=(), end=None, rebuild=None)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Everything that one run did.

    Args:
        end: ("value", result) or ("error", exception).
        arguments: as the run left them.
        surroundings: globals, classes, cells and defaults afterwards.
        printed: (standard output, standard error).
        warned: category, text and line of each warning, in order.
    """

    end: tuple[str, Any]
    arguments: tuple[Any, ...]
    surroundings: dict[str, Any]
    printed: tuple[str, str]
    warned: list[tuple[type, str, int]]


class Checker:
    """Runs one function in every form (made afresh for each function).

    Args:
        function: what to run.
        arguments: copied for each run.
        capsys: pytest's fixture.
    """

    def __init__(self, function: FunctionType, arguments: tuple[Any, ...], capsys: Any) -> None:
        self.function = function
        self.arguments = arguments
        self.capsys = capsys
        self.surroundings = Surroundings(function)
        self.start = self.surroundings.take()
        self.random = random.get_rng_state()

    def run(self, called: Callable[..., Any]) -> Outcome:
        """One run from the state at the start, which is restored afterwards."""
        passed = copy.deepcopy(self.arguments)
        random.set_rng_state(self.random)
        self.capsys.readouterr()
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                end = _end(called, passed)
            warned = [(w.category, str(w.message), w.lineno) for w in caught]
            return Outcome(
                end, passed, self.surroundings.take(), tuple(self.capsys.readouterr()), warned
            )
        finally:
            self.surroundings.put_back(self.start)

    def check(self, expected: Outcome, called: Callable[..., Any], form: str) -> None:
        """Call a captured form, and compare each call with plain Python."""
        for number in range(CALLS):
            actual = self.run(called)
            try:
                self._compare(expected, actual)
            except AssertionError as difference:
                difference.add_note(f"{form}, call {number + 1}, of {self.function.__qualname__}")
                raise

    @staticmethod
    def _compare(expected: Outcome, actual: Outcome) -> None:
        kind, found = actual.end
        if kind == "error" and expected.end[0] == "value":
            raise AssertionError(f"raised {found!r} instead of a result") from found
        same((expected.end, expected.arguments), (actual.end, actual.arguments))
        same(expected.surroundings, actual.surroundings)
        assert expected.printed == actual.printed
        assert expected.warned == actual.warned


def _end(called: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[str, Any]:
    try:
        return "value", called(*arguments)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        return "error", error


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One row of a table of tiny functions.

    Args:
        function: a plain Python function.
        arguments: what it is called with; each run gets copies.
        graphs: how many graphs the captured form has; None: not counted.
        breaks: how many breaks; with 0 it is compiled with `fullgraph=True`.
    """

    function: FunctionType
    arguments: tuple[Any, ...]
    graphs: int | None
    breaks: int | None

    def check(self, assert_captured: Callable[..., Any]) -> None:
        """Hand the row to the fixture."""
        assert_captured(self.function, *self.arguments, graphs=self.graphs, breaks=self.breaks)

    def __str__(self) -> str:
        code = self.function.__code__
        name = code.co_name if code.co_name != "<lambda>" else f"line{code.co_firstlineno}"
        shown = ",".join(_short(argument) for argument in self.arguments)
        return f"{name}({shown})" if shown else name


def _short(argument: Any) -> str:
    if isinstance(argument, (int, float, str, bool, type(None))) and len(repr(argument)) < 12:
        return repr(argument)
    return type(argument).__name__


def case(function: Any, *arguments: Any, graphs: int | None = None, breaks: int | None = 0) -> Case:
    """A row; see `Case`."""
    return Case(function, arguments, graphs, breaks)


def check(
    function: FunctionType,
    arguments: tuple[Any, ...],
    capsys: Any,
    graphs: int | None = 1,
    breaks: int | None = 0,
) -> Compiler:
    """Plain, captured, and broken everywhere; see the module's text.

    Returns:
        The compiler of the captured form.
    """
    checker = Checker(function, arguments, capsys)
    expected = checker.run(function)
    captured = Compiler(fullgraph=breaks == 0)
    checker.check(expected, captured.compile(function), "captured")
    found = [str(record) for record in captured.breaks]
    assert breaks in (None, len(found)), (found, captured.skips)
    assert graphs in (None, len(captured.graphs)), (captured.skips, found)
    for form, changes in BROKEN_FORMS:
        broken = Compiler(**changes)
        checker.check(expected, broken.compile(function), form)
    return captured


#: Captured forms with breaks that the program does not ask for: name, settings of the options.
BROKEN_FORMS: Final = (("a break at every statement", {"forced": ForcedBreaks()}),)
