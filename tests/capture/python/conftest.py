"""`assert_captured`: a tiny function gives the same as plain Python, with so many graphs.

See `harness` for what is run and compared.
"""

import numpy as np
import pytest

from dynajit import eager
from dynajit.core.process import config
from tests.support.python.comparison import same
from tests.support.python.harness import Compiler, check


@pytest.fixture
def strict():
    """Internal errors are raised."""
    with config.override(strict=True):
        yield


@pytest.fixture
def compiler(strict):
    """A fresh Compiler."""
    return Compiler()


@pytest.fixture
def assert_captured(strict, capsys):
    """`assert_captured(function, *arguments, graphs=1, breaks=0)`: see `harness.check`."""

    def run(function, *arguments, graphs=1, breaks=0):
        return check(function, arguments, capsys, graphs, breaks)

    return run


@pytest.fixture
def check_same():
    """`check_same(expected, actual)`: see `comparison.same`."""
    return same


@pytest.fixture
def x():
    """A float32 tensor, shape (2, 3), all sizes of values and signs."""
    return eager.tensor(np.array([[1.5, -2.0, 0.25], [3.0, 0.5, -1.0]], np.float32))


@pytest.fixture
def y():
    """A float32 tensor, shape (2, 3)."""
    return eager.tensor(np.array([[0.5, 1.0, -1.0], [2.0, -0.5, 4.0]], np.float32))
