"""Hooks of nodes, in both libraries where PyTorch is installed."""

import gc
import importlib
from typing import Any

import pytest

import dynajit as dj


def libraries() -> list[Any]:
    """dynajit, and PyTorch where it is installed."""
    found: list[Any] = [dj]
    if importlib.util.find_spec("torch"):
        found.append(importlib.import_module("torch"))
    return found


def leaf(m: Any, *numbers: float) -> Any:
    return m.tensor(numbers, requires_grad=True)


def node_at(x: Any) -> Any:
    return x.view_as(x).grad_fn.next_functions[0][0]


def watch(order: list[Any], x: Any) -> Any:
    """Every kind of hook on a leaf, in another order than that in which they are called."""
    node = node_at(x)
    node.register_hook(lambda i, o: order.append(("after", i, o[0].tolist())))
    x.register_post_accumulate_grad_hook(lambda p: order.append(("grown", p.grad.tolist())))
    node.register_prehook(lambda o: order.append(("before", o[0].tolist())))
    x.register_hook(lambda g: order.append(("gradient", g.tolist())))
    return node


@pytest.mark.parametrize("m", libraries())
def test_hooks_at_a_leaf_are_called_from_the_gradient_to_what_has_grown(m: Any) -> None:
    x, order = leaf(m, 1.0), []
    node = watch(order, x)
    (x * 3).sum().backward()
    (x * 4).sum().backward()
    assert [
        ("gradient", [3.0]), ("before", [3.0]), ("grown", [3.0]), ("after", (), [3.0]),
        ("gradient", [4.0]), ("before", [4.0]), ("grown", [7.0]), ("after", (), [4.0]),
    ] == order  # fmt: skip

    order.clear()
    m.autograd.grad((x * 3).sum(), x)
    assert [("gradient", [3.0])] == order
    assert node is node_at(x)


@pytest.mark.parametrize("m", libraries())
def test_what_a_hook_before_a_leaf_returns_is_accumulated(m: Any) -> None:
    x = leaf(m, 1.0, 2.0)
    node = node_at(x)
    handle = node.register_prehook(lambda o: (o[0] * 10,))
    (x * x).sum().backward()
    handle.remove()
    (x * x).sum().backward()

    assert [22.0, 44.0] == x.grad.tolist()


@pytest.mark.parametrize("m", libraries())
def test_a_hook_behind_a_leaf_may_set_its_gradient(m: Any) -> None:
    x = leaf(m, 1.0, 2.0)
    node = node_at(x)

    def later(inputs: Any, outputs: Any) -> None:
        x.grad = outputs[0] + 1

    node.register_hook(later)
    (x * x).sum().backward()

    assert [3.0, 5.0] == x.grad.tolist()


@pytest.mark.parametrize("m", libraries())
def test_hooks_at_a_leaf_end_with_the_tape_that_was_asked_for_it(m: Any) -> None:
    x, order = leaf(m, 1.0), []
    y = (x * 3).sum()
    y.grad_fn.next_functions[0][0].next_functions[0][0].register_hook(lambda i, o: order.append(0))
    y.backward()
    assert 1 == len(order)
    del y
    gc.collect()
    (x * 3).sum().backward()

    assert 1 == len(order)


@pytest.mark.parametrize("m", libraries())
def test_hooks_of_a_node_whose_result_is_chosen_are_called(m: Any) -> None:
    x, order = leaf(m, 1.0), []
    y = x * 2
    y.grad_fn.register_prehook(lambda o: order.append("before"))
    y.grad_fn.register_hook(lambda i, o: order.append("after"))
    m.autograd.grad((y * 3).sum(), y, retain_graph=True)
    assert [] == order
    (y * 3).sum().backward(inputs=(y,))

    assert (["before", "after"], [3.0], None) == (order, y.grad.tolist(), x.grad)


@pytest.mark.parametrize("m", libraries())
def test_a_hook_behind_accumulation_returns_nothing(m: Any) -> None:
    x = leaf(m, 1.0)
    x.register_post_accumulate_grad_hook(lambda p: p.grad)
    with pytest.raises(RuntimeError, match="hooks should return None"):
        (x * 2).sum().backward()


