"""Replace what a program says is to be replaced: parts of a graph by other operations.

Contract: a `Pattern` has two functions of the same operands. Where a graph computes what the first
one records, it computes what the second one records instead. Functions are recorded on values
(`ir.graph.Value`), the second one in the very graph.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dynajit.core.errors import ArgumentError, BackendError
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import ScalarType, TensorType, ValueType, types_agree
from dynajit.ir.graph import Builder, Graph, Value
from dynajit.ir.node import Argument, Node, NodeKind, literal_key, storage_root, type_of
from dynajit.ir.passes.eliminate_dead_code import eliminate_dead_code
from dynajit.ir.rebuild import as_operand, keep, rebuild
from dynajit.ops.table import dispatch
from dynajit.ops.table.op_table import TABLE, Kind

Function: TypeAlias = Callable[..., Any]
_Bound: TypeAlias = dict[Node, Argument]


@record(eq=False)
class Pattern:
    """What is replaced by what; made by `pattern`.

    Args:
        name: for messages.
        search, replacement: functions of the same operands that give one value.
        template: what `search` records for operands of some types.
    """

    name: str
    search: Function
    replacement: Function
    template: Graph

    @property
    def root(self) -> Node:
        """The template's result."""
        return _root(self.template)


def pattern(
    name: str, search: Function, replacement: Function, types: Sequence[ValueType]
) -> Pattern:
    """A pattern, tried out on operands of these types.

    Raises:
        ArgumentError: one of the functions cannot be recorded, draws random numbers or gives more
            than one tensor; `search` does not compute anything, or gives a view; or the two give
            values of other types.
    """
    graphs = []
    for role, function in (("search", search), ("replacement", replacement)):
        try:
            graph = _recorded(function, types)
        except Exception as error:
            raise ArgumentError(
                f"register_pattern({name}): the function {role} cannot be recorded for operands of "
                f"these types ({type(error).__name__}: {error})."
            ) from error
        reason = _why_not_a_pattern(graph, is_searched=role == "search")
        if reason is not None:
            raise ArgumentError(f"register_pattern({name}): the function {role} {reason}.")
        graphs.append(graph)
    found, made = (type_of(graph.outputs[0]) for graph in graphs)
    if found is None or made is None or not types_agree(found, made):
        raise ArgumentError(f"register_pattern({name}): {_disagreement(found, made)}.")
    return Pattern(name, search, replacement, graphs[0])


def replace_patterns(graph: Graph, patterns: Sequence[Pattern]) -> Graph:
    """The graph in which every part that a pattern describes is what its replacement records.

    Requires: differentiation is not done, so that the gradients are those of the replacement.
    Ensures: inputs, outputs and their types stay. A part is left alone if the graph needs one of
    its inner values elsewhere. What a pattern put in is not looked at for the same pattern again;
    patterns that come later see it. A result in the memory of an operand is copied, as the part
    that it replaces was in memory of its own.

    Raises:
        BackendError: a replacement raised, drew random numbers, or gave a value of another type.
    """
    for one in patterns:
        graph = _replaced(graph, one)
    return graph


def _replaced(graph: Graph, one: Pattern) -> Graph:
    users = graph.users()
    outputs = {output for output in graph.outputs if isinstance(output, Node)}
    new: dict[Node, Argument] = {}
    root_op = one.root.op

    def visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
        bound = _match(one, node, users, outputs) if node.op is root_op else None
        made = (
            keep(builder, node, args)
            if bound is None
            else _replacement(one, builder, node, [_in_new(a, new) for a in bound])
        )
        new[node] = made
        return made

    rebuilt = rebuild(graph, visit)
    if rebuilt.nodes == graph.nodes:
        return graph
    return eliminate_dead_code(rebuilt)


def _in_new(argument: Argument, new: Mapping[Node, Argument]) -> Argument:
    return new[argument] if isinstance(argument, Node) else argument


