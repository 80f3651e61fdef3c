"""What a region calls, and what is known of it: launches, and records for the reports.

Contract: a launch takes a region's inputs and returns its outputs as tensors; one that fails has
changed nothing; what it has begun with other processes by then, the plain run finds
(`core.process.begun`). A launch whose programs are still being compiled runs the graph op by op.
Made by `dynajit.driver.backend`; read by `dynajit.report`.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol

from dynajit.capture.entry.session import failure_text
from dynajit.codegen import pipeline as code
from dynajit.core.errors import (
    BoundsError,
    CompileWarning,
    DivisionError,
    InternalError,
    LaunchFailed,
    LinAlgError,
)
from dynajit.core.process import background, config, progress
from dynajit.core.process.begun import BEGUN
from dynajit.core.process.recording import Kind, recorded
from dynajit.core.process.warning import warn
from dynajit.core.records import record
from dynajit.eager.backward.compiled import note_within
from dynajit.eager.tensor.creation import from_numpy
from dynajit.ir import pipeline
from dynajit.ir.generated import generated_function
from dynajit.ir.graph import Graph
from dynajit.ir.outputs import Taker
from dynajit.ir.passes.checkpoint_loops import Checkpointed, checkpoint_loops
from dynajit.ir.passes.merge_transfers import count_of, merge_transfers
from dynajit.ir.recomputation import recompute
from dynajit.ops.table.op_table import starts


@record
class PassRecord:
    """What one pass did to one graph.

    Args:
        role: which graph: "joint", "forward" or "backward".
        name: the pass.
        before, after: the graph.
        milliseconds: how long it took.
    """

    role: str
    name: str
    before: Graph
    after: Graph
    milliseconds: float

    @property
    def added(self) -> int:
        """Nodes that the pass made: it keeps those that it does not change."""
        return len(set(self.after.nodes) - set(self.before.nodes))

    @property
    def removed(self) -> int:
        """Nodes that it took away or replaced."""
        return len(set(self.before.nodes) - set(self.after.nodes))


@dataclass(slots=True)
class GraphRecord:
    """Everything that was made of one captured graph; filled while it is compiled.

    Args:
        graph: as captured.
        backend: the backend's name.
        verify: programs compare their kernels with NumPy.
        memory_budget: of what is saved for backward.
        launching: how kernels on a GPU are launched.
        merges: small collectives travel together.
        made: role -> graph that code was generated for.
        programs: (role, program) of each generated program.
        observed: what each pass changed.
        saved_bytes: memory kept for backward.
        saved, recomputed: numbers of values saved, and of nodes computed again in backward.
        stages: milliseconds per stage.
        left_out: passes that the configuration left out.
        is_observed: passes are recorded.
        remake: makes the graphs of a record that was restored from disk; None where they are made.
    """

    graph: Graph
    backend: str
    verify: bool = False
    memory_budget: float = 1.0
    launching: code.Launching = code.DEFAULT
    merges: bool = False
    made: dict[str, Graph] = field(default_factory=dict)
    programs: list[tuple[str, Any]] = field(default_factory=list)
    observed: list[PassRecord] = field(default_factory=list)
    saved_bytes: int = 0
    saved: int = 0
    recomputed: int = 0
    stages: dict[str, float] = field(default_factory=dict)
    left_out: frozenset[str] = field(default_factory=lambda: config.current().disabled_passes)
    is_observed: bool = True
    remake: Callable[[], object] | None = None

    @property
    def forward(self) -> Graph | None:
        """The graph whose code a call runs."""
        return self._graphs().get("forward")

    @property
    def backward(self) -> Graph | None:
        """The graph whose code backward runs; None without gradients."""
        return self._graphs().get("backward")

    @property
    def passes(self) -> list[PassRecord]:
        """What each pass changed."""
        self._graphs()
        return self.observed

    def _graphs(self) -> dict[str, Graph]:
        remake, self.remake = self.remake, None
        if remake is not None:
            self.is_observed = True
            remake()
        return self.made

    @property
    def kernels(self) -> tuple[Any, ...]:
        """Kernels of all programs."""
        return tuple(kernel for _, program in self.programs for kernel in program.kernels)

    @property
    def from_cache(self) -> bool:
        """True if no program needed the C compiler."""
        return all(program.from_cache for _, program in self.programs)

    def summary(self) -> str:
        """A few lines of text: passes that changed something, what is saved, programs."""
        lines = [f"{self.graph.name} ({self.backend} backend)"]
        for run in (*self.passes, *self._product_passes()):
            if run.added or run.removed:
                before, after = len(run.before.nodes), len(run.after.nodes)
                new = f", {run.added} of them new" if run.added else ""
                lines.append(f"  {run.role:8s} {run.name}: {before} -> {after} nodes{new}")
        if self.left_out:
            lines.append(f"  left out: {', '.join(sorted(self.left_out))}")
        if self.forward is not None and _begins(self.forward):
            asked, started = count_of(self.forward)
            lines.append(f"  {asked} collectives and messages, in {started} that are started")
        if any(role == "backward" for role, _ in self.programs):
            lines.append(
                f"  saved for backward: {self.saved} values, {self.saved_bytes} bytes; "
                f"{self.recomputed} nodes are computed again"
            )
        for role, program in self.programs:
            source = "from the cache" if program.from_cache else "compiled"
            kernels = f"{len(program.kernels)} kernels{self._operations(role)}"
            lines.append(f"  {role}: {kernels}, {source}{_memory(program)}")
            if code.is_cuda(program):
                lines += [f"    {line}" for line in program.explain.splitlines()]
            elif isinstance(program, code.MixedProgram):
                lines += [f"    by NumPy between them: {reason}" for reason in program.reasons]
        return "\n".join(lines)

    def _operations(self, role: str) -> str:
        graph = self._graphs().get(role)
        return "" if graph is None else f" of {len(graph.calls)} operations"

    def _product_passes(self) -> Iterator[PassRecord]:
        """What code generation did to matrix products, found out once more: nobody else asks."""
        for role, graph in self._graphs().items():
            if self.backend != "native" or code.is_on_gpu(graph):
                continue
            for step in code.PRODUCT_PASSES:
                if step.__name__ not in self.left_out:
                    start = time.perf_counter()
                    after = step(graph)
                    elapsed_ms = 1e3 * (time.perf_counter() - start)
                    yield PassRecord(role, step.__name__, graph, after, elapsed_ms)
                    graph = after

    def release(self) -> None:
        """Forget the graphs between the passes: nobody will ask any more."""
        self.is_observed = False
        self.observed.clear()

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the block's time to a stage."""
        start = time.perf_counter()
        progress.note(stage)
        try:
            yield
        finally:
            elapsed_ms = 1e3 * (time.perf_counter() - start)
            self.stages[stage] = self.stages.get(stage, 0.0) + elapsed_ms

    def optimize(self, role: str, graph: Graph) -> Graph:
        """Run the passes on a graph and record what they did."""

        def observe(name: str, before: Graph, after: Graph, milliseconds: float) -> None:
            if self.is_observed:
                self.observed.append(PassRecord(role, name, before, after, milliseconds))

        with self.timed("passes"):
            keeps = code.keeps_native if self.backend in ("native", "cuda") else None
            return pipeline.optimize(graph, keeps=keeps, observe=observe)

    def within_budget(self, role: str, graph: Graph) -> Graph:
        """The graph with values computed again, if less may be kept; recorded as a pass."""
        if self.memory_budget >= 1:
            return graph
        start = time.perf_counter()
        with self.timed("partition"):
            after = recompute(graph, self.memory_budget)
        if self.is_observed:
            milliseconds = 1e3 * (time.perf_counter() - start)
            self.observed.append(PassRecord(role, "recompute", graph, after, milliseconds))
        return after

    def in_segments(self, role: str, graph: Graph) -> Checkpointed:
        """The graph with loops in segments, if less may be kept of turns; recorded as a pass."""
        if self.memory_budget >= 1:
            return Checkpointed(graph, 0)
        start = time.perf_counter()
        with self.timed("partition"):
            found = checkpoint_loops(graph, self.memory_budget)
        if self.is_observed:
            milliseconds = 1e3 * (time.perf_counter() - start)
            name = "checkpoint_loops"
            self.observed.append(PassRecord(role, name, graph, found.graph, milliseconds))
        return found

    def merged(self, role: str, graph: Graph) -> Graph:
        """The graph in which small collectives travel together, if they shall; recorded as a
        pass."""
        if not self.merges:
            return graph
        start = time.perf_counter()
        with self.timed("passes"):
            after = merge_transfers(graph)
        if self.is_observed:
            milliseconds = 1e3 * (time.perf_counter() - start)
            self.observed.append(PassRecord(role, "merge_transfers", graph, after, milliseconds))
        return after

    def start(self, written: Mapping[int, int] = MappingProxyType({})) -> dict[str, code.Started]:
        """Programs of the graphs made, by role; their compilers run at the same time."""
        return {
            role: code.start_compile(
                graph,
                backend=self.backend,
                written=written,
                verify=self.verify,
                launching=self.launching,
            )
            for role, graph in self.made.items()
        }

    def finish(self, started: Mapping[str, code.Started]) -> dict[str, code.Program]:
        """Wait for the programs."""
        programs = {role: program() for role, program in started.items()}
        for program in programs.values():
            for stage, milliseconds in program.stages.items():
                self.stages[stage] = self.stages.get(stage, 0.0) + milliseconds
        self.programs.extend(programs.items())
        return programs