@pytest.mark.parametrize("m", libraries())
def test_the_end_of_the_tape_is_a_node(m: Any) -> None:
    x = leaf(m, 1.0)
    node = node_at(x)

    assert isinstance(node, m.autograd.graph.Node)
    assert ((), "torch::autograd::AccumulateGrad") == (node.next_functions, node.name())
    assert node.variable is x
    assert m.autograd.graph.get_gradient_edge(x).node is node


def test_hooks_at_a_leaf_that_return_too_much_are_refused() -> None:
    x = leaf(dj, 1.0)
    node = node_at(x)
    handle = node.register_hook(lambda i, o: 5)
    with pytest.raises(RuntimeError, match="Expected 0"):
        (x * 2).sum().backward()
    handle.remove()
    node.register_prehook(lambda o: (o[0], o[0]))
    with pytest.raises(RuntimeError, match="Expected 1"):
        (x * 2).sum().backward()


def test_compiled_calls_and_captured_backward_call_hooks_at_leaves() -> None:
    def step(x: Any) -> Any:
        (x * x).exp().sum().backward()
        return x.grad.clone()

    compiled = dj.compile(step)
    x, order = leaf(dj, 0.5, 1.0), []
    expected = compiled(x).tolist()
    x.grad = None
    node = watch(order, x)
    assert expected == compiled(x).tolist()
    seen = list(order)
    assert ["gradient", "before", "grown", "after"] == [entry[0] for entry in seen]
    order.clear()
    x.grad = None
    dj.compile(lambda x: (x * x).exp().sum())(x).backward()

    assert (expected, seen, node) == (x.grad.tolist(), order, node_at(x))


@pytest.mark.parametrize("m", libraries())
def test_what_a_node_saves_has_names(m: Any) -> None:
    a = leaf(m, 1.0, 2.0)
    b = a * a
    c, d = a * b, a.exp()
    saved = (b.grad_fn._saved_self, b.grad_fn._saved_other, c.grad_fn._saved_self)
    assert all(tensor is a for tensor in saved)
    assert c.grad_fn._saved_other is b
    assert d.grad_fn._saved_result.grad_fn is d.grad_fn
    assert d.tolist() == d.grad_fn._saved_result.tolist()
    for name in ("_saved_self", "_saved_what", "what"):
        assert not hasattr(d.grad_fn, name)
    (c.sum() + d.sum()).backward()
    for node, name in ((c.grad_fn, "_saved_self"), (d.grad_fn, "_saved_result")):
        with pytest.raises(RuntimeError, match="after they have already been freed"):
            getattr(node, name)


@pytest.mark.parametrize("m", libraries())
def test_one_saved_tensor_may_go_through_functions_of_the_program(m: Any) -> None:
    a = leaf(m, 1.0, 2.0)
    y, z = a * a, a.exp()
    raw = y.grad_fn._raw_saved_self
    raw.register_hooks(lambda x: x * 2, lambda x: x)
    z.grad_fn._raw_saved_result.register_hooks(lambda x: x * 0, lambda x: x)
    assert [2.0, 4.0] == y.grad_fn._saved_self.tolist()
    with pytest.raises(RuntimeError, match="already been set"):
        raw.register_hooks(lambda x: x, lambda x: x)
    (y.sum() + z.sum()).backward()
    assert [3.0, 6.0] == a.grad.tolist()

    y = a * a
    with pytest.raises(RuntimeError, match="pack hook is modifying its input in place"):
        y.grad_fn._raw_saved_self.register_hooks(lambda x: x.mul_(2), lambda x: x)


@pytest.mark.parametrize("m", libraries())
def test_second_derivatives_pass_through_a_tensor_with_functions_of_its_own(m: Any) -> None:
    a = leaf(m, 1.0, 2.0)
    b = a * 1
    y = b**3
    y.grad_fn._raw_saved_self.register_hooks(lambda x: x.clone(), lambda x: x)
    (first,) = m.autograd.grad(y.sum(), a, create_graph=True)
    (second,) = m.autograd.grad(first.sum(), a)

    assert [6.0, 12.0] == second.tolist()
