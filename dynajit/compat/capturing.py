"""What programs call by the inner path of PyTorch's capture, beside `dynajit`'s own functions."""

import contextlib
from typing import Any

from dynajit.core.errors import UnsupportedError
from dynajit.driver.compile import compile
from dynajit.nn.compiled_calls import original_of
from dynajit.nn.module import Module


class _MadeByCompile(type):
    """Lets the class answer for modules of any class."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Module) and original_of(instance) is not instance


class OptimizedModule(metaclass=_MadeByCompile):
    """Modules that `dynajit.compile` gave: a class to ask for; instances are made by `compile`.

    The class of such a module is that of the module inside, `_orig_mod`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedError("OptimizedModule: it is made by compiling.  Use dynajit.compile.")


def optimize(backend: Any = None, *, nopython: bool = False, **options: Any) -> Any:
    """A decorator that compiles, of older programs; the backend is as of `compile`."""
    return lambda function: compile(function, fullgraph=nopython, backend=backend or "native")


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """A hint that a size varies: sizes that vary are found by themselves."""


def mark_static_address(t: Any, guard: bool = True) -> None:
    """A hint that a tensor stays where it is: it changes nothing."""


def is_dynamo_supported() -> bool:
    """Whether Python can be captured here: True."""
    return True


def is_compile_supported(device_type: Any) -> bool:
    """Whether functions of tensors on such devices can be compiled."""
    return str(device_type).partition(":")[0] in ("cpu", "cuda")


class TransformGetItemToIndex(contextlib.nullcontext[None]):
    """A block in which indices may be tensors of `vmap`: they may everywhere."""


def assume_constant_result(fn: Any) -> Any:
    """A promise that a function gives the same whenever it is called: it is captured like others,
    and its result is guarded by what it depends on."""
    return fn


def nested_compile_region(fn: Any = None, *args: Any, **options: Any) -> Any:
    """A hint that a function is called often with values of the same kinds, so that its graph might
    be shared: calls of it are captured like others."""
    return (lambda function: function) if fn is None else fn
