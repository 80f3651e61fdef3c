"""Gradients of results that a compiled function also computes other results from.

Plain dynajit is the referee: `grad`, `retain_grad` and hooks see what passes through a result
within the compiled function, or backward refuses.
"""

import itertools
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import AutogradError


def chained(x: Any) -> Any:
    """Three results, each computed from the one before."""
    first = x * 2
    second = first.sin() * first
    return first, second, (second**2).sum()


def penalised(x: Any) -> Any:
    """A result, and a number with second derivatives."""
    moved = x * 1.5 + 1
    return moved, (moved**3).prod()


def leaf() -> Any:
    return dj.tensor([0.5, -1.0, 2.0], dtype=dj.float64, requires_grad=True)


def both(function: Any, seen: Any) -> tuple[Any, Any]:
    """What `seen(results, x)` returns for the plain and for the compiled function."""
    found = []
    for called in (function, dj.compile(function, fullgraph=True)):
        x = leaf()
        found.append(seen(called(x), x))
    return found[0], found[1]


def rounded(values: Any) -> Any:
    if isinstance(values, (list, tuple)):
        return [rounded(value) for value in values]
    return None if values is None else [round(v, 9) for v in values.detach().reshape(-1).tolist()]


def test_a_result_keeps_its_gradient() -> None:
    """`retain_grad` of two of three."""

    def seen(results: Any, x: Any) -> Any:
        results[0].retain_grad()
        results[1].retain_grad()
        results[2].backward()
        return rounded([results[0].grad, results[1].grad, x.grad])

    plain, compiled = both(chained, seen)
    assert plain == compiled
    assert None not in plain


def test_a_hook_changes_what_goes_on() -> None:
    """Called once, with all that arrives: from within and from outside."""

    def seen(results: Any, x: Any) -> Any:
        calls: list[Any] = []
        results[1].register_hook(lambda g: (calls.append(rounded(g)), g * 10)[1])
        handle = results[0].register_hook(lambda g: g * 0)
        handle.remove()
        (results[2] + results[1].exp().sum() + results[0].sum()).backward()
        return calls, rounded(x.grad)

    plain, compiled = both(chained, seen)
    assert plain == compiled
    assert len(plain[0]) == 1


@pytest.mark.parametrize("place", [0, 1])
def test_grad_of_one_result_by_another(place: int) -> None:
    """Alone, and together with the leaf."""

    def seen(results: Any, x: Any) -> Any:
        kept = dj.autograd.grad(results[2], [results[place]], retain_graph=True)
        return rounded([*kept, *dj.autograd.grad(results[2], [x, results[place]])])

    plain, compiled = both(chained, seen)
    assert plain == compiled


def test_what_does_not_depend_has_no_gradient() -> None:
    """The earlier result by the later one."""

    def seen(results: Any, x: Any) -> Any:
        return dj.autograd.grad(results[0].sum(), [results[1]], allow_unused=True)

    assert both(chained, seen) == ((None,), (None,))


def test_second_derivatives_pass_through_results() -> None:
    """A penalty on a gradient, and the Hessian's rows, by the result and by the leaf."""

    def seen(results: Any, x: Any) -> Any:
        (gradient,) = dj.autograd.grad(results[1], [results[0]], create_graph=True)
        rows = [dj.autograd.grad(g, results[0], retain_graph=True)[0] for g in gradient]
        results[0].retain_grad()
        (gradient**2).sum().backward()
        return rounded([*rows, results[0].grad, x.grad])

    plain, compiled = both(penalised, seen)
    assert plain == compiled


def test_a_second_backward_is_refused_or_kept() -> None:
    """As in plain code: the graph is there once, or as long as it is retained."""

    def seen(results: Any, x: Any) -> Any:
        results[0].retain_grad()
        results[2].backward(retain_graph=True)
        results[2].backward()
        with pytest.raises(AutogradError, match="second time"):
            results[2].backward()
        return rounded([results[0].grad, x.grad])

    plain, compiled = both(chained, seen)
    assert plain == compiled


def test_an_input_that_was_written_is_refused() -> None:
    """What the operations in between computed with is gone."""
    x = leaf() * 1
    first, _, last = dj.compile(chained, fullgraph=True)(x)
    x.add_(1)
    first.retain_grad()
    with pytest.raises(AutogradError, match="written in place"):
        last.backward()


def viewed(x: Any) -> Any:
    """A view of the input, and a number computed from it."""
    row = x.view(1, -1)
    return row, (row**2).sum()


def part(x: Any) -> Any:
    """A view of a result, that result, and a number computed from the view."""
    y = x * 3
    row = y.view(1, -1)
    return y, row, (row**2).sum()


@pytest.mark.parametrize("function", [viewed, part])
def test_the_gradient_of_a_view_is_refused_by_name(function: Any) -> None:
    """It passes within the compiled function; without the question all is as in plain code."""

    def seen(results: Any, x: Any) -> Any:
        results[-1].backward()
        return rounded(x.grad)

    plain, compiled = both(function, seen)
    assert plain == compiled
    *_, row, last = dj.compile(function)(leaf())
    with pytest.raises(AutogradError, match="gradient of a view"):
        dj.autograd.grad(last, row, retain_graph=True)
    row.register_hook(lambda g: g)
    with pytest.raises(AutogradError, match="gradient of a view"):
        last.backward()


