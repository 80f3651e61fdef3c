"""Calls of mapped functions: one program for all samples.

`capture.library.transforms` inlines the mapped function on inputs that stand for one sample; here
are the functions that it calls before and after. The nodes recorded in between are taken out of the
graph, and `ir.transforms.batching` appends what stands for them with all samples.

Tensors that the function made are of one sample: none may be left behind but its results. So a
function that writes to what existed before breaks the graph, as does one that writes to its
samples; eager execution runs it. What was learnt in between stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.library import transforms
from dynajit.capture.machine.machine import Machine
from dynajit.capture.machine.recording import Mark
from dynajit.capture.python.basic import as_python, at_once, is_none
from dynajit.capture.python.builtins.table import special
from dynajit.capture.python.builtins.written_derivatives import has_written
from dynajit.capture.python.contents import list_items
from dynajit.capture.values.containers import ListValue, TupleValue
from dynajit.capture.values.symbolic import Known, Value
from dynajit.capture.values.tensors import MemoryContents, TensorContents, TensorValue
from dynajit.core.records import record
from dynajit.core.types.device import CPU
from dynajit.core.types.value_types import Size, TensorType
from dynajit.ir import graph
from dynajit.ir.node import storage_root
from dynajit.ir.transforms.batching import Held, batched
from dynajit.ops import TABLE
from dynajit.ops.table import dispatch
from dynajit.ops.table.sample_rules import Call, NoRule


@record
class Begun:
    """A call of a mapped function.

    Args:
        mark: in front of it.
        count: of samples.
        samples: what stands for one -> all of them, in dim 0.
        stand_ins: the tensors that the function gets for them.
    """

    mark: Mark
    count: Size
    samples: dict[graph.Node, graph.Value]
    stand_ins: tuple[TensorValue, ...]


def _refusal(what: str) -> GraphBreak:
    return GraphBreak(breaks.MAPPED_CALL, f"vmap: {what}")


def _items(machine: Machine, value: Value) -> Sequence[Value]:
    if isinstance(value, TupleValue):
        return value.items
    assert isinstance(value, ListValue)
    return list_items(machine, value)


@special(transforms.mapping_begins)
@at_once
def _begins(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    recorder = machine.recorder
    builder = recorder.builder
    leaves, dims = _items(machine, args[0]), _items(machine, args[1])
    given: list[graph.Value | None] = []
    with dispatch.recording(builder.handle):
        for leaf, dim in zip(leaves, dims, strict=True):
            whole = None
            if not is_none(machine, dim):
                assert isinstance(leaf, TensorValue)
                whole = _moved(recorder.graph_value(leaf), as_python(machine, dim), 0)
            given.append(whole)
    count = next(whole.shape[0] for whole in given if whole is not None)
    if not isinstance(count, int) or count < 1:
        count = _known_size(count)
    mark = recorder.mark()
    samples: dict[graph.Node, graph.Value] = {}
    found: list[Value] = []
    for leaf, whole in zip(leaves, given, strict=True):
        if whole is None:
            found.append(leaf)
            continue
        stand_in = _stand_in(recorder, whole)
        samples[stand_in.node] = whole
        found.append(recorder.new_tensor(stand_in))
    own = tuple(
        value
        for value, whole in zip(found, given, strict=True)
        if isinstance(value, TensorValue) and whole is not None
    )
    return TupleValue((TupleValue(tuple(found)), Known(Begun(mark, count, samples, own))))


def _known_size(count: Size) -> Size:
    if isinstance(count, int):
        raise _refusal("there are no samples")
    return count


def _moved(x: graph.Value, source: int, target: int) -> graph.Value:
    if source == target:
        return x
    order = [d for d in range(len(x.shape)) if d != source]
    order.insert(target, source)
    moved: graph.Value = TABLE.permute(x, dims=tuple(order))
    return moved


def _stand_in(recorder: Any, whole: graph.Value) -> graph.Value:
    """An input for one sample, which nothing will load."""
    builder = recorder.builder
    type = TensorType(tuple(whole.shape)[1:], whole.dtype, whole.device)
    stand_in: graph.Value = builder.input("sample", type, builder.needs_gradient(whole))
    strides = builder.strides_of(whole)
    builder.lay_out(stand_in, None if strides is None else strides[1:])
    return stand_in


@special(transforms.mapping_ends)
@at_once
def _ends(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    begun: Begun = args[0].object  # type: ignore[attr-defined]
    recorder, builder = machine.recorder, machine.recorder.builder
    results, dims = _items(machine, args[1]), _items(machine, args[2])
    _check_effects(machine, begun)
    held = [
        recorder.graph_value(value) if isinstance(value, TensorValue) else None for value in results
    ]
    draws, attributes_of = _draws(machine, begun, as_python(machine, args[3]))
    nodes = builder.take(begun.mark.nodes, list(begun.samples))
    known: dict[graph.Node, Held] = {node: (value, True) for node, value in begun.samples.items()}
    try:
        found = batched(builder, nodes, known, begun.count, draws, attributes_of)
    except NoRule as error:
        raise _refusal(f"{error} has no form for all samples") from error
    taken: set[graph.Node] = set()
    own = {value.node for value, _ in found.values() if isinstance(value, graph.Value)}
    whole = []
    with dispatch.recording(builder.handle):
        for value, before, dim in zip(results, held, dims, strict=True):
            if before is None:
                whole.append(value)
                continue
            value_of_all, flag = found.get(before.node, (before, False))
            place = None if is_none(machine, dim) else as_python(machine, dim)
            made = _result(value_of_all, flag, place, begun.count, own, taken)
            whole.append(recorder.new_tensor(made))
    return TupleValue(tuple(whole))


def _result(
    value: graph.Value,
    flag: bool,
    place: int | None,
    count: Size,
    own: set[graph.Node],
    taken: set[graph.Node],
) -> graph.Value:
    """What the caller gets: memory that nobody else has."""
    if place is None:
        if flag:
            raise _refusal("a result that samples have is not to be joined")
        return value
    call = Call(TABLE.clone, (value,), (flag,), {}, count)
    whole: graph.Value = call.front(0)
    root = storage_root(whole.node)
    if not flag or root not in own or root in taken:
        whole = TABLE.clone(whole)
    taken.add(root)
    return _moved(whole, 0, place % len(whole.shape))


def _check_effects(machine: Machine, begun: Begun) -> None:
    """Refuse what the function must not have done.

    Raises:
        GraphBreak: it wrote to what existed before, or to its samples.
    """
    for stand_in, node in zip(begun.stand_ins, begun.samples, strict=True):
        if machine.recorder.graph_value(stand_in).node is not node:
            raise _refusal("the function writes to its samples")
    if has_written(machine, begun.mark.heap, is_same=_is_same):
        raise _refusal("the function changes objects from outside")


def _is_same(a: Any, b: Any) -> bool:
    """Whether contents hold the same values: what was exchanged is back again."""
    if a is b:
        return True
    if type(a) is not type(b) or isinstance(a, (TensorContents, MemoryContents, Value)):
        return False
    if isinstance(a, Mapping):
        return [*a] == [*b] and all(map(_is_same, a.values(), b.values()))
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(_is_same, a, b))
    if is_dataclass(a):
        return all(_is_same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return isinstance(a, (bool, int, str)) and a == b


def _draws(machine: Machine, begun: Begun, randomness: str) -> tuple[bool, Any]:
    """Whether numbers are drawn for each sample, and what attributes its nodes then have.

    Raises:
        GraphBreak: nothing may be drawn.
    """
    recorder, before = machine.recorder, begun.mark.random_blocks
    if recorder.random_blocks is before:
        return False, None
    if randomness == "error":
        raise _refusal("the function draws random numbers")
    if randomness == "same":
        return False, None
    count = begun.count
    recorder.random_blocks = {
        device: before.get(device, 0) + (blocks - before.get(device, 0)) * count
        for device, blocks in recorder.random_blocks.items()
    }

    def attributes_of(node: graph.Node) -> Mapping[str, Any]:
        if "shift" not in node.attributes:
            return node.attributes
        type = node.type
        device = type.device if isinstance(type, TensorType) else CPU
        start = before.get(device, 0)
        return {**node.attributes, "shift": start + (node.attributes["shift"] - start) * count}

    return True, attributes_of
