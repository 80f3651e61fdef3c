"""`_rows`: rows run in C by the plans that earlier evaluations left, and views by keys."""

import random
import warnings

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import DivisionError, ShapeError
from dynajit.eager._rows import attempt, get_item, is_free, overwrite
from dynajit.ops import TABLE, Kind
from dynajit.ops.evaluate import evaluate
from dynajit.ops.functions.arrangement import subscript
from dynajit.ops.table.overriding import disabled_torch_function

DTYPES = (dj.float32, dj.float64, dj.int64, dj.bool, dj.bfloat16)
BINARY = [
    op for op in TABLE if op.kind is Kind.POINTWISE and not op.attributes and len(op.inputs) == 2
]


def outcome(call):
    """The result, or the class of the error."""
    try:
        return call()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_results_are_those_of_evaluate(op, dtype):
    x = dj.tensor([[1.5, -2.0, 3.0], [0.0, 4.0, -1.0]]).to(dtype)
    y = dj.tensor([2.0, 3.0, 1.0]).to(dtype)
    zero_dim = dj.tensor(2.0).to(dtype)
    pairs = [(x, y), (x, zero_dim), (zero_dim, zero_dim), (x, 2.5), (3, x), (x.T, x.T), (x, True)]
    for first, second in pairs * 2:  # the second time there is a plan
        arrays = [v.array if isinstance(v, dj.Tensor) else v for v in (first, second)]
        expected = outcome(lambda arrays=arrays: evaluate(op, arrays, {}))
        result = outcome(lambda inputs=(first, second): op(*inputs))
        if isinstance(expected, type):
            assert expected is result
        else:
            assert (expected.shape, expected.dtype) == (tuple(result.shape), result.array.dtype)
            wide = np.float64  # NumPy does not know the NaN of bfloat16
            np.testing.assert_array_equal(expected.astype(wide), result.array.astype(wide))


def test_a_plan_answers_after_the_first_call():
    x = dj.ones(3)
    TABLE.add(x, x)
    assert [2.0, 2.0, 2.0] == attempt(TABLE.add, (x, x), {}).tolist()
    TABLE.add(x, 2)
    assert [3.0, 3.0, 3.0] == attempt(TABLE.add, (x, 2), {}).tolist()


@pytest.mark.parametrize("dtype", [dj.int64, dj.int32, dj.uint8], ids=str)
@pytest.mark.parametrize("number", [0, 3, -1, 300, 2**40 + 5, -(2**63)])
def test_integers_meet_integers_as_in_evaluate(number, dtype):
    x = dj.tensor([0, 3, 255]).to(dtype)
    for op in (TABLE.add, TABLE.eq, TABLE.lt, TABLE.maximum):
        expected = evaluate(op, [x.array, number], {})
        result = attempt(op, (x, number), {})
        assert result is not NotImplemented
        assert expected.dtype == result.array.dtype
        np.testing.assert_array_equal(expected, result.array)
    assert outcome(lambda: x + 2**63) is outcome(lambda: evaluate(TABLE.add, [x.array, 2**63], {}))


def test_numbers_that_a_float_would_round_are_left_to_evaluate():
    x = dj.ones(3, dtype=dj.float64)
    TABLE.add(x, 2)
    assert attempt(TABLE.add, (x, 2**24 + 1), {}) is NotImplemented
    assert attempt(TABLE.add, (x, 2**70), {}) is NotImplemented
    assert attempt(TABLE.add, (x, True), {}) is NotImplemented


def test_a_result_never_is_an_operand():
    x = dj.tensor([True, False])
    for op in (TABLE.logical_or, TABLE.bitwise_or, TABLE.maximum, TABLE.add):
        for _ in range(2):
            assert not np.shares_memory(op(x, x).array, x.array)


def test_errors_keep_their_words():
    x, y, zero = dj.ones(2), dj.ones(3), dj.zeros(2, dtype=dj.int64)
    for _ in range(2):
        x + x, zero // (zero + 1)
        with pytest.raises(ShapeError, match=r"add\(x: float32\[2\], y: float32\[3\]\)"):
            x + y
        with pytest.raises(DivisionError):
            zero // zero


