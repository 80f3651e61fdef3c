"""Replace calls by cheaper ones that give the same bits.

Only identities that hold for every value are used, NaN, infinities, -0 and integer overflow
included. Not among them: x * 0 for floats (NaN, inf, -0), x + 0 for floats (-0 becomes 0),
x - x, pow(x, 0.5) (differs from sqrt at -0 and -inf), division by a number that is no power of
two. Most rules follow from facts of the row (`_of_facts`); those that belong to a single row are
at the end of the file, by its name.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.ir.graph import Builder, Graph, Value
from dynajit.ir.node import Argument, Node, NodeKind, storage_root
from dynajit.ir.rebuild import as_operand, keep, rebuild
from dynajit.ir.refusals import Refusals
from dynajit.ir.uniform import uniform_value, with_literals
from dynajit.ops.table.op_table import TABLE, Kind, Op


def simplify_algebra(graph: Graph) -> Graph:
    """The graph with every call replaced by the cheapest equal one that the rules know.

    Requires: differentiation is over (`detach` is dropped).
    Ensures: the same bits. A result that leaves the graph keeps its relation to other memory: what
    was computed is not replaced by an input or by another value, and an output that was no input
    does not become one. Operands that may refuse are not dropped.
    """
    builder = _Simplifier(graph.name, (node.name for node in graph.nodes))
    outputs = {output for output in graph.outputs if isinstance(output, Node)}
    leaving = {storage_root(output) for output in outputs}
    refusals = Refusals()

    def kept(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Node:
        new = keep(builder, node, args)
        refusals.add(new)
        return new

    def visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
        assert isinstance(builder, _Simplifier)
        if node.op is None:
            return keep(builder, node, args)
        args = with_literals(node.op, args, node)
        call = Call(node.op, args, node.attributes, node.type, builder)
        mark = builder.snapshot()
        found = builder.simplified(call)
        if found is None:
            return kept(builder, node, args)
        if _loses_refusals(refusals, args, found, builder, mark):
            builder.restore(mark)
            return kept(builder, node, args)
        is_seen = storage_root(node) in leaving
        if is_seen and _changes_memory(node, args, found, node in outputs, builder, mark):
            builder.restore(mark)
            return kept(builder, node, args)
        is_renamed = found.node.op is node.op and builder.is_last(mark, found.node)
        if is_renamed:
            found = builder.rename_last(node.name)
            refusals.add(found.node)
        return found

    return rebuild(graph, visit, builder)


@record
class Call:
    """What a rule looks at: an op with arguments in the new graph."""

    op: Op
    args: tuple[Argument, ...]
    attributes: Mapping[str, Any]
    type: ValueType
    builder: Builder

    @property
    def x(self) -> Any:
        """The first argument, as an operand."""
        return as_operand(self.builder, self.args[0])

    def operand(self, position: int) -> Any:
        """An argument, as an operand."""
        return as_operand(self.builder, self.args[position])

    def number(self, position: int) -> Any:
        """The number that an argument is everywhere, or None."""
        return uniform_value(self.args[position])

    def inner(self, name: str) -> Node | None:
        """The first argument if it is a call of the row `name`."""
        x = self.args[0]
        found = isinstance(x, Node) and x.op is not None and x.op.name == name
        return x if found and isinstance(x, Node) else None


Rule: TypeAlias = Callable[[Call], Any]


class _Simplifier(Builder):
    """A builder that simplifies what rules record."""

    def __init__(self, name: str, reserved: Iterable[str]) -> None:
        super().__init__(name, reserved)

    def handle(self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Record the call, or the cheaper one."""
        mark = self.snapshot()
        value = super().handle(op, inputs, attributes)
        node = value.node
        self.restore(mark)
        found = self.simplified(Call(op, node.args, attributes, node.type, self))
        return self.adopt(node) if found is None else found

    def simplified(self, call: Call) -> Value | None:
        """What the first fitting rule makes of a call; None if none fits."""
        for rule in _rules_of(call.op):
            mark = self.snapshot()
            found = rule(call)
            if isinstance(found, Value) and _is_same_type(found.type, call.type):
                return found
            self.restore(mark)
        return None


def _loses_refusals(
    refusals: Refusals,
    args: tuple[Argument, ...],
    found: Value,
    builder: Builder,
    mark: tuple[int, int],
) -> bool:
    """True if what refuses in the arguments is not in what stands for the call."""
    needed = refusals.of(args)
    if not needed:
        return False
    for node in builder.nodes_since(mark):
        refusals.add(node)
    return bool(needed & ~refusals.of((found.node,)))


