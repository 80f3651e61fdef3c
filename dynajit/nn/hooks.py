"""Hooks of modules: removable handles, the global tables, and backward hooks.

A hook table is an ordered dict from handle number to function. `Module` looks at the tables only
when one is not empty. Backward hooks need a node of the tape around the module: two identity
functions, one on the inputs and one on the outputs.
"""

import itertools
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from dynajit.core.errors import AutogradError
from dynajit.eager.backward.function import Function
from dynajit.eager.tape.node import zeros_of
from dynajit.eager.tensor.tensor import Tensor

_numbers = itertools.count()


class WithoutModule:
    """A hook that is called without its first argument, the module; copied and pickled with it."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook

    def __call__(self, module: Any, *arguments: Any) -> None:
        self.hook(*arguments)


class RemovableHandle:
    """Returned by every `register_*hook`; `remove()` takes the hook out again.

    It is also a context manager that removes the hook at the end of a `with` block.
    """

    def __init__(self, *tables: Any) -> None:
        self.id = next(_numbers)
        self._tables = [weakref.ref(table) for table in tables]

    def enter(self, table: Any) -> None:
        """Note a fact about the hook in a table of numbers, until it is removed."""
        table[self.id] = True
        self._tables.append(weakref.ref(table))

    def remove(self) -> None:
        """Take the hook out; doing it twice is fine."""
        for reference in self._tables:
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __getstate__(self) -> tuple[int, list[Any]]:
        """With the tables themselves: a copy's handle belongs to the tables that are copied."""
        return self.id, [table for table in (ref() for ref in self._tables) if table is not None]

    def __setstate__(self, state: tuple[int, list[Any]]) -> None:
        self.id, tables = state
        self._tables = [weakref.ref(table) for table in tables]
        keep_numbers_free_of([self.id])

    def __enter__(self) -> "RemovableHandle":
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def keep_numbers_free_of(taken: Iterable[int]) -> None:
    """New handles get other numbers than these, which another process gave."""
    highest = max(taken)
    while next(_numbers) < highest:
        pass


global_forward_pre_hooks: "OrderedDict[int, Callable[..., Any]]" = OrderedDict()
global_forward_hooks: "OrderedDict[int, Callable[..., Any]]" = OrderedDict()
global_backward_hooks: "OrderedDict[int, Callable[..., Any]]" = OrderedDict()
global_backward_pre_hooks: "OrderedDict[int, Callable[..., Any]]" = OrderedDict()
#: Numbers of global forward hooks that also get the keyword arguments, and of those that are called
#: when forward raises, too.
global_forward_with_kwargs: "OrderedDict[int, bool]" = OrderedDict()
global_forward_always: "OrderedDict[int, bool]" = OrderedDict()


