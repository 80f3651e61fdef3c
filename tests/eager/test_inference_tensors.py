"""Tensors made in inference mode, against PyTorch's: what may be done with them outside of it."""

from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj

torch = pytest.importorskip("torch", reason="PyTorch is the oracle")


def _made(L: Any, function: Callable[[], Any]) -> Any:
    with L.inference_mode():
        return function()


def _in_mode(L: Any, function: Callable[[], Any]) -> Any:
    return _made(L, function).tolist()


PROGRAMS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    # t: made in inference mode, n: not, w: a leaf that requires a gradient
    "told": lambda L, t, n, w: (t.is_inference(), n.is_inference(), w.is_inference()),
    "told of a view": lambda L, t, n, w: t[1:].is_inference(),
    "told by a function": lambda L, t, n, w: L.is_inference(t.t()),
    "told of a copy": lambda L, t, n, w: (t.clone().is_inference(), (t + 1).is_inference()),
    "told of a detached one": lambda L, t, n, w: t.detach().is_inference(),
    "told of a view made inside": lambda L, t, n, w: _made(L, lambda: n[1:]).is_inference(),
    "told of a copy made inside": lambda L, t, n, w: _made(L, lambda: n.clone()).is_inference(),
    "written": lambda L, t, n, w: t.add_(1).tolist(),
    "written by a large one": lambda L, t, n, w: _made(L, lambda: L.zeros(200, 200)).mul_(2.0),
    "filled": lambda L, t, n, w: t.zero_(),
    "item written": lambda L, t, n, w: t.__setitem__(0, 1),
    "item written by positions": lambda L, t, n, w: t.__setitem__(L.tensor([0]), 1),
    "copied into": lambda L, t, n, w: t.copy_(n),
    "view written": lambda L, t, n, w: t[1:].mul_(2),
    "written under no_grad": lambda L, t, n, w: L.no_grad()(lambda: t.add_(1).tolist())(),
    "written inside": lambda L, t, n, w: _in_mode(L, lambda: t.add_(1)),
    "another written inside": lambda L, t, n, w: (_in_mode(L, lambda: n.add_(1)), n._version),
    "turned": lambda L, t, n, w: t.t_(),
    "resized": lambda L, t, n, w: t.resize_(1),
    "random": lambda L, t, n, w: t.uniform_(),
    "out": lambda L, t, n, w: L.add(n, n, out=t),
    "version": lambda L, t, n, w: t._version,
    "requires": lambda L, t, n, w: t.requires_grad_(),
    "requires nothing": lambda L, t, n, w: t.requires_grad_(False).tolist(),
    "requires inside": lambda L, t, n, w: _made(L, lambda: L.ones(2).requires_grad_()).is_leaf,
    "saved": lambda L, t, n, w: w * t,
    "saved by a function": lambda L, t, n, w: L.nn.functional.linear(t, w),
    "not saved": lambda L, t, n, w: (w + t).requires_grad,
    "clone saved": lambda L, t, n, w: (w * t.clone()).requires_grad,
    "another by it": lambda L, t, n, w: n.add_(t).tolist(),
    "computed without gradients": lambda L, t, n, w: (n * t).is_inference(),
    "view of a leaf": lambda L, t, n, w: _made(L, lambda: w[0]).add_(1),
}


def _outcome(L: Any, program: Callable[..., Any]) -> Any:
    t = _made(L, lambda: L.arange(4.0).view(2, 2))
    n, w = L.ones(2, 2), L.ones(2, 2, requires_grad=True)
    try:
        return program(L, t, n, w)
    except RuntimeError:
        return RuntimeError


@pytest.mark.parametrize("name", PROGRAMS)
def test_rules_are_pytorchs(name: str) -> None:
    assert _outcome(torch, PROGRAMS[name]) == _outcome(dj, PROGRAMS[name])


def test_compiled_functions_save_none() -> None:
    """Neither as what backward reads, nor without being told."""
    w = dj.ones(2, requires_grad=True)
    with dj.inference_mode():
        t = dj.ones(2)
    compiled = dj.compile(lambda w, t: (w * t).sin())
    with pytest.raises(RuntimeError, match="saved for backward"):
        compiled(w, t)
    assert compiled(w, t.clone()).requires_grad
    with dj.no_grad():
        assert not compiled(w, t).requires_grad


def test_compiled_functions_write_none() -> None:
    with dj.inference_mode():
        t = dj.ones(2)

    def function(t: Any) -> Any:
        t.add_(1)
        return t * 2

    compiled = dj.compile(function)
    assert [4.0, 4.0] == compiled(dj.ones(2)).tolist()
    with pytest.raises(RuntimeError, match="inference tensor"):
        compiled(t)
    assert [1.0, 1.0] == t.tolist()
    with dj.inference_mode():
        assert [4.0, 4.0] == compiled(t).tolist()
