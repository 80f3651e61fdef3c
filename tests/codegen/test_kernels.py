"""Every kernel family against NumPy evaluation of the same graph."""

import math

import ml_dtypes
import numpy as np
import pytest

from dynajit.codegen.pipeline import compile_graph
from dynajit.core.errors import BoundsError, DivisionError
from dynajit.core.process import config
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir import interpret
from dynajit.ir.graph import Builder
from dynajit.ops import TABLE as ops
from dynajit.ops.table.op_table import Kind

pytestmark = pytest.mark.one_python

rng = np.random.default_rng(0)


def normal(*shape: int, dtype: object = np.float32) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


# ---------------------------------------------------------------------------------------------
# pointwise


def samples(op, dtype, position: int) -> np.ndarray:
    shape = (5,) if position == 1 else (3, 5)
    if dtype is dtypes.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_floating_point:
        return rng.uniform(*op.domain, shape).astype(dtype.numpy)
    values = rng.integers(-20 if dtype.is_signed else 0, 30, shape)
    divides = op.rule.divides and position == 1
    return np.where(divides & (values == 0), 3, values).astype(dtype.numpy)


EDGES = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-40, 1e30])


def edge_operand(position: int, dtype) -> np.ndarray:
    size = len(EDGES)
    grid = (np.repeat(EDGES, size), np.tile(EDGES, size), np.full(size * size, 0.3))[position]
    return grid.astype(dtype.numpy)


def pointwise_graph(dtype, operand):
    """All pointwise rows that take `dtype`, as one graph; with the arrays to run it on."""
    builder, arrays, outputs, names = Builder("rows"), [], [], []
    for op in ops:
        if op.kind is not Kind.POINTWISE or op.name in ("arange", "full", "cast", "integer"):
            continue
        own = [operand(op, dtypes.bool_ if n == "condition" else dtype, i)
               for i, n in enumerate(op.inputs)]  # fmt: skip
        types = [TensorType(a.shape, dtypes.from_numpy(a.dtype)) for a in own]
        attributes = op.bind({})
        try:
            op.infer(*types, **attributes)
        except RuntimeError:
            continue  # the row refuses this dtype
        values = [builder.placeholder("x", type) for type in types]
        outputs.append(builder.call(op, values, attributes))
        names.append(op.name)
        arrays += own
    return builder.finish(outputs), arrays, names


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", dtypes.ALL[:10], ids=lambda d: d.name)
def test_every_pointwise_row(codegen, dtype) -> None:
    """All rows that take a dtype agree with their array functions."""
    graph, arrays, names = pointwise_graph(dtype, samples)
    program = compile_graph(graph)
    expected = interpret.run(graph, arrays)

    assert len(names) > 40
    for name, want, got in zip(names, expected, program(*arrays), strict=True):
        precise = np.asarray(want).dtype == np.float32
        tolerance = 2e-6 if precise else None
        # Large results of exp and its relatives are compared by their relative error.
        scale = 1 + np.abs(np.asarray(want, dtype=np.float64)) if precise else 1
        if precise:
            assert (want.dtype, want.shape) == (got.dtype, got.shape), name
            np.testing.assert_allclose(got / scale, want / scale, atol=tolerance, err_msg=name)
        else:
            codegen.assert_same(want, got)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=lambda d: d.name)
def test_nan_infinity_and_signed_zero(codegen, dtype) -> None:
    """Edge values follow the docstrings of rows, signs of zeros included."""

    def operand(op, own, position):
        if own is dtypes.bool_:
            return np.arange(EDGES.size**2) % 2 == 0
        return edge_operand(position, own)

    graph, arrays, names = pointwise_graph(dtype, operand)
    expected = interpret.run(graph, arrays)
    for name, want, got in zip(names, expected, compile_graph(graph)(*arrays), strict=True):
        want64, got64 = np.asarray(want, np.float64), got.astype(np.float64)
        # 1 + erf(-1.8) loses the digits in which two erfs of 2 ULP differ.
        np.testing.assert_allclose(got64, want64, rtol=3e-6, atol=2e-7, err_msg=name)
        if name not in ("maximum", "minimum", "clamp", "clamp_min", "clamp_max", "relu"):
            known = ~np.isnan(want64)
            np.testing.assert_array_equal(
                np.signbit(want64[known]), np.signbit(got64[known]), err_msg=name
            )


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (5000,), (3, 4, 5)])
def test_shapes(codegen, shape) -> None:
    """Zero-dim, empty, single-element and long operands."""
    x, y = normal(*shape), normal(*shape)
    codegen.check(lambda x, y: ops.add(ops.mul(x, y), 1.5), x, y, kernels=1)


