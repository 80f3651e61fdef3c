"""What a compiled function's own backward runs have used up of its results' histories.

The program itself, run eagerly, is the referee: which further runs, inside and outside of the
function, succeed, with which gradients, and which are refused.
"""

import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dynajit as dj
from dynajit import autograd

FURTHER = [
    "{t}.sum().backward()",
    "{t}.sum().backward(retain_graph=True)",
    "{t}.sum().backward(inputs=[{p}])",
    "{t}.square().sum().backward(inputs=[{p}], retain_graph={k})",
    "LOG.append(autograd.grad({t}.sum(), [{p}], allow_unused=True, retain_graph={k}))",
    "LOG.append(autograd.grad({t}.sum(), [{u}], allow_unused=True))",
    "LOG.append(autograd.grad({t}.sum(), [{p}, {u}], allow_unused=True))",
    "autograd.backward([{t}.sum(), {u}.sum()])",
    "autograd.backward([{t}.sum(), {u}.sum()], inputs=[{p}])",
]
"""Runs: `{t}` and `{u}` are results, `{p}` a leaf, `{k}` whether the graph is kept."""

COMPUTED = [
    "h = (a * b).tanh()",
    "h = (a * b).tanh(); r = h.mean(0)",
    "h = x @ a + b; r = h * 2",
    "h = a.exp(); r = h.sin() * b",
    "h = a * b; r = h.square() + c",
    "h = dj.nn.functional.linear(x, a, b[0]); r = h + c",
    "h = dj.stack([a, b]); r = h.sum(0)",
    "h = dj.cat([a.sin(), b])[1:4]; r = h * c",
    "h = a * b; r = dj.nn.functional.cross_entropy(h, dj.tensor([0, 1, 2])) + c",
]


def program(seed: int) -> tuple[str, list[str], list[str]]:
    """The text of a function, the names of what it returns, and the runs afterwards."""
    chosen = random.Random(seed)
    lines = chosen.choice(COMPUTED).split("; ")
    names = ["h", "r"][: len(lines)]

    def run(among: list[str]) -> str:
        return chosen.choice(FURTHER).format(
            t=chosen.choice(among),
            u=chosen.choice(among),
            p=chosen.choice("aabc"),
            k=chosen.random() < 0.4,
        )

    lines += [run(names) for _ in range(chosen.choice((1, 1, 2)))]
    if chosen.random() < 0.5:
        last = chosen.choice(("tanh", "sum", "clone"))
        lines.append(f"s = ({chosen.choice(names)} * c).{last}()")
        names = [*names, "s"]
        lines += [run(names)] * (chosen.random() < 0.5)
    lines += ["broken()"] * (chosen.random() < 0.2)
    returned = chosen.sample(names, chosen.randint(1, len(names)))
    text = "def function(a, b, c, x):\n" + "".join(f"    {line}\n" for line in lines)
    text += f"    return [{', '.join(returned)}]\n"
    return text, returned, [run(returned) for _ in range(3)]


def outcome(seed: int, wrap: Callable[[Any], Any]) -> Any:
    """What the runs of a program give."""
    text, returned, further = program(seed)
    log: list[Any] = []
    space: dict[str, Any] = {"dj": dj, "autograd": autograd, "LOG": log}
    space["broken"] = dj.disable(lambda: None)
    exec(text, space)
    drawn = dj.Generator().manual_seed(seed)
    leaves = [dj.randn(3, 3, generator=drawn, requires_grad=True) for _ in range(3)]
    x = dj.randn(3, 3, generator=drawn)
    a, b, c = leaves
    given = (a.exp(), b.sin(), c) if seed % 2 else (a, b, c)  # with a history, or without
    try:
        results = wrap(space["function"])(*given, x)
    except RuntimeError as error:
        return str(error)[:40]
    space.update(zip("abc", given, strict=True), **dict(zip(returned, results, strict=True)))
    seen: list[Any] = []
    for line in further:
        try:
            exec(line, space)
        except RuntimeError as error:
            seen.append(str(error)[:40])
        seen.append([None if leaf.grad is None else leaf.grad.tolist() for leaf in leaves])
    return seen, [[None if g is None else g.tolist() for g in found] for found in log]


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, float):
        return abs(one - other) < 1e-9
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


@pytest.fixture
def in_float64() -> Iterator[None]:
    before = dj.get_default_dtype()
    dj.set_default_dtype(dj.float64)
    yield
    dj.set_default_dtype(before)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("first", range(0, 600, 50))