def _is_same_type(a: ValueType, b: ValueType) -> bool:
    """True if equal but for strides, which are facts about storage, not about values."""
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)
    return a == b


def _changes_memory(
    node: Node,
    args: tuple[Argument, ...],
    found: Value,
    is_output: bool,
    builder: Builder,
    mark: tuple[int, int],
) -> bool:
    """True if using `found` for `node` would show in what memory the outputs share."""
    if is_output and found.node.kind is not NodeKind.CALL:
        return True
    root = storage_root(found.node)
    if node.is_view and isinstance(args[0], Node):
        return root is not storage_root(args[0])
    return not builder.has_since(mark, root)


# ---------------------------------------------------------------------------------------------
# rules


@functools.lru_cache(maxsize=512)  # rows of programs come and go
def _rules_of(op: Op) -> tuple[Rule, ...]:
    """The rules that simplify calls of a row, those that say most first."""
    return (*_of_facts(op), *RULES.get(op.name, ()))


def _of_facts(op: Op) -> Iterator[Rule]:
    if op.same is not None:
        yield _same
    if op.twice is not None:
        yield _once
    for name, is_neutral in op.neutral.items():
        yield _drop_neutral(op.inputs.index(name), is_neutral)
    if op.kind is Kind.REDUCTION and op.rule.single:
        yield _single_element
    if op.kind is Kind.MOVEMENT and op.rule.view and op.rule.rearranges:
        yield _rearranged_full


def _same(call: Call) -> Any:
    """x: the driver accepts it only if the type is the same."""
    assert call.op.same is not None
    return call.x if call.op.same(**call.attributes) else None


def _once(call: Call) -> Any:
    """One call, or none, for a call on the result of one of the same row."""
    inner = call.inner(call.op.name)
    if inner is None:
        return None
    assert call.op.twice is not None
    x = as_operand(call.builder, inner.args[0])
    attributes = call.op.twice(inner.attributes, call.attributes)
    return x if attributes is None else call.op(x, **attributes)


def _drop_neutral(position: int, is_neutral: Callable[[Any, DType], bool]) -> Rule:
    """x for `op(x, n)`, where argument `position` is a neutral number."""

    def rule(call: Call) -> Any:
        number = call.number(position)
        if number is None or not isinstance(call.type, TensorType):
            return None
        return call.operand(1 - position) if is_neutral(number, call.type.dtype) else None

    return rule


def _is_zero_product(call: Call) -> Any:
    """0 for a product of integers with 0."""
    if not isinstance(call.type, TensorType) or call.type.dtype.category is not Category.INTEGER:
        return None
    if 0 not in (call.number(0), call.number(1)):
        return None
    return _full(call, 0)


def _unsigned_magnitude(call: Call) -> Any:
    """`abs(x)` for `abs(-x)`, where negation does not wrap around: not for unsigned integers."""
    inner = call.inner("neg")
    if inner is None or not isinstance(call.type, TensorType) or not call.type.dtype.is_signed:
        return None
    return call.op(as_operand(call.builder, inner.args[0]))


def _square(call: Call) -> Any:
    """x * x for pow(x, 2): what `pow` computes for this exponent, without the call."""
    return TABLE.mul(call.x, call.x) if call.number(1) == 2 else None


def _multiply_by_inverse(call: Call) -> Any:
    """x * (1 / c) for x / c, where c is a power of two: both are then the exact quotient."""
    number = call.number(1)
    if isinstance(call.args[1], Node) or not isinstance(number, (int, float)):
        return None
    if number == 0 or not math.isfinite(number):
        return None
    mantissa, exponent = math.frexp(number)
    # Both c and 1 / c stay normal float32 numbers within this range of exponents.
    return TABLE.mul(call.x, 1 / number) if abs(mantissa) == 0.5 and abs(exponent) < 100 else None


def _source(call: Call) -> Any:
    """What was written: only derivatives tell it from the written tensor."""
    return call.operand(1)


def _cast_of_cast(call: Call) -> Any:
    """`cast(x)` for `cast(cast(x, wide))`, where x's values are exact in the wider dtype."""
    inner = call.inner("cast")
    if inner is None or not isinstance(inner.args[0], Node):
        return None
    source, wide = inner.args[0].type, inner.type
    if not isinstance(source, TensorType) or not isinstance(wide, TensorType):
        return None
    target = call.attributes["dtype"]
    if not _is_exact(source.dtype, wide.dtype, target):
        return None
    return TABLE.cast(as_operand(call.builder, inner.args[0]), dtype=target)


