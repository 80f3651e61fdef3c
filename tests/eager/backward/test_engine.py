"""The backward engine: accumulation, retained graphs, hooks, double backward, long chains."""

import gc
import importlib
import resource
import threading
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentError, AutogradError, ShapeError
from dynajit.eager.backward import engine as tape
from dynajit.eager.backward import present
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.table.op_table import TABLE


def leaf(*values: float) -> Tensor:
    return tensor(list(values), requires_grad=True)


def test_gradient_of_a_product() -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x * y).sum().backward()

    assert ([3.0, 4.0], [1.0, 2.0]) == (x.grad.tolist(), y.grad.tolist())


def test_gradients_accumulate_over_calls() -> None:
    x = leaf(1.0)
    for _ in range(3):
        (x * 2.0).sum().backward()

    assert [6.0] == x.grad.tolist()


def test_a_value_used_twice_gets_both_gradients() -> None:
    x = leaf(3.0)
    y = x * x
    (y * y + y).sum().backward()

    assert [4 * 27.0 + 6.0] == x.grad.tolist()


def test_broadcasting_is_undone() -> None:
    x = tensor([[1.0], [2.0]], requires_grad=True)
    y = leaf(1.0, 2.0, 3.0)
    (x * y).sum().backward()

    assert ([[6.0], [6.0]], [3.0, 3.0, 3.0]) == (x.grad.tolist(), y.grad.tolist())


def test_the_gradient_has_the_dtype_of_the_input() -> None:
    x = tensor(np.ones(2, np.float32), requires_grad=True)
    y = tensor(np.ones(2, np.float64))
    (x * y).sum().backward()

    assert x.dtype is x.grad.dtype


def test_gradients_of_two_leaves_do_not_share_memory() -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x + y).sum().backward()
    x.grad.zero_()

    assert [1.0, 1.0] == y.grad.tolist()


def test_the_given_gradient_is_not_aliased() -> None:
    x, start = leaf(1.0, 2.0), tensor([1.0, 1.0])
    (x + 0.0).backward(start)
    x.grad.zero_()

    assert [1.0, 1.0] == start.tolist()


def test_an_unshared_gradient_is_not_copied() -> None:
    x = tensor(np.ones(1000, np.float32), requires_grad=True)
    seen = []
    y = x * 2.0
    y.grad_fn.register_hook(lambda results, gradients: seen.append(results[0].data_ptr()))
    y.sum().backward()

    assert [x.grad.data_ptr()] == seen


def test_scalar_output_is_needed_without_a_gradient() -> None:
    with pytest.raises(AutogradError, match="implicitly created only for scalar outputs"):
        (leaf(1.0, 2.0) * 2.0).backward()


def test_a_gradient_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(AutogradError, match="Mismatch in shape"):
        (leaf(1.0, 2.0) * 2.0).backward(tensor([1.0]))


def test_backward_without_a_graph_is_refused() -> None:
    with pytest.raises(AutogradError, match="does not require grad"):
        tensor([1.0]).backward()


def test_backward_of_a_leaf_is_one() -> None:
    x = tensor(2.0, requires_grad=True)
    x.backward()

    assert 1.0 == x.grad.item()


def test_second_backward_is_refused() -> None:
    x = leaf(1.0)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(AutogradError, match="second time"):
        y.backward()


