"""Which writes are refused while gradients are recorded: those that PyTorch refuses.

Every kind of tensor is seen through every view, made with gradients on and off, and written to in
every way. Plain and compiled functions refuse the same.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dynajit as dj

torch = pytest.importorskip("torch", reason="PyTorch is the oracle")

Make = Callable[[Any], Any]

TENSORS: dict[str, Make] = {
    "a leaf": lambda m: m.ones(2, 2, requires_grad=True),
    "a parameter": lambda m: m.nn.Parameter(m.ones(2, 2)),
    "a leaf of detached elements": lambda m: m.ones(2, 2).detach().requires_grad_(),
    "a leaf that is a view": lambda m: m.ones(4)[:].view(2, 2).requires_grad_(),
    "a result": lambda m: m.ones(2, 2, requires_grad=True) * 1,
    "data": lambda m: m.ones(2, 2, requires_grad=True).data,
    "a tensor without gradients": lambda m: m.ones(2, 2),
}
VIEWS: dict[str, Make] = {
    "itself": lambda x: x,
    "row": lambda x: x[0],
    "transposed": lambda x: x.t(),
    "flat": lambda x: x.view(4),
    "chunk": lambda x: x.chunk(2)[0],
    "one of unbind, seen again": lambda x: x.unbind(0)[1].view(2, 1),
    "row of a part": lambda x: x.split(1)[0][0],
    "detached": lambda x: x.detach(),
    "row of detached": lambda x: x.detach()[0],
    "row of data": lambda x: x.data[0],
}


def _add(m: Any, y: Any) -> None:
    y.add_(1)


def _assign(m: Any, y: Any) -> None:
    y[...] = 3


def _choose(m: Any, y: Any) -> None:
    y[y > 0] = 2.0


def _scale(m: Any, y: Any) -> None:
    y.mul_(m.ones(1, requires_grad=True))


def _copy(m: Any, y: Any) -> None:
    y.copy_(m.zeros(1))


def _reshape(m: Any, y: Any) -> None:
    y.unsqueeze_(0)


def _cut_off(m: Any, y: Any) -> None:
    y.detach_()


def _write_result(m: Any, y: Any) -> None:
    m.add(m.ones(tuple(y.shape)), 1, out=y)


def _freeze(m: Any, y: Any) -> None:
    y.requires_grad_(False)


WRITES = (_add, _assign, _choose, _scale, _copy, _reshape, _cut_off, _write_result, _freeze)


def programs(m: Any) -> Iterator[tuple[str, Make, Make]]:
    """(name, what makes the argument, the function)."""
    for view in VIEWS:
        for write in WRITES:
            for modes in ((True, True), (True, False), (False, True), (False, False)):

                def program(
                    x: Any, view: Make = VIEWS[view], write: Any = write, modes: Any = modes
                ) -> None:
                    with m.set_grad_enabled(modes[0]):
                        y = view(x)
                    with m.set_grad_enabled(modes[1]):
                        write(m, y)

                for tensor, make in TENSORS.items():
                    yield f"{tensor}, {view}, {write.__name__}, {modes}", make, program


def refused(m: Any, wrap: Make) -> list[str]:
    """The programs that raise."""
    found, wrapped = [], {}
    for name, make, program in programs(m):
        if program not in wrapped:
            wrapped = {program: wrap(program)}
        try:
            wrapped[program](make(m))
        except RuntimeError:
            found.append(name)
    return found


@pytest.mark.parametrize("is_compiled", [False, True])
def test_writes_are_refused_where_pytorch_refuses_them(is_compiled: bool) -> None:
    wrap = (lambda f: dj.compile(f, backend="numpy")) if is_compiled else (lambda f: f)

    expected = refused(torch, lambda f: f)

    assert len(expected) > 400
    assert sorted(set(expected) ^ set(refused(dj, wrap))) == []