def _replacement(
    one: Pattern, builder: Builder, node: Node, operands: Sequence[Argument]
) -> Argument:
    """What stands for a node, appended to the new graph."""
    mark = builder.snapshot()
    try:
        made = one.replacement(*(as_operand(builder, operand) for operand in operands))
    except Exception as error:
        raise BackendError(
            f"register_pattern({one.name}): the replacement raised {type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, Value) or not types_agree(made.type, node.type):
        given = made.type if isinstance(made, Value) else type(made).__name__
        raise BackendError(f"register_pattern({one.name}): {_disagreement(node.type, given)}.")
    appended = builder.nodes_since(mark)
    if any(map(_draws, appended)):
        raise BackendError(f"register_pattern({one.name}): the replacement draws random numbers.")
    if storage_root(made.node) not in appended:
        return builder.call(TABLE.clone, [made], {}).node
    return made.node


# ---------------------------------------------------------------------------------------------
# finding


def _match(
    one: Pattern, node: Node, users: Mapping[Node, Sequence[Node]], outputs: set[Node]
) -> list[Argument] | None:
    """The operands with which `node` is what the pattern computes; None where it is not.

    First by operations alone; then the function is recorded once more for the very types, and
    attributes are compared, too: what a `dim` of -1 is depends on the operand.
    """
    loosely = _fit(one.root, node, exactly=False)
    if loosely is None:
        return None
    operands = [loosely[0].get(place) for place in one.template.inputs]
    if None in operands:  # an operand that the pattern does not use
        return None
    types = [type_of(operand) for operand in operands]
    try:
        template = _recorded(one.search, [kind for kind in types if kind is not None])
    except Exception:  # the user's function: for such operands it computes nothing
        return None
    found = _fit(_root(template), node, exactly=True)
    if found is None:
        return None
    bound, part = found
    inner = set(part) - {node}
    if inner & outputs or any(user not in part for each in inner for user in users[each]):
        return None
    return [bound[place] for place in template.inputs]


def _fit(root: Node, node: Node, exactly: bool) -> tuple[_Bound, set[Node]] | None:
    """Operands by placeholder, and the nodes of the graph that a template describes."""
    bound: _Bound = {}
    matched: dict[Node, Node] = {}

    def fits(wanted: Argument, given: Argument) -> bool:
        if not isinstance(wanted, Node):
            return not isinstance(given, Node) and literal_key(wanted) == literal_key(given)
        if wanted.kind is NodeKind.PLACEHOLDER:
            if wanted in bound:
                return _is_same(bound[wanted], given)
            bound[wanted] = given
            return _may_stand_for(wanted.type, given)
        if not isinstance(given, Node) or wanted.op is not given.op:
            return False
        if wanted.kind is NodeKind.CONSTANT:
            return given.kind is NodeKind.CONSTANT and _are_equal(wanted.value, given.value)
        if wanted in matched:
            return matched[wanted] is given
        matched[wanted] = given
        if exactly and not _have_equal_attributes(wanted, given):
            return False
        return len(wanted.args) == len(given.args) and all(map(fits, wanted.args, given.args))

    return (bound, set(matched.values())) if fits(root, node) else None


def _is_same(first: Argument, second: Argument) -> bool:
    if isinstance(first, Node) or isinstance(second, Node):
        return first is second
    return literal_key(first) == literal_key(second)


def _may_stand_for(wanted: ValueType, given: Argument) -> bool:
    """Whether a value is a tensor where a tensor is wanted, a number of a kind where that is."""
    kind = type_of(given)
    if isinstance(wanted, TensorType):
        return isinstance(kind, TensorType)
    return kind == wanted


def _are_equal(first: Any, second: Any) -> bool:
    """Whether two constants hold the same bits."""
    return bool(
        first.dtype == second.dtype
        and first.shape == second.shape
        and np.asarray(first).tobytes() == np.asarray(second).tobytes()
    )


def _have_equal_attributes(first: Node, second: Node) -> bool:
    return {name: literal_key(value) for name, value in first.attributes.items()} == {
        name: literal_key(value) for name, value in second.attributes.items()
    }


# ---------------------------------------------------------------------------------------------
# recording


def _recorded(function: Function, types: Sequence[ValueType]) -> Graph:
    """What a function computes of operands of some types."""
    builder = Builder("pattern")
    operands = [builder.placeholder(f"x{place}", kind) for place, kind in enumerate(types)]
    with dispatch.recording(builder.handle):
        result = function(*operands)
    results = result if isinstance(result, (tuple, list)) else (result,)
    return eliminate_dead_code(builder.finish(results))


def _root(template: Graph) -> Node:
    (root,) = template.outputs
    assert isinstance(root, Node), "looked at by _why_not_a_pattern"
    return root


def _why_not_a_pattern(graph: Graph, is_searched: bool) -> str | None:
    """Why a recorded function is none of a pattern's, or None."""
    if len(graph.outputs) != 1 or not isinstance(graph.outputs[0], Node):
        return "does not give one tensor"
    if any(map(_draws, graph.nodes)):
        return "draws random numbers"
    if not is_searched:
        return None
    if graph.outputs[0].kind is not NodeKind.CALL:
        return "computes nothing"
    if graph.outputs[0].is_view:
        return "gives a view, whose memory is that of an operand"
    used = {argument for node in graph.calls for argument in node.args}
    if not used >= set(graph.inputs):
        return "does not use all of its operands"
    return None


def _draws(node: Node) -> bool:
    return node.op is not None and node.op.kind is Kind.RANDOM


def _disagreement(found: Any, made: Any) -> str:
    return f"what is replaced is a {found}, the replacement gives a {made}"


def type_of_example(example: Any) -> ValueType:
    """The type of an operand by a tensor or a number like it.

    Raises:
        ArgumentError: it is neither.
    """
    if isinstance(example, (bool, int, float, complex)):
        return ScalarType(dtypes.category_of(example))
    try:
        return TensorType(tuple(example.shape), example.dtype, example.device)
    except AttributeError:
        raise ArgumentError(
            f"register_pattern: {type(example).__name__} is no example of an operand.  Expected "
            "tensors and numbers."
        ) from None
