"""Symbolic tracing: modules and functions run once with stand-ins for their arguments.

Contract: as PyTorch's `Tracer`. Layers of the library (not Sequential) become one node each, other
modules are traced through; parameters and buffers become attributes of the root, other tensors are
kept as constants of it.
"""

import builtins
import contextlib
import inspect
import math
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Final
from unittest import mock

from dynajit._dynamo.eval_frame import OptimizedModule
from dynajit.capture._capture import CompiledFunction
from dynajit.core.errors import InvalidValueError, UnsupportedError
from dynajit.eager.tensor.tensor import Tensor
from dynajit.fx.graph import Graph
from dynajit.fx.graph_module import GraphModule
from dynajit.fx.node import Argument
from dynajit.fx.proxy import ParameterProxy, Proxy, TracerBase
from dynajit.nn.containers import Sequential
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter

#: Flags of code with `*args` or `**kwargs`.
_STARS: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS

_call_module: Final = Module.__call__
_get_attribute: Final = Module.__getattr__
_tracing: Final[list["Tracer"]] = []

#: (namespace, name) of the functions that `wrap` was given.
_wrapped: Final[list[tuple[dict[str, Any], str]]] = []


def is_fx_tracing() -> bool:
    """Whether a module is being traced."""
    return bool(_tracing)


