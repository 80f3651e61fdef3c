"""Reverse mode within a capture: gradients travel along the recorded nodes, as on the eager tape.

A node of the graph that needs a gradient is a node of the tape, an input that does is a leaf, and
so is the view that stands for a leaf made by the captured code. `Travel` walks the nodes back in
the order in which `eager.backward.engine` would, and records the derivative formulas behind them:
the gradients are ordinary values of the graph. It stops wherever the program has a say (`Stop`);
`capture.library.backward` runs the hooks there.

What a run lets go of is remembered in the heap (`Tape`). A run that eager execution would refuse
on its way (a second one through that, or one that finds what it needs written since) has the whole
frame run as plain Python: hooks see, and tensors keep, what arrives before the error.
"""

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak, SkipFrame
from dynajit.capture.tensors.saved_memory import SavedMemory
from dynajit.capture.values.symbolic import Value
from dynajit.capture.values.tensors import MemoryContents
from dynajit.core.records import record
from dynajit.core.types.value_types import TensorType
from dynajit.ir import graph
from dynajit.ir.autodiff import argument_gradients, differentiable_composites
from dynajit.ir.loops import LOOP
from dynajit.ir.node import Node, NodeKind, named_arguments
from dynajit.ir.rebuild import as_operand
from dynajit.ir.saved import find_saved, saves_anything
from dynajit.ops import TABLE
from dynajit.ops.calls.autocast import word_set
from dynajit.ops.table.derivatives import Need, formula_parameters
from dynajit.ops.table.op_table import Kind, Op

if TYPE_CHECKING:
    from dynajit.capture.machine.recording import Recorder


class HistoryNoticed(Exception):
    """Capture must start again, without leaves and hooks that gradients of the region's results
    reach."""


@record
class Tape:
    """What backward runs and the program have left at nodes; contents of a cell of the heap.

    Args:
        spent: nodes whose saved values a run has let go of.
        hooks: node -> dict of the hooks on the tensor that it made.
        retained: node -> tensor that it made, and whose gradient is kept.
    """

    spent: frozenset[Node] = frozenset()
    hooks: Mapping[Node, Value] = field(default_factory=dict)
    retained: Mapping[Node, Value] = field(default_factory=dict)

    def has_a_say(self, node: Node) -> bool:
        """Whether the program is to see the gradient that arrives at a node."""
        return node in self.hooks or node in self.retained


@record
class Stop:
    """The program has a say: hooks are to see a gradient, or it is kept.

    Args:
        node: that the gradient has arrived at.
        gradient: so far.
    """

    node: Node
    gradient: graph.Value


@record
class Arrival:
    """A gradient is complete at a leaf, and hooks wait for that.

    Args:
        leaf: its heap id.
        gradient: the sum of all that has arrived.
    """

    leaf: int
    gradient: graph.Value


