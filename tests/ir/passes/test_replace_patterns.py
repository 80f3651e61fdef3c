"""Patterns are found where a graph computes the very same, and nowhere else."""

import numpy as np
import pytest

from dynajit.core.errors import ArgumentError, BackendError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir.interpret import run
from dynajit.ir.passes.replace_patterns import pattern, replace_patterns, type_of_example
from dynajit.ir.verify import verify
from dynajit.ops import TABLE as ops

MATRIX = TensorType((2, 3), dtypes.float32)
NUMBER = ScalarType(Category.FLOATING)


def scaled_softmax(x, n):
    return ops.softmax(ops.mul(x, n), dim=len(x.shape) - 1)


def replacement(x, n):
    return ops.softmax(ops.div(x, 1 / n if isinstance(n, float) else ops.div(1.0, n)), dim=-1)


def names(graph):
    return [node.op.name for node in graph.calls]


def replaced(graph, search, other, types=(MATRIX,)):
    made = replace_patterns(graph, [pattern("tried", search, other, types)])
    verify(made)
    return made


def sine_of_double(x):
    return ops.sin(ops.mul(x, 2.0))


def double_sine(x):
    return ops.mul(ops.mul(ops.sin(x), ops.cos(x)), 2.0)


def test_a_part_is_replaced_and_computes_the_same(record) -> None:
    graph = record(lambda x: ops.exp(ops.sin(ops.mul(x, 2.0))), x=(4,))
    made = replaced(graph, sine_of_double, double_sine)
    x = np.linspace(-1, 1, 4).astype(np.float32)

    assert ["sin", "cos", "mul", "mul", "exp"] == names(made)
    np.testing.assert_allclose(np.exp(np.sin(2 * x)), run(made, [x])[0], rtol=1e-6)
    assert ["mul", "sin", "exp"] == names(graph)


def test_attributes_that_follow_from_operands_are_compared_as_they_are_there(record) -> None:
    """The last dim, of matrices and of tensors with three dims, though not another dim."""
    softmax = (lambda x: ops.softmax(ops.exp(x), dim=len(x.shape) - 1), ops.sigmoid)
    for shape, dim, expected in (
        ((2, 3), 1, ["sigmoid"]),
        ((4, 2, 3), 2, ["sigmoid"]),
        ((4, 2, 3), 1, ["exp", "softmax"]),
    ):
        graph = record(lambda x, dim=dim: ops.softmax(ops.exp(x), dim=dim), x=shape)
        assert expected == names(replaced(graph, *softmax))


def test_an_inner_value_that_is_needed_elsewhere_keeps_the_part(record) -> None:
    read = record(lambda x: ops.add(ops.sin(ops.mul(x, 2.0)), ops.mul(x, 2.0)), x=(4,))
    both = record(lambda x: (ops.sin(y := ops.mul(x, 2.0)), y), x=(4,))
    shared = record(lambda x: ops.add(ops.sin(y := ops.mul(x, 2.0)), y), x=(4,))

    assert "cos" in names(replaced(read, sine_of_double, double_sine))
    for graph in (both, shared):
        assert graph is replaced(graph, sine_of_double, double_sine)


def test_numbers_are_equal_or_operands(record) -> None:
    graph = record(lambda x: ops.softmax(ops.mul(x, 3.0), dim=1), x=(2, 3))
    run_time = record(lambda x, n: ops.softmax(ops.mul(x, n), dim=1), x=(2, 3), n=float)
    other = record(lambda x: ops.sin(ops.mul(x, 3.0)), x=(2,))

    made = replaced(graph, scaled_softmax, replacement, (MATRIX, NUMBER))
    assert ["div", "softmax"] == names(made)
    assert 1 / 3.0 == made.calls[0].args[1]
    assert ["div", "div", "softmax"] == names(
        replaced(run_time, scaled_softmax, replacement, (MATRIX, NUMBER))
    )
    assert other is replaced(other, sine_of_double, double_sine)


def test_one_operand_at_two_places_is_one_operand(record) -> None:
    square = (lambda x: ops.exp(ops.mul(x, x)), lambda x: ops.sin(x))
    same = record(lambda x, y: ops.exp(ops.mul(x, x)), x=(3,), y=(3,))
    different = record(lambda x, y: ops.exp(ops.mul(x, y)), x=(3,), y=(3,))

    assert ["sin"] == names(replaced(same, *square))
    assert different is replaced(different, *square)


