"""Sparse tensors: what they are, how they are made of dense ones, what they refuse."""

import copy
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import AutogradError, ShapeError, UnsupportedError
from dynajit.eager.sparse.sparse_tensor import SparseTensor


@pytest.fixture
def torch() -> Iterator[Any]:
    """PyTorch, which checks positions, and so does not warn that it does not."""
    there = pytest.importorskip("torch")
    with there.sparse.check_sparse_tensor_invariants():
        yield there


def sample(t: Any = dj, dtype: str = "float32") -> Any:
    """Of size (2, 3), with a position that is there twice."""
    values = t.tensor([3.0, 4.0, 5.0, 6.0]).to(getattr(t, dtype))
    return t.sparse_coo_tensor(t.tensor([[0, 1, 1, 0], [2, 0, 2, 2]]), values, (2, 3))


def test_answers_are_those_of_pytorch(torch: Any) -> None:
    questions: list[Callable[[Any, Any], Any]] = [
        lambda t, x: (x.is_sparse, x.is_sparse_csr, x.is_leaf, x.requires_grad, x.is_cuda),
        lambda t, x: (tuple(x.shape), x.size(1), x.dim(), x.ndim, x.numel(), x.nelement(), len(x)),
        lambda t, x: (x.sparse_dim(), x.dense_dim(), x._nnz(), x.is_coalesced()),
        lambda t, x: (x._indices().tolist(), x._values().tolist(), x._values().requires_grad),
        lambda t, x: (x.coalesce().indices().tolist(), x.coalesce().values().tolist()),
        lambda t, x: (x.is_floating_point(), x.is_complex(), x.element_size(), x.type()),
        lambda t, x: (t.is_tensor(x), isinstance(x, t.Tensor), x.layout == t.sparse_coo),
        lambda t, x: (isinstance(x, t.FloatTensor), isinstance(x, t.sparse.FloatTensor)),
        lambda t, x: (x.to("cpu") is x, x.cpu() is x, x.coalesce() is x, x.float() is x),
        lambda t, x: x.coalesce().coalesce().is_coalesced(),
        lambda t, x: (str(x.dtype).split(".")[1], str(x.double().dtype).split(".")[1]),
        lambda t, x: (x.t().is_coalesced(), (x * 2).is_coalesced(), (x + x).is_coalesced()),
        lambda t, x: str(x.layout).split(".")[1],
    ]
    for question in questions:
        for change in (lambda x: x, lambda x: x.coalesce()):
            assert question(torch, change(sample(torch))) == question(dj, change(sample()))


def test_the_text_is_that_of_pytorch(torch: Any) -> None:
    def texts(t: Any) -> list[str]:
        x = sample(t)
        leaf = x.detach().clone().requires_grad_()
        where = t.tensor([[0, 1], [1, 0]])
        wide = t.sparse_coo_tensor(t.arange(1200).reshape(1, -1), t.ones(1200), (1200,))
        long = t.sparse_coo_tensor(t.arange(30).reshape(1, -1), t.arange(30.0) / 7, (30,))
        found = [
            x, x.coalesce(), x.double(), x.int(), x.half(), x * 0, leaf, wide, long,
            t.eye(2).bool().to_sparse(), t.sparse_coo_tensor((2, 3)), t.tensor(3.0).to_sparse(),
            t.sparse_coo_tensor(where, t.ones(2, 2, 2), (2, 2, 2, 2)),
            t.zeros(0, 3).double().to_sparse(), t.tensor([[1.0, 0.0], [0.0, 0.0]]).to_sparse(1),
        ]  # fmt: skip
        return [str(x).replace("torch.", "dynajit.") for x in found]

    for expected, found in zip(texts(torch), texts(dj), strict=True):
        assert expected == found
    assert "grad_fn=<" in str(sample().requires_grad_() * 2)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "bool"])