def _memory(program: Any) -> str:
    """What a call of a native program needs at its peak, besides its arguments."""
    blueprint = getattr(program, "blueprint", None)
    peak = None if blueprint is None else blueprint.peak
    if peak is None:
        return ""
    return f"; at its peak {peak[0]} bytes of results and {peak[1]} of temporaries"


REFUSALS: Final = (BoundsError, DivisionError, LinAlgError, OverflowError)
"""What a call raises whose values do not fit."""


def _begins(graph: Graph) -> bool:
    """Whether a graph begins anything with other processes."""
    return any(starts(node.op) for node in graph.calls)


class Launch:
    """What a region calls: runs the compiled call, then takes views of what came out.

    Args:
        call: takes the graph's inputs, returns a tuple of tensors.
        take: takes the user's outputs from results and inputs; None if they are the results.
        record: for reports.
        views: user's output that is such a view -> the results of the call that are computed from
            it and have gradients.

    `may_fail` is True if a call can raise `LaunchFailed`: a kernel meets an index out of range. So
    does a call with an integer of the program's that does not fit in int64.
    """

    __slots__ = ("call", "may_fail", "record", "take", "views")

    def __init__(
        self,
        call: Callable[..., Any],
        take: Taker | None,
        record: GraphRecord,
        views: Mapping[int, frozenset[int]] = MappingProxyType({}),
    ) -> None:
        self.call = BEGUN.following(call, REFUSALS) if _begins(record.graph) else call
        self.views = views
        self.take = take
        self.record = record
        self.may_fail = not record.programs or record.programs[0][1].may_fail

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        try:
            results: tuple[Any, ...] = self.call(*inputs)
        except REFUSALS as error:
            raise LaunchFailed(str(error)) from error
        if self.take is None:
            return results
        taken = self.take(results, inputs)
        for position, numbers in self.views.items():
            note_within(taken[position], *(results[number] for number in numbers))
        return taken


