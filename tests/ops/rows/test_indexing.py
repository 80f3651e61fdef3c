"""`x[key]`, assignment and the gathers and scatters agree with PyTorch, forward and backward."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import (
    ArgumentError,
    BoundsError,
    DTypeError,
    InternalError,
    ShapeError,
)
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.eager import tensor
from dynajit.ir.graph import Builder
from dynajit.ops import TABLE, functions
from dynajit.ops.functions.arrangement import subscript
from dynajit.ops.table import dispatch
from tests.support.rows.compare import (
    DYNAJIT,
    TORCH,
    agree,
    assert_same,
    numbers,
    to_dynajit,
    to_torch,
    torch,
)

X = np.random.default_rng(0).standard_normal((4, 3, 5)).astype(np.float32)
I2 = np.array([[0, 2], [1, -1]])
I3 = np.array([2, 0, 1])
MASK = X > 0
ROW_MASK = np.array([True, False, True, True])

KEYS = {
    "integer": lambda t: 1,
    "negative": lambda t: -1,
    "integers": lambda t: (1, 2, 3),
    "slice": lambda t: slice(1, 3),
    "slice_step": lambda t: (slice(None, None, 2), slice(1, None), slice(-2, None)),
    "slice_beyond": lambda t: slice(2, 99),
    "slice_empty": lambda t: slice(3, 1),
    "slice_negative": lambda t: slice(-3, -1),
    "ellipsis": lambda t: (..., 0),
    "ellipsis_middle": lambda t: (0, ..., slice(1, 3)),
    "none": lambda t: None,
    "nones": lambda t: (None, slice(None), None, 1, ..., None),
    "everything": lambda t: slice(None),
    "only_ellipsis": lambda t: ...,
    "index": lambda t: t.tensor(I3),
    "index_2d": lambda t: t.tensor(I2),
    "index_negative": lambda t: t.tensor([-1, 0]),
    "list": lambda t: [2, 0],
    "list_second": lambda t: (slice(None), [2, 0]),
    "nested_list_in_tuple": lambda t: ([[0, 1], [2, 1]],),
    "two_adjacent": lambda t: (t.tensor([0, 3]), t.tensor([2, 1])),
    "two_adjacent_later": lambda t: (slice(None), t.tensor([0, 2]), t.tensor([4, 1])),
    "two_apart": lambda t: (t.tensor([0, 3]), slice(None), t.tensor([2, 1])),
    "two_broadcast": lambda t: (t.tensor([[0], [3]]), slice(None), t.tensor([2, 1, 0])),
    "three": lambda t: (t.tensor([0, 1]), t.tensor([1, 2]), t.tensor([3, 4])),
    "index_and_slice": lambda t: (slice(1, 3), t.tensor([0, 0, 1]), slice(None, None, 2)),
    "index_and_integer": lambda t: (t.tensor([0, 2]), 1),
    "integer_between": lambda t: (slice(None), 1, t.tensor([0, 2])),
    "integer_then_index": lambda t: (0, slice(None), t.tensor([1, 3])),
    "index_and_none": lambda t: (t.tensor([0, 2]), None),
    "none_between": lambda t: (t.tensor([0, 2]), None, t.tensor([1, 1])),
    "zero_dim": lambda t: t.tensor(2),
    "zero_dim_apart": lambda t: (t.tensor(2), slice(None), t.tensor([0, 1])),
    "zero_dim_two": lambda t: (t.tensor(2), slice(None), t.tensor(-1)),
    "int32": lambda t: t.tensor(np.array([1, 0], np.int32)),
    "mask": lambda t: t.tensor(MASK),
    "mask_rows": lambda t: t.tensor(ROW_MASK),
    "mask_leading": lambda t: t.tensor(MASK[..., 0]),
    "mask_second": lambda t: (slice(None), t.tensor([True, False, True])),
    "mask_and_index": lambda t: (t.tensor(ROW_MASK), t.tensor([0, 1, 2])),
    "mask_none": lambda t: t.tensor(np.zeros(4, bool)),
    "mask_list": lambda t: [True, False, True, False],
    "empty_list": lambda t: [],
    "true": lambda t: True,
    "false": lambda t: False,
    "truths": lambda t: (True, 0, False),
    "true_later": lambda t: (..., True),
    "true_apart": lambda t: (True, slice(None), t.tensor([0, 2])),
    "true_and_integer": lambda t: (1, True),
    "zero_dim_true": lambda t: t.tensor(True),
    "zero_dim_false": lambda t: (slice(None), t.tensor(False)),
    "zero_dim_true_and_index": lambda t: (t.tensor([3, 0]), t.tensor(True)),
    "zero_dim_both": lambda t: (t.tensor(2), t.tensor(True), None),
    "zero_dim_true_and_mask": lambda t: (t.tensor(ROW_MASK), slice(None), t.tensor(True)),
}


@pytest.mark.parametrize("name", KEYS)
def test_reading_agrees_with_pytorch(name):
    agree(lambda t, x: x[KEYS[name](t)], X)


def _assigned(t, x, key, value):
    if t is DYNAJIT:
        return subscript.set_item(x, key, value)
    x = x.clone()
    x[key] = value
    return x


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("kind", ["number", "tensor", "zero_dim"])
def test_assigning_agrees_with_pytorch(name, kind):
    shape = numbers(TORCH.tensor(X)[KEYS[name](TORCH)]).shape
    # Distinct targets only: the order of repeated writes is not defined in PyTorch.
    if name in ("index_and_slice",):
        return
    values = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    if kind == "number":
        agree(lambda t, x: _assigned(t, x, KEYS[name](t), 2.5), X)
    elif kind == "tensor":
        agree(lambda t, x, v: _assigned(t, x, KEYS[name](t), v), X, values)
    else:
        agree(lambda t, x, v: _assigned(t, x, KEYS[name](t), v), X, np.float32(7))


@pytest.mark.parametrize(
    "key", [(slice(1, None), [0, 2]), (slice(None), [0, 2, 1], slice(2)), ([1, 3], slice(1, None))]
)
def test_chosen_elements_are_row_major(key):
    """As PyTorch's: they may be viewed in another shape."""
    ours, theirs = (
        x[tuple(library.tensor(k) if isinstance(k, list) else k for k in key)]
        for library, x in ((dj, dj.tensor(X)), (torch, torch.tensor(X)))
    )

    assert theirs.stride() == ours.stride()
    np.testing.assert_array_equal(theirs.view(-1), ours.view(-1))