def test_dense_tensors_become_sparse_and_dense_again(dtype: str, torch: Any) -> None:
    rng = np.random.default_rng(0)
    for shape in [(4, 5), (3, 4, 2), (7,), (), (0, 3), (3, 0), (1, 1)]:
        array = (rng.integers(-2, 3, shape) * rng.integers(0, 2, shape)).astype(dtype)
        for sparse in (None, *range(min(len(shape), 1), len(shape) + 1)):
            given = () if sparse is None else (sparse,)
            ours, theirs = (t.tensor(array).to_sparse(*given) for t in (dj, torch))
            assert theirs.indices().tolist() == ours.indices().tolist()
            assert theirs.values().tolist() == ours.values().tolist()
            assert theirs.dense_dim() == ours.dense_dim()
            assert array.tolist() == ours.to_dense().tolist()
            assert ours.dtype is dj.tensor(array).dtype
    x = dj.tensor([0.0, float("nan"), -0.0, 1.0]).to_sparse()
    assert [[1, 3]] == x.indices().tolist()
    assert dj.float64 is x.to_dense(dj.float64).dtype


def test_a_mask_of_attention_heads_is_read_as_programs_do() -> None:
    mask = dj.zeros(4, 6, dtype=dj.bool)
    mask[1, 2] = mask[3, 5] = True
    module = dj.nn.Module()
    module.register_buffer("heads", mask.to_sparse(), persistent=False)

    assert [[1, 2], [3, 5]] == module.heads.indices().T.tolist()
    assert [[1, 2], [3, 5]] == module.to("cpu").half().heads.indices().T.tolist()
    assert dj.bool is module.heads.dtype
    assert {} == dict(module.state_dict())


def test_sparse_mask_takes_the_elements_at_positions(torch: Any) -> None:
    for coalesced in (False, True):
        masks = [sample(t).coalesce() if coalesced else sample(t) for t in (dj, torch)]
        leaves = [t.arange(6.0).reshape(2, 3).requires_grad_() for t in (dj, torch)]
        ours, theirs = (x.sparse_mask(mask) for x, mask in zip(leaves, masks, strict=True))
        assert str(theirs.detach()).replace("torch.", "dynajit.") == str(ours.detach())
    ours.to_dense().sum().backward()
    assert [[0, 0, 1], [1, 0, 1]] == leaves[0].grad.tolist()
    with pytest.raises(TypeError, match="to_sparse"):
        leaves[0].sparse_mask(leaves[0])
    with pytest.raises(ShapeError, match="that of the tensor"):
        dj.ones(3, 3).sparse_mask(sample())


def test_gradients_flow_to_the_dense_tensor_of_to_sparse() -> None:
    x = dj.tensor([[1.0, 0.0], [2.0, 3.0]], requires_grad=True)
    (x.to_sparse() @ dj.tensor([[1.0], [10.0]])).sum().backward()

    assert [[1, 0], [1, 10]] == x.grad.tolist()


def test_uncoalesced_tensors_do_not_show_indices_and_values() -> None:
    for name in ("indices", "values"):
        with pytest.raises(RuntimeError, match=rf"Cannot get {name} on an uncoalesced tensor"):
            getattr(sample(), name)()


def test_copies_and_pickles_are_tensors_of_their_own() -> None:
    x = sample().requires_grad_()
    x.name = "adjacency"
    for again in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert (type(x), x.shape, True) == (type(again), again.shape, again.requires_grad)
        assert x._values().tolist() == again._values().tolist()
        assert again._elements is not x._elements
    again = copy.deepcopy([x, x])
    assert again[0] is again[1]
    assert "adjacency" == again[0].name
    again[0]._values().mul_(2)
    assert [3, 4, 5, 6] == x._values().tolist()
    with pytest.raises(AutogradError):
        copy.deepcopy(x * 2)
    again = pickle.loads(pickle.dumps(x * 2))
    assert (True, [6, 8, 10, 12]) == (again.is_leaf, again._values().tolist())
    assert again.grad_fn is None