def test_layouts(codegen) -> None:
    """Transposed, sliced, reversed and broadcast inputs are read where they lie."""
    base = normal(6, 8)
    for x in (base.T, base[:, ::2], base[::-1, ::-1], np.broadcast_to(base[:1], (4, 8))):
        codegen.check(lambda x: ops.exp(x), x, kernels=1)


def test_casts_between_all_dtypes(codegen) -> None:
    """Every dtype to every other one, in one graph."""
    values = {d: np.array([0, 1, 2, 100]).astype(d.numpy) for d in dtypes.ALL[:10]}

    def function(*xs):
        return [ops.cast(x, dtype=d) for x in xs for d in dtypes.ALL[:10]]

    codegen.check(function, *values.values())


def test_python_numbers_are_run_time_arguments(codegen) -> None:
    """int, float and bool arguments change without a new program."""
    program = codegen.check(
        lambda x, a, b, c: [ops.add(ops.mul(x, a), b), ops.where(c, x, 0.0)],
        normal(4), 2, 0.5, True,
    )  # fmt: skip

    first, second = program(np.ones(4, np.float32), 5, np.float64(0.25), False)

    assert [5.25] * 4 == first.tolist()
    assert [0.0] * 4 == second.tolist()


def test_sixteen_bit_floats_round_after_every_row(codegen) -> None:
    """A fused chain has the bits of one row after the other."""
    for dtype in (np.float16, ml_dtypes.bfloat16):
        x, y = normal(300, dtype=dtype), normal(300, dtype=dtype)
        codegen.check(lambda x, y: ops.sub(ops.mul(ops.add(x, y), y), x), x, y, tolerance=0)


def test_float_chains_have_the_bits_of_eager(codegen) -> None:
    """Arithmetic is not contracted or reassociated."""
    x, y = normal(1000), normal(1000)
    codegen.check(
        lambda x, y: ops.div(ops.sub(ops.mul(x, x), ops.mul(y, y)), ops.add(x, 3.0)),
        x, y, tolerance=0,
    )  # fmt: skip


@pytest.mark.parametrize("far", [[], [1e5], [-3e38, 65537.0]])
@pytest.mark.parametrize("shape", [(9000,), (40, 30), (7,)])
def test_angles_of_any_size(codegen, shape, far) -> None:
    """A loop that meets a large angle still gives every element 4 ULP; others are not disturbed."""
    x = normal(*shape)
    x.flat[3 : 3 + len(far)] = far
    y = normal(*shape[-1:])
    for dtype in (np.float32, np.float64):
        codegen.check(
            lambda x, y: [
                ops.sin(x), ops.cos(ops.mul(x, y)), ops.tan(y), ops.sin(ops.amin(x, dim=(0,))),
            ],
            x.astype(dtype), y.astype(dtype),
        )  # fmt: skip


def test_angles_of_nan_and_infinity(codegen) -> None:
    """NaN in the result, and only there."""
    x = np.array([1.0, np.nan, np.inf, -np.inf, -0.0] + [0.5] * 40, np.float32)
    program = codegen.check(lambda x: ops.mul(ops.sin(x), 1.0), x[4:])
    with np.errstate(invalid="ignore"):
        want = np.sin(x)
    got = compile_graph(codegen.graph_of(ops.sin, codegen.type_of(x)))(x)[0]

    assert np.array_equal(np.isnan(want), np.isnan(got))
    assert np.signbit(got[4])
    assert np.signbit(program(x[4:])[0][0])


