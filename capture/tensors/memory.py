"""Which tensors share memory, and what a write to one of them does to the others.

The graph is pure: a write gives the memory's base a new value. A write through a view puts the new
part into the base's old value, by the inverse of each step; tensors are read by taking their steps
from the base's value again. Layouts decide, as in eager execution, whether a reshape is a view.

Functions on the recorder of one capture.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.tensors import layouts
from dynajit.capture.values.tensors import MemoryContents, Step, TensorContents, TensorValue
from dynajit.core.arrays import any_arrays
from dynajit.core.records import record
from dynajit.core.types.value_types import Shape, TensorType, contiguous_strides
from dynajit.eager import Tensor
from dynajit.eager.modes.grad_mode import is_inference_mode_enabled
from dynajit.ir import graph
from dynajit.ir.sizes import expressions
from dynajit.ops import TABLE
from dynajit.ops.evaluate import evaluate
from dynajit.ops.table.op_table import Op

if TYPE_CHECKING:
    from dynajit.capture.machine.recording import Recorder


class PartWritten(Exception):
    """A recorded write to one of several views that one call gave: eager execution refuses it."""


@dataclass(slots=True)
class Writes:
    """What writes to tensors made of the graph's nodes. Mutable: see
    `capture.region.saved_tensors`.

    Args:
        counted: node that a tensor holds -> counted writes to its memory until then; 0 if missing.
        hidden: the same for writes through `.data`, which eager execution does not count.
        placed: nodes that a write put into memory.
        private: node that a write computes with -> the tensor's old value, of which the tape has
            a copy of its own.
    """

    counted: dict[graph.Node, int] = field(default_factory=dict)
    hidden: dict[graph.Node, int] = field(default_factory=dict)
    placed: set[graph.Node] = field(default_factory=set)
    private: dict[graph.Node, graph.Node] = field(default_factory=dict)


# -- reading -------------------------------------------------------------------------------------


def read(recorder: "Recorder", value: TensorValue) -> graph.Value:
    """What a tensor with a graph value holds now."""
    contents: TensorContents = recorder.heap[value.identity]
    held: graph.Value = contents.value
    if not contents.memory:
        return held
    memory: MemoryContents = recorder.heap[contents.memory]
    if contents.version == memory.version:
        return held
    found: graph.Value = memory.value
    for step in contents.steps:
        found = recorder.builder.view(step, found)
    if contents.is_new_leaf:
        found = recorder.builder.leaf(found, value.identity)
    elif contents.is_frozen:
        found = recorder.builder.without_gradient(found)
    recorder.owners[found.node] = value.identity
    recorder.writes.counted[found.node] = memory.bumps
    recorder.writes.hidden[found.node] = memory.hidden
    now = replace(contents, value=found, version=memory.version)
    recorder.heap.write(value.identity, now)
    if contents.steps:
        recorder.move_retained(value, held.node, found.node)
    return found


def new_tensor(recorder: "Recorder", value: graph.Value, cls: type) -> TensorValue:
    """The tensor that a library function returned: new, or a view of a known one."""
    node = value.node
    known = _owner(recorder, node)
    if known is not None:
        return recorder.tensor_of(known)
    chain: list[graph.Node] = []
    while _is_view(recorder, node) and _owner(recorder, node) is None:
        if node not in recorder.builder.automatic:
            chain.append(node)
        node = _viewed(node)
    if not chain or not isinstance(node.type, TensorType):
        return _allocate(recorder, TensorContents(value), cls)
    root = _owner(recorder, node)
    if root is None:
        root = _allocate(
            recorder, TensorContents(graph.Value(recorder.builder, node)), cls
        ).identity
    return _view_of(recorder, root, list(reversed(chain)), value, cls)


def _is_view(recorder: "Recorder", node: graph.Node) -> bool:
    """Whether eager execution answers a row with a view."""
    is_window = node in recorder.builder.windows
    return node.is_view or is_window or layouts.is_by_numbers(node)


def _viewed(node: graph.Node) -> graph.Node:
    """What a view looks at."""
    viewed = node.args[0]
    assert isinstance(viewed, graph.Node)
    return viewed


def _view_of(
    recorder: "Recorder", root: int, chain: list[graph.Node], value: graph.Value, cls: type
) -> TensorValue:
    owner = recorder.tensor_of(root)
    memory = memory_of(recorder, owner)
    contents: TensorContents = recorder.heap[root]
    steps = list(contents.steps)
    strides = strides_of(recorder, owner)
    shape = contents.value.shape
    for node in chain:
        assert node.op is not None and isinstance(node.type, TensorType)
        aliases = layouts.aliases(node.op, shape, strides, node.type.shape)
        if aliases is False:
            return _allocate(recorder, TensorContents(TABLE.clone(value)), cls)
        if aliases is None:
            recorder.heap.write(memory, replace(recorder.heap[memory], is_uncertain=True))
        start = recorder.builder.windows.get(node)
        if strides is not None and start is None:
            strides = layouts.strides_after(
                node.op, node.attributes, shape, strides, node.type.shape
            )
        shape = node.type.shape
        step = Step(node.op, node.attributes, recorder.grad_enabled)
        if start is not None or layouts.is_by_numbers(node):
            step = replace(step, numbers=_own_numbers(recorder, _numbers_of(recorder, node)))
        if start is not None:
            step = replace(step, start=_own_numbers(recorder, start))
        steps.append(replace(step, is_part=node in recorder.builder.parts))
    return _new_view(recorder, value, memory, tuple(steps), cls)


def _numbers_of(recorder: "Recorder", node: graph.Node) -> graph.Value:
    """What `index` is given."""
    numbers = node.args[1]
    assert isinstance(numbers, graph.Node)
    return graph.Value(recorder.builder, numbers)


def _own_numbers(recorder: "Recorder", numbers: graph.Value) -> TensorValue:
    """Numbers as a tensor of its own: later writes do not move a view."""
    return _allocate(recorder, TensorContents(TABLE.clone(numbers)), Tensor)


def operands_of(recorder: "Recorder", step: Step) -> tuple[graph.Value, ...]:
    """What a step takes beside the tensor that it looks at."""
    return () if step.numbers is None else (recorder.graph_value(step.numbers),)


def _new_view(
    recorder: "Recorder", value: graph.Value, memory: int, steps: tuple[Step, ...], cls: type
) -> TensorValue:
    """A tensor that looks at existing memory."""
    held: MemoryContents = recorder.heap[memory]
    recorder.writes.counted[value.node] = held.bumps
    recorder.writes.hidden[value.node] = held.hidden
    made = TensorContents(value, memory=memory, steps=steps, version=held.version)
    return _allocate(recorder, made, cls)


def view_by(recorder: "Recorder", memory: int, steps: tuple[Step, ...]) -> TensorValue:
    """A tensor that looks at memory by these steps."""
    held: MemoryContents = recorder.heap[memory]
    found: graph.Value = held.value
    for step in steps:
        found = recorder.builder.view(step, found)
    return _new_view(recorder, found, memory, steps, Tensor)


def data_of(recorder: "Recorder", value: TensorValue, cls: type) -> TensorValue:
    """`value.data`."""
    step = Step(TABLE.detach, {}, recorder.grad_enabled, is_data=True)
    found = recorder.builder.view(step, recorder.graph_value(value, is_detached=True))
    memory = memory_of(recorder, value)
    steps = (*recorder.heap[value.identity].steps, step)
    return _new_view(recorder, found, memory, steps, cls)


def alias_of(recorder: "Recorder", value: TensorValue) -> TensorValue:
    """A new tensor that shares the memory and the history of another one."""
    held = recorder.graph_value(value)
    step = Step(TABLE.reshape, {"shape": tuple(held.shape)}, recorder.grad_enabled)
    found = recorder.builder.view(step, held)
    memory = memory_of(recorder, value)
    steps = (*recorder.heap[value.identity].steps, step)
    return _new_view(recorder, found, memory, steps, Tensor)


def leaf_of(recorder: "Recorder", value: TensorValue, requires_grad: bool) -> TensorValue:
    """A leaf made by the captured code, which looks at the memory of a tensor."""
    view = data_of(recorder, value, Tensor)
    if requires_grad:
        make_leaf(recorder, view)
    return view


def make_leaf(recorder: "Recorder", value: TensorValue) -> None:
    """Gradients end at a tensor from here on, which requires one."""
    held = recorder.graph_value(value, is_detached=True)
    _hold(recorder, value, held, recorder.builder.leaf(held, value.identity))
    contents: TensorContents = recorder.heap[value.identity]
    recorder.heap.write(value.identity, replace(contents, is_new_leaf=True, is_frozen=False))


def freeze(recorder: "Recorder", value: TensorValue) -> None:
    """A leaf requires no gradient from here on."""
    held = recorder.graph_value(value, is_detached=True)
    _hold(recorder, value, held, recorder.builder.without_gradient(held))
    contents: TensorContents = recorder.heap[value.identity]
    recorder.heap.write(value.identity, replace(contents, is_new_leaf=False, is_frozen=True))


def _hold(
    recorder: "Recorder", value: TensorValue, held: graph.Value, instead: graph.Value
) -> None:
    """Let a tensor hold a value with the same elements and another history."""
    recorder.owners[instead.node] = value.identity
    for counts in (recorder.writes.counted, recorder.writes.hidden):
        if held.node in counts:
            counts[instead.node] = counts[held.node]
    contents: TensorContents = recorder.heap[value.identity]
    recorder.heap.write(value.identity, replace(contents, value=instead))


def replace_data(recorder: "Recorder", value: TensorValue, given: TensorValue) -> None:
    """`value.data = given`: it looks at the memory of the other one from here on.

    Its own graph value becomes an input of the graph, so that guards keep it apart from others.
    """
    recorder.graph_value(value, is_detached=True)
    view = data_of(recorder, given, Tensor)
    seen: TensorContents = recorder.heap[view.identity]
    *before, last = seen.steps
    steps = (*before, replace(last, counted_by=value.identity))
    contents: TensorContents = recorder.heap[value.identity]
    attributes = contents.attributes
    if recorder.existing(value) is not None:
        attributes = {**attributes, "data": view}
    now = replace(
        seen,
        tensor=contents.tensor,
        steps=steps,
        attributes=attributes,
        has_new_data=True,
        writes_since=contents.writes_since,
    )
    recorder.heap.write(value.identity, now)
    recorder.owners[seen.value.node] = value.identity  # views that follow are views of this tensor


def memory_of(recorder: "Recorder", value: TensorValue) -> int:
    """Heap id of a tensor's memory, made when first asked for."""
    held = recorder.graph_value(value, is_detached=True)
    contents: TensorContents = recorder.heap[value.identity]
    if contents.memory:
        return contents.memory
    strides = recorder.builder.strides_of(held)
    memory: int = recorder.heap.allocate(MemoryContents(value, held, held, strides))
    recorder.heap.write(value.identity, replace(contents, value=held, memory=memory))
    return memory


