"""The graph builder of a capture: takes eager tensors in, refuses to show contents.

Owned by `capture.machine.recording.Recorder`; the op functions reach it through the graph values
that they are called with.
"""

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dynajit.capture import breaks
from dynajit.capture.guards.guards import GRAD_MODE_SOURCE
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.places import sources
from dynajit.capture.tensors import layouts
from dynajit.capture.tensors.left_out import harmless
from dynajit.capture.tensors.memory import make_leaf, operands_of
from dynajit.capture.tensors.rows import joined
from dynajit.capture.values.symbolic import Scalar
from dynajit.capture.values.tensors import Step, TensorValue
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.dtypes import Category, int64
from dynajit.core.types.symint import SymInt
from dynajit.core.types.value_types import ScalarType, Shape, TensorType
from dynajit.eager import Tensor
from dynajit.ir import graph
from dynajit.ir.node import Node
from dynajit.ir.refusals import may_refuse
from dynajit.ops import TABLE
from dynajit.ops.calls.autocast import for_row
from dynajit.ops.rows.composites import narrow, wide
from dynajit.ops.table.op_table import Kind as OpKind
from dynajit.ops.table.op_table import Op


class Builder(graph.Builder):
    """Builds the graph of a capture; takes eager tensors in, refuses to show contents."""

    def __init__(self, name: str, recorder: Any) -> None:
        super().__init__(name)
        self.recorder: Any = weakref.proxy(recorder)  # no cycle: captures die at once
        self._needs_gradient: dict[graph.Node, bool] = {}
        self._strides: dict[graph.Node, Shape | None] = {}
        #: Nodes that stand for operands read while grad mode is off.
        self.automatic: set[graph.Node] = set()
        #: Nodes that cut gradients off, but no tangents: the automatic ones, leaves, and what
        #: transforms of functions differentiate by.
        self.passes_tangents: set[graph.Node] = set()
        #: Node that a leaf holds which the captured code made -> heap id of the leaf.
        self.leaves: dict[graph.Node, int] = {}
        #: Views that one call gave.
        self.parts: set[graph.Node] = set()
        #: `index` that stands for a slice -> where that begins.
        self.windows: dict[graph.Node, graph.Value] = {}
        #: Whether Python runs the arm of a jump that is being captured; None: it is no arm.
        self.arm: graph.Value | None = None
        #: What that arm has computed so far.
        self._of_arm: set[graph.Node] = set()

    def enter_arm(self, arm: graph.Value | None) -> None:
        """From now on an arm of a jump is captured; None: it is no arm."""
        self.arm = arm
        self._of_arm = set()

    @contextmanager
    def outside_arm(self) -> Iterator[None]:
        """What is recorded here is computed whichever arm Python runs."""
        arm, self.arm = self.arm, None
        try:
            yield
        finally:
            self.arm = arm

    def lift(self, operand: Any) -> Any:
        """Eager tensors and sizes become graph inputs."""
        if isinstance(operand, Tensor):
            constant = self.recorder.wrap(operand, sources.Constant(operand))
            if isinstance(constant, TensorValue):
                return self.recorder.graph_value(constant)
            return self.recorder.lift_tensor(operand, sources.Constant(operand))
        if isinstance(operand, SymInt):
            size = self.recorder.sizes.value_of(operand)
            assert isinstance(size, Scalar)
            return self.recorder.lift_scalar(size)
        return super().lift(operand)

    def is_name_free(self, name: str) -> bool:
        """True if no node has this name yet; then it is kept for a symbol."""
        if name in self._names:
            return False
        self._names[name] = 0
        return True

    def size_input(self, symbol: str) -> graph.Value:
        """The INTEGER input that has the name of a symbol."""
        return self.adopt(Node(graph.NodeKind.PLACEHOLDER, symbol, ScalarType(Category.INTEGER)))

    def take(self, mark: tuple[int, int], stand_ins: Sequence[graph.Node]) -> list[graph.Node]:
        """Remove the nodes that were appended after the `snapshot` that gave `mark`.

        Inputs that came with them stay, but for the ones given.

        Args:
            stand_ins: inputs that nothing will load.
        """
        taken = self._nodes[mark[1] :]
        del self._nodes[mark[1] :]
        for node in taken:
            self.leaves.pop(node, None)
        self._placeholders = [node for node in self._placeholders if node not in stand_ins]
        return taken

    def restore(self, mark: tuple[int, int]) -> None:
        """Drop whatever was appended since `snapshot`, leaves among them."""
        for node in self._nodes[mark[1] :] if self.leaves else ():
            self.leaves.pop(node, None)
        super().restore(mark)

    def has_input(self, node: graph.Node) -> bool:
        """True for an input of the graph, also for one that nothing will load."""
        return any(node is given for given in self._placeholders)

    @property
    def nodes(self) -> list[graph.Node]:
        """Everything recorded so far but the inputs."""
        return self._nodes

    def lay_out(self, value: graph.Value, strides: Shape | None) -> None:
        """A value that was written into memory has the layout of that memory."""
        self._strides[value.node] = strides

    def copy_of(self, value: graph.Value) -> graph.Node:
        """A row-major copy, whatever the grad mode is now."""
        order = tuple(range(len(value.shape)))
        result = self.call(TABLE.laid_out, [value], {"order": order})
        self._needs_gradient[result.node] = self.needs_gradient(value)
        return result.node

    def strides_of(self, value: graph.Value) -> Shape | None:
        """See `layouts.strides_of`; what was found is remembered."""
        found: list[graph.Node] = [value.node]
        while found:
            node = found[-1]
            missing = [
                argument
                for argument in node.args
                if isinstance(argument, graph.Node)
                and argument not in self._strides
                and isinstance(argument.type, TensorType)
            ]
            if missing:
                found += missing
            else:
                self._strides[node] = layouts.strides_of(node, self._strides)
                found.pop()
        return self._strides[value.node]

    def note_parts(self, parts: tuple[graph.Value, ...]) -> None:
        """See `capture.tensors.memory.write`, which refuses such writes."""
        self.parts.update(part.node for part in parts)

    def window(self, whole: graph.Value, dim: int, start: graph.Value, length: int) -> graph.Value:
        """So many elements of a dim from a place on, as what eager execution makes a view of."""
        each = TABLE.arange(0, 1, size=length, dtype=int64, device=whole.device)
        numbers = TABLE.reshape(TABLE.add(each, start), shape=(1, length))
        found: graph.Value = TABLE.index(whole, numbers, dims=(dim,))
        self.windows[found.node] = start
        self.lay_out(found, self.strides_of(whole))
        return found

    def layout_of(self, value: graph.Value) -> Shape:
        """Strides that the value has in eager execution, which a function depends on.

        Raises:
            GraphBreak: they are not known.
        """
        strides = self.strides_of(value)
        if strides is None:
            raise breaks.GraphBreak(breaks.TENSOR_METHOD, "the layout of an intermediate tensor")
        return strides

    def make_leaf(self, value: graph.Value, requires_grad: bool) -> graph.Value:
        """A tensor that a function has just made becomes a leaf.

        Raises:
            GraphBreak: it has a history, or is no leaf; or a gradient would reach it later.
        """
        is_new = not self.needs_gradient(value) and self.recorder.owners.get(value.node) is None
        is_continuous = value.dtype.category >= Category.FLOATING
        if self.recorder.refuses_leaves or not (is_new and is_continuous and requires_grad):
            return self.refuse(value, "requires_grad_()")  # type: ignore[no-any-return]
        made = self.recorder.new_tensor(value)
        make_leaf(self.recorder, made)
        leaf: graph.Value = self.recorder.graph_value(made)
        return leaf

    def refuse(self, value: graph.Value, what: str) -> Any:
        """Contents are asked for, or a leaf of the tape: break."""
        row = breaks.DATA_DEPENDENT_VALUE
        if "truth" in what:
            row = breaks.DATA_DEPENDENT_BRANCH
        if "requires_grad_" in what:
            row = breaks.AUTOGRAD_CALL
        raise breaks.GraphBreak(row, f"{what} of {value.node.name}: {value.type}")

    def input(self, name: str, type: Any, requires_grad: bool) -> graph.Value:
        """A further graph input."""
        value = self.placeholder(name, type)
        self._needs_gradient[value.node] = requires_grad
        return value

    def handle(self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> graph.Value:
        """Record an op; with grad mode off, operands are detached first."""
        if any(isinstance(value, graph.Value) for value in attributes.values()):
            return self._of_numbers(op, inputs, attributes)
        if op is TABLE.cat or op is TABLE.stack:
            found = joined(self, op, inputs, attributes["dim"])
            if found is not None:
                return found
        operands = [*for_row(op, tuple(self.lift(operand) for operand in inputs))]
        wanted = attributes.get("device", CPU)
        if wanted is not CPU:
            attributes = {**attributes, "device": self.resolve_device(wanted, op.name)}
        if not self.recorder.grad_enabled and op.name != "detach":
            operands = [self.without_gradient(operand) for operand in operands]
        is_view = op.kind is OpKind.MOVEMENT and (op.rule.view or op is TABLE.index)
        if self.arm is not None and not is_view:  # what a view looks at is known by its operand
            operands = [self._entering(operand, self.arm) for operand in operands]
        result = self.call(op, operands, attributes)
        if self.arm is not None and may_refuse(result.node):
            others = harmless(op, operands, self.arm)
            if others is not None:
                self._nodes.remove(result.node)
                operands = others
                result = self.call(op, operands, attributes)
        self._needs_gradient[result.node] = self._result_needs_gradient(op, operands, result)
        if self.arm is not None and not is_view:
            self._of_arm.add(result.node)
        return result

    def _entering(self, operand: Any, arm: graph.Value) -> Any:
        """An operand of an arm: of what is older, a gradient passes only where Python runs the arm.

        What an arm hands back that Python leaves out is no zero where its derivative is infinite.
        """
        if not isinstance(operand, graph.Value) or operand.node in self._of_arm:
            return operand
        if not self.needs_gradient(operand):
            return operand
        self.arm = None
        passed = TABLE.where(arm, operand, self.without_gradient(operand))
        self.arm = arm
        self._of_arm.add(passed.node)
        return passed

    def _of_numbers(
        self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]
    ) -> graph.Value:
        """An op with attributes that are known at run time only: what its body says, recorded.

        Raises:
            GraphBreak: it is no function of elements; the numbers are specialised.
        """
        if op.kind is not OpKind.POINTWISE:
            detail = f"{op.name} of a number that varies"
            raise breaks.GraphBreak(breaks.TENSOR_FAILURE, detail)
        operands = [*for_row(op, tuple(self.lift(operand) for operand in inputs))]
        result = op.rule.body(TABLE, *(wide(TABLE, operand) for operand in operands), **attributes)
        found: graph.Value = narrow(TABLE, result, operands[0].dtype)
        return found

    def resolve_device(self, device: Device, what: str) -> Device:
        """The device with its number; that of the current GPU is relied on."""
        found = super().resolve_device(device, what)
        if device.index is None and found is not CPU and gpu.device_count() > 1:
            self.recorder.guard(GRAD_MODE_SOURCE, Kind.DEVICE, found.index, "current device")
        return found

    def call(self, *args: Any, **keywords: Any) -> graph.Value:
        """Append a call; sizes of its result that are symbolic are at least 1."""
        result = super().call(*args, **keywords)
        for size in result.shape:
            if isinstance(size, SymInt):
                self.recorder.sizes.check_result(size)
        return result

    @property
    def knows_gradients(self) -> bool:
        """True."""
        return True

    def may_need_gradient(self, value: graph.Value) -> bool:
        """Whether operations on the value are recorded on the tape."""
        return bool(self.recorder.grad_enabled) and self.needs_gradient(value)

    def needs_gradient(self, value: graph.Value) -> bool:
        """What `requires_grad` of the value is."""
        return self.node_needs_gradient(value.node)

    def node_needs_gradient(self, node: graph.Node) -> bool:
        """The same of a node."""
        return self._needs_gradient.get(node, False)

    def note_gradient(self, value: graph.Value, needed: bool) -> None:
        """Say whether gradients pass to a value that `call` or `placeholder` has made."""
        self._needs_gradient[value.node] = needed

    def without_gradient(self, operand: Any) -> Any:
        """An operand as operations see it while grad mode is off."""
        if isinstance(operand, graph.Value) and self.needs_gradient(operand):
            detached = self.call(TABLE.detach, [operand], TABLE.detach.bind({}))
            self._needs_gradient[detached.node] = False
            self.automatic.add(detached.node)
            self.passes_tangents.add(detached.node)
            return detached
        return operand

    def leaf(self, value: graph.Value, identity: int) -> graph.Value:
        """What a leaf holds that is made here: gradients end at it."""
        node = self.call(TABLE.detach, [value], {}).node
        self._needs_gradient[node] = True
        self.leaves[node] = identity
        self.passes_tangents.add(node)
        return graph.Value(self, node)

    def view(self, step: Step, value: graph.Value) -> graph.Value:
        """A view of a value, whatever the grad mode is now."""
        operand = value if step.is_recorded else self.without_gradient(value)
        given = operands_of(self.recorder, step)
        result = self.call(step.op, [operand, *given], step.attributes)
        follows = self.needs_gradient(operand) and step.op is not TABLE.detach
        self._needs_gradient[result.node] = follows
        return result

    def with_history_of(self, old: graph.Value, elements: graph.Value) -> graph.Value:
        """What a tensor holds after a write that was not recorded."""
        result = self.call(TABLE.overwrite_unrecorded, [old, elements], {})
        self._needs_gradient[result.node] = True
        return result

    def _result_needs_gradient(self, op: Op, operands: list[Any], result: graph.Value) -> bool:
        """
        Raises:
            GraphBreak: NumPy computes the result, and refuses what passes a gradient.
        """
        if op.name == "detach" or result.dtype.category < Category.FLOATING:
            return False
        is_numpys = op.kind is OpKind.EXTERN and op.rule.is_numpys
        if op.kind is not OpKind.COMPOSITE and not any(op.vjp.values()) and not is_numpys:
            return False
        follows = any(
            isinstance(operand, graph.Value) and self.needs_gradient(operand)
            for operand in operands
        )
        if follows and is_numpys:
            detail = f"{op.name} of what passes a gradient"
            raise breaks.GraphBreak(breaks.UNKNOWN_CALL, detail)
        return follows
