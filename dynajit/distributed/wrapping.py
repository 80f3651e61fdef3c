"""Which modules would be sharded, by PyTorch's path.

Contract: policies are functions of a module and can be made, joined and asked; wrapping by one is
refused.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dynajit.core.refusals import refused_class, refused_function
from dynajit.nn.module import Module


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """True: every module would be wrapped."""
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """True while modules below are looked at; else what `lambda_fn(module)` says."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: Iterable[type]
) -> bool:
    """True while modules below are looked at; else whether the module is one of the classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = 100_000_000,
    force_leaf_modules: Any = None,
    exclude_wrap_modules: Any = None,
) -> bool:
    """Whether a module holds `min_num_params` numbers and is no container or attention."""
    is_large = nonwrapped_numel >= min_num_params
    kinds = tuple(force_leaf_modules or ()) if recurse else tuple(exclude_wrap_modules or ())
    return is_large and not isinstance(module, kinds)


def _or_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, policies: Iterable[Callable[..., bool]]
) -> bool:
    """Whether one of the policies says so."""
    return any(
        policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel)
        for policy in policies
    )


class ModuleWrapPolicy:
    """Modules of these classes: a policy to pass on."""

    def __init__(self, module_classes: Iterable[type]) -> None:
        self._module_classes = frozenset(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"ModuleWrapPolicy({set(self._module_classes)})"


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """A block in which `wrap` wraps: refused where it would."""
    yield


CustomPolicy = refused_class("distributed.fsdp.wrap.CustomPolicy", "x")
wrap = refused_function("distributed.fsdp.wrap.wrap", "x")

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]
