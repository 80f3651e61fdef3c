"""Graphs as Python functions: the same results as the interpreter, and lines to step through."""

import bdb
import gc
import inspect
import linecache
import sys
import traceback

import numpy as np
import pytest

from dynajit import eager
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir.generated import generated_function
from dynajit.ir.graph import Builder
from dynajit.ir.interpret import replay
from dynajit.ops import TABLE


def make():
    """exp(x) * [1, 2, 3] + 20 known numbers summed."""
    build = Builder("f.<locals>.g")
    x = build.placeholder("x", TensorType((3,), dtypes.float32))
    small = build.constant(np.array([1, 2, 3], np.float32))
    large = build.constant(np.arange(20, dtype=np.float32))
    y = build.call(TABLE.exp, [x], TABLE.exp.bind({}))
    y = build.call(TABLE.mul, [y, small], TABLE.mul.bind({}))
    total = build.call(TABLE.sum, [large], TABLE.sum.bind({"dim": (0,), "keepdim": False}))
    return build.finish([build.call(TABLE.add, [y, total], TABLE.add.bind({})).node])


def test_it_computes_what_the_interpreter_computes():
    graph, x = make(), eager.tensor([0.0, 1.0, -1.0])
    (expected,) = replay(graph, [x], eager.from_numpy)
    (actual,) = generated_function(graph, eager.from_numpy)(x)
    assert expected.tolist() == actual.tolist()


def test_its_source_is_the_printed_graph():
    function = generated_function(make(), eager.from_numpy)
    assert "ops.exp(x)" in inspect.getsource(function)
    linecache.checkcache()
    assert "ops.exp(x)" in inspect.getsource(function)


def test_errors_show_the_line_of_the_operation():
    function = generated_function(make(), eager.from_numpy)
    with pytest.raises(Exception) as error:  # which error is the row's matter
        function("no tensor")
    assert any("ops.exp(x)" in (frame.line or "") for frame in traceback.extract_tb(error.tb))


def test_a_debugger_steps_through_its_lines():
    function = generated_function(make(), eager.from_numpy)
    seen = []

    class Stepper(bdb.Bdb):
        def user_line(self, frame):
            if frame.f_code is function.__code__:
                seen.append(linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip())
            self.set_step()

    debugger, before = Stepper(), sys.gettrace()
    try:
        debugger.runcall(function, eager.tensor([0.0, 1.0, -1.0]))
    finally:
        sys.settrace(before)
    assert any("ops.exp(x)" in line for line in seen)
    assert seen[-1].startswith("return (")


def test_the_lines_go_when_the_function_goes():
    function = generated_function(make(), eager.from_numpy)
    file = function.__code__.co_filename
    assert file in linecache.cache
    del function
    gc.collect()
    assert file not in linecache.cache
