"""Programs in a row as data that can lie on disk: native parts, and rows between them.

Contract: `to_data` and `from_data` turn a `MixedBlueprint` into what JSON can hold and back. Rows
are kept by their names, with arguments and attributes; graphs of theirs whose sizes are symbols, or
that hold constants, are not kept.
"""

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from dynajit.codegen.run import order
from dynajit.codegen.run.blueprints import Unstorable, literal
from dynajit.codegen.run.loop_program import LoopBlueprint
from dynajit.codegen.run.mixed_program import MixedBlueprint
from dynajit.core.types import dtypes
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.value_types import ScalarType, TensorType, ValueType
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.loops import Listed, Loop, Steps
from dynajit.ir.node import Node, NodeKind
from dynajit.ops.table.op_table import is_named, lookup


def to_data(
    blueprint: MixedBlueprint, part_to_data: Callable[[Any], dict[str, Any]]
) -> dict[str, Any]:
    """Dicts, lists, strings and numbers that JSON writes and reads unchanged.

    Raises:
        Unstorable: a part cannot be kept.
    """
    if None in blueprint.parts:
        raise Unstorable("a part has no blueprint")
    return {
        "name": blueprint.name,
        "places": dict(blueprint.places),
        "order": order.to_data(blueprint.order, literal),
        "reasons": blueprint.reasons,
        "parts": [
            {"rows": _graph_data(part)} if isinstance(part, Graph) else part_to_data(part)
            for part in blueprint.parts
        ],
    }


def from_data(
    data: Mapping[str, Any], part_from_data: Callable[[dict[str, Any]], Any]
) -> MixedBlueprint | None:
    """The blueprint that `to_data` was given; None if a part cannot be built here.

    Raises:
        KeyError, IndexError, TypeError, ValueError: the data is something else, or names a row
            that there is not.
    """
    parts = tuple(
        _graph(part["rows"]) if "rows" in part else part_from_data(part) for part in data["parts"]
    )
    if None in parts:
        return None
    places = {name: (position, dim) for name, (position, dim) in data["places"].items()}
    known = order.from_data(data["order"])
    return MixedBlueprint(data["name"], places, known, parts, tuple(data["reasons"]))


def loops_to_data(
    blueprint: LoopBlueprint, part_to_data: Callable[[Any], dict[str, Any]]
) -> dict[str, Any]:
    """The same of rows with loops.

    Raises:
        Unstorable: a part cannot be kept.
    """
    if None in blueprint.bodies:
        raise Unstorable("the body of a loop has no blueprint")
    return {
        "rows": _graph_data(blueprint.graph),
        "bodies": [part_to_data(body) for body in blueprint.bodies],
    }


def loops_from_data(
    data: Mapping[str, Any], part_from_data: Callable[[dict[str, Any]], Any]
) -> LoopBlueprint | None:
    """The blueprint that `loops_to_data` was given; None if a part cannot be built here.

    Raises:
        KeyError, IndexError, TypeError, ValueError: as for `from_data`.
    """
    bodies = tuple(part_from_data(body) for body in data["bodies"])
    return None if None in bodies else LoopBlueprint(_graph(data["rows"]), bodies)


# ---------------------------------------------------------------------------------------------
# rows


def _graph_data(graph: Graph) -> dict[str, Any]:
    numbers = {node: number for number, node in enumerate((*graph.inputs, *graph.calls))}
    if len(numbers) < len(graph.nodes):
        raise Unstorable("rows read a constant")
    return {
        "name": graph.name,
        "inputs": [(node.name, _type_data(node.type)) for node in graph.inputs],
        "calls": [_call_data(node, numbers) for node in graph.calls],
        "outputs": [numbers[output] for output in graph.outputs if isinstance(output, Node)],
    }


def _call_data(node: Node, numbers: Mapping[Node, int]) -> Any:
    if node.op is None or not is_named(node.op):
        raise Unstorable("a row has no name")
    arguments = [
        ("value", numbers[a]) if isinstance(a, Node) else ("literal", literal(a)) for a in node.args
    ]
    attributes = {name: _attribute_data(value) for name, value in node.attributes.items()}
    return node.name, node.op.name, arguments, attributes


def _graph(data: Mapping[str, Any]) -> Graph:
    builder = Builder(data["name"])
    nodes = [
        builder.adopt(Node(NodeKind.PLACEHOLDER, name, _type(type))).node
        for name, type in data["inputs"]
    ]
    for name, row, arguments, attributes in data["calls"]:
        args = [nodes[value] if kind == "value" else value for kind, value in arguments]
        named = {key: _attribute(value) for key, value in attributes.items()}
        nodes.append(builder.call(lookup(row), args, named, name=name).node)
    return builder.finish(nodes[number] for number in data["outputs"])


def _type_data(type: ValueType) -> Any:
    if isinstance(type, ScalarType):
        return type.category.name
    if not all(isinstance(size, int) for size in type.shape):
        raise Unstorable("rows have symbolic sizes")
    return type.dtype.name, type.shape, (type.device.type, type.device.index)


def _type(data: Any) -> ValueType:
    if isinstance(data, str):
        return ScalarType(Category[data])
    name, shape, device = data
    return TensorType(tuple(shape), dtypes.by_name(name), Device(*device))


def _loop_data(loop: Loop) -> dict[str, Any]:
    numbers = [
        ("steps", number.start, number.step)
        if isinstance(number, Steps)
        else ("listed", *number.values)
        for number in loop.numbers
    ]
    facts = (
        loop.carried, loop.collected, loop.tests, loop.stacked, loop.backwards, loop.unset,
        loop.active,
    )  # fmt: skip
    unit = loop.unit.name
    return {"body": _graph_data(loop.body), "numbers": numbers, "facts": facts, "unit": unit}


def _loop(data: Mapping[str, Any]) -> Loop:
    numbers = tuple(
        Steps(*rest) if kind == "steps" else Listed(tuple(rest)) for kind, *rest in data["numbers"]
    )
    body = _shared(json.dumps(data["body"]))
    carried, collected, tests, stacked, backwards, unset, active = data["facts"]
    return Loop(
        body, numbers, carried, collected, tests, stacked, backwards, unset, tuple(active),
        unit=dtypes.by_name(data["unit"]),
    )  # fmt: skip


@functools.lru_cache(maxsize=64)
def _shared(text: str) -> Graph:
    """The graph of a turn; one for all loops that have it."""
    return _graph(json.loads(text))


_PLAIN: Final = (type(None), bool, int, float, str)


def _attribute_data(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if type(value) is tuple:
        return {"tuple": [_attribute_data(entry) for entry in value]}
    if type(value) is DType:
        return {"dtype": value.name}
    if type(value) is Device:
        return {"device": (value.type, value.index)}
    if type(value) is Loop:
        return {"loop": _loop_data(value)}
    raise Unstorable(f"an attribute is a {type(value).__name__}")


def _attribute(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    ((kind, value),) = data.items()
    if kind == "tuple":
        return tuple([_attribute(entry) for entry in value])
    if kind == "loop":
        return _loop(value)
    return dtypes.by_name(value) if kind == "dtype" else Device(*value)
