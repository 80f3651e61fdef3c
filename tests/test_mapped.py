"""`vmap` against PyTorch: dims, nests, gradients, random numbers, refusals."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

NUMBERS = np.random.default_rng(0)
A, B = NUMBERS.standard_normal((4, 3, 5)), NUMBERS.standard_normal((4, 5, 2))
ROWS, TARGETS = NUMBERS.standard_normal((6, 5)), NUMBERS.standard_normal((6, 2))


def compare(expected: Any, found: Any) -> None:
    """Nests of tensors are equal, up to rounding."""
    if isinstance(expected, torch.Tensor):
        assert isinstance(found, dj.Tensor)
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-9)
        return
    assert type(expected) is type(found)
    if isinstance(expected, dict):
        assert expected.keys() == found.keys()
        expected, found = tuple(expected.values()), tuple(found.values())
    if not isinstance(expected, (tuple, list)):
        assert expected == found
        return
    for left, right in zip(expected, found, strict=True):
        compare(left, right)


CALLS = {
    "products": lambda m: m.vmap(m.mm)(m.tensor(A), m.tensor(B)),
    "one argument for all": lambda m: m.vmap(m.mm, in_dims=(0, None))(m.tensor(A), m.tensor(B[0])),
    "other dims": lambda m: m.vmap(m.mv, in_dims=(1, 0))(m.tensor(A), m.tensor(ROWS[:3, :5])),
    "counted from the end": lambda m: m.vmap(m.sum, in_dims=-1)(m.tensor(A)),
    "results in another dim": lambda m: m.vmap(lambda x: x * 2, out_dims=1)(m.tensor(A)),
    "results in the last dim": lambda m: m.vmap(lambda x: x * 2, out_dims=-1)(m.tensor(A)),
    "several results": lambda m: m.vmap(lambda x: (x.sum(), x.t()), out_dims=(0, 2))(m.tensor(A)),
    "nests of arguments": lambda m: m.vmap(
        lambda d, x: d["w"] @ x + d["b"], in_dims=({"w": None, "b": 0}, 1)
    )({"w": m.tensor(A[0]), "b": m.tensor(ROWS[:4, :3])}, m.tensor(B.T[0])),
    "nests of results": lambda m: m.vmap(lambda x: {"sum": x.sum(), "parts": [x, x + 1]})(
        m.tensor(ROWS)
    ),
    "named arguments": lambda m: m.vmap(lambda x, y=None: x * y)(m.tensor(ROWS), y=m.tensor(ROWS)),
    "a result of no sample": lambda m: m.vmap(lambda x: m.ones(2))(m.tensor(ROWS)),
    "results that are not joined": lambda m: m.vmap(lambda x: (x, 3), out_dims=(0, None))(
        m.tensor(ROWS)
    ),
    "no samples": lambda m: m.vmap(lambda x: (x @ m.tensor(ROWS[:5]), x.sum()), out_dims=(1, 0))(
        m.zeros(0, 2, 5, dtype=m.float64)
    ),
    "nested": lambda m: m.vmap(m.vmap(m.dot, in_dims=(None, 0)), in_dims=(0, None))(
        m.tensor(ROWS), m.tensor(ROWS)
    ),
    "gradients of samples": lambda m: m.vmap(m.func.grad(loss_of(m)), in_dims=(None, 0, 0))(
        m.tensor(B[0]), m.tensor(ROWS), m.tensor(TARGETS)
    ),
    "gradient of a mapped function": lambda m: m.func.grad(
        lambda w: m.vmap(loss_of(m), in_dims=(None, 0, 0))(
            w, m.tensor(ROWS), m.tensor(TARGETS)
        ).sum()
    )(m.tensor(B[0])),
    "jacobians of samples": lambda m: m.vmap(m.func.jacrev(lambda x: x.sin() * x.sum()))(
        m.tensor(ROWS)
    ),
    "chunks": lambda m: m.vmap(m.sum, chunk_size=2)(m.tensor(ROWS)),
}


def loss_of(m: Any) -> Any:
    return lambda w, x, y: ((x @ w - y) ** 2).mean()


@pytest.mark.parametrize("name", CALLS)
def test_results_are_pytorchs(name: str) -> None:
    compare(CALLS[name](torch), CALLS[name](dj))


def test_gradients_reach_the_arguments() -> None:
    found = []
    for m in (torch, dj):
        x = m.tensor(ROWS, requires_grad=True)
        w = m.tensor(B[0], requires_grad=True)
        m.vmap(lambda row, w: (row @ w).tanh(), in_dims=(0, None), out_dims=1)(
            x, w
        ).sum().backward()
        found.append((x.grad.numpy(), w.grad.numpy()))
    for expected, gradient in zip(*found, strict=True):
        np.testing.assert_allclose(expected, gradient, rtol=1e-9)


def test_a_model_has_gradients_for_each_sample() -> None:
    """The usual reason to map: `vmap(grad(loss))` with `functional_call`."""
    model = dj.nn.Sequential(dj.nn.Linear(5, 4), dj.nn.Tanh(), dj.nn.Linear(4, 2)).double()
    weights = {name: p.detach() for name, p in model.named_parameters()}
    x, y = dj.tensor(ROWS), dj.tensor(TARGETS)

    def loss(weights, x, y):
        return ((dj.func.functional_call(model, weights, (x,)) - y) ** 2).sum()

    found = dj.func.vmap(dj.func.grad(loss), in_dims=(None, 0, 0))(weights, x, y)

    for name, p in model.named_parameters():
        assert (6, *p.shape) == tuple(found[name].shape)
        for i in range(6):
            model.zero_grad()
            ((model(x[i]) - y[i]) ** 2).sum().backward()
            np.testing.assert_allclose(p.grad.numpy(), found[name][i].numpy(), rtol=1e-9)


def test_random_numbers_are_different_the_same_or_an_error() -> None:
    x = dj.zeros(3, 4)

    def noisy(row):
        return row + dj.rand(4)

    dj.manual_seed(3)
    different = dj.vmap(noisy, randomness="different")(x)
    dj.manual_seed(3)
    same = dj.vmap(noisy, randomness="same")(x)
    after = dj.rand(1)
    dj.manual_seed(3)
    one = dj.rand(4)

    assert 3 == len({tuple(row) for row in different.tolist()})
    assert [one.tolist()] * 3 == same.tolist()
    assert dj.rand(1).tolist() == after.tolist()
    dj.manual_seed(3)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        dj.vmap(noisy)(x)
    assert one.tolist() == dj.rand(4).tolist()


def test_single_samples_may_be_asked_for_their_values() -> None:
    """PyTorch refuses both."""

    def positive(row):
        return row * 2 if row.sum().item() > 0 else row

    rows = dj.tensor([[1.0, 2.0], [-1.0, -2.0]])

    assert [[2.0, 4.0], [-1.0, -2.0]] == dj.vmap(positive)(rows).tolist()


def test_a_compiled_function_may_map_and_be_mapped() -> None:
    x = dj.tensor(ROWS)
    expected = (x.sin().sum(1) * 2).tolist()

    assert expected == pytest.approx(dj.vmap(dj.compile(lambda r: r.sin().sum() * 2))(x).tolist())
    outer = dj.compile(lambda x: dj.vmap(lambda r: r.sin().sum())(x) * 2)
    assert expected == pytest.approx(outer(x).tolist())


REFUSED = {
    "no arguments": (lambda m: m.vmap(lambda: 1)(), "no inputs"),
    "no tensors": (lambda m: m.vmap(lambda x: x, in_dims=None)(m.ones(2)), "in_dims"),
    "nothing mapped": (lambda m: m.vmap(lambda x: x, in_dims=(None,))(m.ones(2)), "at least one"),
    "a number": (lambda m: m.vmap(lambda x, y: x)(m.ones(2), 3), "non-Tensor"),
    "a dim too many": (lambda m: m.vmap(lambda x: x, in_dims=1)(m.ones(2)), "in_dim"),
    "too few dims": (lambda m: m.vmap(m.add, in_dims=(0,))(m.ones(2), m.ones(2)), "compatible"),
    "other nest": (lambda m: m.vmap(m.add, in_dims=([0], 0))(m.ones(2), m.ones(2)), "compatible"),
    "other numbers": (lambda m: m.vmap(m.add)(m.ones(2), m.ones(3)), "same size"),
    "no tensor comes out": (lambda m: m.vmap(lambda x: 3)(m.ones(2)), "must only return Tensors"),
    "chunks": (lambda m: m.vmap(lambda x: x, chunk_size=0)(m.ones(2)), "chunk_size"),
    "randomness": (lambda m: m.vmap(lambda x: x, randomness="some")(m.ones(2)), "randomness"),
    "out_dims": (lambda m: m.vmap(lambda x: x, out_dims=(0, 1))(m.ones(2)), "out_dims"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_as_by_pytorch(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(Exception) as expected:
        call(torch)
    with pytest.raises(Exception, match=message) as found:
        call(dj)
    assert isinstance(found.value, type(expected.value))
