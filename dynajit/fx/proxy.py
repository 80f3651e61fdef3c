"""Stand-ins for values while a program is traced, by PyTorch's path.

Contract: what is done with a `Proxy` becomes a node of its tracer's graph: operators, methods,
attributes that are called, and library functions, which ask it (`ops.table.overriding`). What would
need the value itself (a condition, a length, iteration) raises TraceError, but for unpacking into a
fixed number of names.
"""

import dis
import inspect
import operator
from collections.abc import Callable, Iterator
from typing import Any, Final

from dynajit.core.operators import BINARY, COMPARISONS, UNARY
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.memory_format import MemoryFormat
from dynajit.core.types.tensor_layouts import strided
from dynajit.eager.tensor.tensor import Tensor
from dynajit.fx.graph import Graph
from dynajit.fx.node import Argument, Node, Target
from dynajit.ops.native._library_call import LibraryMethod
from dynajit.ops.table import overriding

_PLAIN: Final = (
    str, bytes, int, float, bool, complex, type(None), type(Ellipsis), DType, Device, MemoryFormat,
    type(strided), type,
)  # fmt: skip


class TraceError(ValueError):
    """A program needs the value of something that stands for any value."""


class TracerBase:
    """Makes nodes and the proxies for them. Mutable: fills its graph."""

    graph: Graph
    #: Whether to keep where each node came from; changes nothing.
    record_stack_traces: bool = False

    def create_node(
        self, kind: str, target: Target, args: Any, kwargs: Any, name: Any = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A node of the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> "Proxy":
        """What stands for the node's value."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Target, args: Any, kwargs: Any, name: Any = None,
        type_expr: Any = None, proxy_factory_fn: Callable[[Node], "Proxy"] | None = None,
    ) -> "Proxy":  # fmt: skip
        """A node whose arguments may hold proxies, and what stands for its value."""
        args, kwargs = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Argument:
        """An argument of a node: proxies become nodes, within containers, too.

        Raises:
            NotImplementedError: something that no graph can hold.
        """
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, Node):
            return a
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return type(a)(*map(self.create_arg, a))
        if isinstance(a, tuple):
            return tuple(map(self.create_arg, a))
        if isinstance(a, list):
            return list(map(self.create_arg, a))
        if isinstance(a, dict):
            return {key: self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(*map(self.create_arg, (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*map(self.create_arg, (a.start, a.stop, a.step)))
        if isinstance(a, _PLAIN) or callable(a):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: "Proxy") -> bool:
        """A condition.

        Raises:
            TraceError: always.
        """
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: "Proxy") -> Iterator[Any]:
        """Iteration.

        Raises:
            TraceError: always.
        """
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            "loop or as a *args or **kwargs function argument."
        )

    def keys(self, obj: "Proxy") -> Any:
        """The keys of a mapping."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """A tracer for proxies that a program makes of the nodes of its own graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """Stands for the value of a node.

    Args:
        node: of a graph.
        tracer: makes the nodes of what is done with it; None: one for the node's graph.
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = tracer or GraphAppendingTracer(node.graph)
        self.node = node
        overriding.begin()

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> "Attribute":
        if k in ("node", "tracer"):
            raise AttributeError(k)
        return Attribute(self, k)

    def __call__(self, *args: Any, **kwargs: Any) -> "Proxy":
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = inspect.currentframe()
        caller = frame.f_back if frame is not None else None
        count = None if caller is None else _unpacked(caller)
        if count is None:
            return self.tracer.iter(self)
        item = operator.getitem
        return iter([item(self, place) for place in range(count)])

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """The keys of a mapping."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> "Proxy":
        given = overriding.overriding_arguments((*args, *(kwargs or {}).values()))
        asked = next(argument for argument in given if isinstance(argument, Proxy))
        is_method = isinstance(func, LibraryMethod)
        kind, target = ("call_method", func.__name__) if is_method else ("call_function", func)
        return asked.tracer.create_proxy(kind, target, args, kwargs or {})


class Attribute(Proxy):
    """An attribute of what a proxy stands for: a method once it is called, else a value.

    Args:
        root: the proxy.
        attr: the name.
    """

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node of the value, made when it is first asked for."""
        if self._node is None:
            asked = (self.root, self.attr)
            self._node = self.tracer.create_proxy("call_function", getattr, asked, {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """Stands for a parameter, whose sizes are known.

    Args:
        name: its dotted name.
        param: the parameter.
    """

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Tensor) -> None:
        super().__init__(node, tracer)
        self.param = param
        self.name = name

    @property
    def shape(self) -> Any:
        """The sizes."""
        return self.param.shape

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return self.param.ndim

    def size(self, *args: Any) -> Any:
        """As of the parameter."""
        return self.param.size(*args)

    def dim(self) -> int:
        """The number of dims."""
        return self.param.ndim

    def numel(self) -> int:
        """The number of elements."""
        return int(self.param.numel())

    def nelement(self) -> int:
        """The number of elements."""
        return int(self.param.numel())


def _unpacked(frame: Any) -> int | None:
    """Into how many names the instruction that runs unpacks; None for another one."""
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return instruction.argval if instruction.opname == "UNPACK_SEQUENCE" else None
    return None


def _operation(function: Callable[..., Any], is_reflected: bool) -> Callable[..., Any]:
    def method(self: Proxy, *others: Any) -> Proxy:
        args = (*others, self) if is_reflected else (self, *others)
        return self.tracer.create_proxy("call_function", function, args, {})

    return method


for _name in (*BINARY, *COMPARISONS, *UNARY, "getitem"):
    setattr(Proxy, f"__{_name}__", _operation(getattr(operator, f"__{_name}__"), False))
for _name in BINARY:
    setattr(Proxy, f"__r{_name}__", _operation(getattr(operator, f"__{_name}__"), True))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "TraceError",
    "TracerBase",
]