def test_second_backward_works_with_a_retained_graph() -> None:
    x = leaf(3.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()

    assert [12.0] == x.grad.tolist()


def test_a_write_to_a_saved_tensor_is_refused() -> None:
    x = leaf(1.0, 2.0)
    y = x.exp()
    z = y * 2.0
    y.add_(1.0)
    with pytest.raises(AutogradError, match=r"modified by an inplace.*version 1; expected.*0"):
        z.sum().backward()


def test_a_write_through_a_detached_tensor_is_noticed() -> None:
    x = leaf(1.0, 2.0)
    y = x.exp()
    y.detach().zero_()
    with pytest.raises(AutogradError, match="modified by an inplace"):
        y.sum().backward()


def test_a_write_to_a_tensor_that_is_not_saved_is_fine() -> None:
    x = leaf(1.0, 2.0)
    y = x + 1.0
    z = y + 2.0
    y.mul_(3.0)
    (z + y).sum().backward()

    assert [4.0, 4.0] == x.grad.tolist()


def test_no_grad_records_nothing() -> None:
    with no_grad():
        y = leaf(1.0) * 2.0

    assert (False, None, True) == (y.requires_grad, y.grad_fn, y.is_leaf)


def test_comparisons_have_no_history() -> None:
    assert not (leaf(1.0) > 0.0).requires_grad


def test_grad_returns_gradients_and_leaves_grad_alone() -> None:
    x, y = leaf(2.0), leaf(3.0)
    gx, gy = tape.grad((x * y).sum(), [x, y])

    assert ([3.0], [2.0], None) == (gx.tolist(), gy.tolist(), x.grad)


def test_grad_with_respect_to_a_non_leaf() -> None:
    x = leaf(2.0)
    y = x * 3.0
    (g,) = tape.grad((y * y).sum(), y)

    assert [12.0] == g.tolist()


def test_grad_of_an_unused_input() -> None:
    x, y = leaf(2.0), leaf(3.0)
    with pytest.raises(AutogradError, match="not have been used"):
        tape.grad((x * 2.0).sum(), y)

    assert (None,) == tape.grad((x * 2.0).sum(), y, allow_unused=True)
    (zeros,) = tape.grad((x * 2.0).sum(), y, materialize_grads=True)
    assert [0.0] == zeros.tolist()


def test_grad_of_an_input_that_requires_none() -> None:
    with pytest.raises(AutogradError, match="does not require grad"):
        tape.grad((leaf(1.0) * 2.0).sum(), tensor([1.0]))


def test_grad_runs_only_the_nodes_it_needs() -> None:
    x, y = leaf(2.0), leaf(3.0)
    left = x * 2.0
    ran = []
    left.grad_fn.register_hook(lambda results, gradients: ran.append("left"))
    tape.grad((left * y).sum(), y)

    assert [] == ran


def test_double_backward() -> None:
    x = leaf(2.0, 3.0)
    (first,) = tape.grad((x * x * x).sum(), x, create_graph=True)
    (second,) = tape.grad(first.sum(), x, create_graph=True)
    (third,) = tape.grad(second.sum(), x)

    expected = ([12.0, 27.0], [12.0, 18.0], [6.0, 6.0])
    assert expected == (first.tolist(), second.tolist(), third.tolist())


def test_double_backward_through_a_saved_result() -> None:
    x = leaf(0.5)
    (first,) = tape.grad(x.exp().sum(), x, create_graph=True)
    (second,) = tape.grad(first.sum(), x)

    assert pytest.approx(np.exp(0.5)) == second.item()


def test_backward_with_create_graph_makes_grad_differentiable() -> None:
    x = leaf(3.0)
    (x * x).sum().backward(create_graph=True)

    assert x.grad.requires_grad


def test_backward_into_chosen_inputs_only() -> None:
    x, y = leaf(2.0), leaf(3.0)
    (x * y).sum().backward(inputs=[x])

    assert ([3.0], None) == (x.grad.tolist(), y.grad)


def test_a_tensor_hook_may_replace_the_gradient() -> None:
    x = leaf(1.0)
    y = x * 2.0
    handle = y.register_hook(lambda g: g * 10.0)
    y.sum().backward()
    handle.remove()
    (x * 2.0).sum().backward()

    assert [22.0] == x.grad.tolist()


def test_a_leaf_hook_sees_the_whole_gradient_once() -> None:
    x = leaf(1.0)
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * 2.0 + x * 3.0).sum().backward()

    assert [[5.0]] == seen


def test_hooks_of_a_dead_tensor_still_run() -> None:
    x = leaf(1.0)
    seen = []
    y = x * 2.0
    y.register_hook(lambda g: seen.append(g.tolist()))
    z = y * 3.0
    del y
    z.sum().backward()

    assert [[3.0]] == seen


