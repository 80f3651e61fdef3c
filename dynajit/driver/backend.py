"""From a captured graph to something that runs: the join of ir, codegen and eager autograd.

`make_backend` turns what the user named (a name of `registered_backends`, or a callable) into the
function that capture calls with each CapturedGraph. For the built-in ones the steps are, in order:
split off views, differentiate if a gradient is wanted, partition, run the passes, generate code,
and join the programs to the tape (`eager.backward.compiled`). Between the first and the last one a
graph that was compiled before is restored from disk (`artefacts`). Every step's time and result is
kept in a GraphRecord for the reports, which makes the graphs of a restored one again when it is
asked.
"""

import functools
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import CodeType
from typing import Any

from dynajit.capture.control import disable
from dynajit.capture.region.region import CapturedGraph, Place, SavedTensors
from dynajit.codegen import pipeline as code
from dynajit.core.errors import ArgumentError, BackendError
from dynajit.core.process import config
from dynajit.core.records import record
from dynajit.core.types.value_types import Shape, TensorType
from dynajit.driver import artefacts, early_compiler, parts, patterns
from dynajit.driver.artefacts import Gradients
from dynajit.driver.graph_module import GraphModule
from dynajit.driver.launches import BackgroundLaunch, GraphRecord, Launch, StartedLaunch
from dynajit.driver.registered_backends import resolved
from dynajit.eager.backward.compiled import CompiledCall
from dynajit.eager.backward.training import Training, VersionCheck
from dynajit.eager.tensor.creation import from_numpy
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ir import autodiff, interpret, outputs, partition, sizes
from dynajit.ir.absent import without
from dynajit.ir.generated import generated_function
from dynajit.ir.graph import Graph
from dynajit.ir.passes.eliminate_dead_code import eliminate_dead_code
from dynajit.ir.saved import SavingRow, reached_targets, rows_that_save

GENERATING = ("native", "cuda")
"""Those that generate code."""


def make_backend(
    backend: Any,
    verify: bool = False,
    memory_budget: float = 1.0,
    in_background: bool = False,
    launching: code.Launching = code.DEFAULT,
    merges: bool = False,
) -> Callable[[CapturedGraph], Callable[..., tuple[Any, ...]]]:
    """The function that capture calls with every captured graph.

    Args:
        backend: a name, or a callable `backend(graph_module, example_inputs)` that returns a
            callable over tensors.
        verify: every kernel is compared with NumPy in every call; where code is generated only.
        memory_budget: of what is saved for backward, see `ir.partition`.
        in_background: calls run op by op while their code is generated and compiled.
        launching: how kernels on a GPU are launched.
        merges: small collectives that follow each other travel together.

    Raises:
        ArgumentError: there is no such backend, it cannot verify, or has no budget.
    """
    backend = resolved(backend)
    if verify and backend not in GENERATING:
        raise ArgumentError(
            f"compile(backend={backend!r}, options={{'verify': True}}): only the kernels of "
            "backend='native' and 'cuda' can be verified."
        )
    if memory_budget != 1.0 and backend not in (*GENERATING, "numpy"):
        raise ArgumentError(
            f"compile(backend={backend!r}, options={{'activation_memory_budget': "
            f"{memory_budget}}}): only 'native', 'numpy' and 'cuda' choose what is saved for "
            "backward."
        )
    if callable(backend):
        return lambda captured: _custom(backend, captured)
    if backend == "eager":
        return _interpreted
    if backend in GENERATING:
        _ask_machine()
    return Generating(backend, verify, memory_budget, in_background, launching, merges)


@functools.lru_cache(maxsize=1)
def _ask_machine() -> None:
    """Remember what stays as it is while the process runs, as its modules are loaded by then, too:
    a first call takes the time of its own compilation only."""
    artefacts.version()
    code.ask_machine()


def launching_of(mode: str | None) -> code.Launching:
    """How a mode of `compile` launches kernels on a GPU."""
    return code.Launching(
        replays=mode in ("reduce-overhead", "max-autotune"),
        tunes=mode in ("max-autotune", "max-autotune-no-cudagraphs"),
    )


