"""Arrays without elements: what tensors on the device `meta` hold.

Contract: a `MetaArray` has a shape, a dtype and strides, takes no memory, and stands where tensors
of a GPU hold an array of CuPy: code in C that computes with NumPy's arrays declines it, and whoever
asks for elements gets an error. Views share a `memory`, as views of arrays do, so that writes and
histories are followed in the same way. Which array an operation gives is in
`eager.operations.on_meta`.
"""

import math
from typing import Any, Final, NoReturn

import numpy as np

from dynajit.core.errors import UnsupportedError
from dynajit.core.types.value_types import contiguous_strides

MSG_NO_DATA: Final = (
    "Cannot copy out of meta tensor; no data!  It has a shape and a dtype, but no elements.  Make "
    "one on the CPU (empty_like(x, device='cpu'), or Module.to_empty(device='cpu')), and fill it."
)


class MetaMemory:
    """What the views of a meta array share, by the names that CuPy's arrays have for theirs.

    Args:
        nbytes: how many bytes there would be.
    """

    __slots__ = ("nbytes",)

    #: An address, and a number of a device that no array has.
    ptr = 0
    device_id = -2

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    @property
    def mem(self) -> "MetaMemory":
        """The allocation."""
        return self


class _Flags:
    """`flags` of an array."""

    __slots__ = ("c_contiguous",)

    writeable = True

    def __init__(self, c_contiguous: bool) -> None:
        self.c_contiguous = c_contiguous


class MetaArray:
    """See the module.

    Args:
        shape: sizes.
        dtype: of NumPy.
        strides: in bytes; row-major by default.
        memory: shared with other views.
        offset: of the first element in the memory, in bytes.
    """

    __slots__ = ("data", "dtype", "offset", "shape", "strides")

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype,
        strides: tuple[int, ...] | None = None,
        memory: MetaMemory | None = None,
        offset: int = 0,
    ) -> None:
        self.shape = tuple(int(size) for size in shape)
        self.dtype = np.dtype(dtype)
        steps = contiguous_strides(self.shape)
        self.strides = (
            tuple(int(step) * self.dtype.itemsize for step in steps) if strides is None else strides
        )
        self.data = MetaMemory(self.nbytes) if memory is None else memory
        self.offset = offset

    @property
    def base(self) -> None:
        """The array that owns the memory: none does."""

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def flags(self) -> _Flags:
        """Whether the elements would lie row by row."""
        expected = self.itemsize
        for size, step in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and step != expected and self.size:
                return _Flags(False)
            expected *= size
        return _Flags(True)

    def seen_by(self, change: Any) -> "MetaArray | None":
        """A view, found by what a function makes of an array of NumPy with these strides.

        Args:
            change: gives a view of the array, and reads no element; None: it would have to copy.
        """
        stand_in = np.lib.stride_tricks.as_strided(
            np.empty((), self.dtype), self.shape, self.strides, writeable=False
        )
        view = change(stand_in)
        if view is None:
            return None
        offset = self.offset + _address(view) - _address(stand_in)
        return MetaArray(view.shape, view.dtype, view.strides, self.data, offset)

    def transpose(self, order: tuple[int, ...]) -> "MetaArray":
        """The dims in another order."""
        shape = tuple(self.shape[d] for d in order)
        strides = tuple(self.strides[d] for d in order)
        return MetaArray(shape, self.dtype, strides, self.data, self.offset)

    def view(self, dtype: np.dtype) -> "MetaArray":
        """The same bytes as elements of another dtype of the same size."""
        return MetaArray(self.shape, dtype, self.strides, self.data, self.offset)

    def __getitem__(self, part: Any) -> "MetaArray":
        """Some elements of one dim, of step 1; other keys are refused."""
        if not isinstance(part, slice) or self.ndim != 1 or part.step is not None:
            refuse()
        start, stop, _ = part.indices(self.shape[0])
        offset = self.offset + start * self.strides[0]
        return MetaArray((max(stop - start, 0),), self.dtype, self.strides, self.data, offset)

    def dense(self) -> "MetaArray":
        """Another array, whose dims lie in the order of this one's, without gaps."""
        return MetaArray(self.shape, self.dtype, dense_strides(self, self.shape, self.itemsize))

    def __bool__(self) -> NoReturn:
        refuse()

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        refuse()

    def __dlpack__(self, *args: Any, **kwargs: Any) -> NoReturn:
        refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse()


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def dense_strides(like: MetaArray, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...] | None:
    """Strides in bytes of a new array whose dims lie in the order of another's of its rank."""
    order = sorted(range(len(shape)), key=lambda d: -abs(like.strides[d]))
    strides, step = [0] * len(shape), itemsize
    for d in reversed(order):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def refuse() -> NoReturn:
    """Say that there are no elements.

    Raises:
        UnsupportedError: always.
    """
    raise UnsupportedError(MSG_NO_DATA)


def is_meta(array: Any) -> bool:
    """True for arrays without elements."""
    return type(array) is MetaArray


def like(array: Any) -> MetaArray:
    """An array without elements, of the shape, dtype and strides of an array of any kind."""
    if is_meta(array):
        return array  # type: ignore[no-any-return]
    return MetaArray(tuple(array.shape), array.dtype)
