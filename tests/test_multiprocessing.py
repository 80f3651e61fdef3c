"""`multiprocessing` by PyTorch's path: the standard library's, and `spawn`."""

import multiprocessing
import sys

import pytest

import dynajit.multiprocessing as mp


def _fail(number: int, offset: int) -> None:
    if number:
        raise ValueError(f"number {number + offset}")


def test_the_standard_library_is_here() -> None:
    """All its public names."""
    assert mp.get_context is multiprocessing.get_context
    assert set(multiprocessing.__all__) <= set(mp.__all__)
    mp.set_sharing_strategy("file_descriptor")
    with pytest.raises(AssertionError, match="strategy"):
        mp.set_sharing_strategy("telepathy")


def test_errors_of_spawned_processes_are_raised() -> None:
    """With the traceback; each process gets its number and the arguments."""
    with pytest.raises(mp.ProcessRaisedException, match="ValueError: number 11") as caught:
        mp.spawn(_fail, (10,), nprocs=2)
    assert 1 == caught.value.error_index


def test_exit_codes_are_raised() -> None:
    """And good ends are told from running processes."""
    context = multiprocessing.get_context("spawn")
    for code in (0, 3):
        process = context.Process(target=sys.exit, args=(code,))
        process.start()
        started = mp.ProcessContext([process], [context.SimpleQueue()])
        assert [process.pid] == started.pids()
        if not code:
            assert started.join()
            continue
        with pytest.raises(mp.ProcessExitedException, match="exit code 3"):
            started.join()