@pytest.mark.parametrize("exponent", [4, 5, -2, -3, 8, 2.5, -0.7, 1e30, math.inf, -math.inf])
def test_powers_of_any_base(codegen, exponent) -> None:
    """Blocks of ordinary numbers, of negative ones, and with every kind of special one."""
    x = np.exp(rng.uniform(-3, 3, 3 * 4096 + 5)).astype(np.float32)
    x[4096:8192] *= rng.choice([-1, 1], 4096)
    x[8192:8200] = [0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, -1]

    codegen.check(lambda x: ops.pow(x, exponent), x)
    codegen.check(lambda x, y: ops.pow(x, y), x, np.full_like(x, exponent))


def test_integer_division_by_zero_is_reported(codegen) -> None:
    """An integer divisor of zero raises, as in eager mode, and hands out nothing."""
    x = np.arange(1, 5)
    program = codegen.check(lambda x, y: ops.floor_divide(x, y), x, x)

    with pytest.raises(DivisionError, match="integer division by zero"):
        program(x, np.array([1, 0, 2, 3]))


# ---------------------------------------------------------------------------------------------
# movement


def test_movement_rows_make_no_kernels(codegen) -> None:
    """A chain of movement is one kernel with its consumer."""
    x = normal(4, 6, 5)

    def function(x):
        y = ops.permute(x, dims=(2, 0, 1))
        y = ops.reshape(y, shape=(5, 24))
        y = ops.slice(y, start=(1, 2), stop=(4, 20), step=(1, 3))
        y = ops.flip(y, dims=(1,))
        return ops.expand(ops.reshape(y, shape=(3, 1, 6)), shape=(3, 2, 6)) * 2.0

    codegen.check(function, x, kernels=1)


def test_pad_cat_and_triangles(codegen) -> None:
    """Index conditions read nothing out of range."""
    x, y = normal(3, 4), normal(2, 4)
    codegen.check(lambda x: ops.pad(x, before=(1, 0), after=(0, 2), value=7), x)
    codegen.check(lambda x, y: ops.cat(x, y, ops.exp(x), dim=0), x, y)
    codegen.check(lambda x: [ops.tril(x, diagonal=0), ops.triu(x, diagonal=1)], x)
    codegen.check(lambda x: ops.unfold(x, dim=1, size=2, step=1), x)
    codegen.check(lambda x: ops.diagonal(x, offset=1, dim1=0, dim2=1), x)
    codegen.check(
        lambda x, y: ops.slice_scatter(x, y, start=(1, 0), stop=(3, 4), step=(1, 1)), x, y
    )


def test_reads_at_data_indices(codegen) -> None:
    """index_select, gather and index read at checked positions."""
    x = normal(5, 4)
    codegen.check(lambda x, i: ops.index_select(x, i, dim=0), x, np.array([4, 0, 0, 2]), kernels=1)
    codegen.check(lambda x, i: ops.gather(x, i, dim=1), x, rng.integers(0, 4, (5, 2)), kernels=1)
    codegen.check(lambda x, i: ops.index(x, i, dims=(0,)), x, np.array([[-1, 2], [0, -5]])[None])
    codegen.check(
        lambda x, i: ops.pad(ops.index_select(x, i, dim=0), before=(2, 0), after=(1, 0), value=0),
        x, np.array([1, 3]),
    )  # fmt: skip


@pytest.mark.parametrize("wrong", [5, -1, 1 << 40])
def test_index_out_of_range_is_reported(codegen, wrong) -> None:
    """The error names the value; nothing is handed out."""
    x = normal(5, 4)
    program = codegen.check(lambda x, i: ops.index_select(x, i, dim=0), x, np.array([1, 2]))

    with pytest.raises(BoundsError, match=f"index {wrong} is out of range.* size 5"):
        program(x, np.array([1, wrong]))


def test_index_into_nothing_is_reported(codegen) -> None:
    """An index into an empty dimension is out of range and reads no memory."""
    graph = codegen.graph_of(
        lambda x, i: ops.index_select(x, i, dim=0),
        TensorType((0, 4), dtypes.float32), TensorType((2,), dtypes.int64),
    )  # fmt: skip
    with pytest.raises(BoundsError):
        compile_graph(graph)(np.empty((0, 4), np.float32), np.array([0, 0]))


# ---------------------------------------------------------------------------------------------
# reductions