class _Needing:
    """The nodes that gradients pass through, as a container."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def __contains__(self, node: object) -> bool:
        return isinstance(node, Node) and bool(self.builder.node_needs_gradient(node))


class Travel:
    """One backward run. Mutable: the walk goes on from where it stopped.

    Args:
        recorder: of the capture.
        starts: (node, gradient that it starts with), in order.
        keep: what nodes have saved is not let go of.
        is_recorded: the formulas are recorded on the tape (`create_graph`).
        targets: nodes whose gradients are asked for; None: those of all leaves.
        is_awaited: whether hooks wait for the gradient of a leaf, by its heap id.
    """

    def __init__(
        self,
        recorder: "Recorder",
        starts: Sequence[tuple[Node, graph.Value]],
        keep: bool,
        is_recorded: bool,
        targets: frozenset[Node] | None,
        is_awaited: Callable[[int], bool],
    ) -> None:
        self.recorder = recorder
        self.builder = recorder.builder
        self.keep = keep
        self.is_recorded = is_recorded
        self.targets = targets
        self.needing = _Needing(self.builder)
        self.outside = frozenset(filter(self._is_outside, targets or ()))
        self.waiting = [node for node in self.builder.nodes if node in self.needing]
        self.leading = None if targets is None else self._leading_to(targets)
        self.gradients: dict[Node, graph.Value] = {}
        #: Gradients that have arrived at leaves, by heap id of the leaf, in order of arrival.
        self.at_leaves: dict[int, graph.Value] = {}
        self.at_targets: dict[Node, graph.Value] = {}
        #: How many edges lead to leaves that are awaited, by heap id.
        self.awaited: dict[int, int] = {}
        self.complete: list[int] = []
        self.stopped_at: Node | None = None
        self.passed: list[Node] = []
        self._refuse_overwritten([node for node, _ in starts])
        for node, gradient in starts:
            self._send(node, gradient)
        for leaf in self._leaves_behind(self.waiting):
            if is_awaited(leaf):
                self.awaited[leaf] = self.awaited.get(leaf, 0) + 1

    # -- the walk ----------------------------------------------------------------------------

    def go_on(self) -> Stop | Arrival | None:
        """Walk until the program has a say; None at the end.

        Raises:
            GraphBreak: the run leads out of the graph.
            SkipFrame: eager execution would refuse.
        """
        while self.waiting:
            while self.complete:
                leaf = self.complete.pop()
                if leaf in self.at_leaves:
                    return Arrival(leaf, self.at_leaves.pop(leaf))
            node = self.waiting[-1]
            gradient = self.gradients.get(node)
            if gradient is None:
                self.waiting.pop()
                self._leave(node)
                continue
            if self.stopped_at is not node and self.recorder.tape.has_a_say(node):
                self.stopped_at = node
                return Stop(node, gradient)
            self.waiting.pop()
            del self.gradients[node]
            self._pass(node, gradient)
            self._leave(node)
        return None

    def _leave(self, node: Node) -> None:
        """Nothing more comes from a node to the leaves behind it."""
        if not self.awaited:
            return
        for leaf in self._leaves_behind((node,)):
            left = self.awaited.get(leaf)
            if left is not None:
                self.awaited[leaf] = left - 1
                if left == 1:
                    del self.awaited[leaf]
                    self.complete.append(leaf)

    def _leaves_behind(self, nodes: Iterable[Node]) -> Iterator[int]:
        """The leaves that gradients of nodes go to, by heap id, one for each edge."""
        for node in nodes:
            for argument in _differentiable(node, self.needing):
                leaf = self.recorder.leaf_at(argument)
                if leaf is not None:
                    yield leaf

    def answer(self, node: Node, gradient: graph.Value) -> None:
        """What hooks made of the gradient that has arrived at a node."""
        self.gradients[node] = gradient

    def _pass(self, node: Node, gradient: graph.Value) -> None:
        """Send a node's gradient on to its arguments."""
        if self.targets is not None and node in self.targets:
            self.at_targets[node] = gradient
        if self.leading is not None and node not in self.leading:
            return
        if node in self.recorder.tape.spent and self._saves(node):
            raise _refused("backward through a graph a second time")
        if self.is_recorded and node.op is LOOP and node.attributes["loop"].tests:
            what = "create_graph, and a loop whose number of turns is known at run time only"
            raise GraphBreak(breaks.AUTOGRAD_CALL, what)
        self.passed.append(node)
        self.builder.location = node.location
        if node.op is not None and node.op.kind is Kind.COMPOSITE and not node.op.vjp:
            self._expand(node, gradient)
        else:
            for argument, part in argument_gradients(self.builder, node, gradient, self.needing):
                self._send(argument, self._tied(node, part))
        self.builder.location = self.recorder.location

    def _send(self, node: Node, gradient: graph.Value) -> None:
        """Add to what has arrived at a node."""
        leaf = self.recorder.leaf_at(node)
        if leaf is not None:
            if self.targets is None or node in self.targets:
                self.at_leaves[leaf] = self._sum(self.at_leaves.get(leaf), gradient)
            return
        if node.kind is NodeKind.PLACEHOLDER:
            if node in self.outside:
                self.at_targets[node] = self._sum(self.at_targets.get(node), gradient)
            if self._leads_out(node):
                what = "backward through what an earlier call computed"
                raise GraphBreak(breaks.AUTOGRAD_CALL, what)
            return
        if self._is_asked_for(node):
            self.gradients[node] = self._sum(self.gradients.get(node), gradient)

    def _is_asked_for(self, node: Node) -> bool:
        """Whether a gradient is, or leads on to one that is: hooks see no other, and none is
        kept."""
        if self.targets is None or self.leading is None:
            return True
        return node in self.leading or node in self.targets

    def _sum(self, known: graph.Value | None, part: graph.Value) -> graph.Value:
        if known is None:
            return part
        total: graph.Value = TABLE.add(known, part)
        return total

    def _tied(self, node: Node, gradient: graph.Value) -> graph.Value:
        """See `eager.tape.node.OpNode.tied`."""
        op = node.op
        if not self.is_recorded or op is None or not op.bends:
            return gradient
        known = as_operand(self.builder, node if _needs_result(op) else node.args[0])
        tied: graph.Value = TABLE.where(TABLE.lt(known, -math.inf), known, gradient)
        return tied

    def _expand(self, node: Node, gradient: graph.Value) -> None:
        """Let a composite's own rows follow: later passes find that they are the composite's."""
        assert node.op is not None
        mark = self.builder.snapshot()
        operands = [as_operand(self.builder, argument) for argument in node.args]
        before = self.recorder.grad_enabled
        self.recorder.set_grad_enabled(True)
        with word_set(0):
            result = node.op.rule.function(TABLE, *operands, **node.attributes)
        self.recorder.set_grad_enabled(before)
        made = [n for n in self.builder.nodes_since(mark) if n in self.needing]
        self.waiting += made
        for leaf in self._leaves_behind(made) if self.awaited else ():
            if leaf in self.awaited:
                self.awaited[leaf] += 1
        if self.leading is not None:
            self.leading |= set(made)
        self._send(result.node, gradient)

    # -- which nodes -------------------------------------------------------------------------

    def _leading_to(self, targets: frozenset[Node]) -> set[Node]:
        """The nodes whose gradients lead on to a target."""
        leading: set[Node] = set()
        for node in self.waiting:
            arguments = _differentiable(node, self.needing)
            if any(a in targets or a in leading or self._leads_out(a) for a in arguments):
                leading.add(node)
        return leading

    def _is_outside(self, node: Node) -> bool:
        """Whether what earlier calls computed may have been computed from what a node holds."""
        leaf = self.builder.leaves.get(node)
        if leaf is not None:
            return self.recorder.heap.is_adopted(leaf)
        return node.kind is NodeKind.PLACEHOLDER

    def _leads_out(self, node: Node) -> bool:
        """Whether the run goes on behind a node, along the history of an earlier call."""
        if node.kind is not NodeKind.PLACEHOLDER or self.recorder.leaf_at(node) is not None:
            return False
        return self.targets is None or bool(self.outside - {node})

    # -- what nodes have saved ---------------------------------------------------------------

    def _saves(self, node: Node) -> bool:
        """Whether a node of the eager tape keeps anything for its formulas."""
        op = node.op
        if op is None:
            return False
        on_tape = differentiable_composites(on_tape=True)
        if op.kind is Kind.COMPOSITE and op.name not in on_tape:
            return True
        return saves_anything(node, self.needing)

    def let_go(self) -> None:
        """The nodes passed so far have nothing saved any more."""
        if self.keep:
            return
        spent = [node for node in self.passed if self._saves(node)]
        if spent:
            tape = self.recorder.tape
            self.recorder.write_tape(replace(tape, spent=tape.spent | frozenset(spent)))

    def _refuse_overwritten(self, roots: Sequence[Node]) -> None:
        """Leave a run to eager execution that finds a saved tensor written since.

        Raises:
            SkipFrame: so it is.
        """
        recorder = self.recorder
        if not any(isinstance(c, MemoryContents) and c.version for _, c in recorder.heap.objects()):
            return
        whole = self.builder.finish(roots)
        # Asked of the placeholders: a turn that stands for others has more of them than inputs.
        flags = [self.builder.node_needs_gradient(node) for node in whole.inputs]
        saved = find_saved(whole, flags, recorder.leaf_nodes)
        memories = SavedMemory(recorder, whole)
        for use in saved.uses:
            memory = memories.memory_of(use)
            if memory is not None and (memory.counted != memory.total or memory.is_overwritten):
                raise _refused("backward needs what was written since")