def _is_exact(source: DType, wide: DType, target: DType) -> bool:
    """True if going through `wide` from `source` to `target` loses nothing.

    Floats to integers out of range depend on the width of the float, so they are left alone.
    """
    if source.is_complex or wide.is_complex:
        return False
    if wide.category is Category.FLOATING and target.category is Category.INTEGER:
        return False
    if source.category is Category.BOOL:
        return True
    if source.category is wide.category:
        return dtypes.promote(source, wide) is wide
    mantissa = _MANTISSA_BITS.get(wide, 0)
    return source.category is Category.INTEGER and source.itemsize * 8 <= mantissa


# Integers of up to this many bits are exact. Source: IEEE 754-2008, table 3.5; bfloat16 has 8.
_MANTISSA_BITS: Final = {
    dtypes.float16: 11,
    dtypes.bfloat16: 8,
    dtypes.float32: 24,
    dtypes.float64: 53,
}


def _written_slice(call: Call) -> Any:
    """Of memory of which a slice was written: the value, for that slice; what was there before, for
    one that does not meet it."""
    inner = call.inner("slice_scatter")
    if inner is None:
        return None
    if _limits(inner) == _limits(call):
        return as_operand(call.builder, inner.args[1])
    if not _are_apart(inner.attributes, call.attributes):
        return None
    return TABLE.slice(as_operand(call.builder, inner.args[0]), **call.attributes)


def _overwritten_slice(call: Call) -> Any:
    """A write without the one before it to the same slice: `x[a:b] += y` writes what it has written
    once more at its end."""
    inner = call.inner("slice_scatter")
    if inner is None or _limits(inner) != _limits(call):
        return None
    x = as_operand(call.builder, inner.args[0])
    return TABLE.slice_scatter(x, call.operand(1), **call.attributes)


def _unchanged_slice(call: Call) -> Any:
    """x for x of which a slice is written into the same slice."""
    written = call.args[1]
    is_slice = isinstance(written, Node) and written.op is TABLE.slice
    if not isinstance(written, Node) or not is_slice or written.args[0] is not call.args[0]:
        return None
    return call.x if _limits(written) == _limits(call) else None


def _limits(call: "Call | Node") -> tuple[Any, ...]:
    attributes = call.attributes
    return attributes["start"], attributes["stop"], attributes["step"]


def _are_apart(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """True if two slices are known to have no element in common: they end before one begins."""
    return any(
        all(isinstance(limit, int) for limit in (first, last, other_first, other_last))
        and min(steps) > 0
        and (last <= other_first or other_last <= first)
        for first, last, other_first, other_last, *steps in zip(
            a["start"], a["stop"], b["start"], b["stop"], a["step"], b["step"], strict=True
        )
    )


def _rearranged_full(call: Call) -> Any:
    """`full` in the new shape for a view of a `full`."""
    inner = call.inner("full")
    if inner is None or isinstance(inner.args[0], Node):
        return None
    return _full(call, inner.args[0])


def _full(call: Call, number: Any) -> Any:
    assert isinstance(call.type, TensorType)
    type = call.type
    return TABLE.full(number, shape=type.shape, dtype=type.dtype, device=type.device)


def _single_input(call: Call) -> Any:
    return call.x if len(call.args) == 1 else None


def _known_choice(call: Call) -> Any:
    """The chosen side of `where`, if the condition is known or both sides are the same."""
    condition = call.number(0)
    if condition is not None:
        return call.operand(1 if condition else 2)
    return call.operand(1) if call.args[1] is call.args[2] else None


def _single_element(call: Call) -> Any:
    """x in the new shape for a reduction over no dims, or over dims of size 1."""
    sizes = call.x.shape
    if any(sizes[d] != 1 for d in call.attributes["dim"]):
        return None
    return TABLE.reshape(call.x, shape=call.type.shape)


def _single_term(call: Call) -> Any:
    """x + 0 in the new shape for such a sum: it starts from 0, which turns -0 into 0."""
    found = _single_element(call)
    return None if found is None else TABLE.add(found, 0)


RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "mul": (_is_zero_product,),
    "div": (_multiply_by_inverse,),
    "pow": (_square,),
    "abs": (_unsigned_magnitude,),
    "where": (_known_choice,),
    "cast": (_cast_of_cast,),
    "slice": (_written_slice,),
    "slice_scatter": (_unchanged_slice, _overwritten_slice),
    "overwrite": (_source,),
    "overwrite_unrecorded": (_source,),
    "cat": (_single_input,),
    "sum": (_single_term,),
}