def strides_of(recorder: "Recorder", value: TensorValue) -> Shape | None:
    """Strides in elements that the tensor has in eager execution; None if not known."""
    held = recorder.graph_value(value)
    contents: TensorContents = recorder.heap[value.identity]
    if not contents.memory:
        strides: Shape | None = recorder.builder.strides_of(held)
        return strides
    memory: MemoryContents = recorder.heap[contents.memory]
    type: Any = memory.value.node.type
    strides = memory.strides
    for step in contents.steps:
        given = [operand.node.type for operand in operands_of(recorder, step)]
        after = step.op.infer(type, *given, **step.attributes)
        if strides is not None and step.start is None:
            strides = layouts.strides_after(
                step.op, step.attributes, type.shape, strides, after.shape
            )
        type = after
    return strides


def _owner(recorder: "Recorder", node: graph.Node) -> int | None:
    """Heap id of the tensor that a node was read from; None for other nodes."""
    identity: int | None = recorder.owners.get(node)
    return identity if identity is not None and recorder.heap.has(identity) else None


def _allocate(recorder: "Recorder", contents: TensorContents, cls: type) -> TensorValue:
    identity = recorder.heap.allocate(contents)
    recorder.owners[contents.value.node] = identity
    return TensorValue(identity, cls)


MSG_SHARED: Final = "two tensors share memory"

