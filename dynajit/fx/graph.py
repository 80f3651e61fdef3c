"""Graphs that programs trace, build and change, by PyTorch's path.

Contract: nodes are in the order in which they run; a node's inputs come before it (`lint` checks
it). `python_code` is a graph as a function's text, see `fx.code`. Made by `fx.Tracer` and by users.
"""

import builtins
import contextlib
import inspect
import keyword
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from dynajit.core.errors import InvalidValueError, OperatorError
from dynajit.core.quoting import on_a_line
from dynajit.fx.code import PythonCode, code_of
from dynajit.fx.node import Argument, Node, Target, map_arg

#: Names that no value may have.
_TAKEN: Final = frozenset((*keyword.kwlist, *dir(builtins), "self", "torch"))


class Graph:
    """A list of nodes. Mutable.

    Args:
        owning_module: the module that it is the code of.
        tracer_cls: the class that made it; kept.
    """

    def __init__(
        self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None
    ) -> None:
        self.owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._list: list[Node] = []
        self._names: set[str] = set()
        self._root = Node(self, "", "root", "", (), {})
        self._place: tuple[Node, int] | None = None

    # -- reading ---------------------------------------------------------------------------

    @property
    def nodes(self) -> "_Nodes":
        """The nodes in order; the graph may change while they are walked."""
        return _Nodes(self._list)

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of one kind (and target), in order."""
        return [n for n in self._list if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:
        """The node that gives the result."""
        return next(node for node in reversed(self._list) if node.op == "output")

    def _index(self, node: Node) -> int:
        return self._list.index(node)

    def _neighbour(self, node: Node, step: int) -> Node:
        place = self._index(node) + step
        return self._list[place] if 0 <= place < len(self._list) else self._root

    # -- making ----------------------------------------------------------------------------

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A new node, at the end or where `inserting_before` says; see `Node`."""
        wanted = name if name is not None else _target_name(op, target)
        node = Node(self, self._unique(wanted), op, target, args or (), kwargs or {}, type_expr)
        if self._place is None:
            self._list.append(node)
        else:
            beside, step = self._place
            self._list.insert(self._index(beside) + step if beside is not self._root else 0, node)
            if step == 1:
                self._place = (node, 1)
        return node

    def placeholder(
        self, name: str, type_expr: Any = None, default_value: Any = inspect.Signature.empty
    ) -> Node:
        """An argument; `default_value` is what it is where nothing is given."""
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """An attribute of the module, by its dotted name."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A call of a module below, by its dotted name."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A call of a method of `args[0]`."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """What the graph gives back."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] = lambda node: node
    ) -> Node:
        """A node of another graph, whose inputs are what `arg_transform` says."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(
        self, g: "Graph", val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Any:
        """The nodes of another graph, but for its output.

        Args:
            val_map: is filled: node of `g` -> its copy here; those that are in it are not copied.

        Returns:
            What the output gives, in nodes of this graph (and the output's node of `g`).
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def _unique(self, wanted: str) -> str:
        base = re.sub(r"[^0-9a-zA-Z_]+", "_", wanted)
        base = f"_{base}" if not base or base[0].isdigit() else base
        name, count = base, 0
        while name in self._names or name in _TAKEN:
            count += 1
            name = f"{base}_{count}"
        self._names.add(name)
        return name

    # -- changing --------------------------------------------------------------------------

    @contextlib.contextmanager
    def _inserting(self, place: tuple[Node, int]) -> Iterator[None]:
        before, self._place = self._place, place
        try:
            yield
        finally:
            self._place = before

    def inserting_before(self, n: Node | None = None) -> Any:
        """A block in which new nodes are made before `n`; None: before all."""
        return self._inserting((n or self._root, 0))

    def inserting_after(self, n: Node | None = None) -> Any:
        """A block in which new nodes are made after `n`, in order; None: before all."""
        return self._inserting((n or self._root, 1))

    def _move(self, node: Node, beside: Node, step: int) -> None:
        if node is not beside:
            self._list.remove(node)
            self._list.insert(self._index(beside) + step, node)

    def erase_node(self, to_erase: Node) -> None:
        """Take a node out that nobody uses.

        Raises:
            OperatorError, a RuntimeError: somebody does.
        """
        if to_erase.users:
            raise OperatorError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {list(to_erase.users)}!"
            )
        to_erase._change((), {})
        self._list.remove(to_erase)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take out the nodes that nobody uses; True if there were such."""
        keeps = is_impure_node or Node.is_impure
        dead = False
        for node in reversed(tuple(self._list)):
            if not node.users and not keeps(node):
                self.erase_node(node)
                dead = True
        return dead

    def lint(self) -> None:
        """Check that inputs come before what uses them, and that names differ.

        Raises:
            OperatorError, a RuntimeError: it is not so.
        """
        seen: set[Node] = set()
        for node in self._list:
            for used in node.all_input_nodes:
                if used not in seen:
                    raise OperatorError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! "
                        "Please check that Nodes in the graph are topologically ordered"
                    )
            seen.add(node)
        if len({node.name for node in seen}) != len(seen):
            raise InvalidValueError("Graph.lint: two nodes have one name.")

    # -- text ------------------------------------------------------------------------------

    def python_code(self, root_module: str, *, verbose: bool = False) -> PythonCode:
        """The graph as the text of a function `forward`, whose module is called `root_module`."""
        return code_of(self._list, root_module)

    def print_tabular(self) -> None:
        """Print a line per node."""
        for node in self._list:
            print(node.op, node.name, node.target, node.args, node.kwargs, sep="  ")

    def __str__(self) -> str:
        lines = [node.format_node() for node in self._list]
        return "graph():" + "".join(f"\n    {on_a_line(line)}" for line in lines if line)

    def __deepcopy__(self, memo: Any = None) -> "Graph":
        copied = Graph(tracer_cls=self._tracer_cls)
        result, node = copied.graph_copy(self, {}, return_output_node=True) or (None, None)
        if node is not None:
            copied.output(result, node.type).meta = dict(node.meta)
        return copied


class _Nodes:
    """The nodes of a graph in order."""

    def __init__(self, nodes: list[Node], backwards: bool = False) -> None:
        self._nodes = nodes
        self._backwards = backwards

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        walked = tuple(reversed(self._nodes)) if self._backwards else tuple(self._nodes)
        return iter(walked)

    def __reversed__(self) -> "_Nodes":
        return _Nodes(self._nodes, not self._backwards)


def _target_name(op: str, target: Target) -> str:
    """The name of a node's value, in lower case with underscores."""
    if not isinstance(target, str):
        name = getattr(target, "__name__", type(target).__name__)
    else:
        name = target.replace(".", "_").lstrip("*")
    if op == "placeholder":
        return str(name)
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


__all__ = ["Graph", "PythonCode"]
