"""Writes to saved tensors in a block that allows them, in both libraries where PyTorch is there."""

import importlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj


def libraries() -> list[Any]:
    """dynajit, and PyTorch where it is installed."""
    found: list[Any] = [dj]
    if importlib.util.find_spec("torch"):
        found.append(importlib.import_module("torch"))
    return found


def allowed(m: Any) -> Any:
    return m.autograd.graph.allow_mutation_on_saved_tensors()


def leaf(m: Any) -> Any:
    return m.tensor([0.5, 1.0, 2.0, -1.0], requires_grad=True)


def masked(m: Any, x: Any) -> None:
    x[m.tensor([True, False, True, False])] = 3.0


def stepped(m: Any, x: Any) -> None:
    x.grad = m.ones(4)
    m.optim.SGD([x], lr=0.5, momentum=0.5).step()
    m.optim.Adam([x], lr=0.5).step()
    x.grad = None


WRITES: "dict[str, Callable[[Any, Any], object]]" = {
    "arithmetic": lambda m, x: x.mul_(3).add_(x.detach().clone()),
    "operator": lambda m, x: x.__iadd__(1),
    "of a view": lambda m, x: x[1:3].mul_(2),
    "of a turned view": lambda m, x: x.view(2, 2).t()[1].mul_(2),
    "an element": lambda m, x: x.__setitem__(2, 5.0),
    "a slice": lambda m, x: x.__setitem__(slice(0, 2), m.zeros(2)),
    "a mask": masked,
    "positions": lambda m, x: x.__setitem__(m.tensor([0, 0, 3]), 7.0),
    "copy": lambda m, x: x.copy_(m.ones(4)),
    "zero": lambda m, x: x.zero_(),
    "fill": lambda m, x: x.fill_(2.0),
    "random": lambda m, x: x.uniform_().normal_(),
    "index_fill": lambda m, x: x.index_fill_(0, m.tensor([1]), 4.0),
    "scatter": lambda m, x: x.scatter_(0, m.tensor([1]), 4.0),
    "masked_fill": lambda m, x: x.masked_fill_(x.detach() > 0, 4.0),
    "diagonal": lambda m, x: x.view(2, 2).fill_diagonal_(9.0),
    "relu": lambda m, x: m.nn.functional.relu(x, inplace=True),
    "foreach": lambda m, x: m._foreach_add_([x], 1.0),
    "map": lambda m, x: x.detach().map_(m.ones(4), lambda a, b: a + b),
    "optimizer": stepped,
    "init": lambda m, x: m.nn.init.ones_(x),
    "clamp": lambda m, x: x.clamp_(0.0, 0.5),
    "out": lambda m, x: m.sin(m.ones(4), out=x.detach()),
    "of a detached one": lambda m, x: x.detach().add_(1),
    "sort": lambda m, x: m.sort(m.ones(4), out=(x.detach(), m.empty(4, dtype=m.int64))),
    "reshaped": lambda m, x: x.detach().unsqueeze_(0).add_(1),
}


@pytest.mark.parametrize("name", WRITES)
def test_backward_computes_with_what_was_saved(name: str) -> None:
    """Derivatives by hand: PyTorch 2.13 has other ones for writes to views of leaves."""
    m = dj
    with allowed(m):
        a = leaf(m)
        b = a.detach().clone().requires_grad_()
        out = (b.exp() * b * a).sum() + (b * b).sum()
        with m.no_grad():
            WRITES[name](m, b)
        out.backward(inputs=(a, b))
    x = np.array([0.5, 1.0, 2.0, -1.0], np.float32)
    expected = np.exp(x) * x, (np.exp(x) * x + np.exp(x)) * x + 2 * x

    np.testing.assert_allclose(expected[0], a.grad.numpy(), rtol=1e-6)
    np.testing.assert_allclose(expected[1], b.grad.numpy().reshape(4), rtol=1e-6)