def test_a_hook_that_changes_the_shape_is_refused() -> None:
    x = leaf(1.0)
    x.register_hook(lambda g: tensor([1.0, 2.0]))
    with pytest.raises(ShapeError, match="changed the size"):
        (x * 2.0).sum().backward()


def test_a_hook_that_returns_no_tensor_is_refused() -> None:
    x = leaf(1.0)
    x.register_hook(lambda g: 3)
    with pytest.raises(ArgumentError, match="hook returned int"):
        (x * 2.0).sum().backward()


def test_hooks_need_a_gradient() -> None:
    with pytest.raises(AutogradError, match="doesn't require gradient"):
        tensor([1.0]).register_hook(print)


def test_node_hooks_see_and_replace_gradients() -> None:
    x = leaf(1.0)
    y = x * 2.0
    seen = []
    y.grad_fn.register_prehook(lambda gradients: (gradients[0] * 5.0,))

    def after(results, gradients):
        seen.append((results[0].tolist(), gradients[0].tolist()))
        return (results[0] * 7.0, *results[1:])

    y.grad_fn.register_hook(after)
    y.sum().backward()

    assert ([([10.0], [5.0])], [70.0]) == (seen, x.grad.tolist())


def test_post_accumulate_hooks_run_after_grad_is_set() -> None:
    x = leaf(1.0)
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    (x * 2.0).sum().backward()

    assert [[2.0]] == seen


def order_of_hooks(m: Any) -> list[Any]:
    """What hooks of leaves and results see, in the order in which they run, with either library."""
    seen: list[Any] = []
    x = m.ones(3)
    weights = [m.full((3,), float(i + 1)).requires_grad_() for i in range(4)]
    for place, weight in enumerate(weights):
        weight.register_post_accumulate_grad_hook(
            lambda w, place=place: seen.append((place, w.grad.tolist()))
        )
    for turn in range(2):
        h = x
        for place, weight in enumerate(weights):
            h = h * weight
            h.register_hook(lambda g, place=place: seen.append(("result", place)))
        # The last weight is used once more, near the root; the first one near the leaves.
        (h * weights[3] + weights[0] * 2).sum().backward()
        seen.append(turn)
    return seen


def test_hooks_run_as_soon_as_the_gradient_of_a_leaf_is_complete() -> None:
    torch = pytest.importorskip("torch")
    seen = order_of_hooks(dj)
    assert order_of_hooks(torch) == seen
    assert [3, 2, 1, 0] == [first for first, _ in seen[:8] if first != "result"]
    assert seen == dj.compile(order_of_hooks)(dj)


def test_retain_grad_keeps_the_gradient_of_a_non_leaf() -> None:
    x = leaf(1.0)
    y = x * 2.0
    y.retain_grad()
    (y * 3.0).sum().backward()

    assert ([3.0], True, [6.0]) == (y.grad.tolist(), y.retains_grad, x.grad.tolist())


def test_graph_is_released_with_its_last_tensor() -> None:
    x = leaf(1.0)
    y = x * x
    node = weakref.ref(y.grad_fn)
    gc.disable()
    try:
        del y
        assert node() is None
    finally:
        gc.enable()


def test_a_saved_result_makes_no_cycle() -> None:
    x = leaf(1.0)
    y = x.exp()
    node = weakref.ref(y.grad_fn)
    gc.disable()
    try:
        del y
        assert node() is None
    finally:
        gc.enable()


