"""Which dtypes operands may have together, and what a result has, where PyTorch does not promote.

Contract: functions of the library call these before they compute; what is refused is a `DTypeError`
that names the operand, what was found and what would be accepted. Numbers and None pass.
"""

from collections.abc import Iterable
from typing import Any

from dynajit.core.errors import DTypeError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category, DType
from dynajit.ops.calls.arguments import cast, is_tensor


def require_same_dtype(function: str, input: Any, **others: Any) -> None:
    """Refuse operands of another dtype than the first.

    Raises:
        DTypeError: one has.
    """
    for name, other in others.items():
        if is_tensor(other) and is_tensor(input) and other.dtype is not input.dtype:
            raise DTypeError(
                f"{function}: found dtype {other.dtype.name} of {name}, but expected "
                f"{input.dtype.name}, as of the first operand.  Convert it with .to(dtype)."
            )


def require_parameters(function: str, input: Any, **parameters: Any) -> None:
    """Refuse parameters of a normalization that have another dtype than the input; with inputs of
    16-bit floats all of them may be float32.

    Raises:
        DTypeError: one has.
    """
    given = {name: one.dtype for name, one in parameters.items() if is_tensor(one)}
    found = set(given.values())
    is_wide = found == {dtypes.float32} and dtypes.compute_dtype(input.dtype) is dtypes.float32
    if is_wide and input.dtype.is_floating_point:
        return
    require_same_dtype(function, input, **parameters)


def require_category(function: str, category: Category, **operands: Any) -> None:
    """Refuse tensors of a lower category of dtypes: of bools, of bools and integers.

    Raises:
        DTypeError: one is.
    """
    for name, operand in operands.items():
        if is_tensor(operand) and operand.dtype.category < category:
            raise DTypeError(
                f"{function}: {name} is {operand.dtype.name}, which is not supported.  Convert it "
                "with .to(dtype)."
            )


def refuse_complex_dtype(function: str, *operands: Any) -> None:
    """Refuse tensors of complex numbers.

    Raises:
        DTypeError: one is.
    """
    for operand in operands:
        if is_tensor(operand) and operand.dtype.is_complex:
            raise DTypeError(f"{function} is not supported for complex tensors.  Take .real.")


def as_written(function: str, result: Any, dtype: DType, promoted: Iterable[DType] = ()) -> Any:
    """A result in the dtype of the tensor that PyTorch writes it to.

    Args:
        promoted: dtypes in between that are written there, too.

    Raises:
        DTypeError: that would lose a fraction, or an imaginary part.
    """
    for found in (*promoted, result.dtype):
        is_lower = dtype is dtypes.bool_ and found is not dtype
        if is_lower or found.category > dtype.category:
            raise DTypeError(
                f"{function}: the result is {found.name}, which cannot be cast to {dtype.name}.  "
                "Convert the operands with .to(dtype)."
            )
    return cast(result, dtype)
