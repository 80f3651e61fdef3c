"""From a graph value and an index to a scalar expression: rows are run symbolically.

Contract: `Elements.at(value, index)` is the expression of that element in the value's own dtype.
Stored values become loads; everything else is inlined by running its row's body or index map, so
movement rows only rewrite indices. What a kernel itself computes is answered by the kernel through
`own`.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from dynajit.codegen.loops.loop_ir import (
    Buffer,
    Compare,
    Expression,
    Index,
    Literal,
    Load,
    Parameter,
    Select,
    Word,
    walk,
)
from dynajit.codegen.loops.scans import is_inline_scan
from dynajit.codegen.loops.symbolic import DataIndices, Scalar, SymbolicScalars, cast, lift, literal
from dynajit.core.errors import InternalError
from dynajit.core.types import dtypes, symint
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import ScalarType, Shape, TensorType
from dynajit.ir.node import Node, NodeKind, type_of
from dynajit.ops.rows import random
from dynajit.ops.rows.movement import matching_groups
from dynajit.ops.table.families import promoted_dtype
from dynajit.ops.table.op_table import Kind

Own = Callable[[Node, tuple[Number, ...]], Expression | None]


def at_least_one(size: Number) -> Number:
    """The size; 1 for a known 0, so that it can be divided by."""
    return max(size, 1) if isinstance(size, int) else size


def linear(index: Sequence[Number], shape: Sequence[Number]) -> Number:
    """Row-major position of `index` in `shape`."""
    return _linear(tuple(index), tuple(shape))


# A kernel asks for the same few positions of many arrays, and while it is planned again and again.
@functools.lru_cache(maxsize=4096)
def _linear(index: tuple[Number, ...], shape: tuple[Number, ...]) -> Number:
    position: Number = 0
    for i, size in zip(index, shape, strict=True):
        position = position * size + i
    return position


def regroup(index: Sequence[Number], old: Shape, new: Shape) -> tuple[Number, ...]:
    """The index in shape `new` of the element that has `index` in shape `old` (row-major)."""
    return tuple(index) if old == new else _regroup(tuple(index), tuple(old), tuple(new))


@functools.lru_cache(maxsize=4096)
def _regroup(index: tuple[Number, ...], old: Shape, new: Shape) -> tuple[Number, ...]:
    result: list[Number] = [0] * len(new)
    for old_start, old_stop, new_start, new_stop in matching_groups(old, new):
        position = linear(index[old_start:old_stop], old[old_start:old_stop])
        kept = [d for d in range(new_start, new_stop) if new[d] != 1]
        for d in reversed(kept[1:]):
            size = at_least_one(new[d])
            result[d] = symint.mod(position, size)
            position = symint.floordiv(position, size)
        if kept:
            result[kept[0]] = position
    return tuple(result)


def scalar_dtype(type: ScalarType) -> DType:
    """dtype that carries a run-time number exactly: bool, int64 or float64."""
    return (dtypes.bool_, dtypes.int64, dtypes.float64)[type.category]


class Storage:
    """Which values have memory of their own. Mutable: fusion adds values.

    Args:
        inputs: the graph's placeholders, in order.
    """

    def __init__(self, inputs: Sequence[Node]) -> None:
        self.buffers: dict[Node, Buffer] = {}
        self.positions: dict[Node, int] = {}
        tensors = scalars = 0
        for node in inputs:
            if isinstance(node.type, TensorType):
                name = f"in{tensors}"
                self.buffers[node] = Buffer(name, node.type.dtype, node.type.numel)
                tensors += 1
            else:
                self.positions[node] = scalars
                scalars += 1

    def add(self, node: Node) -> Buffer:
        """The buffer of a value, made on first use."""
        found = self.buffers.get(node)
        if found is None:
            assert isinstance(node.type, TensorType)
            prefix = "constant" if node.kind is NodeKind.CONSTANT else "b"
            name = f"{prefix}{len(self.buffers)}_{node.name}"
            size = node.type.numel
            found = self.buffers[node] = Buffer(name, node.type.dtype, size)
        return found

    def only(self, node: Node) -> "Storage":
        """The same places, of the inputs and of one value."""
        made = Storage(())
        made.positions = self.positions
        made.buffers = {
            stored: buffer
            for stored, buffer in self.buffers.items()
            if stored is node or stored.kind is NodeKind.PLACEHOLDER
        }
        return made

    def load(self, node: Node, index: Sequence[Number]) -> Expression:
        """The stored element of a value at `index`."""
        assert isinstance(node.type, TensorType)
        strides = node.type.strides if node.kind is NodeKind.PLACEHOLDER else None
        if strides is None or node.type.is_contiguous:
            return Load(self.buffers[node], linear(index, node.type.shape))
        offset: Number = 0
        for i, stride in zip(index, strides, strict=True):
            offset = offset + i * stride
        return Load(self.buffers[node], offset)


def nothing(node: Node, index: Sequence[Number] = ()) -> Expression:
    """The element of an empty value, which is never evaluated.

    It must not load, since a printer may move it out of a loop of no turns. An index that is data
    is still checked.
    """
    assert isinstance(node.type, TensorType)
    dtype = node.type.dtype
    for i in index:
        if any(name.startswith("j") for name in symint.symbols(i)):
            return cast(position_expression(i), dtype)
    return literal(0, dtype)


def is_small_constant(node: Node) -> bool:
    """True for a constant of one element, which becomes a literal."""
    return node.kind is NodeKind.CONSTANT and node.value.size == 1


def is_inline_reduction(node: Node) -> bool:
    """True for a reduction of one element per result, which is no loop."""
    if node.op is None or node.op.kind is not Kind.REDUCTION:
        return False
    given = type_of(node.args[0])
    assert given is not None
    return all(given.shape[d] == 1 for d in node.attributes["dim"])


class Elements:
    """Expressions of graph values within one kernel. Mutable: remembers what it built.

    Args:
        storage: which values are loaded.
        own: `own(node, index)` -> expression of a value that this kernel computes, or None.
    """

    def __init__(self, storage: Storage, own: Own | None = None) -> None:
        self.storage = storage
        self.data_indices = DataIndices()
        self.inlined: dict[Node, Expression] = {}
        self.own_names: set[str] = set()  # of what indices the kernel's own values were asked for
        self._own = own
        self._known: dict[tuple[Node, tuple[Any, ...]], Expression] = {}

    def remembered(self) -> tuple[int, int]:
        """How much has been built; for `forget_since`."""
        return len(self.inlined), len(self._known)

    def forget_since(self, mark: tuple[int, int]) -> None:
        """Forget what was built after `mark`, for a value that this kernel does not take."""
        while len(self.inlined) > mark[0]:
            self.inlined.popitem()
        while len(self._known) > mark[1]:
            self._known.popitem()

    def take_over(self, other: "Elements") -> None:
        """Remember what another kernel of the same domain built, too."""
        self.inlined.update(other.inlined)
        self._known.update(other._known)

    def at(self, value: Any, index: Sequence[Number]) -> Expression:
        """The element of `value` (a node or a literal number) at `index`."""
        if isinstance(value, symint.SymInt):
            return Index(value)
        if not isinstance(value, Node):
            return literal(value, _widest(value))
        key = (value, tuple((type(i), i) for i in index))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._find(value, tuple(index))
        return found

    def _find(self, node: Node, index: tuple[Number, ...]) -> Expression:
        if isinstance(node.type, ScalarType):
            return self._scalar(node)
        if 0 in node.type.shape:
            return nothing(node, index)
        if self._own is not None:
            own = self._own(node, index)
            if own is not None:
                self.own_names.update(*map(symint.symbols, index))
                return own
        if is_small_constant(node):
            return literal(node.value.reshape(-1)[0].item(), node.type.dtype)
        if node.kind is NodeKind.CONSTANT:
            self.storage.add(node)
        if node in self.storage.buffers:
            return self.storage.load(node, index)
        return self.compute(node, index)

    def _scalar(self, node: Node) -> Expression:
        assert isinstance(node.type, ScalarType)
        if node.kind is not NodeKind.PLACEHOLDER:
            raise InternalError(f"{node.name}: a run-time number must be an input of the graph")
        return Parameter(self.storage.positions[node], scalar_dtype(node.type))

    def compute(self, node: Node, index: tuple[Number, ...]) -> Expression:
        """The expression of a value from its arguments, stored or not."""
        assert node.op is not None
        builder = _scan_of_one if is_inline_scan(node) else _BUILDERS.get(node.op.kind)
        if builder is None or (node.op.kind is Kind.REDUCTION and not is_inline_reduction(node)):
            raise InternalError(f"{node.name}: {node.op.name} cannot be computed in place")
        expression: Expression = builder(self, node, index)
        self.inlined[node] = expression
        return expression


def _widest(number: Any) -> DType:
    """Numbers stay exact until they meet a dtype."""
    return scalar_dtype(ScalarType(dtypes.category_of(number)))


def broadcast_index(index: Sequence[Number], shape: Shape) -> tuple[Number, ...]:
    """The index into an operand of `shape` that broadcasts to the result's index."""
    extra = len(index) - len(shape)
    return tuple(0 if size == 1 else index[d + extra] for d, size in enumerate(shape))


