"""Rows that have kernels of their own: convolutions, pools, attention, sorting orders, loop nests
over single elements, and loops whose bodies have kernels.

Contract: `why_not_native` decides from a call's operand types and attributes alone, so passes leave
exactly those composites whole that a kernel is printed for; every other call is expanded into rows
that code generation fuses. A kernel reads and writes row-major memory (those of attention, of
orders and of nests read any strides); a ReLU that alone reads a convolution is computed by its
kernel, and a pool's values and choices by one. Dims of windows are three in kernels: rows over
fewer have leading ones.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dynajit.codegen.loops.loop_ir import (
    Buffer,
    NativeKernel,
    NestKernel,
    NestOperand,
    TurnsKernel,
)
from dynajit.codegen.loops.turns import TURNS
from dynajit.codegen.plan import native_attention, native_ordering, turns
from dynajit.codegen.plan.matrices import Strided
from dynajit.core.types import dtypes
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import TensorType, ValueType, numel
from dynajit.ir.nests import NEST
from dynajit.ir.node import Node, type_of
from dynajit.ops.table.op_table import Kind

CONVOLUTIONS: Final = ("convolution", "convolution_input", "convolution_weight")
POOLS: Final = ("max_pool", "max_pool_choice", "sum_pool")
ATTENTION: Final = native_attention.NAMES
ORDERINGS: Final = native_ordering.NAMES
NAMES: Final = frozenset((*CONVOLUTIONS, *POOLS, "place_windows", *ATTENTION, *ORDERINGS))

_SEVERAL: Final = {NEST: "nest", TURNS: "turns"}
"""Rows of which each gives one of several results -> the attribute that says what is run."""

DTYPES: Final = (dtypes.float32, dtypes.float64)

MOST_CLASSES: Final = 64
"""Product of the strides up to which a transpose in x is computed class by class: each has a table
of taps."""

MOST_TAPS: Final = 1 << 16
"""Elements of a window: tables of taps stay small."""

DIMS: Final = 3


@dataclass(slots=True, eq=False)
class Native:
    """A call, or two that share a kernel. Mutable while planned.

    Args:
        node: the first call.
        reads: its operands.
        places: the operands with their strides, where the kernel reads any.
        numbers: positions of operands that are numbers among those that the graph is given.
        results: call -> where its result is stored.
        is_rectified: the kernel computes the following ReLU, too.
        needs: units that run before.
    """

    node: Node
    reads: tuple[Buffer | None, ...]
    places: tuple[Strided | None, ...] = ()
    numbers: tuple[int, ...] = ()
    results: dict[Node, Buffer] = field(default_factory=dict)
    is_rectified: bool = False
    needs: set[Any] = field(default_factory=set)

    @property
    def anchors(self) -> tuple[Node, ...]:
        """The calls."""
        return tuple(self.results) or (self.node,)

    def loads(self) -> set[Buffer]:
        """The operands."""
        return {buffer for buffer in self.reads if buffer is not None}


def is_native(node: Node) -> bool:
    """True for a composite that was left whole for its kernel, an order that has one, or a nest."""
    if node.op in _SEVERAL:
        return True
    if node.op is None or node.op.name not in ORDERINGS:
        is_composite = node.op is not None and node.op.kind is Kind.COMPOSITE
        return is_composite and not stays_whole(node)
    return native_ordering.why_not_ordering(type_of(node.args[0])) is None


def stays_whole(node: Node) -> bool:
    """True for a composite that no graph expands, see `Composite.stays`."""
    op = node.op
    if op is None or op.kind is not Kind.COMPOSITE or op.rule.stays is None:
        return False
    return bool(op.rule.stays(*map(type_of, node.args), **node.attributes))


def reads_strides(node: Node) -> bool:
    """True for a call whose kernel reads operands where they lie, whatever their strides."""
    return node.op is NEST or (node.op is not None and node.op.name in (*ATTENTION, *ORDERINGS))


def why_not_native(
    row: str, types: Sequence[ValueType | None], attributes: Mapping[str, Any]
) -> str | None:
    """Why a call of a composite has no kernel of its own, or None if it has."""
    if row not in NAMES:
        return f"{row} has no kernel of its own."
    if row in ATTENTION:
        return native_attention.why_not_attention(row, types, attributes)
    if row in ORDERINGS:
        return native_ordering.why_not_ordering(types[0])
    tensors = [type for type in types if isinstance(type, TensorType)]
    if len(tensors) != sum(type is not None for type in types):
        return "an operand is a number."
    floating = tensors[:1] if row == "place_windows" else tensors
    if any(t.dtype not in DTYPES or t.dtype is not floating[0].dtype for t in floating):
        return "the operands are not all float32 or all float64."
    if any(type.strides is not None and not type.is_contiguous for type in tensors):
        return "an operand is not row-major."
    if any(0 in type.shape for type in tensors):
        return "an operand is empty."
    size = _window(row, types, attributes)
    if len(size) > DIMS:
        return "windows have more than three dims."
    known = [k for k in size if isinstance(k, int)]
    if len(known) != len(size) or 0 in known or math.prod(known) > MOST_TAPS:
        return "the windows' size is not known, 0 or too large."
    if row in CONVOLUTIONS:
        return _why_not_convolution(row, size, attributes)
    if tensors[0].rank < len(size) or 0 in attributes.get("shape", ()):
        return "it is empty."
    return None


def _window(
    row: str, types: Sequence[ValueType | None], attributes: Mapping[str, Any]
) -> tuple[Number, ...]:
    if "size" in attributes:
        return tuple(attributes["size"])
    weight = types[1]
    assert isinstance(weight, TensorType)
    return weight.shape[2:]


def _why_not_convolution(
    row: str, size: Sequence[Number], attributes: Mapping[str, Any]
) -> str | None:
    edges = (*attributes["before"], *attributes["after"])
    strides = attributes["stride"]
    if all(k == 1 for k in size) and not any(edges):
        return "it is a matrix product."
    if row == "convolution_input":
        if math.prod(strides) > MOST_CLASSES:
            return "the strides are large."
        if 0 in attributes["shape"]:
            return "it is empty."
    return None


def partner_of(node: Node, units: Iterable[Any]) -> Native | None:
    """The planned kernel that also computes `node`: another row over the same operands."""
    assert node.op is not None
    if node.op in _SEVERAL:
        return next((unit for unit in units if _is_same_run(node, unit)), None)
    pair = POOLS[:2] if node.op.name in POOLS[:2] else native_attention.family_of(node.op.name)
    for unit in units if pair else ():
        if isinstance(unit, Native):
            other = unit.node
            assert other.op is not None
            is_same = other.args == node.args and other.attributes == node.attributes
            taken = [call.op.name for call in unit.results if call.op is not None]
            if other.op.name in pair and is_same and node.op.name not in taken:
                return unit
    return None


def _is_same_run(node: Node, unit: Any) -> bool:
    """Whether a planned kernel is the run of a nest, or of turns, that gives a further result."""
    if not isinstance(unit, Native) or unit.node.op is not node.op or node.op is None:
        return False
    name = _SEVERAL[node.op]
    taken = [call.attributes["result"] for call in unit.results]
    is_same = unit.node.attributes[name] is node.attributes[name] and unit.node.args == node.args
    return is_same and node.attributes["result"] not in taken


def folded_user(node: Node, users: Sequence[Node], outputs: Sequence[Node]) -> Node | None:
    """The ReLU that the kernel of a convolution computes: its only reader."""
    assert node.op is not None
    if node.op.name not in CONVOLUTIONS[:2] or len(users) != 1 or node in outputs:
        return None
    (user,) = users
    return user if user.op is not None and user.op.name == "relu" else None


# ---------------------------------------------------------------------------------------------
# as kernels


def lower_native(name: str, unit: Native) -> NativeKernel | NestKernel | TurnsKernel:
    """The kernel of a planned call."""
    node = unit.node
    assert node.op is not None
    if node.op is NEST:
        return _lower_nest(name, unit)
    if node.op is TURNS:
        return _lower_turns(name, unit)
    row = node.op.name
    if row in ATTENTION:
        return native_attention.lower_attention(name, node, unit.places, unit.results)
    if row in ORDERINGS:
        return native_ordering.lower_ordering(name, node, unit.places[0], unit.results)
    if row in CONVOLUTIONS:
        numbers = {**_convolution_sizes(row, node), "is_rectified": (int(unit.is_rectified),)}
    else:
        numbers = _pool_sizes(node)
    writes: tuple[Buffer | None, ...] = tuple(unit.results.values())
    if row in ("max_pool", "max_pool_choice"):
        by_row = {call.op.name: buffer for call, buffer in unit.results.items() if call.op}
        writes = (by_row.get("max_pool"), by_row.get("max_pool_choice"))
        row = "max_pool"
    return NativeKernel(name, row, unit.reads, writes, tuple(numbers.items()))


def _lower_nest(name: str, unit: Native) -> NestKernel:
    operands = []
    for argument, place in zip(unit.node.args, unit.places, strict=True):
        assert place is not None
        shape = _shape(argument)
        operands.append(NestOperand(place.buffer, place.offset, place.strides, shape))
    nest = unit.node.attributes["nest"]
    return NestKernel(name, nest, tuple(operands), _by_result(unit, len(nest.results)))


def _lower_turns(name: str, unit: Native) -> TurnsKernel:
    go, run = unit.node.args[0], unit.node.attributes["turns"]
    writes = _by_result(unit, run.handed + 1)
    return turns.lower(name, run, unit.reads, unit.numbers, writes, go is True)


def _by_result(unit: Native, count: int) -> tuple[Buffer | None, ...]:
    """Where each of so many results is stored."""
    found = {call.attributes["result"]: buffer for call, buffer in unit.results.items()}
    return tuple(found.get(result) for result in range(count))


def _three(sizes: Iterable[Number], lead: int) -> tuple[Number, ...]:
    given = tuple(sizes)
    return (*((lead,) * (DIMS - len(given))), *given)


def _geometry(attributes: Mapping[str, Any]) -> dict[str, tuple[Number, ...]]:
    return {
        "stride": _three(attributes["stride"], 1),
        "before": _three(attributes["before"], 0),
        "dilation": _three(attributes["dilation"], 1),
    }


def _shape(argument: Any) -> tuple[Number, ...]:
    shape: tuple[Number, ...] = argument.type.shape
    return shape


def _convolution_sizes(row: str, node: Node) -> dict[str, tuple[Number, ...]]:
    """Sizes as those of the convolution x, weight -> y, whichever of them is computed."""
    first, second, result = _shape(node.args[0]), _shape(node.args[1]), _shape(node)
    x, weight, y = {
        "convolution": (first, second, result),
        "convolution_input": (result, second, first),
        "convolution_weight": (second, result, first),
    }[row]
    groups = node.attributes["groups"]
    outputs = weight[0]
    return {
        "batch": (x[0],),
        "groups": (groups,),
        "outputs": (outputs // groups,),
        "channels": (weight[1],),
        "in": _three(x[2:], 1),
        "out": _three(y[2:], 1),
        "size": _three(weight[2:], 1),
        **_geometry(node.attributes),
    }


def _pool_sizes(node: Node) -> dict[str, tuple[Number, ...]]:
    """Sizes of the pool of x, whether its values are computed or put back."""
    size = node.attributes["size"]
    assert node.op is not None
    given, result = _shape(node.args[0]), _shape(node)
    wide, narrow = (result, given) if node.op.name == "place_windows" else (given, result)
    lead = len(given) - len(size)
    return {
        "planes": (numel(given[:lead]),),
        "in": _three(wide[lead:], 1),
        "out": _three(narrow[lead:], 1),
        "size": _three(size, 1),
        **_geometry(node.attributes),
    }
