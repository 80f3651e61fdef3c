"""Whether MPI is there is found out without starting it."""

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
