"""`Module`: the base class of every layer and model.

Contract: as `torch.nn.Module`. Parameters, buffers and sub-modules live in the dicts
`_parameters`, `_buffers`, `_modules` and are reached as attributes; hooks live in ordered dicts,
those of calls in dicts that are made when they are first asked for: guards of a compiled module
then have nothing to say about them. A compiled module shares its dict with the original: see
`nn.compiled_calls`. A call runs pre-hooks, `forward`, hooks, in that order. State dicts are in
`nn.state`, hook plumbing in `nn.hooks`. Capture inlines `__call__` and `__getattr__` as ordinary
Python.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, ClassVar, TypeVar

from dynajit.core.errors import ArgumentError, ArgumentRuntimeError, UnsupportedError
from dynajit.core.instances import give_own_dict
from dynajit.core.types import dtypes
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import DType, bfloat16, float16, float32, float64
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import hooks as module_hooks
from dynajit.nn import state
from dynajit.nn.compiled_calls import attribute_outside, original_of, set_in_both
from dynajit.nn.hooks import BackwardHooks, CallHooks, RemovableHandle, WithoutModule, add_hook
from dynajit.nn.parameter import Buffer, Parameter, UninitializedBuffer, is_lazy
from dynajit.ops.functions.creation.creation import empty_like

M = TypeVar("M", bound="Module")


def _forward_is_missing(self: "Module", *args: Any) -> Any:
    """What a call computes; each subclass defines it, with parameters of its own."""
    raise NotImplementedError(
        f'Module [{type(self).__name__}] is missing the required "forward" function'
    )


def _table_of(name: str) -> Any:
    """A table of `CallHooks` as an attribute of the module, under the name that PyTorch has."""

    def get(self: "Module") -> dict[int, Any]:
        table: dict[int, Any] = getattr(self._made_call_hooks(), name)
        return table

    def replace(self: "Module", table: dict[int, Any]) -> None:
        setattr(self._made_call_hooks(), name, table)

    return property(get, replace)


class Module:
    """Base class of layers and models; subclasses define `forward`.

    Call `super().__init__()` before assigning parameters or modules.
    """

    __slots__ = ("__dict__", "__weakref__", "_own_call")  # the last: see `nn.compiled_calls`

    training: bool
    _version = 1
    _options_in_repr: ClassVar[tuple[str, ...]] = ()  # attributes: `name=value` each
    _call_hooks: CallHooks | None = None  # in the instance from the first use on

    def __init__(self) -> None:
        set_plainly = object.__setattr__
        set_plainly(self, "training", True)
        set_plainly(self, "_parameters", {})
        set_plainly(self, "_buffers", {})
        set_plainly(self, "_non_persistent_buffers_set", set())
        set_plainly(self, "_modules", {})
        for table in _STATE_HOOK_TABLES:
            set_plainly(self, table, OrderedDict())
        set_plainly(self, "_compiled_call", None)
        give_own_dict(self)

    forward: Callable[..., Any] = _forward_is_missing

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` with its hooks (or the compiled call made by `compile`)."""
        compiled = self._compiled_call
        if compiled is None:
            return self._call_forward(*args, **kwargs)
        own = self._own_call
        if own is not None:
            return own(*args, **kwargs)
        if compiled.in_place is not None:
            return compiled.in_place(self, *args, **kwargs)
        return self._call_forward(*args, **kwargs)

    def _call_forward(self, *args: Any, **kwargs: Any) -> Any:
        if not (
            (self._call_hooks is not None and self._call_hooks.is_used())
            or module_hooks.global_forward_pre_hooks
            or module_hooks.global_forward_hooks
            or module_hooks.global_backward_hooks
            or module_hooks.global_backward_pre_hooks
        ):
            return self.forward(*args, **kwargs)
        return self._call_with_hooks(args, kwargs)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        own = CallHooks() if self._call_hooks is None else self._call_hooks
        if own.has_always():
            return self._call_with_hooks_always(own, args, kwargs)
        args, kwargs = own.run_before(self, args, kwargs)
        watched = self._watched_backward(own)
        if watched is not None:
            args = watched.on_inputs(args)
        result = self.forward(*args, **kwargs)
        result = own.run_after(self, args, kwargs, result)
        return result if watched is None else watched.on_outputs(result)

    def _call_with_hooks_always(
        self, own: CallHooks, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The same where hooks are called although something raises."""
        result: Any = None
        begun: list[int] = []
        try:
            args, kwargs = own.run_before(self, args, kwargs)
            watched = self._watched_backward(own)
            if watched is not None:
                args = watched.on_inputs(args)
            result = self.forward(*args, **kwargs)
            result = own.run_after(self, args, kwargs, result, begun)
            return result if watched is None else watched.on_outputs(result)
        except Exception:
            own.run_always(self, args, kwargs, result, begun)
            raise

    def _watched_backward(self, own: CallHooks) -> BackwardHooks | None:
        backward = [*own.backward.values(), *module_hooks.global_backward_hooks.values()]
        pre = [*module_hooks.global_backward_pre_hooks.values(), *own.backward_pre.values()]
        return BackwardHooks(self, backward, pre) if backward or pre else None

    def _made_call_hooks(self) -> CallHooks:
        if self._call_hooks is None:
            object.__setattr__(self, "_call_hooks", CallHooks())
        assert self._call_hooks is not None
        return self._call_hooks

    _forward_pre_hooks = _table_of("forward_pre")
    _forward_hooks = _table_of("forward")
    _backward_hooks = _table_of("backward")
    _backward_pre_hooks = _table_of("backward_pre")
    _forward_pre_hooks_with_kwargs = _table_of("forward_pre_with_kwargs")
    _forward_hooks_with_kwargs = _table_of("forward_with_kwargs")
    _forward_hooks_always_called = _table_of("forward_always")

    # -- attributes -----------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__
        if "_parameters" in fields:
            if name in fields["_parameters"]:
                return fields["_parameters"][name]
            if name in fields["_buffers"]:
                return fields["_buffers"][name]
            if name in fields["_modules"]:
                return fields["_modules"][name]
        if name == "_own_call":
            return None
        found = () if fields.get("_compiled_call") is None else attribute_outside(self, name)
        if found:
            return found[0]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        fields = self.__dict__
        if isinstance(value, Parameter):
            self._require_init(name)
            _remove(name, fields, fields["_buffers"], fields["_modules"])
            self.register_parameter(name, value)
            return
        if isinstance(value, Module):
            self._require_init(name)
            _remove(name, fields, fields["_parameters"], fields["_buffers"])
            fields["_modules"][name] = value
            return
        if isinstance(value, (Buffer, UninitializedBuffer)):
            self._require_init(name)
            _remove(name, fields)
            self.register_buffer(name, value, value.persistent)
            return
        if "_parameters" in fields:
            if name in fields["_parameters"]:
                if value is not None:
                    raise ArgumentError(
                        f"cannot assign '{type(value).__name__}' as parameter '{name}' "
                        "(nn.Parameter or None expected)"
                    )
                self.register_parameter(name, None)
                return
            if name in fields["_modules"] and value is None:
                fields["_modules"][name] = None
                return
            if name in fields["_modules"]:
                raise ArgumentError(
                    f"cannot assign '{type(value).__name__}' as child module '{name}' "
                    "(nn.Module or None expected)"
                )
            if name in fields["_buffers"]:
                if value is not None and not isinstance(value, Tensor):
                    raise ArgumentError(
                        f"cannot assign '{type(value).__name__}' object to buffer '{name}' "
                        "(Tensor or None required)"
                    )
                fields["_buffers"][name] = value
                return
        if fields.get("_compiled_call") is None:
            object.__setattr__(self, name, value)
        else:
            set_in_both(self, name, value)

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(original_of(self), name)

    def __dir__(self) -> list[str]:
        names = set(object.__dir__(self))
        names.update(self._parameters, self._buffers, self._modules)
        return sorted(name for name in names if not name[0].isdigit())

    def _require_init(self, name: str) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(
                f"cannot assign {name!r} before Module.__init__() call.  "
                f"Call super().__init__() first in {type(self).__name__}.__init__."
            )

    def _check_name(self, kind: str, name: str, taken: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise ArgumentError(f"{kind} name should be a string, not {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in taken:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter (or None as a placeholder) under `name`.

        Raises:
            KeyError: the name is taken, empty or has a dot.
            ArgumentError: `param` is not a Parameter.
        """
        self._require_init(name)
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise ArgumentError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' "
                "(nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'.  A parameter must be "
                "created from data, not computed from other tensors."
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that moves and is saved with the module but is not trained.

        Args:
            persistent: whether it is part of the state dict.
        """
        self._require_init(name)
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise ArgumentError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' "
                "(Tensor or None required)"
            )
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: "Module | None") -> None:
        """Add a child module under `name`."""
        if module is not None and not isinstance(module, Module):
            raise ArgumentError(f"{type(module).__name__} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = module

    register_module = add_module

    # -- walks ----------------------------------------------------------------------------

    def named_modules(
        self,
        memo: "set[Module] | None" = None,
        prefix: str = "",
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, "Module"]]:
        """(dotted name, module) for this module and everything below it, each once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                below = prefix + ("." if prefix else "") + name
                yield from child.named_modules(memo, below, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator["Module"]:
        """This module and everything below it, each once unless `remove_duplicate` is False."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        """(name, module) for the direct children, each once."""
        seen: set[Module] = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator["Module"]:
        """The direct children, each once."""
        for _, child in self.named_children():
            yield child

    def _named_members(
        self, table: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[Any] = set()  # tensors are found by identity
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        else:
            modules = iter([(prefix, self)])
        for module_name, module in modules:
            for name, member in getattr(module, table).items():
                if member is None or (remove_duplicate and member in seen):
                    continue
                seen.add(member)
                yield module_name + ("." if module_name else "") + name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(dotted name, parameter); a shared parameter appears once."""
        yield from self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """(dotted name, buffer), each once."""
        yield from self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> "Module":
        """The module at a dotted path; the empty path is this module.

        Raises:
            AttributeError: no such module.
        """
        module: Module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: "Module", strict: bool = False) -> None:
        """Put `module` at a dotted path, whose parent exists.

        Args:
            strict: there has to be a module at the path already.

        Raises:
            ValueError: the path is empty, or `module` is not a Module.
            AttributeError: no such parent, or what is at the path is not a module.
        """
        if not target:
            raise ValueError("set_submodule: the path is empty.  Expected the name of a submodule.")
        if not isinstance(module, Module):
            raise ValueError(
                f"set_submodule: `module` is not an nn.Module, found {type(module).__name__}"
            )
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path."""
        return self._get_member(target, Parameter, "an nn.Parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        path, _, name = target.rpartition(".")
        if name not in self.get_submodule(path)._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return self._get_member(target, Tensor, "a buffer")

    def _get_member(self, target: str, kind: type, what: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        member = getattr(module, name)
        if not isinstance(member, kind):
            raise AttributeError(f"`{name}` is not {what}")
        return member

    # -- changing everything below --------------------------------------------------------

    def apply(self: M, fn: Callable[["Module"], None]) -> M:
        """Call `fn` on every module below and then on this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def _apply(self: M, change: Callable[[Tensor], Tensor], recurse: bool = True) -> M:
        for child in self.children() if recurse else ():
            child._apply(change)
        with no_grad():
            for parameter in self._parameters.values():
                if parameter is None:
                    continue
                given = parameter.data
                changed = change(given)
                if changed is not given:  # writing what is there would count as a change
                    parameter.data = changed
                if parameter.grad is not None:
                    parameter.grad = change(parameter.grad)
            for name, buffer in self._buffers.items():
                if is_lazy(buffer):
                    buffer.data = change(buffer.data)
                elif buffer is not None:
                    self._buffers[name] = change(buffer)
        return self

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Move and/or convert parameters and buffers in place: `to(device)`, `to(dtype)`, both.

        Only floating-point tensors change dtype. With `non_blocking=True` copies from pinned memory
        run beside the program.
        """
        device, dtype, non_blocking = _parse_to(args, kwargs)

        def change(tensor: Tensor) -> Tensor:
            target = dtype if dtype is not None and tensor.dtype.is_floating_point else tensor.dtype
            place = device or tensor.device
            if tensor.is_meta and str(place) != "meta":
                raise UnsupportedError(
                    "Cannot copy out of meta tensor; no data! Please use "
                    "torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving "
                    "module from meta to a different device."
                )
            return tensor.to(place, target, non_blocking=non_blocking)

        return self._apply(change)

    def to_empty(self: M, *, device: Any, recurse: bool = True) -> M:
        """Move parameters and buffers to `device` without their values, which are then arbitrary.

        Args:
            device: where to; None leaves each where it is.
            recurse: whether modules below move, too.
        """
        return self._apply(lambda tensor: empty_like(tensor, device=device), recurse)

    def _to_floating(self: M, dtype: DType) -> M:
        return self._apply(lambda t: t.to(dtype) if t.dtype.is_floating_point else t)

    def half(self: M) -> M:
        """Floating-point parameters and buffers to float16."""
        return self._to_floating(float16)

    def bfloat16(self: M) -> M:
        """Floating-point parameters and buffers to bfloat16."""
        return self._to_floating(bfloat16)

    def float(self: M) -> M:
        """Floating-point parameters and buffers to float32."""
        return self._to_floating(float32)

    def double(self: M) -> M:
        """Floating-point parameters and buffers to float64."""
        return self._to_floating(float64)

    def type(self: M, dst_type: DType) -> M:
        """Floating-point parameters and buffers to `dst_type`."""
        return self._to_floating(dst_type)

    def cpu(self: M) -> M:
        """Parameters and buffers to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self: M, device: int | Device | None = None) -> M:
        """Parameters and buffers to a GPU."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def train(self: M, mode: bool = True) -> M:
        """Training mode on (or off) for this module and everything below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self: M) -> M:
        """Evaluation mode for this module and everything below."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Set `requires_grad` of every parameter."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop (or zero) the gradient of every parameter."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = parameter.grad.detach()
                parameter.grad.zero_()

    def share_memory(self: M) -> M:
        """Move parameters and buffers into memory that child processes share.

        Raises:
            RuntimeError: one is uninitialized, or shares its memory with another tensor.
        """
        for tensor in chain(self.parameters(), self.buffers()):
            tensor.share_memory_()
        return self

    def compile(self, **options: Any) -> None:
        """Compile this module's call in place; options as those of `dynajit.compile`."""
        state.compile_module_call(self, **options)

    # -- hooks ----------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before forward; what it returns replaces the arguments."""
        handle = add_hook(self._forward_pre_hooks, hook, prepend=prepend)
        if with_kwargs:
            handle.enter(self._forward_pre_hooks_with_kwargs)
        return handle

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward; what it returns replaces the output.

        Args:
            prepend: before the hooks that are there.
            with_kwargs: it is `hook(module, args, kwargs, output)`.
            always_call: also where forward raises; the output is None then, and what the hook
                raises becomes a warning.
        """
        handle = add_hook(self._forward_hooks, hook, prepend=prepend)
        if with_kwargs:
            handle.enter(self._forward_hooks_with_kwargs)
        if always_call:
            handle.enter(self._forward_hooks_always_called)
        return handle

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Refused: such a hook sees gradients of the last operation within the module, in that
        operation's order, and they depend on how the module is computed.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "register_backward_hook is not available: its grad_input belongs to the last operation "
            "of forward, not to the module.  Use register_full_backward_hook, whose hooks get the "
            "gradients of the module's inputs and outputs."
        )

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the input gradients are known."""
        return add_hook(self._backward_hooks, hook, prepend=prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_output)` when the output gradients are known."""
        return add_hook(self._backward_pre_hooks, hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after `state_dict`."""
        return add_hook(self._state_dict_hooks, hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict`."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors)`
        before this module's entries are loaded."""
        return add_hook(self._load_state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        if with_module:
            return self.register_load_state_dict_pre_hook(hook)

        return self.register_load_state_dict_pre_hook(WithoutModule(hook))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading."""
        return add_hook(self._load_state_dict_post_hooks, hook)

    # -- state ----------------------------------------------------------------------------

    def state_dict(
        self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Parameters and persistent buffers by dotted name, detached unless `keep_vars`."""
        return state.state_dict(self, destination, prefix, keep_vars)

    def load_state_dict(
        self, state_dict: Any, strict: bool = True, assign: bool = False
    ) -> state.IncompatibleKeys:
        """Copy values by name into parameters and buffers.

        Args:
            strict: missing and unexpected names are errors.
            assign: take the tensors themselves instead of copying into the existing ones.

        Raises:
            RuntimeError: sizes differ, or names differ with `strict`.
        """
        return state.load_state_dict(self, state_dict, strict, assign)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        state.save_own(self, destination, prefix, keep_vars)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        state.load_own(
            self, state_dict, prefix, local_metadata, strict,
            missing_keys, unexpected_keys, error_msgs,
        )  # fmt: skip

    def get_extra_state(self) -> Any:
        """Override to put more than tensors into the state dict."""
        raise RuntimeError("get_extra_state is called only on modules that override it")

    def set_extra_state(self, state: Any) -> None:
        """Override together with `get_extra_state`."""
        raise RuntimeError("set_extra_state is called only on modules that override it")

    # -- text and copies ------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Text shown within the parentheses of `repr`."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._options_in_repr)

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [text.replace("\n", "\n  ") for text in self._children_in_repr()]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        body = "\n  ".join([*lines, *children])
        return f"{self._get_name()}(\n  {body}\n)"

    def _children_in_repr(self) -> list[str]:
        """A text for each child."""
        return [f"({name}): {child!r}" for name, child in self._modules.items()]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_compiled_call": None}

    def __setstate__(self, fields: dict[str, Any]) -> None:
        """Take the attributes of a pickled module, an own one or one that PyTorch pickled."""
        own = self.__dict__
        own.update(fields)
        for table in _STATE_HOOK_TABLES:
            own.setdefault(table, OrderedDict())
        own.setdefault("_non_persistent_buffers_set", set())
        own.setdefault("_compiled_call", None)
        for name in _CALL_HOOK_TABLES:
            hooks = own.pop(name, None)
            if hooks:
                module_hooks.keep_numbers_free_of(hooks)
                setattr(self, name, hooks)


# What PyTorch keeps in the instance; here they lie in `CallHooks`.
_CALL_HOOK_TABLES = (
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
)

_STATE_HOOK_TABLES = (
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def _remove(name: str, *tables: dict[str, Any]) -> None:
    for table in tables:
        table.pop(name, None)


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, DType | None, bool]:
    if "copy" in kwargs:
        raise ArgumentRuntimeError("nn.Module.to does not accept the argument copy")
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    non_blocking = bool(kwargs.get("non_blocking", any(value is True for value in args)))
    for argument in args:
        if isinstance(argument, (DType, type)):
            dtype = argument
        elif isinstance(argument, Tensor):
            device, dtype = argument.device, argument.dtype
        elif not isinstance(argument, bool):
            device = argument
    dtype = dtypes.parse(dtype) or dtype
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        raise ArgumentError(
            f"nn.Module.to only accepts floating point or complex dtypes, but got {dtype}"
        )
    return device, dtype, non_blocking
