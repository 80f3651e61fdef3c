"""Backward within a compiled function: the graph holds it whole, and leaves what eager leaves.

The program itself, run eagerly, is the referee: results, `.grad` (which tensors have one, values,
whether two share memory), `requires_grad`, `is_leaf`, versions, and what another backward does.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit import autograd
from dynajit.utils.checkpoint import checkpoint


class Tensors:
    """What programs work on: leaves `w`, `b`, `u`, and `x`, `y` without gradients."""

    def __init__(self) -> None:
        dj.manual_seed(0)
        self.w = dj.randn(4, 3, requires_grad=True)
        self.b = dj.zeros(3, requires_grad=True)
        self.u = dj.randn(3, requires_grad=True)
        self.x = dj.randn(5, 4)
        self.y = dj.randn(5, 3)

    def all(self) -> list[Any]:
        return [self.w, self.b, self.u, self.x, self.y]


Program = Callable[[Tensors], Any]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


@program
def two_losses(t: Tensors) -> Any:
    h = t.x @ t.w
    first, second = (h + t.b).pow(2).mean(), (h * t.u).sin().mean()
    first.backward(retain_graph=True)
    second.backward()
    return first, second


@program
def several_at_once(t: Tensors) -> Any:
    h = t.x @ t.w
    autograd.backward([(h + t.b).pow(2).mean(), (h * t.u).sin().mean()])
    return h.detach()


@program
def chosen_inputs(t: Tensors) -> Any:
    loss = ((t.x @ t.w + t.b) * t.u).sum()
    loss.backward(inputs=[t.w, t.u])
    return loss.detach()


@program
def with_a_gradient(t: Tensors) -> Any:
    h = (t.x @ t.w + t.b).tanh()
    h.backward(t.y)
    return h


@program
def gradients_as_results(t: Tensors) -> Any:
    return autograd.grad(((t.x @ t.w + t.b) ** 2).sum(), (t.w, t.b))


@program
def unused_inputs(t: Tensors) -> Any:
    loss = ((t.x @ t.w) ** 2).sum()
    return autograd.grad(loss, (t.w, t.b), allow_unused=True, retain_graph=True), autograd.grad(
        loss, (t.w, t.b), materialize_grads=True
    )


@program
def of_a_result(t: Tensors) -> Any:
    h = t.x @ t.w
    return autograd.grad((h.sin() + t.b).pow(2).sum(), h)[0]


@program
def penalty(t: Tensors) -> Any:
    x = t.x.detach().clone().requires_grad_()
    (g,) = autograd.grad((x @ t.w + t.b).tanh().sum(), x, create_graph=True)
    loss = ((g.norm(dim=1) - 1) ** 2).mean()
    loss.backward()
    return loss


@program
def hessian_times_vector(t: Tensors) -> Any:
    loss = (t.x @ t.w + t.b).tanh().pow(3).sum()
    (g,) = autograd.grad(loss, t.w, create_graph=True)
    return autograd.grad((g * t.w.detach()).sum(), t.w)[0]


@program
def kinks_differentiated_twice(t: Tensors) -> Any:
    (g,) = autograd.grad(F.relu(t.x @ t.w + t.b).sum(), t.w, create_graph=True)
    g.pow(2).sum().backward()
    return g.detach()


@program
def batch_by_batch(t: Tensors) -> Any:
    for scale in range(3):
        loss = ((t.x * scale) @ t.w + t.b).pow(2).mean()
        loss.backward()
    return loss


@program
def hooks_of_a_result(t: Tensors) -> Any:
    seen = []
    h = t.x @ t.w + t.b
    h.register_hook(lambda g: g * 2)
    handle = h.register_hook(lambda g: g / 0)
    h.register_hook(lambda g: seen.append(g))
    handle.remove()
    h.pow(2).sum().backward()
    return h.detach(), seen


@program
def hooks_of_leaves(t: Tensors) -> Any:
    seen = []
    with t.w.register_hook(lambda g: g * 3):
        (t.x @ t.w).sum().backward()
    after = t.b.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad * 2))
    (t.b * t.u).sum().backward()
    after.remove()
    return seen


@program
def kept_gradients(t: Tensors) -> Any:
    h = t.x @ t.w + t.b
    h.retain_grad()
    h.register_hook(lambda g: g + 1)
    h.pow(2).sum().backward()
    return h.grad


@program
def detached_part(t: Tensors) -> Any:
    h = t.x @ t.w
    loss = (h.detach() * t.b + h).sum()
    loss.backward()
    return loss.detach()


@program
def part_without_gradients(t: Tensors) -> Any:
    with dj.no_grad():
        mean = (t.x @ t.w).mean(0)
    ((t.x @ t.w - mean) * t.b).sum().backward()
    return mean


@program
def steps_by_hand(t: Tensors) -> Any:
    for _ in range(3):
        loss = F.mse_loss(t.x @ t.w + t.b, t.y)
        loss.backward()
        with dj.no_grad():
            for p in (t.w, t.b):
                p -= 0.1 * p.grad
                p.grad = None
    return loss.detach()


@program
def computed_again(t: Tensors) -> Any:
    loss = checkpoint(lambda x: (x @ t.w + t.b).tanh(), t.x, use_reentrant=False).sum()
    loss.backward()
    return loss


class Square(autograd.Function):
    """With a derivative that is not the true one."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * g * x


