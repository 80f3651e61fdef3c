"""`dj.bench`: how long a function takes eagerly, compiled, and in PyTorch where that is installed.

Contract: contestants must agree with the eager results before they are timed; they take turns, and
medians are compared (`timing`, which `python -m benchmarks` uses, too). The roofline is what
`machine` measures once per process: a product for FLOP/s, sums of arrays for bytes/s.
"""

import functools
import importlib
import importlib.util
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import field
from pathlib import Path
from types import CellType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from dynajit import cuda
from dynajit.core.errors import ArgumentError
from dynajit.core.process import config, optional
from dynajit.core.pytree import flatten, tree_map
from dynajit.core.records import record
from dynajit.driver.compile import compile, original
from dynajit.eager.tensor.tensor import Tensor
from dynajit.measuring import drawing, machine
from dynajit.measuring.machine import Work
from dynajit.measuring.timing import Candidate, interleaved, seconds
from dynajit.ops.table import dispatch
from dynajit.ops.table.flops import flops_of, is_product
from dynajit.ops.table.op_table import Op

#: Largest difference of results, relative to their largest magnitude: what 16 bits leave.
_TOLERANCE: Final = 3e-2
_ROUND_S: Final = 0.02
#: Of every rate of the machine: fewer than `python -m benchmarks` takes, which has more time.
_REPEATS: Final = 5


@record
class Bench:
    """What `bench` measured.

    Args:
        name: of the function.
        times: median seconds per call, by contestant: "eager", "compiled" and perhaps "torch".
        missing: contestants without a time -> why.
        work: bytes that the call reads and writes at least, and operations of its products.
        least_s: the time that the machine needs for `work`.
        threads: of the machine's rates.
        rounds: how often each contestant had its turn.
    """

    name: str
    times: Mapping[str, float]
    missing: Mapping[str, str] = field(default_factory=dict)
    work: Work = field(default_factory=Work)
    least_s: float = 0.0
    threads: int = 1
    rounds: int = 0

    @property
    def speedup(self) -> float:
        """Eager time over compiled time; NaN where nothing was compiled."""
        return self.times["eager"] / self.times.get("compiled", float("nan"))

    @property
    def roofline(self) -> float:
        """Share of the machine's peak that the fastest of ours reaches: 1 is the least time."""
        own = [self.times[name] for name in ("eager", "compiled") if name in self.times]
        return self.least_s / min(own)

    def plot(self, path: str | Path) -> Path:
        """Draw the times as bars: PNG by matplotlib, SVG where it is not installed or by the name.

        Returns:
            The file: `path`, or the same with the suffix `.svg`.

        Raises:
            OSError: it cannot be written.
        """
        bars = {name: 1e6 * time for name, time in self.times.items()}
        return drawing.bars(Path(path), bars, title=self.name, unit="microseconds per call")

    def __str__(self) -> str:
        lines = [self.name]
        for name, time_s in self.times.items():
            ratio = self.times["eager"] / time_s
            faster = "" if name == "eager" else f"   {ratio:.2f}x"
            lines.append(f"  {name:9s} {seconds(time_s):>9s}{faster}")
        lines += [f"  {name:9s} {'-':>9s}   {reason}" for name, reason in self.missing.items()]
        lines.append(
            f"  roofline  {seconds(self.least_s):>9s}   {self.roofline:.1%} is reached; "
            f"{self.work.bytes} bytes, {self.work.flops} operations of products"
        )
        if self.roofline > 1:
            lines.append(
                f"  {'':9s} {'':9s}   more than was measured of the machine, which was busy"
            )
        lines.append(f"  medians of {self.rounds} rounds in turn; rates of {self.threads} threads")
        return "\n".join(lines)

    def __repr__(self) -> str:
        found = ", ".join(f"{name} {seconds(time)}" for name, time in self.times.items())
        return f"<bench {self.name}: {found}; {self.roofline:.1%} of the roofline>"


