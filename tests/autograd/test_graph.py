"""Saved tensors that go through functions of the program's own, and places on the tape."""

import importlib
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.autograd import graph
from dynajit.utils.checkpoint import checkpoint


def libraries() -> list[Any]:
    """(library, its `autograd.graph`): dynajit, and PyTorch where it is installed."""
    found = [(dj, graph)]
    torch = importlib.util.find_spec("torch") and importlib.import_module("torch")
    if torch:
        found.append((torch, importlib.import_module("torch.autograd.graph")))
    return found


class Journal:
    """Hooks that keep NumPy arrays, and a list of what they were called with. Mutable."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.entries: list[Any] = []

    def pack(self, tensor: Any) -> Any:
        self.entries.append(("packed", tuple(tensor.shape)))
        return tensor.numpy().copy()

    def unpack(self, array: Any) -> Any:
        self.entries.append(("unpacked", array.shape))
        return self.library.from_numpy(array)


def saved_twice(m: Any, x: Any) -> Any:
    return (x * x.exp()).sin().sum()


def product(m: Any, x: Any) -> Any:
    return (m.tanh(x.reshape(1, 3)) @ x.reshape(3, 1)).sum()


def normalized(m: Any, x: Any) -> Any:
    return m.nn.functional.layer_norm(x, (3,)).pow(3).sum()


def written(m: Any, x: Any) -> Any:
    y = x * 2
    z = y * y
    y.add_(1)  # whether it was written to is the program's business
    return z.sum()


@pytest.mark.parametrize("function", [saved_twice, product, normalized, written])
def test_backward_computes_with_what_unpack_returns(function: Any) -> None:
    """Values of PyTorch."""
    found = []
    for library, module in libraries():
        journal = Journal(library)
        x = library.tensor([0.5, 1.0, -0.25], requires_grad=True)
        with module.saved_tensors_hooks(journal.pack, journal.unpack):
            y = function(library, x)
        kinds = {kind for kind, _ in journal.entries}
        assert {"packed"} == kinds
        y.backward()
        assert len(journal.entries) >= 2
        found.append(x.grad.numpy())
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, rtol=2e-5, atol=1e-6)


def test_the_same_tensors_are_packed_as_by_pytorch() -> None:
    entries = []
    for library, module in libraries():
        journal = Journal(library)
        x = library.tensor([0.5, 1.0, -0.25], requires_grad=True)
        with module.saved_tensors_hooks(journal.pack, journal.unpack):
            y = saved_twice(library, x)
        y.backward()
        entries.append(journal.entries)
    for other in entries[1:]:
        assert other == entries[0]


def test_hooks_may_change_values() -> None:
    """Halves, doubled: the slope of x * x is then 4 * x."""
    x = dj.tensor([1.0, 2.0], requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        y = (x * x).sum()
    y.backward()
    assert [4.0, 8.0] == x.grad.tolist()


def test_the_innermost_block_counts() -> None:
    x = dj.tensor([1.0], requires_grad=True)
    outer, inner = Journal(dj), Journal(dj)
    with graph.saved_tensors_hooks(outer.pack, outer.unpack):
        y = x.exp()
        with graph.saved_tensors_hooks(inner.pack, inner.unpack):
            z = y.sin()
        z = z.sin()
    z.sum().backward()
    assert (4, 2) == (len(outer.entries), len(inner.entries))


def test_derivatives_of_gradients_pass_through_packed_tensors() -> None:
    """To leaves and to results; as without hooks."""
    gradients = []
    for is_hooked in (True, False):
        x = dj.tensor([0.5, 1.0, -0.25], requires_grad=True)
        journal = Journal(dj)
        hooks = (journal.pack, journal.unpack) if is_hooked else (lambda t: t, lambda t: t)
        with graph.saved_tensors_hooks(*hooks):
            y = (x**3 * x.exp()).sum()
            (first,) = dj.autograd.grad(y, x, create_graph=True)
        (first * first).sum().backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-6)


class Exponential(dj.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        result = x.exp()
        ctx.save_for_backward(x, result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        x, result = ctx.saved_tensors
        return gradient * result + 0 * x


def test_functions_of_the_program_save_through_hooks() -> None:
    """Inputs and results."""
    x = dj.tensor([0.0, 1.0], requires_grad=True)
    journal = Journal(dj)
    with graph.saved_tensors_hooks(journal.pack, journal.unpack):
        y = Exponential.apply(x)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([0.0, 1.0]), rtol=1e-6)
    assert 4 == len(journal.entries)


def test_checkpoints_save_their_arguments_through_hooks() -> None:
    """What is within is computed again."""
    x = dj.tensor([1.0, 2.0], requires_grad=True)
    journal = Journal(dj)
    with graph.saved_tensors_hooks(journal.pack, journal.unpack):
        y = checkpoint(lambda t: (t * t.exp()).sum(), x, use_reentrant=False)
    y.backward()
    assert [("packed", (2,)), ("unpacked", (2,))] == journal.entries
    np.testing.assert_allclose(x.grad.numpy(), [2 * np.e, 3 * np.e**2], rtol=1e-6)


def test_save_on_cpu_gives_the_same_gradients() -> None:
    x = dj.tensor([1.0, 2.0], requires_grad=True)
    with graph.save_on_cpu(pin_memory=True):
        y = (x * x.exp()).sum()
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), [2 * np.e, 3 * np.e**2], rtol=1e-6)


def test_bad_hooks_are_refused() -> None:
    x = dj.ones(2, requires_grad=True)

    def with_hooks(pack: Any, unpack: Any) -> Any:
        with graph.saved_tensors_hooks(pack, unpack):
            return (x * x).sum()

    with pytest.raises(RuntimeError, match="in place"):
        with_hooks(lambda t: t.mul_(2), lambda t: t)
    with pytest.raises(TypeError, match="expected to be a Tensor"):
        with_hooks(lambda t: t, lambda t: 1).backward()
    with graph.disable_saved_tensors_hooks("not now"), pytest.raises(RuntimeError, match="not now"):
        with_hooks(lambda t: t, lambda t: t)
    with_hooks(lambda t: t, lambda t: t).backward()
    with (
        pytest.raises(RuntimeError, match="not within"),
        graph.saved_tensors_hooks(lambda t: t, lambda t: t),
        graph.disable_saved_tensors_hooks("not within"),
    ):
        pass


def test_compiled_calls_save_through_hooks() -> None:
    """Also where the layout of an input is not row by row, and where the block is within."""
    compiled = dj.compile(lambda a, b: (a.exp() @ b).sin().sum(), fullgraph=True)
    found = []
    for is_hooked in (False, True):
        a = dj.arange(12.0).reshape(3, 4).t().mul(0.1).requires_grad_()
        b = dj.ones(2, 3).t().requires_grad_()
        packed: list[Any] = []

        def pack(t: Any, packed: Any = packed) -> Any:
            packed.append(t)
            return t.clone()

        if is_hooked:
            with graph.saved_tensors_hooks(pack, lambda t: t.contiguous()):
                result = compiled(a, b)
            assert packed
        else:
            result = compiled(a, b)
        result.backward()
        found.append((a.grad.numpy(), b.grad.numpy()))
    for before, after in zip(*found, strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_compiled_call_with_a_history_of_its_gradient() -> None:
    compiled = dj.compile(lambda t: (t**3 * t.exp()).sum(), fullgraph=True)
    x = dj.tensor([0.5, 1.0], requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t.numpy().copy(), dj.from_numpy):
        y = compiled(x)
    (first,) = dj.autograd.grad(y, x, create_graph=True)
    (second,) = dj.autograd.grad(first.sum(), x)
    t = np.array([0.5, 1.0])
    np.testing.assert_allclose(second.numpy(), np.exp(t) * (6 * t + 6 * t**2 + t**3), rtol=1e-5)


def test_a_compiled_call_refuses_other_shapes() -> None:
    compiled = dj.compile(lambda t: t.exp().sin().sum(), fullgraph=True)
    x = dj.tensor([0.5, 1.0], requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t[:1]):
        y = compiled(x)
    with pytest.raises(RuntimeError, match="unpack hook"):
        y.backward()


def test_a_block_within_a_compiled_function_ends_the_graph() -> None:
    """What is computed within it saves through the hooks; what is computed around it does not."""
    journal = Journal(dj)

    def program(x: Any) -> Any:
        y = x * 2
        with graph.saved_tensors_hooks(journal.pack, journal.unpack):
            y = (y * y.exp()).sin()
        return (y * y).sum()

    compiled = dj.compile(program)
    gradients = []
    for function in (program, compiled, compiled):
        journal.entries.clear()
        x = dj.tensor([0.1, 0.2], requires_grad=True)
        function(x).backward()
        gradients.append(x.grad.numpy())
        assert journal.entries
    for other in gradients[1:]:
        np.testing.assert_allclose(other, gradients[0], rtol=1e-5)


def test_edges_stand_for_tensors() -> None:
    """In `grad` and `backward`; as in PyTorch."""
    for library, module in libraries():
        x = library.ones(2, requires_grad=True)
        y = x * 3
        z = (y * y).sum()
        edge, leaf = module.get_gradient_edge(y), module.get_gradient_edge(x)
        assert edge.node is y.grad_fn
        assert 0 == edge.output_nr
        options: Any = {"retain_graph": True}
        assert [6.0, 6.0] == library.autograd.grad(z, edge, **options)[0].tolist()
        assert [18.0, 18.0] == library.autograd.grad(z, [leaf], **options)[0].tolist()
        start = library.tensor([1.0, 2.0])
        assert [3.0, 6.0] == library.autograd.grad(edge, x, start, **options)[0].tolist()
        library.autograd.backward(edge, start, **options)
        assert [3.0, 6.0] == x.grad.tolist()
        unused = module.get_gradient_edge(x * 2)
        assert (None,) == library.autograd.grad(z, unused, allow_unused=True, **options)
        for refused in (
            lambda: library.autograd.grad(z, unused, **options),  # noqa: B023
            lambda: library.autograd.grad(z, unused, materialize_grads=True, **options),  # noqa: B023
            lambda: library.autograd.grad(edge, x, **options),  # noqa: B023
            lambda: module.get_gradient_edge(library.ones(1)),  # noqa: B023
            lambda: module.increment_version(1),  # noqa: B023
        ):
            with pytest.raises(RuntimeError):
                refused()
        assert isinstance(z.grad_fn, module.Node)


def test_increment_version_is_a_write() -> None:
    x = dj.ones(2, requires_grad=True)
    y = x * 2
    z = (y * y).sum()
    graph.increment_version([y])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    graph.increment_version(y)


def test_numpy_of_a_tensor_that_requires_a_gradient() -> None:
    """Refused only where gradients are recorded."""
    x = dj.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="numpy"):
        x.numpy()
    with dj.no_grad():
        assert [1.0, 1.0] == x.numpy().tolist()


@pytest.mark.parametrize("m", [library for library, _ in libraries()])
def test_saved_tensors_wait_on_the_cpu_within_a_checkpoint_too(m: Any) -> None:
    again = importlib.import_module(f"{m.__name__}.utils.checkpoint").checkpoint

    def inner(a: Any) -> Any:
        h = a.pow(2)
        with m.autograd.graph.save_on_cpu():
            h = h.pow(2).sin()
        return h.pow(2)

    x, y = (m.tensor([0.5, 1.5, -1.0], requires_grad=True) for _ in range(2))
    again(inner, x, use_reentrant=False).sum().backward()
    inner(y).sum().backward()

    np.testing.assert_allclose(y.grad.numpy(), x.grad.numpy(), rtol=1e-6)
