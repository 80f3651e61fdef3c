"""Choosing kernels by measuring them: what `mode="max-autotune"` does.

Contract: a `TunedProgram` runs like any other; its first call measures. Each kernel of a unit
leaves some numbers open (`codegen.cuda.units.steps.Choice`), and each product has several
algorithms; every step is timed with each of its possibilities on the arguments of that call, and
the fastest are taken. What was found is kept on disk for this kind of GPU, this compiler and this
text, so that only one process measures. Arguments that kernels write to are copied before. Called
by `codegen.device.pipeline`.
"""

import hashlib
import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dynajit.codegen import _device
from dynajit.codegen.compilers import nvrtc, store
from dynajit.codegen.compilers.started import Started
from dynajit.codegen.cuda.text import Unit
from dynajit.codegen.cuda.units.steps import Choice, CudaKernel
from dynajit.codegen.device import driver as device_driver
from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.records import record

MOST_VARIANTS: Final = 12
"""Possibilities of one kernel that are tried, the usual one first."""
REPEATS: Final = 20
"""Runs of a step between two events."""


@record
class Winners:
    """What measuring found.

    Args:
        choices: numbers of kernels by the names of their choices.
        algorithms: of products, in running order.
    """

    choices: Mapping[str, int]
    algorithms: tuple[bytes, ...]


Build = Callable[[Mapping[str, int], tuple[bytes, ...]], Started]
"""The program with these numbers and these algorithms."""


class TunedProgram:
    """A program that chooses its kernels in its first call. Mutable: it is another one afterwards.

    Args:
        program: with the usual numbers.
        unit: of that program.
        build: gives programs with others.
    """

    def __init__(self, program: Any, unit: Unit, build: Build) -> None:
        self.program = program
        self._unit = unit
        self._build = build
        self._is_tuned = False
        self._lock = threading.RLock()  # a handler of signals may call it within

    def __getattr__(self, name: str) -> Any:
        return getattr(self.program, name)

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """Run; the first call measures before."""
        if not self._is_tuned:
            with self._lock:
                if not self._is_tuned:
                    self._tune(arguments)
        results: tuple[Any, ...] = self.program(*arguments)
        return results

    def _tune(self, arguments: Sequence[Any]) -> None:
        start = time.perf_counter()
        key = key_of(self._unit, self.program.blueprint.device)
        winners = _kept(key)
        if winners is None:
            winners = measured(self.program, self._unit, self._build, arguments)
            store.write(key, _to_data(winners))
        chosen = self._build(winners.choices, winners.algorithms)()
        stages = chosen.stages
        stages["tuning"] = 1e3 * (time.perf_counter() - start)
        self.program = chosen
        self._is_tuned = True


# ---------------------------------------------------------------------------------------------
# measuring


def measured(
    program: _device.Program, unit: Unit, build: Build, arguments: Sequence[Any]
) -> Winners:
    """The fastest numbers and algorithms for a call.

    Args:
        program: with the usual numbers.
        unit: of that program.
        build: gives programs with others.
        arguments: of the call; not changed.
    """
    groups = _groups(unit)
    variants = _variants(unit.choices)
    started = [build(variant, ()) for variant in variants[1:]]
    programs = [program, *(each() for each in started)]
    times: dict[str, list[float]] = defaultdict(list)
    for variant in programs:
        _, by_step = variant.measure(_own(program, arguments), REPEATS, False, True)  # type: ignore[attr-defined]
        total: dict[str, float] = defaultdict(float)
        for step, milliseconds in zip(variant.blueprint.kernels, by_step, strict=True):  # type: ignore[attr-defined]
            total[groups.get(step.name, "")] += milliseconds
        for group in set(groups.values()):
            times[group].append(total[group])
    best = {group: min(range(len(found)), key=found.__getitem__) for group, found in times.items()}
    chosen = {
        choice.name: variants[best[_group_of(choice, groups)]][choice.name]
        for choice in unit.choices
        if _group_of(choice, groups) in best
    }
    program.measure(_own(program, arguments), 1, True, False)
    return Winners(chosen, program.algorithms())


def _groups(unit: Unit) -> dict[str, str]:
    """Step -> the loop kernel for which numbers are chosen; equal kernels stand for one.

    A loop kernel may be several steps, whose times are added.
    """
    first: dict[tuple[str, ...], str] = {}
    entries: dict[str, list[str]] = defaultdict(list)
    for step in unit.steps:
        if isinstance(step, CudaKernel):
            entries[step.kernel.name].append(step.entry)
    group = {name: first.setdefault(tuple(found), name) for name, found in entries.items()}
    return {
        step.name: group[step.kernel.name] for step in unit.steps if isinstance(step, CudaKernel)
    } | group


def _group_of(choice: Choice, groups: Mapping[str, str]) -> str:
    kernel, _, _ = choice.name.partition(":")
    return groups.get(kernel, "")


def _variants(choices: Sequence[Choice]) -> list[dict[str, int]]:
    """What is tried: in each all kernels take their next possibility; the usual ones first."""
    by_kernel: dict[str, list[Choice]] = defaultdict(list)
    for choice in choices:
        by_kernel[choice.name.partition(":")[0]].append(choice)
    options = [_options(own) for own in by_kernel.values()]
    count = max(map(len, options), default=1)
    merged: list[dict[str, int]] = []
    for number in range(count):
        variant: dict[str, int] = {}
        for own in options:
            variant |= own[min(number, len(own) - 1)]
        merged.append(variant)
    return merged


def _options(choices: Sequence[Choice]) -> list[dict[str, int]]:
    """Possibilities of one kernel: the usual one, those that differ in one number, then others."""
    usual = {choice.name: choice.default for choice in choices}
    every = [
        dict(zip(usual, values, strict=True))
        for values in itertools.product(*(choice.values for choice in choices))
    ]
    every.sort(key=lambda option: sum(option[name] != usual[name] for name in usual))
    rest = [option for option in every if option != usual]
    return [usual, *rest][:MOST_VARIANTS]


def _own(program: _device.Program, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments, those that kernels write to as copies."""
    written = {
        position
        for kind, position, _ in program.blueprint.results
        if kind == _device.RESULT_WRITTEN
    }
    return tuple(
        any_arrays.copied(x) if n in written and gpu.is_gpu_array(x) else x
        for n, x in enumerate(arguments)
    )


# ---------------------------------------------------------------------------------------------
# on disk


def key_of(unit: Unit, device: int) -> str:
    """Everything on which the winners depend."""
    driver = device_driver.driver()
    library = nvrtc.find()
    parts = (
        "tuning", unit.source, repr([(s.name, getattr(s, "grid", s)) for s in unit.steps]),
        repr(unit.choices), driver.name(device), str(driver.version),
        repr(device_driver.capability(device)), repr(library and library.version),
    )  # fmt: skip
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


def _kept(key: str) -> Winners | None:
    data: Any = store.read(key)
    try:
        algorithms = tuple(bytes.fromhex(text) for text in data["algorithms"])
        return Winners({str(k): int(v) for k, v in data["choices"].items()}, algorithms)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _to_data(winners: Winners) -> dict[str, Any]:
    return {
        "choices": dict(winners.choices),
        "algorithms": [algorithm.hex() for algorithm in winners.algorithms],
    }