def bench(
    fn: Callable[..., Any],
    *args: Any,
    torch: Callable[..., Any] | bool | None = None,
    compile_options: Mapping[str, Any] | None = None,
    budget_s: float = 2.0,
    **kwargs: Any,
) -> Bench:
    """Time a function eagerly, compiled, and in PyTorch.

    Args:
        fn: a function or module, or a compiled one, which then is what is timed.
        args, kwargs: of every call. The function should do the same in each: it is called some
            hundreds of times.
        torch: the same function in PyTorch, called with its tensors; None: `fn` with PyTorch's
            modules in the place of dynajit's among its globals, where PyTorch is installed and that
            can be done; False: leave it out.
        compile_options: for `compile`, where `fn` is not compiled.
        budget_s: seconds to spend on timing, about.

    Returns:
        The medians, and the share of the roofline.

    Raises:
        ArgumentError: `fn` cannot be called.
        Exception: what `fn` raises.
    """
    if not callable(fn):
        raise ArgumentError(f"bench({fn!r}): expected a function or module.")
    plain = original(fn)
    compiled = fn if plain is not fn else compile(fn, **(compile_options or {}))
    with uncompiled():
        expected, work = _work_of(functools.partial(plain, *args, **kwargs))
    candidates: dict[str, Candidate] = {"eager": functools.partial(plain, *args, **kwargs)}
    missing: dict[str, str] = {}
    _add(candidates, missing, "compiled", functools.partial(compiled, *args, **kwargs), expected)
    if torch is not False:
        try:
            call = _in_torch(plain, torch if callable(torch) else None, args, kwargs)
        except _NotInTorch as reason:
            missing["torch"] = str(reason)
        else:
            _add(candidates, missing, "torch", call, expected)
    if _is_on_gpu(args, kwargs):
        candidates = {name: functools.partial(_waited, run) for name, run in candidates.items()}
    rounds = _rounds_within(budget_s, candidates)
    times = interleaved(candidates, rounds=rounds, round_s=_ROUND_S, within={"eager": uncompiled})
    threads = config.current().thread_count
    return Bench(
        name=getattr(plain, "__qualname__", type(plain).__qualname__),
        times=times,
        missing=missing,
        work=work,
        least_s=_limits(threads).seconds(work),
        threads=threads,
        rounds=rounds,
    )


@functools.cache
def _limits(threads: int) -> machine.Limits:
    return machine.measure(threads, _REPEATS)


def _rounds_within(budget_s: float, candidates: Mapping[str, Candidate]) -> int:
    """How many rounds of all fit; at least 5, at most 31."""
    elapsed = 0.0
    for run in candidates.values():
        start = time.perf_counter()
        run()
        elapsed += max(time.perf_counter() - start, _ROUND_S)
    return min(31, max(5, int(budget_s / elapsed)))


def uncompiled() -> AbstractContextManager[object]:
    """A block in which compiled functions, those that a function calls among them, run as plain
    Python."""
    return config.override(stance="force_eager")


def _add(
    candidates: dict[str, Candidate],
    missing: dict[str, str],
    name: str,
    run: Candidate,
    expected: list[Any],
) -> None:
    """Let a contestant take part, if it gives what it should."""
    try:
        found = _arrays(run())
    except Exception as error:  # a contestant that cannot run is part of the answer
        lines = str(error).strip().splitlines() or [""]
        missing[name] = f"{type(error).__name__}: {lines[0]}"
        return
    reason = _why_not_equal(expected, found)
    if reason is None:
        candidates[name] = run
    else:
        missing[name] = f"its results differ: {reason}"


def _arrays(results: Any) -> list[Any]:
    """The results, copied: a later call may write the same memory. Floating ones as float64."""
    return [_array(leaf) if hasattr(leaf, "detach") else leaf for leaf in flatten(results)[0]]


def _array(tensor: Any) -> np.ndarray[Any, Any]:
    held = tensor.detach().cpu()
    return np.array((held.double() if held.dtype.is_floating_point else held).numpy())


def _why_not_equal(expected: list[Any], found: list[Any]) -> str | None:
    if len(expected) != len(found):
        return f"{len(found)} instead of {len(expected)}"
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        if not isinstance(one, np.ndarray):
            continue
        if np.shape(one) != np.shape(other):
            return f"result {number} has shape {np.shape(other)} instead of {one.shape}"
        scale = float(np.nanmax(np.abs(one), initial=0)) or 1.0
        worst = float(np.nanmax(np.abs(one - np.asarray(other)), initial=0)) / scale
        if not worst <= _TOLERANCE:
            return f"result {number} by {worst:.1e} of its largest magnitude"
    return None


# ---- work ----


