"""Instances with one and the same `__dict__`: a write through one is read through the other."""

from typing import Any

import pytest

import dynajit as dj


class Record:
    """A plain object."""


def pair(shared: bool) -> tuple[Any, Any]:
    """Two objects, with one dict or each with its own."""
    a, b = Record(), Record()
    a.x, b.x = 1, 5
    if shared:
        b.__dict__ = a.__dict__
    return a, b


def written_then_read(x: Any, a: Any, b: Any) -> Any:
    a.x = a.x + 1
    return (x + b.x) * a.x


def read_then_written(x: Any, a: Any, b: Any) -> Any:
    x = x + b.x
    a.x += 10
    b.x *= 2
    return x * a.x + b.x


def deleted(x: Any, a: Any, b: Any) -> Any:
    b.y = 3
    del a.x
    return x + (1 if hasattr(b, "x") else 2) + (4 if hasattr(a, "y") else 8)


def through_the_dicts(x: Any, a: Any, b: Any) -> Any:
    a.__dict__["z"] = 7
    b.x = 4
    return x + b.__dict__.get("z", 0) + a.__dict__["x"] + len(vars(b))


def only_read(x: Any, a: Any, b: Any) -> Any:
    return x * a.x + b.x


FUNCTIONS = [written_then_read, read_then_written, deleted, through_the_dicts, only_read]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("order", [(True, False, True, False), (False, True, False, True)])
def test_shared_and_own_dicts_are_told_apart(function: Any, order: Any) -> None:
    compiled = dj.compile(function, backend="numpy", fullgraph=True)
    for shared in order:
        ours, plain = pair(shared), pair(shared)
        expected = function(dj.ones(1), *plain).tolist()

        assert expected == compiled(dj.ones(1), *ours).tolist()
        assert [vars(value) for value in plain] == [vars(value) for value in ours]
