"""The test switch that breaks at statement boundaries: it ends, and changes nothing."""

import inspect

import numpy as np
import pytest

from dynajit import eager
from dynajit.capture.entry import cache, session
from dynajit.capture.execution.forced import ForcedBreaks
from dynajit.capture.region.region import Region
from dynajit.core.process import config
from dynajit.ir.interpret import replay


class Compiler:
    """Compiles with forced breaks; keeps the regions."""

    def __init__(self, forced):
        self.regions = []
        self.graphs = 0
        self.options = session.Options(self.backend, resume=self.compile, forced=forced)

    def backend(self, captured):
        self.graphs += bool(captured.graph.calls)
        return lambda *operands: replay(captured.graph, operands, eager.from_numpy)

    def publish(self, function, arguments):
        made = session.compile_entry(function, arguments, self.options)
        self.regions.append(made.region)
        if not isinstance(made.region, Region):
            return cache.Published(permanent=made.region.permanent, reason=made.region.reason)
        return cache.Published(guards=made.region.guards, function=made.function)

    def compile(self, function):
        return cache.compiled_function(function, self.publish)

    def lines(self):
        return [r.location.line for region in self.regions if isinstance(region, Region)
                for r in region.breaks]  # fmt: skip


def three_lines(x):
    y = x + 1
    z = y * 2
    return z - x


def loop(x):
    total = 0
    for i in range(4):
        x = x + i
        if i == 2:
            continue
        total += i
    return x, total


def closure(x):
    count = 0

    def bump(v):
        nonlocal count
        count += 1
        w = v * count
        return w + 1

    a = bump(x)
    b = bump(a)
    return a, b, count


@pytest.fixture
def x():
    return eager.tensor(np.array([1.0, -2.0], np.float32))


def same(expected, actual):
    if isinstance(expected, eager.Tensor):
        return np.array_equal(expected.numpy(), actual.numpy())
    if isinstance(expected, tuple):
        return all(map(same, expected, actual))
    return expected == actual


@pytest.mark.parametrize("function", [three_lines, loop, closure])
def test_a_break_at_every_line_changes_nothing_and_ends(function, x):
    compiler = Compiler(ForcedBreaks())
    with config.override(strict=True):
        compiled = compiler.compile(function)
        for _ in range(2):
            assert same(function(x), compiled(x))


def test_each_statement_is_a_graph_of_its_own(x):
    compiler = Compiler(ForcedBreaks())
    compiler.compile(three_lines)(x)

    first = inspect.getsourcelines(three_lines)[1]
    assert [first + 2, first + 3] == compiler.lines()
    assert 3 == compiler.graphs


def test_one_chosen_line_breaks_once(x):
    line = inspect.getsourcelines(three_lines)[1] + 2
    compiler = Compiler(ForcedBreaks(frozenset({line}), __file__))
    compiler.compile(three_lines)(x)

    assert [line] == compiler.lines()
    assert 2 == compiler.graphs


def test_another_file_does_not_break(x):
    compiler = Compiler(ForcedBreaks(filename="elsewhere.py"))
    compiler.compile(three_lines)(x)

    assert [] == compiler.lines()
