"""Whole CUDA units: what shares a launch, what is written in place, products, choices."""

import shutil
from typing import Any

import numpy as np
import pytest

from dynajit.codegen.cuda import text as cuda_text
from dynajit.codegen.cuda.units.steps import (
    CudaKernel,
    LibraryCall,
    ScalarArgument,
    SizeArgument,
    TableArgument,
)
from dynajit.core.errors import CodegenError, DivisionError
from dynajit.core.types import dtypes
from dynajit.core.types.symint import symbol
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir import interpret
from dynajit.ir.graph import Builder, Graph
from dynajit.ops import TABLE as ops
from dynajit.ops.table import dispatch
from tests.support.kernels.emulated import EmulatedProgram

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]
rng = np.random.default_rng(0)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


# ---------------------------------------------------------------------------------------------
# many small updates


def adam(sizes: list[int], dtype: Any = dtypes.float32) -> tuple[Graph, list[Any], dict[int, int]]:
    """Steps of Adam for parameters of some sizes, the graph's arguments, and what is written."""
    builder = Builder("adam")
    arguments: list[Any] = []

    def given(name: str, value: Any) -> Any:
        arguments.append(value)
        number = not isinstance(value, np.ndarray)
        type = ScalarType(dtypes.of_number(value).category) if number else None
        return builder.placeholder(
            name, type or TensorType(value.shape, dtypes.from_numpy(value.dtype))
        )

    outputs, written = [], {}
    with dispatch.recording(builder.handle):
        rate, first, second = (given("number", n) for n in (1e-3, 0.9, 0.999))
        for size in sizes:
            where = len(arguments)
            own = [np.abs(normal(size)).astype(dtype.numpy) for _ in range(4)]
            p, g, m, v = (given("tensor", array) for array in own)
            step, decay = given("step", np.array(3, np.float32)), given("number", 0.01 * size)
            now = ops.add(step, 1.0)
            wide = ops.cast(now, dtype=dtypes.float64)
            mean = ops.add(ops.mul(m, first), ops.mul(g, 1 - 0.9))
            square = ops.add(ops.mul(v, second), ops.mul(ops.mul(g, g), 1 - 0.999))
            root = ops.sqrt(ops.sub(1.0, ops.pow(second, wide)))
            scale = ops.div(rate, ops.sub(1.0, ops.pow(first, wide)))
            change = ops.mul(ops.div(mean, ops.add(ops.div(ops.sqrt(square), root), 1e-8)), scale)
            new = ops.sub(ops.sub(p, ops.mul(p, decay)), change)
            for value, place in (
                (new, where),
                (mean, where + 2),
                (square, where + 3),
                (now, where + 4),
            ):
                written[len(outputs)] = place
                outputs.append(value)
    return builder.finish(outputs), arguments, written


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("in_place", [False, True])
def test_a_step_of_adam_over_a_hundred_tensors_is_a_few_launches(
    codegen: Any, dtype: Any, in_place: bool
) -> None:
    sizes = [1 + 37 * k % 900 for k in range(100)]
    sizes[3], sizes[60] = 10_001, 5000
    graph, arguments, written = adam(sizes, dtype)
    expected = interpret.run(graph, arguments)
    program = EmulatedProgram(graph, written=written if in_place else {})

    assert len(program.unit.steps) <= 14
    assert (400 if in_place else 0) == len(program.unit.in_place)
    for want, got in zip(expected, program(*arguments), strict=True):
        codegen.assert_same(want, got)


def test_updates_whose_inputs_come_from_each_other_stay_in_order(codegen: Any) -> None:
    """A chain of equal kernels; each needs the one before."""

    def function(*xs: Any) -> list[Any]:
        found = [ops.amax(xs[0], dim=(0,))]
        for x in xs:
            found.append(ops.mul(x, found[-1]))
            found.append(ops.amax(found[-1], dim=(0,)))
        return found

    arguments = [normal(2000 + k) for k in range(5)]
    graph = codegen.graph_of(function, *map(codegen.type_of, arguments))
    program = EmulatedProgram(graph)
    for want, got in zip(interpret.run(graph, arguments), program(*arguments), strict=True):
        codegen.assert_same(want, got)


