"""Functions on lists of tensors by PyTorch's private names: `_foreach_add` and its kin.

Contract: as a loop over the lists; the other operand is a number or tensor for all, or a list with
one for each. A name that ends in an underscore writes its first list and returns it as a list;
others return a tuple. Published under these names by `dynajit`.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from dynajit.core.errors import ShapeError
from dynajit.ops import functions
from dynajit.ops.functions import published

_LIMITS: Final = {"clamp_max": "minimum", "clamp_min": "maximum"}
"""Functions of limits -> what theirs is computed by."""


def _each(self: Any, other: Any) -> list[Any]:
    """One operand per tensor of `self`.

    Raises:
        ShapeError: the lists are empty or differ in length.
    """
    if not len(self):
        raise ShapeError("Tensor list must have at least one tensor.")
    if not isinstance(other, (list, tuple)):
        return [other] * len(self)
    if len(other) != len(self):
        raise ShapeError(
            "Tensor lists must have the same number of tensors (or numbers), got "
            f"{len(self)} and {len(other)}"
        )
    return list(other)


def _written(self: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    for tensor, result in zip(self, results, strict=True):
        tensor.copy_(result)
    return list(self)


def _in_place(function: Callable[..., tuple[Any, ...]]) -> Callable[..., list[Any]]:
    def written(self: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return _written(self, function(self, *args, **kwargs))

    written.__name__ = written.__qualname__ = f"{function.__name__}_"
    described = inspect.signature(function)
    written.__signature__ = described.replace(return_annotation=list[Any])  # type: ignore[attr-defined]
    written.__doc__ = f"`{function.__name__}` into its first list, which is returned."
    return written


def _unary(name: str) -> Callable[[Any], tuple[Any, ...]]:
    row = getattr(functions, name)

    def function(self: Any) -> tuple[Any, ...]:
        _each(self, None)
        return tuple(row(tensor) for tensor in self)

    function.__doc__ = f"`{name}` of each tensor."
    return function


def _binary(name: str) -> Callable[..., tuple[Any, ...]]:
    row = getattr(functions, _LIMITS.get(name, name))
    is_limited = row is functions.maximum or row is functions.minimum

    def function(self: Any, other: Any, *, alpha: Any = 1) -> tuple[Any, ...]:
        if not isinstance(self, (list, tuple)):  # a number to the power of each tensor
            return tuple(row(a, b) for a, b in zip(_each(other, self), other, strict=True))
        pairs = zip(self, _each(self, other), strict=True)
        if alpha != 1:
            return tuple(row(a, b, alpha=alpha) for a, b in pairs)
        if is_limited:
            return tuple(_limited(row, a, b) for a, b in pairs)
        return tuple(row(a, b) for a, b in pairs)

    function.__doc__ = f"`{name}` of each tensor and the other operand, or its own one."
    return function


def _limited(row: Any, tensor: Any, limit: Any) -> Any:
    return row(tensor, limit if functions.is_tensor(limit) else functions.full_like(tensor, limit))


def _ternary(name: str) -> Callable[..., tuple[Any, ...]]:
    row = getattr(functions, name)

    def function(
        self: Any, tensor1: Any, tensor2: Any, scalars: Any = None, *, value: Any = 1
    ) -> tuple[Any, ...]:
        factors = _each(self, value if scalars is None else _listed(scalars))
        return tuple(
            row(x, a, b, value=factor)
            for x, a, b, factor in zip(
                self, _each(self, tensor1), _each(self, tensor2), factors, strict=True
            )
        )

    function.__doc__ = f"`{name}` of the tensors at one place, with one factor or one for each."
    return function


def _listed(scalars: Any) -> Any:
    return scalars.tolist() if functions.is_tensor(scalars) and scalars.ndim else scalars


def _foreach_lerp(self: Any, tensors1: Any, weight: Any) -> tuple[Any, ...]:
    """From each tensor towards its other one, by one weight or one for each."""
    return tuple(
        functions.lerp(a, b, w)
        for a, b, w in zip(self, _each(self, tensors1), _each(self, weight), strict=True)
    )


def _foreach_norm(self: Any, ord: float = 2, dtype: Any = None) -> tuple[Any, ...]:
    """The norm of each tensor, zero-dim."""
    _each(self, None)
    return tuple(x.to(dtype or x.dtype).flatten().norm(ord) for x in self)


def _foreach_max(self: Any) -> tuple[Any, ...]:
    """The largest element of each tensor, zero-dim."""
    _each(self, None)
    return tuple(x.max() for x in self)


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> list[Any]:
    """Copy each tensor of `src`."""
    return _written(self, _each(self, src))


def _foreach_zero_(self: Any) -> list[Any]:
    """Set all elements to 0."""
    _each(self, None)
    for tensor in self:
        tensor.zero_()
    return list(self)


def _foreach_clone(self: Any, *, memory_format: Any = None) -> tuple[Any, ...]:
    """A copy of each tensor."""
    _each(self, None)
    return tuple(x.clone() for x in self)


def _named(name: str, function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    function.__name__ = function.__qualname__ = f"_foreach_{name}"
    return {f"_foreach_{name}": function, f"_foreach_{name}_": _in_place(function)}


def _operands(function: Callable[..., Any]) -> int:
    """How many tensors a function takes: what has a default is a number."""
    parameters = inspect.signature(function).parameters.values()
    return sum(
        parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.default is parameter.empty
        for parameter in parameters
    )


_OF_OPERANDS: Final = {1: _unary, 2: _binary, 3: _ternary}

# Names of this module, and so of `dynajit` (its family `_foreach_`).
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{
        n: f
        for name, facts in published().items()
        if facts.foreach
        for n, f in _named(name, _OF_OPERANDS[_operands(facts.function)](name)).items()
    },
    **_named("lerp", _foreach_lerp),
    "_foreach_clone": _foreach_clone,
    "_foreach_copy_": _foreach_copy_,
    "_foreach_max": _foreach_max,
    "_foreach_norm": _foreach_norm,
    "_foreach_zero_": _foreach_zero_,
}

#: The class under which type stubs of PyTorch have these functions.
_VariableFunctionsClass = type(
    "_VariableFunctionsClass", (), {name: staticmethod(f) for name, f in FUNCTIONS.items()}
)

globals().update(FUNCTIONS)
