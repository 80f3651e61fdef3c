"""From a captured graph to something that runs: the join of ir, codegen and eager autograd.

`make_backend` turns what the user named (`"native"`, `"numpy"`, `"eager"` or a callable) into the
function that capture calls with each CapturedGraph. For the built-in ones the steps are, in order:
split off views, differentiate if a gradient is wanted, partition, run the passes, generate code,
and join the programs to the tape (`eager.compiled`). Between the first and the last one a graph
that was compiled before is restored from disk (`artefacts`). Every step's time and result is kept
in a GraphRecord for the reports, which makes the graphs of a restored one again when it is asked.
"""

import functools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from dynajit import artefacts
from dynajit.artefacts import Gradients
from dynajit.capture.region import CapturedGraph, Place
from dynajit.codegen import pipeline as code
from dynajit.codegen.blueprints import Blueprint
from dynajit.core.errors import ArgumentError, BoundsError, DivisionError, LaunchFailed
from dynajit.core.types import TensorType
from dynajit.eager.compiled import CompiledCall, VersionCheck
from dynajit.eager.creation import from_numpy
from dynajit.ir import autodiff, interpret, outputs, partition, pipeline, sizes
from dynajit.ir.generated import generated_function
from dynajit.ir.graph import Graph
from dynajit.ir.passes.eliminate_dead_code import eliminate_dead_code
from dynajit.ir.saved import released_together

NAMES = ("native", "numpy", "eager")


@dataclass(frozen=True, slots=True)
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


@dataclass(slots=True)
class GraphRecord:
    """Everything that was made of one captured graph; filled while it is compiled.

    Args:
        graph: as captured.
        backend: the backend's name.
        made: role -> graph that code was generated for.
        verify: programs compare their kernels with NumPy.
        memory_budget: of what is saved for backward.
        programs: (role, program) of each generated program.
        observed: what each pass changed.
        saved_bytes: memory kept for backward.
        saved, recomputed: numbers of values saved, and of nodes computed again in backward.
        stages: milliseconds per stage.
        remake: makes the graphs of a record that was restored from disk; None where they are made.
    """

    graph: Graph
    backend: str
    verify: bool = False
    memory_budget: float = 1.0
    made: dict[str, Graph] = field(default_factory=dict)
    programs: list[tuple[str, Any]] = field(default_factory=list)
    observed: list[PassRecord] = field(default_factory=list)
    saved_bytes: int = 0
    saved: int = 0
    recomputed: int = 0
    stages: dict[str, float] = field(default_factory=dict)
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
        for record in self.passes:
            before, after = len(record.before.nodes), len(record.after.nodes)
            if before != after:
                lines.append(f"  {record.role:8s} {record.name}: {before} -> {after} nodes")
        if any(role == "backward" for role, _ in self.programs):
            lines.append(
                f"  saved for backward: {self.saved} values, {self.saved_bytes} bytes; "
                f"{self.recomputed} nodes are computed again"
            )
        for role, program in self.programs:
            source = "from the cache" if program.from_cache else "compiled"
            lines.append(f"  {role}: {len(program.kernels)} kernels, {source}{_memory(program)}")
        return "\n".join(lines)

    def release(self) -> None:
        """Forget the graphs between the passes: nobody will ask any more."""
        self.observed.clear()

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the block's time to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            elapsed_ms = 1e3 * (time.perf_counter() - start)
            self.stages[stage] = self.stages.get(stage, 0.0) + elapsed_ms

    def optimize(self, role: str, graph: Graph) -> Graph:
        """Run the passes on a graph and record what they did."""

        def observe(name: str, before: Graph, after: Graph, milliseconds: float) -> None:
            self.observed.append(PassRecord(role, name, before, after, milliseconds))

        with self.timed("passes"):
            keeps = code.keeps_native if self.backend == "native" else None
            return pipeline.optimize(graph, keeps=keeps, observe=observe)

    def generate(
        self, written: Mapping[int, int] = MappingProxyType({})
    ) -> dict[str, code.Program]:
        """Programs of the graphs made, by role; their compilers run at the same time."""
        return self._finish(
            {
                role: code.start_compile(
                    graph, backend=self.backend, written=written, verify=self.verify
                )
                for role, graph in self.made.items()
            }
        )

    def build(self, blueprints: Mapping[str, Blueprint]) -> dict[str, code.Program]:
        """Programs whose code was generated before, by role."""
        return self._finish({role: code.start_build(made) for role, made in blueprints.items()})

    def _finish(self, started: Mapping[str, Callable[[], code.Program]]) -> dict[str, code.Program]:
        for role, wait in started.items():
            program = wait()
            self.programs.append((role, program))
            for stage, milliseconds in program.stages.items():
                self.stages[stage] = self.stages.get(stage, 0.0) + milliseconds
        return dict(self.programs)


