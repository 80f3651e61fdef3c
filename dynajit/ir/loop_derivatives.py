"""The derivative of a loop: a loop that keeps what is needed of each turn, and one that runs back.

Contract: `gradients` is `Loop.gradients` of loops that hand gradients on in one floating dtype. It
calls rows: on eager tensors, or recorded in a graph.

The body's joint graph (`ir.autodiff`) is cut in two (`ir.partition`). The forward half is the body
of a loop that gives what the loop itself gives, and collects what the backward half needs; the pass
`merge_loops` leaves one of the two. The backward half is the body of a loop that runs backwards: it
carries the gradients of what was carried, and sums of gradients for what is fixed. Elements of a
fixed operand that turns read by their numbers (`x[i]`) are not summed: their gradients are
collected, and added where they belong after the loop. That loop has a derivative in turn.

In a graph nobody knows how many turns a loop has that ends by a test. It keeps nothing then: its
number of turns is a value, and one row (`ir.reruns`) runs so many once more, keeping what is
needed, and then back.

Source: reverse accumulation, Griewank and Walther, "Evaluating Derivatives", chapter 3.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dynajit.core.errors import UnsupportedError
from dynajit.core.records import record
from dynajit.core.types.value_types import TensorType, numel
from dynajit.ir.autodiff import Joint, differentiate, is_continuous, reached_operands
from dynajit.ir.graph import Builder, Graph, Value
from dynajit.ir.interpret import replay
from dynajit.ir.loops import LOOP, PART, Loop, part_of
from dynajit.ir.node import Argument, Node, NodeKind
from dynajit.ir.partition import Partition, partition
from dynajit.ir.passes.eliminate_common_subexpressions import eliminate_common_subexpressions
from dynajit.ir.passes.eliminate_dead_code import eliminate_dead_code
from dynajit.ir.passes.merge_loops import held
from dynajit.ir.rebuild import as_operand
from dynajit.ir.reruns import NO_TURNS, RERUN
from dynajit.ops.rows.indexing import batch_position
from dynajit.ops.table import dispatch
from dynajit.ops.table.op_table import TABLE, Kind


def gradients(g: Any, operands: Sequence[Any], loop: Loop, limit: int) -> list[Any]:
    """A gradient, or None, for each operand of a loop.

    Args:
        g: gradient of the row's value.
        operands: `go`, what is carried, what is stacked, what is fixed.

    Raises:
        UnsupportedError: gradients would be handed on in several dtypes.
    """
    if loop.tests:
        return _gradients_by_count(g, operands, loop, limit)
    go, *values = operands
    body = _Body.of(loop)
    cut = body.cut()
    keeping = _keeping(body, cut)
    back = _Back(body, cut)
    first = loop.carried + loop.collected
    kept = _results(keeping, limit, operands, range(first, first + len(body.kept(cut))))
    seeds = {result: _seed(g, loop, limit, result) for result in back.seeded}
    given = {
        **{node: seeds[body.carried.index(node)] for node in back.carried},
        **{node: _zeros(node.type) for node in back.summed},
    }
    rows = [seeds[result] for result in back.seeded if result >= loop.carried]
    read = [values[body.values.index(node)] for node in (*back.stacked, *back.fixed)]
    stacked, fixed = read[: len(back.stacked)], read[len(back.stacked) :]
    count = back.loop.carried + back.loop.collected
    found = _results(
        back.loop, limit, [go, *given.values(), *kept, *rows, *stacked, *fixed], range(count)
    )
    reached = reached_operands(loop, limit, _results_in(g, loop, limit))
    return [
        None,
        *(x if reached >> place & 1 else None for place, x in enumerate(back.gradients(found))),
    ]


def _gradients_by_count(g: Any, operands: Sequence[Any], loop: Loop, limit: int) -> list[Any]:
    """The same, of a loop of which it is known behind it how many turns there were.

    Raises:
        UnsupportedError: gradients would be handed on in several dtypes.
    """
    (count,) = _results(loop, limit, operands, [loop.carried])
    if isinstance(count, Value):
        return _gradients_by_rerun(g, operands, loop, limit, count)
    known = int(count)
    if known:
        return gradients(g, operands, replace(loop, tests=False), known)
    found: list[Any] = [None] * len(operands)
    for result in range(loop.carried):
        if loop.active[result]:
            found[1 + result] = _seed(g, loop, limit, result)
    return found


def _gradients_by_rerun(
    g: Any, operands: Sequence[Any], loop: Loop, limit: int, count: Value
) -> list[Any]:
    """The same, recorded: the turns run once more, keep what is needed, and run back."""
    values = operands[1:]
    body = _Body.of(loop)
    cut = body.cut()
    back = _Back(body, cut)
    first = [_seed(g, loop, limit, result) for result in back.seeded]
    first += [_zeros(node.type) for node in back.summed]
    last = [values[body.values.index(node)] for node in back.fixed]
    contents = RERUN(count, *values, *first, *last, again=_again(body, cut), back=back.loop)
    found = [
        PART(contents, **part_of(back.loop, NO_TURNS, result))
        for result in range(back.loop.carried)
    ]
    reached = reached_operands(loop, limit, _results_in(g, loop, limit))
    return [
        None,
        *(x if reached >> place & 1 else None for place, x in enumerate(back.gradients(found))),
    ]


def _results_in(g: Any, loop: Loop, limit: int) -> Iterable[int]:
    """The results that a gradient is of; of a value that is not recorded: perhaps all."""
    every = range(loop.carried + loop.collected)
    pending: list[Argument] = [g.node if isinstance(g, Value) else None]
    starts = set()
    while pending:
        node = held(pending.pop())
        if not isinstance(node, Node) or node.op not in (TABLE.add, TABLE.pad):
            return every
        if node.op is TABLE.add:
            pending += node.args
        else:
            starts.add(node.attributes["before"][0] * loop.unit.itemsize)
    offsets = loop.offsets(limit)
    return [result for result in every if offsets[result] in starts]


def _results(loop: Loop, limit: int, operands: Sequence[Any], which: Iterable[int]) -> list[Any]:
    """Some results of a loop."""
    contents = LOOP(*operands, loop=loop, limit=limit)
    return [PART(contents, **part_of(loop, limit, result)) for result in which]


def _seed(g: Any, loop: Loop, limit: int, result: int) -> Any:
    """The gradient of a result, out of that of all."""
    facts = part_of(loop, limit, result)
    shape = facts["shape"]
    start = facts["offset"] // loop.unit.itemsize
    part = TABLE.slice(g, start=(start,), stop=(start + numel(shape),), step=(1,))
    return TABLE.reshape(part, shape=shape)


def _zeros(type: Any) -> Any:
    """Zeros like a value."""
    return TABLE.full(0.0, shape=type.shape, dtype=type.dtype, device=type.device)


@record
class _Read:
    """Elements of a fixed operand that a turn reads at places which do not depend on other turns.

    Args:
        node: of the body, a row `index`.
        source: the operand, an input of the body.
        places: the indices, a node of the body.
    """

    node: Node
    source: Node
    places: Node

    def scattered(self, gradient: Any, places: Any) -> Any:
        """The gradient of the operand.

        Args:
            gradient, places: of all turns, in a new dim 0.
        """
        dims = self.node.attributes["dims"]
        at = batch_position(dims)
        rank = len(self.node.type.shape)
        order = (*range(1, at + 1), 0, *range(at + 1, rank + 1))
        by_dim = (1, 0, *range(2, len(self.places.type.shape) + 1))
        return TABLE.index_accumulate(
            _zeros(self.source.type),
            TABLE.permute(places, dims=by_dim),
            TABLE.permute(gradient, dims=order),
            dims=dims,
        )


@record(eq=False)
class _Body:
    """A turn, and its derivative.

    Args:
        loop: whose body it is.
        values: its inputs but the numbers.
        reads: what it reads by place.
        joint: its joint graph: `reads` are further inputs.
    """

    loop: Loop
    values: list[Node]
    reads: list[_Read]
    joint: Joint

    @classmethod
    def of(cls, loop: Loop) -> "_Body":
        """The body of a loop.

        Raises:
            UnsupportedError: gradients would be handed on in several dtypes.
        """
        reads = [] if loop.tests else list(_reads(loop))
        graph = _with_reads_as_inputs(loop, reads)
        flags = [*[False] * len(loop.numbers), *loop.active, *[True] * len(reads)]
        joint = differentiate(graph, flags)
        smaller = eliminate_common_subexpressions(eliminate_dead_code(joint.graph))
        found = cls(loop, list(loop.inputs), reads, replace(joint, graph=smaller))
        found._check()
        return found

    def _check(self) -> None:
        for result in self.joint.differentiable_outputs:
            type: Any = self.loop.body.outputs[result].type  # type: ignore[union-attr]
            if type.dtype is not self.loop.unit:
                raise UnsupportedError(
                    f"The derivative of a loop with results of {self.loop.unit} and {type.dtype}: "
                    "gradients pass in one dtype.  Convert what turns hand on."
                )

    @property
    def numbers(self) -> tuple[Node, ...]:
        return self.loop.body.inputs[: len(self.loop.numbers)]

    @property
    def carried(self) -> list[Node]:
        return self.values[: self.loop.carried]

    @property
    def stacked(self) -> list[Node]:
        return self.values[self.loop.carried :][: self.loop.stacked]

    @property
    def fixed(self) -> list[Node]:
        return self.values[self.loop.carried + self.loop.stacked :]

    @property
    def inputs(self) -> list[Node]:
        """Those of the joint graph but the gradients, as nodes of the body."""
        return [*self.numbers, *self.values, *(read.node for read in self.reads)]

    def cut(self) -> Partition:
        """Forward and backward; what is carried is another value in each turn, and saved as such.

        Raises:
            UnsupportedError: sizes vary.
        """
        first = len(self.loop.numbers)
        found = partition(self.joint, written=range(first, first + self.loop.carried))
        if found.sizes:
            raise UnsupportedError("The derivative of a loop whose sizes vary: fix the sizes.")
        return found

    def kept(self, cut: Partition) -> list[Node]:
        """What is kept of each turn."""
        pairs = zip(cut.saved, cut.saved_inputs, strict=True)
        return [node for node, place in pairs if place is None]


def _reads(loop: Loop) -> Iterator[_Read]:
    """What a turn reads by place."""
    first = loop.carried + loop.stacked
    fixed = loop.inputs[first:]
    sources = {
        node for node, flag in zip(fixed, loop.active[first:], strict=True) if flag
    }  # fmt: skip
    known: set[Argument] = {*loop.body.inputs[: len(loop.numbers)], *fixed}
    for node in loop.body.nodes:
        if node.kind is NodeKind.PLACEHOLDER:
            continue
        is_fixed = node.op is None or not (node.op.opaque or node.op.kind is Kind.RANDOM)
        if is_fixed and all(a in known for a in node.args if isinstance(a, Node)):
            known.add(node)
        if node.op is TABLE.index:
            source, places = _unchanged(node.args[0]), node.args[1]
            if source in sources and places in known:
                assert isinstance(source, Node) and isinstance(places, Node)
                yield _Read(node, source, places)


def _unchanged(argument: Argument) -> Argument:
    """The value that a reshape to its own shape is made of."""
    while isinstance(argument, Node) and argument.op is TABLE.reshape:
        given = argument.args[0]
        if not isinstance(given, Node) or given.type.shape != argument.type.shape:
            return argument
        argument = given
    return argument


def _with_reads_as_inputs(loop: Loop, reads: Sequence[_Read]) -> Graph:
    """The body up to what it hands on and collects."""
    body = loop.body
    outputs = body.outputs[: loop.carried + loop.collected]
    builder = Builder(body.name, reserved=(node.name for node in body.nodes))
    known: dict[Argument, Node] = {node: builder.adopt(node).node for node in body.inputs}
    known |= {read.node: builder.placeholder("read", read.node.type).node for read in reads}
    _copy(builder, body, outputs, known)
    return builder.finish(known.get(output, output) for output in outputs)


def _copy(
    builder: Builder, graph: Graph, wanted: Iterable[Argument], known: dict[Argument, Node]
) -> None:
    """Copy what some nodes of a graph are computed from, and note it.

    Args:
        known: nodes of the graph that the builder has -> what stands for them.
    """
    needed = set(wanted) - known.keys()
    for node in reversed(graph.nodes):
        if node in needed:
            needed.update(a for a in node.args if isinstance(a, Node) and a not in known)
    for node in graph.nodes:
        if node not in needed or node in known:
            continue
        args = tuple(known[a] if isinstance(a, Node) else a for a in node.args)
        is_same = all(new is old for new, old in zip(args, node.args, strict=True))
        known[node] = (builder.adopt(node) if is_same else builder.copy(node, args)).node


def _keeping(body: _Body, cut: Partition) -> Loop:
    """The loop that gives what a loop gives, and collects what is kept."""
    loop, graph = body.loop, body.loop.body
    first = loop.carried + loop.collected
    further = graph.outputs[first:]
    builder = Builder(graph.name, reserved=(node.name for node in graph.nodes))
    known: dict[Argument, Node] = {node: builder.adopt(node).node for node in graph.inputs}
    _copy(builder, graph, [*(read.node for read in body.reads), *further], known)
    results = _recorded(builder, cut.forward, [known[node] for node in body.inputs])
    places = cut.saved_inputs
    kept = [result for result, place in zip(results[first:], places, strict=True) if place is None]
    outputs = (*results[:first], *kept, *(known.get(output, output) for output in further))
    return replace(
        loop, body=_smaller(builder.finish(outputs)), collected=loop.collected + len(kept),
        origin=loop,
    )  # fmt: skip


def _again(body: _Body, cut: Partition) -> Loop:
    """The loop that collects what is kept; it knows how many turns there are."""
    keeping, count = _keeping(body, cut), len(body.kept(cut))
    graph = keeping.body
    outputs = graph.outputs[: keeping.carried + count]
    plain = eliminate_dead_code(Graph(graph.name, graph.nodes, outputs))
    return Loop(plain, keeping.numbers, keeping.carried, count)


def _recorded(builder: Builder, graph: Graph, operands: Sequence[Argument]) -> tuple[Any, ...]:
    """The outputs of a graph, recorded once more."""
    with dispatch.recording(builder.handle):
        return replay(graph, [as_operand(builder, operand) for operand in operands])


def _smaller(graph: Graph) -> Graph:
    return eliminate_dead_code(eliminate_common_subexpressions(graph))


class _Back:
    """The loop that runs back. Immutable.

    Attributes:
        carried: inputs of the body whose gradients are handed on; they come first.
        summed: inputs whose gradients are summed; they are carried, too.
        seeded: results of the loop whose gradients are taken.
        stacked, fixed: inputs of the body that it reads, too.
        loop: what is stacked is what is kept, gradients of what was collected, then `stacked`.
    """

    def __init__(self, body: _Body, cut: Partition) -> None:
        self._body = body
        loop = body.loop
        active = dict(zip(body.values, loop.active, strict=True))
        given = [node for node in body.inputs if active.get(node, node not in body.numbers)]
        self._found = dict(zip(given, cut.backward.outputs, strict=True))
        self.carried = [node for node in body.carried if active[node]]
        self.summed = [node for node in body.fixed if self._found.get(node) is not None]
        self.seeded = [
            result
            for result in range(loop.carried + loop.collected)
            if (active[body.carried[result]] if result < loop.carried else self._is_seeded(result))
        ]
        self._moved = [node for node in body.stacked if self._found.get(node) is not None]
        self._read = [read for read in body.reads if self._found[read.node] is not None]
        self._make(cut)

    def _is_seeded(self, result: int) -> bool:
        return result in self._body.joint.differentiable_outputs

    def _make(self, cut: Partition) -> None:
        body = self._body
        loop = body.loop
        builder = Builder(f"{loop.body.name}_back")
        known = {node: _input(builder, node.name, node.type) for node in body.numbers}
        handed = {node: _input(builder, f"grad_{node.name}", node.type) for node in self.carried}
        sums = {node: _input(builder, f"sum_{node.name}", node.type) for node in self.summed}
        kept = [_input(builder, node.name, node.type) for node in body.kept(cut)]
        seeds = {result: handed[node] for result, node in enumerate(body.carried) if node in handed}
        for result in self.seeded:
            if result >= loop.carried:
                type: Any = loop.body.outputs[result].type  # type: ignore[union-attr]
                seeds[result] = _input(builder, "grad_row", type)
        first = [*known.values(), *handed.values(), *sums.values(), *kept]
        first += [seed for result, seed in seeds.items() if result >= loop.carried]
        rows = {node: _input(builder, node.name, node.type) for node in body.stacked}
        fixed = {node: _input(builder, node.name, node.type) for node in body.fixed}
        known |= rows | fixed
        found = self._gradients(builder, cut, known, kept, seeds)
        with dispatch.recording(builder.handle):
            outputs: list[Any] = [
                _zeros(node.type) if found[node] is None else found[node] for node in self.carried
            ]
            outputs += [TABLE.add(Value(builder, sums[node]), found[node]) for node in self.summed]
        collected = [found[node] for node in self._moved]
        for read in self._read:
            collected += [found[read.node], known[read.places]]
        graph = _smaller(builder.finish((*outputs, *collected)))
        used = {argument for node in graph.calls for argument in node.args} | set(graph.outputs)
        self.stacked = [node for node, row in rows.items() if row in used]
        self.fixed = [node for node, value in fixed.items() if value in used]
        inputs = [*first, *(rows[n] for n in self.stacked), *(fixed[n] for n in self.fixed)]
        others = [node for node in graph.nodes if node.kind is not NodeKind.PLACEHOLDER]
        values = inputs[len(body.numbers) :]
        self.loop = Loop(
            Graph(graph.name, (*inputs, *others), graph.outputs),
            loop.numbers,
            carried=len(outputs),
            collected=len(collected),
            stacked=len(values) - len(outputs) - len(self.fixed),
            backwards=not loop.backwards,
            active=tuple(is_continuous(node.type) for node in values),
            gradients=gradients,
            unit=loop.unit,
        )

    def _gradients(
        self,
        builder: Builder,
        cut: Partition,
        known: dict[Any, Node],
        kept: Sequence[Node],
        seeds: Mapping[int, Node],
    ) -> dict[Node, Any]:
        """What the backward half gives for each input of the body."""
        body = self._body
        places = [place for place in cut.saved_inputs if place is not None]
        wanted = [body.inputs[place] for place in places]
        _copy(builder, body.loop.body, [*wanted, *(read.places for read in self._read)], known)
        rest = iter(kept)
        operands: list[Any] = [
            next(rest) if place is None else known[body.inputs[place]]
            for place in cut.saved_inputs
        ]  # fmt: skip
        with dispatch.recording(builder.handle):
            for result in cut.differentiable_outputs:
                type: Any = body.loop.body.outputs[result].type  # type: ignore[union-attr]
                operands.append(seeds[result] if result in seeds else _zeros(type).node)
        found = _recorded(builder, cut.backward, operands)
        return dict(zip(self._found, found, strict=True))

    def gradients(self, found: Sequence[Any]) -> list[Any]:
        """The gradients of all values, of the loop's results."""
        count = self.loop.carried
        sums: dict[Node, Any] = dict(zip((*self.carried, *self.summed), found, strict=False))
        sums |= dict(zip(self._moved, found[count:], strict=False))
        rest = found[count + len(self._moved) :]
        for number, read in enumerate(self._read):
            part = read.scattered(*rest[2 * number : 2 * number + 2])
            known = sums.get(read.source)
            sums[read.source] = part if known is None else TABLE.add(known, part)
        return [sums.get(node) for node in self._body.values]


def _input(builder: Builder, name: str, type: Any) -> Node:
    """A further input; a tensor of no particular layout."""
    if isinstance(type, TensorType):
        type = TensorType(type.shape, type.dtype, type.device)
    return builder.placeholder(name, type).node


__all__ = ["gradients"]