def _work_of(run: Candidate) -> tuple[list[Any], Work]:
    """The results of a call, and what it cannot avoid: reading what it did not make itself, writing
    what it returns, and the operations of products."""
    made: set[int] = set()
    read: dict[int, Any] = {}
    kept: list[Any] = []  # so that no identity is given twice
    flops = [0]
    depth = [0]

    def watch(op: Op, inputs: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        for operand in inputs:
            if isinstance(operand, Tensor) and id(operand) not in made:
                read[id(operand)] = operand
        depth[0] += is_product(op)
        try:
            result = run()
        finally:
            depth[0] -= is_product(op)
        if is_product(op) and not depth[0]:
            flops[0] += flops_of(op, inputs, result)
        for leaf in flatten(result)[0]:
            made.add(id(leaf))
            kept.append(leaf)
        return result

    with dispatch.watching(watch):
        results = run()
    returned = [leaf for leaf in flatten(results)[0] if isinstance(leaf, Tensor)]
    size = sum(x.numel() * x.element_size() for x in [*read.values(), *returned])
    return _arrays(results), Work(bytes=size, flops=flops[0])


# ---- PyTorch ----


class _NotInTorch(Exception):
    """Why PyTorch does not take part."""


def _in_torch(
    fn: Callable[..., Any],
    given: Callable[..., Any] | None,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Candidate:
    """The call in PyTorch.

    Raises:
        _NotInTorch: there is none.
    """
    if importlib.util.find_spec("torch") is None:
        raise _NotInTorch("PyTorch is not installed")
    torch = optional.load("torch", needed_for="bench", install="torch")
    function = given if given is not None else _for_torch(fn, {})
    return functools.partial(
        function,
        *(_to_torch(torch, x) for x in args),
        **{name: _to_torch(torch, x) for name, x in kwargs.items()},
    )


def _to_torch(torch: Any, value: Any) -> Any:
    """Tensors within a value as PyTorch's, with the same elements."""

    def convert(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if leaf.device.type != "cpu":
            raise _NotInTorch("an argument is on a GPU.  Pass torch=, a function that moves it")
        made = torch.from_numpy(np.array(leaf.detach()))
        made = made.to(getattr(torch, str(leaf.dtype).rpartition(".")[2]))
        return made.requires_grad_(leaf.requires_grad)

    return tree_map(convert, value)


def _for_torch(fn: Any, made: dict[Any, FunctionType]) -> FunctionType:
    """A function with PyTorch's modules in the place of dynajit's, wherever it names them.

    Args:
        made: functions that were asked for so far.

    Raises:
        _NotInTorch: it uses something else of dynajit's.
    """
    if not isinstance(fn, FunctionType):
        raise _NotInTorch("only plain functions can be tried in PyTorch.  Pass torch=, one for it")
    if fn in made:
        return made[fn]
    names = dict(fn.__globals__)
    cells = tuple(CellType() for _ in fn.__closure__ or ())
    found = FunctionType(fn.__code__, names, fn.__name__, fn.__defaults__, cells)
    found.__kwdefaults__ = fn.__kwdefaults__
    made[fn] = found
    for name in fn.__code__.co_names:
        if name in names:
            names[name] = _counterpart(names[name], name, made)
    for name, cell, own in zip(fn.__code__.co_freevars, fn.__closure__ or (), cells, strict=True):
        own.cell_contents = _counterpart(cell.cell_contents, name, made)
    return found


def _counterpart(value: Any, name: str, made: dict[Any, FunctionType]) -> Any:
    """What PyTorch has in the place of a global or of a closed-over value."""
    if isinstance(value, ModuleType):
        package, _, rest = value.__name__.partition(".")
        if package != "dynajit":
            return value
        theirs = f"torch.{rest}" if rest else "torch"
        if importlib.util.find_spec(theirs) is None:
            raise _NotInTorch(f"it uses {value.__name__}, for which there is no {theirs}")
        return importlib.import_module(theirs)
    if isinstance(value, FunctionType) and not _is_ours(value):
        return _for_torch(value, made)
    if _is_ours(type(value)) or _is_ours(value):
        raise _NotInTorch(f"it uses {name}, which is dynajit's.  Pass torch=, one for it")
    return value


def _is_ours(value: Any) -> bool:
    module = getattr(value, "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] == "dynajit"


# ---- GPUs ----


def _is_on_gpu(args: Any, kwargs: Any) -> bool:
    leaves = flatten((args, kwargs))[0]
    return any(isinstance(x, Tensor) and x.device.type == "cuda" for x in leaves)


def _waited(run: Candidate) -> Any:
    result = run()
    cuda.synchronize()
    return result
