"""Rows in C: the bits of what they stand for, or no answer."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.value_types import TensorType
from dynajit.ops import TABLE, Kind
from dynajit.ops.evaluate import QUIET, array_form, evaluate
from dynajit.ops.native import _native_forms
from dynajit.ops.table import dispatch
from tests.support.rows.samples import all_rows, samples

FLOATS = [np.float32, np.float64]
SHAPES = [(1,), (7,), (4, 8), (1, 1), (5, 1), (3, 129), (64, 256), (2, 3, 17), (9, 5000)]
COMPOSITES = [
    op for op in all_rows() if op.kind is Kind.COMPOSITE and op.rule.native and op.rule.array
]
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 1e30)


def values(shape, dtype, seed=0):
    drawn = np.random.default_rng(seed).standard_normal(shape)
    return np.asarray(drawn * 3, dtype)


def same_bits(expected, result):
    assert type(result) is np.ndarray
    assert (expected.shape, expected.dtype) == (result.shape, result.dtype)
    assert result.flags.c_contiguous
    np.testing.assert_array_equal(expected, result)
    numbers = ~np.isnan(expected)
    if expected.dtype.kind == "c":
        return
    assert np.array_equal(np.signbit(expected[numbers]), np.signbit(result[numbers]))


def native(op, *inputs, **attributes):
    return op.rule.native(*inputs, *op.bind(attributes).values())


@pytest.mark.parametrize("op", COMPOSITES, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=lambda d: d.name)
def test_samples_have_the_bits_of_the_array_form(op, dtype):
    answered = 0
    for sample in samples(op, dtype):
        result = native(op, *sample.inputs, **sample.attributes)
        if result is not NotImplemented:
            answered += 1
            same_bits(array_form(op, sample.inputs, op.bind(sample.attributes)), result)
    assert answered > 0


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_has_the_bits_of_the_array_form(name, shape, dtype):
    op, x = TABLE[name], values(shape, dtype)
    dim = len(shape) - 1
    same_bits(array_form(op, (x,), {"dim": dim}), native(op, x, dim=dim))
    for special in SPECIAL:
        x.flat[0] = special
        same_bits(array_form(op, (x,), {"dim": dim}), native(op, x, dim=dim))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_layer_norm_has_the_bits_of_the_array_form(shape, dtype):
    x, size = values(shape, dtype), shape[-1:]
    for weight, bias in [
        (None, None),
        (values(size, dtype, 1), None),
        (values(size, dtype, 1),) * 2,
    ]:
        attributes = {"normalized_shape": size, "eps": 1e-5}
        expected = array_form(TABLE.layer_norm, (x, weight, bias), attributes)
        same_bits(expected, native(TABLE.layer_norm, x, weight, bias, **attributes))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("shape", [(1, 1), (4, 8), (300, 7), (5, 5000)], ids=str)
def test_losses_have_the_bits_of_the_array_form(shape, reduction, dtype):
    x = values(shape, dtype)
    target = np.arange(shape[0]) * 3 % shape[1]
    for op in (TABLE.nll_loss, TABLE.cross_entropy):
        attributes = op.bind({"reduction": reduction})
        expected = array_form(op, (x, target, None), attributes)
        same_bits(expected, native(op, x, target, None, **attributes))


def formula(name, operand, *parameters):
    """What the derivative's formula gives for arrays, on tensors."""
    given = [dj.from_numpy(v) if isinstance(v, np.ndarray) else v for v in parameters]
    with dj.no_grad():
        return TABLE[name].vjp[operand](TABLE, *given).numpy()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_slopes_have_the_bits_of_the_formulas(shape, dtype):
    g, x, weight = (values(s, dtype, i) for i, s in enumerate((shape, shape, shape[-1:])))
    for name in ("softmax", "log_softmax"):
        parameters = (g, x, len(shape) - 1)
        result = TABLE[name].rule.slopes["x"](*parameters)
        same_bits(formula(name, "x", *parameters), result)
    for operand, parameters in [
        ("x", (g, x, None, shape[-1:], 1e-5)),
        ("x", (g, x, weight, shape[-1:], 1e-5)),
        ("weight", (g, x, shape[-1:], 1e-5)),
    ]:
        result = TABLE.layer_norm.rule.slopes[operand](*parameters)
        same_bits(formula("layer_norm", operand, *parameters), result)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_slopes_of_losses_have_the_bits_of_the_formula(reduction, dtype):
    g = values((6,) if reduction == "none" else (), dtype)
    x = dj.from_numpy(values((6, 4), dtype))
    type = TensorType((6, 4), x.dtype)
    parameters = (g, type, np.arange(6) % 4, None, reduction, -100)
    result = TABLE.nll_loss.rule.slopes["x"](*parameters)
    expected = formula("nll_loss", "x", *parameters)
    np.testing.assert_array_equal(expected, result)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 4097)], ids=str)