def test_random_runs_are_accepted_and_refused_as_in_eager_execution(first: int) -> None:
    for seed in range(first, first + 50):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = outcome(seed, lambda function: function)
            actual = outcome(seed, lambda function: dj.compile(function, backend="numpy"))
        assert alike(expected, actual), (seed, *program(seed), expected, actual)
    dj.reset()


def leaves(count: int) -> list[Any]:
    return [dj.full((3,), 0.5 + i, requires_grad=True) for i in range(count)]


def test_a_run_back_to_other_inputs_goes_beside_what_is_used_up() -> None:
    def function(w: Any, m: Any) -> Any:
        used_up = w.tanh()
        result = used_up * m
        (used_up * w).sum().backward()
        return result

    found = []
    for called in (function, dj.compile(function, fullgraph=True)):
        w, m = leaves(2)
        result = called(w, m)
        (gradient,) = autograd.grad(result.sum(), [m], retain_graph=True)
        found.append(gradient.tolist())
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            autograd.grad(result.sum(), [w])
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            result.sum().backward()
    assert found[0] == found[1]


def test_between_results_a_way_may_be_open_that_leads_on_to_no_input() -> None:
    def function(w: Any) -> Any:
        losses = w.exp()
        loss = losses.mean()
        loss.backward()
        return losses, loss

    for called in (function, dj.compile(function, fullgraph=True)):
        losses, loss = called(*leaves(1))
        (gradient,) = autograd.grad(loss, [losses])
        assert [1 / 3] * 3 == pytest.approx(gradient.tolist())
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            losses.sum().backward()


def test_a_result_that_is_used_up_refuses_gradients_of_results_behind_it() -> None:
    def function(w: Any) -> Any:
        prediction = w * 2
        loss = prediction.square().sum()
        loss.backward()
        return prediction, loss

    for called in (function, dj.compile(function, fullgraph=True)):
        prediction, loss = called(*leaves(1))
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            autograd.grad(loss, [prediction], allow_unused=True)


def test_after_a_run_to_all_inputs_others_go_where_nothing_was_saved() -> None:
    def function(w: Any, b: Any) -> Any:
        return w.exp() + b

    for called in (function, dj.compile(function, fullgraph=True)):
        w, b = leaves(2)
        result = called(w, b)
        result.sum().backward()
        result.sum().backward(inputs=[b])
        assert [2, 2, 2] == b.grad.tolist()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            result.sum().backward()


def test_a_run_that_is_refused_has_used_up_what_it_passed() -> None:
    def function(w: Any, b: Any) -> Any:
        first = w.exp()
        return first, first.sin() * b

    for called in (function, dj.compile(function, fullgraph=True)):
        w, b = leaves(2)
        first, second = called(w, b)
        first.sum().backward()
        for chosen in (w, b):
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                second.sum().backward(inputs=[chosen])


def test_a_leaf_that_was_written_is_a_chosen_input_of_the_graph() -> None:
    def function(w: Any) -> None:
        with dj.no_grad():
            w.mul_(0.5)
        (w * w).sum().backward(inputs=[w])

    (w,) = leaves(1)
    dj.compile(function, fullgraph=True)(w)

    assert [0.5, 0.5, 0.5] == w.grad.tolist()


def test_what_every_run_would_be_refused_is_not_saved_for_backward() -> None:
    def function(w: Any, b: Any, x: Any) -> Any:
        result = (x @ w).tanh() @ w + b
        result.square().sum().backward()
        return result

    w, x = dj.ones(3, 3, requires_grad=True), dj.ones(3, 3)
    (record,) = dj.explain(function)(w, *leaves(1), x).records

    assert 0 == record.saved_bytes


def test_a_view_stays_hidden_when_another_result_was_asked_for() -> None:
    """The first run has the operations take the place of the call; none of them made the view."""

    def function(a: Any, b: Any) -> Any:
        turned = a.t().contiguous().t() * b
        total = turned.sum(0)
        return total.sum(), total, turned

    a, b = (dj.ones(3, 3, requires_grad=True) for _ in range(2))
    whole, total, turned = dj.compile(function, fullgraph=True)(a, b)
    found = autograd.grad(whole, [total, a], retain_graph=True)
    assert [[1, 1, 1], [[1] * 3] * 3] == [gradient.tolist() for gradient in found]
    with pytest.raises(RuntimeError, match="the gradient of a view"):
        autograd.grad(whole, [a, turned], allow_unused=True)