def _pointwise(elements: Elements, node: Node, index: tuple[Number, ...]) -> Expression:
    assert node.op is not None and isinstance(node.type, TensorType)
    rule = node.op.rule
    types = [type_of(argument) for argument in node.args]
    promoting = [
        type for name, type in zip(node.op.inputs, types, strict=True) if name not in rule.uncast
    ]
    promoted = promoted_dtype(promoting) if promoting else dtypes.bool_
    compute = rule.compute(promoted) if promoting else None
    operands = []
    for name, argument, type in zip(node.op.inputs, node.args, types, strict=True):
        if type is None:
            raise InternalError(f"{node.name}: None is no operand of {node.op.name}")
        value = elements.at(argument, broadcast_index(index, type.shape))
        if promoting and rule.rounds_to(type, promoted):
            value = cast(value, promoted)
        own = dtypes.compute_dtype(value.dtype)
        target = own if name in rule.uncast or compute is None else compute
        operands.append(Scalar(cast(value, target)))
    result = rule.body(SymbolicScalars(index), *operands, **node.attributes)
    return cast(lift(result, node.type.dtype), node.type.dtype)


def _movement(elements: Elements, node: Node, index: tuple[Number, ...]) -> Expression:
    assert node.op is not None and isinstance(node.type, TensorType)

    def load(k: int, position: Sequence[Number]) -> Scalar:
        return Scalar(elements.at(node.args[k], tuple(position)))

    types = [type_of(argument) for argument in node.args]
    asked = AskedIndices(elements)
    namespace = SymbolicScalars(index, asked)
    result = node.op.rule.read(namespace, load, index, types, **node.attributes)
    return asked.kept_in(cast(lift(result, node.type.dtype), node.type.dtype))


