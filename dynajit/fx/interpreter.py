"""Running a graph node by node, by PyTorch's path.

Contract: an `Interpreter` gives what the module gives; a class derived from it may do each kind of
node in its own way. A `Transformer` makes a new graph while it does.
"""

import inspect
from typing import Any

from dynajit.fx.graph import Graph
from dynajit.fx.graph_module import GraphModule
from dynajit.fx.node import Node, map_arg
from dynajit.fx.proxy import Proxy, TracerBase


class Interpreter:
    """Runs the graph of a module. Mutable: knows the values of the run.

    Args:
        module: what the names in the graph mean.
        garbage_collect_values: forget values after their last use.
        graph: another graph than the module's.
    """

    def __init__(
        self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph = graph if graph is not None else module.graph
        self.garbage_collect_values = garbage_collect_values
        self.env: dict[Node, Any] = {}
        self.args_iter: Any = iter(())

    def run(
        self, *args: Any, initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:  # fmt: skip
        """The result for these arguments; values in `initial_env` are not computed."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(args)
        left = {node: len(node.users) for node in self.graph.nodes}
        for node in self.graph.nodes:
            if node in self.env:
                continue
            self.env[node] = self.run_node(node)
            if node.op == "output":
                return self.env[node]
            self._forget(node, left)
        return None

    def _forget(self, node: Node, left: dict[Node, int]) -> None:
        if not self.garbage_collect_values:
            return
        for used in node.all_input_nodes:
            left[used] -= 1
            if left[used] == 0:
                self.env.pop(used, None)

    def boxed_run(self, args_list: list[Any]) -> Any:
        """`run`, with a list of arguments that is emptied."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n: Node) -> Any:
        """The value of a node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[Any, Any]:
        """The arguments of a node, as values."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """A nest with the values of its nodes."""
        return map_arg(args, lambda node: self.env[node])

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The next argument.

        Raises:
            RuntimeError: there is none, and no default.
        """
        if str(target).startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(target)

    def fetch_attr(self, target: str) -> Any:
        """An attribute by its dotted name."""
        found = self.module
        for part in target.split("."):
            found = getattr(found, part)
        return found

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A call of a function."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A call of a method."""
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A call of a module below."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The result."""
        return args[0]


class _TransformerTracer(TracerBase):
    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Transformer(Interpreter):
    """Runs a graph with stand-ins, which makes a new one.

    Args:
        module: the module with the graph.
    """

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.tracer = _TransformerTracer(self.new_graph)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An argument of the new graph."""
        default = args[0] if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An attribute of the module."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A call of a module below, a node of the new graph."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A call of a function, a node of the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A call of a method, a node of the new graph."""
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The module of the new graph."""
        result = super().run()
        if result is not None:
            self.new_graph.output(map_proxies(result))
        return GraphModule(self.module, self.new_graph)


def map_proxies(nest: Any) -> Any:
    """A nest with nodes in the place of proxies."""
    return TracerBase().create_arg(nest)


__all__ = ["Interpreter", "Transformer"]