def test_assigned_values_broadcast_and_are_cast():
    agree(lambda t, x, v: _assigned(t, x, (slice(1, 3), ..., 0), v), X, X[0, :, 0])
    agree(
        lambda t, x, v: _assigned(t, x, slice(1, 3), v),
        X,
        X[None, :1].astype(np.float64),
        tolerance=1e-6,
    )
    agree(lambda t, x: _assigned(t, x, 0, True), np.arange(6).reshape(2, 3))


EXPRESSIONS = {
    "gather": lambda t, x, i: x.gather(1, i),
    "gather_last": lambda t, x, i: t.gather(x, -1, i),
    "scatter": lambda t, x, i: t.scatter(x, 0, i[:2, :, :2], x[:2, :, :2] * 2),
    "scatter_number": lambda t, x, i: x.scatter(1, i, 1.5),
    "scatter_multiply": lambda t, x, i: (
        t.scatter(x.detach(), 1, i, x.detach() * 2, reduce="multiply"),
        x.detach().scatter(1, i, 1.5, reduce="multiply"),
        x.detach().clone().scatter_(1, i, -1.5, reduce="multiply"),
    ),
    "scatter_add": lambda t, x, i: x.scatter_add(1, i, x * 2),
    "index_select": lambda t, x, i: x.index_select(1, i[:, 0, 0]),
    "index_select_function": lambda t, x, i: t.index_select(x, 0, i[0, 0]),
    "index_add": lambda t, x, i: x.index_add(2, i[0, 0], x * 2),
    "index_add_alpha": lambda t, x, i: x.index_add(2, i[0, 0], x, alpha=-0.5),
    "index_copy": lambda t, x, i: t.index_copy(x, 0, t.tensor([2, 0]), x[:2] * 3),
    "index_fill": lambda t, x, i: x.index_fill(1, t.tensor([0, 2]), 4.0),
    "index_fill_twice": lambda t, x, i: x.index_fill(1, t.tensor([0, 2, 0]), x[0, 0, 0] * 3),
    "index_put": lambda t, x, i: x.index_put((t.tensor([0, 1]), t.tensor([2, 1])), x[0, :1]),
    "index_put_add": lambda t, x, i: x.index_put(
        (t.tensor([1, 1]), t.tensor([2, 2])), x[0, :2], accumulate=True
    ),
    "index_put_masks": lambda t, x, i: (
        x.index_put((i > 1,), t.tensor(3.0)),
        t.index_put(x, (t.tensor([True, False, True, False]),), x[0] * 2),
        x.index_put((t.tensor([0]), t.tensor([True, False, True])), x[0, :2], accumulate=True),
    ),
    "take": lambda t, x, i: t.take(x, i[0]),
    "take_along_dim": lambda t, x, i: t.take_along_dim(x, i[:1], 1),
    "take_along_dim_from_end": lambda t, x, i: t.take_along_dim(x, i[:1] - 3, 1),
    "take_along_dim_flat": lambda t, x, i: t.take_along_dim(x, i),
    "masked_fill": lambda t, x, i: x.masked_fill(i > 0, float("-inf")),
    "masked_fill_tensor": lambda t, x, i: x.masked_fill(i[0] > 0, t.tensor(2.0)),
    "masked_select": lambda t, x, i: t.masked_select(x, i > 0),
    "where": lambda t, x, i: t.where(i > 0, x, 0.0),
    "where_method": lambda t, x, i: x.where(i > 0, x * 2),
    "where_positions": lambda t, x, i: t.where(i > 0),
    "nonzero": lambda t, x, i: (i > 1).nonzero(),
    "nonzero_zero_dim": lambda t, x, i: i[0, 0, 0].nonzero(),
    "argwhere": lambda t, x, i: t.argwhere(i),
    "embedding": lambda t, x, i: t.F.embedding(i, x[0]),
    "embedding_padding": lambda t, x, i: t.F.embedding(i, x[0], padding_idx=-1),
    "one_hot": lambda t, x, i: t.F.one_hot(i, 5),
    "one_hot_inferred": lambda t, x, i: t.F.one_hot(i),
    "repeat_interleave_of_nothing": lambda t, x, i: t.repeat_interleave(
        x[:0], t.tensor([], dtype=t.int64), 0
    ),
    "repeat_interleave_counts": lambda t, x, i: t.repeat_interleave(x, t.tensor([0, 2, 1]), 1),
}