def _memory(program: Any) -> str:
    """What a call of a native program needs at its peak, besides its arguments."""
    blueprint = getattr(program, "blueprint", None)
    peak = None if blueprint is None else blueprint.peak
    if peak is None:
        return ""
    return f"; at its peak {peak[0]} bytes of results and {peak[1]} of temporaries"


class Launch:
    """What a region calls: runs the compiled call, then takes views of what came out.

    Args:
        call: takes the graph's inputs, returns a tuple of tensors.
        recipes: how the user's outputs follow from inputs and results; None if they are equal.
        record: for reports.

    `may_fail` is True if a call can raise `LaunchFailed`: a kernel meets an index out of range.
    """

    __slots__ = ("call", "may_fail", "recipes", "record")

    def __init__(self, call: Callable[..., Any], recipes: Any, record: GraphRecord) -> None:
        self.call = call
        self.recipes = recipes
        self.record = record
        self.may_fail = not record.programs or record.programs[0][1].may_fail

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        try:
            results = self.call(*inputs)
        except (BoundsError, DivisionError) as error:
            raise LaunchFailed(str(error)) from error
        if self.recipes is None:
            return results
        return tuple(recipe.take(results, inputs) for recipe in self.recipes)


def make_backend(
    backend: Any, verify: bool = False, memory_budget: float = 1.0
) -> Callable[[CapturedGraph], Callable[..., tuple[Any, ...]]]:
    """The function that capture calls with every captured graph.

    Args:
        backend: a name out of `NAMES`, or a callable `backend(graph, example_types)` that
            returns a callable over tensors.
        verify: every kernel is compared with NumPy in every call; "native" only.
        memory_budget: of what is saved for backward, see `ir.partition`.

    Raises:
        ArgumentError: neither, or another backend cannot verify, or has no budget.
    """
    if verify and backend != "native":
        raise ArgumentError(
            f"compile(backend={backend!r}, options={{'verify': True}}): only the kernels of "
            "backend='native' can be verified."
        )
    if memory_budget != 1.0 and backend not in NAMES[:2]:
        raise ArgumentError(
            f"compile(backend={backend!r}, options={{'activation_memory_budget': "
            f"{memory_budget}}}): only 'native' and 'numpy' choose what is saved for backward."
        )
    if callable(backend):
        return lambda captured: _custom(backend, captured)
    if backend == "eager":
        return _interpreted
    if backend in NAMES:
        return lambda captured: _generated(backend, captured, verify, memory_budget)
    raise ArgumentError(
        f"compile(backend={backend!r}): not a backend.  Expected one of {', '.join(NAMES)}, or a "
        "callable (graph, example_types) -> callable."
    )


def _custom(backend: Callable[..., Any], captured: CapturedGraph) -> Launch:
    record = GraphRecord(captured.graph, getattr(backend, "__name__", "custom"))
    with record.timed("backend"):
        made = backend(captured.graph, [node.type for node in captured.graph.inputs])

    def call(*inputs: Any) -> tuple[Any, ...]:
        results = made(*inputs)
        return tuple(results) if isinstance(results, (tuple, list)) else (results,)

    return Launch(call, None, record)


