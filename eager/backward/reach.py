"""Where gradients would go, without running backward: leaves, and nodes on the way to some."""

import operator
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from dynajit.core.errors import AutogradError
from dynajit.eager.tape.handles import BEGUN
from dynajit.eager.tape.node import Node, resolved

MSG_HIDDEN_VIEW: Final = (
    "the gradient of a view, or of a tensor after a write, is asked for (by grad(), retain_grad() "
    "or a hook), and a compiled function that took the view, or wrote, computed with it inside, "
    "where the gradient cannot be seen.  Do that before the compiled function, or put "
    "dynajit.graph_break() behind it."
)


def has_other_leaves(outputs: Sequence[Any], known: Sequence[Any]) -> bool:
    """Whether a gradient of the outputs would reach a leaf that is not among `known`.

    Outputs that hold samples have a history behind them, too.
    """
    seen = {id(x) for x in known}
    waiting: list[Any] = []
    for y in outputs:
        behind: Any = y
        while behind is not None:
            if behind.requires_grad:
                waiting.append(behind if behind.grad_fn is None else behind.grad_fn)
            behind = getattr(behind, "_batch", None)
    while waiting:
        target = waiting.pop()
        if id(target) in seen:
            continue
        seen.add(id(target))
        if not isinstance(target, Node):
            return True
        waiting += [edge for edge in target.edges if edge is not None]
    return False


_age = operator.attrgetter("sequence")


def leading_to(
    roots: Iterable[tuple[Node | None, int]], captures: dict[Node, set[int]], leaves: set[int]
) -> set[Node]:
    """The nodes below `roots` (node, output) that lead to captured nodes or chosen leaves.

    Of a node that knows which inputs an output reaches, only the outputs that are met count.
    """
    met: dict[Node, set[int]] = {}
    stack = [(node, index) for node, index in roots if node is not None]
    while stack:
        node, index = stack.pop()
        outputs = met.get(node)
        if outputs is None:
            met[node] = {index}
        elif not node.reached or index in outputs:
            continue
        else:
            outputs.add(index)
        if node.reached:
            stack += [end for end in _ends(node, (index,)) if isinstance(end[0], Node)]
            continue
        for edge, place in zip(edges_of(node), node.indices, strict=True):
            if isinstance(edge, Node):
                stack.append((edge, place))
    leading = {
        node
        for node in met
        if node.may_hide and any(view in captures for view, _ in node.hidden_views())
    }
    by_output: dict[Node, set[int]] = {}  # of nodes that know which inputs an output reaches

    def leads(edge: Any, place: int) -> bool:
        if not isinstance(edge, Node):
            return id(edge) in leaves
        if any(i == place or edge.hides(i, (place,)) for i in captures.get(edge, ())):
            return True
        return edge in leading and (edge not in by_output or place in by_output[edge])

    for node in sorted(met, key=_age):
        if not node.reached:
            ends = (resolved(*end) for end in zip(node.edges, node.indices, strict=True))
            if any(leads(*end) for end in ends):
                leading.add(node)
            continue
        found = {o for o in met[node] if any(leads(*end) for end in _ends(node, (o,)))}
        if found and node not in leading:
            leading.add(node)
            by_output[node] = found
    return leading


def refuse_hidden(roots: Sequence[tuple[Node | None, int]], captures: Collection[Node]) -> None:
    """Refuse the gradient of a view of what an unfolded node stands for: those operations have
    computed with another tensor of the same elements.

    Raises:
        AutogradError: gradients would pass by it.
    """
    below: set[Node] | None = None
    for view in captures:
        node: Any = view
        while isinstance(node, Node) and node.unfolded is None:
            node = node.edges[0] if node.edges else None
        if not isinstance(node, Node):
            continue
        below = nodes_below(node for node, _ in roots) if below is None else below
        for output, (place, _) in enumerate(node.unfolded or ()):
            if place in below and any(hidden is view for hidden, _ in node.hidden_views([output])):
                raise AutogradError(MSG_HIDDEN_VIEW)


def _ends(node: Node, outputs: Iterable[int]) -> list[tuple[Any, int]]:
    """Where gradients go that these outputs of a node send on."""
    positions = set().union(*(node.reached[output] for output in outputs))
    return [resolved(node.edges[i], node.indices[i]) for i in sorted(positions)]


def nodes_below(roots: Iterable[Node | None]) -> set[Node]:
    """The nodes that are reached from `roots`, and these."""
    found: set[Node] = set()
    stack = [root for root in roots if root is not None]
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found.add(node)
        stack.extend([edge for edge in edges_of(node) if isinstance(edge, Node)])
    return found


def edges_of(node: Node) -> Sequence[Any]:
    """Where the gradients of a node's inputs go."""
    edges = node.edges
    if not BEGUN.unfolding:
        return edges
    for edge in edges:
        if isinstance(edge, Node) and edge.unfolded is not None:
            return [resolved(e, i)[0] for e, i in zip(edges, node.indices, strict=True)]
    return edges