def _custom(backend: Callable[..., Any], captured: CapturedGraph) -> Launch:
    """A launch of what the program's own backend makes of the graph.

    Its code runs as plain Python, below a break, too: it computes what was captured already.

    Raises:
        BackendError: the backend raised, or made nothing that can be called; launches raise it
            where what it made does not return a tensor for each output.
    """
    name = getattr(backend, "__name__", None) or type(backend).__name__
    asked = f"compile({captured.name}, backend={name})"
    captured, seen = patterns.replaced(captured)
    record = GraphRecord(captured.graph, name, observed=[*seen])
    with record.timed("backend"):
        try:
            module = GraphModule(captured.graph, captured.requires_grad)
            made = disable(backend)(module, module.example_inputs)
        except Exception as error:
            raise BackendError(
                f"{asked}: the backend raised {type(error).__name__}: {error}"
            ) from error
    if not callable(made):
        raise BackendError(
            f"{asked}: the backend returned {made!r}.  Expected a callable that takes tensors and "
            "numbers in the order of the graph's inputs."
        )
    count = len(captured.graph.outputs)

    def call(*inputs: Any) -> tuple[Any, ...]:
        given = made(*inputs)
        results = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        if len(results) == count and all(isinstance(result, Tensor) for result in results):
            return results
        kinds = ", ".join(type(result).__name__ for result in results)
        raise BackendError(
            f"{asked}: what the backend made returned ({kinds}).  Expected a tuple or list with "
            f"one tensor for each of the graph's outputs, {count}."
        )

    return Launch(disable(call), None, record)


def _interpreted(captured: CapturedGraph) -> Launch:
    """The graph op by op on eager tensors: slow, as eager would, to step through."""
    captured, seen = patterns.replaced(captured)
    graph = captured.graph
    run = disable(generated_function(graph, from_numpy))
    return Launch(run, None, GraphRecord(graph, "eager", observed=[*seen]))


@record
class _Started:
    """A launch on its way: everything is there but what the C compiler makes.

    Args:
        record: for reports.
        captured, split: the graph, and the same without views among its outputs.
        gradients: None without.
        programs: by role.
    """

    record: GraphRecord
    captured: CapturedGraph
    split: outputs.SplitOutputs
    gradients: Gradients | None
    programs: Mapping[str, code.Started]

    @property
    def is_ready(self) -> bool:
        """True if `finish` will not wait."""
        return all(program.is_ready for program in self.programs.values())

    @property
    def may_fail(self) -> bool | None:
        """As of the launch; None where only that knows."""
        forward = self.programs.get("forward")
        return None if forward is None else getattr(forward.blueprint, "may_fail", None)

    def finish(self) -> Launch:
        """Wait for the compiler.

        Raises:
            ToolchainError: it refused the generated code.
        """
        programs = self.record.finish(self.programs)
        if self.gradients is None:
            call = CompiledCall.inference(programs["forward"])
            views = {}
        else:
            call = _training(programs, self.gradients, self.split, self.captured, self.record)
            views = _views_within(self.captured, self.split, self.gradients.differentiable_outputs)
        take = None if self.split.is_trivial else self.split.taker()
        return Launch(call, take, self.record, views)


@record(eq=False)
class Generating:
    """A backend that makes programs; arguments as for `make_backend`."""

    backend: str
    verify: bool
    memory_budget: float
    in_background: bool
    launching: code.Launching
    merges: bool

    def __call__(self, captured: CapturedGraph) -> Launch:
        captured, seen = patterns.replaced(captured)
        record = GraphRecord(
            captured.graph,
            self.backend,
            self.verify,
            self.memory_budget,
            self.launching,
            self.merges,
            observed=[*seen],
        )
        request = _request(record, captured)
        if not self._runs_meanwhile():
            started = _start(request)
            if started.is_ready or started.may_fail is None:
                return started.finish()
            return StartedLaunch(record, started)
        if request.known is None:
            return BackgroundLaunch(record, functools.partial(_start, request))
        started = _start(request)
        return started.finish() if started.is_ready else BackgroundLaunch(record, lambda: started)

    def early(self, function: CodeType) -> AbstractContextManager[None]:
        """A block in which a function is captured and this backend called with what comes out."""
        if self.backend != "native" or self._runs_meanwhile() or code.may_use_gpu():
            return nullcontext()
        return early_compiler.expecting(function)

    def _runs_meanwhile(self) -> bool:
        """Whether calls run op by op while their code is made."""
        asked = config.current()
        return self.in_background and not asked.dump and not asked.log


@record
class _Request:
    """A captured graph, and what is on disk of it.

    Args:
        record, captured, split: as in `_Started`.
        key: what is made is kept under what this gives; under nothing if it gives None.
        known: what was made before.
    """

    record: GraphRecord
    captured: CapturedGraph
    split: outputs.SplitOutputs
    key: Callable[[], str | None]
    known: artefacts.Artefact | None


