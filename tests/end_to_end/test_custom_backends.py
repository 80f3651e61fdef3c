"""Backends of the program: what they raise reaches the caller, and their code runs plainly."""

import pytest

import dynajit as dj
from dynajit.core.errors import BackendError


def double(x):
    return x * 2 + 1


def in_two_parts(x):
    y = x * 2
    dj.graph_break()
    return y + 1


def refusing(graph, types):
    raise ValueError("no such operation")


class RefusingObject:
    def __call__(self, graph, types):
        raise ValueError("no such operation")


@pytest.mark.parametrize("function", [double, in_two_parts])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_an_error_of_a_backend_is_raised_with_its_cause(function, strict, fullgraph):
    if fullgraph and function is in_two_parts:
        pytest.skip("a break is the error there")
    compiled = dj.compile(function, backend=refusing, fullgraph=fullgraph)

    with dj.config.override(strict=strict), pytest.raises(BackendError) as raised:
        compiled(dj.ones(2))

    assert "backend=refusing" in str(raised.value)
    assert "ValueError: no such operation" in str(raised.value)
    assert isinstance(raised.value, RuntimeError)
    assert isinstance(raised.value.__cause__, ValueError)


def test_a_backend_without_a_name_is_named_by_its_class():
    with pytest.raises(BackendError, match="backend=RefusingObject"):
        dj.compile(double, backend=RefusingObject())(dj.ones(2))


def test_a_backend_that_failed_is_asked_again_by_the_next_call():
    asked = []

    def second_time_lucky(graph, types):
        asked.append(graph)
        if len(asked) == 1:
            raise ValueError("not yet")
        return lambda x: (x * 2 + 1,)

    compiled = dj.compile(double, backend=second_time_lucky)
    with pytest.raises(BackendError):
        compiled(dj.ones(2))

    assert [3.0, 3.0] == compiled(dj.ones(2)).tolist()
    assert [3.0, 3.0] == compiled(dj.ones(2)).tolist()
    assert 2 == len(asked)


def test_a_backend_must_make_something_callable():
    with pytest.raises(BackendError, match=r"returned None\.  Expected a callable"):
        dj.compile(double, backend=lambda graph, types: None)(dj.ones(2))


@pytest.mark.parametrize(
    ("made", "kinds"),
    [
        (lambda x: (x, x), "(Tensor, Tensor)"),
        (lambda x: (), "()"),
        (lambda x: 3, "(int)"),
        (lambda x: [None], "(NoneType)"),
    ],
)
def test_a_launch_must_return_a_tensor_for_each_output(made, kinds):
    compiled = dj.compile(double, backend=lambda graph, types: made)

    with pytest.raises(BackendError) as raised:
        compiled(dj.ones(2))

    assert f"returned {kinds}.  Expected" in str(raised.value)


def test_an_error_of_a_launch_reaches_the_caller_as_it_is():
    def broken(x):
        raise KeyError("missing")

    with pytest.raises(KeyError, match="missing"):
        dj.compile(double, backend=lambda graph, types: broken)(dj.ones(2))


def test_a_backend_gets_the_programs_own_graphs_only():
    """What its code computes, below a break, is not captured in turn."""
    names = []

    def helper(x):
        return x * 1

    def running(module, examples):
        names.append([node.op.name for node in module.graph.calls])
        helper(dj.ones(2))
        return double_it if len(names) == 1 else add_one

    def double_it(x):
        return (helper(x) * 2,)

    def add_one(x):
        return (helper(x) + 1,)

    compiled = dj.compile(in_two_parts, backend=running)

    assert [3.0, 3.0] == compiled(dj.ones(2)).tolist()
    assert [3.0, 3.0] == compiled(dj.ones(2)).tolist()
    assert [["mul"], ["add"]] == names
    assert 2 == compiled.report().graphs


def test_graphs_that_run_op_by_op_are_not_captured_in_turn():
    compiled = dj.compile(in_two_parts, backend="eager")

    assert [3.0, 3.0] == compiled(dj.ones(2)).tolist()
    assert 2 == compiled.report().graphs