@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter")
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_gathers_and_scatters_agree_with_pytorch(name):
    i = np.random.default_rng(5).integers(0, 3, X.shape)
    agree(EXPRESSIONS[name], X, i)


def test_zero_dim_operands_gather():
    agree(lambda t, x: x.gather(0, t.tensor(0)), np.float32(3))


@pytest.mark.filterwarnings("ignore:index_reduce")
def test_positions_in_tensors_without_dims():
    def run(t, x, y):
        first, one = t.tensor([0]), t.tensor(0)
        return [
            call
            for index in (first, one)
            for call in (
                x.index_select(0, index),
                t.index_fill(x, 0, index, 7.0),
                x.index_fill(-1, index, y),
                t.index_copy(x, 0, index, y),
                x.index_add(0, index, y, alpha=2),
                x.index_reduce(0, index, y, "prod"),
                x.index_reduce(0, index, y, "amax", include_self=False),
            )
        ]

    agree(run, np.float32(3), np.float32(2))
    x, y = tensor(np.float32(3)), tensor(np.float32(2))
    compiled = dj.compile(lambda x, y: run(dj, x, y), fullgraph=True)
    assert [r.tolist() for r in compiled(x, y)] == [r.tolist() for r in run(dj, x, y)]
    with pytest.raises(ShapeError, match="Expected one"):
        x.index_select(0, dj.tensor([0, 0]))
    with pytest.raises(ShapeError, match="Expected a zero-dim source"):
        x.index_add(0, dj.tensor([0]), dj.ones(1))


def test_scatters_of_every_dtype():
    for dtype in (np.int64, np.float16, np.float64):
        x = np.arange(6).reshape(2, 3).astype(dtype)
        agree(lambda t, x: x.scatter_add(0, t.tensor([[0, 0, 0], [0, 1, 0]]), x), x)


