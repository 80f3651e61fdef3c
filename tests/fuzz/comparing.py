"""What differs between two values, aliases included; two runs of one program are compared by it.

`difference(a, b, path, met)` returns where two values differ, or None. Values come from two
modules with the same source, so classes are equal by name, and no user code is called.
"""

import collections
import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

import dynajit as dj

#: No identity is looked for: equal ones may be one object or several.
PLAIN = (int, float, complex, str, bytes, tuple, frozenset, type(None), type(...), type)

#: Elements looked at in what is left of an iterator.
LEFT = 6


class Met:
    """Mutable objects met so far: which one stands for which (mutable)."""

    def __init__(self) -> None:
        self.found: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self.kept: list[tuple[Any, Any]] = []

    def aliases(self, a: Any, b: Any) -> tuple[bool, str | None]:
        """Whether the pair was met before, and what is wrong with its identity."""
        if id(a) in self.found:
            return True, None if self.found[id(a)] == id(b) else "another alias"
        if id(b) in self.back:
            return True, "an alias where there was none"
        self.found[id(a)], self.back[id(b)] = id(b), id(a)
        self.kept.append((a, b))
        return False, None

    def shared_memory(self) -> str | None:
        """Tensors that share memory in one run only."""
        pairs = [(a, b) for a, b in self.kept if isinstance(a, dj.Tensor) and a.numel()][:24]
        arrays = [(a.detach().numpy(), b.detach().numpy()) for a, b in pairs]
        for (a, b), (c, d) in itertools.combinations(arrays, 2):
            if np.may_share_memory(a, c) != np.may_share_memory(b, d):
                kind = "shared" if np.may_share_memory(a, c) else "separate"
                return f"memory of {a.ravel()} and {c.ravel()} is {kind} in plain Python"
        return None


def difference(a: Any, b: Any, path: str, met: Met) -> str | None:
    """Where two values differ, aliases included, or None.

    Args:
        a, b: expected and found.
        path: how they were reached.
        met: objects met so far.
    """
    if type(a).__name__ != type(b).__name__:
        return f"{path}: {type(a).__name__} expected, found {type(b).__name__}: {_shown(b)}"
    if not isinstance(a, PLAIN):
        again, wrong = met.aliases(a, b)
        if again:
            return wrong and f"{path}: {wrong}"
    if isinstance(a, dj.Tensor):
        return _of_tensors(a, b, path, met)
    for where, left, right in _parts(a, b, path):
        found = difference(left, right, where, met)
        if found is not None:
            return found
    return None if _is_made_of_parts(a) else _of_leaves(a, b, path)


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(error).__name__} in repr>"


def _is_made_of_parts(a: Any) -> bool:
    kinds = (list, tuple, dict, collections.deque, set, frozenset, Iterator, BaseException)
    return isinstance(a, kinds) or (_has_attributes(a) and not hasattr(a, "__qualname__"))


def _has_attributes(a: Any) -> bool:
    return hasattr(a, "__dict__") or bool(getattr(type(a), "__slots__", ()))


def _parts(a: Any, b: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """What two values of one type consist of."""
    if isinstance(a, (set, frozenset)):
        a, b = sorted(a, key=_shown), sorted(b, key=_shown)
    elif isinstance(a, dict):
        if "hooks" not in path:  # their keys are numbered in order for the whole process
            yield f"keys of {path}", list(a), list(b)
        a, b = list(a.values()), list(b.values())
    elif isinstance(a, Iterator) and not _has_attributes(a):
        a, b = _left(a), _left(b)
    if isinstance(a, (list, tuple, collections.deque)):
        yield f"len({path})", len(a), len(b)
        for i, (left, right) in enumerate(zip(a, b, strict=True)):
            yield f"{path}[{i}]", left, right
    elif isinstance(a, BaseException):
        yield f"{path}.args", a.args, b.args
        yield f"notes of {path}", getattr(a, "__notes__", []), getattr(b, "__notes__", [])
    if hasattr(a, "__qualname__") or type(a).__name__ == "RemovableHandle":
        return  # handles are numbered in order for the whole process
    if hasattr(a, "__dict__") and not isinstance(a, type):
        for name in sorted({*vars(a), *vars(b)}):
            missing = "nothing"
            yield f"{path}.{name}", vars(a).get(name, missing), vars(b).get(name, missing)
    for name in getattr(type(a), "__slots__", ()) if not isinstance(a, BaseException) else ():
        yield f"{path}.{name}", getattr(a, name, "unset"), getattr(b, name, "unset")


def _left(iterator: Iterator[Any]) -> list[Any]:
    """What an iterator still gives, or the error that ends it."""
    found: list[Any] = []
    try:
        found.extend(itertools.islice(iterator, LEFT))
    except Exception as error:
        found.append(f"{type(error).__name__}: {error}")
    return found


def _of_leaves(a: Any, b: Any, path: str) -> str | None:
    """Values without parts."""
    if hasattr(a, "__qualname__"):
        same = a.__qualname__ == b.__qualname__
    elif isinstance(a, (np.ndarray, np.generic)):
        same = bool(np.allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True))
    elif isinstance(a, str):
        same = _node_names(a) == _node_names(b)
    elif callable(a):
        same = True
    else:
        same = a == b or (isinstance(a, float) and _close(a, b))
    return None if same else f"{path}: {_shown(a)} expected, found {_shown(b)}"


def _node_names(text: str) -> str:
    """The text of a tensor tells which node made it: a compiled one is right, too."""
    return re.sub(r"\s+grad_fn=<\w+>", " grad_fn", text)  # a longer name goes on a line of its own


def _close(a: float, b: float) -> bool:
    return bool(np.isclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True))


def _of_tensors(a: Any, b: Any, path: str, met: Met) -> str | None:
    if a.dtype is not b.dtype or tuple(a.shape) != tuple(b.shape):
        return f"{path}: {a.dtype}{tuple(a.shape)} expected, found {b.dtype}{tuple(b.shape)}"
    if a.requires_grad != b.requires_grad or a.is_leaf != b.is_leaf:
        return f"{path}: requires_grad {a.requires_grad}, is_leaf {a.is_leaf} expected"
    if a.numel() > 1 and a.stride() != b.stride():
        return f"{path}: strides {a.stride()} expected, found {b.stride()}"
    left, right = a.detach().numpy(), b.detach().numpy()
    scale = 1 + np.abs(np.where(np.isfinite(left), left, 0)).max(initial=0)
    if not np.allclose(left, right, rtol=1e-4, atol=1e-4 * scale, equal_nan=True):
        return f"{path}: {left} expected, found {right}"
    return difference(a.grad, b.grad, f"{path}.grad", met) if a.is_leaf else None
