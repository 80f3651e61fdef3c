"""Operators of PyTorch's namespace `aten` that are no functions of the library.

Contract: `FUNCTIONS` maps a name to a function of tensors with the parameters of PyTorch's schema;
those whose name ends in `_` write their first argument. Operators of what is not here (products of
compressed sparse tensors) are refused by name.
"""

from collections.abc import Callable
from typing import Any, Final

from dynajit.core.refusals import refused_function


def _to_copy(
    self: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Any:
    """A copy, of another dtype or elsewhere."""
    kept = {"memory_format": memory_format} if memory_format is not None else {}
    return self.to(
        device or self.device, dtype or self.dtype, non_blocking=non_blocking, copy=True, **kept
    )


def slice_of(self: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    """A view of positions `start`, `start + step`, ... before `end` of one dim."""
    whole = slice(None)
    places = [whole] * self.ndim
    places[dim] = slice(start, end, step)
    return self[tuple(places)]


def index(self: Any, indices: Any) -> Any:
    """`self[indices]`, where None stands for a whole dim."""
    return self[tuple(slice(None) if place is None else place for place in indices)]


def method_named(name: str) -> Callable[..., Any]:
    """The method of a tensor as a function."""

    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        return getattr(self, name)(*args, **keywords)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`self.{name}(...)`."
    return call


#: Operators that tensors have as methods alone, beside the in-place forms of functions.
_METHODS: Final = (
    "bernoulli_", "copy_", "expand", "fill_", "new_empty", "new_full", "new_ones", "new_zeros",
    "normal_", "repeat", "set_", "to", "unfold", "uniform_", "view", "zero_",
)  # fmt: skip

_NO_SPARSE: Final = "products of compressed sparse tensors are not here.  Use dense tensors."

FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{name: method_named(name) for name in _METHODS},
    "_pin_memory": method_named("pin_memory"),
    "_sparse_addmm": refused_function("ops.aten._sparse_addmm", _NO_SPARSE),
    "_sparse_mm_reduce_impl": refused_function("ops.aten._sparse_mm_reduce_impl", _NO_SPARSE),
    "_to_copy": _to_copy,
    "_unsafe_view": method_named("reshape"),
    "alias": lambda self: self.view_as(self),
    "index": index,
    "lift_fresh": lambda self: self,
    "slice": slice_of,
}
