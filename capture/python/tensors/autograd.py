"""Tensors: what autograd keeps in them (`grad`, `data`, `is_leaf`), and what users store in them.

Functions of the machine (`capture.machine.machine`). Attributes
are part of a tensor's heap contents and are stored after the launch.
"""

from dataclasses import replace

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak, SkipFrame
from dynajit.capture.guards.facts import MemoryUse
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.machine.frames import Frame
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import is_none
from dynajit.capture.python.tensors.facts import needs_gradient, tensor_type
from dynajit.capture.python.tensors.native_calls import overrides
from dynajit.capture.tensors import memory as tensor_memory
from dynajit.capture.values.symbolic import NONE, Constant, Value, constant
from dynajit.capture.values.tensors import MemoryContents, TensorContents, TensorValue
from dynajit.capture.values.users_code import lookup
from dynajit.core.types.dtypes import Category
from dynajit.eager import Tensor


def set_tensor_attribute(machine: Machine, receiver: TensorValue, name: str, item: Value) -> None:
    """`receiver.name = item`."""
    if overrides(receiver) and hasattr(Tensor, name):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{receiver.cls.__qualname__}.{name} = ...")
    if name == "data":
        _set_data(machine, receiver, item)
        return
    if name == "requires_grad":
        requires_grad_method(machine, receiver, [item], {})
        return
    if name == "grad":
        _check_gradient(machine, receiver, item)
    elif hasattr(receiver.cls, name) and (
        hasattr(Tensor, name) or hasattr(type(lookup(receiver.cls, name)), "__set__")
    ):
        raise GraphBreak(breaks.TENSOR_MUTATION, f"Tensor.{name} = ...")
    machine.recorder.use(receiver)
    store(machine, receiver, name, item)


def store(machine: Machine, tensor: TensorValue, name: str, item: Value) -> None:
    """Let a tensor have an attribute, which is stored after the launch."""
    contents: TensorContents = machine.heap[tensor.identity]
    attributes = {**contents.attributes, name: item}
    machine.heap.write(tensor.identity, replace(contents, attributes=attributes))


def _check_gradient(machine: Machine, receiver: TensorValue, item: Value) -> None:
    """Leave what eager execution refuses to it."""
    if is_none(machine, item):
        return
    if not isinstance(item, TensorValue):
        raise GraphBreak(breaks.TENSOR_FAILURE, "Tensor.grad = what is no tensor")
    mine, given = tensor_type(machine, receiver), tensor_type(machine, item)
    if (mine.shape, mine.dtype) != (given.shape, given.dtype) or item == receiver:
        raise GraphBreak(breaks.TENSOR_FAILURE, f"Tensor.grad = {given} for {mine}")


def _set_data(machine: Machine, receiver: TensorValue, item: Value) -> None:
    """`receiver.data = item`.

    Raises:
        GraphBreak: eager execution refuses it, or a gradient would have to pass.
    """
    if not isinstance(item, TensorValue):
        raise GraphBreak(breaks.TENSOR_FAILURE, "Tensor.data = what is no tensor")
    recorder = machine.recorder
    mine, given = tensor_type(machine, receiver), tensor_type(machine, item)
    if mine.dtype is not given.dtype or mine.device is not given.device:
        raise GraphBreak(breaks.TENSOR_FAILURE, f"Tensor.data = {given} for {mine}")
    if _is_own_data(machine, receiver, item):
        return
    existing = recorder.existing(receiver)
    if needs_gradient(machine, receiver):
        if existing is None or not is_leaf(machine, receiver).value:
            raise GraphBreak(breaks.AUTOGRAD_CALL, "Tensor.data = ... of a result")
        old = recorder.graph_value(receiver, is_detached=True).node
        builder = recorder.builder
        if any(old in n.args and builder.node_needs_gradient(n) for n in builder.nodes):
            raise GraphBreak(breaks.AUTOGRAD_CALL, "Tensor.data = ... while backward may need it")
    tensor_memory.replace_data(recorder, receiver, item)


def _is_own_data(machine: Machine, receiver: TensorValue, item: TensorValue) -> bool:
    """Whether a tensor looks at all that another one is given already: `w.data -= ...`."""
    if not tensor_memory.share_memory(machine.recorder, receiver, item):
        return False
    mine, given = machine.heap[receiver.identity], machine.heap[item.identity]
    is_plain = not (mine.has_new_data or given.has_new_data)
    return is_plain and tensor_memory.is_same_place(machine.recorder, mine, given)


def stored_attribute(machine: Machine, value: TensorValue, name: str) -> Value:
    """An attribute that no class has: stored by the user, or missing."""
    found = found_attribute(machine, value, name)
    if found is not None:
        return found
    if machine.recorder.existing(value) is not None:
        source = machine.recorder.first_source(value)
        machine.recorder.guard(source, Kind.HAS_NO_ATTRIBUTE, name, "attribute")
    raise_python(
        machine, AttributeError, f"'{value.cls.__name__}' object has no attribute '{name}'"
    )


def found_attribute(machine: Machine, value: TensorValue, name: str) -> Value | None:
    """What the program has stored in a tensor under a name, or None; that it has not is guarded."""
    contents: TensorContents = machine.heap[value.identity]
    if name in contents.attributes:
        return contents.attributes[name]
    existing = machine.recorder.existing(value)
    if existing is None:
        return None
    source = machine.recorder.first_source(value)
    if name not in vars(existing):
        machine.recorder.guard(source, Kind.INSTANCE_LACKS, name, "attribute")
        return None
    found: Value = machine.recorder.wrap(vars(existing)[name], sources.Attribute(source, name))
    machine.recorder.use(found)
    return found