# -- writing -------------------------------------------------------------------------------------


def write(recorder: "Recorder", value: TensorValue, part: graph.Value, hides: bool) -> None:
    """Let a tensor hold `part`, which has its shape and dtype.

    Args:
        hides: the old value has a gradient, zero, even where `part` has one (`copy_`).

    Raises:
        GraphBreak: eager execution refuses the write, or it cannot be followed.
        PartWritten: it refuses it, and for certain.
    """
    identity = memory_of(recorder, value)
    memory: MemoryContents = recorder.heap[identity]
    steps = recorder.heap[value.identity].steps
    builder = recorder.builder
    if memory.is_uncertain:
        raise GraphBreak(breaks.TENSOR_MUTATION, "its layout is not known")
    if builder.arm is not None:
        part = _in_arm(recorder, value, memory, part)
    needs = builder.needs_gradient(memory.value), builder.needs_gradient(part)
    is_recorded = recorder.grad_enabled
    if is_recorded and not any(step.op is TABLE.detach for step in steps):
        _refuse_kept(recorder.existing(memory.base))
    if is_recorded and any(needs):
        is_recorded = _is_recorded(steps, *needs)
    if is_recorded and any(needs) and any(step.is_part for step in steps):
        raise PartWritten
    has_history = memory.has_history or (is_recorded and any(needs))
    refuse_overlap(recorder, memory.base, identity, has_history)
    if is_recorded and any(needs):
        changed = _put(builder, memory.value, steps, part)
        if needs[0] and (hides or not needs[1] or steps) and not _keeps_rest(steps):
            changed = TABLE.overwrite(memory.value, changed)
        changed = elements = _own(recorder, changed)
        recorder.move_retained(memory.base, memory.value.node, changed.node)
    else:
        old = builder.without_gradient(memory.elements)
        with builder.outside_arm():  # the place suits everything, and so must what is put there
            elements = changed = _own(recorder, _put(builder, old, steps, part))
        if needs[0]:
            changed = builder.with_history_of(memory.value, elements)
    builder.lay_out(changed, memory.strides)
    recorder.writes.placed |= {changed.node, elements.node}
    is_counted = not any(step.is_data for step in steps)
    is_detached = any(step.op is TABLE.detach for step in steps)
    recorder.heap.write(
        identity,
        replace(
            memory,
            value=changed,
            elements=elements,
            version=memory.version + 1,
            bumps=memory.bumps + is_counted,
            is_recorded=memory.is_recorded or (recorder.grad_enabled and not is_detached),
            has_history=has_history,
        ),
    )
    _count_for_moved(recorder, steps)
    if is_recorded and steps and recorder.tape.retained:
        read(recorder, value)  # it retains the gradient of what it holds now


