"""Which modules are wrapped, by PyTorch's path, and what wrappers have in common.

Contract: policies are functions of a module; `wrapped_below` asks one of all modules below another.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from dynajit.nn.module import Module


class Wrapper(Module):
    """A module around another one, which answers for what it has not itself.

    `_inside`, of each class, is the attribute that holds the module inside.
    """

    _inside: ClassVar[str]

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(self._inside), name)

    def __getitem__(self, key: Any) -> Any:
        return super().__getattr__(self._inside)[key]


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


class CustomPolicy:
    """Modules that a function chooses.

    Args:
        lambda_fn: of a module, True or False, or a dict of arguments of the wrapper.
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> Any:
        return recurse or self._lambda_fn(module)


class _Wrapping(threading.local):
    """What `wrap` does in this thread. Mutable."""

    wrapper: tuple[Any, dict[str, Any]] | None = None


_wrapping = _Wrapping()


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """A block in which `wrap` wraps by a class with these arguments."""
    before, _wrapping.wrapper = _wrapping.wrapper, (wrapper_cls, wrapper_kwargs)
    try:
        yield
    finally:
        _wrapping.wrapper = before


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """The module, wrapped as the block of `enable_wrap` around says; itself outside of one.

    Args:
        wrap_overrides: arguments in place of the block's.
    """
    if _wrapping.wrapper is None:
        return module
    wrapper, kwargs = _wrapping.wrapper
    return wrapper(module, **{**kwargs, **wrap_overrides})  # type: ignore[no-any-return]


def wrapped_below(
    module: Module,
    policy: Callable[..., Any],
    wrapper: Callable[..., Module],
    ignored: frozenset[Module],
    counted: set[int],
    is_root: bool = True,
) -> tuple[Module, int]:
    """Wrap modules in place, inner ones first, as a policy says; the root stays as it is.

    Args:
        policy: of `module`, `recurse` and `nonwrapped_numel`; a dict is more arguments.
        wrapper: what is called with a module.
        ignored: modules that are passed over.
        counted: ids of parameters that were counted before.

    Returns:
        What takes the module's place, and how many numbers below are wrapped.
    """
    numel = sum(p.numel() for p in module.parameters() if id(p) not in counted)
    if not policy(module=module, recurse=True, nonwrapped_numel=numel):
        return module, 0
    wrapped = 0
    for name, child in module.named_children():
        if child in ignored:
            continue
        taken, count = wrapped_below(child, policy, wrapper, ignored, counted, False)
        setattr(module, name, taken)
        wrapped += count
    rest = numel - wrapped
    chosen = not is_root and policy(module=module, recurse=False, nonwrapped_numel=rest)
    if not chosen:
        return module, wrapped
    return wrapper(module, **(chosen if isinstance(chosen, dict) else {})), numel


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
