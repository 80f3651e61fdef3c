"""Runs a random program plainly and compiled, and compares everything a user can see.

Results, arguments, globals, printed text, exceptions; over several calls with equal and with
other arguments. `compare(seed)` returns what differs, or None.
"""

import collections
import contextlib
import io
import linecache
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from programs import write

import dynajit as dj
from dynajit.backend import make_backend
from dynajit.capture import cache, session
from dynajit.capture.forced import ForcedBreaks

#: (n, f, draw of the elements, how many, how): equal calls, other numbers, shapes and aliases.
CALLS = (
    (2, 0.5, 0, 3, ""),
    (2, 0.5, 0, 3, ""),
    (3, -1.5, 1, 3, ""),
    (0, 2.0, 2, 4, ""),
    (1, 0.5, 3, 5, "same"),
    (2, 1.5, 4, 4, "overlapping"),
    (2, 0.5, 5, 3, "gradients"),
    (2, 0.5, 6, 4, "gradients"),
)


@dataclass(frozen=True)
class Seen:
    """What one run of a program shows."""

    outcomes: tuple[Any, ...]
    state: tuple[Any, ...]
    printed: str


def module_of(seed: int) -> types.ModuleType:
    """The program as a module of its own, its lines known to tracebacks."""
    source, file = write(seed), f"<program {seed}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = types.ModuleType(f"program_{seed}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(compile(source, file, "exec"), vars(module))
    return module


def arguments(
    module: Any, n: int, f: float, draw: int, size: int, how: str
) -> tuple[list[Any], list[Any]]:
    """Fresh arguments, and the leaf tensors that get gradients."""
    random = np.random.default_rng(draw)
    base = dj.from_numpy(random.integers(-8, 8, 2 * size).astype(np.float32) / 4)
    leaves = []
    x, y = base[:size].clone(), base[size:].clone()
    if how == "same":
        y = x
    elif how == "overlapping":
        x, y = base[:size], base[1 : size + 1]
    elif how == "gradients":
        leaves = [x.requires_grad_(), y.requires_grad_()]
        x, y = x * 1, y * 1
    shared = [1, 2]
    box = module.Box(3)
    box.items = [4]
    return [x, y, n, f, shared, {"a": x, "k": 2, "items": shared}, box], leaves


def gradients(result: Any, leaves: list[Any]) -> list[Any] | str:
    """Differentiate all tensors that were returned: what the leaves get, or the error."""
    if not leaves or not isinstance(result, tuple):
        return []
    total = sum(
        (v.sum() for v in result if isinstance(v, dj.Tensor) and v.requires_grad),
        dj.zeros(()),
    )
    if not total.requires_grad:
        return []
    try:
        total.backward()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return [leaf.grad for leaf in leaves]


def broken(function: types.FunctionType, backend: str) -> Any:
    """`function` compiled with a break at every statement."""
    options = session.Options(
        make_backend(backend),
        resume=lambda rest: cache.compiled_function(rest, publish),
        publish_all=True,
        forced=ForcedBreaks(filename=function.__code__.co_filename),
    )
    publish = session.publisher(options)
    return cache.compiled_function(function, publish)


def run(seed: int, backend: str | None, forced: bool = False) -> Seen:
    """All calls of one program, plainly (None) or compiled; `forced`: broken at every statement."""
    module = module_of(seed)
    function = module.main
    if backend is not None:
        function = broken(function, backend) if forced else dj.compile(function, backend=backend)
    outcomes, printed = [], io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.filterwarnings("ignore")
        warnings.filterwarnings("error", ".*Please report this")
        for call in CALLS:
            passed, leaves = arguments(module, *call)
            try:
                result = function(*passed)
                outcome = ["value", result, gradients(result, leaves)]
            except Exception as error:
                outcome = ["error", type(error).__name__, _text(error), _chain(error)]
            outcomes.append((outcome, passed))
    return Seen(tuple(outcomes), (module.COUNTER, module.LOG, module.TABLE), printed.getvalue())