def wrap(fn_or_name: Any) -> Any:
    """Let calls of a function of this module be nodes, rather than be traced through.

    Args:
        fn_or_name: a function (also as a decorator), or the name of one, such as "len".

    Raises:
        RuntimeError: it is neither.
        NotImplementedError: it is not called at the top of a module.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    if caller is None or caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped.append((caller.f_globals, name))
    return fn_or_name


class Tracer(TracerBase):
    """Traces modules. Mutable: knows the root and the graph of the trace that runs.

    Args:
        autowrap_modules: modules whose functions become nodes where proxies are given to them.
        autowrap_functions: such functions.
        param_shapes_constant: parameters tell their sizes as numbers.
    """

    def __init__(
        self,
        autowrap_modules: tuple[Any, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        functions = [
            value
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        ]
        self._autowrapped = {
            id(function): function for function in (*functions, *autowrap_functions)
        }
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.root: Module = Module()

    # -- to override -----------------------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether calls of a module are nodes: layers of the library, but for Sequential."""
        return type(m).__module__.startswith("dynajit.nn") and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The dotted name of a module below the root.

        Raises:
            NameError: it is not below.
        """
        for name, module in self.root.named_modules(remove_duplicate=False):
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """What a call of a module gives: a proxy for a leaf, else the call itself."""
        name = self.path_of_module(m)
        if self.is_leaf_module(m, name):
            return self.create_proxy("call_module", name, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What reading an attribute of a module gives: a proxy for a parameter."""
        if not isinstance(attr_val, Parameter):
            return attr_val
        name = next((n for n, p in self.root.named_parameters() if p is attr_val), None)
        if name is None:
            return attr_val
        if name not in parameter_proxy_cache:
            made = (
                (lambda node: ParameterProxy(self, node, name, attr_val))
                if self.param_shapes_constant
                else None
            )
            parameter_proxy_cache[name] = self.create_proxy(
                "get_attr", name, (), {}, proxy_factory_fn=made
            )
        return parameter_proxy_cache[name]

    def create_arg(self, a: Any) -> Argument:
        """See `TracerBase`; tensors become attributes of the root, modules by their names."""
        if isinstance(a, Tensor):
            return self.create_node("get_attr", self._name_of(a), (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return super().create_arg(a)

    def _name_of(self, tensor: Tensor) -> str:
        """The dotted name of a tensor of the root; a constant of it where it had none."""
        named = (*self.root.named_parameters(), *self.root.named_buffers())
        found = next((name for name, value in named if value is tensor), None)
        if found is None:
            found = next((n for n, v in vars(self.root).items() if v is tensor), None)
        if found is not None:
            return found
        number = 0
        while hasattr(self.root, f"_tensor_constant{number}"):
            number += 1
        setattr(self.root, f"_tensor_constant{number}", tensor)
        return f"_tensor_constant{number}"

    # -- tracing ---------------------------------------------------------------------------

    def create_args_for_root(
        self, root_fn: Any, is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        """The function and its arguments: proxies for those that `concrete_args` does not give."""
        given = dict(concrete_args or {})
        args: list[Any] = [self.root] if is_module else []
        parameters = list(inspect.signature(root_fn).parameters.values())
        for parameter in parameters[1:] if is_module else parameters:
            args.append(self._argument(parameter, given))
        return root_fn, args

    def _argument(self, parameter: inspect.Parameter, given: dict[str, Any]) -> Any:
        stars: dict[Any, str] = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
        name = stars.get(parameter.kind, "") + parameter.name
        default = () if parameter.default is parameter.empty else (parameter.default,)
        if name in given:
            value = given[name]
            self.create_node("placeholder", name, (value,), {})
            return value
        return self.create_proxy("placeholder", name, default, {})

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module or a function.

        Args:
            concrete_args: values that arguments have in the graph, by name.

        Raises:
            TraceError: what is done depends on values.
            UnsupportedError: it was compiled.
        """
        if isinstance(root, (CompiledFunction, OptimizedModule)):
            raise UnsupportedError(
                "symbolic_trace: tracing a compiled function is not supported.  Trace the original."
            )
        is_module = isinstance(root, Module)
        self.root = root if is_module else Module()
        function = type(root).forward if is_module else root
        self.graph = Graph(tracer_cls=type(self))
        function, args = self.create_args_for_root(function, is_module, concrete_args)
        with self._patched(getattr(function, "__globals__", {})):
            result = self._called(function, args)
        self.create_node("output", "output", (self.create_arg(result),), {})
        return self.graph

    def _called(self, function: Any, args: list[Any]) -> Any:
        """The function with its arguments; `*args` and `**kwargs` are a value each."""
        code = getattr(function, "__code__", None)
        names = list(inspect.signature(function).parameters)
        if code is None or (not code.co_flags & _STARS and not code.co_kwonlyargcount):
            return function(*args)
        values = dict(zip(names, args, strict=True))
        plain = code.replace(
            co_flags=code.co_flags & ~_STARS, co_argcount=len(names), co_posonlyargcount=0,
            co_kwonlyargcount=0,
        )  # fmt: skip
        made = FunctionType(plain, function.__globals__, closure=function.__closure__)
        return made(*(values[name] for name in code.co_varnames[: len(names)]))

    @contextlib.contextmanager
    def _patched(self, namespace: dict[str, Any]) -> Iterator[None]:
        """Module calls and parameters go to this tracer, functions that are wrapped make nodes."""
        parameters: dict[str, Any] = {}

        def call(module: Module, *args: Any, **kwargs: Any) -> Any:
            def forward(*given: Any, **named: Any) -> Any:
                return _call_module(module, *given, **named)

            self._autowrap(module)
            return self.call_module(module, forward, args, kwargs)

        def read(module: Module, name: str) -> Any:
            return self.getattr(name, _get_attribute(module, name), parameters)

        with contextlib.ExitStack() as stack:
            _tracing.append(self)
            stack.callback(_tracing.pop)
            stack.enter_context(mock.patch.object(Module, "__call__", call))
            stack.enter_context(mock.patch.object(Module, "__getattr__", read))
            for space, name in (*_wrapped, *self._names_in(namespace)):
                stack.enter_context(_replaced(space, name))
            yield

    def _names_in(self, namespace: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
        """Names of functions that are wrapped by themselves."""
        return [
            (namespace, name)
            for name, value in namespace.items()
            if not name.startswith("_") and id(value) in self._autowrapped
        ]

    def _autowrap(self, module: Module) -> None:
        """Hook for tracers that look for functions in the modules that they meet."""


@contextlib.contextmanager
def _replaced(namespace: dict[str, Any], name: str) -> Iterator[None]:
    """A block in which a function makes a node where an argument is a proxy."""
    is_own = name in namespace
    function = namespace[name] if is_own else getattr(builtins, name)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        proxy = next((a for a in (*args, *kwargs.values()) if isinstance(a, Proxy)), None)
        if proxy is None:
            return function(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", function, args, kwargs)

    namespace[name] = wrapper
    try:
        yield
    finally:
        if is_own:
            namespace[name] = function
        else:
            del namespace[name]


def symbolic_trace(root: Any, concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """A module whose code is the graph of a module or a function.

    Raises:
        InvalidValueError: it is neither.
        TraceError: what is done depends on values.
    """
    if not callable(root):
        raise InvalidValueError(f"symbolic_trace({root!r}): expected a module or a function.")
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


__all__ = ["Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]