@pytest.mark.parametrize("m", libraries())
def test_recorded_writes_give_their_own_gradients(m: Any) -> None:
    with allowed(m):
        a = leaf(m)
        b = a.clone()
        out = (b**2).sum()
        b.mul_(b)
        out = out + (b**3).sum()
        b[:2].sin_()
        out = out + b.exp().sum()
        out.backward()
    x = np.array([0.5, 1.0, 2.0, -1.0])
    last = np.where([1, 1, 0, 0], np.exp(np.sin(x * x)) * np.cos(x * x) * 2 * x, 0)
    last += np.where([0, 0, 1, 1], np.exp(x * x) * 2 * x, 0)

    np.testing.assert_allclose(2 * x + 6 * x**5 + last, a.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize("m", libraries())
def test_results_that_are_saved_may_be_overwritten(m: Any) -> None:
    with allowed(m):
        a = leaf(m)
        b = a.exp()
        c = m.nn.functional.softmax(b, 0)
        out = (b * 1).sum() + (c * c).sum()
        b.zero_()
        c.detach().zero_()
        out.backward()
    again = leaf(m)
    b = again.exp()
    c = m.nn.functional.softmax(b, 0)
    (b.sum() + (c * c).sum()).backward()

    np.testing.assert_allclose(again.grad.numpy(), a.grad.numpy(), rtol=1e-6)


@pytest.mark.parametrize("m", libraries())
def test_each_version_is_copied_once_and_let_go_of_with_the_tape(m: Any) -> None:
    with allowed(m) as block:
        a = leaf(m).clone()
        b, c = a**2, a**2
        assert 0 == len(block.cloned)
        a.sin_()
        a.sin_()
        assert 1 == len(block.cloned)
        d = a**2
        a.sin_()
        assert 2 == len(block.cloned)
        del b, c
        assert 1 == len(block.cloned)
        del d
        assert 0 == len(block.cloned)
        (a**2).sum().backward()
        a.detach().sin_()
        assert 0 == len(block.cloned)


@pytest.mark.parametrize("m", libraries())
def test_second_derivatives(m: Any) -> None:
    with allowed(m):
        a = leaf(m)
        b = a.clone()
        out = (b**3).sum()
        b.sin_()
        (first,) = m.autograd.grad(out, a, create_graph=True)
        (second,) = m.autograd.grad(first.sum(), a)

    assert [3.0, 6.0, 12.0, -6.0] == second.tolist()


@pytest.mark.parametrize("m", libraries())
def test_backward_runs_within_its_block(m: Any) -> None:
    with allowed(m):
        out = (leaf(m) ** 2).sum()
    with pytest.raises(AssertionError, match="Trying to backward outside"):
        out.backward()
    with allowed(m), pytest.raises(AssertionError, match="Trying to backward outside"):
        out.backward()
    with allowed(m), pytest.raises(RuntimeError, match="cannot be nested"), allowed(m):
        pass


def test_writes_that_are_not_seen_are_refused() -> None:
    with allowed(dj):
        a = leaf(dj)
        b = a.clone()
        out = (b * b).sum()
        thread = threading.Thread(target=lambda: b.detach().add_(1))
        thread.start()
        thread.join()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.backward()


def test_after_the_block_writes_are_refused_as_before() -> None:
    with allowed(dj):
        pass
    a = leaf(dj)
    b = a.clone()
    out = (b * b).sum()
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_vmap_within_a_block_limits_writes_for_itself() -> None:
    with allowed(dj):
        a = leaf(dj)
        b = a.clone()
        out = (b * b).sum()
        dj.vmap(lambda row: row.mul_(2))(b.detach())
        dj.vmap(lambda row: row + 1)(a)
        b.detach().add_(1)
        out.backward()

    assert [1.0, 2.0, 4.0, -2.0] == a.grad.tolist()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("is_compiled_before", [True, False])
def test_compiled_functions_write_within_a_block(is_compiled_before: bool) -> None:
    @dj.compile
    def write(x: Any) -> Any:
        x.mul_(3)
        return x + 1

    if is_compiled_before:
        write(dj.ones(4))
    with allowed(dj):
        a = leaf(dj)
        b = a.clone()
        out = (b * b).sum()
        write(b.detach())
        out.backward()

    assert [1.0, 2.0, 4.0, -2.0] == a.grad.tolist()


def test_writes_to_what_a_compiled_call_saved_are_refused() -> None:
    compute = dj.compile(lambda x: (x.exp() * x, x.exp()))
    for saved in (0, 1):
        with allowed(dj):
            a = leaf(dj)
            b = a.clone()
            product, power = compute(b)
            (power if saved else b).detach().zero_()
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                (product.sum() + power.sum()).backward()


@pytest.mark.filterwarnings("ignore")
def test_a_block_within_a_compiled_function_ends_the_graph() -> None:
    def step(x: Any) -> Any:
        with dj.autograd.graph.allow_mutation_on_saved_tensors():
            y = x * 2
            out = (y * y).sum()
            y.zero_()
            out.backward()
        return x.grad.clone()

    expected = step(leaf(dj)).tolist()

    assert expected == dj.compile(step)(leaf(dj)).tolist()
