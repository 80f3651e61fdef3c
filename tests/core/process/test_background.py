"""Work beside the caller: results, errors, configuration, and processes that end meanwhile."""

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from dynajit.core.process import background, config


def test_the_result_comes_from_another_thread() -> None:
    assert background.start(threading.get_ident).result() != threading.get_ident()
    assert background.start(divmod, 7, 2).result() == (3, 1)


def test_an_error_is_raised_where_the_result_is_asked_for() -> None:
    work = background.start(int, "seven")

    with pytest.raises(ValueError, match="seven"):
        work.result()


def test_the_caller_configuration_holds() -> None:
    with config.override(num_threads=7):
        work = background.start(lambda: config.current().num_threads)

    assert work.result() == 7


def test_a_yielded_result_is_there_before_the_work_has_ended() -> None:
    goes_on, has_ended = threading.Event(), threading.Event()

    def work(number: int) -> Iterator[int]:
        yield number * 6
        goes_on.wait(60)
        has_ended.set()

    assert background.start_yielding(work, 7).result(60) == 42
    assert not has_ended.is_set()
    goes_on.set()
    assert has_ended.wait(60)


def test_an_error_before_the_yield_is_raised_where_the_result_is_asked_for() -> None:
    def work() -> Iterator[int]:
        raise KeyError("early")
        yield 0

    with pytest.raises(KeyError, match="early"):
        background.start_yielding(work).result(60)


ENDING = """
import threading, time
from dynajit.core.process import background

def first():
    threading.main_thread().join()
    time.sleep(0.05)
    print(background.start(lambda: "second").result())

background.start(first)
"""


def test_a_process_that_ends_finishes_work_that_starts_more() -> None:
    command = [sys.executable, "-c", ENDING]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("second\n", "")
