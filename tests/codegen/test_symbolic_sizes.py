"""Programs of symbolic sizes: compiled once, right at every size.

The referee is the interpreter on the graph of the same function at the size in question.
"""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynajit.codegen.compilers import toolchain
from dynajit.codegen.pipeline import compile_graph
from dynajit.codegen.plan import fusion
from dynajit.core.process import config
from dynajit.core.types import dtypes, symint
from dynajit.core.types.symint import symbol
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir import interpret
from dynajit.ir.graph import Builder
from dynajit.ops import TABLE as ops
from dynajit.ops.table import dispatch

pytestmark = pytest.mark.one_python

S0, S1, S2 = (symbol(f"s{k}", 2) for k in range(3))
SIZES = (2, 3, 7, 8, 16, 33, 64, 257, 1000)
PAIRS = ((2, 2), (3, 7), (7, 3), (8, 64), (64, 8), (17, 300), (1000, 33), (33, 1000), (2, 9001))
TRIPLES = ((2, 3, 4), (5, 8, 16), (17, 2, 33), (3, 64, 7), (64, 65, 9))
F32 = dtypes.float32


def at(shape: Sequence[Any], known: dict[str, int]) -> tuple[int, ...]:
    """A shape with numbers for its symbols."""
    return tuple(symint.substitute(size, known) for size in shape)