class Started(Protocol):
    """A launch on its way: everything is there but what the C compiler makes."""

    @property
    def is_ready(self) -> bool:
        """True if `finish` will not wait."""

    @property
    def may_fail(self) -> bool | None:
        """As of the launch; None where only that knows."""

    def finish(self) -> Launch:
        """Wait for the compiler.

        Raises:
            ToolchainError: it refused the generated code.
        """


class StartedLaunch(Launch):
    """A launch whose compiler is at work while code is made that calls it; `settle` comes first.

    Args:
        record: for reports.
        started: its `may_fail` is known.
    """

    __slots__ = ("_started",)

    def __init__(self, record: GraphRecord, started: Started) -> None:
        super().__init__(_not_settled, None, record)
        self.may_fail = bool(started.may_fail)
        self._started: Started | None = started

    def settle(self) -> None:
        """Wait for the compiler.

        Raises:
            ToolchainError: it refused the generated code.
        """
        if self._started is not None:
            made = self._started.finish()
            self.call, self.take, self.views = made.call, made.take, made.views
            self._started = None


def _not_settled(*inputs: Any) -> Any:
    raise InternalError("a launch is called before its compiler has finished")


IDLE_S: Final = 1.0
"""A version that is not called again is compiled after so many seconds."""
_LOOK_S: Final = 0.05


class BackgroundLaunch(Launch):
    """A launch that runs the graph op by op until the compiled call is there; safe in threads.

    Code generation is Python, of which one thread runs at a time. So it begins with the second
    call, or when the process has been idle or ends: the first results of a program, which may need
    other functions captured, do not wait for it.

    Args:
        record: for reports.
        start: makes graphs and code, and starts the compiler.
    """

    __slots__ = ("_again", "_lock", "_start", "_starting")

    def __init__(self, record: GraphRecord, start: Callable[[], Started]) -> None:
        super().__init__(generated_function(record.graph, from_numpy), None, record)
        self._start: Callable[[], Started] | None = start
        self._starting: Future[Started] | None = None
        self._lock = threading.Lock()
        self._again = threading.Event()

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        if self._start is not None and self._lock.acquire(blocking=False):
            try:
                self._go_on()
            finally:
                self._lock.release()
        return super().__call__(*inputs)

    def _go_on(self) -> None:
        """Take the next step to the compiled call, if there is one that needs no wait.

        Raises:
            Exception: `Config.strict`, and code generation or the compiler failed.
        """
        start, starting = self._start, self._starting
        if start is None:
            return  # another thread was here
        if starting is None:
            self._starting = background.start(self._begin, start)
            return
        self._again.set()
        if not starting.done():
            return
        try:
            started = starting.result()
            if not started.is_ready:
                return
            made = started.finish()
        except Exception as error:
            if config.current().strict:
                raise
            warn(failure_text(self.record.graph.name, error), CompileWarning)
        else:
            self.call = made.call if made.take is None else made
        self._start = self._starting = None

    def _begin(self, start: Callable[[], Started]) -> Started:
        until = time.monotonic() + IDLE_S
        while time.monotonic() < until and threading.main_thread().is_alive():
            if self._again.wait(_LOOK_S):
                break
        with recorded(Kind.COMPILE, f"compile {self.record.graph.name}"):
            return start()
