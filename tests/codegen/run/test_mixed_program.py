"""Graphs with rows that only a library computes: the others have kernels all the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen import pipeline
from dynajit.codegen.run.mixed_program import MixedProgram
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder
from dynajit.ops.table.op_table import TABLE as ops

pytestmark = pytest.mark.c_only

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "between": lambda x: (dj.linalg.inv(x.tanh() + 3 * dj.eye(6)) @ x).relu(),
    "first": lambda x: dj.linalg.inv(x) * 2 + 1,
    "last": lambda x: dj.linalg.inv((x * 2).sin() + 3 * dj.eye(6)),
    "side by side": lambda x: dj.linalg.det(x + 1) + dj.fft.fft(x * 2).abs().sum(),
    "one behind the other": lambda x: dj.linalg.inv(dj.linalg.inv(x).exp() * 0.1 + dj.eye(6) * 9),
    "of a view": lambda x: dj.linalg.inv(x.mT[:4, 2:]) + x.mT[2:, 2:].exp(),
    "several results": lambda x: (x, dj.linalg.inv(x), x * 2, x.mT, dj.linalg.inv(x).mT),
}


def matrix(seed: int = 0, size: int = 6) -> Any:
    """Well conditioned, in float64."""
    rng = np.random.default_rng(seed)
    return dj.from_numpy(rng.normal(size=(size, size)) + 5 * np.eye(size))


def _parts(result: Any) -> list[np.ndarray]:
    return [part.detach().numpy() for part in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_eager(name: str, verify: bool) -> None:
    """In one graph, without a warning."""
    compiled = dj.compile(FUNCTIONS[name], fullgraph=True, options={"verify": verify})

    for seed in (0, 1):
        expected, found = FUNCTIONS[name](matrix(seed)), compiled(matrix(seed))
        for one, other in zip(_parts(expected), _parts(found), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "several results"])
def test_gradients_are_those_of_eager(name: str) -> None:
    """The backward graph has such rows, too."""
    found = []
    for run in (FUNCTIONS[name], dj.compile(FUNCTIONS[name], fullgraph=True)):
        x = matrix().requires_grad_(True)
        (run(x) ** 2).sum().backward()
        found.append(x.grad.numpy())

    np.testing.assert_allclose(found[1], found[0], rtol=1e-8, atol=1e-10)


def test_sizes_may_vary() -> None:
    """Parts whose inputs do not show a size get it as a number."""
    function = lambda x: dj.linalg.inv(x).sum(0).sum() * x.shape[0] + dj.arange(x.shape[0]).sum()
    compiled = dj.compile(function, dynamic=True)
    for size in (3, 4, 7):
        x = matrix(size, size)
        np.testing.assert_allclose(compiled(x).item(), function(x).item(), rtol=1e-10)

    assert 1 == compiled.report().graphs


def test_an_error_of_the_library_is_the_eager_one() -> None:
    """And nothing is written before it."""
    compiled = dj.compile(lambda x: dj.linalg.inv(x * 1) + 1)

    with pytest.raises(dj.errors.LinAlgError):
        compiled(dj.zeros(3, 3))


def test_views_of_arguments_share_their_memory() -> None:
    """What a graph gives back as it got it."""
    x = matrix()

    same, _, _, turned, _ = dj.compile(FUNCTIONS["several results"])(x)
    turned[0, 1] = 7.0

    assert same is x
    assert 7.0 == x[1, 0].item()


def test_parts_are_named_in_the_program(codegen: Any) -> None:
    """Kernels around the library's row, and why it has none."""
    graph = codegen.graph_of(
        lambda x: ops.relu(ops.inverse(ops.exp(x))), TensorType((6, 6), dtypes.float64)
    )
    program = pipeline.compile_graph(graph)

    assert isinstance(program, MixedProgram)
    assert [False, True, False] == [not part.kernels for part in program.programs]
    assert ("inverse has no native lowering.",) == program.reasons
    assert 2 == len(program.kernels)


def _refilled(size: int = 6) -> tuple[Any, list[np.ndarray]]:
    """(state, x) -> state * 0.5 + inverse(x) and its half, a graph, and arguments for it."""
    builder = Builder("refilled")
    type = TensorType((size, size), dtypes.float64)
    state, x = builder.placeholder("state", type), builder.placeholder("x", type)
    new = state * 0.5 + ops.inverse(x)
    return builder.finish([new, new * 0.5]), [np.ones((size, size)), matrix().numpy().copy()]


def test_the_last_part_writes_an_input_itself() -> None:
    """What the caller would copy there lies there already; what inputs alone give waits for it."""
    graph, (state, x) = _refilled()
    expected = state * 0.5 + np.linalg.inv(x)

    program = pipeline.start_compile(graph, written={0: 0})()
    found, half = program(state, x)

    assert isinstance(program, MixedProgram)
    assert [True, False] == [not part.kernels for part in program.programs]
    assert found is state
    np.testing.assert_allclose(state, expected)
    np.testing.assert_allclose(half, expected * 0.5)


def test_an_input_is_not_written_where_a_row_refuses_its_operand() -> None:
    """The row has run before; the state is what it was."""
    graph, (state, _) = _refilled()
    program = pipeline.start_compile(graph, written={0: 0})()

    with pytest.raises(dj.errors.LinAlgError):
        program(state, np.zeros((6, 6)))
    assert (state == 1).all()


def test_an_input_that_is_given_out_is_not_written() -> None:
    """Nor one whose new value has another reader, nor by a part that is not the last."""
    type = TensorType((6, 6), dtypes.float64)
    for outputs in (
        lambda state, new, x: [new, state],
        lambda state, new, x: [new, new],
        lambda state, new, x: [state * 2, ops.inverse(ops.inverse(x) + state * 2)],
    ):
        builder = Builder("given out")
        state, x = builder.placeholder("state", type), builder.placeholder("x", type)
        graph = builder.finish(outputs(state, state * 0.5 + ops.inverse(x), x))
        old, given = np.ones((6, 6)), matrix().numpy().copy()

        program = pipeline.start_compile(graph, written={0: 0})()
        found = program(old, given)

        assert isinstance(program, MixedProgram)
        assert found[0] is not old
        assert (old == 1).all()
