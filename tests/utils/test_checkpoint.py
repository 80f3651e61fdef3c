"""Checkpointing against the plain call and against PyTorch: values, gradients, draws, calls."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.utils import checkpoint as ours

torch = pytest.importorskip("torch")
BOTH = pytest.mark.parametrize("reentrant", [True, False])


class Net(dj.nn.Module):
    """Two layers with dropout between them, that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.first = dj.nn.Linear(4, 6)
        self.second = dj.nn.Linear(6, 3)
        self.drop = dj.nn.Dropout(0.5)
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.second(self.drop(dj.tanh(self.first(x)) ** 2))


def gradients(net: Net, x: Any, call: Any) -> list[Any]:
    """Result and gradients of one seeded call."""
    dj.manual_seed(5)
    x = x.detach().requires_grad_()
    net.zero_grad()
    y = call(x)
    after = dj.rand(2)
    (y**2).sum().backward()
    return [y.detach(), after, dj.rand(2), x.grad, *(p.grad for p in net.parameters())]


@BOTH
def test_results_gradients_and_draws_are_those_of_the_plain_call(reentrant: bool) -> None:
    """Dropout draws its mask again; what is drawn after it, and after backward, is the same."""
    net, x = Net(), dj.randn(5, 4)
    expected = gradients(net, x, net)
    net.calls = 0
    actual = gradients(net, x, lambda v: ours.checkpoint(net, v, use_reentrant=reentrant))

    assert 2 == net.calls
    for a, b in zip(expected, actual, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-6)


@BOTH
def test_without_the_state_the_second_run_draws_other_numbers(reentrant: bool) -> None:
    """`preserve_rng_state=False`: the gradient is that of another mask."""
    seen = []

    def noisy(x: Any) -> Any:
        mask = dj.rand(8)
        seen.append(mask.tolist())
        return (x * mask) ** 2

    x = dj.ones(8, requires_grad=True)
    y = ours.checkpoint(noisy, x, use_reentrant=reentrant, preserve_rng_state=False)
    y.sum().backward()

    assert 2 == len(seen)
    assert seen[0] != seen[1]


def saved_in_region(call: Any) -> bool:
    """Whether an intermediate array lives on after the forward run."""
    found = []

    def body(x: Any) -> Any:
        inner = dj.exp(x)
        found.append(weakref.ref(inner))
        return dj.sin(inner)

    result = call(body, dj.ones(3, requires_grad=True))
    gc.collect()
    alive = found[0]() is not None
    result.sum().backward()
    return alive


@BOTH
def test_intermediate_tensors_are_let_go(reentrant: bool) -> None:
    """Which the plain call keeps."""
    assert saved_in_region(lambda f, x: f(x))
    assert not saved_in_region(lambda f, x: ours.checkpoint(f, x, use_reentrant=reentrant))


def test_the_tape_can_be_differentiated_in_every_way() -> None:
    """`grad`, to parameters only, twice, with `create_graph`, and with `retain_graph`."""

    def body(x: Any, w: Any, scale: float = 1.0) -> Any:
        return dj.sigmoid(dj.exp(x * w).sin() * scale), {"more": [x.tanh() * w]}

    def second(call: Any) -> list[Any]:
        x, w = dj.tensor([0.3, -0.7, 1.1]), dj.tensor([0.5, 2.0, -1.0])
        x.requires_grad_()
        w.requires_grad_()
        a, rest = call(body, x, w, scale=0.7)
        total = (a * rest["more"][0]).sum()
        (only,) = dj.autograd.grad(total, [w], retain_graph=True)
        first = dj.autograd.grad(total, [x, w], create_graph=True)
        mixed = dj.autograd.grad((first[0] * first[1]).sum(), [x, w])
        return [total.detach(), only, *(g.detach() for g in first), *mixed]

    plain = second(lambda f, *args, **named: f(*args, **named))
    actual = second(lambda f, *a, **named: ours.checkpoint(f, *a, use_reentrant=False, **named))
    for a, b in zip(plain, actual, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-5, atol=1e-7)


