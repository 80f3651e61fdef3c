"""Views, joins and copies agree with PyTorch, forward and backward."""

import numpy as np
import pytest

from dynajit.core.errors import ArgumentError, BoundsError, ShapeError
from dynajit.core.types.symint import symbol
from dynajit.eager import tensor
from dynajit.ops import TABLE, Kind, functions
from dynajit.ops.evaluate import evaluate
from dynajit.ops.rows.movement import matching_groups
from tests.support.rows.compare import agree

X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
ROWS = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)

VIEWS = {
    "view": lambda t, x: x.view(6, 4),
    "view_minus_one": lambda t, x: x.view(2, -1),
    "view_tuple": lambda t, x: x.view((4, 6)),
    "reshape_method": lambda t, x: x.reshape(-1),
    "reshape_function": lambda t, x: t.reshape(x, (3, 8)),
    "reshape_of_transpose": lambda t, x: x.transpose(0, 2).reshape(8, 3),
    "view_as": lambda t, x: x.view_as(x.reshape(4, 6)),
    "flatten": lambda t, x: t.flatten(x),
    "flatten_some": lambda t, x: x.flatten(1),
    "flatten_negative": lambda t, x: x.flatten(0, -2),
    "unflatten": lambda t, x: x.unflatten(2, (2, -1)),
    "squeeze_all": lambda t, x: x[:1, :, :1].squeeze(),
    "squeeze_dim": lambda t, x: x[:1].squeeze(0),
    "squeeze_not_one": lambda t, x: x.squeeze(1),
    "squeeze_dims": lambda t, x: x[:1, :, :1].squeeze((0, 2)),
    "unsqueeze": lambda t, x: x.unsqueeze(-1),
    "unsqueeze_front": lambda t, x: t.unsqueeze(x, 0),
    "permute": lambda t, x: x.permute(2, 0, 1),
    "permute_tuple": lambda t, x: t.permute(x, (1, -1, 0)),
    "transpose": lambda t, x: x.transpose(1, -1),
    "t": lambda t, x: x[0].t(),
    "T": lambda t, x: x[0].T,
    "mT": lambda t, x: x.mT,
    "movedim": lambda t, x: t.movedim(x, 0, -1),
    "movedim_two": lambda t, x: t.movedim(x, (0, 1), (2, 0)),
    "expand": lambda t, x: x[:1].expand(5, -1, 4),
    "expand_new_dim": lambda t, x: x.expand(2, 2, 3, 4),
    "expand_as": lambda t, x: x[0].expand_as(x),
    "broadcast_to": lambda t, x: t.broadcast_to(x[:, :1], (2, 3, 4)),
    "broadcast_tensors": lambda t, x: t.broadcast_tensors(x[0], x[:, :1]),
    "narrow": lambda t, x: x.narrow(1, 1, 2),
    "narrow_negative": lambda t, x: x.narrow(-1, -3, 2),
    "select": lambda t, x: x.select(1, -1),
    "chunk": lambda t, x: x.chunk(3, dim=-1),
    "chunk_few": lambda t, x: t.chunk(x, 5, dim=2),
    "split": lambda t, x: x.split(2, dim=1),
    "split_sizes": lambda t, x: t.split(x, [1, 3], dim=-1),
    "unbind": lambda t, x: x.unbind(1),
    "diagonal": lambda t, x: x.diagonal(0, 1, 2),
    "diagonal_above": lambda t, x: t.diagonal(x, 2, -2, -1),
    "diagonal_below": lambda t, x: t.diagonal(x, -1, 2, 1),
    "diagonal_outside": lambda t, x: t.diagonal(x, 9, 1, 2),
    "unfold": lambda t, x: x.unfold(2, 2, 1),
    "unfold_step": lambda t, x: x.unfold(1, 2, 2),
}
COPIES = {
    "flip": lambda t, x: x.flip(0, 2),
    "flip_tuple": lambda t, x: t.flip(x, dims=(-1,)),
    "roll": lambda t, x: t.roll(x, 1, 2),
    "roll_two": lambda t, x: x.roll((1, -1), (0, 1)),
    "roll_flat": lambda t, x: x.roll(5),
    "roll_without_dims": lambda t, x: x.roll(5, ()),
    "repeat": lambda t, x: x.repeat(2, 1, 3, 1),
    "tile": lambda t, x: x.tile((2,)),
    "repeat_interleave": lambda t, x: x.repeat_interleave(3, dim=1),
    "repeat_interleave_flat": lambda t, x: t.repeat_interleave(x, 2),
    "cat": lambda t, x: t.cat([x, x[:, :1]], dim=1),
    "cat_negative": lambda t, x: t.cat((x, x, x), -1),
    "cat_empty": lambda t, x: t.cat([t.zeros(0), x[0, 0]]),
    "cat_promotes": lambda t, x: t.cat([x, t.ones(1, 3, 4, dtype=t.float64)]),
    "stack": lambda t, x: t.stack([x, x * 2], dim=1),
    "stack_last": lambda t, x: t.stack([x, x], -1),
    "hstack": lambda t, x: t.hstack([x, x]),
    "vstack": lambda t, x: t.vstack([x[0, 0], x[0, 1]]),
    "tril": lambda t, x: x.tril(),
    "tril_diagonal": lambda t, x: t.tril(x, -1),
    "triu": lambda t, x: t.triu(x, diagonal=1),
    "diag_of_matrix": lambda t, x: t.diag(x[0], 1),
    "diag_of_vector": lambda t, x: t.diag(x[0, 0]),
    "diag_of_vector_below": lambda t, x: t.diag(x[0, 0], -2),
    "clone": lambda t, x: x.clone(),
    "contiguous": lambda t, x: x.transpose(0, 1).contiguous(),
    "detach": lambda t, x: x.detach() * x,
    "pad": lambda t, x: t.F.pad(x, (1, 2)),
    "pad_two_dims": lambda t, x: t.F.pad(x, (1, 0, 0, 2), value=3.5),
    "pad_negative": lambda t, x: t.F.pad(x, (-1, 2, 1, -1)),
    "pad_reflect": lambda t, x: t.F.pad(x, (2, 1), mode="reflect"),
    "pad_replicate": lambda t, x: t.F.pad(x, (2, 3), mode="replicate"),
    "pad_circular": lambda t, x: t.F.pad(x, (3, 1), mode="circular"),
    "pad_circular_cut": lambda t, x: t.F.pad(x, (-1, 2), mode="circular"),
    "pad_circular_cut_behind": lambda t, x: t.F.pad(x, (2, -2), mode="circular"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_agree_with_pytorch(name):
    agree(VIEWS[name], X)


@pytest.mark.parametrize("name", COPIES)
def test_copies_agree_with_pytorch(name):
    agree(COPIES[name], X)


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory(name):
    x = tensor(X)
    if name in ("reshape_of_transpose", "diagonal_outside"):
        return
    from tests.support.rows import compare

    for view in compare.outputs_of(VIEWS[name](compare.DYNAJIT, x)):
        assert np.shares_memory(view.array, x.array)


@pytest.mark.parametrize("dtype", [np.int64, np.bool_, np.float16])
def test_any_dtype_moves(dtype):
    data = np.arange(12).reshape(3, 4).astype(dtype)
    agree(lambda t, x: t.cat([x.T.flip(0), x.T.tril()], 1), data)


def test_a_shape_that_does_not_fit_says_so():
    with pytest.raises(ShapeError, match=r"shape '\[3, 5\]' is invalid for input of size 8"):
        tensor(np.zeros(8)).view(3, 5)
    with pytest.raises(ShapeError, match=r"shape '\[3, -1\]' is invalid for input of size 8"):
        tensor(np.zeros(8)).view(3, -1)
    with pytest.raises(ShapeError, match="only one dimension can be inferred"):
        tensor(np.zeros(8)).view(-1, -1)
    with pytest.raises(ShapeError, match="ambiguous"):
        tensor(np.zeros((0, 2))).view(0, -1)


def test_refusals_name_what_is_wrong():
    x = tensor(X)
    with pytest.raises(ShapeError, match="existing size at non-singleton"):
        x.expand(2, 5, 4)
    with pytest.raises(BoundsError, match=r"\[-3, 2\]"):
        x.transpose(0, 3)
    with pytest.raises(ShapeError, match="number of dimensions"):
        x.permute(0, 1)
    with pytest.raises(BoundsError, match="exceeds dimension size"):
        x.narrow(0, 1, 2)
    with pytest.raises(ShapeError, match="must match except in dimension 0"):
        functions.cat([x, x[:, :1]])
    with pytest.raises(ShapeError, match="equal size"):
        functions.stack([x, x[:, :1]])
    with pytest.raises(ShapeError, match="non-empty"):
        functions.cat([])
    with pytest.raises(ShapeError, match="zero-dimensional"):
        functions.cat([x.sum(), x.sum()])
    with pytest.raises(ShapeError, match="sum exactly to 3"):
        x.split([1, 1], dim=1)
    with pytest.raises(ArgumentError, match="must be a tensor"):
        functions.cat([x, 3])


@pytest.mark.parametrize(
    ("old", "new"),
    [((2, 3), (6,)), ((6,), (2, 3)), ((2, 3, 4), (6, 4)), ((4, 6), (2, 2, 3, 2)), ((1, 3), (3,)),
     ((3,), (3, 1, 1)), ((0, 3), (3, 0)), ((), (1, 1)), ((2, 6), (3, 4)), ((2, 1, 5), (2, 5))],
)  # fmt: skip
def test_reshape_groups_have_equal_products(old, new):
    groups = matching_groups(old, new)
    for a, b, c, d in groups:
        assert np.prod(old[a:b]) == np.prod(new[c:d])
    assert sum(b - a for a, b, _, _ in groups) == len(old)
    assert sum(d - c for _, _, c, d in groups) == len(new)


def test_reshape_groups_keep_symbolic_sizes_apart():
    n = symbol("n", 1)
    assert matching_groups((n, 3, 4), (n, 12)) == [(0, 1, 0, 1), (1, 3, 1, 2)]
    assert matching_groups((n * 4, 3), (n, 4, 3)) == [(0, 1, 0, 2), (1, 2, 2, 3)]


def test_a_symbolic_size_can_be_inferred():
    n = symbol("n", 1)
    from dynajit.core.types import dtypes
    from dynajit.core.types.value_types import TensorType
    from dynajit.ir.graph import Builder

    x = Builder().placeholder("x", TensorType((n, 3, 4), dtypes.float32))
    assert x.view(n, -1).shape == (n, 12)
    assert x.flatten(0, 1).shape == (n * 3, 4)
    assert x[:, 1:].sum(-1).shape == (n, 2)


def test_slice_scatter_is_differentiable_in_both_operands():
    x, y = tensor(X, requires_grad=True), tensor(X[:1, :2, ::2], requires_grad=True)
    out = TABLE.slice_scatter(x, y, start=(1, 0, 0), stop=(2, 2, 4), step=(1, 1, 2))
    (out * 2).sum().backward()
    expected = np.full_like(X, 2)
    expected[1:2, :2, ::2] = 0
    assert np.array_equal(expected, x.grad.array)
    assert np.array_equal(np.full((1, 2, 2), 2, np.float32), y.grad.array)


def test_a_tensor_without_dims_has_one_window():
    agree(lambda t, x: (x.unfold(0, 1, 1), x.unfold(0, 0, 2)), np.float32(3))


SHOWN = {
    "reshape": {"shape": (6, 4)},
    "permute": {"dims": (2, 0, 1)},
    "expand": {"shape": (1, 2, 3, 4)},
    "slice": {"start": (0, 1, 0), "stop": (2, 3, 4), "step": (1, 1, 2)},
    "select": {"dim": 1, "index": 2},
    "detach": {},
    "diagonal": {"offset": 1, "dim1": 2, "dim2": 1},
    "unfold": {"dim": 2, "size": 2, "step": 1},
    "read_again": {},
    "real": {},
    "imag": {},
    "view_as_real": {},
    "view_as_complex": {},
    "conj_view": {},
    "neg_view": {},
}
OF_COMPLEX = ("real", "imag", "view_as_real", "conj_view")


def held(name: str) -> np.ndarray:
    if name == "view_as_complex":
        return X.reshape(2, 6, 2)
    return X + 1j * X[::-1] if name in OF_COMPLEX else X


def view_of(name: str, array: np.ndarray) -> np.ndarray:
    return evaluate(TABLE[name], [array], SHOWN[name])


def test_every_view_is_shown() -> None:
    views = {row.name for row in TABLE if row.kind is Kind.MOVEMENT and row.rule.view}
    assert set(SHOWN) == views


@pytest.mark.parametrize("name", [name for name in SHOWN if TABLE[name].rule.whole is not None])
def test_the_whole_is_what_a_write_to_the_view_leaves(name: str) -> None:
    rule, x = TABLE[name].rule, held(name)
    part = -2 * view_of(name, x) + 1
    if rule.mirrors:
        expected = view_of(name, part)
    else:
        expected = x.copy()
        view_of(name, expected)[...] = part

    actual = rule.whole(TABLE, tensor(x), tensor(part), **SHOWN[name])

    np.testing.assert_array_equal(actual.resolve_neg().resolve_conj().numpy(), expected)


def test_no_whole_holds_elements_that_are_shown_twice() -> None:
    x = tensor(X)
    part = TABLE.expand(x, shape=(5, 2, 3, 4))
    assert TABLE.expand.rule.whole(TABLE, x, part, shape=(5, 2, 3, 4)) is None


@pytest.mark.parametrize("name", [name for name in SHOWN if TABLE[name].rule.strides is not None])
def test_strides_of_views_are_numpys(name: str) -> None:
    rule, x = TABLE[name].rule, held(name)
    view = x if rule.mirrors else view_of(name, x)
    strides = tuple(step // x.itemsize for step in x.strides)

    actual = rule.strides(x.shape, strides, view.shape, **SHOWN[name])

    steps = [step // view.itemsize for step in view.strides]
    assert [(size, step) for size, step in zip(view.shape, steps, strict=True) if size > 1] == [
        (size, step) for size, step in zip(view.shape, actual, strict=True) if size > 1
    ]
