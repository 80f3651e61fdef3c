"""Loops that become part of the unit of C of the graph that they stand in.

Contract: `UnitLoops.bring_in` gives the graph in which parts of loops are rows that have kernels
(`codegen.loops.turns`), and the code of their turns. That is done where the body has native code of
its own, no size of it is unknown, and only parts of the loop are read; other loops stay as they
are, and are called turn by turn (`codegen.run.loop_program`). Loops within turns are brought in
first. Bodies that hold arrays are given them as operands.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from dynajit.codegen.c.support import Function
from dynajit.codegen.c.turns import Body, listed_of
from dynajit.codegen.loops.loop_ir import TurnsKernel
from dynajit.codegen.loops.turns import TURNS, Turns
from dynajit.codegen.plan.memory import Layout
from dynajit.core.records import record
from dynajit.core.types.value_types import ScalarType, Shape, TensorType, ValueType
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.loops import LOOP, PART, Loop
from dynajit.ir.node import Argument, Node, NodeKind
from dynajit.ir.rebuild import keep, rebuild
from dynajit.ir.refusals import may_refuse
from dynajit.ir.sizes import symbols
from dynajit.ops.table.op_table import TABLE, Kind


class Code(Protocol):
    """What is generated of a graph."""

    @property
    def functions(self) -> tuple[Function, ...]:
        """The kernels."""

    @property
    def layout(self) -> Layout:
        """Where their buffers live."""


Generate: TypeAlias = Callable[[Graph, str], Code | None]
"""(graph of a turn, its C name) -> its kernels; None if some row has none."""


@record(eq=False)
class _Kept:
    """A body that has code.

    Args:
        graph: with an input more for each of `arrays`.
        arrays: constants of the body.
        name, results, sizes, workspace, work, chunk: as of `Turns`.
    """

    graph: Graph
    arrays: tuple[Any, ...]
    name: str
    results: tuple[tuple[bool, int], ...]
    sizes: tuple[int, ...]
    workspace: int
    work: int
    chunk: int


class UnitLoops:
    """The loops of a graph that is compiled. Mutable: knows the bodies that it has met.

    Args:
        prepare: gives the graph of a turn the form that code is generated of.
        generate: the code.
    """

    def __init__(self, prepare: Callable[[Graph], Graph], generate: Generate) -> None:
        self.bodies: dict[str, Body] = {}
        self._prepare, self._generate = prepare, generate
        self._known: dict[Any, _Kept | None] = {}

    def bring_in(self, graph: Graph) -> Graph:
        """The graph in which loops are rows that have kernels, where they can be."""
        found = {node: kept for node, kept in self._found(graph) if kept is not None}
        if not found:
            return graph
        operands: dict[Node, tuple[tuple[Argument, ...], Turns]] = {}

        def visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
            kept = found.get(node)
            if kept is not None:
                turns = _turns(node, kept)
                operands[node] = _operands(builder, args, turns, kept), turns
                return None
            loop = node.args[0] if node.op is PART else None
            if not isinstance(loop, Node) or loop not in operands:
                return keep(builder, node, args)
            given, turns = operands[loop]
            named = {"turns": turns, "result": _result_of(node, turns)}
            return builder.call(TURNS, given, named, node.location, node.name)

        return rebuild(graph, visit)

    def _found(self, graph: Graph) -> Iterable[tuple[Node, _Kept | None]]:
        """The loops that may be brought in, with the code of their bodies."""
        users = graph.users()
        for node in graph.calls:
            if node.op is not LOOP or node in graph.outputs or not _has_plain_operands(node):
                continue
            if all(user.op is PART for user in users[node]):
                yield node, self._kept(node.attributes["loop"])

    def _kept(self, loop: Loop) -> _Kept | None:
        key = loop.body, loop.carried, loop.collected, loop.tests, loop.stacked
        if key not in self._known:
            self._known[key] = self._new(loop)
        return self._known[key]

    def _new(self, loop: Loop) -> _Kept | None:
        if symbols(loop.body) or not _is_plain(loop):
            return None
        prepared = _with_parts(self._prepare(loop.body), loop)
        graph, arrays = _without_arrays(self.bring_in(prepared))
        chunk = _chunk_of(graph, loop)
        own = _of_elements(graph, chunk) if chunk else graph
        name = f"turn{len(self.bodies)}"
        self.bodies[name] = Body(name, (), Layout({}, 0, (), ()))  # the name is taken
        code = self._generate(own, name)
        results = None if code is None else _results(own, loop, code.layout)
        if code is None or results is None:
            return None
        self.bodies[name] = Body(name, code.functions, code.layout)
        sizes = tuple(_bytes(node) for node in code.layout.outputs)
        workspace = code.layout.workspace_bytes
        assert isinstance(workspace, int)
        work = sum(_elements(node) for node in graph.calls)
        return _Kept(graph, arrays, name, results, sizes, workspace, work, chunk)

    def of(self, graph: Graph) -> list[Body]:
        """The bodies that a graph needs, those that others call in front of them."""
        needed = {node.attributes["turns"].name for node in graph.calls if node.op is TURNS}
        found: list[Body] = []
        for body in reversed(self.bodies.values()):
            if body.name in needed:
                found.insert(0, body)
                needed |= {
                    function.kernel.turns.name
                    for function in body.functions
                    if isinstance(function.kernel, TurnsKernel)
                }
        return found


def _with_parts(body: Graph, loop: Loop) -> Graph:
    """The body that gives a part of a loop within it in place of that loop, where it does so only
    because the inner loop may refuse its operands: then any part says so."""
    read = loop.carried + loop.collected + loop.tests
    users = body.users()

    def given(output: Argument) -> Argument:
        if not isinstance(output, Node) or output.op is not LOOP:
            return output
        parts = [user for user in users[output] if user.op is PART]
        return min(parts, key=_bytes, default=output)

    outputs = (*body.outputs[:read], *map(given, body.outputs[read:]))
    return Graph(body.name, body.nodes, outputs)


def _has_plain_operands(node: Node) -> bool:
    """Whether a loop is given a truth, then tensors, whose sizes are known, and numbers that the
    graph is given."""
    go, *values = node.args
    if not isinstance(go, (Node, bool)):
        return False
    nodes = [value for value in values if isinstance(value, Node)]
    tensors = [node.type for node in nodes if isinstance(node.type, TensorType)]
    numbers = [node for node in nodes if isinstance(node.type, ScalarType)]
    return (
        len(tensors) + len(numbers) == len(values)
        and all(isinstance(type.numel, int) for type in tensors)
        and all(number.kind is NodeKind.PLACEHOLDER for number in numbers)
    )


def _is_plain(loop: Loop) -> bool:
    """Whether a turn takes its numbers, then tensors, and numbers among what is fixed alone, and
    gives tensors."""
    moving = loop.inputs[: loop.carried + loop.stacked]
    return all(
        isinstance(value, Node) and isinstance(value.type, TensorType)
        for value in (*moving, *loop.body.outputs)
    )


def _without_arrays(body: Graph) -> tuple[Graph, tuple[Any, ...]]:
    """The body that is given its constants, but for single elements, and these."""
    arrays = [
        node
        for node in body.nodes
        if node.kind is NodeKind.CONSTANT and (node.value.size != 1 or node in body.outputs)
    ]
    if not arrays:
        return body, ()

    def visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
        return (
            builder.placeholder(node.name, node.type)
            if node in arrays
            else keep(builder, node, args)
        )

    return rebuild(body, visit), tuple(node.value for node in arrays)


CHUNK_BYTES: Final = 24 << 10
"""What a turn of a chunk reads and writes: with what else there is, the nearest cache of a CPU."""
LARGEST_CHUNK: Final = 2048
SMALLEST_CHUNK: Final = 64
"""Elements: a turn costs some 30 ns beyond its kernel."""


def _chunk_of(body: Graph, loop: Loop) -> int:
    """Elements for which all turns are run before the next ones are begun; 0: turns are run for all
    elements at once, since they are few, or turns do not compute element by element.

    Numbers without dims are computed of such alone, and so for each chunk anew.
    """
    inputs = [node for node in body.inputs if isinstance(node.type, TensorType)]
    read = loop.carried + loop.collected + loop.tests
    outputs = [output for output in body.outputs if isinstance(output, Node)]
    if len(outputs) > read or not all(_computes_elements(node) for node in body.calls):
        return 0
    shape = max((_shape(node) for node in inputs), key=math.prod, default=())
    handed = [*inputs[: loop.carried], *outputs]
    if any(_shape(node) not in (shape, ()) for node in handed):
        return 0
    if any(_elements(node) != 1 for node in inputs if _shape(node) != shape):
        return 0
    bytes = _bytes_of_element(inputs, shape) + 2 * _bytes_of_element(set(outputs), shape)
    chunk = min(LARGEST_CHUNK, 1 << max(CHUNK_BYTES // max(bytes, 1), 1).bit_length() - 1)
    return chunk if chunk >= SMALLEST_CHUNK and math.prod(shape) >= 2 * chunk else 0


def _bytes_of_element(nodes: Iterable[Node], shape: Shape) -> int:
    return sum(_item(node) for node in nodes if _shape(node) == shape)


def _computes_elements(node: Node) -> bool:
    """Whether an element is computed of one element of each operand, and nothing is refused."""
    assert node.op is not None
    return node.op.kind is Kind.POINTWISE and not may_refuse(node)


def _of_elements(body: Graph, chunk: int) -> Graph:
    """The body for so many elements of each array, which lie side by side."""
    tensors = [node for node in body.inputs if isinstance(node.type, TensorType)]
    shape = max(map(_shape, tensors), key=math.prod)
    builder = Builder(body.name)
    new: dict[Node, Argument] = {}
    for node in body.nodes:
        args = [new[a] if isinstance(a, Node) else a for a in node.args]
        if node.kind is NodeKind.PLACEHOLDER:
            new[node] = builder.placeholder(node.name, _part_of(node.type, shape, chunk)).node
        elif node.kind is NodeKind.CONSTANT:
            new[node] = builder.constant(node.value.reshape(()), node.name).node
        else:
            assert node.op is not None
            new[node] = builder.call(node.op, args, node.attributes, node.location, node.name).node
    return builder.finish(new[output] for output in body.outputs if isinstance(output, Node))


def _part_of(type: ValueType, shape: Shape, chunk: int) -> ValueType:
    if not isinstance(type, TensorType):
        return type
    return TensorType((chunk,) if type.shape == shape else (), type.dtype, type.device)


def _results(graph: Graph, loop: Loop, layout: Layout) -> tuple[tuple[bool, int], ...] | None:
    """Where each result of a turn lies; None if one is no array of a turn."""
    if layout.constants:
        return None
    tensors = [node for node in graph.inputs if isinstance(node.type, TensorType)]
    found = []
    for output in graph.outputs[: loop.carried + loop.collected + loop.tests]:
        assert isinstance(output, Node)
        is_new = output in layout.outputs
        if not is_new and output not in tensors:
            return None
        place = layout.outputs.index(output) if is_new else tensors.index(output)
        found.append((is_new, place))
    return None if loop.tests and not found[-1][0] else tuple(found)


def _turns(node: Node, kept: _Kept) -> Turns:
    loop, limit = replace(node.attributes["loop"], body=kept.graph), node.attributes["limit"]
    return Turns(
        loop, limit, kept.name, kept.results, kept.sizes, kept.workspace, kept.work, kept.chunk
    )


def _operands(
    builder: Builder, args: Sequence[Argument], turns: Turns, kept: _Kept
) -> tuple[Argument, ...]:
    """What the rows of a loop are given: arrays lie row by row."""
    given = [_row_major(builder, argument) for argument in args]
    constants = [*kept.arrays, *(_listed(number.values) for number in listed_of(turns.loop))]
    return (*given, *(builder.constant(array).node for array in constants))


def _row_major(builder: Builder, argument: Argument) -> Argument:
    if not isinstance(argument, Node) or argument.kind is not NodeKind.PLACEHOLDER:
        return argument
    type = argument.type
    if isinstance(type, ScalarType) or type.strides is None or type.is_contiguous:
        return argument
    return builder.call(TABLE.clone, [argument], {}).node


def _listed(values: Sequence[int | float]) -> Any:
    return np.array(values, np.float64 if isinstance(values[0], float) else np.int64)


def _result_of(part: Node, turns: Turns) -> int:
    """Which result of a loop a part is."""
    offsets = turns.loop.offsets(turns.limit)
    types = turns.loop.types(turns.limit)
    named = part.attributes
    return next(
        result
        for result, (offset, type) in enumerate(zip(offsets, types, strict=False))
        if offset == named["offset"]
        and (tuple(type.shape), type.dtype) == (named["shape"], named["dtype"])
    )


def _shape(node: Node) -> Shape:
    assert isinstance(node.type, TensorType)
    return node.type.shape


def _item(node: Node) -> int:
    assert isinstance(node.type, TensorType)
    return node.type.dtype.itemsize


def _elements(node: Node) -> int:
    size = node.type.numel if isinstance(node.type, TensorType) else 1
    assert isinstance(size, int)
    return size


def _bytes(node: Node) -> int:
    return _elements(node) * _item(node)
