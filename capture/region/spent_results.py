"""Results whose gradients a backward run of the captured code has, in part or wholly, used up.

Contract: whoever asks a result of a region for gradients gets what the eager tape would give, or
its error. A result from which every way is closed, because a row on it has let go of what it saved,
needs no gradient of the launch: it gets a node that refuses (`eager.tape.node.SpentBackward`), and
the graph of a whole training step is one program. From another result some ways are open; the
launch is told of the rows that let go (`Region.spent`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dynajit.capture.execution.executor import Executor
from dynajit.capture.machine.recording import Recorder
from dynajit.capture.places import sources
from dynajit.capture.python.objects.references import NotRebuildable
from dynajit.capture.region.rebuild import Held
from dynajit.capture.tensors.backward import History, HistoryNoticed, histories
from dynajit.capture.values.symbolic import Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.records import record
from dynajit.ir.graph import Graph, Node
from dynajit.ir.graph import Value as GraphValue
from dynajit.ir.saved import reached_targets, rows_that_save


@record
class _Ways:
    """Where gradients of a result go; the bit sets are those of `ir.saved.SavingRow.targets`.

    Args:
        reached: all ends.
        closed: those in front of which a row has let go of what it saved.
    """

    reached: int
    closed: int

    @property
    def is_open(self) -> bool:
        """Whether some run would succeed."""
        return bool(self.reached & ~self.closed)


def with_spent(
    executor: Executor, held: Mapping[int, Held], reached: Sequence[Value]
) -> dict[int, Held]:
    """The results, those from which every way is closed marked.

    Raises:
        HistoryNoticed: a gradient would have to reach a leaf or a hook that is made after the
            launch.
        NotRebuildable: so it is although the capture breaks in front of both.
    """
    recorder = executor.recorder
    found = histories(recorder)
    if not found:
        return dict(held)
    outside = {value.identity for value in reached if isinstance(value, TensorValue)}
    spent = _spent(recorder, held, reached, found)
    marked = {}
    for identity, result in held.items():
        history = found.get(result.node)
        if result.value in spent:
            detached = recorder.builder.without_gradient(GraphValue(recorder.builder, result.node))
            result = replace(result, node=detached.node, spent=spent[result.value])
        elif history is not None:
            _refuse_noticed(executor, history, outside)
        marked[identity] = result
    for value in reached:  # views, which are taken after the launch, of leaves, too
        if isinstance(value, TensorValue) and not recorder.heap.is_adopted(value.identity):
            history = found.get(recorder.graph_value(value).node, History())
            if value.identity not in held and history.is_watched and not history.is_spent:
                _refuse_noticed(executor, history, outside)
    return marked


def _spent(
    recorder: Recorder,
    held: Mapping[int, Held],
    reached: Sequence[Value],
    found: Mapping[Node, History],
) -> dict[Node, tuple[TensorValue, ...]]:
    """The tensors' own nodes of results from which every way is closed; of each, the tensors that
    gradients would reach."""
    tensors = {result.value: recorder.tensor_of(key) for key, result in held.items()}
    results = [node for node in tensors if node in found]
    if not any(found[node].is_spent for node in results):
        return {}
    tensors |= _made_afterwards(recorder, held, reached)
    ends = [node for node in tensors if node in found and node not in results]
    graph = recorder.builder.finish([*results, *ends, *recorder.leaf_nodes])
    ways = _ways(recorder, graph)[: len(results)]
    kept = _kept(ways, len(graph.inputs), [found[node].is_spent for node in results])
    places = [*map(recorder.input_nodes.get, graph.inputs), *map(tensors.get, (*results, *ends))]
    return {
        node: tuple(_reached(way, places))
        for place, (node, way) in enumerate(zip(results, ways, strict=True))
        if place not in kept
    }


def _made_afterwards(
    recorder: Recorder, held: Mapping[int, Held], reached: Sequence[Value]
) -> dict[Node, TensorValue]:
    """The nodes of views that are taken after the launch."""
    return {
        recorder.graph_value(value).node: value
        for value in reached
        if isinstance(value, TensorValue)
        and value.identity not in held
        and not recorder.heap.is_adopted(value.identity)
    }


def _kept(ways: Sequence[_Ways], first: int, is_spent: Sequence[bool]) -> set[int]:
    """The results that have a gradient of the launch: those with an open way, or without any row
    that has let go, and those at the ends of their ways.

    Args:
        first: the bit of the first result in the bit sets.
    """
    kept: set[int] = set()
    waiting = [
        place
        for place, (way, flag) in enumerate(zip(ways, is_spent, strict=True))
        if way.is_open or not flag
    ]
    while waiting:
        place = waiting.pop()
        if place not in kept:
            kept.add(place)
            reached = ways[place].reached >> first
            waiting += [other for other in range(len(ways)) if reached >> other & 1]
    return kept


def _reached(way: _Ways, places: Sequence[Value | None]) -> Iterator[TensorValue]:
    """The tensors that gradients reach and that exist when the results are made."""
    for bit, end in enumerate(places):
        if not way.reached >> bit & 1 or not isinstance(end, TensorValue):
            continue
        if not isinstance(end.source, sources.LeafOf):
            yield end


def _ways(recorder: Recorder, graph: Graph) -> list[_Ways]:
    """Of each output of a graph, of which the last stand for leaves that the captured code made."""
    flags = [recorder.builder.node_needs_gradient(node) for node in graph.inputs]
    names = {node.name for node in recorder.tape.spent}
    rows = rows_that_save(graph, flags, names, recorder.leaf_nodes)
    closed = [0] * len(graph.outputs)
    for row in rows:
        for output in range(len(closed)):
            if row.is_spent and row.outputs >> output & 1:
                closed[output] |= row.targets
    reached = reached_targets(graph, flags, recorder.leaf_nodes)
    return [_Ways(*each) for each in zip(reached, closed, strict=True)]


def _refuse_noticed(executor: Executor, history: History, outside: set[int]) -> None:
    """Refuse what `_is_noticed`.

    Raises: as `with_spent`.
    """
    if not _is_noticed(executor.recorder, history, outside):
        return
    if executor.refusals.histories:
        raise NotRebuildable("a gradient that passes what is made after the launch")
    raise HistoryNoticed


def _is_noticed(recorder: Recorder, history: History, outside: set[int]) -> bool:
    """Whether somebody can tell that gradients do not reach what the captured code made."""
    if history.is_watched:
        return True
    if not history.leaves:
        return False
    is_seen = any(i in outside or recorder.heap.is_adopted(i) for i in history.leaves)
    return is_seen or not history.from_inputs