def _in_arm(
    recorder: "Recorder", value: TensorValue, memory: MemoryContents, part: graph.Value
) -> graph.Value:
    """What is written in an arm of a jump: where Python runs the other one, what was there.

    Raises:
        GraphBreak: gradients pass, or a tensor that existed counts its writes.
    """
    builder = recorder.builder
    arm, old = builder.arm, read(recorder, value)
    if any(map(builder.needs_gradient, (part, old, memory.value))) or memory.has_history:
        raise GraphBreak(breaks.TENSOR_MUTATION, "a gradient passes through an arm that writes")
    is_counted = not any(step.is_data for step in recorder.heap[value.identity].steps)
    if is_counted and recorder.existing(memory.base) is not None:
        raise GraphBreak(breaks.TENSOR_MUTATION, "an arm writes to a tensor of the caller's")
    found: graph.Value = TABLE.where(arm, part, old)
    return found


def _refuse_kept(written: Any) -> None:
    """An existing tensor is written, with gradients on: what it keeps is the gradient of what it
    holds then, which passes within the launch.

    Raises:
        GraphBreak: it keeps its gradient.
    """
    if written is None:
        return
    if written.retains_grad or (written._base is not None and written._base.retains_grad):
        raise GraphBreak(breaks.TENSOR_MUTATION, "a tensor that keeps its gradient")


