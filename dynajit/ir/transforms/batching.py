"""Nodes that were recorded of one sample, for a batch of samples.

Contract: `batched` appends to the builder what stands for each node. A node that depends on no
sample is appended as it is; any other becomes what the rule of its row gives
(`ops.table.sample_rules`), with the samples in dim 0, or, for a composite without a rule, what the
rows that it stands for become. Random numbers are the same for all samples unless `draws`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from dynajit.core.errors import InternalError
from dynajit.core.records import record
from dynajit.core.types.value_types import Size, TensorType, types_agree
from dynajit.ir.graph import Builder, Value
from dynajit.ir.node import Argument, Node, NodeKind
from dynajit.ops.table import dispatch, sample_rules
from dynajit.ops.table.op_table import TABLE, Kind
from dynajit.ops.table.sample_rules import Call

Held: TypeAlias = tuple[Any, bool]
"""A value or a number, and whether its dim 0 are the samples."""

#: Calls of one row, sample by sample, that a graph may hold.
MOST_CALLS = 64


def batched(
    builder: Builder,
    nodes: Sequence[Node],
    known: Mapping[Node, Held],
    count: Size,
    draws: bool = False,
    attributes_of: Callable[[Node], Mapping[str, Any]] | None = None,
) -> dict[Node, Held]:
    """Append what stands for nodes of one sample.

    Args:
        builder: to append to; it has the arguments of nodes that are neither known nor given.
        nodes: in order, without placeholders.
        known: what stands for other nodes, such as the samples.
        count: of samples.
        draws: each sample has random numbers of its own.
        attributes_of: attributes of the node in the builder.

    Returns:
        What stands for each node, those known among them.

    Raises:
        NoRule: a row is to be called more than `MOST_CALLS` times.
    """
    return _Run(builder, count, draws, attributes_of or _attributes, True).append(nodes, known)


@record
class _Run:
    """One call of `batched`.

    Args:
        builder, count, draws, attributes_of: see there.
        is_own: nodes that depend on no sample may be taken over into the builder.
    """

    builder: Builder
    count: Size
    draws: bool
    attributes_of: Callable[[Node], Mapping[str, Any]]
    is_own: bool

    def append(self, nodes: Sequence[Node], known: Mapping[Node, Held]) -> dict[Node, Held]:
        """See `batched`."""
        held: dict[Node, Held] = dict(known)
        builder, location = self.builder, self.builder.location
        with dispatch.recording(builder.handle):
            for node in nodes:
                builder.location = node.location or location
                held[node] = self.one(node, held)
        builder.location = location
        return held

    def one(self, node: Node, held: Mapping[Node, Held]) -> Held:
        """What stands for one node."""
        builder = self.builder
        if node.op is None:
            is_taken = self.is_own
            return builder.adopt(node) if is_taken else builder.constant(node.value), False
        given = [_held(builder, argument, held) for argument in node.args]
        operands, flags = tuple(x for x, _ in given), tuple(flag for _, flag in given)
        draws = self.draws and _draws(node)
        attributes = self.attributes_of(node)
        if any(flags) or draws:
            call = Call(node.op, operands, flags, attributes, self.count, draws, MOST_CALLS)
            found = sample_rules.batched(call, self.by_rows)
            _check(node, found)
            return found, True
        is_same = attributes is node.attributes and all(
            (x.node if isinstance(x, Value) else x) is argument
            for x, argument in zip(operands, node.args, strict=True)
        )
        if self.is_own and is_same:
            return builder.adopt(node), False
        return builder.handle(node.op, operands, dict(attributes)), False

    def by_rows(self, call: Call) -> Any:
        """A composite by the rows that it stands for."""
        inner = Builder(call.op.name)
        stand_ins: list[Any] = []
        known: dict[Node, Held] = {}
        for place, x in enumerate(call.operands):
            if not isinstance(x, Value):
                stand_ins.append(x)
                continue
            type = x.type
            if isinstance(type, TensorType):
                type = TensorType(call.shape(place), type.dtype, type.device)
            stand_in = inner.placeholder(f"x{place}", type)
            known[stand_in.node] = (x, call.flags[place])
            stand_ins.append(stand_in)
        with dispatch.recording(inner.handle):
            result = call.op.rule.function(TABLE, *stand_ins, **call.attributes)
        nodes = [n for n in inner.finish([result]).nodes if n.kind is not NodeKind.PLACEHOLDER]
        run = _Run(self.builder, self.count, call.draws, _attributes, False)
        value, flag = run.append(nodes, known)[result.node]
        return value if flag else Call(call.op, (value,), (False,), {}, call.count).front(0)


def _attributes(node: Node) -> Mapping[str, Any]:
    return node.attributes


def _held(builder: Builder, argument: Argument, held: Mapping[Node, Held]) -> Held:
    if not isinstance(argument, Node):
        return argument, False
    found = held.get(argument)
    return (Value(builder, argument), False) if found is None else found


def _draws(node: Node) -> bool:
    """True for a call that draws random numbers."""
    assert node.op is not None
    if node.op.kind is Kind.RANDOM:
        return True
    names = node.op.inputs
    return "seed" in names and node.args[names.index("seed")] is not None


def _check(node: Node, found: Any) -> None:
    """Check a rule: the samples of its result have the type of the node."""
    type, whole = node.type, found.type
    assert isinstance(type, TensorType) and isinstance(whole, TensorType)
    if not types_agree(whole.with_shape(whole.shape[1:]), type):
        raise InternalError(f"{node.op}: of samples {type}, the rule gives {whole} for all")
