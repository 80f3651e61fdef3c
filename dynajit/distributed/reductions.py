"""How values of several processes are joined.

Contract: `check_reduction` refuses what PyTorch refuses. AVG and PREMUL_SUM are sums with a factor;
engines know the others.
"""

import enum
import warnings
from typing import TYPE_CHECKING, Any, Final

from dynajit.core.errors import ArgumentError, DTypeError, InvalidValueError
from dynajit.core.records import record

if TYPE_CHECKING:
    from dynajit.eager.tensor.tensor import Tensor


class ReduceOp(enum.Enum):
    """How values of several processes are joined."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    #: Of the member itself: that of enumerations is computed from the name by Python.
    __hash__ = object.__hash__


#: The kinds by themselves, as PyTorch names them.
ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]


class _OldName:
    """What PyTorch called `ReduceOp` first, which older programs still read."""

    def __getattr__(self, name: str) -> ReduceOp:
        if name.startswith("__"):  # asked by Python, not by a program
            raise AttributeError(name)
        warnings.warn(
            "`torch.distributed.reduce_op` is deprecated, please use `torch.distributed.ReduceOp` "
            "instead",
            FutureWarning,
            stacklevel=2,
        )
        found: ReduceOp = getattr(ReduceOp, name)
        return found


reduce_op: Final = _OldName()
"""`ReduceOp` by its older name; a FutureWarning, as in PyTorch."""

_SUM: Final = ReduceOp.SUM


@record
class PremultipliedSum:
    """The sum of what processes have, each multiplied by its factor."""

    factor: Any


def _make_nccl_premul_sum(factor: "float | Tensor") -> PremultipliedSum:
    """A sum of values that are multiplied first, by PyTorch's inner name."""
    return PremultipliedSum(factor)


_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def check_reduction(tensor: "Tensor", op: Any, name: str) -> None:
    """Refuse operations that PyTorch has not for a tensor's dtype.

    Raises:
        ArgumentError: `op` is no member of ReduceOp, or PREMUL_SUM without a factor.
        InvalidValueError: complex numbers have no order; a ValueError, as in PyTorch.
        DTypeError: bits of floating numbers, or a mean of integers.
    """
    if op is _SUM or isinstance(op, PremultipliedSum):
        return
    if not isinstance(op, ReduceOp) or op is ReduceOp.PREMUL_SUM:
        raise ArgumentError(f"{name}(op={op!r}): incompatible function arguments. Expected a "
                            "member of ReduceOp other than PREMUL_SUM.")  # fmt: skip
    dtype = tensor.dtype
    if dtype.is_complex and op is not ReduceOp.AVG:
        raise InvalidValueError(f"{name} does not support {op} on complex tensors")
    if op in _BITWISE and dtype.is_floating_point:
        raise DTypeError(f"Cannot use {op} with non-integral dtype")
    if op is ReduceOp.AVG and not (dtype.is_floating_point or dtype.is_complex):
        raise DTypeError(
            f"{name}(op={op}): result type float32 can't be cast to the desired output type "
            f"{dtype.name}"
        )
