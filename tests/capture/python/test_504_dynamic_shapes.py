"""Sizes as Python numbers: what stays symbolic, what is guarded, what is specialised, and where."""

import inspect
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.capture.entry import session
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.region.region import Region
from dynajit.capture.tensors.size_memory import SizeMemory
from dynajit.core.process import config


def captured(function: Any, *arguments: Any, memory: SizeMemory | None = None) -> Region:
    region = session.capture(
        function, arguments, fullgraph=True, memory=memory or SizeMemory(mode=True)
    )
    assert isinstance(region, Region)
    return region


def relations(region: Region) -> list[str]:
    return [guard.expression() for guard in region.guards if guard.kind is Kind.RELATION]


def shapes(region: Region) -> list[str]:
    return [str(output.type) for output in region.graph.outputs]


def test_arithmetic_on_sizes_makes_no_guard() -> None:
    def function(x):
        n, m = x.shape
        return x.view(n * m), dj.zeros(n // 2 + m, 2 * len(x)), x * -(n % 3) + x.numel()

    region = captured(function, dj.ones(8, 5))

    assert [] == relations(region)
    assert ["float32[((s0 // 2) + s1), (s0*2)]", "float32[s0, s1]"] == shapes(region)


def test_equal_sizes_share_a_symbol_under_a_guard() -> None:
    region = captured(lambda x, y: x + y, dj.ones(7), dj.ones(7))

    assert ["y.shape[0] == x.shape[0]"] == relations(region)
    assert ["float32[s0]"] == shapes(region)


def test_a_comparison_guards_its_outcome_at_its_line() -> None:
    def function(x, y):
        if x.shape[0] > 2 * y.shape[0]:
            return x + 1
        return x - 1

    region = captured(function, dj.ones(7), dj.ones(3))
    (guard,) = [guard for guard in region.guards if guard.kind is Kind.RELATION]

    assert "y.shape[0]*2 < x.shape[0]" == guard.expression()
    assert inspect.getsourcelines(function)[1] + 1 == guard.location.line


def test_divisibility_reads_as_a_remainder() -> None:
    region = captured(lambda x: x.reshape(-1, 4), dj.ones(12))

    assert "x.shape[0] % 4 == 0" in relations(region)


def test_what_ranges_prove_is_not_guarded() -> None:
    def function(x):
        n = x.shape[0]
        assert n > 1 and n != 0 and n // 2 < n and n + 1 > n
        return x[-1] * x[n - 1]

    assert [] == relations(captured(function, dj.ones(6)))


@pytest.mark.parametrize(
    "use",
    [
        lambda n, x: sum(range(n)) * x,
        lambda n, x: [x] * n,
        lambda n, x: x * {5: 1}[n],
        lambda n, x: x * [0, 1, 2, 3, 4, 5][n],
        lambda n, x: (x + 1, str(n)),
        lambda n, x: (x + 1, f"{n}"),
        lambda n, x: [row + 1 for row in x],
    ],
)
def test_a_use_that_needs_the_number_specialises_the_size(use: Any) -> None:
    def function(x):
        return use(x.shape[0], x)

    memory = SizeMemory(mode=True)
    region = captured(function, dj.ones(5, 3), memory=memory)

    assert {("x", 0)} == set(memory.fixed)
    assert any("float32[5, 2..]" in guard.expression() for guard in region.guards)


def test_an_expression_is_specialised_without_its_parts() -> None:
    region = captured(lambda x: [x] * (x.shape[0] // 4), dj.ones(9))

    assert ["x.shape[0] // 4 == 2"] == relations(region)


def test_a_size_that_an_operation_forces_is_a_literal() -> None:
    memory = SizeMemory(mode=True)
    weight = dj.ones(5, 2)
    region = captured(lambda x: x @ weight, dj.ones(9, 5), memory=memory)

    assert ["float32[s0, 2]"] == shapes(region)
    (place,) = memory.fixed
    assert ("x", 1) == place


def test_operands_that_must_agree_are_guarded() -> None:
    def function(x, y):
        return x[1:] + y

    region = captured(function, dj.ones(6), dj.ones(5))

    assert "y.shape[0] == x.shape[0] - 1" in relations(region)


def test_sizes_of_0_and_1_are_literals() -> None:
    region = captured(lambda x: x + 1, dj.ones(1, 0, 2))

    assert ["float32[1, 0, s0]"] == shapes(region)


def test_a_result_of_size_1_is_captured_for_that_size_alone() -> None:
    memory = SizeMemory(mode=True)
    region = captured(lambda x: x[1:] * 2, dj.ones(2, 3), memory=memory)

    assert ["float32[1, s0]"] == shapes(region)
    assert not memory.fixed


def test_a_size_used_as_an_operand_is_an_input_named_like_its_symbol() -> None:
    region = captured(lambda x: x.sum() / x.shape[0], dj.ones(6))

    assert ["x", "s0"] == [node.name for node in region.graph.inputs]


def test_a_size_that_only_makes_tensors_is_an_input() -> None:
    region = captured(lambda x: dj.zeros(x.shape[0] + 1), dj.ones(6))

    assert ["s0"] == [node.name for node in region.graph.inputs]
    assert ["float32[(s0 + 1)]"] == shapes(region)


def test_a_user_may_call_a_tensor_like_a_symbol() -> None:
    region = captured(lambda s0, s1: s0.view(-1) * s1, dj.ones(3, 4), dj.ones(1))

    assert len(region.graph.inputs) == len({node.name for node in region.graph.inputs})


def test_a_number_may_follow_an_array_without_dims() -> None:
    """Under one name: nothing is known then of what the number was before."""

    def cut(x, top):
        return np.clip(x, -1, top)

    compiled, x = dj.compile(cut), np.arange(4.0)
    with config.override(strict=True):
        for top in (np.array(0.5), 0.25, np.float64(0.75), 2, np.array(1.5), 0.5):
            np.testing.assert_array_equal(compiled(x, top), cut(x, top))
