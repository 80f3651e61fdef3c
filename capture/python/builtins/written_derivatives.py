"""Calls of `autograd.Function`s: a value and a derivative in the graph.

`capture.library.autograd` inlines forward and backward; here are the functions that it calls in
between. Forward is recorded without gradients. Backward is recorded on inputs that stand for the
gradients of what forward gave; its nodes are then taken out of the graph, and become the attribute
of a row that carries a derivative (`ops.rows.written_derivatives`). Whatever else backward did is
undone: guards stay, and a backward that does more than compute breaks the graph, as does a forward
that writes to what existed before, since backward runs later.

Of several results one row computes all: they are laid one after the other, and cut apart again. A
result that shares memory with an argument is a copy here, and neither is written in the same graph.
Where both outlive the region somebody could tell: capture starts again, and breaks at the call.
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import Any, Final, NoReturn

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.library import autograd
from dynajit.capture.machine.machine import Machine
from dynajit.capture.machine.recording import Mark
from dynajit.capture.python.basic import at_once, is_none
from dynajit.capture.python.builtins.table import special
from dynajit.capture.python.contents import list_items
from dynajit.capture.python.tensors.facts import tensor_type
from dynajit.capture.tensors import memory as tensor_memory
from dynajit.capture.tensors.backward import Tape
from dynajit.capture.values.containers import ListValue, TupleValue
from dynajit.capture.values.objects import ObjectContents, ObjectValue
from dynajit.capture.values.symbolic import NONE, Known, Value, constant
from dynajit.capture.values.tensors import MemoryContents, TensorContents, TensorValue
from dynajit.core.errors import DTypeError, ShapeError
from dynajit.core.records import record
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import Size, TensorType, ValueType, numel
from dynajit.eager.backward.function import once_differentiable
from dynajit.eager.tensor.creation import from_numpy
from dynajit.ir import graph
from dynajit.ir.sizes import symbol_places, symbols
from dynajit.ir.written_derivative import Extracted, WrittenDerivative, extract
from dynajit.ops import TABLE
from dynajit.ops.table.families import sum_to_type

#: The code of every function that `once_differentiable` decorates.
_ONCE: Final = once_differentiable(lambda context: None).__code__


class SharingNoticed(Exception):
    """Capture must start again, without copies of what shares memory."""


@record
class Begun:
    """A call between its forward and the end of its backward.

    Args:
        function: the class.
        start: heap mark in front of forward.
        mark: in front of backward.
        arguments: of `apply`.
        output: what forward gave.
        results: those of it that have a gradient, in order.
        gradient: stands for the gradient of the (joined) results.
        result: stands for the results.
        instead: what a result held -> what stands for it.
        context: what forward left for backward.
    """

    function: type
    start: int
    mark: Mark
    arguments: tuple[Value, ...]
    output: Value
    results: tuple[TensorValue, ...]
    gradient: graph.Value
    result: graph.Value
    instead: dict[graph.Node, graph.Node]
    context: ObjectValue


def refuse_copies(recorder: Any, reached: Sequence[Value]) -> None:
    """Check that nobody can tell a result from the argument that it shares memory with.

    Args:
        recorder: of the capture.
        reached: what outlives the region.

    Raises:
        SharingNoticed: both outlive the region.
    """
    outside = {
        _base(recorder, value).identity for value in reached if isinstance(value, TensorValue)
    }
    for original, copy in recorder.copies:
        is_kept = original.identity in outside or recorder.heap.is_adopted(original.identity)
        if is_kept and copy.identity in outside:
            raise SharingNoticed


def _base(recorder: Any, value: TensorValue) -> TensorValue:
    """The tensor that all views of a memory start at."""
    contents: TensorContents = recorder.heap[value.identity]
    if not contents.memory:
        return value
    memory: MemoryContents = recorder.heap[contents.memory]
    return memory.base


def _refusal(function: type, what: str) -> GraphBreak:
    return GraphBreak(breaks.WRITTEN_DERIVATIVE, f"{function.__name__}.apply: {what}")


@special(autograd.forward_begins)
@at_once
def _forward_begins(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    return constant(machine.heap.mark())


@special(autograd.backward_begins)
@at_once
def _backward_begins(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    start, function, arguments, context, output = args
    assert isinstance(function, Known) and isinstance(arguments, TupleValue)
    assert isinstance(context, ObjectValue)
    cls, first = function.object, start.value  # type: ignore[attr-defined]
    told: ObjectContents = machine.heap[context.identity]
    _check_forward(machine, cls, first, context, told)
    given = output.items if isinstance(output, TupleValue) else (output,)
    without = {_identity(value) for value in _items(machine, told.written["non_differentiable"])}
    results = tuple(
        value
        for value in given
        if isinstance(value, TensorValue)
        and tensor_type(machine, value).dtype.category >= Category.FLOATING
        and value.identity not in without
    )
    if not results:
        return NONE
    materializes = bool(told.written["materialize_grads"].value)  # type: ignore[attr-defined]
    _check_results(machine, cls, first, results, materializes)
    mark = machine.recorder.mark()
    begun, parts = _stand_ins(machine, cls, first, mark, arguments.items, output, results, context)
    gradients = [
        parts[value.identity] if value in results else _no_gradient(machine, value, materializes)
        for value in given
    ]
    return TupleValue((TupleValue(tuple(gradients)), Known(begun)))


def _check_forward(
    machine: Machine, cls: type, start: int, context: ObjectValue, told: ObjectContents
) -> None:
    """Refuse what forward must not have done.

    Raises:
        GraphBreak: it wrote to what existed before, or runs under autocast.
    """
    machine.uses_autocast()
    if machine.recorder.autocast_word:
        raise _refusal(cls, "under autocast")
    if _items(machine, told.written["dirty"]):
        raise _refusal(cls, "forward writes to its arguments")
    if has_written(machine, start, {context.identity, *machine.recorder.output_ids}):
        raise _refusal(cls, "forward changes objects from outside")


def _check_results(
    machine: Machine, cls: type, start: int, results: Sequence[TensorValue], materializes: bool
) -> None:
    """Refuse results of which the graph has no form.

    Raises:
        GraphBreak: they are complex, hold attributes, or are several that differ in dtype, share
            memory, or whose gradients may be None.
    """
    types = [tensor_type(machine, value) for value in results]
    if any(type.dtype.is_complex for type in types):
        raise _refusal(cls, "complex results")
    if any(machine.heap[value.identity].attributes for value in results):
        raise _refusal(cls, "results with attributes")
    if machine.refusals.copies and any(_is_shared(machine, start, value) for value in results):
        raise _refusal(cls, "a result shares memory with an argument")
    if len(results) == 1:
        return
    if not materializes:
        raise _refusal(cls, "several results whose gradients may be None")
    if len({(type.dtype, type.device) for type in types}) > 1:
        raise _refusal(cls, "results of several dtypes")
    memories = [machine.heap[value.identity].memory or -value.identity for value in results]
    if len(set(memories)) < len(memories) or any(_is_shared(machine, start, v) for v in results):
        raise _refusal(cls, "several results that share memory")


def _is_shared(machine: Machine, start: int, value: TensorValue) -> bool:
    """True for a tensor whose memory existed before forward."""
    return not machine.heap.is_made_since(start, _base(machine.recorder, value).identity)


def has_written(
    machine: Machine,
    mark: int,
    besides: Set[int] = frozenset(),
    is_same: Callable[[Any, Any], bool] = lambda now, before: False,
) -> bool:
    """True if something that existed at a mark was written since.

    Args:
        besides: heap ids of what may be written.
        is_same: of contents that were written and do not count.
    """
    heap = machine.heap
    for identity, before in heap.written_since(mark).items():
        now = heap[identity]
        if identity in besides or now is before or is_same(now, before):
            continue
        if isinstance(now, TensorContents) and now.attributes is before.attributes:
            is_first = now.memory and not before.memory
            if not is_first or not heap[now.memory].version:
                continue  # what was found out about its memory
        if isinstance(now, MemoryContents) and now.version == before.version:
            continue
        if isinstance(now, Tape) and (now.hooks, now.retained) == (before.hooks, before.retained):
            continue  # what a run has let go of
        return True
    return False


def _stand_ins(
    machine: Machine,
    cls: type,
    start: int,
    mark: Mark,
    arguments: tuple[Value, ...],
    output: Value,
    results: tuple[TensorValue, ...],
    context: ObjectValue,
) -> tuple[Begun, dict[int, Value]]:
    """Inputs for the gradient and the result; and by heap id what stands for each gradient."""
    recorder = machine.recorder
    held = [recorder.graph_value(value) for value in results]
    joined = _type_of_joined([value.node.type for value in held])
    gradient = recorder.builder.input("gradient", joined, False)
    result = recorder.builder.input("result", joined, False)
    shapes = [value.shape for value in held]
    instead = {
        value.node: part.node
        for value, part, tensor in zip(held, _cut(result, shapes), results, strict=True)
        if not _is_argument(tensor, arguments)
    }
    parts: dict[int, Value] = {
        tensor.identity: recorder.new_tensor(part)
        for tensor, part in zip(results, _cut(gradient, shapes), strict=True)
    }
    begun = Begun(cls, start, mark, arguments, output, results, gradient, result, instead, context)
    return begun, parts


def _is_argument(tensor: TensorValue, arguments: Sequence[Value]) -> bool:
    return any(_identity(value) == tensor.identity for value in arguments)


def _identity(value: Value) -> int | None:
    return value.identity if isinstance(value, TensorValue) else None


def _type_of_joined(types: Sequence[ValueType]) -> TensorType:
    """The type of one result, or of several, one after the other."""
    first = types[0]
    assert isinstance(first, TensorType)
    if len(types) == 1:
        return TensorType(first.shape, first.dtype, first.device)
    count: Size = sum(numel(type.shape) for type in types)
    return TensorType((count,), first.dtype, first.device)


def _join(values: list[graph.Value]) -> graph.Value:
    if len(values) == 1:
        return values[0]
    flat = [TABLE.reshape(value, shape=(numel(value.shape),)) for value in values]
    joined: graph.Value = TABLE.cat(*flat, dim=0)
    return joined


def _cut(joined: graph.Value, shapes: list[Any]) -> list[graph.Value]:
    """The reverse of `_join`."""
    if len(shapes) == 1:
        return [joined]
    parts: list[graph.Value] = []
    start: Size = 0
    for shape in shapes:
        stop = start + numel(shape)
        part = TABLE.slice(joined, start=(start,), stop=(stop,), step=(1,))
        parts.append(TABLE.reshape(part, shape=tuple(shape)))
        start = stop
    return parts


def _no_gradient(machine: Machine, value: Value, materializes: bool) -> Value:
    """What backward gets for a result without a gradient."""
    if not materializes or not isinstance(value, TensorValue):
        return NONE
    type = tensor_type(machine, value)
    zeros: Value = machine.recorder.new_tensor(
        TABLE.full(0, shape=type.shape, dtype=type.dtype, device=type.device)
    )
    return zeros


@special(autograd.backward_fails)
@at_once
def _backward_fails(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> NoReturn:
    raise _refusal(args[0].object.function, "backward raises an error")  # type: ignore[attr-defined]


@special(autograd.forward_hands_on)
@at_once
def _forward_hands_on(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> NoReturn:
    function = args[0].object  # type: ignore[attr-defined]
    raise _refusal(function, "forward hands on a tensor that requires grad")


@special(autograd.backward_ends)
@at_once
def _backward_ends(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    begun: Begun = args[0].object  # type: ignore[attr-defined]
    recorder, builder = machine.recorder, machine.recorder.builder
    if recorder.random_blocks is not begun.mark.random_blocks:
        raise _refusal(begun.function, "backward draws random numbers")
    if has_written(machine, begun.mark.heap, {begun.context.identity}):
        raise _refusal(begun.function, "backward changes objects from outside")
    places, gradients = _gradients(machine, begun, args[1])
    stand_ins = (begun.gradient.node, begun.result.node)
    nodes = builder.take(begun.mark.nodes, stand_ins)
    name = f"{begun.function.__name__}Backward"
    found = extract(name, nodes, gradients, *stand_ins, begun.instead)
    if not symbols(found.graph) <= symbol_places(found.graph).keys() or _reads_sizes(found):
        raise _refusal(begun.function, "sizes that backward's operands do not show")
    machine.heap.restore(begun.mark.heap)
    return _results(machine, begun, places, found)


def _reads_sizes(found: Extracted) -> bool:
    """True if a size is read as a number: it has no value while graphs are joined."""
    return bool(symbols(found.graph) & {node.name for node in found.read})


def _gradients(machine: Machine, begun: Begun, given: Value) -> tuple[list[TensorValue], list[Any]]:
    """The arguments that want a gradient, and for each the node of its gradient, or None.

    Raises:
        GraphBreak: eager execution refuses them when backward runs.
    """
    values = _items(machine, given) if isinstance(given, (TupleValue, ListValue)) else [given]
    count = len(begun.arguments)
    if len(values) < count or not all(is_none(machine, value) for value in values[count:]):
        raise _refusal(begun.function, "the wrong number of gradients")
    places, gradients = [], []
    for argument, value in zip(begun.arguments, values, strict=False):
        is_given = not is_none(machine, value)
        if is_given and not (isinstance(argument, TensorValue) and isinstance(value, TensorValue)):
            raise _refusal(begun.function, "a gradient of what is no tensor, or that is none")
        if isinstance(argument, TensorValue) and _wants_gradient(machine, argument):
            places.append(argument)
            gradients.append(_fitted(machine, begun, argument, value) if is_given else None)
    return places, gradients


def _wants_gradient(machine: Machine, argument: TensorValue) -> bool:
    return bool(machine.recorder.builder.needs_gradient(machine.recorder.graph_value(argument)))


def _fitted(machine: Machine, begun: Begun, argument: TensorValue, value: Value) -> graph.Node:
    """A gradient in the type of its argument."""
    assert isinstance(value, TensorValue)
    wanted, found = tensor_type(machine, argument), machine.recorder.graph_value(value)
    try:
        fitted: graph.Value = sum_to_type(TABLE, found, wanted)
    except (ShapeError, DTypeError) as error:
        raise _refusal(begun.function, f"a gradient does not fit: {error}") from None
    return fitted.node


def _items(machine: Machine, value: Value) -> Sequence[Value]:
    """The items of a tuple or a list."""
    if isinstance(value, TupleValue):
        return value.items
    assert isinstance(value, ListValue)
    return list_items(machine, value)


def _results(
    machine: Machine, begun: Begun, places: Sequence[TensorValue], found: Extracted
) -> Value:
    """What forward gave, with its derivative."""
    recorder = machine.recorder
    is_once = getattr(begun.function.backward, "__code__", None) is _ONCE  # type: ignore[attr-defined]
    derivative = WrittenDerivative(
        found.graph, found.reads_result, from_numpy, once_differentiable if is_once else None
    )
    held = [_apart(machine, begun, value) for value in begun.results]
    sinks = [TABLE.gradient_sink(recorder.graph_value(value)) for value in places]
    read = [graph.Value(recorder.builder, node) for node in found.read]
    row = TABLE.with_derivative_of_result if found.reads_result else TABLE.with_derivative
    joined = row(_join(held), *sinks, *read, derivative=derivative)
    parts = _cut(joined, [value.shape for value in held])
    if len(parts) > 1:
        parts = [TABLE.clone(part) for part in parts]
    made = {
        tensor.identity: _result(machine, begun, tensor, part)
        for tensor, part in zip(begun.results, parts, strict=True)
    }
    if not isinstance(begun.output, TupleValue):
        return made[begun.results[0].identity]
    items = begun.output.items
    return TupleValue(
        tuple(
            made[v.identity] if isinstance(v, TensorValue) and v.identity in made else v
            for v in items
        )
    )


def _apart(machine: Machine, begun: Begun, tensor: TensorValue) -> graph.Value:
    """What a result holds: in memory that nobody writes to, since the row does not save it."""
    value: graph.Value = machine.recorder.graph_value(tensor)
    return TABLE.clone(value) if _is_shared(machine, begun.start, tensor) else value


def _result(machine: Machine, begun: Begun, tensor: TensorValue, value: graph.Value) -> TensorValue:
    """The tensor that the program gets: laid out as the one that forward gave."""
    recorder = machine.recorder
    recorder.builder.lay_out(value, tensor_memory.strides_of(recorder, tensor))
    made: TensorValue = recorder.new_tensor(value)
    if _is_shared(machine, begun.start, tensor):
        for each in (tensor, made):
            memory = tensor_memory.memory_of(recorder, each)
            machine.heap.write(memory, replace(machine.heap[memory], is_uncertain=True))
        recorder.copies.append((_base(recorder, tensor), made))
    return made
