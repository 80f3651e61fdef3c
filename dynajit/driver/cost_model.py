"""`options={"cost_model": True}`: a version that measures slower than plain Python is left to it.

Contract: each version of a compiled function runs its first calls in turn, compiled and plain;
every call is made once, either way gives its result. When each has had `TURNS` that count, the
faster one stays, for as long as the version does. What is compared is the call itself, behind the
guards, which both need; backward is not measured. A version that is left to plain Python is told of
in the report and on the channel `perf`. Versions with graph breaks, whose calls are made in parts,
and those with results on a GPU, whose work goes on after the call, stay compiled.
"""

import functools
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from dynajit.capture import control
from dynajit.core.process.late import Late
from dynajit.core.process.logs import write
from dynajit.core.pytree import flatten

if TYPE_CHECKING:
    from dynajit.capture.entry.cache import Entry

cache = Late("dynajit.capture.entry.cache")

TURNS: Final = 7
"""Calls of each kind that are compared; more of them may meet another program's work, fewer decide
by chance."""
WARM_UP: Final = 2
"""Calls of each kind before these: the first ones meet cold caches."""
MARGIN: Final = 1.05
"""How much slower compiled calls have to be: what is equal stays compiled."""

MSG_SLOWER: Final = (
    "{name}: version {number} is left to plain Python: compiled it took {compiled:.1f} us, plain "
    "{plain:.1f} us (medians of {turns} calls; cost_model)"
)


class _Measured:
    """The calls of one version until it is decided how it runs. Mutable, safe in threads.

    Args:
        compiled, plain: both ways to make a call.
        decide: called once, with the medians in microseconds.
    """

    def __init__(
        self,
        compiled: Callable[..., Any],
        plain: Callable[..., Any],
        decide: Callable[[float, float], None],
    ) -> None:
        self._ways = (compiled, plain)
        self._decide: Callable[[float, float], None] | None = decide
        self._times: tuple[list[int], list[int]] = ([], [])
        self._turn = 0
        self._lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            way = self._turn % 2
            self._turn += 1
        start = time.perf_counter_ns()
        result = self._ways[way](*args, **kwargs)  # what it raises is no measurement
        elapsed = time.perf_counter_ns() - start
        with self._lock:
            self._times[way].append(elapsed)
            decide = None
            is_on_gpu = _is_on_gpu(result)
            if is_on_gpu or min(map(len, self._times)) >= WARM_UP + TURNS:
                decide, self._decide = self._decide, None
        if decide is not None:
            decide(*((0.0, 0.0) if is_on_gpu else self._medians()))
        return result

    def _medians(self) -> tuple[float, float]:
        """Microseconds of a compiled and of a plain call."""
        compiled, plain = (statistics.median(times[WARM_UP:]) / 1e3 for times in self._times)
        return compiled, plain


def _is_on_gpu(result: Any) -> bool:
    devices = (getattr(leaf, "device", None) for leaf in flatten(result)[0])
    return any(getattr(device, "type", "cpu") == "cuda" for device in devices)


def measure_versions(compiled: Any, name: str, tell: Callable[[str], None]) -> None:
    """Have versions measured that are not yet; called when a call that compiled is over.

    Args:
        compiled: the compiled function.
        name: in reports.
        tell: called with a sentence where a version is left to plain Python.
    """
    for entry in cache.cache_of(compiled).entries(compiled):
        if isinstance(entry.function, _Measured) or entry.function is compiled.__wrapped__:
            continue
        if entry.is_scoped:
            continue
        if getattr(entry.function, _DECIDED, None) is not None:
            continue
        decide = functools.partial(_decide, compiled, entry, name, tell)
        plain = control.disable(compiled.__wrapped__)
        _exchange(compiled, entry, _Measured(entry.function, plain, decide))


#: An attribute of functions that were measured and stay compiled.
_DECIDED: Final = "__dynajit_was_measured__"


def _decide(
    compiled: Any,
    entry: "Entry",
    name: str,
    tell: Callable[[str], None],
    compiled_us: float,
    plain_us: float,
) -> None:
    """Let the faster way stay."""
    number = entry.number
    measured = [e for e in cache.cache_of(compiled).entries(compiled) if e.number == number]
    if not measured or not isinstance(measured[0].function, _Measured):
        return  # it was dropped meanwhile
    if compiled_us <= MARGIN * plain_us:
        setattr(entry.function, _DECIDED, True)
        _exchange(compiled, measured[0], entry.function)
        return
    _exchange(compiled, measured[0], compiled.__wrapped__)
    text = MSG_SLOWER.format(
        name=name, number=number, compiled=compiled_us, plain=plain_us, turns=TURNS
    )
    tell(text)
    write("perf", text)


def _exchange(compiled: Any, entry: "Entry", function: Any) -> None:
    """Have an entry run another function."""
    made = replace(entry, function=function)
    if compiled.remove_entry(entry):
        compiled.add_entry(entry.guards.evaluator, function, made, entry.is_scoped)
