"""Replace complex values by pairs of real ones, which kernels can compute.

A complex input or output becomes one real array with a last dimension of 2: the same memory, seen
as `view_as_real` sees it.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final, TypeAlias

from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType, contiguous_strides
from dynajit.ir.complex_pairs import NotPaired, Pair, PairScalars, paired
from dynajit.ir.graph import Builder, Graph, Value
from dynajit.ir.nests import NEST
from dynajit.ir.node import Node, NodeKind
from dynajit.ir.rebuild import keep
from dynajit.ops.table import dispatch
from dynajit.ops.table.op_table import TABLE, Kind, Op

Operand: TypeAlias = Any
"""A Pair, a Value or a number."""


@record
class Split:
    """A graph of real values.

    Args:
        graph: see the module.
        inputs, outputs: positions of those that stand for complex arrays -> the arrays' types.
    """

    graph: Graph
    inputs: Mapping[int, TensorType] = field(default_factory=dict)
    outputs: Mapping[int, TensorType] = field(default_factory=dict)

    def array_types(self) -> dict[Node, TensorType]:
        """Input or output that stands for a complex array -> the array's type."""
        graph = self.graph
        given = {graph.inputs[place]: type for place, type in self.inputs.items()}
        made = {graph.outputs[place]: type for place, type in self.outputs.items()}
        return {node: type for node, type in (given | made).items() if isinstance(node, Node)}


def split_complex_numbers(graph: Graph) -> Split:
    """The graph with pairs in the place of complex values; itself if it has none.

    Requires: no composite with a complex operand, no output that is a complex constant.
    Ensures: no value of the graph is complex.

    Raises:
        NotPaired: a row has no form for pairs.
    """
    if not any(_is_complex(node) for node in graph.nodes):
        return Split(graph)
    return _Splitter(graph).run()


def has_pairs(node: Node) -> bool:
    """True for a call of a library's function of complex numbers that pairs have a form of."""
    return (
        node.op is not None
        and node.op.pairs is not None
        and any(map(_is_complex, (node, *node.args)))
    )


def is_complex_constant(output: Any) -> bool:
    """True for an array of complex numbers that is known: who has it gives it out as it is."""
    return _is_complex(output) and output.kind is NodeKind.CONSTANT


def _is_complex(node: Any) -> bool:
    return (
        isinstance(node, Node) and isinstance(node.type, TensorType) and node.type.dtype.is_complex
    )


class _Splitter:
    """Builds the new graph. Mutable: `made` and `given` grow.

    Args:
        graph: the old one.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = Builder(graph.name, reserved=(node.name for node in graph.nodes))
        #: Old node -> Pair, node of the new graph, or number.
        self.made: dict[Node, Any] = {}
        #: Complex input, or view of floats -> what has its memory.
        self.given: dict[Node, Node] = {}

    def run(self) -> Split:
        with dispatch.recording(self.builder.handle):
            for node in self.graph.nodes:
                self.builder.location = node.location
                self.made[node] = self._visit(node)
            outputs = {node: self._output(node) for node in self.graph.outputs}
        graph = self.builder.finish(outputs[node] for node in self.graph.outputs)
        return Split(graph, _complex_types(self.graph.inputs), _complex_types(self.graph.outputs))

    def _visit(self, node: Node) -> Any:
        if node.kind is NodeKind.PLACEHOLDER:
            return self._input(node) if _is_complex(node) else self.builder.adopt(node).node
        if node.kind is NodeKind.CONSTANT:
            return self._constant(node) if _is_complex(node) else self.builder.adopt(node).node
        operands = [self._operand(argument) for argument in node.args]
        if node.op is TABLE.view_as_real and node.args[0] in self.given:
            return self.given[node.args[0]]
        if node.op is TABLE.view_as_complex and _lies_row_by_row(operands[0]):
            self.given[node] = operands[0].node
        if not _is_complex(node) and not any(isinstance(x, (Pair, complex)) for x in operands):
            return keep(self.builder, node, tuple(map(_bare, operands)))
        try:
            return self._whole(node, _rule_of(node)(node, operands))
        except NotPaired as reason:
            reason.node = node
            raise

    def _operand(self, argument: Any) -> Operand:
        if not isinstance(argument, Node):
            return argument
        made = self.made[argument]
        return Value(self.builder, made) if isinstance(made, Node) else made

    def _input(self, node: Node) -> Pair:
        type = node.type
        assert isinstance(type, TensorType)
        strides = type.strides or contiguous_strides(type.shape)
        whole = TensorType(
            (*type.shape, 2),
            dtypes.real_of(type.dtype),
            type.device,
            (*(2 * step for step in strides), 1),
        )
        value = self.builder.placeholder(node.name, whole)
        self.given[node] = value.node
        pair: Pair = _on_pairs(TABLE.view_as_complex, value)
        return pair

    def _constant(self, node: Node) -> Pair:
        array, type = node.value, node.type
        assert isinstance(type, TensorType)
        return Pair(
            self.builder.constant(array.real.copy(), f"{node.name}_re", type.device),
            self.builder.constant(array.imag.copy(), f"{node.name}_im", type.device),
        )

    def _whole(self, node: Node, result: Any) -> Any:
        """The result with its full shape: a Pair, or a node."""
        type = node.type
        assert isinstance(type, TensorType)
        if isinstance(result, Pair):
            if not type.dtype.is_complex:
                raise NotPaired(f"{node.name}: a complex result")
            real = type.with_dtype(dtypes.real_of(type.dtype))
            return Pair(_filled(result.re, real), _filled(result.im, real))
        return _filled(result, type).node

    def _output(self, output: Any) -> Any:
        made = self.made[output] if isinstance(output, Node) else output
        if not isinstance(made, Pair):
            return self._copied(made) if self._is_seen_as_floats(output) else made
        if output in self.given:
            return self.given[output]
        assert output.kind is NodeKind.CALL, "a complex constant"
        whole: Value = _on_pairs(TABLE.view_as_real, made)
        return whole.node

    def _is_seen_as_floats(self, output: Any) -> bool:
        """Whether an output is a view of a complex input, which callers know as complex."""
        is_call = isinstance(output, Node) and output.op is TABLE.view_as_real
        return is_call and output.args[0] in self.given

    def _copied(self, node: Node) -> Node:
        copy: Value = TABLE.clone(Value(self.builder, node))
        return copy.node


def _lies_row_by_row(operand: Operand) -> bool:
    """Whether real numbers are a result of a row that lies as others ask for it."""
    return isinstance(operand, Value) and operand.node.op is NEST


def _rule_of(node: Node) -> "_Rule":
    op = _row(node)
    rule = _of_row if op.pairs is not None else _BY_KIND.get(op.kind)
    if rule is None:
        raise NotPaired(f"{op.name} of complex numbers")
    return rule


def _complex_types(nodes: Any) -> Mapping[int, TensorType]:
    return {position: node.type for position, node in enumerate(nodes) if _is_complex(node)}


def _bare(operand: Operand) -> Any:
    return operand.node if isinstance(operand, Value) else operand


def _filled(part: Any, type: TensorType) -> Value:
    """A real part as a value of the full shape and dtype."""
    if not isinstance(part, Value):
        return TABLE.full(part, shape=type.shape, dtype=type.dtype, device=type.device)  # type: ignore[no-any-return]
    if part.dtype is not type.dtype:
        part = TABLE.cast(part, dtype=type.dtype)
    filled: Value = part if part.shape == type.shape else TABLE.expand(part, shape=type.shape)
    return filled


# -- rows, by kind ---------------------------------------------------------------------------


def _pointwise(node: Node, operands: list[Operand]) -> Any:
    """The row's body, run on pairs."""
    op, rule = _row(node), _row(node).rule
    types = [a.type for a in node.args if isinstance(a, Node) and isinstance(a.type, TensorType)]
    compute = rule.compute(_widest([node.type] if _is_complex(node) else types))
    real = dtypes.real_of(compute) if compute.is_complex else compute
    given = [
        x if name in rule.uncast else _in(x, real)
        for name, x in zip(op.inputs, operands, strict=True)
    ]
    return rule.body(PairScalars(real), *given, **node.attributes)


