"""Gradients that tensors keep (`retain_grad`) around writes: of what they hold when backward runs.

PyTorch is the referee of plain dynajit, where it is installed, and plain dynajit that of compiled
functions: in one graph, and with a break after every statement.
"""

import sys
from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import AutogradError

Program = Callable[[Any, Any, Callable[[], None]], tuple[Any, ...]]
PROGRAMS: dict[str, Program] = {}


def no_grad(w: Any) -> Any:
    """That of the library that the tensor is of."""
    return dj.no_grad() if isinstance(w, dj.Tensor) else sys.modules["torch"].no_grad()


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


@program
def written(w: Any, x: Any, pause: Callable[[], None]) -> tuple[Any, ...]:
    t = x * w
    t.retain_grad()
    pause()
    t.tanh_()
    pause()
    loss = (t * w).sum()
    pause()
    loss.backward()
    return (t,)


@program
def written_twice(w: Any, x: Any, pause: Callable[[], None]) -> tuple[Any, ...]:
    t = x.clone()
    t.mul_(w)
    pause()
    t.retain_grad()
    t.add_(w)
    pause()
    t.mul_(3)
    (t * 3).sum().backward(retain_graph=True)
    pause()
    t.mul_(2)
    (t * 3).sum().backward()
    return (t,)


@program
def written_under_no_grad(w: Any, x: Any, pause: Callable[[], None]) -> tuple[Any, ...]:
    t = x * w
    t.retain_grad()
    pause()
    with no_grad(w):
        t.mul_(2)
    pause()
    (t * 3).sum().backward()
    return (t,)


@program
def overwritten(w: Any, x: Any, pause: Callable[[], None]) -> tuple[Any, ...]:
    t = x * w
    t.retain_grad()
    pause()
    t.copy_(x)
    pause()
    (t * 3 * w).sum().backward()
    return (t,)


@program
def written_in_part(w: Any, x: Any, pause: Callable[[], None]) -> tuple[Any, ...]:
    t = x * w
    t.retain_grad()
    pause()
    t[1] = x[0] * w[2]
    t[0].exp_()
    pause()
    loss = (t * w).sum()
    pause()
    loss.backward()
    return (t,)


@program
def view_of_what_is_written(w: Any, x: Any, pause: Callable[[], None]) -> tuple[Any, ...]:
    t = x * w
    v = t.view(3, 1)
    v.retain_grad()
    pause()
    t.mul_(2)
    pause()
    (v * 3).sum().backward()
    return v, t


@program
def written_view(w: Any, x: Any, pause: Callable[[], None]) -> tuple[Any, ...]:
    t = x * w
    v = t[:2]
    v.retain_grad()
    t.retain_grad()
    pause()
    v.mul_(2)
    pause()
    loss = (v * w[:2]).sum()
    pause()
    loss.backward()
    return v, t


@program
def base_of_a_written_view(w: Any, x: Any, pause: Callable[[], None]) -> tuple[Any, ...]:
    t = x * w
    v = t[:2]
    v.retain_grad()
    t.retain_grad()
    pause()
    v.mul_(2)
    pause()
    loss = (t * 3).sum()
    pause()
    loss.backward()
    return v, t


def seen(program: Program, library: Any, pause: Callable[[], None], wrap: Any = None) -> Any:
    """The gradients of the weight and of what the program returns."""
    w = library.tensor([0.5, 1.0, -0.7], dtype=library.float64, requires_grad=True)
    x = library.tensor([1.0, 2.0, 3.0], dtype=library.float64)

    def called(w: Any, x: Any) -> tuple[Any, ...]:
        return program(w, x, pause)

    tensors = (called if wrap is None else wrap(called))(w, x)
    return [
        None if t.grad is None else [round(v, 9) for v in t.grad.flatten().tolist()]
        for t in (w, *tensors)
        if t.is_leaf or t.retains_grad
    ]


def nothing() -> None:
    """No break."""


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_kept_is_what_pytorch_keeps(name: str) -> None:
    torch = pytest.importorskip("torch")

    assert seen(PROGRAMS[name], torch, nothing) == seen(PROGRAMS[name], dj, nothing)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_keeps_what_eager_execution_keeps(name: str) -> None:
    found = seen(PROGRAMS[name], dj, nothing, lambda f: dj.compile(f, fullgraph=True))

    assert seen(PROGRAMS[name], dj, nothing) == found


@pytest.mark.parametrize("name", PROGRAMS)
def test_parts_keep_what_eager_execution_keeps(name: str) -> None:
    found = seen(PROGRAMS[name], dj, dj.graph_break, dj.compile)

    assert seen(PROGRAMS[name], dj, nothing) == found


def test_the_gradient_after_a_write_is_refused_where_it_passes_within_a_part() -> None:
    """The part has written the tensor and gone on with it; before the write it is seen."""

    def part(t: Any, w: Any) -> Any:
        t.tanh_()
        return (t * w).sum()

    w = dj.ones(3, requires_grad=True)
    t = w * 2
    logged: list[float] = []
    t.register_hook(lambda g: logged.append(g.sum().item()))
    loss = dj.compile(part, fullgraph=True)(t, w)
    loss.backward(retain_graph=True)
    assert len(logged) == 1

    t.register_hook(lambda g: g)
    with pytest.raises(AutogradError, match="after a write"):
        loss.backward()


def test_a_tensor_that_keeps_its_gradient_takes_no_version_of_one_that_does_not() -> None:
    def part(t: Any, w: Any) -> Any:
        t.tanh_()
        return (t * w).sum()

    compiled = dj.compile(part)
    outcomes = []
    for called in (part, compiled, compiled):
        w = dj.ones(3, requires_grad=True)
        if called is compiled and not outcomes[1:]:
            called(w * 2, w).backward()
            w.grad = None
        t = w * 2
        t.retain_grad()
        called(t, w).backward()
        outcomes.append((t.grad.tolist(), w.grad.tolist()))
    assert outcomes[0] == outcomes[1] == outcomes[2]