def _request(record: GraphRecord, captured: CapturedGraph) -> _Request:
    split = outputs.split_views(captured.graph)
    is_made_once = record.verify or record.launching.tunes
    if is_made_once or record.backend not in GENERATING:
        return _Request(record, captured, split, lambda: None, None)
    key = functools.cache(
        functools.partial(artefacts.key_of, captured, record.memory_budget, record.merges)
    )
    if early_compiler.is_new():  # the key can wait until the compiler has a text to work on
        return _Request(record, captured, split, key, None)
    with record.timed("restore"):
        return _Request(record, captured, split, key, artefacts.restore(key()))


def _start(request: _Request) -> _Started:
    record, captured, split = request.record, request.captured, request.split
    known = request.known
    if known is None:
        with code.compiler_ahead() if _is_compiled_to_c(record, captured) else nullcontext():
            gradients = _make_graphs(record, split, captured)
            programs = record.start(_copied(captured, split) if gradients is None else {})
        blueprints = {role: program.blueprint for role, program in programs.items()}
        artefacts.keep(request.key(), blueprints, gradients)
        early_compiler.note()
    else:
        gradients = known.gradients
        programs = {
            role: code.start_build(made, record.launching) for role, made in known.programs.items()
        }
        record.remake = functools.partial(_make_graphs, record, split, captured)
    if gradients is not None:
        record.saved_bytes = gradients.saved_bytes
        record.saved, record.recomputed = gradients.saved, gradients.recomputed
    return _Started(record, captured, split, gradients, programs)


def _is_compiled_to_c(record: GraphRecord, captured: CapturedGraph) -> bool:
    """Whether a C compiler will be needed."""
    return record.backend == "native" and not code.is_on_gpu(captured.graph)


def _make_graphs(
    record: GraphRecord, split: outputs.SplitOutputs, captured: CapturedGraph
) -> Gradients | None:
    """Make the graphs that code is generated for; None if no output depends on a trained input."""
    gradients = _differentiated(record, split, captured)
    if gradients is None:
        graph = record.in_segments("forward", split.graph).graph
        optimized = record.within_budget("forward", record.optimize("forward", graph))
        record.made["forward"] = record.merged("forward", optimized)
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
    rows = _rows(graph, captured, joint.differentiable_outputs)
    ends = _ends(graph, captured, joint.differentiable_outputs)
    if captured.spent:
        joint = _without_closed(joint, rows, ends)
    found = record.in_segments("joint", joint.graph)
    joint = replace(joint, graph=record.optimize("joint", found.graph))
    with record.timed("partition"):
        cut = partition.partition(
            joint,
            *_not_to_share(captured, split),
            budget=record.memory_budget,
            left_out=found.bytes,
        )
    record.made["forward"] = record.merged("forward", record.optimize("forward", cut.forward))
    record.made["backward"] = record.optimize("backward", cut.backward)
    return Gradients(
        differentiable_outputs=cut.differentiable_outputs,
        saved_inputs=cut.saved_inputs,
        saved_outputs=cut.saved_outputs,
        saved_copies=cut.saved_copies,
        sizes=cut.sizes,
        reached=joint.reached,
        rows=rows,
        ends=ends,
        saved_bytes=cut.saved_bytes,
        saved=len(cut.saved),
        recomputed=cut.recomputed,
    )


def _training(
    programs: Mapping[str, code.Program],
    gradients: Gradients,
    split: outputs.SplitOutputs,
    captured: CapturedGraph,
    record: GraphRecord,
) -> Callable[..., Any]:
    """A call that is one node of the tape."""
    graph = split.graph
    roots = [graph.outputs[position] for position in gradients.differentiable_outputs]
    facts = Training(
        forward=programs["forward"],
        backward=programs["backward"],
        output_count=len(graph.outputs),
        differentiable_outputs=tuple(gradients.differentiable_outputs),
        saved_inputs=tuple(gradients.saved_inputs),
        saved_outputs=tuple(gradients.saved_outputs),
        requires_grad=tuple(captured.requires_grad),
        sizes=_sizes_for_backward(gradients.sizes),
        replay=functools.partial(_replay, graph),
        without=functools.partial(_without, record, len(gradients.saved_inputs), len(roots)),
        rows=tuple((row.outputs, row.targets) for row in gradients.rows),
        ends=tuple(gradients.ends),
        spent=frozenset((row.outputs, row.targets) for row in gradients.rows if row.is_spent),
        reached=tuple(gradients.reached),
        checks=_checks(captured, split, gradients.differentiable_outputs),
        saved_copies=tuple(gradients.saved_copies),
        writes=tuple(_per_output(captured, split).get(i, 0) for i in range(len(graph.outputs))),
        within=tuple(outputs.made_from(graph.calls, roots, roots)),
        in_parts=parts.maker(record),
        written=frozenset(captured.written),
    )
    return CompiledCall.training(facts)