def test_parameters_may_be_sparse() -> None:
    module = dj.nn.Module()
    module.weight = dj.nn.Parameter(sample())

    assert [module.weight] == list(module.parameters())
    assert isinstance(module.weight, dj.nn.Parameter)
    assert "Parameter containing:\ntensor(indices=" in repr(module.weight)
    assert type(module.weight) is type(copy.deepcopy(module).weight)
    assert dj.float64 is module.double().weight.dtype
    assert module.weight.requires_grad
    assert not dj.nn.Parameter(sample(), requires_grad=False).requires_grad
    assert type(module.weight.detach()) is SparseTensor


def test_the_gradient_of_a_sparse_leaf_is_refused_when_it_is_read() -> None:
    """Until then, others get theirs."""
    leaf = sample().coalesce().detach().requires_grad_()
    x = dj.ones(3, 1, requires_grad=True)
    assert leaf.is_leaf
    assert leaf.grad is None
    (leaf @ x).sum().backward()

    assert [[4], [0], [14]] == x.grad.tolist()
    for refused in (
        lambda: leaf.grad, lambda: setattr(leaf, "grad", leaf),
        lambda: dj.autograd.grad((leaf @ x).sum(), leaf), lambda: (leaf * 2).backward(),
        lambda: dj.autograd.backward([leaf * 2], [leaf]), lambda: leaf.register_hook(print),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError):
            refused()
    leaf.grad = None
    assert leaf.grad is None


class _Product(dj.autograd.Function):
    """As graph attention networks have it: the gradient of values is found at their positions."""

    @staticmethod
    def forward(ctx: Any, where: Any, values: Any, size: Any, x: Any) -> Any:
        adjacency = dj.sparse_coo_tensor(where, values, size)
        ctx.save_for_backward(adjacency, x)
        return dj.matmul(adjacency, x)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        adjacency, x = ctx.saved_tensors
        dense = gradient.matmul(x.t())
        edge = adjacency._indices()[0, :] * dense.shape[1] + adjacency._indices()[1, :]
        return None, dense.view(-1)[edge], None, adjacency.t().matmul(gradient)


def test_functions_of_the_user_keep_sparse_tensors_for_backward() -> None:
    where = dj.tensor([[0, 1, 1, 0], [2, 0, 2, 2]])
    found = []
    for run in (
        lambda v, x: _Product.apply(where, v, (2, 3), x),
        lambda v, x: dj.sparse_coo_tensor(where, v, (2, 3)) @ x,
    ):
        v = dj.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
        x = dj.arange(6.0).reshape(3, 2).requires_grad_()
        run(v, x).square().sum().backward()
        found.append((v.grad.tolist(), x.grad.tolist()))
    assert found[0] == found[1]


def test_functions_of_the_user_refuse_gradients_of_sparse_tensors() -> None:
    class Same(dj.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.to_dense()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient

    class Made(Same):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.to_sparse()

    assert [[0, 0, 9], [4, 0, 5]] == Same.apply(sample()).tolist()
    for call in (lambda: Same.apply(sample().requires_grad_()),
                 lambda: Made.apply(dj.ones(2, 2, requires_grad=True))):  # fmt: skip
        with pytest.raises(UnsupportedError, match="gradient of a sparse tensor"):
            call()


def test_checkpointed_functions_take_sparse_tensors() -> None:
    """The second run gets the same tensor; a reentrant one has no gradient for it."""
    checkpoint = dj.utils.checkpoint.checkpoint
    found = []
    for run in (
        lambda f, *args: f(*args), lambda f, *args: checkpoint(f, *args, use_reentrant=False)
    ):  # fmt: skip
        values, x = dj.arange(1.0, 5.0).requires_grad_(), dj.ones(3, 2, requires_grad=True)
        adjacency = dj.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 2, 2]], values.sin(), (2, 3))
        run(lambda a, x: (a @ x.tanh()).exp(), adjacency, x).sum().backward()
        found.append((values.grad.tolist(), x.grad.tolist()))
        gradient = x.grad
    assert found[0] == found[1]
    x = dj.ones(3, 2, requires_grad=True)
    plain = adjacency.detach()
    checkpoint(lambda a, x: (a @ x.tanh()).exp(), plain, x, use_reentrant=True).sum().backward()
    assert dj.equal(gradient, x.grad)
    with pytest.raises(UnsupportedError, match="gradient of a sparse tensor"):
        checkpoint(lambda a, x: a @ x, adjacency, x, use_reentrant=True)