def _widest(types: list[Any]) -> Any:
    return max((type.dtype for type in types), key=lambda dtype: (dtype.category, dtype.itemsize))


def _in(operand: Operand, real: Any) -> Pair:
    """An operand as a pair with parts of one dtype."""
    pair = paired(operand)
    return Pair(*(
        part if not isinstance(part, Value) or part.dtype is real else TABLE.cast(part, dtype=real)
        for part in (pair.re, pair.im)
    ))  # fmt: skip


def _by_parts(node: Node, operands: list[Operand]) -> Any:
    """Rows that move elements or add them up: the same for each part.

    Real numbers beside complex ones are such with an imaginary part 0; integers are indices.
    """
    op = _row(node)
    if not _is_complex(node):
        raise NotPaired(f"{op.name} of complex numbers")

    def part(operand: Operand, which: int) -> Any:
        if isinstance(operand, (complex, float)):
            return (operand.real, operand.imag)[which]
        if isinstance(operand, Pair):
            return (operand.re, operand.im)[which]
        if isinstance(operand, Value) and operand.dtype.is_floating_point and which:
            return TABLE.full(0.0, shape=operand.shape, dtype=operand.dtype, device=operand.device)
        return operand

    return Pair(*(
        op(*(part(x, which) for x in operands), **_attributes(node, which)) for which in (0, 1)
    ))  # fmt: skip


def _attributes(node: Node, which: int) -> dict[str, Any]:
    """Numbers among the attributes (what is padded with) by parts; a dtype is that of the parts."""
    return {name: _attribute(name, value, which) for name, value in node.attributes.items()}


def _attribute(name: str, value: Any, which: int) -> Any:
    if isinstance(value, dtypes.DType) and value.is_complex:
        return dtypes.real_of(value)
    if name == "value" and isinstance(value, (bool, int, float, complex)):
        return (complex(value).real, complex(value).imag)[which]
    return value


def _sum(node: Node, operands: list[Operand]) -> Any:
    """Sums by parts; other reductions of complex numbers have no order to reduce in."""
    if _row(node).rule.ufunc != "add":
        raise NotPaired(f"{_row(node).name} of complex numbers")
    return _by_parts(node, operands)


def _row(node: Node) -> Op:
    assert node.op is not None
    return node.op


def _of_row(node: Node, operands: list[Operand]) -> Any:
    return _on_pairs(_row(node), *operands)


def _on_pairs(op: Op, *operands: Operand) -> Any:
    """What the row itself says of pairs."""
    assert op.pairs is not None
    given = ((x.re, x.im) if isinstance(x, Pair) else x for x in operands)
    result = op.pairs(TABLE, *given)
    return Pair(*result) if isinstance(result, tuple) else result


_Rule: TypeAlias = Callable[[Node, list[Operand]], Any]

_BY_KIND: Final[Mapping[Kind, _Rule]] = {
    Kind.POINTWISE: _pointwise,
    Kind.MOVEMENT: _by_parts,
    Kind.SCATTER: _by_parts,
    Kind.REDUCTION: _sum,
}