def _views_within(
    captured: CapturedGraph, split: outputs.SplitOutputs, differentiable: Sequence[int]
) -> dict[int, frozenset[int]]:
    """User's output that is a view taken after the call -> results made from it, with gradients."""
    views = [position for position, recipe in enumerate(split.recipes) if recipe.views]
    seen = [captured.graph.outputs[position] for position in views]
    roots = [split.graph.outputs[position] for position in differentiable]
    within = outputs.made_from(split.graph.calls, roots, seen)
    found = {
        position: frozenset(
            result for result, places in zip(differentiable, within, strict=True) if place in places
        )
        for place, position in enumerate(views)
    }
    return {position: results for position, results in found.items() if results}


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


def _without(
    record: GraphRecord, first: int, count: int, absent: frozenset[int]
) -> Callable[..., tuple[Any, ...]]:
    """Backward on arrays, op by op, for some outputs only.

    Args:
        first: position of the first output's gradient among the arguments of backward.
        count: of such outputs.
        absent: numbers of those whose gradients did not come.
    """
    whole = record.backward
    assert whole is not None
    part = without(whole, range(first, first + count), {first + number for number in absent})
    return lambda *arguments: interpret.run(part, arguments)


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
) -> tuple[VersionCheck, ...] | None:
    """The captured graph's checks in terms of the split graph's differentiable outputs."""
    if captured.saved is None:
        return None
    return tuple(_split_checks(captured.saved, split, differentiable))


def _split_checks(
    saved: SavedTensors, split: outputs.SplitOutputs, differentiable: Sequence[int]
) -> Iterator[VersionCheck]:
    bits = {output: 1 << number for number, output in enumerate(differentiable)}
    places = sizes.symbol_places(split.graph)
    for check in saved.checks:
        kind: Any = check.type  # of a tensor
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
            kind.dtype,
            functools.partial(_shape_in_call, kind.shape, places),
        )


def _shape_in_call(
    shape: Shape, places: Mapping[str, sizes.Place], inputs: Sequence[Any]
) -> tuple[int, ...]:
    """A shape of the graph in a call with these arrays and numbers."""
    return tuple(sizes.known(shape, sizes.bind(places, inputs)))


def _rows(graph: Graph, captured: CapturedGraph, positions: Sequence[int]) -> tuple[SavingRow, ...]:
    """The rows that save anything, in terms of these differentiable outputs instead of all."""
    found: dict[SavingRow, None] = {}
    for row in rows_that_save(graph, captured.requires_grad, captured.spent):
        outputs = _chosen_bits(row.outputs, positions)
        if outputs:
            targets = _chosen_targets(graph, row.targets, positions)
            found[SavingRow(outputs, targets, row.is_spent)] = None
    return tuple(found)


def _without_closed(
    joint: autodiff.Joint, rows: Sequence[SavingRow], ends: Sequence[int]
) -> autodiff.Joint:
    """The joint graph, without the gradients that every run would be refused: on the way from each
    output a row has let go of what it saved."""
    can_be_had = 0
    for output, reached in enumerate(ends):
        spent = (row.targets for row in rows if row.is_spent and row.outputs >> output & 1)
        can_be_had |= reached & ~functools.reduce(operator.or_, spent, 0)
    trained = [position for position, flag in enumerate(joint.requires_grad) if flag]
    gradients = [
        gradient if can_be_had >> position & 1 else None
        for position, gradient in zip(trained, joint.input_gradients, strict=True)
    ]
    outputs = (*joint.graph.outputs[: joint.output_count], *gradients)
    return replace(joint, graph=Graph(joint.graph.name, joint.graph.nodes, outputs))


def _ends(graph: Graph, captured: CapturedGraph, positions: Sequence[int]) -> tuple[int, ...]:
    """`Training.ends`, for these differentiable outputs."""
    reached = reached_targets(graph, captured.requires_grad)
    return tuple(_chosen_targets(graph, reached[position], positions) for position in positions)


def _chosen_targets(graph: Graph, targets: int, positions: Sequence[int]) -> int:
    """`SavingRow.targets` in terms of these outputs instead of all."""
    count = len(graph.inputs)
    outputs = _chosen_bits(targets >> count, positions)
    return targets & ((1 << count) - 1) | outputs << count


def _chosen_bits(bits: int, positions: Sequence[int]) -> int:
    """The bits at these positions, in their order."""
    return sum(1 << i for i, position in enumerate(positions) if bits >> position & 1)


def _sizes_for_backward(
    places: Mapping[str, sizes.Place],
) -> Callable[..., tuple[int, ...]] | None:
    """Reads the sizes that backward is told as numbers; None if there are none."""
    if not places:
        return None
    return lambda inputs: tuple(sizes.bind(places, inputs).values())