def _count_for_moved(recorder: "Recorder", steps: tuple[Step, ...]) -> None:
    """A write through a tensor whose `data` was assigned counts in the version of that tensor."""
    through = [step.counted_by for step in steps if step.is_data]
    if through and through[-1]:
        contents: TensorContents = recorder.heap[through[-1]]
        now = replace(contents, writes_since=contents.writes_since + 1)
        recorder.heap.write(through[-1], now)


def share_memory(recorder: "Recorder", one: TensorValue, other: TensorValue) -> bool:
    """Whether two tensors are known to be views of one memory."""
    a, b = recorder.heap[one.identity].memory, recorder.heap[other.identity].memory
    return bool(a) and a == b


def refuse_partial_overlap(
    recorder: "Recorder", written: TensorValue, operand: TensorValue
) -> None:
    """Refuse what eager execution refuses: an operand that shares memory with what is written,
    element by other element.

    Raises:
        GraphBreak: that is so, or not known.
    """
    one, other = recorder.heap[written.identity], recorder.heap[operand.identity]
    if written.identity == operand.identity or not one.memory or one.memory != other.memory:
        return
    if is_same_place(recorder, one, other):
        return
    a, b = _image_of(recorder, one), _image_of(recorder, other)
    if a is None or b is None or len(a.moved) * len(b.moved) > MOST_PLACES:
        raise GraphBreak(breaks.TENSOR_FAILURE, "a write to memory that an operand may read")
    moved = {there - here for here in a.moved for there in b.moved}
    if any_arrays.overlap_partly(a.array, b.array, moved):
        raise GraphBreak(breaks.TENSOR_FAILURE, "a write to memory that an operand reads")


def is_same_place(recorder: "Recorder", one: TensorContents, other: TensorContents) -> bool:
    """Whether two tensors of one memory look at the same elements, by the same steps."""
    a, b = (_moving_steps(recorder, contents) for contents in (one, other))
    return len(a) == len(b) and all(
        x.op is y.op
        and x.attributes == y.attributes
        and (x.numbers is None) == (y.numbers is None)
        and (x.numbers is None or _origin(recorder, x) == _origin(recorder, y))
        for x, y in zip(a, b, strict=True)
    )


def _moving_steps(recorder: "Recorder", contents: TensorContents) -> list[Step]:
    """The steps that lead to other elements, or to another shape."""
    memory: MemoryContents = recorder.heap[contents.memory]
    kind: Any = memory.value.node.type
    found = []
    for step in contents.steps:
        given = [operand.node.type for operand in operands_of(recorder, step)]
        after = step.op.infer(kind, *given, **step.attributes)
        if step.op not in (TABLE.detach, TABLE.reshape) or after.shape != kind.shape:
            found.append(step)
        kind = after
    return found


