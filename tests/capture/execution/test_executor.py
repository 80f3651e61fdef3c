"""The executor: handler table, locations, nothing of the user's runs, state is left alone."""

# ruff: noqa: B008
# The programs under test are spelled as users spell them.

import types

import numpy as np
import pytest

from dynajit import eager
from dynajit.capture import control
from dynajit.capture.bytecode.instruction_set import OPERATIONS
from dynajit.capture.entry import session
from dynajit.capture.opcodes import HANDLERS, UNSUPPORTED
from dynajit.capture.region.region import Region, Skip
from dynajit.core.errors import GraphBreakError
from dynajit.core.process import config
from dynajit.ops import functions as F


@pytest.fixture
def x():
    """A small tensor."""
    return eager.tensor(np.ones((2, 2), np.float32))


def test_every_operation_has_a_handler_or_a_reason():
    assert set(OPERATIONS) == set(HANDLERS) | set(UNSUPPORTED)
    assert not set(HANDLERS) & set(UNSUPPORTED)


def test_a_generator_function_is_skipped(x):
    def function(x):
        yield x + 1

    assert isinstance(session.capture(function, (x,)), Skip)


def test_capture_leaves_grad_mode_and_random_state(x):
    def function(x):
        with eager.no_grad():
            return x * F.rand(2)

    before = eager.is_grad_enabled(), eager.default_generator.get_state()
    session.capture(function, (x,))
    after = eager.is_grad_enabled(), eager.default_generator.get_state()
    assert before[0] == after[0]
    assert str(before[1]) == str(after[1])


def test_capture_runs_no_user_code(x):
    ran = []

    class Thing:
        @property
        def scale(self):
            ran.append("property")
            return 2

        def __getattr__(self, name):
            ran.append(name)
            return 3

        def __len__(self):
            ran.append("len")
            return 4

        def __bool__(self):
            ran.append("bool")
            return True

    def function(x, thing):
        return x * thing.scale + thing.other + len(thing) + (1 if thing else 0)

    region = session.capture(function, (x, Thing()))
    assert isinstance(region, Region)
    assert [] == ran


def test_deep_inlining_needs_no_python_recursion(x):
    def make(n):
        return (lambda v: v + 1) if n == 0 else (lambda v, inner=make(n - 1): inner(v))

    deep = make(120)
    region = session.capture(lambda x: deep(x), (x,))
    assert () == region.breaks
    assert 1 == len(region.graph.calls)


def test_nodes_of_library_modules_point_at_the_users_line(x):
    def function(x):
        return F.softmax(x, dim=-1)

    region = session.capture(function, (x,))
    assert "return F.softmax(x, dim=-1)" == region.graph.calls[-1].location.text


def test_guards_say_where_they_come_from(x):
    def function(x, n):
        return x if n > 3 else x * 2

    region = session.capture(function, (x, 1))
    predicate = next(guard for guard in region.guards if "n" == guard.source.expression())
    assert "return x if n > 3 else x * 2" == predicate.location.text


def test_an_internal_error_falls_back_with_one_warning(x, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("a defect")

    monkeypatch.setattr(session, "finish", broken)
    options = session.Options(lambda captured: None)
    with pytest.warns(RuntimeWarning, match="a defect"):
        made = session.compile_entry(lambda x: x + 1, (x,), options)
    assert made.function is None
    assert isinstance(made.error, RuntimeError)
    with config.override(strict=True), pytest.raises(RuntimeError, match="a defect"):
        session.compile_entry(lambda x: x + 1, (x,), options)


def test_bind_gives_arguments_in_the_order_of_the_frame():
    def function(a, /, b, *rest, c=3, **named):
        return a, b, rest, c, named

    bound = session.bind(function, (1, 2, 5), {"z": 9})
    assert (1, 2, 3, (5,), {"z": 9}) == bound
    with pytest.raises(TypeError):
        session.bind(function, (), {})


def test_the_new_function_looks_like_the_old_one(x):
    def function(x, *, k=2):
        """Text."""
        return x * k

    function.note = 1
    made = session.compile_entry(
        function, (x, 2), session.Options(lambda captured: lambda *inputs: inputs)
    ).function
    assert isinstance(made, types.FunctionType)
    assert (function.__name__, function.__qualname__) == (made.__name__, made.__qualname__)
    assert function.__kwdefaults__ == made.__kwdefaults__
    assert 1 == made.note


def test_fullgraph_names_a_result_that_cannot_be_built(x):
    def function(x):
        items = [x + 1]
        items.append(items)
        return items

    with pytest.raises(GraphBreakError):
        session.capture(function, (x,), fullgraph=True)
    assert isinstance(session.capture(function, (x,)), Skip)


def test_a_frame_without_tensors_can_be_left_alone(x):
    def function(text):
        control.graph_break()
        return text

    skipped = session.capture(function, ("a",), needs_tensors=True)
    assert isinstance(skipped, Skip)
    assert isinstance(session.capture(function, ("a",)), Region)
