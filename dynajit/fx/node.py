"""Nodes of a graph that programs trace, by PyTorch's path.

Contract: a node is one operation, `op` is one of `OPERATIONS`; its arguments are nests of nodes and
plain values. A node knows which nodes use it. Made by `fx.graph`; read and changed by users.
"""

from collections.abc import Callable
from typing import Any, Final

from dynajit.core.errors import InvalidValueError

Argument = Any
Target = Callable[..., Any] | str

OPERATIONS: Final = (
    "placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root",
)  # fmt: skip


class Node:
    """One operation of a graph. Mutable: its arguments and its place may change.

    Args:
        graph: which it is part of.
        name: of its value, unique in the graph.
        op: what it does: `placeholder` is an argument, `get_attr` an attribute of the module,
            `call_function` calls `target`, `call_module` and `call_method` what `target` names,
            `output` gives `args[0]` back.
        target: a function, or a name.
        args, kwargs: nests of nodes and plain values.
        return_type: annotation of the value; kept in `type`.
    """

    def __init__(
        self, graph: Any, name: str, op: str, target: Target, args: tuple[Any, ...],
        kwargs: dict[str, Any], return_type: Any = None,
    ) -> None:  # fmt: skip
        if op not in OPERATIONS:
            raise InvalidValueError(f"Node(op={op!r}): expected one of {', '.join(OPERATIONS)}.")
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.meta: dict[str, Any] = {}
        self.users: dict[Node, None] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._inputs: dict[Node, None] = {}
        self._change(tuple(args), dict(kwargs))

    @property
    def args(self) -> tuple[Any, ...]:
        """Arguments by place; assign others to change them."""
        return self._args

    @args.setter
    def args(self, given: tuple[Any, ...]) -> None:
        self._change(tuple(given), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """Arguments by name; assign others to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, given: dict[str, Any]) -> None:
        self._change(self._args, dict(given))

    @property
    def all_input_nodes(self) -> list["Node"]:
        """The nodes among the arguments, each once."""
        return list(self._inputs)

    def _change(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for before in self._inputs:
            before.users.pop(self, None)
        found: dict[Node, None] = {}

        def note(node: Node) -> Node:
            found[node] = None
            return node

        self._args, self._kwargs = map_arg(args, note), map_arg(kwargs, note)
        self._inputs = found
        for node in found:
            node.users[self] = None

    @property
    def next(self) -> "Node":
        """The node that comes after it; the graph's root after the last."""
        return self.graph._neighbour(self, 1)  # type: ignore[no-any-return]

    @property
    def prev(self) -> "Node":
        """The node that comes before it; the graph's root before the first."""
        return self.graph._neighbour(self, -1)  # type: ignore[no-any-return]

    def prepend(self, x: "Node") -> None:
        """Move a node of the graph in front of this one."""
        self.graph._move(x, self, 0)

    def append(self, x: "Node") -> None:
        """Move a node of the graph behind this one."""
        self.graph._move(x, self, 1)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Another argument in a place."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Another argument by a name."""
        self.kwargs = {**self.kwargs, key: arg}

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """One more argument in front of a place."""
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def replace_input_with(self, old_input: "Node", new_input: "Node") -> None:
        """Use one node in the place of another."""

        def changed(node: Node) -> Node:
            return new_input if node is old_input else node

        self._change(map_arg(self.args, changed), map_arg(self.kwargs, changed))

    def replace_all_uses_with(
        self,
        replace_with: "Node",
        delete_user_cb: Callable[["Node"], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list["Node"]:
        """Let all users use another node; those of which `delete_user_cb` is False stay.

        Returns:
            The users that were changed.
        """
        if propagate_meta:
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def is_impure(self) -> bool:
        """Whether it is kept though nobody uses it: arguments, the output, and what writes."""
        if self.op in ("placeholder", "output"):
            return True
        name = self.target if isinstance(self.target, str) else getattr(self.target, "__name__", "")
        if self.op in ("call_method", "call_function"):
            writes = name.endswith("_") and not name.endswith("__")
            return writes or name in ("setitem", "_assert")
        return False

    def format_node(self) -> str | None:
        """The node as a line of text; None for an argument without a default."""
        if self.op == "output":
            return f"return {self.args[0]}"
        head = f"%{self.name} : [num_users={len(self.users)}] = {self.op}"
        if self.op in ("placeholder", "get_attr"):
            default = f"(default={self.args[0]})" if self.args else ""
            return f"{head}[target={self.target}]{default}"
        shown_args = ", ".join(map(_shown, self.args)) + ("," if len(self.args) == 1 else "")
        shown_kwargs = ", ".join(f"{key}: {_shown(value)}" for key, value in self.kwargs.items())
        target = self.target if isinstance(self.target, str) else qualified_name(self.target)
        return f"{head}[target={target}](args = ({shown_args}), kwargs = {{{shown_kwargs}}})"

    def __repr__(self) -> str:
        return self.name

    def __lt__(self, other: "Node") -> bool:
        return self.graph._index(self) < self.graph._index(other)  # type: ignore[no-any-return]


def _shown(value: Any) -> str:
    return f"%{value.name}" if isinstance(value, Node) else str(map_arg(value, _Named))


class _Named:
    """A node within a nest, as text."""

    def __init__(self, node: Node) -> None:
        self._name = node.name

    def __repr__(self) -> str:
        return f"%{self._name}"


def qualified_name(function: Any) -> str:
    """`module.name` of a function; of the library's, PyTorch's path."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", repr(function))
    if module is None or module == "builtins":
        return str(name)
    return f"{_PATHS.get(module, module)}.{name}"


#: Modules that define what is found elsewhere.
_PATHS: Final = {
    "_operator": "operator", "dynajit.ops.functions": "torch", "dynajit.linalg": "torch.linalg",
    "dynajit.nn.functional": "torch.nn.functional",
    "dynajit.fft": "torch.fft", "dynajit.special": "torch.special",
}  # fmt: skip


def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Argument:
    """`fn` of every leaf of a nest of tuples, lists, dicts and slices."""
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return [map_aggregate(item, fn) for item in a]
    if isinstance(a, dict):
        return {key: map_aggregate(value, fn) for key, value in a.items()}
    if isinstance(a, slice):
        return slice(*(map_aggregate(part, fn) for part in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """`fn` of every node in a nest; everything else as it is."""
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


__all__ = ["Argument", "Node", "Target", "map_aggregate", "map_arg"]
