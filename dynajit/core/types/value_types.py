"""Types of graph values: tensors and run-time scalars.

Frozen data that op rows infer, graph nodes carry and code generation reads. Shapes are tuples of
`int` or symbolic integers (`core.types.symint`).
"""

import math
from dataclasses import replace
from typing import TypeAlias, overload

from dynajit.core.records import record
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.symint import SymInt, shapes_agree

Size: TypeAlias = int | SymInt
Shape: TypeAlias = tuple[Size, ...]


@overload
def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]: ...


@overload
def contiguous_strides(shape: Shape) -> Shape: ...


def contiguous_strides(shape: Shape) -> Shape:
    """Row-major strides, in elements, of `shape`; a size of 0 counts as 1, as in PyTorch."""
    strides: list[Size] = []
    step: Size = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * (max(size, 1) if isinstance(size, int) else size)
    return tuple(reversed(strides))


def numel(shape: Shape) -> Size:
    """Number of elements of `shape` (1 for the empty shape)."""
    return math.prod(shape)


@record
class TensorType:
    """Shape, dtype, device and strides (in elements) of a tensor value.

    `strides` is None where the layout does not matter yet: such a value is contiguous when it is
    stored.
    """

    shape: Shape
    dtype: DType
    device: Device = CPU
    strides: Shape | None = None

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def numel(self) -> Size:
        """Number of elements."""
        return numel(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """True if stored row-major (or not stored yet)."""
        return self.strides is None or self.strides == contiguous_strides(self.shape)

    def with_shape(self, shape: Shape) -> "TensorType":
        """The same dtype and device with another shape and no layout."""
        return replace(self, shape=tuple(shape), strides=None)

    def with_dtype(self, dtype: DType) -> "TensorType":
        """The same shape and device with another dtype and no layout."""
        return replace(self, dtype=dtype, strides=None)

    def __str__(self) -> str:
        sizes = ", ".join(str(size) for size in self.shape)
        device = "" if self.device == CPU else f"@{self.device}"
        return f"{self.dtype.name}[{sizes}]{device}"


def types_agree(a: "ValueType", b: "ValueType") -> bool:
    """Whether two types are equal, where symbolic sizes that must be equal count as equal."""
    if a == b:
        return True
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return False
    return (a.dtype, a.device) == (b.dtype, b.device) and shapes_agree(a.shape, b.shape)


@record
class ScalarType:
    """A run-time Python number: `BOOL`, `INTEGER` (int64) or `FLOATING` (float64).

    In promotion it counts as a Python number, not as a tensor.
    """

    category: Category

    @property
    def shape(self) -> Shape:
        """Scalars broadcast like zero-dim tensors."""
        return ()

    @property
    def c(self) -> str:
        """The C type that carries the number into a kernel."""
        return ("int64_t", "int64_t", "double", "double _Complex")[self.category]

    def __str__(self) -> str:
        return ("bool", "int", "float", "complex")[self.category]


ValueType: TypeAlias = TensorType | ScalarType
