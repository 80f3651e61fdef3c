"""In-place writes that PyTorch refuses: to one of several views, to memory that elements share."""

from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj

torch = pytest.importorskip("torch", reason="PyTorch is the oracle")


def _of_parts(take: Callable[[Any], Any], rank: int = 1) -> Callable[[Any], Any]:
    """Writes to a part of something with a history, and what that holds then."""

    def program(L: Any) -> Any:
        x = L.zeros((3,) * rank, requires_grad=True) * 1
        take(x).add_(1)
        return x.tolist()

    return program


def _written(x: Any, write: Callable[[Any], Any]) -> Any:
    write(x)
    return x.tolist()


def _of_nothing_recorded(write: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Writes to parts of a tensor without history by a leaf that requires a gradient."""

    def program(L: Any) -> Any:
        x, w = L.zeros(3), L.ones(1, requires_grad=True)
        write(x, w)
        return x.tolist(), x.requires_grad

    return program


SEVERAL: dict[str, Callable[[Any], Any]] = {
    "split": _of_parts(lambda x: x.split(1)[0]),
    "split by sizes": _of_parts(lambda x: x.split([1, 2])[1]),
    "split in one": _of_parts(lambda x: x.split(3)[0]),
    "split with sizes": _of_parts(lambda x: x.split_with_sizes([1, 2])[0]),
    "chunk": _of_parts(lambda x: x.chunk(3)[2]),
    "unbind": _of_parts(lambda x: x.unbind()[0]),
    "iteration": _of_parts(lambda x: next(iter(x))),
    "unpacking": _of_parts(lambda x: (lambda a, b, c: b)(*x)),
    "view of a part": _of_parts(lambda x: x.split(1)[0].view(1, 1)),
    "part of a part": _of_parts(lambda x: x.unbind()[1][1:], 2),
    "detached part": _of_parts(lambda x: x.split(1)[0].detach()),
    "tensor_split": _of_parts(lambda x: x.tensor_split(3)[0]),
    "hsplit": _of_parts(lambda x: x.hsplit(3)[0]),
    "vsplit": _of_parts(lambda x: x.vsplit(3)[0], 2),
    "unsafe_split": _of_parts(lambda x: x.unsafe_split(1)[0]),
    "unsafe_chunk": _of_parts(lambda x: x.unsafe_chunk(3)[1]),
    "narrow": _of_parts(lambda x: x.narrow(0, 1, 1)),
    "without history": lambda L: _written(L.zeros(3), lambda x: x.split(1)[0].add_(1)),
    "by a leaf": _of_nothing_recorded(lambda x, w: x.split(1)[0].add_(w)),
    "copy of a leaf": _of_nothing_recorded(lambda x, w: x.chunk(3)[0].copy_(w)),
    "item by a leaf": _of_nothing_recorded(lambda x, w: x.split(2)[0].__setitem__(0, w[0])),
    "indexed": _of_nothing_recorded(lambda x, w: x[:1].add_(w)),
}

SHARED: dict[str, Callable[[Any], Any]] = {
    "add": lambda L: L.zeros(1).expand(3).add_(1),
    "copy": lambda L: L.zeros(1).expand(3).copy_(L.ones(3)),
    "item": lambda L: L.zeros(1).expand(3).__setitem__(slice(None), L.ones(3)),
    "scatter": lambda L: L.zeros(1).expand(3).scatter_(0, L.tensor([0]), 1.0),
    "random": lambda L: L.zeros(1).expand(3).uniform_(),
    "out": lambda L: L.add(L.ones(3), 1, out=L.zeros(1).expand(3)),
    "not repeated": lambda L: L.zeros(3, 1).expand(3, 1).add_(1).tolist(),
    "a part not repeated": lambda L: L.zeros(3, 1).expand(3, 3)[:, :1].add_(1).tolist(),
}


def _of_line(write: Callable[[Any, Any], Any], count: int = 6) -> Callable[[Any], Any]:
    return lambda L: _written(L.arange(float(count)), lambda x: write(L, x))


def _of_square(write: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda L: _written(L.arange(9.0).view(3, 3), lambda x: write(L, x))


OVERLAPPING: dict[str, Callable[[Any], Any]] = {
    "add": _of_line(lambda L, x: x[1:].add_(x[:-1])),
    "add by keyword": _of_line(lambda L, x: x[1:].add_(other=x[:-1])),
    "sign": _of_line(lambda L, x: x[1:].__isub__(x[:-1])),
    "forward copy": _of_line(lambda L, x: x[1:].copy_(x[:-1])),
    "backward copy": _of_line(lambda L, x: x[:-1].copy_(x[1:])),
    "items": _of_line(lambda L, x: x.__setitem__(slice(1, None), x[:-1])),
    "items apart": _of_line(lambda L, x: x.__setitem__(slice(0, 3), x[3:])),
    "items at positions": _of_line(lambda L, x: x.__setitem__(L.tensor([0, 1]), x[2:4])),
    "itself": _of_line(lambda L, x: x.add_(x)),
    "the same view": _of_line(lambda L, x: x[1:].add_(x[1:])),
    "its data": _of_line(lambda L, x: x.mul_(x.data)),
    "a part of its data": _of_line(lambda L, x: x[1:].mul_(x.data[:-1])),
    "every second": _of_line(lambda L, x: x[::2].mul_(x[1::2])),
    "one element": _of_line(lambda L, x: x.add_(x[1])),
    "halves": _of_line(lambda L, x: x[:3].add_(x[3:])),
    "mask": _of_line(lambda L, x: x[1:].masked_fill_(x[:-1] > 1, 9.0)),
    "bounds": _of_line(lambda L, x: x[1:].clamp_(min=x[:-1])),
    "products": _of_line(lambda L, x: x[1:].addcmul_(x[:-1], x[:-1])),
    "at positions": _of_line(lambda L, x: x[1:].index_add_(0, L.tensor([0, 1]), x[:2])),
    "scattered": _of_line(lambda L, x: x[1:].scatter_(0, L.tensor([0, 1]), x[:2])),
    "large": _of_line(lambda L, x: x[1:].mul_(x[:-1]), 40000),
    "other shape": _of_line(lambda L, x: x.view(2, 3).add_(x.view(3, 2).t())),
    "transposed": _of_square(lambda L, x: x.add_(x.t())),
    "transposed copy": _of_square(lambda L, x: x.copy_(x.t())),
    "row": _of_square(lambda L, x: x.sub_(x[0])),
    "row of another": _of_square(lambda L, x: x[0].sub_(x[1])),
    "out beside": _of_line(lambda L, x: L.mul(x[:-1], 2, out=x[1:])),
    "out at once": _of_line(lambda L, x: L.mul(x, 2, out=x)),
    "out transposed": _of_square(lambda L, x: L.add(x.t(), 1, out=x)),
    "out joined": _of_line(lambda L, x: L.cat([x[:2], x[:3]], out=x[1:])),
}

PROGRAMS = {
    f"{kind}: {name}": program
    for kind, programs in (
        ("several", SEVERAL), ("shared", SHARED), ("overlapping", OVERLAPPING),
    )
    for name, program in programs.items()
}  # fmt: skip


def _outcome(program: Callable[[], Any]) -> Any:
    try:
        return program()
    except RuntimeError:
        return RuntimeError


@pytest.mark.parametrize("name", PROGRAMS)
def test_writes_are_refused_where_pytorch_refuses_them(name: str) -> None:
    program = PROGRAMS[name]
    expected = _outcome(lambda: program(torch))

    assert expected == _outcome(lambda: program(dj))
    if name != "several: item by a leaf":  # an explicit call of __setitem__ follows a break
        assert expected == _outcome(dj.compile(lambda: program(dj)))


def test_compiled_loops_over_several_views_are_refused() -> None:
    """Where they are taken and written in one function, and where a tensor came in."""

    def function(x: Any) -> Any:
        for row in x:
            row.mul_(2)
        return x

    compiled = dj.compile(function, fullgraph=True)
    assert [[0.0, 2.0]] == compiled(dj.tensor([[0.0, 1.0]])).tolist()
    with pytest.raises(RuntimeError, match="one of several views"):
        compiled(dj.ones(2, 2, requires_grad=True) * 1)


def test_what_one_call_gave_may_be_written_where_nothing_is_recorded() -> None:
    x = dj.zeros(3, requires_grad=True) * 1
    first, second, third = x.unbind()
    with dj.no_grad():
        first.add_(1)
    second.detach().add_(2)
    assert [1.0, 2.0, 0.0] == x.tolist()
    assert third.requires_grad