def test_floating_point_exceptions_are_silent():
    x = dj.tensor([1e38, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert [np.inf, 0.0] == (x * 1e38).tolist()
            assert [np.inf, np.inf] == (1.0 / (x * 0)).tolist()
            assert [np.inf, np.inf] == (x + 1e300).tolist()


def test_operands_that_require_a_gradient_are_recorded():
    x = dj.ones(3, requires_grad=True)
    for _ in range(2):
        assert (x + x).grad_fn is not None
        with dj.no_grad():
            assert (x + x).grad_fn is None


CALLS = {
    "sum": (TABLE.sum, {"dim": (0,), "keepdim": False}),
    "sum of all": (TABLE.sum, {"dim": (0, 1), "keepdim": True}),
    "argmax": (TABLE.argmax, {"dim": (1,), "keepdim": False}),
    "any": (TABLE.any, {"dim": (1,), "keepdim": False}),
    "select": (TABLE.select, {"dim": 1, "index": 2}),
    "permute": (TABLE.permute, {"dims": (1, 0)}),
    "reshape": (TABLE.reshape, {"shape": (4, 3)}),
    "flip": (TABLE.flip, {"dims": (0,)}),
    "cast": (TABLE.cast, {"dtype": dj.float64}),
    "detach": (TABLE.detach, {}),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_with_attributes_give_what_evaluate_gives(name, dtype):
    op, attributes = CALLS[name]
    x = dj.tensor([[1.5, -2.0, 3.0], [0.0, 4.0, -1.0], [2.0, 2.0, 0.0], [1.0, 0.0, 1.0]]).to(dtype)
    for operand in (x, x.T.contiguous().T, x[:0], x.T) * 2:
        expected = outcome(lambda operand=operand: evaluate(op, [operand.array], attributes))
        result = outcome(lambda operand=operand: op(operand, **attributes))
        if isinstance(expected, type):
            assert expected is result
            continue
        assert (expected.shape, expected.dtype) == (tuple(result.shape), result.array.dtype)
        assert expected.astype(np.float64).tolist() == result.array.astype(np.float64).tolist()


def test_a_reduction_a_view_and_a_product_are_answered_after_the_first_call():
    x = dj.ones(2, 2)
    for op, inputs, attributes in [
        (TABLE.sum, (x,), {"dim": (0,), "keepdim": False}),
        (TABLE.permute, (x,), {"dims": (1, 0)}),
        (TABLE.matmul, (x, x), {}),
    ]:
        op(*inputs, **attributes)
        assert attempt(op, inputs, attributes) is not NotImplemented


def test_a_class_that_runs_its_operations_itself_is_asked():
    class Loud(dj.Tensor):
        __dynajit_priority__ = 5
        __dynajit_handler__ = staticmethod(lambda op, inputs, attributes: op.name)

    x, loud = dj.ones(2, 2), dj.ones(2, 2).as_subclass(Loud)
    for _ in range(2):
        assert x + x is not None
        assert x.sum() is not None
        assert x + loud == "add"
        assert loud.sum() == "sum"
        assert loud[0] == "select"
        assert TABLE.matmul(x, loud) == "matmul"


def test_subclasses_that_override_nothing_run_as_tensors_do():
    class Named(dj.Tensor):
        __torch_function__ = disabled_torch_function

    x = dj.ones(2, 2)
    x + x
    named = x.as_subclass(Named)
    assert attempt(TABLE.add, (named, x), {}).tolist() == [[2.0, 2.0]] * 2
    assert get_item(named, 0).tolist() == [1.0, 1.0]


def test_attributes_in_another_order_are_left_to_the_row():
    x = dj.ones(2, 2)
    TABLE.select(x, dim=0, index=1)
    assert attempt(TABLE.select, (x,), {"index": 1, "dim": 0}) is NotImplemented
    assert TABLE.select(x, index=1, dim=0).tolist() == [1.0, 1.0]


def test_a_view_made_by_a_plan_knows_its_base():
    base = dj.zeros(2, 3)
    for _ in range(2):
        view = TABLE.permute(base, dims=(1, 0))
        assert view._base is base
        assert view._replay == ((TABLE.permute, {"dims": (1, 0)}),)
        view.add_(1)
    assert base.tolist() == [[2.0] * 3] * 2
    assert base._version == 2


def random_key(rng, shape):
    """A key of integers of many kinds, slices, None and an ellipsis; some are out of range."""

    def made(number):
        kinds = [np.int64, np.int16, np.array, dj.tensor, lambda n: dj.tensor(n, dtype=dj.int8)]
        return rng.choice(kinds)(number) if rng.random() < 0.3 else number

    def bound(size):
        return rng.choice([None, made(rng.randint(-size - 2, size + 2))])

    entries = []
    for size in shape[: rng.randint(0, len(shape))]:
        entries += [None] * (rng.random() < 0.15)
        if rng.random() < 0.45:
            entries.append(made(rng.randint(-size, max(size - (rng.random() < 0.9), -size))))
        else:
            entries.append(slice(bound(size), bound(size), rng.choice([None, 1, 1, 2, 3])))
    if rng.random() < 0.3:
        entries.insert(rng.randint(0, len(entries)), ...)
    return entries[0] if len(entries) == 1 and rng.random() < 0.7 else tuple(entries)


@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_key_gives_the_view_that_its_rows_give(recording, requires_grad):
    rng = random.Random(0)
    answered = 0
    for _ in range(1500):
        shape = tuple(rng.randint(0, 4) for _ in range(rng.randint(0, 4)))
        leaf = dj.from_numpy(np.arange(float(np.prod(shape))).reshape(shape))
        leaf.requires_grad = requires_grad
        key = random_key(rng, shape)
        with dj.set_grad_enabled(recording):
            x = leaf.reshape(shape).transpose(0, -1) if shape and rng.random() < 0.5 else leaf
            expected = outcome(lambda x=x, key=key: subscript.get_item(x, key))
            result = get_item(x, key)
        if isinstance(expected, type):
            assert result is NotImplemented, key
        elif result is not NotImplemented:
            answered += 1
            assert result.shape == expected.shape, key
            assert result.tolist() == expected.tolist(), key
            assert result._base is expected._base, key
            assert result._replay == expected._replay, key
            assert result.requires_grad == expected.requires_grad, key
            assert result._storage is x._storage
            assert result.array.flags.writeable == x.array.flags.writeable
            assert result.is_contiguous() == expected.is_contiguous()
    assert answered > 500


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_index_tensor_gives_what_its_row_gives(dtype):
    x = dj.arange(12).reshape(4, 3).to(dtype)
    for operand in (x, x.T, x[:, 1], x[:0], x[:, :0]):
        for positions in ([0], [2, -1, 0], [[0, 1], [1, -2]], [4], [-5], []):
            key = dj.tensor(positions, dtype=dj.int64)
            expected = outcome(lambda x=operand, key=key: subscript.get_item(x, key))
            result = outcome(lambda x=operand, key=key: x[key])
            if isinstance(expected, type):
                assert expected is result
            else:
                assert (expected.shape, expected.dtype) == (result.shape, result.dtype)
                assert expected.tolist() == result.tolist()
                assert result._base is None


@pytest.mark.parametrize("key", [True, 1.0, (0, [1]), slice(None, None, -1), slice(0.5, 2), [0]])
def test_other_keys_are_left_to_the_rows(key):
    assert get_item(dj.ones(2, 3), key) is NotImplemented


def test_an_index_may_give_the_tensor_other_memory():
    class Index:
        def __index__(self):
            x.data = dj.ones(1)
            return 1

    x = dj.arange(100_000.0)

    assert list(range(1, 100_000)) == x[Index() :].tolist()


def test_the_gradient_of_a_view_by_a_key_reaches_what_it_selects():
    x = dj.zeros(3, 4, requires_grad=True)
    (x[1].sum() + x[:, 2:].sum() + x[0, 1:3].sum() + x[..., None, 0].sum()).backward()
    assert x.grad.tolist() == [[1, 1, 2, 1], [2, 1, 2, 2], [1, 0, 1, 1]]


@pytest.mark.parametrize("shape", [(5,), (3, 4), (0, 2)])
def test_a_mask_of_all_elements_takes_those_where_it_holds(shape):
    x = dj.randn(*shape)
    mask = x > 0
    result = get_item(x, mask)
    assert result.array.base is None
    np.testing.assert_array_equal(x.numpy()[mask.numpy()], result.numpy())
    assert get_item(dj.randn(2, 3), dj.ones(2) > 0) is NotImplemented
    assert get_item(dj.randn(4, 3).T, dj.ones(3, 4) > 0) is NotImplemented


def test_a_read_only_array_gives_read_only_views():
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    view = get_item(dj.Tensor._from_array(array), slice(1, None))
    assert not view.array.flags.writeable


@pytest.mark.parametrize(
    "layout", ["plain", "transposed", "read_only", "recorded", "expanded", "view"]
)
def test_only_a_plain_write_without_a_tape_is_free(layout):
    tensor = dj.ones(2, 3)
    with dj.no_grad():
        if layout == "transposed":
            tensor = tensor.t()
        elif layout == "read_only":
            tensor.array.flags.writeable = False
        elif layout == "expanded":
            tensor = dj.ones(1).expand(3)
        elif layout == "view":
            tensor = tensor[1]
        elif layout == "recorded":
            tensor.requires_grad_()
        with dj.enable_grad():
            assert is_free(tensor, (1.0,), {}) is (layout in ("plain", "view"))
        assert is_free(tensor, (1.0,), {}) is (layout in ("plain", "view", "recorded"))


def test_no_write_that_the_tape_has_to_know_is_free():
    tensor, leaf = dj.ones(2, 3), dj.ones(3, requires_grad=True)
    assert not is_free(tensor, (leaf,), {})
    assert not is_free(tensor, (), {"alpha": leaf})
    assert not is_free((leaf * 1.0)[0:2], (), {})
    with dj.no_grad():
        assert is_free(tensor, (leaf,), {"alpha": leaf})
    assert not overwrite(leaf.detach(), leaf * 1.0)


def test_overwriting_counts_and_wants_the_same_shape_and_dtype():
    tensor, view = dj.ones(2, 3), None
    view = tensor[0]
    version = tensor._version

    assert not overwrite(tensor, dj.ones(3))
    assert not overwrite(tensor, dj.ones(2, 3, dtype=dj.float64))
    assert not overwrite(tensor, 3)
    assert version == tensor._version
    assert overwrite(tensor, dj.full((2, 3), 5.0))
    assert version + 1 == tensor._version == view._version
    assert [5.0, 5.0, 5.0] == view.tolist()


@pytest.mark.parametrize("dtype", [dj.float32, dj.int64, dj.bfloat16], ids=str)
def test_writes_without_a_tape_are_those_with_one(dtype):
    """Numbers, broadcasts, overlapping operands, results of another dtype, refusals."""
    written = (
        lambda x: x.add_(1),
        lambda x: x.mul_(x),
        lambda x: x.add_(x[:, :1]),
        lambda x: x.t().add_(2),
        lambda x: x[1].sub_(x[0]),
        lambda x: x.lt_(2),
        lambda x: x.add_(dj.ones(4, 2, 3)),
        lambda x: x.add_(dj.ones(2, 3, dtype=dj.float64)),
        lambda x: x.mul_(2.5),
        lambda x: x.__iadd__(3),
    )
    for write in written:
        found = []
        for enabled in (True, False):
            x = dj.arange(6).reshape(2, 3).to(dtype)
            with dj.set_grad_enabled(enabled):
                result = outcome(lambda write=write, x=x: write(x))
            kept = result if isinstance(result, type) else result.tolist()
            found.append((x.tolist(), kept, x._version))
        assert found[0] == found[1]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_products_of_matrices_are_those_of_their_stacks(dtype):
    """Two matrices take another function of NumPy's than stacks of them."""
    random_numbers = np.random.default_rng(0)
    for rows, inner, columns in ((1, 1, 1), (3, 4, 5), (0, 4, 5), (3, 0, 5), (1, 7, 1), (16, 1, 3)):
        x = dj.from_numpy(random_numbers.integers(-3, 4, (rows, inner))).to(dtype)
        y = dj.from_numpy(random_numbers.integers(-3, 4, (columns, inner))).to(dtype).t()
        for _ in range(2):
            found = x @ y
            assert (x[None] @ y[None])[0].tolist() == found.tolist()
            assert (rows, columns) == tuple(found.shape)
            assert found.dtype is dtype
