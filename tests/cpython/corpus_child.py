"""One of CPython's test files in this process, as plain Python or under capture.

    python corpus_child.py test_scope --mode plain|tests|callees --report FILE [--only ID ...]

Writes one JSON line when a test begins and one when it ends, so that `corpus_runner.py` knows which
test a crash belongs to. Modes: `plain` changes nothing; `tests` compiles each test method,
its setUp and tearDown; `callees` also compiles every function of the test file (and of doctests)
that they call, through the scoped frame hook.
"""

import argparse
import faulthandler
import importlib
import json
import resource
import signal
import sys
import time
import unittest
from pathlib import Path
from types import FrameType
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.cpython.corpus_capturing import Capturing

#: Processor seconds for one test: a few times the compiler's budget.
TEST_TIMEOUT_S: Final = 20

#: Bytes of address space: a test that asks for more gets a MemoryError, as it expects.
MEMORY_BYTES: Final = 6 << 30


class TestTimeout(BaseException):
    """A test used more than TEST_TIMEOUT_S seconds."""


class Result(unittest.TestResult):
    """Collects how one test ended (mutable; one per test)."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[str] = []
        self.is_skipped = False

    def addError(self, test: Any, err: Any) -> None:
        self.problems.append(self._text(err, test))

    def addFailure(self, test: Any, err: Any) -> None:
        self.problems.append(self._text(err, test))

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.problems.append(f"{subtest._subDescription()}\n{self._text(err, test)}")

    def addSkip(self, test: Any, reason: str) -> None:
        self.is_skipped = True

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.problems.append("unexpected success")

    def _text(self, err: Any, test: Any) -> str:
        if err[0] is TestTimeout:
            return f"more than {TEST_TIMEOUT_S} s"
        return str(self._exc_info_to_string(err, test))  # type: ignore[attr-defined]


def tests_of(suite: Any) -> list[Any]:
    """The test cases of a suite, in order."""
    if isinstance(suite, unittest.TestSuite):
        return [test for part in suite for test in tests_of(part)]
    return [suite]


def on_timer(number: int, frame: FrameType | None) -> None:
    raise TestTimeout


def run_one(test: Any, capturing: Capturing | None) -> dict[str, Any]:
    """Run one test; what happened, as the parent reads it."""
    result = Result()
    started = time.perf_counter()
    signal.setitimer(signal.ITIMER_PROF, TEST_TIMEOUT_S)
    try:
        if capturing is None:
            test.run(result)
        else:
            capturing.start(test)
            try:
                test.run(result)
            finally:
                capturing.stop()
    except TestTimeout:
        result.problems.append(f"more than {TEST_TIMEOUT_S} s")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    found: dict[str, Any] = {
        "test": test.id(),
        "status": "failed" if result.problems else "skipped" if result.is_skipped else "passed",
        "problem": "\n".join(result.problems)[-3000:],
        "seconds": round(time.perf_counter() - started, 3),
    }
    if capturing is not None:
        found.update(capturing.facts())
    return found


class Fixtures:
    """`setUpClass` and `setUpModule`, once each, as unittest's own runner calls them (mutable)."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.current: Any = None
        self.problem: str | None = None
        getattr(module, "setUpModule", lambda: None)()

    def enter(self, test: Any) -> None:
        """Call what has to run before `test`."""
        cls = type(test)
        if cls is self.current:
            return
        self.leave()
        self.current = cls
        cls.setUpClass()

    def leave(self) -> None:
        """Call what has to run after the last test of a class."""
        if self.current is not None:
            self.current.tearDownClass()
            self.current.doClassCleanups()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--mode", choices=("plain", "tests", "callees"), default="tests")
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--leave-out", type=Path, help="a file of test ids, one per line")
    options = parser.parse_args()
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGPROF, on_timer)
    left_out = set(options.leave_out.read_text().split("\n")) if options.leave_out else set()
    module = importlib.import_module(f"test.{options.file}")
    capturing = None if options.mode == "plain" else Capturing(options.mode == "callees")
    tests = tests_of(unittest.defaultTestLoader.loadTestsFromModule(module))
    fixtures = Fixtures(module)
    with options.report.open("a") as report:
        for test in tests:
            if test.id() in left_out or not is_wanted(test.id(), options.only):
                continue
            print(json.dumps({"begins": test.id()}), file=report, flush=True)
            try:
                fixtures.enter(test)
            except unittest.SkipTest:
                found = {"test": test.id(), "status": "skipped", "seconds": 0}
            except Exception as error:
                found = {
                    "test": test.id(),
                    "status": "failed",
                    "problem": repr(error),
                    "seconds": 0,
                }
            else:
                found = run_one(test, capturing)
            print(json.dumps(found), file=report, flush=True)
        print(json.dumps({"ends": options.file}), file=report, flush=True)
    sys.stdout.flush()
    # Threads and finalizers of tests must not decide how this process ends.
    __import__("os")._exit(0)


def is_wanted(name: str, only: list[str]) -> bool:
    """True if `name` ends with one of `only`, or nothing is asked for."""
    return not only or any(name.endswith(part) for part in only)


if __name__ == "__main__":
    main()