def add_hook(table: Any, hook: Callable[..., Any], *, prepend: bool = False) -> RemovableHandle:
    """Enter `hook` into an ordered table and return its handle."""
    handle = RemovableHandle(table)
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before the forward of every module."""
    return add_hook(global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after the forward of every module.

    Args:
        with_kwargs: it is `hook(module, args, kwargs, output)`.
        always_call: also where forward raises; the output is None then.
    """
    handle = add_hook(global_forward_hooks, hook)
    if with_kwargs:
        handle.enter(global_forward_with_kwargs)
    if always_call:
        handle.enter(global_forward_always)
    return handle


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` in the backward of every module."""
    return add_hook(global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` in the backward of every module, before it."""
    return add_hook(global_backward_pre_hooks, hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Refused, as `Module.register_backward_hook` is.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "register_module_backward_hook is not available: grad_input of its hooks belongs to the "
        "last operation of forward, not to the module.  Use register_module_full_backward_hook."
    )


class CallHooks:
    """The hooks that calls of one module run. Mutable: tables from handle number to function."""

    def __init__(self) -> None:
        self.forward_pre: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self.forward: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self.backward: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self.backward_pre: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self.forward_pre_with_kwargs: OrderedDict[int, bool] = OrderedDict()
        self.forward_with_kwargs: OrderedDict[int, bool] = OrderedDict()
        self.forward_always: OrderedDict[int, bool] = OrderedDict()

    def is_used(self) -> bool:
        """True if there is any hook."""
        return bool(self.forward_pre or self.forward or self.backward or self.backward_pre)

    def run_before(
        self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments after the global hooks and the own ones."""
        for hook in list(global_forward_pre_hooks.values()):
            replaced = hook(module, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
        for number, hook in list(self.forward_pre.items()):
            if number in self.forward_pre_with_kwargs:
                both = hook(module, args, kwargs)
                if both is not None:
                    args, kwargs = both
                continue
            replaced = hook(module, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
        return args, kwargs

    def run_after(
        self,
        module: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
        begun: "list[int] | None" = None,
    ) -> Any:
        """The result after the global hooks and the own ones.

        Args:
            begun: gets the numbers of hooks as they are called.
        """
        for hooks, with_kwargs in self._forward_tables():
            for number, hook in list(hooks.items()):
                if begun is not None:
                    begun.append(number)
                if number in with_kwargs:
                    replaced = hook(module, args, kwargs, result)
                else:
                    replaced = hook(module, args, result)
                result = result if replaced is None else replaced
        return result

    def _forward_tables(self) -> tuple[tuple[Any, Any], ...]:
        return (
            (global_forward_hooks, global_forward_with_kwargs),
            (self.forward, self.forward_with_kwargs),
        )

    def has_always(self) -> bool:
        """True if a hook is to be called also where forward raises."""
        return bool(self.forward_always or global_forward_always)

    def run_always(
        self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any,
        begun: list[int],
    ) -> None:  # fmt: skip
        """Forward, or a hook after it, has raised: call the hooks that are always called, but for
        those whose numbers are in `begun`. What they raise becomes a warning."""
        for hooks, with_kwargs in self._forward_tables():
            for number, hook in list(hooks.items()):
                is_always = number in self.forward_always or number in global_forward_always
                if not is_always or number in begun:
                    continue
                try:
                    if number in with_kwargs:
                        replaced = hook(module, args, kwargs, result)
                    else:
                        replaced = hook(module, args, result)
                except Exception as error:
                    warnings.warn(
                        "module forward hook with ``always_call=True`` raised an exception that "
                        f"was silenced as another error was raised in forward: {error}",
                        UserWarning,
                        stacklevel=2,
                    )
                    continue
                result = result if replaced is None else replaced


class BackwardHooks:
    """The backward hooks of one call of a module.

    `on_inputs` and `on_outputs` pass the tensors that require gradients through identity functions
    whose backward reports the gradients here; all others reach the module, and its caller, as they
    are. Hooks get one entry per argument and per result: None for what is no tensor.
    Mutable: holds the output gradients until the input gradients are known.
    """

    def __init__(self, module: Any, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.has_inputs = False
        self.input_places: list[int] = []
        self.other_inputs: dict[int, tuple[Any, ...]] = {}
        self.input_count = 0
        self.output_places: list[int] = []
        self.output_count = 0

    def on_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """`args` with every tensor that requires gradients passed through the input function."""
        self.input_count = len(args)
        self.input_places = _recorded(args)
        self.has_inputs = bool(self.input_places)
        self.other_inputs = {
            place: (tuple(item.shape), item.dtype, item.device)
            for place, item in enumerate(args)
            if self.has_inputs and isinstance(item, Tensor) and place not in self.input_places
        }
        return _through(_Inputs, self, args, self.input_places)

    def on_outputs(self, result: Any) -> Any:
        """The result with its tensors that require gradients passed through the output function."""
        if not isinstance(result, (Tensor, tuple)):
            return result
        results = result if isinstance(result, tuple) else (result,)
        self.output_count = len(results)
        self.output_places = _recorded(results)
        passed = _through(_Outputs, self, results, self.output_places)
        if not isinstance(result, tuple):
            return passed[0]
        kind = type(result)
        return kind(*passed) if hasattr(kind, "_fields") else kind(passed)

    def receive_outputs(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        """Gradients of the outputs have arrived: run the pre-hooks, which may replace them."""
        found = _spread(self.output_places, gradients, self.output_count)
        for hook in self.pre_hooks:
            found = self._replaced(hook(self.module, found), found, "full_backward_pre_hook")
        self.grad_outputs = found if self.has_inputs else None
        if not self.has_inputs:
            self._run_without_inputs(found)
        return tuple(found[place] for place in self.output_places)

    def _run_without_inputs(self, grad_outputs: tuple[Any, ...]) -> None:
        """No input requires gradients: the hooks run now, and have nothing to replace."""
        for hook in self.hooks:
            given = hook(self.module, (None,) * self.input_count, grad_outputs)
            if given is not None and any(part is not None for part in given):
                raise AutogradError(
                    f"full_backward_hook of {type(self.module).__name__}: a hook gave gradients, "
                    "and no input requires gradients.  Expected None."
                )

    def receive_inputs(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        """Gradients of the inputs have arrived: run the hooks, which may replace them.

        Not for those that come past the outputs, as in a second differentiation. The attribute is
        written in every call, so that capture, which looks at `backward` ahead of time, leaves it
        to the tape.
        """
        grad_outputs, self.grad_outputs = self.grad_outputs, None
        if grad_outputs is None:
            return gradients
        found = list(_spread(self.input_places, gradients, self.input_count))
        for place, meta in self.other_inputs.items():
            found[place] = zeros_of(*meta)
        given = tuple(found)
        for hook in self.hooks:
            replaced = hook(self.module, given, grad_outputs)
            given = self._replaced(replaced, given, "full_backward_hook")
        return tuple(given[place] for place in self.input_places)

    def _replaced(self, given: Any, found: tuple[Any, ...], kind: str) -> tuple[Any, ...]:
        """What a hook gave, if it gave something, as a tuple like the one it got."""
        if given is None:
            return found
        if isinstance(given, Tensor) and len(found) == 1:
            given = (given,)
        if len(given) != len(found):
            raise AutogradError(
                f"{kind} of {type(self.module).__name__}: a hook gave {len(given)} gradients.  "
                f"Expected {len(found)}, or None."
            )
        return tuple(given)


class _Inputs(Function):
    @staticmethod
    def forward(ctx: Any, hooks: BackwardHooks, *tensors: Tensor) -> Any:
        ctx.hooks = hooks
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None, *ctx.hooks.receive_inputs(gradients))

    @staticmethod
    def jvp(ctx: Any, hooks: Any, *tangents: Any) -> Any:
        return tuple(tangent.view_as(tangent) for tangent in tangents)


class _Outputs(Function):
    @staticmethod
    def forward(ctx: Any, hooks: BackwardHooks, *tensors: Tensor) -> Any:
        ctx.hooks = hooks
        ctx.set_materialize_grads(False)
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None, *ctx.hooks.receive_outputs(gradients))

    @staticmethod
    def jvp(ctx: Any, hooks: Any, *tangents: Any) -> Any:
        return tuple(None if t is None else t.view_as(t) for t in tangents)


def _recorded(items: tuple[Any, ...]) -> list[int]:
    """The places of the tensors that require gradients."""
    return [i for i, item in enumerate(items) if isinstance(item, Tensor) and item.requires_grad]


def _spread(places: list[int], values: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """The values at their places among `count`, None elsewhere."""
    found = [None] * count
    for place, value in zip(places, values, strict=True):
        found[place] = value
    return tuple(found)


def _through(
    function: type[Function], hooks: BackwardHooks, items: tuple[Any, ...], places: list[int]
) -> tuple[Any, ...]:
    if not places:
        return items
    passed = function.apply(hooks, *(items[i] for i in places))
    passed = passed if isinstance(passed, tuple) else (passed,)
    result = list(items)
    for place, tensor in zip(places, passed, strict=True):
        result[place] = tensor
    return tuple(result)
