"""Random graphs: native code is as accurate as the interpreter, with float64 as the referee.

Values without roundings, integers and bools are equal bit by bit, for any number of threads.
`DYNAJIT_FUZZ_SEEDS` scales the number of graphs (1 by default); `DYNAJIT_FUZZ_FIRST` is the first
seed.
"""

import os
from typing import Any

import numpy as np
import pytest

from dynajit.codegen.pipeline import compile_graph
from dynajit.core.process import config
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir import interpret
from dynajit.ir.autodiff import differentiate
from dynajit.ir.graph import Builder
from dynajit.ir.partition import partition
from dynajit.ir.pipeline import optimize
from dynajit.ops import TABLE as ops
from dynajit.ops.table import dispatch
from tests.support.kernels.fuzz_graphs import (
    Made,
    Maker,
    evaluate_wide,
    is_floating,
    same_bits,
    why_wrong,
    widened,
)
from tests.support.kernels.fuzz_symbolic import SymbolicMaker

pytestmark = pytest.mark.one_python

SCALE = float(os.environ.get("DYNAJIT_FUZZ_SEEDS", "1"))
FIRST = int(os.environ.get("DYNAJIT_FUZZ_FIRST", "0"))


def seeds(count: int) -> Any:
    """Parametrise over this many seeds, scaled."""
    return pytest.mark.parametrize("seed", range(FIRST, FIRST + round(count * SCALE)))


def run(graph: Any, inputs: Any, threads: int = 1) -> tuple[Any, ...]:
    """The outputs of the compiled graph."""
    with config.override(num_threads=threads):
        return compile_graph(optimize(graph))(*inputs)


def made_from(seed: int, **options: Any) -> Made:
    """A graph of 10 to 32 attempted steps; every fifth has 16-bit floats."""
    return Maker(seed, narrow=seed % 5 == 4, **options).make(10 + seed % 23)


@seeds(40)
@pytest.mark.usefixtures("codegen")
def test_random_graphs_are_as_accurate_as_the_interpreter(seed: int) -> None:
    made = made_from(seed)
    expected, wide = made.narrow(), made.wide()

    actual = run(made.graph, made.inputs)

    narrow = seed % 5 == 4
    for k, values in enumerate(zip(expected, wide, actual, strict=True)):
        reason = why_wrong(*values, exact=made.exact[k], narrow=narrow)
        assert reason is None, f"{names(made)[k]}: {reason}\n{made.graph}"
    for threads in (2, 3):
        again = run(made.graph, made.inputs, threads)
        assert all(map(same_bits, actual, again)), f"{threads} threads\n{made.graph}"


def names(made: Made) -> list[str]:
    """Of the outputs."""
    return [output.name for output in made.graph.outputs]


@seeds(20)
@pytest.mark.usefixtures("codegen")
def test_special_values_pass_through_random_graphs(seed: int) -> None:
    """NaN, infinities and exact numbers are the interpreter's, each in its place."""
    made = made_from(seed, special=True)

    actual = run(made.graph, made.inputs)

    for name, left, right in zip(names(made), made.narrow(), actual, strict=True):
        assert (left.shape, left.dtype) == (right.shape, right.dtype), name
        np.testing.assert_array_equal(widened(right), widened(left), f"{name}\n{made.graph}")


@seeds(20)
@pytest.mark.usefixtures("codegen")
def test_gradients_of_random_graphs_are_as_accurate_as_the_interpreters(seed: int) -> None:
    """Forward and backward halves against the interpreted joint graph."""
    made = made_from(seed, smooth=True)
    wanted = [isinstance(x, np.ndarray) and is_floating(x) for x in made.inputs]
    joint = differentiate(made.graph, wanted)
    if not joint.differentiable_outputs:
        return
    random = np.random.default_rng(seed)
    given = [
        np.asarray(random.uniform(-1, 1, type.shape)).astype(type.dtype.numpy)
        for type in (made.graph.outputs[k].type for k in joint.differentiable_outputs)
    ]
    inputs = [*made.inputs, *given]
    expected = interpret.run(joint.graph, inputs)
    wide = interpret.run(joint.graph, [*map(widened, inputs)], evaluate_wide)
    parts = partition(joint)

    forward = run(parts.forward, made.inputs)
    count = joint.output_count
    backward = run(parts.backward, [*forward[count:], *given])

    found = (*forward[:count], *backward)
    for k, (left, referee, right) in enumerate(zip(expected, wide, found, strict=True)):
        if left is None:
            assert right is None
        elif well_conditioned(left, referee):
            reason = why_wrong(left, referee, right, exact=False, narrow=seed % 5 == 4)
            assert reason is None, f"result {k}: {reason}\n{parts.forward}\n{parts.backward}"