def test_a_chain_of_100000_operations_runs_and_is_freed() -> None:
    x = tensor(1.0, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1.0
    y.backward()
    node = weakref.ref(y.grad_fn)
    (g,) = tape.grad(y * 1.0, x, retain_graph=True)
    del y

    assert (1.0, 1.0, None) == (x.grad.item(), g.item(), node())


def test_next_functions_lead_to_the_leaf() -> None:
    x = leaf(1.0)
    y = x * 2.0
    (edge, index), _ = y.grad_fn.next_functions

    assert ("torch::autograd::AccumulateGrad", 0) == (edge.name(), index)
    assert edge.variable is x
    assert edge is (x + 1).grad_fn.next_functions[0][0]
    assert "MulBackward0" == y.grad_fn.name()


def test_an_error_in_backward_leaves_grad_mode_as_it_was() -> None:
    x = leaf(1.0)
    y = x * 2.0
    y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.sum().backward()

    assert (x * 2.0).requires_grad


def test_views_carry_gradients() -> None:
    x = tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    row = TABLE.select(x, dim=0, index=1)
    turned = TABLE.permute(x, dims=(1, 0))
    (row * TABLE.select(turned, dim=0, index=0)).sum().backward()

    assert [[3.0, 0.0], [4.0 + 1.0, 3.0]] == x.grad.tolist()


def test_random_programs_agree_with_pytorch() -> None:
    torch = pytest.importorskip("torch")
    draw = np.random.default_rng(3)
    unary = ("exp", "sin", "cos", "tanh", "sigmoid")
    binary = ("add", "sub", "mul")
    for _ in range(20):
        arrays = [draw.uniform(-1, 1, shape) for shape in ((2, 3), (3,), (1, 3), ())]
        steps = [
            (str(draw.choice(unary + binary)), int(draw.integers(0, 99)), int(draw.integers(0, 99)))
            for _ in range(12)
        ]
        results = []
        for make in (tensor, torch.tensor):
            leaves = [make(a, requires_grad=True) for a in arrays]
            values = list(leaves)
            for name, i, j in steps:
                a, b = values[i % len(values)], values[j % len(values)]
                values.append(getattr(a, name)() if name in unary else getattr(a, name)(b))
            sum((v.sum() for v in values[4:]), start=leaves[0].sum()).backward()
            results.append([None if x.grad is None else x.grad.tolist() for x in leaves])
        for ours, theirs in zip(*results, strict=True):
            np.testing.assert_allclose(np.array(ours, float), np.array(theirs, float), rtol=1e-10)


def test_5000_training_steps_leave_no_memory_behind() -> None:
    x = tensor(np.ones(2000, np.float32), requires_grad=True)

    def work(count: int) -> None:
        for _ in range(count):
            y = x * 2.0
            y[:10] = 0.0
            y.register_hook(lambda g: g * 1.0)
            (y.exp() * y).sum().backward()
            x.grad = None

    work(50)
    gc.collect()
    gc.disable()
    try:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        work(5000)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    finally:
        gc.enable()

    assert after - before < 8 * 1024  # KiB; leaked arrays would be 40 MB each


def test_threads_run_backward_side_by_side() -> None:
    wrong = []

    def work(seed: int) -> None:
        x = tensor(np.full(4, float(seed)), requires_grad=True)
        for _ in range(100):
            x.grad = None
            (x * x * x).sum().backward()
            if x.grad.tolist() != [3.0 * seed * seed] * 4:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == wrong


def test_a_leaf_frozen_after_the_forward_pass_gets_no_gradient() -> None:
    frozen, detached, other = leaf(1.0, 2.0), leaf(1.0, 2.0), leaf(3.0, 4.0)
    result = (frozen * detached * other).sum()
    frozen.requires_grad_(False)
    detached.detach_()
    result.backward()

    assert frozen.grad is None is detached.grad
    assert [1.0, 4.0] == other.grad.tolist()


def test_hooks_of_a_frozen_leaf_run_as_in_pytorch() -> None:
    x, ran = leaf(1.0), []
    x.register_hook(lambda gradient: ran.append("tensor"))
    x.register_post_accumulate_grad_hook(lambda parameter: ran.append("after"))
    result = (x * 2.0).sum()
    x.requires_grad_(False)
    result.backward()

    assert ["tensor", "after"] == ran
    assert x.grad is None


def test_a_leaf_frozen_and_thawed_gets_its_gradient() -> None:
    x = leaf(1.0)
    result = (x * 2.0).sum()
    x.requires_grad_(False).requires_grad_()
    result.backward()

    assert [2.0] == x.grad.tolist()


def test_a_function_gives_no_gradient_to_leaves_that_are_not_chosen() -> None:
    """Although its backward finds one for each of its inputs."""

    class Product(dj.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g * b, g * a

    seen = []
    a, b = (dj.tensor([2.0, 3.0], requires_grad=True) for _ in range(2))
    b.register_hook(seen.append)
    Product.apply(a, b).sum().backward(inputs=[a])
    assert (a.grad.tolist(), b.grad, seen) == ([2.0, 3.0], None, [])


def test_a_compiled_call_gives_no_gradient_to_leaves_that_are_not_chosen() -> None:
    """Nor runs their hooks."""
    seen = []
    a, b = (dj.tensor([2.0, 3.0], requires_grad=True) for _ in range(2))
    b.register_hook(seen.append)
    product = dj.compile(lambda a, b: (a * b).sum())
    product(a, b).backward(inputs=[a])
    assert (a.grad.tolist(), b.grad, seen) == ([2.0, 3.0], None, [])
    (found,) = dj.autograd.grad(product(a, b), a)
    assert (found.tolist(), b.grad, seen) == ([2.0, 3.0], None, [])

    def within(a, b):
        (a * b).sum().backward(inputs=[a])
        return a.grad

    assert dj.compile(within)(a, b).tolist() == [4.0, 6.0]
    assert (b.grad, seen) == (None, [])


def test_gradients_of_many_starts_are_found_at_once() -> None:
    """As PyTorch finds them, also recorded and where an input is not used."""
    torch = pytest.importorskip("torch")
    found = []
    for t in (dj, torch):
        a = t.tensor([1.0, 2.0, 3.0], requires_grad=True)
        b = t.tensor([1.0, 2.0], requires_grad=True)
        starts = t.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, 1.0]])
        (first,) = t.autograd.grad(a**2, a, starts, is_grads_batched=True, create_graph=True)
        (second,) = t.autograd.grad(first.sum(), a)
        unused = t.autograd.grad(a * 2, [a, b], starts, is_grads_batched=True, allow_unused=True)
        two = t.autograd.grad([a.exp(), b], [a, b], [starts, t.ones(2, 2)], is_grads_batched=True)
        found.append([x if x is None else x.tolist() for x in (first, second, *unused, *two)])
    np.testing.assert_allclose(*[np.concatenate([np.ravel(x) for x in f if x is not None])
                                 for f in found], rtol=1e-6)  # fmt: skip
    assert [x is None for x in found[0]] == [x is None for x in found[1]]
    with pytest.raises(RuntimeError):
        dj.autograd.grad(a, a, None, is_grads_batched=True)


