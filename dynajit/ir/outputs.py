"""How a graph's outputs alias its inputs and each other, and how to give them out faithfully.

A view that a function returns must share memory with what it views: with an input, or with another
output. Such an output is not computed by the graph; its root is, and the view is taken again
afterwards, on the real tensor. `split_views` separates the two.
"""

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from dynajit.core.records import record
from dynajit.core.types.value_types import TensorType
from dynajit.ir import sizes
from dynajit.ir.graph import Argument, Graph, Node, NodeKind
from dynajit.ops.table.op_table import TABLE, Kind, Op

Step = tuple[Op, Mapping[str, Any]]

#: (what the split graph returned, what it was given) -> the user's outputs.
Taker = Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]


@record
class Recipe:
    """Where one user-visible output comes from.

    Args:
        source: "output" (of the split graph), "input" (of the graph) or "literal".
        index: position among the split graph's outputs or the inputs.
        literal: the number, for "literal".
        views: view rows to apply, in order.
        places: where the symbols in the attributes of `views` are found among the inputs.
    """

    source: str
    index: int = 0
    literal: Any = None
    views: tuple[Step, ...] = ()
    places: Mapping[str, sizes.Place] = field(default_factory=dict)

    def take(self, outputs: tuple[Any, ...], inputs: tuple[Any, ...]) -> Any:
        """The output, from what the split graph returned and what it was given."""
        if self.source == "literal":
            return self.literal
        value = outputs[self.index] if self.source == "output" else inputs[self.index]
        numbers = sizes.bind(self.places, inputs) if self.places else {}
        for op, attributes in self.views:
            value = op(value, **sizes.attributes(attributes, numbers))
        return value


@record
class SplitOutputs:
    """A graph that computes only roots, and one recipe per original output."""

    graph: Graph
    recipes: tuple[Recipe, ...]

    @property
    def is_trivial(self) -> bool:
        """True if the graph's outputs are the user's outputs as they are."""
        return all(
            recipe.source == "output" and recipe.index == place and not recipe.views
            for place, recipe in enumerate(self.recipes)
        )

    def taker(self) -> Taker:
        """What takes all of the user's outputs: by one selection, then the views."""
        count, recipes = len(self.graph.outputs), self.recipes
        views = [place for place, recipe in enumerate(recipes) if recipe.views]
        places = [r.index + count * (r.source == "input") for r in recipes]
        if len(recipes) == 1 or any(recipe.source == "literal" for recipe in recipes):
            return lambda results, inputs: tuple(r.take(results, inputs) for r in recipes)
        select = operator.itemgetter(*places)

        def take(results: tuple[Any, ...], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            taken: tuple[Any, ...] = select((*results, *inputs))
            if not views:
                return taken
            outputs = list(taken)
            for place in views:
                outputs[place] = recipes[place].take(results, inputs)
            return tuple(outputs)

        return take


def split_views(graph: Graph) -> SplitOutputs:
    """Separate outputs that alias an input or another output from what must be computed.

    Requires: nothing. Ensures: no output of the new graph is an input, a literal, a repetition,
    or a view of another output or of an input.
    """
    chains = [_root_of(output) for output in graph.outputs]
    shared = Counter(root for root, _ in chains if isinstance(root, Node))
    positions: dict[Node, int] = {}
    inputs = {node: place for place, node in enumerate(graph.inputs)}
    recipes = [
        _recipe(output, root, views, inputs, positions, shared.__getitem__)
        for output, (root, views) in zip(graph.outputs, chains, strict=True)
    ]
    places = sizes.symbol_places(graph)
    if places:
        recipes = [replace(recipe, places=places) if recipe.views else recipe for recipe in recipes]
    return SplitOutputs(Graph(graph.name, graph.nodes, tuple(positions)), tuple(recipes))


def made_from(
    calls: Iterable[Node], made: Sequence[Argument], seen: Sequence[Argument]
) -> tuple[frozenset[int], ...]:
    """Per value of `made` the places in `seen` of the values that it is computed from.

    Args:
        calls: the graph's operations, in order.
    """
    bits: dict[Argument, int] = {}
    for place, value in enumerate(seen):
        bits[value] = bits.get(value, 0) | 1 << place
    behind: dict[Argument, int] = {}
    for node in calls:
        mask = 0
        for argument in node.args:
            mask |= behind.get(argument, 0) | bits.get(argument, 0)
        if mask:
            behind[node] = mask
    return tuple(
        frozenset(place for place in range(len(seen)) if behind.get(value, 0) >> place & 1)
        for value in made
    )


def _recipe(
    output: Argument,
    root: Argument,
    views: tuple[Step, ...],
    inputs: dict[Node, int],
    positions: dict[Node, int],
    users: Callable[[Node], int],
) -> Recipe:
    if not isinstance(root, Node) or not isinstance(output, Node):
        return Recipe("literal", literal=output)
    if root in inputs:
        return Recipe("input", inputs[root], views=views)
    is_seen_so = any(op.rule.mirrors for op, _ in views)  # and not only laid out so
    if (
        views
        and users(root) == 1
        and not is_seen_so
        and (_is_part(output, root) or _is_reshaped(views))
    ):
        return Recipe("output", positions.setdefault(output, len(positions)))
    return Recipe("output", positions.setdefault(root, len(positions)), views=views)


def _root_of(output: Argument) -> tuple[Argument, tuple[Step, ...]]:
    """Follow view rows back to what they view; the steps that lead there again."""
    steps: list[Step] = []
    while isinstance(output, Node) and output.kind is NodeKind.CALL:
        op = output.op
        if op is None or op.kind is not Kind.MOVEMENT or not op.rule.view:
            break
        steps.append((op, output.attributes))
        output = output.args[0]
    return output, tuple(reversed(steps))


def _is_reshaped(views: tuple[Step, ...]) -> bool:
    """True if a view is its computed root in another shape: computed as that it is the same block
    of memory, and nothing has to be taken after the launch (vectors times matrices, `einsum`)."""
    return all(
        op is TABLE.reshape
        or (op is TABLE.permute and attributes["dims"] == tuple(range(len(attributes["dims"]))))
        for op, attributes in views
    )


def _is_part(view: Node, root: Node) -> bool:
    """True if computing the view alone is less work than its root, which nobody else sees."""
    if not isinstance(view.type, TensorType) or not isinstance(root.type, TensorType):
        return False
    part, whole = view.type.numel, root.type.numel
    return isinstance(part, int) and isinstance(whole, int) and part < whole