def test_tables_hold_what_differs(codegen: Any) -> None:
    """Pointers, sizes and numbers of each; a number of all is an argument of its own."""
    graph, _, _ = adam([100, 200, 300])
    tables = [k for k in cuda_text.generate(graph, "unit").kernels if k.name.endswith("_table")]
    (update,) = (k for k in tables if len(k.arguments) > 1)
    (table, *numbers) = update.arguments

    assert isinstance(table, TableArgument)
    assert [(0, 100), (1, 200), (2, 300)] == [(r[0].value, r[1].value) for r in table.rows]
    assert {0, 1, 2} == {number.position for number in numbers}
    assert {3, 4, 5} == {w.position for r in table.rows for w in r if isinstance(w, ScalarArgument)}


def test_divisions_of_a_table_report_zeros(codegen: Any) -> None:
    """One launch for all of them; a zero in any is an error."""
    arguments = [rng.integers(1, 9, 300 + k) for k in range(6)]
    graph = codegen.graph_of(
        lambda *xs: [ops.floor_divide(x, y) for x, y in zip(xs[:3], xs[3:], strict=True)],
        *(codegen.type_of(a[:200]) for a in arguments),
    )
    program = EmulatedProgram(graph)
    given = [a[:200] for a in arguments]

    assert ["k0_floor_divide_table"] == [kernel.name for kernel in program.unit.kernels]
    assert program.may_fail
    for want, got in zip(interpret.run(graph, given), program(*given), strict=True):
        codegen.assert_same(want, got)
    given[4][7] = 0
    with pytest.raises(DivisionError):
        program(*given)


# ---------------------------------------------------------------------------------------------
# equal kernels, in place


def test_equal_kernels_are_one_function(codegen: Any) -> None:
    """Layers repeat; their kernels differ in names and in which numbers they read."""

    def function(x: Any, n: Any, m: Any) -> list[Any]:
        y = ops.softmax(x, dim=1) * n
        return [y, ops.softmax(y + 1.0, dim=1) * m]

    x = normal(30, 40)
    graph = codegen.graph_of(function, codegen.type_of(x), *map(codegen.type_of, (0.5, 2.5)))
    program = EmulatedProgram(graph)
    first, second = (
        [a.position for a in kernel.arguments if isinstance(a, ScalarArgument)]
        for kernel in program.unit.kernels
    )

    assert ([0], [1]) == (first, second)
    for want, got in zip(interpret.run(graph, (x, 0.5, 2.5)), program(x, 0.5, 2.5), strict=True):
        codegen.assert_same(want, got)


def test_units_that_can_fail_write_nothing_in_place(codegen: Any) -> None:
    """A failure must leave no trace."""
    types = [codegen.type_of(np.arange(9)), codegen.type_of(np.arange(9))]
    divided = codegen.graph_of(lambda x, y: ops.floor_divide(x, y), *types)
    added = codegen.graph_of(lambda x, y: ops.add(x, y), *types)

    assert not cuda_text.generate(divided, "unit", written={0: 0}).in_place
    assert cuda_text.generate(added, "unit", written={0: 0}).in_place


# ---------------------------------------------------------------------------------------------
# products


def check(codegen: Any, function: Any, *arguments: Any) -> EmulatedProgram:
    graph = codegen.graph_of(function, *map(codegen.type_of, arguments))
    program = EmulatedProgram(graph)
    for want, got in zip(interpret.run(graph, arguments), program(*arguments), strict=True):
        codegen.assert_same(want, got)
    return program


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if not d.is_complex], ids=lambda d: d.name)
def test_products_of_floats_are_library_calls_and_others_loops(codegen: Any, dtype: Any) -> None:
    a = rng.integers(0, 3, (2, 5, 70)).astype(dtype.numpy)
    b = rng.integers(0, 3, (70, 9)).astype(dtype.numpy)
    program = check(codegen, lambda a, b: ops.matmul(a, b), a, b)

    is_called = any(isinstance(step, LibraryCall) for step in program.unit.steps)
    assert dtype.is_floating_point == is_called


def test_operands_that_no_library_reads_are_copied(codegen: Any) -> None:
    """Every second row and column; transposes and slices are read where they lie."""
    a, b = normal(12, 20)[::2, ::2], normal(30, 40)[10:20, 4:14]
    copied = check(codegen, lambda a, b: ops.matmul(a, b), a, b)
    read = check(codegen, lambda a, b: ops.matmul(a, b), normal(10, 6).T, b.T)

    assert [CudaKernel, LibraryCall] == [type(step) for step in copied.unit.steps]
    assert [LibraryCall] == [type(step) for step in read.unit.steps]