def test_gradients_of_rows_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    results = []
    for t in (torch, dj):
        x = t.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        w = t.tensor([0.2, 0.3], requires_grad=True)
        y = (x @ w).exp()
        both = t.autograd.grad(y, (x, w), t.eye(2), is_grads_batched=True, create_graph=True)
        both[0].sum().backward()
        unused = t.autograd.grad(
            (x * 2).sum(0), [x, w], t.ones(3, 2), is_grads_batched=True, allow_unused=True
        )
        assert unused[1] is None
        results.append([*(g.detach().numpy() for g in (*both, unused[0])), x.grad.numpy()])

    for expected, actual in zip(*results, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_a_backward_runs_while_hooks_are_called() -> None:
    """And neither before nor afterwards, also where one raises."""
    seen = []

    def look(gradient: Tensor) -> None:
        seen.append(present.is_running())

    def fail(gradient: Tensor) -> None:
        raise ValueError("hook")

    x = dj.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(look)
    y.sum().backward()
    z = x * 2
    z.register_hook(fail)
    with pytest.raises(ValueError, match="hook"):
        z.sum().backward()

    assert [True] == seen
    assert not present.is_running()


def libraries() -> list[Any]:
    """dynajit, and PyTorch where it is installed."""
    found: list[Any] = [dj]
    if importlib.util.find_spec("torch"):
        found.append(importlib.import_module("torch"))
    return found


@pytest.mark.parametrize("m", libraries())
def test_zeros_for_unused_inputs_require_a_gradient_where_the_run_is_recorded(m: Any) -> None:
    x, other = m.ones(2, requires_grad=True), m.ones(3, requires_grad=True)
    for is_recorded in (True, False):
        out = (x * x).sum()
        (zeros,) = m.autograd.grad(
            out, other, create_graph=is_recorded, materialize_grads=True
        )  # fmt: skip
        assert ([0.0] * 3, is_recorded) == (zeros.tolist(), zeros.requires_grad)
    with pytest.raises(ValueError, match="Expected allow_unused to be True or not passed"):
        m.autograd.grad((x * x).sum(), x, allow_unused=False, materialize_grads=True)
    with pytest.raises(RuntimeError, match="inputs"):
        m.autograd.grad((x * x).sum(), [])


@pytest.mark.parametrize("m", libraries())
def test_results_that_backward_is_to_reach_retain_their_gradient(m: Any) -> None:
    x = m.ones(2, requires_grad=True)
    y, z = x * 2, x * 5
    edge = m.autograd.graph.GradientEdge(z.grad_fn, z.output_nr)
    (y * z).sum().backward(inputs=(y, edge), retain_graph=True)
    assert ([5.0, 5.0], True, False, None) == (
        y.grad.tolist(), y.retains_grad, z.retains_grad, x.grad,
    )  # fmt: skip
    (y * z).sum().backward(inputs=[m.autograd.graph.get_gradient_edge(x)])

    assert ([10.0, 10.0], [20.0, 20.0]) == (y.grad.tolist(), x.grad.tolist())


@pytest.mark.parametrize("m", libraries())
def test_backward_starts_at_an_edge(m: Any) -> None:
    x = m.ones(2, requires_grad=True)
    y = (x * 2).sum()
    edge = m.autograd.graph.get_gradient_edge(y)
    (first,) = m.autograd.grad(edge, x, retain_graph=True)
    assert [2.0, 2.0] == first.tolist()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        m.autograd.grad(edge, x, m.ones(3))
    with pytest.raises(RuntimeError, match="required to have the same dtype"):
        m.autograd.grad(edge, x, m.ones((), dtype=m.complex64))
    with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs"):
        m.autograd.grad(m.autograd.graph.get_gradient_edge(x * 2), x)


@pytest.mark.parametrize("m", libraries())
def test_the_gradient_of_a_result_that_does_not_keep_it_is_asked_for_with_a_warning(m: Any) -> None:
    x = m.ones(2, requires_grad=True)
    y, kept, given = x * 2, x * 2, x * 2
    kept.retain_grad()
    given.grad = m.ones(2)
    for one in (x, kept, given, y.detach(), m.ones(2), x.view(2).detach()):
        _ = one.grad
    for one in (y, y[0], x[0]):
        with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
            assert one.grad is None


def test_a_compiled_function_that_asks_a_result_for_its_gradient_gives_the_warning() -> None:
    def ask(x: Tensor) -> Any:
        return x.grad is None, x + 1

    compiled = dj.compile(ask)
    x = dj.ones(2, requires_grad=True)
    assert compiled(x)[0]
    with pytest.warns(UserWarning, match="not a leaf"):
        assert compiled(x * 2)[0]
    with pytest.warns(UserWarning, match="not a leaf"):
        assert dj.compile(ask)(x * 2)[0]
    assert compiled(x)[0]


@pytest.mark.parametrize("m", libraries())
def test_data_is_of_the_tensors_own_layout(m: Any) -> None:
    x = m.ones(2)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.data = m.sparse_coo_tensor([[0]], [1.0], (2,), check_invariants=True)


@pytest.mark.parametrize("m", libraries())
def test_whether_backward_may_use_threads_is_kept_only(m: Any) -> None:
    may, say = m.autograd.is_multithreading_enabled, m.autograd.set_multithreading_enabled
    with say(False):
        assert not may()
        say(True)
        assert may()
    assert may()
    say(False)
    assert not may()
    with say(True):
        assert may()
    assert not may()
    say(True)


def test_backward_that_is_recorded_warns_of_cycles_once_in_a_process() -> None:
    """As PyTorch does."""
    m, x = dj, dj.ones(2, requires_grad=True)
    m.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="create_graph=True will create a reference cycle"):
            (x * x).sum().backward(create_graph=True)
    finally:
        m.set_warn_always(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (x * x).sum().backward(create_graph=True)
        m.autograd.grad((x * x).sum(), x, create_graph=True)
    x.grad = None


def test_captured_backward_that_is_recorded_warns_too() -> None:
    @dj.compile(fullgraph=True)
    def step(x: Tensor) -> Any:
        (x * x).sum().backward(create_graph=True)
        return x.grad.sum()

    x = dj.ones(2, requires_grad=True)
    dj.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="create_graph=True will create a reference cycle"):
            assert 4.0 == step(x).item()
    finally:
        dj.set_warn_always(False)
    x.grad = None


