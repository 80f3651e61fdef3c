"""Compiles the methods of a test case and records what the compiler did.

`Capturing.start(test)` gives the instance compiled versions of its methods; `facts()` says after
the run how far they were captured. Graphs are interpreted, so no C compiler takes part. An
internal error of the compiler is recorded and the frame runs as plain Python, so that a test that
swallows exceptions cannot hide it.
"""

import collections
import os
import time
import traceback
from types import FunctionType, MethodType
from typing import Any, Final

import test

from dynajit import eager
from dynajit.capture import _capture
from dynajit.capture.entry import cache, session
from dynajit.capture.execution import executor
from dynajit.capture.region.region import Region
from dynajit.core.process import config
from dynajit.ir.interpret import replay

#: Symbolic instructions in one capture: a loop of a test is not unrolled for minutes.
MAX_INSTRUCTIONS: Final = 10_000

#: Processor seconds for one test, after which what is left of it runs as plain Python.
BUDGET_S: Final = 2.0


class Capturing:
    """How the functions of a test file are compiled (mutable).

    Args:
        callees: also functions of the test file that the tests call.
    """

    def __init__(self, callees: bool) -> None:
        executor.MAX_INSTRUCTIONS = MAX_INSTRUCTIONS  # type: ignore[misc]
        self.folder = os.path.dirname(test.__file__) + os.sep
        self.callees = cache.Callees(self.callee)
        self.callback = self.callees if callees else None
        self.options = session.Options(self.backend, resume=self.compile, publish_all=True)
        self.started = 0.0
        self.regions = 0
        self.breaks: collections.Counter[str] = collections.Counter()
        self.skips: collections.Counter[str] = collections.Counter()
        self.errors: list[str] = []
        self._hooked = False
        self._strict = config.override(strict=True)
        self._strict.__enter__()

    @staticmethod
    def backend(captured: Any) -> Any:
        return lambda *operands: replay(captured.graph, operands, eager.from_numpy)

    def compile(self, function: FunctionType) -> Any:
        """A compiled function, as `session.Options.resume` wants it."""
        return cache.compiled_function(function, self.publish, self.callback)

    def callee(self, function: FunctionType) -> Any:
        """For a frame that the hook meets."""
        return self.compile(function) if self.is_of_the_test(function) else None

    def is_of_the_test(self, function: FunctionType) -> bool:
        """True for code of the test package (a test file, or one it shares with others)."""
        name = function.__code__.co_filename
        if name.startswith(self.folder):
            return not name.startswith(self.folder + "support")
        return name.startswith("<doctest")

    def publish(self, function: FunctionType, arguments: tuple[Any, ...]) -> cache.Published:
        """Compile one call and count."""
        if time.process_time() - self.started > BUDGET_S:
            self.skips["the time for one test is used up"] += 1
            return cache.Published(permanent=True, reason="the time for one test is used up")
        try:
            made = session.compile_entry(function, arguments, self.options)
        except Exception:
            self.errors.append(traceback.format_exc(limit=-12))
            return cache.Published(permanent=True, reason="internal error")
        region = made.region
        if not isinstance(region, Region):
            self.skips[region.reason] += 1
            return cache.Published(permanent=region.permanent, reason=region.reason)
        self.regions += 1
        for record in region.breaks:
            self.breaks[f"{record.reason.name}: {record.detail}"] += 1
        return cache.Published(
            guards=region.guards, function=made.function, is_scoped=bool(region.breaks)
        )

    def start(self, test: Any) -> None:
        """Compile the methods of one test."""
        self.started = time.process_time()
        self.regions = 0
        self.breaks.clear()
        self.skips.clear()
        self.errors.clear()
        for name in ("setUp", "tearDown", getattr(test, "_testMethodName", "runTest")):
            self._compile_method(test, name)
        self._hooked = self.callback is not None or type(test).__name__ == "DocTestCase"
        if self._hooked:
            _capture.hook_enter(self.callees)

    def stop(self) -> None:
        """The test has run."""
        if self._hooked:
            _capture.hook_leave()

    def facts(self) -> dict[str, Any]:
        """What was done since `start`."""
        found: dict[str, Any] = {"regions": self.regions}
        if self.breaks:
            found["breaks"] = dict(self.breaks)
        if self.skips:
            found["skips"] = dict(self.skips)
        if self.errors:
            found["internal"] = self.errors[0][-3000:]
        return found

    def _compile_method(self, test: Any, name: str) -> None:
        method = getattr(test, name, None)
        if not isinstance(method, MethodType) or not isinstance(method.__func__, FunctionType):
            return
        function = method.__func__
        if self.is_of_the_test(function):
            setattr(test, name, MethodType(self.compile(function), test))
            return
        cell = self._wrapped_in(function)
        if cell is not None:  # a decorator of test.support around the method
            cell.cell_contents = self.compile(cell.cell_contents)

    def _wrapped_in(self, function: FunctionType) -> Any:
        """The cell of a decorator's wrapper that holds the function of the test file."""
        for cell in function.__closure__ or ():
            contents = cell.cell_contents
            if not isinstance(contents, FunctionType) or contents is function:
                continue
            if self.is_of_the_test(contents):
                return cell
            found = self._wrapped_in(contents)
            if found is not None:
                return found
        return None
