"""Whether MPI is there is found out without starting it; how it is told to end a job."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.ranks import run_program

pytestmark = pytest.mark.one_python

PROGRAM = """
import sys
import dynajit.distributed as dist
found = dist.is_mpi_available(), dist.is_gloo_available(), "mpi4py.MPI" in sys.modules
sys.stdout.write(f"{found}\\n")
sys.stdout.flush()
if found[0]:
    from mpi4py import MPI
    sys.stdout.write(f"{MPI.Is_initialized()}\\n")
"""


def test_mpi_is_found_without_a_start() -> None:
    """And starts as ever where somebody asks for it then."""
    ended = run_program(PROGRAM, 1)

    assert ["(True, True, False)", "True"] == ended.stdout.split("\n")[:2], ended


def test_a_library_that_is_not_there_is_told() -> None:
    ended = run_program(PROGRAM, 1, MPI4PY_LIBMPI="/nowhere/libmpi.so")

    assert "(False, False, False)" == ended.stdout.split("\n")[0], ended


ABORTED = """
import os, sys, types
from dynajit.distributed.channels import mpi
def abort(code):
    seen.write(f"{code} {mpi._unread_bytes(1)} {mpi._unread_bytes(2)}")
    seen.flush()
seen = open(sys.argv[1], "w")
mpi.engine = lambda: types.SimpleNamespace(COMM_WORLD=types.SimpleNamespace(Abort=abort))
sys.stdout.write("printed before")
mpi.MpiChannel.fail(None, "the reason")
"""


def test_a_job_is_aborted_once_what_it_printed_was_read(tmp_path: Path) -> None:
    """Its starter may drop what it has not read by then; here that is late."""
    seen = tmp_path / "seen"
    process = subprocess.Popen(
        [sys.executable, "-c", ABORTED, seen],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while not seen.exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(0.8)
    assert "" == seen.read_text()

    printed, reason = process.communicate(timeout=60)

    assert b"printed before" == printed
    assert b"the reason" in reason
    assert "1 0 0" == seen.read_text()
