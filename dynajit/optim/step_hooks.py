"""Hooks around `step`: the global tables, and the wrapper that calls hooks.

Contract: `with_step_hooks(step)` is `step` that calls the optimiser's and everybody's hooks and
notes that a step was made, which schedulers ask. A compiled step inlines it: while there are no
hooks, it costs the guards that say so.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any

from dynajit.nn.hooks import RemovableHandle, add_hook

global_pre_hooks: "OrderedDict[int, Callable[..., Any]]" = OrderedDict()
global_post_hooks: "OrderedDict[int, Callable[..., Any]]" = OrderedDict()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before the step of every optimiser.

    A hook that returns a pair replaces the arguments.
    """
    return add_hook(global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after the step of every optimiser."""
    return add_hook(global_post_hooks, hook)


def with_step_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """The method `step`, with hooks before and behind it."""

    @wraps(step)
    def hooked_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._opt_called = True
        if global_pre_hooks or self._optimizer_step_pre_hooks:
            args, kwargs = _run_pre_hooks(self, args, kwargs)
        result = step(self, *args, **kwargs)
        if global_post_hooks or self._optimizer_step_post_hooks:
            for hook in [*self._optimizer_step_post_hooks.values(), *global_post_hooks.values()]:
                hook(self, args, kwargs)
        return result

    hooked_step.hooked = True  # type: ignore[attr-defined]
    return hooked_step


def has_hooks(optimizer: Any) -> bool:
    """Whether hooks watch the steps of an optimiser."""
    own = (optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks)
    return bool(global_pre_hooks or global_post_hooks or own[0] or own[1])


def _run_pre_hooks(optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments that the hooks leave."""
    for hook in [*global_pre_hooks.values(), *optimizer._optimizer_step_pre_hooks.values()]:
        result = hook(optimizer, args, kwargs)
        if result is None:
            continue
        if not (isinstance(result, tuple) and len(result) == 2):
            raise RuntimeError(
                f"{hook} must return None or a tuple of (new_args, new_kwargs), but got {result}."
            )
        args, kwargs = result
    return args, kwargs