def _interpreted(captured: CapturedGraph) -> Launch:
    """The graph op by op on eager tensors: slow, as eager would, to step through."""
    graph = captured.graph
    return Launch(generated_function(graph, from_numpy), None, GraphRecord(graph, "eager"))


def _generated(backend: str, captured: CapturedGraph, verify: bool, memory_budget: float) -> Launch:
    record = GraphRecord(captured.graph, backend, verify=verify, memory_budget=memory_budget)
    split = outputs.split_views(captured.graph)
    with record.timed("restore"):
        is_kept = backend == "native" and not verify
        key = artefacts.key_of(captured, memory_budget) if is_kept else None
        known = artefacts.restore(key)
    if known is None:
        gradients = _make_graphs(record, split, captured)
        programs = record.generate(_copied(captured, split) if gradients is None else {})
        artefacts.keep(key, programs, gradients)
    else:
        gradients = known.gradients
        programs = record.build(known.programs)
        record.remake = functools.partial(_make_graphs, record, split, captured)
    if gradients is None:
        call = CompiledCall.inference(programs["forward"])
    else:
        record.saved_bytes = gradients.saved_bytes
        record.saved, record.recomputed = gradients.saved, gradients.recomputed
        call = _training(programs, gradients, split, captured)
    return Launch(call, None if split.is_trivial else split.recipes, record)


def _make_graphs(
    record: GraphRecord, split: outputs.SplitOutputs, captured: CapturedGraph
) -> Gradients | None:
    """Make the graphs that code is generated for; None if no output depends on a trained input."""
    gradients = _differentiated(record, split, captured)
    if gradients is None:
        record.made["forward"] = record.optimize("forward", split.graph)
    return gradients


def _copied(captured: CapturedGraph, split: outputs.SplitOutputs) -> dict[int, int]:
    """Output of the split graph -> the input that all of it, and only it, is copied to."""
    users = Counter(recipe.index for recipe in split.recipes if recipe.source == "output")
    return {
        recipe.index: captured.copied[position]
        for position, recipe in enumerate(split.recipes)
        if position in captured.copied
        and recipe.source == "output"
        and not recipe.views
        and users[recipe.index] == 1
    }


def _differentiated(
    record: GraphRecord, split: outputs.SplitOutputs, captured: CapturedGraph
) -> Gradients | None:
    """Forward and backward, and what holds them together; None without gradients."""
    graph = split.graph
    if not any(captured.requires_grad):
        return None
    with record.timed("autodiff"):
        joint = autodiff.differentiate(graph, captured.requires_grad)
    if not joint.differentiable_outputs:
        return None
    joint = replace(joint, graph=record.optimize("joint", joint.graph))
    with record.timed("partition"):
        parts = partition.partition(
            joint, *_not_to_share(captured, split), budget=record.memory_budget
        )
    record.made["forward"] = record.optimize("forward", parts.forward)
    record.made["backward"] = record.optimize("backward", parts.backward)
    return Gradients(
        differentiable_outputs=parts.differentiable_outputs,
        saved_inputs=parts.saved_inputs,
        saved_outputs=parts.saved_outputs,
        saved_copies=parts.saved_copies,
        sizes=parts.sizes,
        reached=joint.reached,
        needs=_needs(graph, captured.requires_grad, joint.differentiable_outputs),
        saved_bytes=parts.saved_bytes,
        saved=len(parts.saved),
        recomputed=parts.recomputed,
    )