def array(random: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    if dtype is dtypes.bool_:
        return random.integers(0, 2, shape).astype(bool)
    if not dtype.is_floating_point:
        return random.integers(0, 2, shape).astype(dtype.numpy)  # an index of any symbolic size
    return random.standard_normal(shape).astype(dtype.numpy)


class Case:
    """A function over rows, compiled for symbolic sizes, checked at plain ones.

    Args:
        codegen: the fixture.
        function: over rows; takes its sizes from the shapes of its operands.
        types: of its operands.
    """

    def __init__(self, codegen: Any, function: Callable[..., Any], *types: Any) -> None:
        self.codegen = codegen
        self.function = function
        self.types = [t if isinstance(t, (TensorType, ScalarType)) else TensorType(t, F32)
                      for t in types]  # fmt: skip
        self.program = compile_graph(codegen.graph_of(function, *self.types))

    def check(self, tolerance: float | None = None, **known: int) -> list[Any]:
        """Compare at one assignment of sizes; the inputs."""
        random = np.random.default_rng(sum(known.values()))
        inputs = [array(random, at(type.shape, known), type.dtype) for type in self.types]
        plain = [
            TensorType(x.shape, type.dtype) for x, type in zip(inputs, self.types, strict=True)
        ]
        graph = self.codegen.graph_of(self.function, *plain, optimized=False)
        expected = interpret.run(graph, inputs)
        actual = self.program(*inputs)
        for want, got in zip(expected, actual, strict=True):
            self.codegen.assert_same(want, got, tolerance)
        for threads in () if self.codegen.is_cuda else (1, 2, 3):
            self.program.threads = threads
            for first, again in zip(actual, self.program(*inputs), strict=True):
                assert first.tobytes() == again.tobytes(), (known, threads)
        return inputs


@pytest.fixture
def compiled(codegen: Any, monkeypatch: Any, tmp_path: Path) -> Any:
    """`compiled(function, *types)`: a case, whose program is native and compiled once, since nobody
    has compiled it before."""
    calls = []
    building = toolchain.building

    def counted(source: str, ahead: Any = None) -> Any:
        calls.append(source)
        return building(source, ahead)

    monkeypatch.setattr(toolchain, "building", counted)

    def make(function: Callable[..., Any], *types: Any) -> Case:
        calls.clear()
        case = Case(codegen, function, *types)
        assert case.program.kernels, case.program.explain
        return case

    with config.override(cache_dir=tmp_path):
        yield make
    assert len(calls) == (0 if codegen.is_cuda else 1)


def check_sizes(case: Case, sizes: Sequence[int] = SIZES, **options: Any) -> None:
    for size in sizes:
        case.check(s0=size, **options)


def check_pairs(case: Case, pairs: Any = PAIRS, **options: Any) -> None:
    for one, two in pairs:
        case.check(s0=one, s1=two, **options)


# ---------------------------------------------------------------------------------------------
# pointwise


def test_pointwise_chains(compiled: Any) -> None:
    case = compiled(lambda x, y: ops.exp(ops.mul(ops.sin(x), ops.add(y, 1.5))), (S0, 64), (64,))
    assert len(case.program.kernels) == 1
    check_sizes(case, (*SIZES, 5000))


def test_broadcasting(compiled: Any) -> None:
    check_pairs(compiled(lambda x, y: ops.mul(x, y), (S0, S1), (S0, 1)))


def test_every_combination_of_symbolic_and_known_sizes(compiled: Any) -> None:
    case = compiled(lambda x, y: ops.sub(x, ops.tanh(y)), (S0, 3, S1), (S1,))
    check_pairs(case)


def test_integers_and_bools(compiled: Any) -> None:
    types = [TensorType((S0, S1), d) for d in (dtypes.int64, dtypes.uint8, dtypes.bool_)]
    case = compiled(lambda x, y, z: ops.where(z, ops.add(x, y), ops.mul(x, 3)), *types)
    check_pairs(case)


def test_16_bit_floats(compiled: Any) -> None:
    type = TensorType((S0, S1), dtypes.bfloat16)
    check_pairs(compiled(lambda x: [ops.exp(x), ops.sum(x, dim=(1,))], type), tolerance=5e-2)


# ---------------------------------------------------------------------------------------------
# reductions


@pytest.mark.parametrize("shape", [(S0, 64), (64, S0), (S0, S0)], ids=str)
@pytest.mark.parametrize("dim", [(0,), (1,), (0, 1)], ids=str)
def test_reductions(compiled: Any, shape: Any, dim: Any) -> None:
    def function(x: Any) -> Any:
        rows = (ops.sum, ops.amax, ops.argmax)
        return [op(x, dim=dim) for op in rows] + [ops.mean(x, dim=dim, keepdim=True)]

    check_sizes(compiled(function, shape), tolerance=2e-4)


def test_reductions_of_two_unknown_sizes(compiled: Any) -> None:
    def function(x: Any) -> Any:
        return [op(x, dim=d) for op in (ops.sum, ops.amin) for d in ((0,), (1,), (0, 1))]

    check_pairs(compiled(function, (S0, S1)), tolerance=2e-4)


def test_reductions_in_the_middle(compiled: Any) -> None:
    case = compiled(lambda x: [ops.sum(x, dim=(1,)), ops.var(x, dim=(0, 2))], (S0, S1, S2))
    for sizes in TRIPLES:
        case.check(**dict(zip(("s0", "s1", "s2"), sizes, strict=True)), tolerance=1e-4)


def test_a_total_of_rows(compiled: Any) -> None:
    case = compiled(lambda x: ops.sum(ops.amax(x, dim=(1,)), dim=(0,)), (S0, 64))
    check_sizes(case, (*SIZES, 5000), tolerance=1e-4)


def test_many_long_columns_in_groups(compiled: Any) -> None:
    """Few columns and many rows: rows are cut into groups if there are enough of them."""
    case = compiled(lambda x: [ops.sum(ops.exp(x), dim=(0,)), ops.amax(x, dim=(0,))], (S0, S1))
    check_pairs(case, ((2, 3), (100, 3), (50_000, 8), (50_000, 2), (300, 3000)), tolerance=1e-4)


def test_long_sums_down_columns_are_accurate(compiled: Any) -> None:
    """However many rows there are, and whether they are cut into groups or not."""
    case = compiled(lambda x: ops.sum(x, dim=(0,)), (S0, S1))
    for shape in ((4099, 3), (1_000_003, 2), (20_000, 300)):
        x = np.random.default_rng(0).random(shape, np.float32)
        (total,) = case.program(x)
        np.testing.assert_allclose(total, x.astype(np.float64).sum(0), rtol=5e-7)


# ---------------------------------------------------------------------------------------------
# chains of reductions


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("shape", [(S0, 64), (64, S0), (S0, S1)], ids=str)
def test_softmax(compiled: Any, shape: Any, dim: int) -> None:
    case = compiled(lambda x: [ops.softmax(x, dim=dim), ops.log_softmax(x, dim=dim)], shape)
    check_pairs(case)


@pytest.mark.c_only
def test_rows_of_any_length_keep_what_they_computed(compiled: Any) -> None:
    """Short or long: exp is evaluated once per element."""
    case = compiled(lambda x: ops.softmax(x, dim=1), (S0, S1))
    assert case.program.source.count(" + member * ") == 1
    check_pairs(case, ((3, 100_000), (2000, 100), (2, 2)))


def test_layer_norm(compiled: Any) -> None:
    case = compiled(
        lambda x, w, b: ops.layer_norm(x, w, b, normalized_shape=x.shape[1:], eps=1e-5),
        (S0, S1), (S1,), (S1,),
    )  # fmt: skip
    check_pairs(case, tolerance=1e-4)


# ---------------------------------------------------------------------------------------------
# movement


def test_slices(compiled: Any) -> None:
    def function(x: Any) -> Any:
        n = x.shape[0]
        rest = ops.slice(x, start=(1, 0), stop=(n, 4), step=(1, 2))
        return [ops.exp(rest), ops.flip(x, dims=(0, 1)), ops.select(x, dim=0, index=n - 1)]

    check_sizes(compiled(function, (S0, 5)))


def test_what_may_be_empty(compiled: Any) -> None:
    def function(x: Any) -> Any:
        rest = ops.slice(x, start=(2, 0), stop=(x.shape[0], x.shape[1]), step=(1, 1))
        return [ops.exp(rest), ops.sum(rest, dim=(0,)), ops.sum(rest, dim=(1,)),
                ops.matmul(rest, ops.permute(rest, dims=(1, 0)))]  # fmt: skip

    check_pairs(compiled(function, (S0, S1)), tolerance=1e-3)


def test_joining(compiled: Any) -> None:
    def function(x: Any, y: Any) -> Any:
        whole = ops.cat(x, y, x, dim=0)
        return [ops.exp(whole), ops.sum(whole, dim=(1,)), ops.softmax(whole, dim=0)]

    check_pairs(compiled(function, (S0, 5), (S1, 5)), tolerance=1e-4)


def test_padding(compiled: Any) -> None:
    case = compiled(lambda x: ops.pad(x, before=(1, 0), after=(2, x.shape[0]), value=3), (S0, S1))
    check_pairs(case)


def test_permuting(compiled: Any) -> None:
    def function(x: Any) -> Any:
        return [ops.exp(ops.permute(x, dims=(2, 0, 1))), ops.clone(ops.permute(x, dims=(1, 2, 0)))]

    case = compiled(function, (S0, S1, S2))
    for sizes in TRIPLES:
        case.check(**dict(zip(("s0", "s1", "s2"), sizes, strict=True)))


def test_reshaping(compiled: Any) -> None:
    """Merging, splitting, and splitting what does not lie side by side."""

    def function(x: Any) -> Any:
        n, m = x.shape[0], x.shape[2]
        merged = ops.reshape(x, shape=(n * 4, m))
        turned = ops.permute(x, dims=(2, 0, 1))
        return [
            ops.exp(merged),
            ops.exp(ops.reshape(merged, shape=(2, 2 * n * m))),
            ops.exp(ops.reshape(turned, shape=(m * n, 4))),
            ops.exp(ops.reshape(turned, shape=(n * 2, 2 * m))),
        ]

    check_pairs(compiled(function, (S0, 4, S1)))


def test_heads_of_attention(compiled: Any) -> None:
    def function(x: Any) -> Any:
        batch, length, _ = x.shape
        heads = ops.permute(ops.reshape(x, shape=(batch, length, 4, 8)), dims=(0, 2, 1, 3))
        turned = ops.permute(heads, dims=(0, 1, 3, 2))
        weights = ops.softmax(ops.matmul(heads, turned), dim=3)
        mixed = ops.permute(ops.matmul(weights, heads), dims=(0, 2, 1, 3))
        return ops.reshape(mixed, shape=(batch, length, 32))

    check_pairs(compiled(function, (S0, S1, 32)), ((2, 2), (3, 7), (5, 64), (2, 129)))


def test_triangles_and_windows(compiled: Any) -> None:
    def rows(x: Any) -> Any:
        return [ops.tril(x, diagonal=0), ops.unfold(x, dim=1, size=2, step=1)]

    check_pairs(compiled(rows, (S0, S1)))


def test_counting_and_filling(compiled: Any) -> None:
    def function(x: Any) -> Any:
        n, m = x.shape
        positions = ops.arange(1, 2, size=n * m, dtype=dtypes.float32)
        return [positions, ops.add(x, ops.full(2.5, shape=(n, 1), dtype=dtypes.float32)),
                ops.full(1, shape=(m + n,), dtype=dtypes.int64)]  # fmt: skip

    check_pairs(compiled(function, (S0, S1)))


# ---------------------------------------------------------------------------------------------
# indices in tensors


def test_gathers(compiled: Any) -> None:
    index = TensorType((S1,), dtypes.int64)
    wide = TensorType((S0, 3), dtypes.int64)

    def function(x: Any, index: Any, wide: Any) -> Any:
        pairs = ops.reshape(index, shape=(1, index.shape[0]))
        return [ops.index_select(x, index, dim=0), ops.gather(x, wide, dim=1),
                ops.index(x, pairs, dims=(1,))]  # fmt: skip

    check_pairs(compiled(function, (S0, 5), index, wide))


@pytest.mark.parametrize("columns", [2, 3, 5, 7])
@pytest.mark.parametrize("dtype", [dtypes.int64, F32, dtypes.float64])
def test_short_loops_that_choose_between_arrays(compiled: Any, dtype: Any, columns: int) -> None:
    """Written out by GCC 12, the turns of such a loop take one another's masks."""

    def function(x: Any, y: Any, z: Any, where: Any) -> Any:
        return ops.index_add(ops.cat(x, y, z, dim=0), where, ops.cat(z, y, x, dim=0), dim=1)

    matrix = TensorType((S0, columns), dtype)
    where = TensorType((columns,), dtypes.int64)
    check_sizes(compiled(function, matrix, matrix, matrix, where))


def test_scatters(compiled: Any) -> None:
    index = TensorType((S1,), dtypes.int64)

    def function(x: Any, index: Any, source: Any) -> Any:
        return [ops.index_add(x, index, source, dim=0), ops.exp(source)]

    check_pairs(compiled(function, (S0, 5), index, (S1, 5)), tolerance=1e-3)


def test_scatters_into_16_bit_floats(compiled: Any) -> None:
    half = TensorType((S0, 5), dtypes.float16)
    index = TensorType((7,), dtypes.int64)
    source = TensorType((7, 5), dtypes.float16)
    case = compiled(lambda x, i, s: ops.index_add(x, i, s, dim=0), half, index, source)
    check_sizes(case)


def test_indices_out_of_range(compiled: Any) -> None:
    index = TensorType((S0,), dtypes.int64)
    case = compiled(lambda x, i: ops.index_select(x, i, dim=0), (S1, 4), index)
    case.check(s0=5, s1=9)
    table, where = np.zeros((9, 4), np.float32), np.array([0, 8, 9])
    with pytest.raises(IndexError, match=r"index 9 .* size 9"):
        case.program(table, where)
    case.program(np.zeros((10, 4), np.float32), where)


# ---------------------------------------------------------------------------------------------
# products


@pytest.mark.parametrize(
    ("left", "right"),
    [((S0, 64), (64, 32)), ((S0, S1), (S1, 5)), ((5, S0), (S0, S1)), ((S0, S0), (S0, S0))],
    ids=str,
)
def test_products(compiled: Any, left: Any, right: Any) -> None:
    pairs = ((2, 2), (3, 7), (64, 8), (257, 300))
    check_pairs(compiled(lambda x, y: ops.matmul(x, y), left, right), pairs, tolerance=1e-3)


def test_products_of_transposed_and_of_integers(compiled: Any) -> None:
    whole = TensorType((S0, S1), dtypes.int64)

    def function(x: Any, y: Any, n: Any) -> Any:
        turned = ops.permute(n, dims=(1, 0))
        return [ops.matmul(x, ops.permute(y, dims=(1, 0))), ops.matmul(turned, n)]

    pairs = ((2, 2), (3, 7), (64, 8), (257, 30))
    check_pairs(compiled(function, (S0, S1), (S0, S1), whole), pairs, tolerance=1e-3)


def test_batches_of_products(compiled: Any) -> None:
    def function(x: Any, y: Any, w: Any) -> Any:
        return [ops.matmul(x, y), ops.matmul(x, w)]

    case = compiled(function, (S0, S1, S2), (S0, S2, 4), (S2, 9))
    for sizes in (*TRIPLES, (40, 100, 90)):
        case.check(**dict(zip(("s0", "s1", "s2"), sizes, strict=True)), tolerance=1e-3)


def test_large_products_in_tiles(compiled: Any) -> None:
    case = compiled(lambda x, y: ops.matmul(x, y), (S0, 256), (256, 256))
    check_sizes(case, (2, 65, 500, 2000), tolerance=1e-3)


def test_large_products_in_tiles_beside_each_other(compiled: Any) -> None:
    """More columns than rows, of a batch; and tiles both ways."""
    case = compiled(lambda x, y: ops.matmul(x, y), (S0, S1, 70), (70, S2))
    for sizes in ((2, 50, 300), (3, 129, 1000), (2, 1100, 2100), (17, 30, 600)):
        case.check(**dict(zip(("s0", "s1", "s2"), sizes, strict=True)), tolerance=1e-3)


def test_a_network(compiled: Any) -> None:
    """Its intermediate values share memory, which grows with the batch."""

    def function(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        hidden = ops.relu(ops.linear(x, w1, b1))
        hidden = ops.relu(ops.linear(hidden, w2, b2))
        hidden = ops.relu(ops.linear(hidden, w2, b2))
        return ops.log_softmax(ops.linear(hidden, w2, b2), dim=1)

    case = compiled(function, (S0, 64), (32, 64), (32,), (32, 32), (32,))
    for size in (2, 1000, 3, 257):
        case.check(s0=size, tolerance=1e-3)


# ---------------------------------------------------------------------------------------------
# random numbers


def test_draws_are_those_of_eager_execution(compiled: Any) -> None:
    def function(x: Any) -> Any:
        shape = (x.shape[0], 5)
        return [ops.rand(17, 3, shape=shape, dtype=F32), ops.randn(17, 3, shape=shape, dtype=F32),
                ops.dropout(x, 99, 5, p=0.25)]  # fmt: skip

    check_sizes(compiled(function, (S0, 5)))


# ---------------------------------------------------------------------------------------------
# the call


def test_sizes_given_as_numbers(codegen: Any) -> None:
    """An integer input that has the name of a symbol is its value."""
    builder = Builder("numbers")
    number = builder.placeholder("s0", ScalarType(dtypes.Category.INTEGER))
    x = builder.placeholder("x", TensorType((3,), F32))
    with dispatch.recording(builder.handle):
        column = ops.full(number, shape=(S0, 1), dtype=F32)
        graph = builder.finish([ops.add(column, x)])
    program = compile_graph(graph)
    given = np.arange(3, dtype=np.float32)

    for size in (2, 5, 100):
        np.testing.assert_array_equal(np.tile(given + size, (size, 1)), program(size, given)[0])


@pytest.mark.c_only
def test_shapes_that_do_not_fit_together_are_refused(compiled: Any) -> None:
    case = compiled(lambda x, y: ops.add(x, y), (S0, 4), (S0, 4))
    case.check(s0=7)
    with pytest.raises(TypeError, match=r"shape \(6, 4\).*shape \(7, 4\)"):
        case.program(np.zeros((7, 4), np.float32), np.zeros((6, 4), np.float32))
    with pytest.raises(TypeError, match=r"Expected dtype float32 and shape \(7, 4\)"):
        case.program(np.zeros((7, 5), np.float32), np.zeros((7, 4), np.float32))
    with pytest.raises(TypeError, match="Expected an array"):
        case.program(np.zeros(7, np.float32), np.zeros((7, 4), np.float32))
    with pytest.raises(ValueError, match=r"has the size 1\.  Expected a size in"):
        case.program(np.zeros((1, 4), np.float32), np.zeros((1, 4), np.float32))


@pytest.mark.c_only
def test_arrays_that_are_not_contiguous_are_copied(compiled: Any) -> None:
    case = compiled(lambda x: ops.exp(x), (S0, S1))
    x = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)
    case.check(s0=2, s1=2)
    for view in (x.T, x[::2, ::3], x[::-1]):
        np.testing.assert_allclose(np.exp(view), case.program(view)[0], rtol=1e-6)


def test_an_input_of_known_strides_is_read_where_it_lies(compiled: Any) -> None:
    case = compiled(lambda x: ops.exp(x), TensorType((S0, 4), F32, strides=(8, 1)))
    x = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
    for count in (2, 17, 40):
        np.testing.assert_allclose(np.exp(x[:count, :4]), case.program(x[:count, :4])[0], rtol=1e-6)


def test_sums_of_sizes_are_sizes(compiled: Any) -> None:
    """The shape of an input may be an expression of symbols that other inputs show."""
    case = compiled(lambda x, y, z: ops.add(ops.cat(x, y, dim=0), z), (S0,), (S1,), (S0 + S1,))
    check_pairs(case)


@pytest.mark.c_only
def test_what_has_no_native_code_says_why(codegen: Any) -> None:
    def function(x: Any) -> Any:
        rest = ops.slice(x, start=(2,), stop=(x.shape[0],), step=(1,))
        return ops.amax(rest, dim=(0,))

    graph = codegen.graph_of(function, TensorType((S0,), F32))
    assert "may be empty; it needs an element" in str(fusion.why_not_native(graph))
    with pytest.warns(RuntimeWarning, match="may be empty"):
        program = compile_graph(graph)
    assert "no native code: amax" in program.explain
    assert program(np.arange(5, dtype=np.float32))[0] == 4
    unknown = codegen.graph_of(lambda x: ops.exp(x), TensorType((S0 + 1,), F32))
    assert fusion.why_not_native(unknown) == "the symbol s0 is the size of no input."


def test_threads_do_not_change_bits(compiled: Any) -> None:
    """Also where the number of threads decides how much memory rows get."""
    case = compiled(lambda x: [ops.softmax(x, dim=1), ops.sum(x, dim=(0, 1))], (S0, S1))
    with config.override(num_threads=3), warnings.catch_warnings():
        check_pairs(case, ((2000, 333), (3, 50_000)), tolerance=1e-3)