@program
def written_derivative(t: Tensors) -> Any:
    loss = Square.apply(t.x @ t.w + t.b).sum()
    loss.backward()
    return loss


@program
def writes_in_place(t: Tensors) -> Any:
    h = t.x @ t.w
    h.mul_(2).add_(t.b)
    h[0] = 0
    h.sum().backward()
    return h.detach()


@program
def writes_through_views(t: Tensors) -> Any:
    h = t.x @ t.w
    h.t()[1].mul_(3)
    (h * h).sum().backward()
    return h.detach()


@program
def again_while_it_is_kept(t: Tensors) -> Any:
    loss = (t.w * t.w).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return loss.detach()


@program
def nothing_saved(t: Tensors) -> Any:
    loss = t.w.sum() + t.b.sum()
    loss.backward()
    return loss


@program
def one_gradient_for_two(t: Tensors) -> Any:
    ((t.b + t.u) ** 2).sum().backward()
    t.b.grad.add_(1)
    return t.u.grad.clone()


@program
def a_leaf_itself(t: Tensors) -> Any:
    t.b.backward(t.u.detach())
    return t.b.detach()


@program
def gradients_set_to_zero(t: Tensors) -> Any:
    optimizer = dj.optim.SGD([t.w, t.b], lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad(set_to_none=False)
        loss = F.mse_loss(t.x @ t.w + t.b, t.y)
        loss.backward()
        optimizer.step()
    return loss.detach()


@program
def rows_of_a_jacobian(t: Tensors) -> Any:
    h = (t.x @ t.w + t.b).sum(0).tanh()
    return [autograd.grad(h[i], t.b, retain_graph=True)[0] for i in range(3)]


@program
def kept_for_later(t: Tensors) -> Any:
    loss = (t.x @ t.w).pow(2).sum()
    loss.backward(retain_graph=True)
    return loss


@program
def a_leaf_that_stays_inside(t: Tensors) -> Any:
    x = t.x.detach().requires_grad_()
    return (x @ t.w).pow(2).sum()


@program
def an_argument_becomes_a_leaf(t: Tensors) -> Any:
    t.x.requires_grad_()
    (t.x @ t.w).pow(2).sum().backward()
    return t.x.requires_grad


@program
def frozen_for_a_while(t: Tensors) -> Any:
    t.w.requires_grad_(False)
    (t.x @ t.w * t.b).sum().backward()
    t.w.requires_grad = True
    (t.x @ t.w * t.u).sum().backward()
    return t.w.requires_grad


@program
def frozen_before_backward(t: Tensors) -> Any:
    seen = []
    loss = (t.x @ t.w * t.b).sum() + t.b.sum()
    t.b.requires_grad_(False)
    loss.backward()
    t.b.requires_grad_(True)
    return seen


@program
def statistics_of_batches(t: Tensors) -> Any:
    mean, variance = dj.zeros(3), dj.ones(3)
    loss = F.batch_norm(t.x @ t.w, mean, variance, t.b + 1, t.u, training=True).pow(3).sum()
    loss.backward()
    return loss.detach(), mean, variance


@program
def dropped(t: Tensors) -> Any:
    loss = F.dropout(t.x @ t.w, 0.5).sum()
    loss.backward()
    return loss.detach()


@program
def leaf_not_laid_out_by_rows(t: Tensors) -> Any:
    turned = t.w.detach().t().clone().t().requires_grad_()
    (t.x @ turned).sin().sum().backward()
    return turned.grad, turned.grad.stride()


@program
def gradient_not_laid_out_by_rows(t: Tensors) -> Any:
    turned = t.w.detach().t().contiguous().t()
    (turned * t.w).square().sum().backward()
    return t.w.grad.stride()


@program
def gradient_of_a_leaf_that_is_written_in_between(t: Tensors) -> Any:
    h = t.x @ t.w
    with dj.no_grad():
        t.w[0].add_(2)
    (found,) = autograd.grad(((t.x @ t.w) * h).tanh().sum(), [t.w])
    return found


@program
def nodes_compared_with_none(t: Tensors) -> Any:
    h = t.x @ t.w
    h.sum().backward()
    if h.grad_fn is None or t.w.grad_fn is not None:
        return 1
    return h.grad_fn is not None, t.w.grad_fn is None, h.detach().grad_fn is None


@program
def writes_after_data_was_assigned(t: Tensors) -> Any:
    t.w.data = t.w.data * 0.9
    with dj.no_grad():
        t.w.mul_(2)
        t.w[0].add_(0.5)
        t.w.data.add_(1)
    given = dj.zeros(3)
    t.b.data = given
    given.add_(1)
    return given


def leaves_of(found: Any) -> Iterator[Any]:
    if isinstance(found, (tuple, list)):
        for item in found:
            yield from leaves_of(item)
    else:
        yield found


def facts(value: Any) -> Any:
    """What a program can see of a value beside its elements."""
    if not isinstance(value, dj.Tensor):
        return value
    has_gradient = value.is_leaf and value.grad is not None
    kind = value.requires_grad, value.is_leaf, has_gradient
    return (*kind, value._version, tuple(value.shape), value.stride())


def elements(value: Any) -> list[float]:
    """The elements of a tensor and of its gradient."""
    if not isinstance(value, dj.Tensor):
        return []
    gradient = elements(value.grad) if value.is_leaf and value.grad is not None else []
    return [*value.detach().flatten().tolist(), *gradient]


def backward_again(found: Any) -> list[str]:
    """What happens to whoever asks for the gradients of results."""
    outcomes = []
    for value in leaves_of(found):
        if isinstance(value, dj.Tensor) and value.requires_grad and not value.is_leaf:
            try:
                value.sum().backward()
                outcomes.append("a gradient")
            except RuntimeError as error:
                outcomes.append(str(error)[:40])
    return outcomes


def outcome(function: Program) -> tuple[list[Any], list[float]]:
    """Facts and elements of all results and tensors, then again after another backward."""
    tensors = Tensors()
    dj.manual_seed(7)
    found = function(tensors)
    values = [*leaves_of(found), *tensors.all()]
    seen, held = [facts(v) for v in values], [x for v in values for x in elements(v)]
    again = backward_again(found)
    seen += [again, *map(facts, tensors.all())]
    return seen, held + [x for v in tensors.all() for x in elements(v)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_leaves_what_eager_execution_leaves(name: str) -> None:
    expected, numbers = outcome(PROGRAMS[name])

    found, computed = outcome(dj.compile(PROGRAMS[name], fullgraph=True))

    assert expected == found
    assert pytest.approx(numbers, rel=1e-4, abs=1e-5) == computed


def test_a_gradient_of_an_earlier_call_is_left_to_eager_execution() -> None:
    w = dj.ones(3, requires_grad=True)
    earlier = w * 2

    dj.compile(lambda x: (x * x).sum().backward())(earlier)

    assert [8, 8, 8] == w.grad.tolist()


def test_what_backward_needs_and_was_written_is_an_error() -> None:
    def function(w: Any) -> None:
        h = w.exp()
        loss = (h * h).sum()
        h.mul_(2)
        loss.backward()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        dj.compile(function)(dj.ones(3, requires_grad=True))


def test_a_hook_on_what_backward_passes_later_is_called_then() -> None:
    def function(w: Any) -> Any:
        h = w * 2
        h.register_hook(lambda g: g * 10)
        return (h * h).sum()

    w = dj.ones(3, requires_grad=True)
    dj.compile(function)(w).backward()

    assert [80, 80, 80] == w.grad.tolist()


def test_a_leaf_that_is_given_away_gets_its_gradient() -> None:
    def function(w: Any) -> Any:
        x = w.detach().requires_grad_()
        return (x * w).sum(), x

    w = dj.ones(3, requires_grad=True)
    loss, x = dj.compile(function)(w)
    loss.backward()

    assert [1, 1, 1] == x.grad.tolist() == w.grad.tolist()


def test_what_hooks_and_tensors_see_before_an_error_is_seen() -> None:
    def function(w: Any, seen: list[Any]) -> None:
        h = w.exp()
        h.sum().backward()
        further = h * 2
        further.retain_grad()
        seen.append(further)
        further.register_hook(lambda g: seen.append(g.sum()))
        (further * w).sum().backward()

    outcomes = []
    for called in (function, dj.compile(function)):
        w = dj.ones(3, requires_grad=True)
        seen: list[Any] = []
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            called(w, seen)
        outcomes.append([*elements(seen[0].grad), *elements(seen[1]), *elements(w)])
    assert outcomes[0] == outcomes[1]


def test_a_hook_on_the_node_of_a_result_sees_the_gradients_of_that_operation() -> None:
    def function(w: Any, seen: list[Any]) -> None:
        h = w.exp() * 2
        h.grad_fn.register_hook(
            lambda given, got: seen.append((given[0].tolist(), got[0].tolist()))
        )
        (h * w).tanh().sum().backward()

    outcomes = []
    for called in (function, dj.compile(function)):
        seen: list[Any] = []
        called(dj.ones(3, requires_grad=True), seen)
        outcomes.append(seen)
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0]) == 1


