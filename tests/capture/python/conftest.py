"""`assert_captured`: a tiny function gives the same as plain Python, with so many graphs.

Graphs are interpreted row by row, so no code generation takes part in these tests.
"""

import copy
from types import FunctionType

import numpy as np
import pytest

from dynajit import eager
from dynajit.capture import cache, session
from dynajit.capture.region import Region
from dynajit.core import config
from dynajit.ir.interpret import replay


class Compiler:
    """Compiles functions with an interpreting backend; counts graphs and breaks."""

    def __init__(self):
        self.graphs = []
        self.regions = []
        self.options = session.Options(self.backend, resume=self.compile)

    def backend(self, captured):
        if captured.graph.calls:
            self.graphs.append(captured.graph)
        return lambda *operands: replay(captured.graph, operands, eager.from_numpy)

    def publish(self, function, arguments):
        made = session.compile_entry(function, arguments, self.options)
        region = made.region
        self.regions.append(region)
        if not isinstance(region, Region):
            return cache.Published(permanent=region.permanent, reason=region.reason)
        return cache.Published(
            guards=region.guards, function=made.function, is_scoped=bool(region.breaks)
        )

    def compile(self, function: FunctionType):
        return cache.compiled_function(function, self.publish)

    @property
    def breaks(self):
        return [
            record
            for region in self.regions
            if isinstance(region, Region)
            for record in region.breaks
        ]

    @property
    def skips(self):
        return [region.reason for region in self.regions if not isinstance(region, Region)]


def same(expected, actual):
    """Equal in value, type and structure; floats and tensors exactly."""
    if isinstance(expected, eager.Tensor):
        assert type(expected) is type(actual)
        assert expected.dtype is actual.dtype
        assert expected.requires_grad == actual.requires_grad
        np.testing.assert_array_equal(expected.detach().numpy(), actual.detach().numpy())
        assert tuple(expected.shape) == tuple(actual.shape)
        return
    assert type(expected) is type(actual), (expected, actual)
    if isinstance(expected, (list, tuple)):
        assert len(expected) == len(actual), (expected, actual)
        for left, right in zip(expected, actual, strict=True):
            same(left, right)
    elif isinstance(expected, dict):
        assert list(expected) == list(actual)
        for key in expected:
            same(expected[key], actual[key])
    elif hasattr(expected, "__dict__") and not isinstance(expected, (type, FunctionType)):
        same(vars(expected), vars(actual))
    elif expected != expected:
        assert actual != actual
    else:
        assert expected == actual


def outcome(function, arguments):
    """("value", result) or ("error", class, text)."""
    try:
        return "value", function(*arguments)
    except Exception as error:
        return "error", type(error), str(error)


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
def assert_captured(compiler):
    """Check a function twice against plain Python, arguments' changes included."""

    def check(function, *arguments, graphs=1, breaks=0):
        plain = copy.deepcopy(arguments)
        expected = outcome(function, plain)
        compiled = compiler.compile(function)
        for _ in range(2):
            passed = copy.deepcopy(arguments)
            actual = outcome(compiled, passed)
            assert expected[:2] == actual[:2] if expected[0] == "error" else actual[0] == "value", (
                actual
            )
            if expected[0] == "value":
                same(expected[1], actual[1])
            same(list(plain), list(passed))
        found = [str(record) for record in compiler.breaks]
        assert breaks == len(found), (found, compiler.skips)
        assert graphs == len(compiler.graphs), (compiler.skips, found)
        return compiler

    return check


@pytest.fixture
def check_same():
    """`check_same(expected, actual)`: see `same`."""
    return same


@pytest.fixture
def x():
    """A float32 tensor, shape (2, 3), all sizes of values and signs."""
    return eager.tensor(np.array([[1.5, -2.0, 0.25], [3.0, 0.5, -1.0]], np.float32))


@pytest.fixture
def y():
    """A float32 tensor, shape (2, 3)."""
    return eager.tensor(np.array([[0.5, 1.0, -1.0], [2.0, -0.5, 4.0]], np.float32))