def test_out_of_range_indices_are_refused_with_their_value():
    x = tensor(X)
    with pytest.raises(BoundsError, match="index 9 is out of bounds for dimension 0 with size 4"):
        x[9]
    with pytest.raises(BoundsError, match="index 7 is out of range"):
        x[tensor([0, 7])]
    with pytest.raises(BoundsError, match="index -1 is out of range"):
        x.gather(0, tensor(np.full((1, 1, 1), -1)))
    with pytest.raises(BoundsError, match="index 4"):
        functions.index_select(x, 0, tensor([4]))
    with pytest.raises(BoundsError, match="index -1"):
        TABLE.embedding(x[0], tensor([-1]))
    with pytest.raises(BoundsError, match="index 3"):
        x.scatter_add(1, tensor(np.full((1, 1, 1), 3)), x)
    with pytest.raises(BoundsError, match="too many indices"):
        x[0, 0, 0, 0]


@pytest.mark.parametrize(
    "classes, count", [([0, 3], 2), ([0, -1], 2), ([0, -1], -1), ([], -1), ([0], 0)]
)
def test_classes_that_one_hot_refuses_are_those_pytorch_refuses(classes, count):
    given = np.array(classes, np.int64)
    with pytest.raises(RuntimeError) as expected:
        TORCH.F.one_hot(TORCH.tensor(given), count)
    with pytest.raises(RuntimeError, match=str(expected.value).rstrip(".")):
        DYNAJIT.F.one_hot(tensor(given), count)


def test_one_hot_of_nothing_has_the_classes_that_are_asked_for():
    assert (0, 3) == DYNAJIT.F.one_hot(tensor(np.zeros(0, np.int64)), 3).shape


