"""Modules whose activations are computed again in backward, put around others.

Contract: a wrapped module has the names, parameters and state dict of the module inside; its call
is that of `utils.checkpoint`. One process is enough for it.
"""

import enum
import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

from dynajit.autograd.graph import save_on_cpu
from dynajit.distributed.wrapping import Wrapper, lambda_auto_wrap_policy
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter
from dynajit.utils.checkpoint import checkpoint

_INSIDE: Final = "_checkpoint_wrapped_module"
_PREFIX: Final = _INSIDE + "."


class CheckpointImpl(enum.Enum):
    """Which variant of `utils.checkpoint` is called."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


class ActivationWrapper(Wrapper):
    """A module around another one, whose names it takes over.

    Args:
        mod: the module inside.
    """

    _inside = _INSIDE

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module: Any = mod
        self._register_state_dict_hook(_without_prefix)
        self.register_load_state_dict_pre_hook(_with_prefix)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Those of the module inside, by its names; arguments as in `Module`."""
        for name, parameter in super().named_parameters(prefix, recurse, remove_duplicate):
            yield name.replace(_PREFIX, ""), parameter


def _renamed(state: dict[str, Any], old: str, new: str) -> None:
    """Entries whose names start with `old` start with `new` instead."""
    if old == new:
        raise ValueError("old_prefix and new_prefix must be distinct")
    for name in [name for name in state if name.startswith(old)]:
        state[new + name[len(old) :]] = state.pop(name)


def _without_prefix(module: Module, state: dict[str, Any], prefix: str, *rest: Any) -> Any:
    _renamed(state, prefix + _PREFIX, prefix)
    return state


def _with_prefix(module: Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    _renamed(state, prefix, prefix + _PREFIX)


class OffloadWrapper(ActivationWrapper):
    """What backward needs of the module inside waits on the CPU."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The call of the module inside."""
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """What backward needs of the module inside is computed again.

    Args:
        mod: the module inside.
        checkpoint_impl: the variant of `utils.checkpoint`.
        checkpoint_fn: called in its place, with the module and its arguments.
        checkpoint_fn_kwargs: more arguments of either.
    """

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
        called = checkpoint_fn or functools.partial(checkpoint, use_reentrant=reentrant)
        self.checkpoint_fn = functools.partial(called, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The call of the module inside."""
        inside = self._checkpoint_wrapped_module
        if self.checkpoint_impl is not CheckpointImpl.REENTRANT or not kwargs:
            return self.checkpoint_fn(inside, *args, **kwargs)
        names = tuple(kwargs)

        def call(*given: Any) -> Any:
            placed, named = given[: len(args)], given[len(args) :]
            return inside(*placed, **dict(zip(names, named, strict=True)))

        return self.checkpoint_fn(call, *args, *kwargs.values())


def offload_wrapper(module: Module) -> OffloadWrapper:
    """The module, with what its backward needs on the CPU."""
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> CheckpointWrapper:
    """The module, with what its backward needs computed again; see `CheckpointWrapper`."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda module: True,
    auto_wrap_policy: Callable[..., bool] | None = None,
) -> None:
    """Wrap modules below `model`, in place; `model` itself stays.

    Args:
        checkpoint_wrapper_fn: gives what takes a module's place.
        check_fn: whether a module is wrapped.
        auto_wrap_policy: (by PyTorch's protocol) asked in place of `check_fn`.
    """
    policy = auto_wrap_policy or functools.partial(lambda_auto_wrap_policy, lambda_fn=check_fn)
    _wrap_children(model, policy, checkpoint_wrapper_fn)


def _wrap_children(
    module: Module, policy: Callable[..., bool], wrapper: Callable[[Module], Module]
) -> None:
    """Children first: a module that is wrapped may hold wrapped ones."""
    for name, child in list(module.named_children()):
        numel = sum(parameter.numel() for parameter in child.parameters())
        if policy(module=child, recurse=True, nonwrapped_numel=numel):
            _wrap_children(child, policy, wrapper)
        if policy(module=child, recurse=False, nonwrapped_numel=numel):
            setattr(module, name, wrapper(child))


__all__ = [
    "ActivationWrapper",
    "CheckpointImpl",
    "CheckpointWrapper",
    "OffloadWrapper",
    "apply_activation_checkpointing",
    "checkpoint_wrapper",
    "offload_wrapper",
]