def _refused(what: str) -> SkipFrame:
    return SkipFrame(f"eager execution refuses it: {what}", permanent=False, even_whole=True)


def _differentiable(node: Node, needing: Container[object]) -> Iterator[Node]:
    """The arguments of a node that a gradient goes to."""
    op = node.op
    if op is None:
        return
    is_whole = op.kind is Kind.COMPOSITE and not op.vjp
    for name, argument in named_arguments(node):
        if argument in needing and (is_whole or formula_parameters(op, name) is not None):
            assert isinstance(argument, Node)
            yield argument


@record
class History:
    """What a backward run from a node would meet.

    Args:
        is_spent: a node that has let go of what it saved.
        is_watched: a tensor with hooks, or whose gradient is kept.
        from_inputs: an input of the graph.
        leaves: heap ids of the leaves that the captured code made.
    """

    is_spent: bool = False
    is_watched: bool = False
    from_inputs: bool = False
    leaves: frozenset[int] = frozenset()


def histories(recorder: "Recorder") -> dict[Node, History]:
    """The histories of all nodes that gradients pass through; empty where no run has let go of
    anything, and the captured code has made no leaf and no hook."""
    builder, tape = recorder.builder, recorder.tape
    found: dict[Node, History] = {}
    if not (tape.spent or tape.hooks or tape.retained or builder.leaves):
        return found
    needing = _Needing(builder)
    from_inputs, none = History(from_inputs=True), History()
    for node in builder.nodes:
        if node not in needing:
            continue
        if node in builder.leaves:
            found[node] = History(leaves=frozenset((builder.leaves[node],)))
            continue
        before = [
            from_inputs if a.kind is NodeKind.PLACEHOLDER else found.get(a, none)
            for a in _differentiable(node, needing)
        ]
        found[node] = History(
            node in tape.spent or any(each.is_spent for each in before),
            tape.has_a_say(node) or any(each.is_watched for each in before),
            any(each.from_inputs for each in before),
            frozenset().union(*(each.leaves for each in before)),
        )
    return found


def ends_of(recorder: "Recorder", roots: Sequence[Node]) -> set[Node]:
    """The inputs and leaves that gradients of these nodes reach."""
    needing = _Needing(recorder.builder)
    found: set[Node] = set()
    seen, waiting = set(roots), list(roots)
    while waiting:
        node = waiting.pop()
        if node.kind is NodeKind.PLACEHOLDER or node in recorder.builder.leaves:
            found.add(node)
            continue
        further = set(_differentiable(node, needing)) - seen
        seen |= further
        waiting += further
    return found


def _needs_result(op: Op) -> bool:
    """Whether a formula of a row needs the result."""
    found = (formula_parameters(op, name) or () for name in op.inputs)
    return any(parameter.need is Need.RESULT for parameters in found for parameter in parameters)


def fits(gradient: graph.Value, output: graph.Value) -> bool:
    """Whether a run may start at a value with this gradient as it is."""
    one, other = gradient.node.type, output.node.type
    assert isinstance(one, TensorType) and isinstance(other, TensorType)
    return one.shape == other.shape and one.dtype is other.dtype