def test_a_write_to_saved_values_is_noticed() -> None:
    values, x = dj.ones(2, requires_grad=True), dj.ones(2, 1, requires_grad=True)
    adjacency = dj.sparse_coo_tensor([[0, 1], [1, 0]], values * 2, (2, 2))
    result = (adjacency @ x).sum()
    adjacency._values().zero_()
    with pytest.raises(AutogradError, match="modified by an inplace operation"):
        result.backward()


def test_a_copy_as_an_array_has_elements_of_its_own() -> None:
    x = sample().coalesce()
    copied = dj.asarray(x, copy=True)
    assert dj.asarray(x) is x and copied.is_sparse
    copied.values().fill_(7)
    assert x.values().tolist() != copied.values().tolist() == [7] * x._nnz()


def test_every_method_means_the_same_or_refuses_by_name() -> None:
    """Nothing of a dense tensor reads the array that a sparse one does not have."""
    x = sample().coalesce()
    for name, member in inspect.getmembers(dj.Tensor):
        if name.startswith("_") or name == "cuda" or not callable(member):
            continue
        try:
            getattr(x, name)()
        except UnsupportedError as error:
            assert "to_dense" in str(error) or "compressed" in str(error), name
            assert not str(error).startswith("the elements"), name
        except (TypeError, ShapeError):  # arguments are missing
            continue
    for call in (
        lambda: x.array, lambda: x.tolist(), lambda: x.numpy(), lambda: x.item(), lambda: x[0],
        lambda: list(x), lambda: bool(x), lambda: float(x), lambda: 1 in x, lambda: np.asarray(x),
        lambda: x.view(3, 2), lambda: x.backward(), lambda: x.mul_(2), lambda: x.data_ptr(),
        lambda: x.stride(), lambda: x.__iadd__(x), lambda: x.nbytes, lambda: x.H,
        lambda: dj.tensor(x), lambda: x.new_zeros(2),
        lambda: dj.ones(2, 3).copy_(x), lambda: dj.as_tensor(x, dtype=dj.int64).numpy(),
        lambda: dj.nonzero(x), lambda: dj.unique(x), lambda: dj.allclose(x, x),
        lambda: dj.equal(x, x), lambda: dj.save(x.requires_grad_(), "file"),
        lambda: dj.func.vmap(lambda a: a.sum())(x), lambda: dj.func.grad(dj.sum)(x.float()),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError):
            call()


def test_a_sparse_tensor_is_not_made_by_its_class() -> None:
    with pytest.raises(TypeError, match="sparse_coo_tensor"):
        SparseTensor(2, 3)
    with pytest.raises(UnsupportedError, match=r"to_sparse\(1\)"):
        sample().to_sparse(1)
    with pytest.raises(ShapeError, match="sparse dims"):
        dj.ones(2).to_sparse(2)
    assert sample().to_sparse().is_sparse


def test_positions_beyond_what_int64_counts_are_refused() -> None:
    x = dj.sparse_coo_tensor([[0, 5], [1, 2**40]], [1.0, 2.0], (2**40, 2**41))
    assert 3 == x.sum().item()
    with pytest.raises(ShapeError, match="2\\*\\*63"):
        x.coalesce()


