"""Tests of CPython that are known to fail under capture: one list per version, which only shrinks.

A line of `expected_failures_3_11.txt` is a mode, a test id and a cause:

    tests test.test_descr.ClassPropertiesAndMethods.test_slots_trash  # objects live longer

A test of the list that passes, and a failure that is not in the list, are errors
(`test_cpython_files.py`); so the list cannot hide anything.
"""

from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent


def list_of(version: str) -> Path:
    """The file of a version such as "3.11"."""
    return HERE / f"expected_failures_{version.replace('.', '_')}.txt"


def expected_failures(version: str, mode: str, name: str) -> set[str]:
    """Ids of the tests of file `name` that are expected to fail in a mode."""
    path = list_of(version)
    lines = path.read_text().splitlines() if path.exists() else []
    found = [line.partition("#")[0].split() for line in lines]
    prefix = f"test.{name}."
    return {words[1] for words in found if words and words[0] == mode and is_of(words[1], prefix)}


def is_of(test: str, prefix: str) -> bool:
    """True for a test of the file, or the file as a whole."""
    return test.startswith(prefix) or f"{test}." == prefix


def update_list(version: str, failed: dict[str, dict[str, set[str]]]) -> None:
    """Write the list anew for the files and modes that ran, keeping causes that were written.

    Args:
        version: such as "3.11".
        failed: file -> mode -> ids of the tests that failed.
    """
    path = list_of(version)
    lines = path.read_text().splitlines() if path.exists() else []
    causes = {line.partition("#")[0].strip(): line.partition("#")[2].strip() for line in lines}
    kept = [key for key in causes if key and not _was_run(key, failed)]
    new = [
        f"{mode} {test}" for modes in failed.values() for mode, ids in modes.items() for test in ids
    ]
    path.write_text(
        "".join(
            f"{key}  # {causes[key]}\n" if causes.get(key) else f"{key}\n"
            for key in sorted({*kept, *new})
        )
    )


def _was_run(key: str, failed: dict[str, dict[str, set[str]]]) -> bool:
    mode, test = key.split()
    return any(mode in modes and is_of(test, f"test.{name}.") for name, modes in failed.items())
