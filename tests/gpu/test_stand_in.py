"""The stand-in for CuPy against an installed CuPy: names, parameters, types of ufuncs.

CuPy can be imported without a GPU. What only a GPU can tell (numbers, what is asynchronous) is not
compared; docs/howto/gpu.md lists where the stand-in alone was tried.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.one_python

HERE = Path(__file__).parent
STAND_IN = HERE.parent / "stand_in"


def described(names: list[str], *folders: Path) -> dict[str, Any]:
    """What the CuPy of another process says, with `folders` first on its path."""
    path = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(HERE / "describe_cupy.py")],
        input=json.dumps(names),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    return json.loads(done.stdout)


def is_installed() -> bool:
    """True if a CuPy that is not the stand-in can be imported."""
    places = [place for place in sys.path if Path(place or ".").resolve() != STAND_IN]
    finder = importlib.machinery.PathFinder()
    return finder.find_spec("cupy", places) is not None


@pytest.fixture(scope="module")
def both() -> tuple[dict[str, Any], dict[str, Any]]:
    """What the stand-in says of its names, and what an installed CuPy says of them."""
    if not is_installed():
        pytest.skip("needs an installed CuPy; no GPU")
    ours = described([], STAND_IN)
    return ours, described(list(ours))


def test_cupy_has_every_name_of_the_stand_in(both: Any) -> None:
    ours, theirs = both

    assert len(ours) > 200
    assert [] == [name for name in ours if theirs[name] is None]


def test_parameters_are_those_of_cupy(both: Any) -> None:
    ours, theirs = both
    compared = [
        name for name in ours if isinstance(ours[name], list) and isinstance(theirs[name], list)
    ]

    assert len(compared) > 120
    assert {} == {name: (ours[name], theirs[name]) for name in compared
                  if ours[name] != theirs[name]}  # fmt: skip


def test_ufuncs_compute_the_types_of_cupys(both: Any) -> None:
    ours, theirs = both
    ufuncs = [name for name in ours if isinstance(ours[name], dict)]

    assert len(ufuncs) > 60
    assert {} == {name: (ours[name], theirs[name]) for name in ufuncs
                  if ours[name] != theirs[name]}  # fmt: skip