def test_autocast_casts_both_operands_of_a_product() -> None:
    with dj.autocast("cpu", dtype=dj.bfloat16):
        assert dj.bfloat16 is (sample() @ dj.ones(3, 2)).dtype


def test_mapped_functions_use_sparse_tensors_that_are_not_mapped() -> None:
    x = dj.rand(3, 2, 2)
    found = dj.func.vmap(lambda a: a @ sample())(x)

    assert dj.allclose(found, x @ sample().to_dense())


def _scaled(adjacency: Any, x: Any) -> Any:
    y = x * 2 + 1
    z = adjacency @ y
    return z.relu().sum(1) - 1


def _through(x: Any) -> Any:
    y = (x > 1).float() * x
    adjacency = y.to_sparse()
    return (dj.sparse.mm(adjacency, x.t() + 1) * 2).sum(), adjacency.indices()


def _from_values(where: Any, values: Any, x: Any) -> Any:
    adjacency = dj.sparse_coo_tensor(where, values.exp(), (2, 3))
    return (dj.spmm(adjacency.t(), x[:2].sin()).cos() * adjacency.is_sparse).sum()


class _Layer(dj.nn.Module):
    """Holds a sparse buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("adjacency", sample(), persistent=False)
        self.linear = dj.nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return (self.adjacency @ self.linear(x)).tanh()


def test_compiled_functions_break_at_sparse_tensors() -> None:
    """What gets one, makes one, and holds one gives what eager execution gives."""
    x = dj.rand(3, 4)
    for function, args in ((_scaled, (sample(), x)), (_through, (x * 2,))):
        compiled = dj.compile(function)
        for _ in range(3):
            for ours, expected in zip(compiled(*args), function(*args), strict=True):
                assert dj.allclose(ours, expected)
    other = dj.sparse_coo_tensor([[0], [0]], [1.0], (2, 3))
    compiled = dj.compile(_scaled)
    for adjacency in (sample(), other, sample().to_dense(), other.coalesce()):
        assert dj.allclose(compiled(adjacency, x), _scaled(adjacency, x))
    where, values = dj.tensor([[0, 1, 1, 0], [2, 0, 2, 2]]), dj.rand(4)
    gradients = []
    for run in (_from_values, dj.compile(_from_values)):
        v, y = values.clone().requires_grad_(), x.clone().requires_grad_()
        run(where, v, y).backward()
        gradients.append((v.grad, y.grad))
    for ours, expected in zip(*gradients, strict=True):
        assert dj.allclose(ours, expected)
    layer = _Layer()
    compiled = dj.compile(layer)
    assert dj.allclose(compiled(x), layer(x))
    layer.adjacency = other
    assert dj.allclose(compiled(x), layer(x))
    with pytest.raises(RuntimeError, match="fullgraph"):
        dj.compile(_scaled, fullgraph=True)(sample(), x)


def test_programs_without_sparse_tensors_do_not_load_them() -> None:
    """Nor does training; the first sparse tensor does, whichever way it is made."""
    program = (
        "import sys, dynajit as dj\n"
        "x = dj.ones(2, 2, requires_grad=True)\n"
        "dj.nn.Linear(2, 2)(x).sum().backward()\n"
        "dj.optim.SGD([x], lr=0.1).step()\n"
        "room = 'dynajit.eager.sparse'\n"
        "loaded = [m for m in sys.modules if m.startswith(room)]\n"
        "assert not [m for m in loaded if m not in (room, room + '.to_sparse')]\n"
        "{}\n"
        "assert 'dynajit.eager.sparse.rows' in sys.modules\n"
    )
    for first in (
        "x.to_sparse() @ x",
        "dj.sparse.FloatTensor(2, 3)",
        "dj.sparse_coo_tensor((2, 3))",
    ):
        subprocess.run([sys.executable, "-c", program.format(first)], check=True)
