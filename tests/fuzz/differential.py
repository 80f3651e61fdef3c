"""Runs a random program plainly and compiled, and compares everything a user can see.

Results, arguments, globals, printed text, exceptions with their lines, gradients, shared memory;
over several calls with equal and with other arguments, globals and shapes. `compare(seed)` returns
what differs, or None; `compare_source` does the same for the text of a program.
"""

import contextlib
import gc
import io
import linecache
import random
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import dynajit as dj
from dynajit.capture.entry import cache, session
from dynajit.capture.execution.forced import ForcedBreaks
from dynajit.driver.backend import make_backend
from tests.fuzz.comparing import Met, difference
from tests.fuzz.programs import write
from tests.support.publishing import publisher


@dataclass(frozen=True)
class Call:
    """One call of a program.

    Args:
        n, f: the numbers.
        draw: which elements.
        size: how many.
        how: what the tensors are, as in `tensors`.
        changed: what happens to the module before, a key of `CHANGES`.
    """

    n: Any
    f: Any
    draw: int
    size: int
    how: str = ""
    changed: str = ""


#: In every program: two equal calls.
FIRST = (Call(2, 0.5, 0, 3), Call(2, 0.5, 0, 3))

#: Of these each program gets `MORE`.
OTHERS = (
    Call(3, -1.5, 1, 3, changed="scale"),
    Call(0, 2.0, 2, 4),
    Call(1, 0.5, 3, 5, "same"),
    Call(2, 1.5, 4, 4, "overlapping", "factor"),
    Call(2, 0.5, 5, 3, "gradients"),
    Call(2, 0.5, 6, 4, "gradients"),
    Call(2, 0.5, 7, 3, "gradients of one", "net"),
    Call(2, 0.5, 8, 0),
    Call(1, 0.5, 9, 1),
    Call(True, 1, 10, 3, "views"),
    Call(3, 0.5, 11, 3, "double"),
    Call(2, -0.0, 12, 4, "integers"),
    Call(2, 0.5, 13, 3, "no gradients", "function"),
    Call(-1, 0.25, 14, 3, "child", "log"),
    Call(2, 0.5, 15, 3, "shared list"),
)
MORE = 4

CHANGES: dict[str, Callable[[Any], None]] = {
    "": lambda module: None,
    "scale": lambda module: setattr(module, "SCALE", module.SCALE + 1),
    "factor": lambda module: setattr(module, "FACTOR", 2),
    "log": lambda module: setattr(module, "LOG", []),
    "function": lambda module: setattr(module, "scaled", module.halved),
    "net": lambda module: module.NET.register_forward_hook(module.hook),
}


@dataclass(frozen=True)
class Seen:
    """What one run of a program shows."""

    outcomes: tuple[Any, ...]
    state: dict[str, Any]
    printed: str


def calls(seed: int) -> list[Call]:
    """The calls of a program."""
    return [*FIRST, *random.Random(seed).sample(OTHERS, MORE)]


