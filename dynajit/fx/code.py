"""A graph as the text of a Python function.

Contract: the text computes what the nodes say, in their order; values are forgotten after their
last use. Functions and other objects that have no text of their own stand in `globals`.
"""

import builtins
import keyword
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import dynajit
from dynajit.core.errors import InvalidValueError
from dynajit.core.operators import SIGNS, SYMBOLS
from dynajit.core.quoting import as_python_name
from dynajit.fx.node import Node, map_arg, qualified_name

#: Functions of `operator` -> how they are written.
_WRITTEN: Final = {
    **{getattr(operator, f"__{name}__"): f"{{}} {text} {{}}" for name, text in SYMBOLS.items()},
    **{getattr(operator, f"__{name}__"): f"{text}{{}}" for name, text in SIGNS.items()},
    operator.getitem: "{}[{}]",
}

#: Values that are their own text.
_PLAIN: Final = (int, float, bool, complex, str, bytes, type(None), type(Ellipsis))


@dataclass
class PythonCode:
    """The text of a function, and the objects that it refers to."""

    src: str
    globals: dict[str, Any]


class _Printer:
    """Writes values as text. Mutable: collects the globals."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.globals: dict[str, Any] = {}
        self._taken = frozenset((*taken, *dir(builtins), "torch"))

    def named(self, value: Any) -> str:
        """How the text calls an object: a path of the library, or a global name."""
        path = _library_path(value) if callable(value) else None
        if path is not None:
            self.globals["torch"] = dynajit
            return path
        wanted = qualified_name(value) if callable(value) else f"_{type(value).__name__}"
        base = as_python_name(wanted.replace(".", "_").strip("_") or "value")
        name, count = base, 0
        while name in self._taken or self.globals.get(name, value) is not value:
            count += 1
            name = f"{base}_{count}"
        self.globals[name] = value
        return name

    def value(self, value: Any) -> str:
        """A nest of nodes and values."""
        if isinstance(value, Node):
            return value.name
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self.named(type(value))}({', '.join(map(self.value, value))})"
        if type(value) is tuple:
            return f"({', '.join(map(self.value, value))}{',' if len(value) == 1 else ''})"
        if type(value) is list:
            return f"[{', '.join(map(self.value, value))}]"
        if type(value) is dict:
            items = (f"{self.value(k)}: {self.value(v)}" for k, v in value.items())
            return "{" + ", ".join(items) + "}"
        if isinstance(value, slice):
            parts = (value.start, value.stop, value.step)
            return f"slice({', '.join(map(self.value, parts))})"
        if type(value) in _PLAIN and not (
            isinstance(value, (float, complex)) and value - value != 0
        ):
            return repr(value) if value is not Ellipsis else "..."
        return self.named(value)

    def arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        """Arguments of a call."""
        named = [
            f"{key} = {self.value(item)}" if _is_name(key) else f"**{{{key!r}: {self.value(item)}}}"
            for key, item in kwargs.items()
        ]
        return ", ".join([*map(self.value, args), *named])

    def expression(self, node: Node, root: str) -> str:
        """What the value of a node is."""
        if node.op == "call_function":
            text = _WRITTEN.get(node.target) if _is_hashable(node.target) else None
            if text is not None and not node.kwargs and len(node.args) == text.count("{}"):
                first, *rest = node.args
                written = self.value if node.target is operator.getitem else self._operand
                return text.format(self._operand(first), *map(written, rest))
            return f"{self.named(node.target)}({self.arguments(node.args, node.kwargs)})"
        if node.op == "call_method":
            others = self.arguments(node.args[1:], node.kwargs)
            return f"{_attribute(self._operand(node.args[0]), str(node.target))}({others})"
        path = _path(root, str(node.target))
        if node.op == "get_attr":
            return path
        return f"{path}({self.arguments(node.args, node.kwargs)})"

    def _operand(self, value: Any) -> str:
        text = self.value(value)
        return text if isinstance(value, Node) else f"({text})"


def _library_path(function: Any) -> str | None:
    """`torch.name`, where that is the function; else None."""
    path = qualified_name(function)
    if not path.startswith("torch."):
        return None
    found: Any = dynajit
    for part in path.split(".")[1:]:
        found = getattr(found, part, None)
    return path if found is function else None


def _is_hashable(target: Any) -> bool:
    return type(target).__hash__ is not None


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _attribute(owner: str, name: str) -> str:
    return f"{owner}.{name}" if _is_name(name) else f"getattr({owner}, {name!r})"


def _path(root: str, name: str) -> str:
    """An attribute by its dotted name; parts that are no names, such as numbers, by getattr."""
    path = root
    for part in name.split("."):
        path = _attribute(path, part)
    return path


def code_of(nodes: Sequence[Node], root: str) -> PythonCode:
    """The function `forward(root, ...)` that the nodes are.

    Args:
        nodes: in order.
        root: the name of its first parameter.

    Raises:
        InvalidValueError: a node's name is no name of a variable.
    """
    for node in nodes:
        if not _is_name(node.name) and node.op != "output":
            raise InvalidValueError(f"{node.name!r} is the name of a node, and none of Python's.")
    printer = _Printer((root, "forward", *(node.name for node in nodes)))
    parameters, lines = [], []
    forgotten = _last_uses(nodes)
    for node in nodes:
        if node.op == "placeholder":
            parameters.append(_parameter(node, printer))
            continue
        if node.op == "output":
            lines.append(f"    return {printer.value(node.args[0])}")
            continue
        line = f"    {node.name} = {printer.expression(node, root)}"
        gone = forgotten.get(node, [])
        lines.append(line + (f";  {' = '.join(n.name for n in gone)} = None" if gone else ""))
    head = f"def forward({', '.join([root, *parameters])}):"
    aliases = [
        f"    {node.name} = {_bare(str(node.target))}"
        for node in nodes
        if node.op == "placeholder" and node.name != _bare(str(node.target))
    ]
    return PythonCode("\n".join([head, *aliases, *(lines or ["    pass"])]) + "\n", printer.globals)


def _bare(name: str) -> str:
    return as_python_name(name.lstrip("*"))


def _parameter(node: Node, printer: _Printer) -> str:
    name = str(node.target)
    stars = "*" * min(len(name) - len(name.lstrip("*")), 2)
    return stars + _bare(name) + (f" = {printer.value(node.args[0])}" if node.args else "")


def _last_uses(nodes: Sequence[Node]) -> dict[Node, list[Node]]:
    """Node -> the values that it uses last, itself where nobody uses it."""
    seen: set[Node] = set()
    last: dict[Node, list[Node]] = {}
    for node in reversed(nodes):
        if node.op == "output":
            map_arg(node.args, seen.add)
            continue
        mine = [n for n in node.all_input_nodes if n not in seen]
        seen.update(mine)
        if node not in seen and not node.users:
            mine.append(node)
        last[node] = mine
    return last


__all__ = ["PythonCode", "code_of"]