@pytest.mark.parametrize("kind", ["tensor", "node", "leaf"])
def test_hooks_end_with_what_they_hang_at(kind: str) -> None:
    """Nothing waits for the garbage collector."""

    class Hook:
        def __call__(self, *arguments: Any) -> None:
            pass

    def attach(hook: Hook) -> weakref.ref[Hook]:
        x = leaf(1.0)
        y = x * 2
        register = {
            "tensor": y.register_hook, "node": y.grad_fn.register_hook, "leaf": x.register_hook,
        }[kind]  # fmt: skip
        register(hook)
        return weakref.ref(hook)

    gc.collect()
    gc.disable()
    try:
        found = attach(Hook())
        assert found() is None
    finally:
        gc.enable()


def test_a_handle_removes_its_own_hook_only() -> None:
    x, seen = leaf(1.0), []
    first = x.register_hook(lambda g: seen.append(1))
    second = x.register_hook(lambda g: seen.append(2))
    assert first.id != second.id
    first.remove()
    first.remove()
    (x * 2).sum().backward()

    assert [2] == seen


def test_a_saved_tensor_that_lost_its_history_is_refused_where_that_counts() -> None:
    """PyTorch refuses it always."""
    x, y = leaf(3.0), leaf(5.0)
    a = x * 2
    b = a * y
    a.detach_()
    (a * y).sum().backward()
    with pytest.raises(AutogradError, match="has been detached in-place"):
        tape.grad(b.sum(), y, create_graph=True)
    (gradient,) = tape.grad(b.sum(), y)

    assert ([6.0], [6.0]) == (gradient.tolist(), y.grad.tolist())


def test_classes_are_decorated_by_grad_modes_with_a_warning() -> None:
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @no_grad()
        class Made:
            def __init__(self) -> None:
                self.is_recorded = dj.is_grad_enabled()

    assert not Made().is_recorded


def test_a_node_that_has_let_go_refuses_gradients_whose_formula_needs_nothing() -> None:
    def refused(library: Any) -> list[bool]:
        functional = library.nn.functional
        computed = [
            lambda x, w, b: functional.linear(x, w, b),
            lambda x, w, b: functional.layer_norm(x, (3,), w[0], b),
            lambda x, w, b: functional.batch_norm(x, None, None, w[0], b, training=True),
            lambda x, w, b: x * w + b,
        ]
        found = []
        for compute in computed:
            x, w, b = (library.ones(shape, requires_grad=True) for shape in ((3, 3), (3, 3), (3,)))
            result = compute(x, w, b).sum()
            result.backward(inputs=[w])
            try:
                result.backward(inputs=[b])
                found.append(False)
            except RuntimeError:
                found.append(True)
        return found

    assert [True, True, True, False] == refused(dj)
    torch = pytest.importorskip("torch")
    assert refused(torch) == refused(dj)