class AskedIndices:
    """The data indices of one row. Mutable: it notes those that are asked for.

    Args:
        elements: of the kernel.
    """

    def __init__(self, elements: Elements) -> None:
        self._elements = elements
        self._asked: list[tuple[Number, Number]] = []

    def __call__(self, value: Expression, size: Number, wrap: bool) -> Number:
        """As of `DataIndices`."""
        found = self._elements.data_indices(value, size, wrap)
        self._asked.append((found, size))
        return found

    def kept_in(self, expression: Expression, place: Number = 0) -> Expression:
        """The expression, for which every index is looked at.

        An element of a table that holds one value everywhere depends on no index, and one that is
        out of range is refused all the same.

        Args:
            place: where the expression's value goes, which looks at indices, too.
        """
        if not self._asked:
            return expression
        names = self._elements.own_names | symint.symbols(place)
        for part in walk((expression,)):
            for number in part.numbers:
                names |= symint.symbols(number)
        for position, size in self._asked:
            if not symint.symbols(position) & names:
                condition = Compare("less", position, size)
                expression = Select(condition, expression, literal(0, expression.dtype))
        return expression


def _random(elements: Elements, node: Node, index: tuple[Number, ...]) -> Expression:
    assert node.op is not None and isinstance(node.type, TensorType)
    rule, dtype = node.op.rule, node.attributes["dtype"]
    per_element = rule.words(dtype)
    seed, offset = (cast(elements.at(a, ()), dtypes.int64) for a in node.args)
    block = (Scalar(offset) + node.attributes["shift"]).expression
    first = linear(index, node.type.shape) * per_element
    words = tuple(Scalar(Word(seed, block, first + k)) for k in range(per_element))
    namespace = SymbolicScalars(index)
    own = random.attributes_of(node.attributes)
    result = rule.body(namespace, words, dtype, **own)
    return cast(lift(result, node.type.dtype), node.type.dtype)


def _reduction_of_one(elements: Elements, node: Node, index: tuple[Number, ...]) -> Expression:
    assert node.op is not None and isinstance(node.type, TensorType)
    given = type_of(node.args[0])
    assert isinstance(given, TensorType)
    dim = node.attributes["dim"]
    kept = iter(index)
    position: list[Number] = []
    for d in range(given.rank):
        if d in dim:
            if node.attributes["keepdim"]:
                next(kept)
            position.append(0)
        else:
            position.append(next(kept))
    rule = node.op.rule
    x = cast(elements.at(node.args[0], tuple(position)), rule.compute(given.dtype))
    namespace = SymbolicScalars()
    accumulator = rule.init(namespace, Scalar(x), Scalar(Literal(0, dtypes.int64)))
    result = rule.finish(namespace, accumulator)
    return cast(lift(result, node.type.dtype), node.type.dtype)


def _scan_of_one(elements: Elements, node: Node, index: tuple[Number, ...]) -> Expression:
    assert isinstance(node.type, TensorType)
    return cast(elements.at(node.args[0], index), node.type.dtype)


def position_expression(position: Number) -> Expression:
    """A position as a value."""
    return Literal(position, dtypes.int64) if isinstance(position, int) else Index(position)


_BUILDERS: dict[Kind, Callable[..., Expression]] = {
    Kind.POINTWISE: _pointwise,
    Kind.MOVEMENT: _movement,
    Kind.RANDOM: _random,
    Kind.REDUCTION: _reduction_of_one,
}