def test_constants_are_compared_by_their_bits(record) -> None:
    def search(x):
        return ops.mul(x, x.builder.constant(np.array([1.0, -0.0], "float32")))

    types = (TensorType((2,), dtypes.float32),)
    same = record(search, x=(2,))
    other = record(
        lambda x: ops.mul(x, x.builder.constant(np.array([1.0, 0.0], "float32"))), x=(2,)
    )

    assert ["sin"] == names(replaced(same, search, ops.sin, types))
    assert other is replaced(other, search, ops.sin, types)


def test_what_would_share_memory_with_an_operand_is_copied(record) -> None:
    graph = record(lambda x: ops.mul(x, 1.0), x=(2, 3))
    itself = replaced(graph, lambda x: ops.mul(x, 1.0), lambda x: x)
    turned = replaced(
        record(lambda x: ops.mul(ops.permute(x, dims=(1, 0)), 1.0), x=(2, 3)),
        lambda x: ops.mul(ops.permute(x, dims=(1, 0)), 1.0),
        lambda x: ops.permute(x, dims=(1, 0)),
    )

    assert ["clone"] == names(itself)
    assert ["permute", "clone"] == names(turned)


def test_every_part_is_replaced_once_and_later_patterns_see_it(record) -> None:
    """A replacement may contain what is looked for."""
    graph = record(lambda x: ops.sin(ops.sin(x)), x=(3,))
    first = pattern("first", ops.sin, lambda x: ops.exp(ops.sin(x)), (MATRIX,))
    second = pattern("second", lambda x: ops.exp(ops.sin(x)), ops.tanh, (MATRIX,))

    assert ["sin", "exp", "sin", "exp"] == names(replace_patterns(graph, [first]))
    assert ["tanh", "tanh"] == names(replace_patterns(graph, [first, second]))


def test_dtypes_are_those_of_the_part(record) -> None:
    graph = record(lambda x: ops.sin(ops.mul(x, 2.0)), x=((3,), dtypes.float64))
    made = replaced(graph, sine_of_double, double_sine)

    assert {dtypes.float64} == {node.type.dtype for node in made.nodes}


def test_a_replacement_of_another_type_is_refused_at_once_or_where_it_is_met(record) -> None:
    with pytest.raises(ArgumentError, match=r"replaced is a float32\[2, 3\].* a float32\[2\]"):
        pattern("sums", ops.exp, lambda x: ops.sum(x, dim=(1,), keepdim=False), (MATRIX,))

    only_there = pattern(
        "only", ops.exp, lambda x: ops.sum(x, dim=()) if len(x.shape) == 2 else x.sum(), (MATRIX,)
    )
    with pytest.raises(BackendError, match=r"register_pattern\(only\): what is replaced"):
        replace_patterns(record(lambda x: ops.exp(x), x=(3,)), [only_there])


def test_a_replacement_that_raises_is_named(record) -> None:
    def fails(x):
        if len(x.shape) == 1:
            raise KeyError("no kernel")
        return ops.sin(x)

    with pytest.raises(BackendError, match="replacement raised KeyError: 'no kernel'"):
        replaced(record(lambda x: ops.exp(x), x=(3,)), ops.exp, fails)


WRONG = [
    (lambda x: x, "computes nothing"),
    (lambda x: (ops.sin(x), ops.cos(x)), "does not give one tensor"),
    (lambda x: 3.0, "does not give one tensor"),
    (lambda x: ops.permute(ops.sin(x), dims=(1, 0)), "gives a view"),
    (lambda x: ops.sin(x) if x else x, "cannot be recorded"),
    (lambda x: ops.full(1.0, shape=(2,), dtype=dtypes.float32), "does not use all"),
    (lambda x: ops.no_such_row(x), "cannot be recorded"),
]


@pytest.mark.parametrize(("search", "reason"), WRONG)
def test_what_is_no_pattern_is_refused(search, reason) -> None:
    with pytest.raises(ArgumentError, match=f"the function search {reason}"):
        pattern("wrong", search, ops.sin, (MATRIX,))


def test_examples_of_operands_are_tensors_and_numbers() -> None:
    assert NUMBER == type_of_example(2.5)
    with pytest.raises(ArgumentError, match="str is no example"):
        type_of_example("x")