@pytest.mark.parametrize(
    ("name", "attributes"),
    [("sigmoid", {}), ("silu", {}), ("relu", {}), ("leaky_relu", {"negative_slope": 0.1}),
     ("leaky_relu", {"negative_slope": -2.0})],
)  # fmt: skip
def test_functions_of_one_element_have_the_bits_of_the_body(name, attributes, shape, dtype):
    op, x = TABLE[name], values(shape, dtype)
    x.flat[: len(SPECIAL)] = SPECIAL[: x.size]
    same_bits(evaluate(op, (x,), attributes), native(op, x, **attributes))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bounds", [(-1, 1), (0.5, -0.5), (0, np.inf), (-0.1, np.nan)])
def test_clamps_have_the_bits_of_the_bodies(bounds, dtype):
    x = values((3, 50), dtype)
    x.flat[: len(SPECIAL)] = SPECIAL
    least, most = bounds
    same_bits(evaluate(TABLE.clamp, (x, *bounds), {}), native(TABLE.clamp, x, *bounds))
    same_bits(evaluate(TABLE.clamp_min, (x, least), {}), native(TABLE.clamp_min, x, least))
    same_bits(evaluate(TABLE.clamp_max, (x, most), {}), native(TABLE.clamp_max, x, most))
    assert native(TABLE.clamp_min, x, 2**24 + 1) is NotImplemented
    assert native(TABLE.clamp_min, x, np.asarray(1.0, dtype)) is NotImplemented


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("padding_idx", [None, 2])
@pytest.mark.parametrize("shape", [(), (0,), (9,), (3, 5)], ids=str)
def test_embedding_takes_rows_and_adds_their_gradients(shape, padding_idx, dtype):
    weight = values((4, 6), dtype)
    indices = np.random.default_rng(0).integers(0, 4, shape)
    op = TABLE.embedding
    same_bits(weight[indices], native(op, weight, indices, padding_idx=padding_idx))
    if not indices.size:
        return
    g = values((*shape, 6), dtype, 1)
    type = TensorType((4, 6), dtypes.from_numpy(np.dtype(dtype)))
    result = op.rule.slopes["weight"](g, type, indices, padding_idx)
    same_bits(formula("embedding", "weight", g, type, indices, padding_idx), result)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool, dtypes.bfloat16.numpy])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 0, 4), (1, 2, 3)], ids=str)
def test_joins_have_the_bits_of_the_array_function(shape, dtype):
    x = (np.random.default_rng(0).standard_normal(shape) * 9).astype(dtype)
    for dim in range(len(shape)):
        parts = [x, np.ascontiguousarray(np.concatenate([x, x], dim)), x]
        expected = TABLE.cat.rule.array(np, *parts, dim=dim)
        result = native(TABLE.cat, *parts, dim=dim)
        assert (expected.dtype, expected.shape) == (result.dtype, result.shape)
        assert expected.tobytes() == result.tobytes()
    for dim in range(len(shape) + 1):
        expected = TABLE.stack.rule.array(np, x, ~x if dtype is bool else -x, x, dim=dim)
        result = native(TABLE.stack, x, ~x if dtype is bool else -x, x, dim=dim)
        assert (expected.dtype, expected.shape) == (result.dtype, result.shape)
        assert expected.tobytes() == result.tobytes()