REDUCTIONS = ("sum", "prod", "amax", "amin", "any", "all")


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((7, 100), (1,)), ((7, 100), (0,)), ((7, 100), (0, 1)), ((3, 5, 4), (1,)),
     ((3, 5, 4), (0, 2)), ((2, 1), (1,)), ((300, 3), (0,)), ((70_000,), (0,))],
)  # fmt: skip
def test_reductions(codegen, name, shape, dim) -> None:
    """Rows, columns, everything, and mixed dims; kept or dropped."""
    x = normal(*shape) if name != "prod" else rng.uniform(0.9, 1.1, shape)
    x = np.where(rng.random(shape) < 0.01, 0, x) if name in ("any", "all") else x
    row = ops[name]
    codegen.check(
        lambda x: [row(x, dim=dim, keepdim=False), row(x, dim=dim, keepdim=True)],
        x, tolerance=3e-5 if name == "sum" else None,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", dtypes.ALL[:10], ids=lambda d: d.name)
def test_sums_of_every_dtype(codegen, dtype) -> None:
    """Integers and bool sum in int64, 16-bit floats in float32."""
    x = rng.integers(0, 3, (6, 40)).astype(dtype.numpy)
    codegen.check(lambda x: [ops.sum(x, dim=(1,)), ops.sum(x, dim=(0,))], x)


def test_argmax_takes_the_first_of_equals_and_nan(codegen) -> None:
    """Ties give the first position; NaN beats everything."""
    x = rng.integers(0, 3, (20, 50)).astype(np.float32)
    x[3, 7] = x[3, 30] = np.nan
    for name in ("argmax", "argmin"):
        codegen.check(lambda x, n=name: [ops[n](x, dim=(1,)), ops[n](x, dim=(0,)),
                                         ops[n](x, dim=(0, 1))], x)  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8])
@pytest.mark.parametrize("size", [1, 31, 64, 65, 100, 333, 9000])
def test_positions_in_rows_of_any_length(codegen, size, dtype) -> None:
    """The first of equals among blocks, in the rest of a row, and at both ends."""
    x = rng.integers(0, 7, (6, size)).astype(dtype)
    x[0], x[1, -1], x[2, 0] = 3, 9, 9
    codegen.check(
        lambda x: [ops.argmax(x, dim=(1,)), ops.argmin(x, dim=(1,)), ops.amax(x, dim=(1,))], x
    )
    codegen.check(lambda x: [ops.argmax(x, dim=(0, 1)), ops.argmin(x, dim=(0,))], x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_every_position_of_a_long_row_is_found(codegen, dtype) -> None:
    """In each block that is looked at together, and in the rest."""
    size = 2 * 256 + 77
    x = rng.integers(0, 7, (size, size)).astype(dtype)
    np.fill_diagonal(x, 9)
    program = codegen.check(lambda x: ops.argmax(x, dim=(1,)), x)
    np.testing.assert_array_equal(np.arange(size), program(x)[0])
    if dtype is not np.int16:
        np.fill_diagonal(x, np.nan)
        x[:, -1] = np.nan
        np.testing.assert_array_equal(np.arange(size), program(x)[0])


@pytest.mark.parametrize("place", [0, 40, 98])
def test_positions_of_nan(codegen, place) -> None:
    """The first NaN is largest and smallest, wherever it lies; infinities are numbers."""
    x = normal(3, 99)
    x[0, place] = x[0, 98] = np.nan
    x[1], x[2] = np.inf, -np.inf
    codegen.check(lambda x: [ops.argmax(x, dim=(1,)), ops.argmin(x, dim=(1,))], x)
    codegen.check(lambda x: ops.argmax(ops.mul(ops.exp(x), ops.sin(x)), dim=(1,)), x)


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 4099])
@pytest.mark.parametrize("columns", [1, 5, 1024, 1030])
def test_column_sums_of_any_size(codegen, rows, columns) -> None:
    """Rows that are met together and those that are left; blocks of columns and their rest."""
    x = normal(rows, columns)
    codegen.check(
        lambda x: [ops.sum(ops.mul(x, x), dim=(0,)), ops.amax(x, dim=(0,))], x, tolerance=1e-4
    )


