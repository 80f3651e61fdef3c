"""Modules whose code is a graph, by PyTorch's path.

Contract: `forward` computes what the graph says; after the graph was changed, `recompile` makes it
anew. The attributes that the graph names are those of the root.
"""

import copy
import linecache
from typing import Any

from dynajit.core.quoting import on_a_line
from dynajit.fx.code import PythonCode
from dynajit.fx.graph import Graph
from dynajit.nn.module import Module

_count = [0]


class GraphModule(Module):
    """A module made of a graph. Mutable: the graph may be changed and compiled again.

    Args:
        root: the module, or a dict from dotted names, that has what the graph names.
        graph: the graph; it is copied.
        class_name: the name of the module's class.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> "GraphModule":
        # A class for each: `forward` is set in the class.
        name = kwargs.get("class_name") or (args[2] if len(args) > 2 else cls.__name__)
        base = next(c for c in cls.__mro__ if "_made_for_one" not in vars(c))
        made = type(name, (base,), {"_made_for_one": True, "__module__": base.__module__})
        return super().__new__(made)

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        if isinstance(root, Module):
            self.training = root.training
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                _install(self, str(node.target), _found(root, str(node.target)))
        self._code = ""
        self.graph = graph

    @property
    def graph(self) -> Graph:
        """The graph; assign another to change the code."""
        found: Graph = self.__dict__["_graph"]
        return found

    @graph.setter
    def graph(self, g: Graph) -> None:
        assert isinstance(g, Graph), f"Expected a Graph instance, but got {type(g)}"
        self.__dict__["_graph"] = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The text of `forward`."""
        return self._code

    def recompile(self) -> PythonCode:
        """Make `forward` of the graph as it is now."""
        made: PythonCode = self._graph.python_code(root_module="self")
        self.__dict__["_code"] = made.src
        _count[0] += 1
        file = f"<graph {on_a_line(type(self).__name__)} {_count[0]}>"
        lines = made.src.splitlines(keepends=True)
        linecache.cache[file] = (len(made.src), None, lines, file)
        namespace = dict(made.globals)
        exec(compile(made.src, file, "exec"), namespace)
        type(self).forward = namespace["forward"]
        return made

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at a dotted name; False where something else is in its way."""
        *path, last = target.split(".")
        owner: Any = self
        for part in path:
            if not hasattr(owner, part):
                setattr(owner, part, Module())
            owner = getattr(owner, part)
            if not isinstance(owner, Module):
                return False
        owner.add_module(last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take a module away; False where there is none."""
        path, _, last = target.rpartition(".")
        try:
            owner = self.get_submodule(path)
        except AttributeError:
            return False
        if last not in owner._modules:
            return False
        delattr(owner, last)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take away the modules that the graph does not call."""
        used = {str(n.target) for n in self.graph.nodes if n.op in ("call_module", "get_attr")}
        for name, _ in list(self.named_modules()):
            if name and not any(u == name or u.startswith(name + ".") or name.startswith(u + ".")
                                for u in used):  # fmt: skip
                self.delete_submodule(name)

    def print_readable(self, print_output: bool = True, *args: Any, **kwargs: Any) -> str:
        """The code, with the class around it."""
        indented = "".join(f"    {line}\n" for line in self.code.splitlines())
        text = f"class {type(self).__name__}(torch.nn.Module):\n{indented}"
        if print_output:
            print(text)
        return text

    def __deepcopy__(self, memo: dict[int, Any]) -> "GraphModule":
        holder = Module()
        for name, value in self.__dict__.items():
            if name not in ("_graph", "_code"):
                holder.__dict__[name] = copy.deepcopy(value, memo)
        made = GraphModule(holder, copy.deepcopy(self._graph), type(self).__name__)
        made.training = self.training
        return made

    def __copy__(self) -> "GraphModule":
        return GraphModule(self, self._graph, type(self).__name__)

    def __reduce__(self) -> Any:
        state = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code")}
        return _rebuilt, (state, self._graph, type(self).__name__)

    def __str__(self) -> str:
        return f"{super().__str__()}\n\n\n{self._code}"


def _rebuilt(state: dict[str, Any], graph: Graph, name: str) -> GraphModule:
    holder = Module()
    holder.__dict__.update(state)
    return GraphModule(holder, graph, name)


def _found(root: Any, name: str) -> Any:
    if not isinstance(root, Module):
        if name not in root:
            raise RuntimeError(
                f"Node referenced target {name} but that target was not provided in ``root``!"
            )
        return root[name]
    found: Any = root
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _install(module: Module, name: str, value: Any) -> None:
    """Put an attribute where a dotted name says; empty modules lead there."""
    *path, last = name.split(".")
    owner: Any = module
    for part in path:
        if part not in owner._modules:
            owner.add_module(part, Module())
        owner = owner._modules[part]
    if isinstance(value, Module):
        owner.add_module(last, value)
    elif hasattr(value, "untyped_storage"):
        _install_tensor(owner, last, value)
    else:
        setattr(owner, last, value)


def _install_tensor(owner: Module, name: str, value: Any) -> None:
    setattr(owner, name, value)
    if name not in owner._parameters and name not in owner._buffers:
        delattr(owner, name)
        owner.register_buffer(name, value)


__all__ = ["GraphModule"]