def _text(error: BaseException) -> str:
    """The message; of the library's own errors only the first sentence."""
    return str(error).split(".  ")[0]


def _chain(error: BaseException) -> list[str]:
    """Types of cause and context, outermost first."""
    found: list[str] = []
    seen: set[int] = set()
    inner = error.__cause__ or error.__context__
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        found.append(type(inner).__name__)
        inner = inner.__cause__ or inner.__context__
    return found


def compare(seed: int, backend: str = "numpy", forced: bool = False) -> str | None:
    """The first difference between a plain and a compiled run, or None."""
    plain = run(seed, None)
    compiled = run(seed, backend, forced)
    for (left, _), (right, _) in zip(plain.outcomes, compiled.outcomes, strict=True):
        if left[0] == right[0] == "value" and isinstance(left[2], str):
            right[2:] = left[2:]  # what plain backward refuses may work: less is saved
    for part in ("outcomes", "state", "printed"):
        found = difference(getattr(plain, part), getattr(compiled, part), part, {})
        if found is not None:
            return f"program {seed}: {found}"
    return None


def difference(a: Any, b: Any, path: str, met: dict[int, int]) -> str | None:
    """Where two values differ, aliases included, or None.

    Args:
        a, b: expected and found.
        path: how they were reached.
        met: id of expected -> id of found, for mutable objects met so far.
    """
    if type(a).__name__ != type(b).__name__:
        return f"{path}: {type(a).__name__} expected, found {type(b).__name__}: {b!r}"
    if not isinstance(a, (int, float, str, tuple, frozenset, type(None), type)):
        if id(a) in met:
            return None if met[id(a)] == id(b) else f"{path}: another alias"
        if id(b) in met.values():
            return f"{path}: an alias where there was none"
        met[id(a)] = id(b)
    if isinstance(a, dj.Tensor):
        return _of_tensors(a, b, path)
    if isinstance(a, Iterator):  # what is left of it is not looked at
        return None
    if isinstance(a, (list, tuple, collections.deque)):
        if len(a) != len(b):
            return f"{path}: length {len(a)} expected, found {len(b)}"
        pairs = [(f"{path}[{i}]", left, right) for i, (left, right) in enumerate(zip(a, b))]  # noqa: B905
    elif isinstance(a, dict):
        if list(a) != list(b):
            return f"{path}: keys {list(a)} expected, found {list(b)}"
        pairs = [(f"{path}[{key!r}]", a[key], b[key]) for key in a]
    elif hasattr(a, "__dict__") and not hasattr(a, "__qualname__"):
        return difference(vars(a), vars(b), f"vars({path})", met)
    elif callable(a):
        return (
            None
            if getattr(a, "__qualname__", 0) == getattr(b, "__qualname__", 0)
            else f"{path}: another function"
        )
    else:
        same = a == b or (isinstance(a, float) and _close(a, b))
        return None if same else f"{path}: {a!r} expected, found {b!r}"
    for where, left, right in pairs:
        found = difference(left, right, where, met)
        if found is not None:
            return found
    return None


def _close(a: float, b: float) -> bool:
    return bool(np.isclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True))


def _of_tensors(a: Any, b: Any, path: str) -> str | None:
    if a.dtype is not b.dtype or tuple(a.shape) != tuple(b.shape):
        return f"{path}: {a.dtype}{tuple(a.shape)} expected, found {b.dtype}{tuple(b.shape)}"
    if a.requires_grad != b.requires_grad:
        return f"{path}: requires_grad {a.requires_grad} expected"
    left, right = a.detach().numpy(), b.detach().numpy()
    if not np.allclose(
        left, right, rtol=1e-4, atol=1e-4 * (1 + np.abs(left).max()), equal_nan=True
    ):
        return f"{path}: {left} expected, found {right}"
    return None