def well_conditioned(expected: Any, wide: Any) -> bool:
    """True if float32 can say something about a gradient."""
    if not np.isfinite(wide).all() or not np.isfinite(widened(expected)).all():
        return False
    error = np.abs(widened(expected) - wide).max(initial=0.0)
    return bool(error <= 1e-3 * (1 + np.abs(wide).max(initial=0.0)))


# ---------------------------------------------------------------------------------------------
# found by the above


def test_sums_over_columns_of_what_depends_on_a_result_over_columns(codegen) -> None:
    """They need a second pass."""
    x = np.random.default_rng(0).standard_normal((2, 33, 33)).astype(np.float32)

    def function(x: Any) -> Any:
        largest = ops.amax(x, dim=(0,), keepdim=True)
        return ops.sum(ops.exp(ops.sub(x, largest)), dim=(0,), keepdim=True)

    codegen.check(function, x)


def test_products_of_one_element_constants(codegen) -> None:
    """A constant of one element is a literal in loops, but a matrix in a product."""
    builder = Builder("product")
    a = builder.placeholder("a", TensorType((2, 3, 1), dtypes.float32))
    b = builder.constant(np.full((1, 1), 3.0, np.float32))
    with dispatch.recording(builder.handle):
        graph = builder.finish([ops.matmul(a, b)])
    x = np.arange(6, dtype=np.float32).reshape(2, 3, 1)

    np.testing.assert_array_equal(3 * x, compile_graph(graph)(x)[0])


def test_reductions_of_another_shape_of_a_stored_value(codegen) -> None:
    """The value is computed by the same kernel: its memory is not written yet."""
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((1, 7, 4), (4, 3)))

    def function(x: Any, w: Any) -> Any:
        stored = ops.tanh(x)
        other = ops.select(stored, dim=0, index=0)
        return [other, ops.amin(other, dim=(1,)), ops.matmul(stored, w)]

    codegen.check(function, x, w)


def test_what_is_empty_reads_nothing(codegen) -> None:
    """Loops of no turns: neither loads nor checks of indices may be moved in front of them."""
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 7, 5)).astype(np.float32)
    where = np.zeros((2, 1, 5), np.int64)
    far = {"start": (2, 0, 0), "stop": (2, 1, 5), "step": (1, 1, 1)}

    def function(x: Any, where: Any) -> Any:
        taken = ops.gather(x, where, dim=1)
        nothing = ops.slice(taken, **far)
        return [nothing, ops.sum(nothing, dim=(0,)), ops.exp(nothing)]

    program = codegen.check(function, x, where)
    looking = [kernel.name for kernel in program.kernels if "dj_data_index(" in kernel.source]
    assert 1 == len(looking)  # the one that checks the indices of what is read in part
    assert "any" in looking[0]

    def scatter(x: Any, where: Any, source: Any) -> Any:
        return ops.index_add(x, where, source, dim=0)

    none = np.empty(0, np.int64)
    codegen.check(scatter, np.empty((0, 3), np.float32), none, np.empty((0, 3), np.float32))
    codegen.check(scatter, x[0], none, np.empty((0, 5), np.float32))


@seeds(25)
@pytest.mark.usefixtures("codegen")
def test_one_program_serves_every_size_of_a_random_graph(seed: int) -> None:
    made = SymbolicMaker(seed).make(8 + seed % 17)
    program = compile_graph(optimize(made.graph))

    for k, sizes in enumerate(made.assignments):
        inputs = [arrays[k] for arrays in made.inputs]
        actual = program(*inputs)
        for entry, right in zip(made.outputs, actual, strict=True):
            reason = why_wrong(
                entry.narrow[k], entry.wide[k], right, exact=entry.exact, narrow=False
            )
            assert reason is None, f"{sizes}: {entry.value.node.name}: {reason}\n{made.graph}"
        if program.kernels:
            program.threads = 3
            assert all(map(same_bits, actual, program(*inputs))), f"{sizes}: 3 threads"
            program.threads = 1
