"""How much work the body of a pointwise row is: found by running it on operands that count."""

import functools
from collections.abc import Mapping
from typing import Any

from dynajit.core.operators import BINARY, COMPARISONS, UNARY
from dynajit.core.types import dtypes
from dynajit.ops.table.op_table import Kind, Op
from dynajit.ops.table.scalar import SCALARS, Effort


def is_transcendental(op: Op, attributes: Mapping[str, Any]) -> bool:
    """True if the body of a pointwise row calls a function that takes many instructions.

    Args:
        op: a row of kind POINTWISE.
        attributes: of the call; all of them.
    """
    return any(
        name not in SCALARS or SCALARS[name].effort not in (Effort.FEW, Effort.DIVISION)
        for name in functions_called(op, tuple(attributes.items()))
    )


@functools.lru_cache(maxsize=4096)
def functions_called(op: Op, attributes: tuple[tuple[str, Any], ...]) -> frozenset[str]:
    """Names of the scalar functions that the body of a pointwise row calls."""
    assert op.kind is Kind.POINTWISE
    called: set[str] = set()
    op.rule.body(_Recorder(called), *(_Scalar() for _ in op.inputs), **dict(attributes))
    return frozenset(called)


class _Scalar:
    """A value of which nothing is known but that operators work on it."""

    dtype = dtypes.float32


class _Recorder:
    """A scalar namespace that notes the names of the functions that are called."""

    def __init__(self, called: set[str]) -> None:
        self.called = called

    def __getattr__(self, name: str) -> Any:
        def function(*operands: Any, **options: Any) -> _Scalar:
            self.called.add(name)
            return _Scalar()

        return function


def _install_operators() -> None:
    """Every operator of `_Scalar` gives another scalar."""

    def result(*operands: Any) -> _Scalar:
        return _Scalar()

    names = [f"__{prefix}{name}__" for name in BINARY for prefix in ("", "r")]
    names += [f"__{name}__" for name in (*UNARY, *COMPARISONS)]
    for name in names:
        setattr(_Scalar, name, result)


_install_operators()