def test_a_bias_is_there_before_the_library_adds_it(codegen: Any) -> None:
    """It may be computed by a kernel that comes after the product in the graph."""
    program = check(
        codegen, lambda x, w, z: ops.add(ops.matmul(x, w), ops.amax(z, dim=(0,))),
        normal(8, 16), normal(16, 12), normal(5, 12),
    )  # fmt: skip

    assert [CudaKernel, LibraryCall] == [type(step) for step in program.unit.steps]
    assert program.unit.steps[1].kernel.bias is not None


def test_a_product_of_one_row_is_no_bias_of_its_own(codegen: Any) -> None:
    def twice(x: Any, w: Any) -> Any:
        product = ops.matmul(x, w)
        return ops.add(product, product)

    check(codegen, twice, normal(1, 16), normal(16, 12))


def test_products_of_integers_have_no_bias(codegen: Any) -> None:
    """They are loops, and what is added is a kernel of its own."""
    x, w, b = rng.integers(0, 9, (4, 3)), rng.integers(0, 9, (3, 5)), rng.integers(1, 9, 5)
    check(codegen, lambda x, w, b: ops.add(ops.matmul(x, w), b), x, w, b)


def test_a_product_without_inner_elements_is_zero(codegen: Any) -> None:
    check(codegen, lambda a, b: ops.matmul(a, b), normal(3, 0), normal(0, 4))
    check(codegen, lambda a, b: ops.matmul(a, b), normal(0, 3), normal(3, 4))


# ---------------------------------------------------------------------------------------------
# sizes, choices, refusals


def test_one_unit_serves_all_sizes(codegen: Any) -> None:
    """Sizes are arguments; the form of a row kernel that does not fit has an empty grid."""
    rows, columns = symbol("s0", 2), symbol("s1", 2)
    graph = codegen.graph_of(
        lambda x: ops.softmax(x, dim=1), TensorType((rows, columns), dtypes.float32)
    )
    program = EmulatedProgram(graph)
    assert {"s0", "s1"} == {str(a.value) for k in program.unit.kernels for a in k.arguments
                            if isinstance(a, SizeArgument)}  # fmt: skip
    for shape in ((2, 3), (5, 1000), (3, 4097), (40, 33), (2, 30_000)):
        x = normal(*shape)
        exact = np.exp(x - x.max(1, keepdims=True).astype(np.float64))
        (got,) = program(x)
        codegen.assert_same((exact / exact.sum(1, keepdims=True)).astype(np.float32), got)


CHOOSING = {
    "rows": (lambda x: ops.softmax(x, dim=1), normal(4, 5000)),
    "sections": (lambda x: ops.sum(x, dim=(0, 1)), normal(300, 301)),
    "columns": (lambda x: ops.sum(x, dim=(0,)), normal(9000, 5)),
    "pointwise": (lambda x: ops.exp(x), normal(70, 301)),
    "transposed": (lambda x: ops.clone(ops.permute(x, dims=(1, 0))), normal(70, 130)),
    "scans": (lambda x: ops.cumsum(x, dim=1), normal(3, 30_000)),
}


@pytest.mark.parametrize("name", CHOOSING)
def test_every_choice_gives_the_same_values(codegen: Any, name: str) -> None:
    function, *arguments = CHOOSING[name]
    graph = codegen.graph_of(function, *map(codegen.type_of, arguments))
    expected = interpret.run(graph, arguments)
    choices = cuda_text.generate(graph, "unit").choices

    assert any(len(choice.values) > 1 for choice in choices)
    for choice in choices:
        assert choice.default in choice.values
        for value in choice.values:
            program = EmulatedProgram(graph, choices={choice.name: value})
            for want, got in zip(expected, program(*arguments), strict=True):
                codegen.assert_same(want, got)


def test_values_that_are_not_offered_count_as_the_default(codegen: Any) -> None:
    graph = codegen.graph_of(lambda x: ops.exp(x), codegen.type_of(normal(9)))
    usual = cuda_text.generate(graph, "unit")
    odd = cuda_text.generate(graph, "unit", choices={c.name: 77 for c in usual.choices})

    assert usual.source == odd.source


def test_what_has_no_kernel_is_refused_by_name(codegen: Any) -> None:
    type = TensorType((3,), dtypes.complex64)
    graph = codegen.graph_of(lambda x: ops.add(x, x), type)

    assert "complex" in (cuda_text.why_not(graph) or "")
    with pytest.raises(CodegenError, match="complex numbers have no native code"):
        cuda_text.generate(graph, "unit")