@pytest.mark.parametrize("is_counted", [True, False])
def test_a_second_derivative_behind_a_write_is_that_of_the_new_elements(is_counted: bool) -> None:
    """The write is in the graph, the rest of the run behind it."""

    def function(w: Any, x: Any) -> Any:
        if is_counted:
            with dj.no_grad():
                w.add_(0.5)
        else:
            w.data.add_(0.5)
        h = (w * x).tanh()
        (found,) = autograd.grad(h.square().sum(), [w], create_graph=True)
        return found, h

    outcomes = []
    for called in (function, dj.compile(function)):
        w = dj.ones(3, dtype=dj.float64, requires_grad=True)
        y = dj.full((3,), 0.7, dtype=dj.float64, requires_grad=True)
        found, h = called(w, y * 2)
        (found.sum() + h.sum()).backward()
        outcomes.append([*elements(found), *elements(w), *elements(y)])
    assert pytest.approx(outcomes[0], rel=1e-9) == outcomes[1]


def test_a_hook_that_raises_leaves_what_eager_execution_leaves() -> None:
    def function(w: Any, b: Any) -> None:
        h = w * b
        h.register_hook(lambda g: 1 // 0)
        (h + w).sum().backward()

    outcomes = []
    for called in (function, dj.compile(function)):
        w, b = dj.ones(3, requires_grad=True), dj.ones(3, requires_grad=True)
        with pytest.raises(ZeroDivisionError):
            called(w, b)
        outcomes.append((w.grad, b.grad, dj.is_grad_enabled()))
    assert outcomes[0] == outcomes[1] == (None, None, True)


def test_a_gradient_goes_on_behind_what_an_earlier_call_computed() -> None:
    """The kept gradient ends the graph; what comes after it meets a result of the part before."""

    def function(w: Any) -> Any:
        first = (w * 2).tanh()
        kept = first * 3
        kept.retain_grad()
        (found,) = autograd.grad((first * w).sum(), [w], retain_graph=True)
        return found, kept

    w = dj.ones(3, requires_grad=True)

    assert function(w)[0].tolist() == dj.compile(function)(w)[0].tolist()


def test_gradients_of_a_result_of_an_earlier_call_stay_there() -> None:
    w = dj.ones(3, requires_grad=True)
    earlier = w * 2

    (found,) = dj.compile(lambda x: autograd.grad((x * x).sum(), x), fullgraph=True)(earlier)

    assert [4, 4, 4] == found.tolist()


def test_a_run_that_ends_with_an_error_has_used_up_what_it_passed() -> None:
    def function(w: Any) -> Any:
        h = w.exp()
        h.register_hook(lambda g: 1 // 0)
        loss = (h * h).sum()
        try:
            loss.backward()
        except ZeroDivisionError:
            return loss
        return None

    for called in (function, dj.compile(function, fullgraph=True)):
        loss = called(dj.ones(3, requires_grad=True))
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            loss.backward()


def test_what_is_used_up_is_in_the_way_of_its_own_leaves_only() -> None:
    def function(m: Any) -> Any:
        result = m * m
        result.sum().backward()
        return result

    m, w = dj.ones(3, requires_grad=True), dj.ones(3, requires_grad=True)
    result = dj.compile(function, fullgraph=True)(m)
    product = (result * w).sum()
    product.backward(inputs=[w], retain_graph=True)

    assert [1, 1, 1] == w.grad.tolist()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        autograd.grad(product, [m], allow_unused=True)


def test_anomalies_are_detected_within_compiled_functions() -> None:
    def function(w: Any) -> None:
        (w * 0).sqrt().sum().backward()

    with pytest.raises(RuntimeError, match="nan"), autograd.detect_anomaly():
        dj.compile(function)(dj.zeros(2, requires_grad=True))


MADE: dict[str, tuple[Any, Any]] = {
    "of another tensor": (lambda x: x.detach().requires_grad_(), lambda leaf: leaf),
    "by a factory": (lambda x: dj.ones(2, 2, requires_grad=True), lambda leaf: leaf),
    "by a factory, a row of it": (
        lambda x: dj.ones(2, 2, requires_grad=True),
        lambda leaf: leaf[0],
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_a_leaf_that_is_made_cannot_be_written_while_gradients_are_recorded(
    name: str,
) -> None:
    make, view = MADE[name]

    def function(x: Any, is_recorded: bool) -> Any:
        leaf = make(x)
        with dj.set_grad_enabled(is_recorded):
            view(leaf).add_(1)
        return leaf.detach()

    compiled = dj.compile(function)

    assert function(dj.ones(2, 2), False).tolist() == compiled(dj.ones(2, 2), False).tolist()
    for called in (function, compiled):
        with pytest.raises(RuntimeError, match="leaf"):
            called(dj.ones(2, 2), True)


@pytest.mark.parametrize("make", [dj.nn.Parameter, lambda t: t.requires_grad_()])
def test_a_view_has_its_history_behind_a_break_under_no_grad(make: Any) -> None:
    def function(w: Any) -> Any:
        row = w[0]
        with dj.no_grad():
            looked_at(row)
        return row * 2

    looked_at = dj.disable(lambda t: None)
    w = make(dj.ones(2, 2))
    dj.compile(function)(w).sum().backward()

    assert [[2, 2], [0, 0]] == w.grad.tolist()


@pytest.mark.parametrize("way", ["grad", "backward"])
def test_hooks_see_only_gradients_that_lead_to_what_is_asked_for(way: str) -> None:
    """One of a tensor that is beside the way is not called, and no gradient is kept there."""
    weight, beside = (dj.randn(3).requires_grad_() for _ in range(2))
    seen: list[str] = []

    def step(x: Any) -> Any:
        aside, along = x * beside, x * weight
        for name, tensor in (("aside", aside), ("along", along)):
            tensor.register_hook(lambda g, name=name: seen.append(name))
            tensor.retain_grad()
        loss = (aside * along).tanh().sum()
        if way == "grad":
            dj.autograd.grad(loss, [weight], retain_graph=True)
        else:
            loss.backward(inputs=[weight])
        return aside.grad is None, along.grad is None

    x = dj.randn(3)
    expected = step(x), [*seen]
    seen.clear()
    compiled = dj.compile(step, fullgraph=True)
    assert expected == (compiled(x), seen) == ((True, False), ["along"])