def _training(
    programs: Mapping[str, code.Program],
    gradients: Gradients,
    split: outputs.SplitOutputs,
    captured: CapturedGraph,
) -> Callable[..., Any]:
    """A call that is one node of the tape."""
    graph = split.graph
    return CompiledCall.training(
        forward=programs["forward"],
        backward=programs["backward"],
        output_count=len(graph.outputs),
        differentiable_outputs=gradients.differentiable_outputs,
        saved_inputs=gradients.saved_inputs,
        saved_outputs=gradients.saved_outputs,
        requires_grad=captured.requires_grad,
        sizes=_sizes_for_backward(gradients.sizes),
        replay=functools.partial(_replay, graph),
        needs=gradients.needs,
        reached=gradients.reached,
        checks=tuple(_checks(captured, split, gradients.differentiable_outputs)),
        saved_copies=gradients.saved_copies,
        writes=tuple(_per_output(captured, split).get(i, 0) for i in range(len(graph.outputs))),
    )


def _replay(
    graph: Graph, positions: Sequence[int]
) -> tuple[frozenset[int], Callable[..., Sequence[Any]]]:
    """The inputs that some outputs are computed from, and what computes them op by op."""
    part = eliminate_dead_code(
        Graph(graph.name, graph.nodes, tuple(graph.outputs[i] for i in positions))
    )
    read = {argument for node in part.calls for argument in node.args} | set(part.outputs)
    needed = frozenset(i for i, node in enumerate(part.inputs) if node in read)
    return needed, lambda *tensors: interpret.replay(part, tensors, constant=from_numpy)


def _not_to_share(
    captured: CapturedGraph, split: outputs.SplitOutputs
) -> tuple[set[int], set[int]]:
    """Positions of the inputs, and of the split graph's outputs, that backward must not read."""
    inputs = set(captured.written)
    if captured.saved is None:
        return inputs, set()
    shared = captured.saved.shareable
    tensors = range(len(captured.graph.inputs))
    inputs |= {position for position in tensors if Place(False, position) not in shared}
    inputs = {i for i in inputs if isinstance(captured.graph.inputs[i].type, TensorType)}
    return inputs, {
        recipe.index
        for position, recipe in enumerate(split.recipes)
        if recipe.source == "output" and Place(True, position) not in shared
    }


def _per_output(captured: CapturedGraph, split: outputs.SplitOutputs) -> dict[int, int]:
    """Output of the split graph -> writes that count in its version."""
    return {
        recipe.index: writes
        for recipe, writes in zip(split.recipes, captured.writes, strict=False)
        if recipe.source == "output"
    }


def _checks(
    captured: CapturedGraph, split: outputs.SplitOutputs, differentiable: Sequence[int]
) -> Iterator[VersionCheck]:
    """The captured graph's checks in terms of the split graph's differentiable outputs."""
    bits = {output: 1 << number for number, output in enumerate(differentiable)}
    for check in captured.saved.checks if captured.saved is not None else ():
        reached = 0
        for position, recipe in enumerate(split.recipes):
            if check.outputs >> position & 1 and recipe.source == "output":
                reached |= bits.get(recipe.index, 0)
        place = check.place
        if place is not None and place.is_output:
            place = replace(place, position=split.recipes[place.position].index)
        yield VersionCheck(
            None if place is None else (place.is_output, place.position),
            check.counted,
            check.total,
            reached,
            check.inputs,
            check.node,
            check.type,
        )


def _needs(
    graph: Graph, requires_grad: Sequence[bool], positions: Sequence[int]
) -> tuple[int, ...]:
    """Per row of the tape that saves anything a bit set: the gradients of which of these outputs
    pass through it."""
    numbered = [
        sum(1 << i for i, position in enumerate(positions) if mask >> position & 1)
        for mask in sorted(released_together(graph, requires_grad))
    ]
    return tuple(dict.fromkeys(mask for mask in numbered if mask))


def _sizes_for_backward(
    places: Mapping[str, sizes.Place],
) -> Callable[..., tuple[int, ...]] | None:
    """Reads the sizes that backward is told as numbers; None if there are none."""
    if not places:
        return None
    return lambda inputs: tuple(sizes.bind(places, inputs).values())