def _origin(recorder: "Recorder", step: Step) -> Any:
    """Equal for steps whose numbers are copies of the same ones."""
    assert step.numbers is not None
    numbers = recorder.graph_value(step.numbers)
    if step.start is None:
        return _origin_of(numbers.node)
    return _origin_of(recorder.graph_value(step.start).node), numbers.shape


def _origin_of(argument: Any) -> Any:
    if not isinstance(argument, graph.Node) or argument.op is None:
        return argument
    if argument.op.name in ("clone", "reshape", "full"):
        return _origin_of(argument.args[0])
    if argument.op.name in ("stack", "cat"):
        return tuple(map(_origin_of, argument.args))
    return argument


MOST_PLACES: Final = 1 << 12
"""Pairs of places that are compared where numbers in tensors choose views."""

#: Where images of memory begin.
_IMAGE: Final = np.zeros(1, np.complex128)


@record
class _Image:
    """Where a tensor lies in the memory that it shares with others.

    Args:
        array: it lies as the tensor does, in memory that is not read.
        moved: by how many bytes further on it may lie: numbers of the launch say where.
    """

    array: Any
    moved: frozenset[int]


def _image_of(recorder: "Recorder", contents: TensorContents) -> _Image | None:
    """None where sizes or strides are not known, or there are too many places."""
    memory: MemoryContents = recorder.heap[contents.memory]
    type: Any = memory.value.node.type
    if memory.strides is None or not all(
        isinstance(n, int) for n in (*type.shape, *memory.strides)
    ):
        return None
    itemsize = type.dtype.itemsize
    array = as_strided(
        _IMAGE.view(np.uint8)[:itemsize].view(type.dtype.numpy),
        type.shape,
        tuple(step * itemsize for step in memory.strides),
        writeable=False,
    )
    moved = {0}
    for step in contents.steps:
        if next(expressions(tuple(step.attributes.values())), None) is not None:
            return None
        if step.numbers is None and step.op.rule.mirrors:
            continue
        if step.numbers is None:
            array = evaluate(step.op, [array], dict(step.attributes))
            continue
        for dim in sorted(step.attributes["dims"], reverse=True):
            by, shown = array.strides[dim], window_length(recorder, step)
            size = array.shape[dim] - (0 if shown is None else shown - 1)
            if not size or len(moved) * size > MOST_PLACES:
                return None
            moved = {start + place * by for start in moved for place in range(size)}
            array = array[(slice(None),) * dim + (0 if shown is None else slice(shown), ...)]
    return _Image(array, frozenset(moved))


def window_length(recorder: "Recorder", step: Step) -> int | None:
    """How many elements of its dim a window shows; None: a number shows one, without the dim."""
    if step.start is None or step.numbers is None:
        return None
    return int(recorder.graph_value(step.numbers).shape[1])


def window(recorder: "Recorder", value: TensorValue) -> tuple[int, tuple[int, ...]] | None:
    """Where a tensor lies in the memory that it shares with others: the offset of its first element
    and its strides, both in elements of a base that lies row by row; None: it is not known."""
    contents: TensorContents = recorder.heap[value.identity]
    memory: MemoryContents = recorder.heap[contents.memory]
    kind: Any = memory.value.node.type
    image = _image_of(recorder, contents)
    if image is None or image.moved != {0} or memory.is_uncertain or not kind.rank:
        return None
    if memory.strides != contiguous_strides(kind.shape):
        return None
    size = image.array.itemsize
    first = image.array.__array_interface__["data"][0] - _IMAGE.__array_interface__["data"][0]
    return first // size, tuple(stride // size for stride in image.array.strides)


def _is_recorded(steps: tuple[Step, ...], old_needs: bool, part_needs: bool) -> bool:
    """Whether a write with gradients on, through these steps, gives the base a history."""
    if any(step.op is TABLE.detach for step in steps):
        if part_needs:
            raise GraphBreak(breaks.TENSOR_MUTATION, "a detached tensor gets a history of its own")
        return False
    if any(not step.is_recorded for step in steps):
        raise GraphBreak(breaks.TENSOR_FAILURE, "a write through a view made under no_grad")
    return True


