"""`vmap` against PyTorch: dims, nests, gradients, random numbers, refusals."""

import copy
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.nn import functional as F

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
    "not joined": (lambda m: m.vmap(lambda x: x * 2, out_dims=None)(m.ones(2)), "out_dim is None"),
    "some not joined": (
        lambda m: m.vmap(lambda x: (x, x * 2), out_dims=(0, None))(m.ones(2)),
        "out_dim is None",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_as_by_pytorch(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(Exception) as expected:
        call(torch)
    with pytest.raises(Exception, match=message) as found:
        call(dj)
    assert isinstance(found.value, type(expected.value))
    with pytest.raises(type(expected.value), match=message):
        dj.compile(lambda: call(dj))()


def test_results_that_differ_between_single_samples_are_joined_or_refused() -> None:
    def function(x: Any) -> Any:
        return x * 2 if x.sum().item() > 0 else x

    assert dj.vmap(function)(dj.ones(2, 3)).shape == (2, 3)
    assert dj.vmap(function, out_dims=None)(dj.ones(2, 3)).tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(ValueError, match="out_dim is None"):
        dj.vmap(function, out_dims=None)(dj.eye(3))


def counted(function: Any) -> tuple[Any, list[None]]:
    """The function, and a list that grows by one with each call."""
    calls: list[None] = []

    def noted(*args: Any) -> Any:
        calls.append(None)
        return function(*args)

    return noted, calls


def test_a_function_is_called_once_unless_it_needs_a_single_sample() -> None:
    x = dj.tensor(ROWS)
    plain, calls = counted(lambda row: row.sin().sum())
    dj.vmap(plain)(x)
    asking, asked = counted(lambda row: row * row.sum().item())

    first, again = dj.vmap(asking)(x), dj.vmap(asking)(x)

    assert 1 == len(calls)
    assert 1 + 6 + 6 == len(asked)
    expected = (x * x.sum(1, keepdim=True)).tolist()
    assert expected == first.tolist() == again.tolist()


ASKING = {
    "item": lambda x: x * x[0].item(),
    "a condition": lambda x: x if x.sum() > 0 else -x,
    "a list": lambda x: x * x.tolist()[1],
    "an array": lambda x: x + dj.from_numpy(x.numpy().copy()),
    "a mask": lambda x: x[x > x.min()].sum(),
    "positions": lambda x: x.abs().nonzero().sum() * x,
    "an index of Python": lambda x: x * [1.0, 2.0][(x[0] > 0).long()],
    "memory": lambda x: x * (x.data_ptr() > 0),
    "a write to what is made inside": lambda x: filled(dj.zeros(5, dtype=dj.float64), x),
    "a copy": lambda x: copy.deepcopy(x) * 2,
}


def filled(target: Any, x: Any) -> Any:
    target[1:] = x[1:]
    return target


@pytest.mark.parametrize("name", ASKING)
def test_what_only_one_sample_has_is_looked_at_sample_by_sample(name: str) -> None:
    x = dj.tensor(ROWS)

    found = dj.vmap(ASKING[name])(x)

    assert dj.stack([ASKING[name](row) for row in x]).tolist() == found.tolist()


def test_what_was_done_before_a_single_sample_is_needed_is_taken_back() -> None:
    def function(row: Any) -> Any:
        row.mul_(2)
        noise = dj.rand(5)
        return row + noise if row.sum() > -100 else row

    x = dj.tensor(ROWS, dtype=dj.float32)
    dj.manual_seed(5)
    found = dj.vmap(function, randomness="different")(x)
    after = dj.rand(1).tolist()
    y = dj.tensor(ROWS, dtype=dj.float32)
    dj.manual_seed(5)
    expected = dj.stack([function(row) for row in y])

    assert expected.tolist() == found.tolist()
    assert y.tolist() == x.tolist()
    assert dj.rand(1).tolist() == after


def test_samples_that_are_written_are_those_of_the_argument() -> None:
    x = dj.tensor(ROWS)

    dj.vmap(lambda row: row[1:].zero_(), in_dims=0)(x)
    dj.vmap(lambda column: column.add_(1), in_dims=1)(x)

    expected = ROWS.copy()
    expected[:, 1:] = 0
    assert (expected + 1).tolist() == x.tolist()


def test_results_share_memory_with_nothing() -> None:
    x = dj.tensor(ROWS)
    same, twice, shared = dj.vmap(lambda row: (row, row, dj.ones(2)))(x)

    same.zero_()
    shared[0] = 5

    assert ROWS.tolist() == x.tolist() == twice.tolist()
    assert 1.0 == shared[1, 0].item()


class Fivefold(dj.autograd.Function):
    """Doubles; its derivative says five."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 5


@pytest.mark.parametrize("compiled", (False, True))
def test_derivatives_that_the_program_wrote_are_kept(compiled: bool) -> None:
    x = dj.tensor(ROWS, requires_grad=True)

    def function(x: Any) -> Any:
        return dj.vmap(Fivefold.apply)(x).sum()

    (dj.compile(function, fullgraph=True, backend="numpy") if compiled else function)(x).backward()

    assert np.full_like(ROWS, 5).tolist() == x.grad.tolist()


DRAWING = {
    "numbers": lambda x: x + dj.rand(5) * dj.randn(5),
    "dropout": lambda x: F.dropout(x, 0.5) + F.dropout(x, 0.3),
    "dropout of what all share": lambda x: F.dropout(dj.ones(5), 0.5) + x,
    "bernoulli": lambda x: dj.bernoulli(x.sigmoid()) + dj.randint(0, 9, (5,)),
    "writes": lambda x: (x * 0).normal_() + (x * 0).uniform_(),
}


@pytest.mark.parametrize("randomness", ("same", "different"))
@pytest.mark.parametrize("name", DRAWING)
def test_draws_are_the_same_eager_and_compiled(name: str, randomness: str) -> None:
    x = dj.ones(4, 5)

    def function(x: Any) -> Any:
        return dj.vmap(DRAWING[name], randomness=randomness)(x)

    dj.manual_seed(3)
    expected, after = function(x), dj.rand(1)
    dj.manual_seed(3)
    found, then = dj.compile(function, fullgraph=True, backend="numpy")(x), dj.rand(1)

    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6, atol=1e-7)
    assert after.tolist() == then.tolist()
    assert (1 if randomness == "same" else 4) == len({tuple(row) for row in found.tolist()})


def test_dropout_has_the_gradient_of_its_own_draws() -> None:
    x = dj.ones(4, 50, requires_grad=True)
    found = dj.vmap(lambda row: F.dropout(row, 0.5), randomness="different")(x)

    found.sum().backward()

    assert found.tolist() == x.grad.tolist()


def test_a_compiled_call_has_gradients_and_serves_any_number_of_samples() -> None:
    step = dj.compile(
        lambda x, w: dj.vmap(lambda row: (w @ row).tanh().sum())(x).sum(), fullgraph=True
    )
    for count in (3, 4, 6, 1):
        found = []
        for function in (step, lambda x, w: (x @ w.t()).tanh().sum()):
            x = dj.tensor(ROWS[:count], requires_grad=True)
            w = dj.tensor(B[0].T, requires_grad=True)
            function(x, w).backward()
            found.append((x.grad.numpy(), w.grad.numpy()))
        for expected, gradient in zip(*found, strict=True):
            np.testing.assert_allclose(expected, gradient, rtol=1e-9)


BREAKING = {
    "a condition": lambda x: dj.vmap(ASKING["a condition"])(x),
    "writes to samples": lambda x: dj.vmap(lambda row: row.mul_(2))(x) + x,
    "writes to memory from outside": lambda x: refused(x),
}


def refused(x: Any) -> Any:
    """The argument, unless a write to what all samples share is let through."""
    shared = dj.zeros(5, dtype=dj.float64)
    try:
        dj.vmap(lambda row: shared.add_(row))(x)
    except RuntimeError:
        return x
    return shared


@pytest.mark.parametrize("name", BREAKING)
def test_what_has_no_graph_form_runs_eagerly(name: str) -> None:
    expected = BREAKING[name](dj.tensor(ROWS))
    found = dj.compile(BREAKING[name])(dj.tensor(ROWS))

    assert expected.tolist() == found.tolist()


@pytest.mark.parametrize("inner", ("same", "different"))
@pytest.mark.parametrize("outer", ("same", "different"))
def test_nested_calls_draw_for_each_level_as_it_says(outer: str, inner: str) -> None:
    x = dj.ones(2, 3)

    def function(x: Any) -> Any:
        each = dj.vmap(lambda number: number * dj.rand(()), randomness=inner)
        return dj.vmap(each, randomness=outer)(x)

    dj.manual_seed(0)
    found = function(x)
    dj.manual_seed(0)
    compiled = dj.compile(function, fullgraph=True, backend="numpy")(x)

    sizes = (2 if outer == "different" else 1), (3 if inner == "different" else 1)
    assert sizes[0] * sizes[1] == len(set(found.flatten().tolist()))
    assert [sizes[1]] * 2 == [len(set(row)) for row in found.tolist()]
    assert found.tolist() == compiled.tolist()


def test_generators_of_the_program_draw_as_randomness_says() -> None:
    generator = dj.Generator().manual_seed(3)

    def function(row: Any) -> Any:
        return row + dj.rand(2, generator=generator)

    different = dj.vmap(function, randomness="different")(dj.zeros(3, 2))
    same = dj.vmap(function, randomness="same")(dj.zeros(3, 2))

    assert 3 == len({tuple(row) for row in different.tolist()})
    assert 1 == len({tuple(row) for row in same.tolist()})
    with pytest.raises(RuntimeError, match="randomness error mode"):
        dj.vmap(function)(dj.zeros(3, 2))


def test_backward_within_a_mapped_function_is_of_one_sample() -> None:
    x = dj.tensor(ROWS)

    def slopes(row: Any) -> Any:
        leaf = row.clone().requires_grad_()
        (leaf**3).sum().backward()
        return leaf.grad

    np.testing.assert_allclose(3 * ROWS**2, dj.vmap(slopes)(x).numpy())


def test_what_all_share_gathers_the_gradients_of_all_samples() -> None:
    """By calls for each sample: its gradient has no dim of samples."""
    w = dj.ones(5, dtype=dj.float64, requires_grad=True)

    def function(row: Any) -> Any:
        (w * row).sum().backward()
        return row

    dj.vmap(function)(dj.tensor(ROWS))

    np.testing.assert_allclose(ROWS.sum(0), w.grad.numpy())


LAYERS = {
    "LSTM": (lambda: dj.nn.LSTM(3, 4), (7, 2, 3), lambda m, x: m(x)[0]),
    "GRU": (lambda: dj.nn.GRU(3, 4, 2), (7, 2, 3), lambda m, x: m(x)[0]),
    "transformer": (
        lambda: dj.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True).eval(),
        (2, 5, 8),
        lambda m, x: m(x),
    ),
    "convolutions": (
        lambda: dj.nn.Sequential(dj.nn.Conv2d(3, 4, 3), dj.nn.ReLU(), dj.nn.MaxPool2d(2)),
        (2, 3, 8, 8),
        lambda m, x: m(x),
    ),
    "norms": (
        lambda: dj.nn.Sequential(dj.nn.BatchNorm2d(3).eval(), dj.nn.GroupNorm(3, 3)),
        (2, 3, 4, 4),
        lambda m, x: m(x),
    ),
}


@pytest.mark.parametrize("compiled", (False, True))
@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_mapped(name: str, compiled: bool) -> None:
    make, shape, run = LAYERS[name]
    layer = make()
    x = dj.randn(3, *shape)
    mapped, calls = counted(lambda x: run(layer, x))

    function = lambda x: dj.vmap(mapped if not compiled else lambda x: run(layer, x))(x)
    found = (dj.compile(function, fullgraph=True, backend="numpy") if compiled else function)(x)

    expected = dj.stack([run(layer, sample) for sample in x])
    np.testing.assert_allclose(
        found.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5
    )
    assert len(calls) == (0 if compiled else 1)


@pytest.mark.parametrize("draw", ["poisson", "normal"])
@pytest.mark.parametrize("randomness", ["same", "different"])
def test_generators_are_set_back_where_samples_are_looked_at_one_by_one(
    draw: str, randomness: str
) -> None:
    """`poisson` needs the rates of a sample: the function is called for each."""
    generator = dj.Generator().manual_seed(3)

    def function(rates: Any, sample: Any) -> Any:
        sample.sum().item()
        if draw == "normal":
            return dj.normal(rates, 1.0, generator=generator)
        return dj.poisson(rates, generator=generator)

    rates = dj.ones(8) * 5
    found = dj.vmap(function, in_dims=(None, 0), randomness=randomness)(rates, dj.zeros(4))
    assert bool((found == found[0]).all()) == (randomness == "same")

    with pytest.raises(RuntimeError, match="randomness error mode"):
        dj.vmap(function, in_dims=(None, 0))(rates, dj.zeros(4))


STRIDED: list[tuple[Any, Any, Any]] = [
    ((5, 2, 3), (0, 1, 1), 0),
    ((3, 2), (1, 3), 0),
    ((2,), (3,), 1),
    ((2,), (2,), None),
]


@pytest.mark.parametrize(("size", "stride", "offset"), STRIDED)
@pytest.mark.parametrize("place", [0, 1, -1])
def test_offsets_of_strided_views_are_those_of_the_first_sample(
    size: Any, stride: Any, offset: Any, place: int
) -> None:
    """Every sample showed the memory of the first where samples were not in dim 0."""
    torch = pytest.importorskip("torch")
    numbers = np.random.default_rng(0).standard_normal((2, 4, 2, 3)).astype(np.float32)
    found = []
    for t in (torch, dj):
        x = t.tensor(numbers)[1].movedim(0, place)
        at = None if offset is None else offset + x.storage_offset()
        found.append(t.vmap(lambda a, at=at: a.as_strided(size, stride, at), place)(x).numpy())
    np.testing.assert_array_equal(*found)


def test_offsets_of_strided_views_of_single_samples_are_refused() -> None:
    """They would be offsets in the memory of all; without one the view is that of a sample."""
    x = dj.arange(12.0).reshape(3, 4)

    def asked(a: Any, offset: Any) -> Any:
        a.sum().item()
        return a.as_strided((2,), (2,), offset)

    np.testing.assert_array_equal(dj.vmap(lambda a: asked(a, None))(x).numpy(), x.numpy()[:, ::2])
    for function in (lambda a: asked(a, 0), dj.func.grad(lambda a: asked(a, 0).sum())):
        with pytest.raises(dj.errors.UnsupportedError, match="storage_offset"):
            dj.vmap(function)(x)


def test_calls_for_single_samples_may_be_nested() -> None:
    def inner(a: Any) -> Any:
        return a * a.item() + dj.rand(2)

    def outer(row: Any) -> Any:
        row.sum().item()
        return dj.vmap(inner, randomness="different")(row)

    dj.manual_seed(1)
    same = dj.vmap(outer, randomness="same")(dj.ones(3, 4))
    assert bool((same == same[0]).all())
    assert 8 == len(set(same[0].flatten().tolist()))
