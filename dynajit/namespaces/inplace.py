"""Methods that write their tensor, as functions: `torch.relu_(x)` is `x.relu_()`.

Contract: each calls the method of its name, so options and refusals are the method's. Published
under these names by `dynajit`, and made when they are first asked for.
"""

from collections.abc import Callable
from typing import Any, Final

from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.calls.public import InPlace
from dynajit.ops.calls.signatures import describe_as
from dynajit.ops.functions import published

NAMES: Final = (
    *(f"{name}_" for name, facts in published().items() if facts.in_place is InPlace.BOTH),
    "as_strided_", "detach_", "fill_", "resize_as_", "zero_",
)  # fmt: skip
"""Those of functions that say so, and those that have no function that writes nothing."""


def _function(name: str) -> Callable[..., Any]:
    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(input, name)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    describe_as(function, getattr(Tensor, name), "input")
    return function


def __getattr__(name: str) -> Callable[..., Any]:
    """The function of a name, made when it is first asked for."""
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, _function(name))  # type: ignore[no-any-return]


__all__ = list(NAMES)
