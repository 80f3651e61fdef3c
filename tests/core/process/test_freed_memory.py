"""Memory that results gave back serves the next ones, instead of new pages of the system."""

import os
import platform
import subprocess
import sys

import pytest

from dynajit.core.process.freed_memory import USERS_OWN, keep

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")

PROGRAM = """
import resource
import dynajit as dj

def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

x = dj.rand(250_000)
for count in (5, 100):
    before = pages()
    for _ in range(count):
        y = dj.relu(x * 2.0 + 1.0) - x
print((pages() - before) / count)
"""


def new_pages(**variables: str) -> float:
    """Of the system, per turn of the program, whose results have a megabyte each."""
    environment = {name: value for name, value in os.environ.items() if name not in USERS_OWN}
    command = [sys.executable, "-c", PROGRAM]
    found = subprocess.run(
        command, env={**environment, **variables}, capture_output=True, text=True, check=True
    )
    return float(found.stdout)


def test_results_take_no_new_pages() -> None:
    assert new_pages() < 10


def test_what_the_user_told_glibc_holds() -> None:
    megabyte = 256
    assert new_pages(MALLOC_TRIM_THRESHOLD_="0", MALLOC_MMAP_THRESHOLD_="131072") > megabyte


@pytest.mark.parametrize("name", USERS_OWN)
def test_nothing_is_set_where_a_variable_of_glibc_is(name: str) -> None:
    assert not keep({name: "1"})
    assert keep({name: ""})