def module_of(source: str, name: str) -> types.ModuleType:
    """The program as a module of its own, its lines known to tracebacks."""
    file = f"<program {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = types.ModuleType(f"program_{name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(compile(source, file, "exec"), vars(module))
    return module


def tensors(call: Call) -> tuple[Any, Any, list[Any]]:
    """The two tensors of a call, and the leaves that get gradients."""
    drawn = np.random.default_rng(call.draw).integers(-8, 8, 2 * call.size).astype(np.float32) / 4
    kind = {"double": np.float64, "integers": np.int64}.get(call.how, np.float32)
    base = dj.from_numpy(drawn.astype(kind))
    x, y = base[: call.size].clone(), base[call.size :].clone()
    if call.how == "same":
        return x, x, []
    if call.how == "overlapping":
        return base[: call.size], base[1 : call.size + 1], []
    if call.how == "views":
        square = base.reshape(2, -1).t()
        return square[:, 0], square[:, 1], []
    if call.how == "gradients":
        leaves = [x.requires_grad_(), y.requires_grad_()]
        return x * 1, y * 1, leaves
    if call.how == "gradients of one":
        return x, y.requires_grad_() * 1, [y]
    return x, y, []


def arguments(module: Any, call: Call) -> tuple[list[Any], list[Any]]:
    """Fresh arguments, and the leaf tensors that get gradients."""
    x, y, leaves = tensors(call)
    shared = [1, 2]
    box = (module.Child if call.how == "child" else module.Box)(3)
    box.items = shared if call.how == "shared list" else [4]
    return [x, y, call.n, call.f, shared, {"a": x, "k": 2, "items": shared}, box], leaves


def gradients(result: Any, leaves: list[Any]) -> list[Any] | str:
    """Differentiate all tensors that were returned: what the leaves get, or the error."""
    if not leaves or not isinstance(result, tuple):
        return []
    total = sum(
        (
            v.sum()
            for v in result
            if isinstance(v, dj.Tensor) and v.requires_grad and v.is_floating_point()
        ),
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
    publish = publisher(options)
    return cache.compiled_function(function, publish)


def run(
    source: str, seed: int, backend: str | None, forced: bool = False, collected: bool = False
) -> Seen:
    """All calls of one program, plainly (None) or compiled.

    `forced`: broken at every statement; `collected`: the garbage collector runs after each call,
    and only then.
    """
    with uncollected() if collected else contextlib.nullcontext():
        return _run(source, seed, backend, forced, collected)


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """The collector does not run by itself: compiling makes it run earlier."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _run(source: str, seed: int, backend: str | None, forced: bool, collected: bool) -> Seen:
    """See `run`."""
    dj.manual_seed(seed)
    dj.set_grad_enabled(True)  # whatever the run before left
    module = module_of(source, str(seed))
    function = module.main
    if backend is not None:
        function = broken(function, backend) if forced else dj.compile(function, backend=backend)
    outcomes, printed = [], io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.filterwarnings("ignore")
        warnings.filterwarnings("error", ".*Please report this")
        for call in calls(seed):
            CHANGES[call.changed](module)
            passed, leaves = arguments(module, call)
            outcomes.append((outcome(function, passed, leaves, call), passed))
            if collected:
                gc.collect()
    return Seen(tuple(outcomes), state(module), printed.getvalue())


def outcome(function: Any, passed: list[Any], leaves: list[Any], call: Call) -> list[Any]:
    """What one call gives: its value and the gradients, or its error."""
    mode = dj.no_grad() if call.how == "no gradients" else contextlib.nullcontext()
    try:
        with mode:
            result = function(*passed[:5], table=passed[5], box=passed[6])
        return ["value", result, gradients(result, leaves)]
    except Exception as error:
        shown = [type(error).__name__, _text(error), _chain(error), _lines(error)]
        return ["error", *shown, dj.is_grad_enabled()]


def state(module: Any) -> dict[str, Any]:
    """The module's data, and that of its classes and functions."""
    found = {}
    for name, value in vars(module).items():
        if isinstance(value, type):
            found[name] = {k: v for k, v in vars(value).items() if _is_data(k, v)}
        elif _is_data(name, value) or name == "NET":
            found[name] = value
    return found | {"defaults": module.collecting.__defaults__, "drawn": dj.rand(1)}


def _is_data(name: str, value: Any) -> bool:
    plain = (int, float, str, list, dict, tuple, dj.Tensor)
    return not name.startswith("__") and isinstance(value, plain)


def _text(error: BaseException) -> str:
    """The message; of the library's own errors only the first sentence."""
    return str(error).split(".  ")[0]


def _chain(error: BaseException) -> list[str]:
    """Types and texts of cause and context, outermost first."""
    found: list[str] = []
    seen: set[int] = set()
    inner = error.__cause__ or error.__context__
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        found.append(f"{type(inner).__name__}: {_text(inner)}")
        inner = inner.__cause__ or inner.__context__
    return found


def _lines(error: BaseException) -> list[tuple[str, int]]:
    """Functions and lines of the program that the error went through.

    Without the last one of a variable that is not bound: CPython 3.11 reads it together
    with the instruction before, once the code is warm, and names that one's line.
    """
    found, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith("<program"):
            found.append((code.co_name, trace.tb_lineno))
        trace = trace.tb_next
    return found[:-1] if isinstance(error, UnboundLocalError) else found


def compare_source(
    source: str, seed: int, backend: str = "numpy", forced: bool = False
) -> str | None:
    """The first difference between a plain and a compiled run of a text, or None.

    Where plain Python itself shows something else when the garbage collector runs after each
    call (`eval()` in a handler makes a cycle of the frame on 3.11), that moment is not the
    program's, and both are compared with the collector running then.
    """

    def runs(*collected: bool) -> Iterator[Seen]:
        return (run(source, seed, None, collected=c) for c in collected)

    def compiled(collected: bool) -> Seen:
        return run(source, seed, backend, forced, collected)

    found = first_difference(*runs(False), compiled(False))
    if found is not None and first_difference(*runs(False, True)) is not None:
        found = first_difference(*runs(True), compiled(True))
    linecache.cache.pop(f"<program {seed}>", None)
    return found


def first_difference(plain: Seen, compiled: Seen) -> str | None:
    """The first difference between what two runs of one program show, or None.

    It consumes what is left of iterators: a run is compared once.
    """
    met = Met()
    for (left, _), (right, _) in zip(plain.outcomes, compiled.outcomes, strict=True):
        if left[0] == right[0] == "value" and isinstance(left[2], str):
            right[2:] = left[2:]  # what plain backward refuses may work: less is saved
    for part in ("outcomes", "printed", "state"):
        found = difference(getattr(plain, part), getattr(compiled, part), part, met)
        if found is not None:
            return found
    return met.shared_memory()


def compare(seed: int, backend: str = "numpy", forced: bool = False) -> str | None:
    """The first difference between a plain and a compiled run of a program, or None."""
    found = compare_source(write(seed), seed, backend, forced)
    return found and f"program {seed}: {found}"