def grad_of(machine: Machine, value: TensorValue) -> Value:
    """`value.grad`."""
    contents: TensorContents = machine.heap[value.identity]
    if "grad" in contents.attributes:
        return contents.attributes["grad"]
    existing = machine.recorder.existing(value)
    if existing is not None:
        is_silent = existing._grad is not None or existing.retains_grad
        if not (is_silent or is_leaf(machine, value).value):
            raise GraphBreak(breaks.AUTOGRAD_CALL, "Tensor.grad of a result gives a warning")
        return kept_by_leaf(machine, value, "grad")
    if needs_gradient(machine, value) and not contents.is_new_leaf:
        raise GraphBreak(breaks.AUTOGRAD_CALL, "Tensor.grad of a result")
    return NONE


def kept_by_leaf(machine: Machine, leaf: TensorValue, name: str) -> Value:
    """What a leaf has in a slot of its own, such as its hooks."""
    contents: TensorContents = machine.heap[leaf.identity]
    existing = machine.recorder.existing(leaf)
    if name in contents.attributes:
        return contents.attributes[name]
    if existing is None or isinstance(leaf.source, sources.LeafOf):
        return NONE
    machine.recorder.use(leaf)
    source = sources.Attribute(machine.recorder.first_source(leaf), name)
    found: Value = machine.recorder.wrap(getattr(existing, name), source)
    machine.recorder.use(found)
    return found


def data_of(machine: Machine, value: TensorValue) -> Value:
    """`value.data`."""
    return tensor_memory.data_of(machine.recorder, value, Tensor)


def is_leaf(machine: Machine, value: TensorValue) -> Constant:
    """`value.is_leaf`."""
    if not needs_gradient(machine, value):
        return constant(True)
    existing = machine.recorder.existing(value)
    contents: TensorContents = machine.heap[value.identity]
    if existing is None:
        return constant(contents.is_new_leaf)
    if contents.memory and not contents.has_new_data:
        memory: MemoryContents = machine.heap[contents.memory]
        if memory.has_history:
            return constant(False)
    use = MemoryUse.LEAF if existing.is_leaf else MemoryUse.RESULT
    source = machine.recorder.first_source(value)
    if isinstance(source, sources.LeafOf):
        return constant(True)
    machine.recorder.guard(source, Kind.SEPARATE_MEMORY, ((source, use),), "is_leaf")
    return constant(bool(existing.is_leaf))


def grad_fn_of(machine: Machine, value: TensorValue) -> Value:
    """`value.grad_fn`: None, or something else where that is all that the program asks.

    Raises:
        GraphBreak: it is the node of a tensor from outside.
        SkipFrame: it is the node of a result, which compiled code does not make.
    """
    if is_leaf(machine, value).value:
        return NONE
    if _is_compared_with_none(machine.frames[-1]):
        return constant(True)
    if machine.recorder.existing(value) is None:
        raise SkipFrame("the program looks at the grad_fn of a result", permanent=False)
    raise GraphBreak(breaks.AUTOGRAD_CALL, "Tensor.grad_fn of a tensor that has one")


def _is_compared_with_none(frame: Frame) -> bool:
    """Whether the instruction after this one only asks whether what this one gave is None."""
    following, test = frame.body.instructions[frame.index : frame.index + 2]
    if following.operation in ("POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE"):
        return True
    is_none_loaded = following.operation == "LOAD_CONST" and following.argument is None
    return is_none_loaded and test.operation == "IS_OP"


def requires_grad_method(
    machine: Machine, receiver: TensorValue, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """`receiver.requires_grad_(...)`, where it changes nothing or makes a leaf of what the
    captured code has computed."""
    given = [*args, *keywords.values()]
    wanted = True
    if given and isinstance(given[0], Constant):
        wanted = bool(given[0].value)
    if len(given) == 1 and not isinstance(given[0], Constant):
        raise GraphBreak(breaks.AUTOGRAD_CALL, "Tensor.requires_grad_()")
    if len(given) <= 1 and wanted == needs_gradient(machine, receiver):
        return receiver
    is_continuous = tensor_type(machine, receiver).dtype.category >= Category.FLOATING
    if len(given) > 1 or not is_continuous or machine.refusals.histories:
        raise GraphBreak(breaks.AUTOGRAD_CALL, "Tensor.requires_grad_()")
    if machine.recorder.existing(receiver) is not None:
        _let_existing(machine, receiver, wanted)
    elif wanted:
        tensor_memory.make_leaf(machine.recorder, receiver)
    else:
        raise GraphBreak(breaks.AUTOGRAD_CALL, "Tensor.requires_grad_(False) of a result")
    return receiver


def _let_existing(machine: Machine, leaf: TensorValue, wanted: bool) -> None:
    """A leaf from outside requires a gradient from here on, or does not."""
    if not is_leaf(machine, leaf).value or isinstance(leaf.source, sources.LeafOf):
        raise GraphBreak(breaks.AUTOGRAD_CALL, "Tensor.requires_grad_() of a result")
    if wanted:
        tensor_memory.make_leaf(machine.recorder, leaf)
    else:
        tensor_memory.freeze(machine.recorder, leaf)
    store(machine, leaf, "requires_grad", constant(wanted))
