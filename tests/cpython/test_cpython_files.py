"""CPython's own tests under capture: what fails is exactly what is listed as expected to fail.

`pytest tests/cpython` runs a fast subset; `--cpython all` every file in every mode.
"""

import sys
from typing import Any

import pytest

from tests.cpython.corpus import FAST, FILES, available
from tests.cpython.corpus_expected import expected_failures
from tests.cpython.corpus_runner import VERSION, run_file


def pytest_generate_tests(metafunc: Any) -> None:
    """One test per file and mode."""
    everything = metafunc.config.getoption("--cpython") == "all"
    names = available(FILES if everything else FAST)
    modes = ("tests", "callees") if everything else ("tests",)
    metafunc.parametrize(("name", "mode"), [(n, m) for n in names for m in modes])


@pytest.mark.skipif(sys.platform != "linux", reason="the table is made on Linux")
def test_only_what_is_listed_fails(name: str, mode: str) -> None:
    verdicts = run_file(name, [mode], [])[mode]
    details = {v.test: v.detail for v in verdicts if v.kind == "failed"}
    expected = expected_failures(VERSION, mode, name)

    assert verdicts
    new = {test: detail for test, detail in details.items() if test not in expected}
    assert not new, "\n\n".join(f"{test}\n{detail}" for test, detail in new.items())
    assert not expected - set(details), "these pass now: take them from the list"