def test_only_inputs_of_closures_get_gradients_without_reentrance() -> None:
    """No argument requires one, parameters do."""
    net = Net().eval()
    ours.checkpoint(net, dj.ones(2, 4), use_reentrant=False).sum().backward()

    assert all(p.grad is not None for p in net.parameters())
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        y = ours.checkpoint(net, dj.ones(2, 4), use_reentrant=True)
    assert not y.requires_grad


def test_checkpoints_nest_and_hold_user_functions() -> None:
    """A checkpoint within one, and an autograd Function in it."""

    class Cube(dj.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 3 * ctx.saved_tensors[0] ** 2 * g

    def inner(x: Any) -> Any:
        return dj.exp(Cube.apply(x.sin()))

    def outer(x: Any) -> Any:
        return ours.checkpoint(inner, x * 2, use_reentrant=False).log1p()

    found = []
    for call in (outer, lambda x: ours.checkpoint(outer, x, use_reentrant=False)):
        x = dj.linspace(-1, 1, 5).requires_grad_()
        call(x).sum().backward()
        found.append(x.grad.numpy())
    y = dj.linspace(-1, 1, 5).requires_grad_()
    dj.exp((y * 2).sin() ** 3).log1p().sum().backward()
    np.testing.assert_allclose(found[0], y.grad.numpy(), rtol=1e-5)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def test_a_reentrant_checkpoint_refuses_partial_backward() -> None:
    """As PyTorch's does: the gradients of its parameters would go astray."""
    for library, module in ((torch, torch.utils.checkpoint), (dj, ours)):
        x = library.ones(3, requires_grad=True)
        y = module.checkpoint(lambda v: v.exp(), x, use_reentrant=True).sum()
        with pytest.raises(RuntimeError, match=r"incompatible with \.grad\(\)"):
            library.autograd.grad(y, x)
        y = module.checkpoint(lambda v: v.exp(), x, use_reentrant=True).sum()
        y.backward()
        assert x.grad is not None


def test_a_function_that_does_something_else_is_an_error() -> None:
    """Another number of operations, or other sizes."""
    calls = []

    def grows(x: Any) -> Any:
        calls.append(0)
        for _ in calls:
            x = dj.exp(x)
        return x

    x = dj.ones(3, requires_grad=True)
    with pytest.raises(ours.CheckpointError, match="different number of tensors"):
        ours.checkpoint(grows, x, use_reentrant=False).sum().backward()

    widths = iter([2, 3, 2, 3])

    def widens(x: Any) -> Any:
        return dj.exp(x.repeat(next(widths))).sum()

    with pytest.raises(ours.CheckpointError, match="different metadata"):
        ours.checkpoint(widens, x, use_reentrant=False).backward()


def test_written_arguments_are_noticed() -> None:
    """The second run would compute with other values."""
    x = dj.ones(3, requires_grad=True)
    given = x * 2
    y = ours.checkpoint(lambda v: v.exp().sin(), given, use_reentrant=False).sum()
    given.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.backward()


def test_contexts_surround_both_runs() -> None:
    """The first and the second in turn."""
    entered = []

    class Note:
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> None:
            entered.append(self.name)

        def __exit__(self, *unused: object) -> None:
            pass

    x = dj.ones(3, requires_grad=True)
    contexts = lambda: (Note("first"), Note("second"))
    y = ours.checkpoint(lambda v: v.exp().sin(), x, use_reentrant=False, context_fn=contexts)
    y.sum().backward()

    assert ["first", "second"] == entered


@BOTH
@pytest.mark.parametrize("segments", [1, 2, 3])
def test_sequences_are_cut_into_segments(segments: int, reentrant: bool) -> None:
    """Gradients of the plain chain, from a Sequential and from a list."""
    dj.manual_seed(0)
    chain = dj.nn.Sequential(*(dj.nn.Linear(3, 3) for _ in range(5)), dj.nn.Tanh())
    for functions in (chain, list(chain)):
        found = []
        for call in (chain, lambda v, f=functions: ours.checkpoint_sequential(
                f, segments, v, use_reentrant=reentrant)):  # fmt: skip
            chain.zero_grad()
            x = dj.ones(2, 3, requires_grad=True)
            call(x).sum().backward()
            found.append([x.grad.numpy(), *(p.grad.numpy() for p in chain.parameters())])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-6)