def laid_out(x: Any) -> Any:
    """A result that lies column by column, and a view of it."""
    turned = x.view(3, 1).expand(3, 2).t().contiguous().t()
    result = turned.tanh() * turned
    return result, result.t()


def test_a_result_that_does_not_lie_row_by_row_keeps_its_gradient() -> None:
    """To lay it out is no computation with it."""

    def seen(results: Any, x: Any) -> Any:
        result, view = results
        result.register_hook(lambda g: g * 3)
        result.retain_grad()
        view.retain_grad()
        (result.sin().sum() + view.square().sum()).backward()
        return rounded([result.grad, view.grad, x.grad]), result.stride(), view.stride()

    plain, compiled = both(laid_out, seen)
    assert plain == compiled


def test_hooks_of_the_node_itself_are_refused() -> None:
    """They would not be called."""
    first, _, last = dj.compile(chained, fullgraph=True)(leaf())
    last.grad_fn.register_hook(lambda got, came: None)
    first.retain_grad()
    with pytest.raises(AutogradError, match="hooks of its own"):
        last.backward()


def two_ways(w: Any, x: Any) -> Any:
    """Two results: one of them from `x` alone, the loss from both."""
    moved = x.sin()
    return moved * x, (moved * w).square().sum()


def test_a_run_to_chosen_inputs_passes_results_that_lead_there_only() -> None:
    """The first run has let go of what the second would need, if it went along `moved`."""

    def seen(function: Any) -> Any:
        w, x, v = leaf(), leaf(), leaf()
        moved, loss = function(w, x)
        moved.retain_grad()
        loss.backward()
        dj.autograd.backward((moved * v).sum(), inputs=[v, w])
        assert dj.autograd.grad(moved.sum(), [w], allow_unused=True) == (None,)
        return rounded([w.grad, x.grad, v.grad, moved.grad])

    assert seen(two_ways) == seen(dj.compile(two_ways, fullgraph=True))


def apart(w: Any, x: Any) -> Any:
    """Two results; each input has rows of its own."""
    return w.cos().sum() + x.sin().sum(), (w * 3).exp().sum()


def together(w: Any, x: Any) -> Any:
    """Two results, by a row that both inputs and both results need."""
    shared = w.sin() * x.exp()
    return shared.sum(), (shared.cos() * x).sum()


def chain(w: Any, x: Any) -> Any:
    """A result that is computed from the other."""
    moved = x.sin() * 2
    return moved.sum(), (moved * w).tanh().sum()


def saving_nothing(w: Any, x: Any) -> Any:
    """Two results, of which one needs nothing but its gradient."""
    return (w * x).tanh().sum(), (x + 1).sum() - w.sum()


def partly(w: Any, x: Any) -> Any:
    """Results that need nothing for one of the inputs."""
    return (w.sin() + x).sum(), (x.sin() - w).sum()


@pytest.mark.parametrize("function", [apart, together, chain, saving_nothing, partly])
def test_runs_to_chosen_inputs_let_go_of_what_they_pass(function: Any) -> None:
    """Three runs without `retain_graph`, up to the first that is refused: two from each result to
    each input, one to each or both."""
    compiled = dj.compile(function, fullgraph=True)

    def seen(called: Any, runs: Any) -> Any:
        inputs = [leaf(), leaf()]
        results = called(*inputs)
        found: list[Any] = []
        for result, chosen in runs:
            try:
                results[result].backward(inputs=[inputs[i] for i in chosen])
            except AutogradError as error:
                return [*found, str(error)[:50]]
            found.append(rounded([x.grad for x in inputs]))
        return found

    to_one = list(itertools.product((0, 1), ((0,), (1,))))
    for runs in itertools.product(to_one, to_one, [*to_one, (0, (0, 1)), (1, (0, 1))]):
        assert seen(function, runs) == seen(compiled, runs), runs


def test_a_second_derivative_reads_no_input_that_the_function_wrote_through_data() -> None:
    """What it read before is computed again, from a copy that backward kept, or not at all."""

    def function(w: Any, x: Any) -> Any:
        w.data.add_(0.5)
        return (w * x).sin() * w

    def seen(called: Any) -> Any:
        w, x = leaf(), leaf()
        (found,) = dj.autograd.grad(called(w, x).sum(), [w], create_graph=True)
        return rounded(found)

    assert seen(function) == seen(dj.compile(function, fullgraph=True))


def test_gradients_that_a_turn_adds_in_place() -> None:
    """Backward within a turn that stands for the others, and that writes what turns before left."""

    def adjoint(y: Any, w: Any, rates: Any) -> Any:
        with dj.no_grad():
            total, cotangent = dj.zeros_like(w), y[-1]
            for i in range(y.shape[0] - 1, 0, -1):
                state = y[i].detach().requires_grad_()
                with dj.enable_grad():
                    moved = (state @ w).tanh()
                to_state, to_w = dj.autograd.grad(moved, (state, w), cotangent)
                cotangent = cotangent + to_state * rates[i]
                total.add_(to_w)
        return cotangent, total

    compiled = dj.compile(adjoint, fullgraph=True)
    for steps in (4, 6, 30):
        y = dj.linspace(-1, 1, steps * 3, dtype=dj.float64).view(steps, 3)
        w = (dj.arange(9.0, dtype=dj.float64).view(3, 3) / 9).requires_grad_()
        rates = dj.linspace(0, 1, steps, dtype=dj.float64)
        assert rounded(adjoint(y, w, rates)) == rounded(compiled(y, w, rates))
