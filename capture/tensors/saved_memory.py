"""The memory of tensors that the eager tape saves: how often it was written, before and since.

`region.saved_tensors` tells from it what backward after the launch has to check; `backward`, what a
run within the capture would refuse.
"""

from typing import TYPE_CHECKING

from dynajit.capture.tensors import layouts
from dynajit.capture.values.tensors import MemoryContents, TensorContents
from dynajit.core.records import record
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Graph, Node, Value
from dynajit.ir.saved import Use

if TYPE_CHECKING:
    from dynajit.capture.machine.recording import Recorder


@record
class Memory:
    """The memory of one captured tensor that eager execution would save.

    Args:
        identity: of the tensor that everything in this memory starts at.
        counted: writes when the tensor was saved.
        total: writes at the end of the region.
        is_overwritten: a write through `.data`, which does not count, came after that.
    """

    identity: int
    counted: int
    total: int
    is_overwritten: bool = False


class SavedMemory:
    """Finds the tensor that a saved node belongs to.

    Args:
        recorder: of the capture.
        graph: as captured.
    """

    def __init__(self, recorder: "Recorder", graph: Graph) -> None:
        self.recorder = recorder
        self.captured = {node.name: node for node in graph.nodes}

    def memory_of(self, use: Use) -> Memory | None:
        """The memory that eager execution would watch; None if nobody else can reach it."""
        recorder, writes = self.recorder, self.recorder.writes
        private = writes.private.get(use.origin)
        node: Node | None = use.value
        while node is not None:
            captured = self.captured.get(node.name)
            if captured is not None:
                if captured is private or (use.is_result and captured in writes.placed):
                    return None
                identity = recorder.owners.get(captured)
                if identity is not None and recorder.heap.has(identity):
                    return self._memory(identity, captured)
                if not self._is_alias(captured):
                    return None
            node = node.args[0] if node.is_view and isinstance(node.args[0], Node) else None
        return None

    def _memory(self, identity: int, node: Node) -> Memory:
        contents: TensorContents = self.recorder.heap[identity]
        writes = self.recorder.writes
        if not contents.memory:
            return Memory(identity, 0, 0)
        memory: MemoryContents = self.recorder.heap[contents.memory]
        return Memory(
            memory.base.identity,
            writes.counted.get(node, 0),
            memory.bumps,
            writes.hidden.get(node, 0) != memory.hidden,
        )

    def _is_alias(self, node: Node) -> bool:
        """True if a view row gives a view, not a copy."""
        if not node.is_view or node.op is None:
            return False
        base = node.args[0]
        assert isinstance(base, Node)
        assert isinstance(base.type, TensorType)
        assert isinstance(node.type, TensorType)
        if node.op.name != "reshape":
            return True
        builder = self.recorder.builder
        strides = builder.strides_of(Value(builder, base))
        return bool(layouts.aliases(node.op, base.type.shape, strides, node.type.shape))
