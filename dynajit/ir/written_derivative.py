"""A derivative that a user wrote, captured as a graph: the attribute of a `with_derivative` row.

Contract: `extract` makes a graph of nodes that were recorded among others. It takes the gradient of
the row's result, the result itself if it reads it, and the operands that it reads; its outputs are
the gradients of the first operands of the row, which are sinks. Calling a `WrittenDerivative` runs
the graph on whatever the gradient is: values of a graph under construction, whose rows are recorded
there, or eager tensors. Made by `capture.python.builtins.written_derivatives`.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dynajit.core.records import record
from dynajit.ir.graph import Builder, Graph, Value
from dynajit.ir.interpret import replay
from dynajit.ir.node import Argument, Node


def derivative(
    function: Callable[..., Sequence[Any]], count: int, reads_result: bool
) -> Callable[[Any, Any, Sequence[Any]], list[Any]]:
    """A function as rows want it. Printed graphs call it, too.

    Args:
        function: (gradient, result if it is read, operands that are read) -> gradients.
        count: how many gradients it gives: that many operands are sinks, which come first.
        reads_result: see WrittenDerivative.
    """

    def call(gradient: Any, result: Any, operands: Sequence[Any]) -> list[Any]:
        read = operands[count:]
        first = [gradient, result] if reads_result else [gradient]
        return [*function(*first, *read), *[None] * len(read)]

    return call


@record(eq=False)
class WrittenDerivative:
    """See the module's text.

    Args:
        graph: see there; an output that is None is no gradient.
        reads_result: the result is its second input.
        constant: makes an eager tensor of a constant's array.
        once: decorates what computes gradients of eager tensors, where a second derivative is an
            error; None: there is one.
    """

    graph: Graph
    reads_result: bool
    constant: Callable[[Any], Any]
    once: Callable[..., Any] | None = None

    def __call__(self, gradient: Any, result: Any, operands: Sequence[Any]) -> list[Any]:
        """One gradient, or None, per operand.

        Args:
            gradient: of the row's result.
            result: the row's result; None where it is not read.
            operands: of the row after its value: sinks, then what the graph reads.
        """

        def run(context: Any, gradient: Any, *rest: Any) -> tuple[Any, ...]:
            return replay(self.graph, [gradient, *rest], self._constant_for(gradient))

        is_eager = not isinstance(gradient, Value)
        compute = self.once(run) if self.once is not None and is_eager else run
        found = derivative(
            functools.partial(compute, None), len(self.graph.outputs), self.reads_result
        )
        return found(gradient, result, operands)

    def _constant_for(self, gradient: Any) -> Callable[[Any], Any]:
        """What makes operands of arrays; a graph takes arrays as they are."""
        return (lambda array: array) if isinstance(gradient, Value) else self.constant


@record(eq=False)
class Extracted:
    """What `extract` found.

    Args:
        graph: see the module's text.
        reads_result: its second input is the result.
        read: what its other inputs stand for.
    """

    graph: Graph
    reads_result: bool
    read: tuple[Node, ...]


def extract(
    name: str,
    nodes: Sequence[Node],
    results: Sequence[Argument],
    gradient: Node,
    result: Node,
    instead: Mapping[Node, Node],
) -> Extracted:
    """A graph of its own for what computes gradients.

    Args:
        name: of the graph.
        nodes: recorded for it, arguments first; those that no result needs are left out.
        results: the gradients: nodes, or None.
        gradient, result: placeholders that stand for the gradient of the result, and for it.
        instead: node from outside -> one of `nodes` or `result` that is read in its place.
    """
    builder = Builder(name, reserved=(node.name for node in nodes))
    inside = _needed(nodes, results, instead)
    read: dict[Argument, Node] = {}

    def outer(argument: Argument) -> None:
        found = instead.get(argument, argument) if isinstance(argument, Node) else argument
        if isinstance(found, Node) and found not in inside and found is not gradient:
            read[found] = found

    for node in (node for node in nodes if node in inside):
        for argument in node.args:
            outer(argument)
    for argument in results:
        outer(argument)
    reads_result = read.pop(result, None) is not None
    first = [gradient, result] if reads_result else [gradient]
    new: dict[Argument, Argument] = {
        node: builder.placeholder(name, node.type).node
        for node, name in zip(first, ("gradient", "result"), strict=False)
    }
    new |= {node: builder.placeholder(node.name, node.type).node for node in read.values()}

    def within(argument: Argument) -> Argument:
        if not isinstance(argument, Node):
            return argument
        return new[instead.get(argument, argument)]

    for node in nodes:
        if node in inside:
            new[node] = builder.copy(node, tuple(map(within, node.args))).node
    return Extracted(builder.finish(map(within, results)), reads_result, tuple(read.values()))


def _needed(
    nodes: Sequence[Node], results: Sequence[Argument], instead: Mapping[Node, Node]
) -> set[Argument]:
    """Those of `nodes` that some result needs."""
    wanted: set[Argument] = set()

    def want(argument: Argument) -> None:
        if isinstance(argument, Node):
            wanted.add(instead.get(argument, argument))

    for argument in results:
        want(argument)
    for node in reversed(nodes):
        if node in wanted:
            for argument in node.args:
                want(argument)
    return wanted & set(nodes)