@pytest.mark.parametrize(
    "call",
    [
        lambda: _native_forms.cat(X, X.astype(np.float64), 0),
        lambda: _native_forms.cat(X, X[0], 0),
        lambda: _native_forms.cat(X, X[:2], 1),
        lambda: _native_forms.cat(X, X, 2),
        lambda: _native_forms.cat(X.T, X.T, 0),
        lambda: _native_forms.cat(0),
        lambda: _native_forms.stack(X, X, 3),
        lambda: _native_forms.stack(X, X[:2], 0),
        lambda: _native_forms.stack(X, 1.0, 0),
    ],
)
def test_joins_that_rows_refuse_have_no_answer(call):
    assert call() is NotImplemented


def test_many_tensors_are_joined():
    parts = [dj.full((2,), float(i)) for i in range(100)]
    assert [float(i) for i in range(100) for _ in range(2)] == dj.cat(parts).tolist()
    assert (100, 2) == tuple(dj.stack(parts).shape)


def test_rows_that_are_not_there_are_left_to_the_row():
    weight = values((4, 6), np.float32)
    for wrong in (np.array([4]), np.array([-1]), np.array([1.0]), np.array([0, 1], np.int32)):
        assert _native_forms.embedding(weight, wrong, None) is NotImplemented
    with pytest.raises(dj.core.errors.BoundsError):
        dj.nn.functional.embedding(dj.tensor([4]), dj.from_numpy(weight))


def test_one_number_stands_for_all_gradients():
    out = values((3, 4), np.float32)
    one = np.broadcast_to(np.float32(2.0), (3, 4))
    slope = TABLE.softmax.rule.slopes["x"]
    same_bits(slope(np.ascontiguousarray(one), out, 1), slope(one, out, 1))


X = values((4, 6), np.float32)
T = np.arange(4)


@pytest.mark.parametrize(
    "call",
    [
        lambda: _native_forms.softmax(X, 0),
        lambda: _native_forms.softmax(X.T, 1),
        lambda: _native_forms.softmax(X[:, ::2], 1),
        lambda: _native_forms.softmax(X[:0], 1),
        lambda: _native_forms.softmax(X.astype(np.float16), 1),
        lambda: _native_forms.softmax(X.astype(">f4"), 1),
        lambda: _native_forms.softmax(X),
        lambda: _native_forms.softmax(np.float32(1.0), 0),
        lambda: _native_forms.log_softmax(X.astype(np.int64), 1),
        lambda: _native_forms.layer_norm(X, None, None, (4, 6), 1e-5),
        lambda: _native_forms.layer_norm(X, X[0].astype(np.float64), None, (6,), 1e-5),
        lambda: _native_forms.layer_norm(X, X[0, :5], None, (6,), 1e-5),
        lambda: _native_forms.nll_loss(X, T + 3, None, "mean", -100),
        lambda: _native_forms.nll_loss(X, T, None, "mean", 2),
        lambda: _native_forms.nll_loss(X, T - 1, None, "mean", -100),
        lambda: _native_forms.nll_loss(X, T[:3], None, "mean", -100),
        lambda: _native_forms.nll_loss(X, T.astype(np.int32), None, "mean", -100),
        lambda: _native_forms.nll_loss(X, T, X[0], "mean", -100),
        lambda: _native_forms.nll_loss(X, T, None, "median", -100),
        lambda: _native_forms.cross_entropy(X, T, None, "mean", -100, 0.1),
        lambda: _native_forms.softmax_slope(X.astype(np.float64), X, 1),
        lambda: _native_forms.softmax_slope(X[:1], X, 1),
        lambda: _native_forms.full(2, (2, 3), dtypes.bfloat16, CPU),
        lambda: _native_forms.full(2.5, (2, 3), dtypes.int64, CPU),
        lambda: _native_forms.full(2**70, (2, 3), dtypes.float32, CPU),
        lambda: _native_forms.full(0, (2, -3), dtypes.float32, CPU),
        lambda: _native_forms.full(0, (2, 3), dtypes.float32, dj.device("cuda")),
        lambda: _native_forms.arange(0, 1, 5, dtypes.int32, CPU),
        lambda: _native_forms.arange(0, 1.5, 5, dtypes.float32, CPU),
        lambda: _native_forms.arange(0.0, 1.5, 5, dtypes.int64, CPU),
    ],
)  # fmt: skip
def test_what_is_not_plain_has_no_answer(call):
    assert call() is NotImplemented