def test_a_compiled_function_holds_the_checkpointed_one() -> None:
    """One graph, the numbers of eager execution."""
    net, x = Net().eval(), dj.randn(5, 4)

    def call(v: Any) -> Any:
        return ours.checkpoint(net, v * 2, use_reentrant=False) + 1

    expected = gradients(net, x, call)
    actual = gradients(net, x, dj.compile(call, fullgraph=True))
    for a, b in zip(expected, actual, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-5, atol=1e-6)


def test_a_compiled_function_can_be_checkpointed() -> None:
    """Its node keeps what it saved; gradients are right."""
    net, x = Net().eval(), dj.randn(5, 4)
    fast = dj.compile(net)
    expected = gradients(net, x, net)
    actual = gradients(net, x, lambda v: ours.checkpoint(fast, v, use_reentrant=False))
    for a, b in zip(expected, actual, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [
    {"use_reentrant": True, "scale": 3},
    {"use_reentrant": True, "debug": True},
    {"use_reentrant": False, "determinism_check": "all"},
])  # fmt: skip
def test_options_of_the_other_variant_are_refused(options: dict[str, Any]) -> None:
    """PyTorch's class of error (for the last, its check comes in backward)."""
    with pytest.raises(ValueError, match=r"argument|supported|expected"):
        ours.checkpoint(lambda v: v, dj.ones(1), **options)


def test_the_variant_should_be_named() -> None:
    """Without it the reentrant one runs, with a warning, as in PyTorch."""
    x = dj.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be"):
        ours.checkpoint(lambda v: v * 2, x).sum().backward()
    assert [2.0, 2.0] == x.grad.tolist()


@pytest.mark.usefixtures("no_gpu")
def test_there_are_no_device_states() -> None:
    """Of tensors on the CPU."""
    x = dj.ones(2)
    assert torch.utils.checkpoint.get_device_states(torch.ones(2)) == ours.get_device_states(x)
    ours.set_device_states(*ours.get_device_states(x))
    with pytest.raises(RuntimeError, match="no cuda device"):
        ours.set_device_states([0], [x])
    assert ours.detach_variable((x.requires_grad_(), 3))[0].requires_grad


def test_detached_variables_are_leaves_and_others_stay() -> None:
    for library, module in ((dj, ours), (torch, torch.utils.checkpoint)):
        x = library.ones(2, requires_grad=True) * 2
        given = (x, x.detach(), None, 3, "text", [x])
        leaf, plain, *others = module.detach_variable(given)
        assert (True, True) == (leaf.is_leaf, leaf.requires_grad)
        assert not plain.requires_grad
        assert given[2:] == tuple(others)


@pytest.mark.usefixtures("no_gpu")
def test_forks_of_the_generator_go_back() -> None:
    """Also where the block raises; not where they are disabled."""
    dj.manual_seed(3)
    with dj.random.fork_rng():
        inside = dj.rand(3).tolist()
    assert inside == dj.rand(3).tolist()

    with pytest.raises(KeyError), dj.random.fork_rng(devices=[]):
        inside = dj.rand(3).tolist()
        raise KeyError
    assert inside == dj.rand(3).tolist()

    with dj.random.fork_rng(enabled=False):
        inside = dj.rand(3).tolist()
    assert inside != dj.rand(3).tolist()
    with pytest.raises(RuntimeError, match="no cuda device"), dj.random.fork_rng(devices=[0]):
        pass


def test_decorated_functions_fork_the_generator() -> None:
    """`fork_rng()` is a decorator, too."""
    draw = dj.random.fork_rng()(lambda: dj.rand(2).tolist())

    assert draw() == draw()