def _keeps_rest(steps: tuple[Step, ...]) -> bool:
    """True if the rest of the base, and so its history, stays."""
    return any(_leaves_elements_out(step.op) for step in steps)


def _leaves_elements_out(op: Op) -> bool:
    """True for a view that may show some elements of its operand, and others not."""
    chooses = op.rule.rearranges or op.indices is not None
    return chooses and op.inputs[0] not in op.rule.shown


def _own(recorder: "Recorder", value: graph.Value) -> graph.Value:
    """A value that no tensor holds yet, and that is no view of what another one holds."""
    if value.node.is_view or value.node in recorder.owners or value.node.op is None:
        value = TABLE.clone(value)
    return value


def _put(
    builder: Any, base: graph.Value, steps: tuple[Step, ...], part: graph.Value
) -> graph.Value:
    """`base` with the part that `steps` lead to replaced."""
    parents = [base]
    for step in steps[:-1]:
        given = operands_of(builder.recorder, step)
        parents.append(step.op(parents[-1], *given, **step.attributes))
    for step, parent in zip(reversed(steps), reversed(parents), strict=False):
        whole = step.op.rule.whole
        if whole is None:
            raise GraphBreak(breaks.TENSOR_MUTATION, f"a write through {step.op.name}")
        others = operands_of(builder.recorder, step)
        part = whole(TABLE, parent, *others, part, **step.attributes)
        if part is None:
            raise GraphBreak(breaks.TENSOR_FAILURE, "elements of an expanded tensor share memory")
    return part


# -- existing tensors ----------------------------------------------------------------------------


def written(recorder: "Recorder") -> list[MemoryContents]:
    """The memories of existing tensors that were written."""
    heap = recorder.heap
    found = (heap[i] for i in sorted(recorder.written_spans.values) if heap.has(i))
    return [contents for contents in found if contents.version]


def has_moved(recorder: "Recorder", base: TensorValue, memory: int) -> bool:
    """True if the tensor that all steps of a memory start at looks at another one by now."""
    contents: TensorContents = recorder.heap[base.identity]
    return contents.has_new_data and contents.memory != memory


def refuse_overlap(recorder: "Recorder", base: TensorValue, memory: int, has_history: bool) -> None:
    """An existing tensor is written: it must not overlap with a graph input.

    Args:
        base: what is written.
        memory: that of the tensor.
        has_history: it gets a history: so does every view of its storage.

    Raises:
        GraphBreak: it does.
    """
    written = recorder.existing(base)
    if written is None:
        return
    if has_moved(recorder, base, memory):
        raise GraphBreak(breaks.TENSOR_MUTATION, "memory that its first tensor has left")
    if written._storage.is_inference and not is_inference_mode_enabled():
        raise GraphBreak(breaks.TENSOR_FAILURE, "a write to a tensor made in inference mode")
    others = recorder.input_spans.near(written)
    if has_history:
        others = others + recorder.input_spans.of_storage(written)
    if any(recorder.is_input(i) and recorder.existing_at(i) is not written for i in others):
        raise GraphBreak(breaks.TENSOR_MUTATION, MSG_SHARED)
    recorder.written_spans.add(written, memory)


def refuse_written(recorder: "Recorder", tensor: Any) -> None:
    """An existing tensor becomes a graph input: it must not overlap with what was written.

    Raises:
        GraphBreak: it does.
    """
    spans = recorder.written_spans
    near = spans.near(tensor)
    for identity in (*near, *spans.of_storage(tensor)):
        memory = recorder.heap[identity] if recorder.heap.has(identity) else None
        if memory is None or not memory.version or recorder.existing(memory.base) is tensor:
            continue
        if memory.has_history or identity in near:
            raise GraphBreak(breaks.TENSOR_MUTATION, MSG_SHARED)