def arrays_of_many_layouts(count):
    """Arrays of up to three dims, some of size 0 or 1, transposed, with gaps, read-only."""
    random = np.random.default_rng(0)
    for _ in range(count):
        shape = random.choice([0, 1, 1, 2, 3], random.integers(1, 4))
        whole = np.zeros(2 * shape, random.choice([np.float32, np.int8, bool]))
        steps = random.choice([1, 2], len(shape))
        x = whole[tuple(slice(0, n * by, by) for n, by in zip(shape, steps, strict=True))]
        x = x.transpose() if random.random() < 0.3 else x
        x.flags.writeable = random.random() < 0.8
        yield x, random


def views_of_many_layouts(count):
    """(row, array, attributes)."""
    for x, random in arrays_of_many_layouts(count):
        yield TABLE.permute, x, {"dims": tuple(int(d) for d in random.permutation(x.ndim))}
        yield TABLE.reshape, x, {"shape": (x.size,) if random.random() < 0.5 else (1, *x.shape)}
        lead = tuple(int(n) for n in random.integers(0, 4, random.integers(0, 3)))
        wide = tuple(int(random.choice([1, 4, 0])) if n == 1 else n for n in x.shape)
        yield TABLE.expand, x, {"shape": (*lead, *wide)}
        stop = tuple(int(random.integers(0, n + 1)) for n in x.shape)
        start = tuple(int(random.integers(0, n + 1)) for n in stop)
        step = tuple(int(n) for n in random.integers(1, 4, x.ndim))
        yield TABLE.slice, x, {"start": start, "stop": stop, "step": step}
        if x.shape[0]:
            yield TABLE.select, x, {"dim": 0, "index": int(random.integers(0, x.shape[0]))}


def steps_that_count(x):
    """Strides of the dims along which there is more than one element."""
    return [by for by, n in zip(x.strides, x.shape, strict=True) if n > 1 and x.size]


def test_views_lie_where_those_of_numpy_lie():
    for op, x, attributes in views_of_many_layouts(2000):
        expected, result = op.rule.array(np, x, **attributes), native(op, x, **attributes)
        assert (expected.shape, expected.dtype) == (result.shape, result.dtype)
        assert steps_that_count(expected) == steps_that_count(result)
        assert expected.flags.writeable == result.flags.writeable
        assert expected.flags.c_contiguous == result.flags.c_contiguous
        places = [v.__array_interface__["data"][0] for v in (expected, result)]
        assert places[0] == places[1] or not np.shares_memory(expected, x)


def test_a_copy_in_an_order_lies_where_that_of_numpy_lies():
    for x, random in arrays_of_many_layouts(1000):
        order = tuple(int(d) for d in random.permutation(x.ndim))
        expected = TABLE.laid_out.rule.array(np, x, order=order)
        result = native(TABLE.laid_out, x, order=order)
        np.testing.assert_array_equal(expected, result)
        assert (expected.dtype, expected.strides) == (result.dtype, result.strides)
        assert result.flags.writeable and not np.shares_memory(result, x)