@pytest.mark.parametrize("rows", [(4,), (3, 5), (257,), (2, 300)])
@pytest.mark.parametrize("elements", [(2,), (2, 2), (3, 3), (16,)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_rows_of_few_elements(codegen, rows, elements, dtype) -> None:
    """Windows and other small dims: sums, choices, what depends on them, in one kernel."""
    x = rng.integers(-5, 6, (*rows, *elements)).astype(dtype)
    dim = tuple(range(len(rows), x.ndim))

    def function(x):
        largest = ops.amax(x, dim=dim, keepdim=True)
        return [
            ops.sum(ops.eq(x, largest), dim=dim), ops.argmax(x, dim=dim), ops.argmin(x, dim=dim),
            ops.sub(x, largest), ops.sum(ops.mul(x, x), dim=dim),
        ]  # fmt: skip

    codegen.check(function, x)


@pytest.mark.parametrize("elements", [2, 3, 4, 5, 7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_choices_in_rows_of_few_elements(codegen, elements, dtype) -> None:
    """What is not chosen is not taken for a neighbour's choice: GCC 12 mixes up written-out loads
    of which only some are wanted."""
    x = rng.integers(-5, 6, (16, 9 * elements)).astype(dtype)[::2, : 3 * elements : 3]
    other = rng.integers(1, 100, (8, elements)).astype(dtype)

    def gradient(x, other):
        positive = ops.maximum(x, 0)
        return [positive, ops.where(ops.le(positive, 0), 0, other)]

    def reductions(x, other):
        return [
            ops.sum(ops.where(ops.gt(x, 0), other, 0), dim=(1,)),
            ops.mul(ops.amax(other, dim=(1,), keepdim=True), ops.where(ops.gt(x, 1), other, x)),
        ]

    codegen.check(gradient, x, other)
    codegen.check(reductions, x, other)


@pytest.mark.parametrize("shape", [(300, 5), (4, 64, 10), (2, 3, 4)])
def test_softmax_of_few_elements(codegen, shape) -> None:
    """Values that are kept between passes; infinities and NaN stay in their rows."""
    x = normal(*shape)
    x.reshape(-1, shape[-1])[:3, 0] = np.inf, -np.inf, np.nan

    def function(x):
        powers = ops.exp(ops.sub(x, ops.amax(x, dim=(-1 % x.ndim,), keepdim=True)))
        return ops.div(powers, ops.sum(powers, dim=(-1 % x.ndim,), keepdim=True))

    program = codegen.check(lambda x: function(x), x[..., 1:].copy())
    with np.errstate(invalid="ignore"):
        want = interpret.run(codegen.graph_of(function, codegen.type_of(x)), [x])[0]
    got = compile_graph(codegen.graph_of(function, codegen.type_of(x)))(x)[0]

    assert 1 == len(program.kernels)
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("shape", [(2, 8, 8), (1, 7, 9), (3, 30, 28)])
def test_tiles_put_back(codegen, shape) -> None:
    """Windows side by side and what is left over behind them; their gradients choose one place."""
    options = {"stride": (2, 3), "before": (0, 0), "after": (0, 0), "dilation": (1, 1)}
    x = normal(*shape)
    counts = tuple((n - k) // k + 1 for n, k in zip(shape[1:], (2, 3), strict=True))
    g = normal(shape[0], *counts)

    def function(x, g):
        choice = ops.max_pool_choice(x, size=(2, 3), **options)
        placed = ops.place_windows(g, choice, shape=shape[1:], size=(2, 3), **options)
        return [placed, ops.sum(placed, dim=(1, 2)), ops.max_pool(x, size=(2, 3), **options)]

    codegen.check(function, x, g)


def test_nan_and_infinity_in_reductions(codegen) -> None:
    """NaN spreads through extrema; infinities add up to NaN."""
    x = normal(4, 200)
    x[1, 150], x[2, 3], x[2, 4] = np.nan, np.inf, -np.inf
    codegen.check(lambda x: [ops.amax(x, dim=(1,)), ops.amin(x, dim=(0,)), ops.sum(x, dim=(1,))], x)


def test_empty_reductions(codegen) -> None:
    """Sums of nothing are 0, products 1, and empty results are empty."""
    x = np.empty((3, 0), np.float32)
    codegen.check(lambda x: [ops.sum(x, dim=(1,)), ops.prod(x, dim=(1,)), ops.all(x, dim=(1,))], x)
    codegen.check(lambda x: ops.sum(x, dim=(0,)), x)
    codegen.check(lambda x: ops.sum(x, dim=(0, 1)), x)


def test_long_sums_are_accurate(codegen) -> None:
    """The error of a long float32 sum stays near that of NumPy's pairwise sum."""
    x = rng.random(3_000_000).astype(np.float32)
    exact = x.astype(np.float64).sum()
    program = codegen.check(lambda x: ops.sum(x, dim=(0,)), x, tolerance=1)
    two_rows = codegen.check(lambda x: ops.sum(x, dim=(1,)), x.reshape(2, -1), tolerance=1)

    assert abs(program(x)[0] - exact) < 2e-6 * exact
    assert abs(two_rows(x.reshape(2, -1))[0].astype(np.float64).sum() - exact) < 2e-6 * exact


@pytest.mark.parametrize("shape", [(4099, 3), (1_000_003, 3), (60_001, 17)], ids=str)
def test_long_sums_down_columns_are_accurate(codegen, shape) -> None:
    """Also beside a reduction that is no sum, and over loops that do not merge."""
    x = rng.random((2, *shape), np.float32)[:, :, 1:]

    def function(x):
        return [ops.sum(x, dim=(1,)), ops.amax(x, dim=(1,)), ops.sum(x, dim=(0, 1))]

    program = compile_graph(codegen.graph_of(function, codegen.type_of(x)))
    total, largest, both = program(x)
    exact = x.astype(np.float64).sum(1)

    np.testing.assert_allclose(total, exact, rtol=5e-7)
    np.testing.assert_array_equal(largest, x.max(1))
    np.testing.assert_allclose(both, exact.sum(0), rtol=5e-7)


# ---------------------------------------------------------------------------------------------
# random, scatter, products


def test_random_rows_have_the_bits_of_eager(codegen) -> None:
    """The same counters give the same numbers."""

    def function(seed, offset):
        return [
            ops.rand(seed, offset, shape=(7, 3), dtype=dtype, shift=2)
            for dtype in (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
        ]  # fmt: skip

    for seed in (3, -5, 2**40 + 1):
        codegen.check(function, seed, 9, tolerance=0)
    codegen.check(
        lambda s, o: ops.randn(s, o, shape=(1001,), dtype=dtypes.float32), 11, 4, tolerance=1e-5
    )


@pytest.mark.parametrize("shape", [(7, 3), (64, 256), (3, 1001)])
def test_random_rows_begin_where_numbers_say(codegen, shape) -> None:
    """As in turns of a loop: the offset is computed of several, in the kernel that draws."""

    def moved(offset, turns):
        for number in turns:
            blocks = ops.full(number, shape=(), dtype=dtypes.int64)
            offset = ops.add(blocks, offset)
        return offset

    def function(x, seed, offset, *turns):
        begin = moved(offset, turns)
        uniform = ops.rand(seed, begin, shape=x.shape, dtype=dtypes.float32, shift=3)
        wide = ops.rand(seed, begin, shape=x.shape, dtype=dtypes.float64)
        return [ops.add(x, uniform), wide, ops.dropout(x, seed, begin, p=0.3, shift=1)]

    x = normal(*shape, dtype=np.float32)
    codegen.check(function, x, -5, 2**40, 17, 1000, tolerance=0)
    found = [
        compile_graph(codegen.graph_of(function, *map(codegen.type_of, given)))(*given)
        for given in ((x, -5, 2**40, 17, 1000), (x, -5, 2**40 + 1017))
    ]
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int8])
def test_scatters(codegen, dtype) -> None:
    """Repeated targets are combined in order; the last write wins."""
    x, source = normal(6, 3, dtype=np.float32).astype(dtype), normal(8, 3).astype(dtype)
    where = rng.integers(0, 6, 8)
    codegen.check(lambda x, i, s: ops.index_add(x, i, s, dim=0), x, where, source)
    wide = np.broadcast_to(where[:, None], (8, 3)).copy()
    codegen.check(lambda x, i, s: ops.scatter_add(x, i, s, dim=0), x, wide, source)
    codegen.check(lambda x, i, s: ops.scatter(x, i, s, dim=0), x, wide, source)
    codegen.check(lambda x, i, s: ops.index_put(x, i, s, dims=(0,)), x, where[None], source)
    for mode in ("prod", "amax", "amin"):
        codegen.check(
            lambda x, i, s, mode=mode: ops.scatter_reduce(x, i, s, dim=0, mode=mode),
            x,
            wide,
            source,
        )


def test_scatter_out_of_range_is_reported(codegen) -> None:
    """A target outside raises and writes nothing out of bounds."""
    x, source = normal(6, 3), normal(2, 3)
    program = codegen.check(
        lambda x, i, s: ops.index_add(x, i, s, dim=0), x, np.array([0, 1]), source
    )
    with pytest.raises(BoundsError, match="index 6"):
        program(x, np.array([0, 6]), source)


@pytest.mark.parametrize("dtype", dtypes.ALL[:10], ids=lambda d: d.name)
def test_products_of_every_dtype(codegen, dtype) -> None:
    """BLAS for float32 and float64, loops for integers; bool is "any and".

    16-bit floats are widened first and rounded afterwards.
    """
    a = rng.integers(0, 3, (5, 7)).astype(dtype.numpy)
    b = rng.integers(0, 3, (7, 300)).astype(dtype.numpy)
    kernels = 4 if dtype in (dtypes.float16, dtypes.bfloat16) else 1
    codegen.check(lambda a, b: ops.matmul(a, b), a, b, kernels=kernels)


def test_products_read_views_where_they_lie(codegen) -> None:
    """Transposed, sliced and batched operands cost no copy."""
    a, b = normal(4, 6, 5), normal(4, 6, 7)

    def transposed(x):
        return ops.permute(x, dims=(0, 2, 1))

    codegen.check(lambda a, b: ops.matmul(transposed(a), b), a, b, kernels=1)
    codegen.check(lambda a: ops.matmul(a, transposed(a)), a, kernels=1)
    codegen.check(
        lambda a: ops.matmul(ops.slice(a, start=(0, 1, 0), stop=(4, 4, 5), step=(1, 1, 1)),
                             transposed(a)),
        a, kernels=1,
    )  # fmt: skip
    codegen.check(lambda a, w: ops.matmul(a, w), a, normal(5, 3), kernels=1)
    codegen.check(lambda a, w: ops.matmul(w, transposed(a)), a, normal(1, 3, 5), kernels=1)
    codegen.check(lambda a, b: ops.matmul(a, b), a[:, ::2, ::2], normal(4, 5, 2)[:, ::2], kernels=1)


@pytest.mark.parametrize(
    "sizes",
    [
        (0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (1, 50, 1), (200, 90, 70),
        (300, 90, 600), (70, 200, 1030), (1030, 200, 70), (2060, 20, 1100), (400, 0, 700),
    ],
)  # fmt: skip
def test_product_sizes(codegen, sizes) -> None:
    """Empty, single and larger products; an empty inner size gives zeros."""
    n, k, m = sizes
    codegen.check(lambda a, b: ops.matmul(a, b), normal(n, k), normal(k, m), tolerance=1e-4)
    codegen.check(
        lambda a, b: ops.matmul(a, ops.permute(b, dims=(1, 0))), normal(n, k), normal(m, k),
        tolerance=1e-4,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------
# threads


def test_the_number_of_threads_does_not_change_bits(codegen) -> None:
    """Pointwise, rows, columns, totals and products: one and two threads agree exactly."""
    x, w = normal(600, 700), normal(700, 500)

    def function(x, w):
        return [
            ops.exp(x), ops.softmax(x, dim=1), ops.sum(x, dim=(0,)), ops.sum(x, dim=(0, 1)),
            ops.sum(ops.sum(ops.exp(x), dim=(1,)), dim=(0,)), ops.matmul(x, w),
        ]  # fmt: skip

    graph = codegen.graph_of(function, codegen.type_of(x), codegen.type_of(w))
    results = []
    for threads in (1, 2, 3):
        with config.override(num_threads=threads):
            results.append(compile_graph(graph)(x, w))
    for others in results[1:]:
        for first, other in zip(results[0], others, strict=True):
            np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("sizes", [(60, 90, 1030), (1030, 90, 60), (1040, 20, 1100)])
def test_tiles_of_products_do_not_depend_on_threads(codegen, sizes, dtype) -> None:
    """Cut below and beside each other; whole numbers are exact in every order."""
    n, k, m = sizes
    random = np.random.default_rng(4)
    x, w = random.integers(-9, 9, (n, k)).astype(dtype), random.integers(-9, 9, (k, m))
    expected, w = x @ w, w.astype(dtype)
    graph = codegen.graph_of(
        lambda x, w: [ops.matmul(x, w)], codegen.type_of(x), codegen.type_of(w)
    )
    for threads in (1, 2, 3):
        with config.override(num_threads=threads):
            np.testing.assert_array_equal(expected, compile_graph(graph)(x, w)[0])


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_floats_that_are_no_integers_of_the_dtype(codegen, source) -> None:
    """Infinities, NaN and numbers out of range are cast as NumPy does on x86, known or loaded."""
    edges = [3e9, -3e9, np.inf, -np.inf, np.nan, 300.7, -300.7, 7e4, 1e19, -1e19, 2.0**31, 2.0**63]
    x = np.array(edges * 5, source)
    known = [np.inf, np.nan, -np.inf]
    wide = (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)

    def function(x):
        loaded = [ops.cast(x, dtype=d) for d in (*wide, dtypes.uint8)]
        whole = [ops.full(v, shape=(3,), dtype=x.dtype) for v in known]
        return loaded + [ops.cast(ops.add(v, 0.0), dtype=d) for v in whole for d in wide]

    program = compile_graph(codegen.graph_of(function, codegen.type_of(x), optimized=False))
    for dtype, got in zip((*wide, dtypes.uint8), program(x)[:5], strict=True):
        np.testing.assert_array_equal(x.astype(dtype.numpy), got)
    for k, got in enumerate(program(x)[5:]):
        expected = np.full(3, known[k // 4], source).astype(wide[k % 4].numpy)
        np.testing.assert_array_equal(expected, got)


@pytest.mark.parametrize("inner", [3, 8, 15, 16, 33])
def test_sums_over_loops_that_do_not_merge_are_accurate(codegen, inner) -> None:
    """As accurate as a pairwise sum, however short the innermost loop is."""
    base = rng.uniform(0.5, 1.5, (2, 40_000 // inner, inner + 3)).astype(np.float32)
    x = base[:, :, :inner]
    program = compile_graph(codegen.graph_of(lambda x: ops.sum(x, dim=(1, 2)), codegen.type_of(x)))
    expected = x.astype(np.float64).sum((1, 2))
    assert np.abs(program(x)[0] / expected - 1).max() < 2e-6


@pytest.mark.parametrize("columns", [2, 3, 5, 6, 7, 10, 12])
def test_sums_of_few_columns_lie_where_vectors_may_store_them(codegen, columns):
    """GCC 12 stored what was aligned to 8 bytes as if it were to 16, below the stack pointer."""
    x = np.arange(12 * 10 * columns).astype(np.uint8).reshape(12, 10, columns)

    codegen.check(lambda x: ops.sum(x, dim=(1,)), x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("whole", [dtypes.int32, dtypes.int64], ids=["int32", "int64"])
def test_numbers_that_do_not_fit_an_integer_become_the_least_one(codegen, dtype, whole):
    limit = dtype(2.0) ** (8 * whole.itemsize - 1)
    x = np.array(
        [
            np.nan,
            np.inf,
            -np.inf,
            limit,
            -limit,
            np.nextafter(limit, dtype(0)),
            -1.5,
            2.9,
            -2 * limit,
        ],
        dtype,
    )
    program = compile_graph(
        codegen.graph_of(lambda x: ops.cast(x, dtype=whole), codegen.type_of(np.tile(x, 9)))
    )
    (found,) = program(np.tile(x, 9))
    least = np.iinfo(whole.numpy).min
    below = int(np.nextafter(limit, dtype(0)))
    expected = [least, least, least, least, least, below, -1, 2, least]

    np.testing.assert_array_equal(np.tile(np.array(expected, whole.numpy), 9), found)