LISTS = {
    "slices": lambda t: [slice(0, 2), 1],
    "one slice": lambda t: [slice(0, 2)],
    "lists": lambda t: [[0, 1], [1, 2]],
    "one list": lambda t: [[0, 1]],
    "a list of lists": lambda t: [[[0, 1], [1, 2]], 0],
    "tensors": lambda t: [t.tensor([0, 1]), t.tensor([1, 2])],
    "zero-dim tensors": lambda t: [t.tensor(0), t.tensor(1)],
    "a number and a tensor": lambda t: [0, t.tensor(1)],
    "None": lambda t: [None, 0],
    "an ellipsis": lambda t: [Ellipsis, 0],
    "a mask": lambda t: [[True, False, True, False]],
    "tuples": lambda t: [(0, 1), (1, 2)],
    "ranges": lambda t: [range(2), range(2)],
    "nothing": lambda t: [[]],
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_more_than_numbers_is_taken_for_a_tuple(name):
    """With a warning, as in PyTorch."""

    def read(t, x):
        return x[LISTS[name](t)]

    def write(t, x):
        x[LISTS[name](t)] = -1.0
        return x

    for use in (read, write):
        with pytest.warns(UserWarning, match="deprecated"):
            expected = use(torch, torch.arange(60.0).reshape(4, 3, 5))
        with pytest.warns(UserWarning, match="deprecated"):
            found = use(dj, dj.arange(60.0).reshape(4, 3, 5))
        with pytest.warns(UserWarning, match="deprecated"):
            compiled = dj.compile(lambda x, use=use: use(dj, x) + 0)
            again = compiled(dj.arange(60.0).reshape(4, 3, 5))
        assert expected.tolist() == found.tolist() == again.tolist()


@pytest.mark.parametrize("key", [[0, 2], [True, False, True, False], [[0, 1]] * 32, []])
def test_other_lists_are_index_tensors(key):
    expected = torch.arange(12.0).reshape(4, 3)[key]
    assert expected.tolist() == dj.arange(12.0).reshape(4, 3)[key].tolist()


def test_wrong_keys_are_refused():
    x = tensor(X)
    with pytest.raises(BoundsError, match="must be long, int, byte or bool"):
        x[tensor([0.5])]
    with pytest.raises(ArgumentError, match="step must be positive"):
        x[::-1]
    with pytest.raises(BoundsError, match="shape of the mask"):
        x[tensor([True, False])]
    with pytest.raises(BoundsError, match="nothing can follow the second"):
        x[..., ..., 0]
    with pytest.raises(ArgumentError, match="integer"):
        x["a"]
    with pytest.raises(ShapeError, match="broadcast"):
        subscript.set_item(x, 0, tensor(np.zeros(7, np.float32)))
    with pytest.raises(DTypeError, match="boolean mask"):
        x.masked_fill(tensor(np.ones((4, 3, 5), np.int64)), 0)
    with pytest.raises(DTypeError, match="to be equal to src"):
        x.scatter_add(0, tensor(np.zeros((1, 1, 1), np.int64)), x.double())
    with pytest.raises(ShapeError, match="no larger than x"):
        x.gather(0, tensor(np.zeros((5, 9, 5), np.int64)))


def test_a_mask_assignment_of_one_value_records_without_contents():
    builder = Builder()
    x = builder.placeholder("x", TensorType((4, 3), dtypes.float32))
    mask = builder.placeholder("mask", TensorType((4, 3), dtypes.bool_))
    with dispatch.recording(builder.handle):
        changed = subscript.set_item(x, mask, 0.0)
    graph = builder.finish([changed])
    assert "where" in [node.op.name for node in graph.calls]


def test_all_index_dtypes_are_accepted():
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        index = np.array([1, 0], dtype)
        assert_same(to_torch(X, False)[[1, 0]], to_dynajit(X, False)[tensor(index)])


def test_a_list_of_integers_records_a_constant():
    builder = Builder()
    x = builder.placeholder("x", TensorType((4, 3), dtypes.float32))
    with dispatch.recording(builder.handle):
        assert x[[0, 2]].shape == (2, 3)


def test_reading_through_a_recorded_mask_asks_for_its_contents():
    builder = Builder()
    x = builder.placeholder("x", TensorType((4, 3), dtypes.float32))
    with (
        dispatch.recording(builder.handle),
        pytest.raises(InternalError, match="its contents"),
    ):
        x[x > 0]


@pytest.mark.filterwarnings("ignore:indexing with dtype")
@pytest.mark.parametrize(
    "key",
    [
        lambda t: t.tensor([1, 0, 0, 1], dtype=t.uint8),
        lambda t: (slice(None), t.tensor([0, 1, 1], dtype=t.uint8), 2),
        lambda t: t.tensor(MASK.astype(np.uint8)),
        lambda t: np.array([0, 1, 1, 0], np.uint8),
    ],
)
def test_bytes_are_masks(key):
    agree(lambda t, x: x[key(t)], X)
    agree(lambda t, x: _assigned(t, x, key(t), x[key(t)] * 2 - 1), X)


def test_masks_of_bytes_warn_and_are_known_to_compiled_functions():
    x, mask = tensor(X), tensor(ROW_MASK.astype(np.uint8))
    with pytest.warns(UserWarning, match="uint8 is deprecated"):
        assert (3, 3, 5) == tuple(x[mask].shape)
    compiled = dj.compile(lambda x, mask: x[mask] * 2)
    for chosen in (ROW_MASK, ~ROW_MASK, ROW_MASK & False):
        with pytest.warns(UserWarning, match="uint8 is deprecated"):
            assert_same(
                to_torch(X[chosen] * 2, False), compiled(x, tensor(chosen.astype(np.uint8)))
            )


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        (lambda m: m[:, 0, 0], (4,)),
        (lambda m: m[..., 0], (4, 3)),
        (lambda m: m, (4, 3, 5)),
        (lambda m: (slice(None), m[0, :, 0]), (3,)),
        (lambda m: (slice(None), m[0]), (3, 5)),
    ],
)
def test_values_are_assigned_to_masks_without_a_break(key, shape):
    """As many as the mask has places: more or fewer are refused by plain Python."""
    pytest.importorskip("torch")
    mask = np.random.default_rng(1).random(X.shape) < 0.6
    chosen = X[key(mask)]
    lead = 1 if isinstance(key(mask), tuple) else 0
    values = np.cos(np.arange(chosen.size, dtype=np.float32)).reshape(chosen.shape)

    def run(t, x, mask, values):
        x = x * 2
        x[key(mask)] = values
        return x * x

    agree(
        lambda t, x, values: (dj.compile(run, fullgraph=True) if t is DYNAJIT else run)(
            t, x, t.tensor(mask), values
        ),
        X,
        values,
    )
    more = np.concatenate([values, values], lead)
    for function in (run, dj.compile(run)):
        with pytest.raises(RuntimeError, match=r"shape mismatch|cannot assign"):
            function(dj, tensor(X), tensor(mask), tensor(more))