VIEWS = {
    "permute": lambda x, dims: x.permute(dims),
    "reshape": lambda x, shape: x.reshape(shape),
    "expand": lambda x, shape: x.expand(shape),
    "slice": lambda x, start, stop, step: x[tuple(map(slice, start, stop, step))],
    "select": lambda x, dim, index: x.select(dim, index),
}


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_views_have_the_strides_of_pytorchs():
    """Where there are elements, also those of sizes of 1, by which none is reached."""
    torch = pytest.importorskip("torch")
    for op, x, attributes in views_of_many_layouts(2000):
        expected = VIEWS[op.name](torch.from_numpy(x), **attributes)
        result = native(op, x, **attributes)
        assert tuple(expected.shape) == result.shape
        if result.size:
            assert expected.stride() == tuple(by // x.itemsize for by in result.strides)


@pytest.mark.parametrize(
    "call",
    [
        lambda: _native_forms.reshape(X, (-1,)),
        lambda: _native_forms.permute(X, (0, -1)),
        lambda: _native_forms.permute(X, (0,)),
        lambda: _native_forms.laid_out(X, (0, 2)),
        lambda: _native_forms.laid_out(X, (0, 0)),
        lambda: _native_forms.laid_out(X, (0,)),
        lambda: _native_forms.expand(X, (6,)),
        lambda: _native_forms.expand(X, (3, 6)),
        lambda: _native_forms.slice(X, (0, 0), (4, 7), (1, 1)),
        lambda: _native_forms.slice(X, (0, 3), (4, 2), (1, 1)),
        lambda: _native_forms.slice(X, (0, 0), (4, 6), (1, 0)),
        lambda: _native_forms.select(X, 2, 0),
        lambda: _native_forms.select(X, 0, 4),
        lambda: _native_forms.select(X, 0, -1),
    ],
)
def test_views_that_rows_refuse_have_no_answer(call):
    assert call() is NotImplemented


def test_a_detached_tensor_shares_memory_and_has_no_history():
    x = dj.ones(3, requires_grad=True) * 2
    cut = x.detach()
    assert not cut.requires_grad
    assert cut.grad_fn is None
    assert cut._base is None
    cut.add_(1.0)
    assert [3.0, 3.0, 3.0] == x.tolist()
    assert 1 == x._version == cut._version


ALL = (dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.float16, dtypes.bool_,
       dtypes.uint8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.complex64)  # fmt: skip


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: d.name)
def test_full_gives_what_the_body_gives(dtype):
    answered = 0
    for value in (0, 1, -3, True, False, 0.0, -0.0, 2.5, np.nan, 1e300, 2**40, 16777217):
        attributes = TABLE.full.bind({"shape": (2, 3), "dtype": dtype})
        result = native(TABLE.full, value, **attributes)
        if result is not NotImplemented:
            answered += 1
            same_bits(evaluate(TABLE.full, (value,), attributes), result)
    assert answered > 0


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.int64], ids=str)
def test_arange_gives_what_the_body_gives(dtype):
    for start, step in [(0, 1), (5, -2), (2**62, 2**61), (16777217, 3), (0.1, 0.7), (-3.0, 1e30)]:
        for size in (0, 1, 7):
            attributes = TABLE.arange.bind({"size": size, "dtype": dtype})
            result = native(TABLE.arange, start, step, **attributes)
            if result is not NotImplemented:
                expected = QUIET.run(evaluate, TABLE.arange, (start, step), attributes)
                same_bits(expected, result)


def test_rows_without_tensors_are_recorded_where_somebody_records():
    seen = []

    def handler(op, inputs, attributes):
        seen.append(op.name)
        return None

    with dispatch.recording(handler):
        assert dj.zeros(2) is None
        assert dj.arange(3) is None
    assert ["full", "arange"] == seen
    assert [0.0, 0.0] == dj.zeros(2).tolist()


def test_gradients_of_gradients_go_through_the_formulas():
    x = dj.randn(3, 4, dtype=dj.float64, requires_grad=True)
    assert dj.autograd.gradgradcheck(lambda v: dj.softmax(v, -1), (x,))
    assert dj.autograd.gradgradcheck(lambda v: dj.nn.functional.layer_norm(v, (4,)), (x,))


def test_writes_to_what_a_slope_needs_are_refused():
    x = dj.randn(3, 4, requires_grad=True)
    out = dj.softmax(x, -1)
    with dj.no_grad():
        out.add_(1.0)
    with pytest.raises(dj.core.errors.AutogradError, match="modified by an inplace operation"):
        out.sum().backward()
