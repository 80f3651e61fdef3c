"""Tensors over memory that others made: buffers, DLPack's capsules and producers, `asarray`.

Contract: what is made shares the memory, which is never freed before it; `asarray` copies only
where it is asked to, or where dtype or device differ.
"""

from typing import Any, Final

import numpy as np

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import (
    ArgumentRuntimeError,
    ArgumentValueError,
    InvalidValueError,
)
from dynajit.core.types import device as devices
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.eager import _tensor
from dynajit.eager.tensor.convert import dtype_named, place_of
from dynajit.eager.tensor.creation import from_numpy, tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.table.op_table import TABLE
from dynajit.ops.table.overriding import publish_overridable

_DLPACK_CUDA: Final = 2  # kDLCUDA
_ON_THE_CPU: Final = (1, 0)
_CAPSULE: Final = type(np.zeros(1).__dlpack__())


class _Producer:
    """Hands a capsule on to a library that asks for an object."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **arguments: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _ON_THE_CPU


class _Writable:
    """The memory of an array that NumPy takes for read-only: older capsules do not say."""

    def __init__(self, array: Any) -> None:
        self._array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor that shares the memory of an object with `__dlpack__`, of the CPU or a GPU, or of a
    capsule of the CPU, which is used up by the call."""
    if isinstance(ext_tensor, _CAPSULE):
        return from_numpy(np.asarray(_Writable(np.from_dlpack(_Producer(ext_tensor)))))
    if not hasattr(ext_tensor, "__dlpack_device__"):
        raise ArgumentRuntimeError(
            f"from_dlpack: {type(ext_tensor).__name__} objects have no __dlpack__."
        )
    if ext_tensor.__dlpack_device__()[0] == _DLPACK_CUDA:
        made: Tensor = _tensor.wrap(gpu.shared(gpu.from_dlpack(ext_tensor)))
        return made
    return from_numpy(np.from_dlpack(ext_tensor))


def frombuffer(
    buffer: Any,
    *,
    dtype: DType,
    count: int = -1,
    offset: int = 0,
    requires_grad: bool = False,
) -> Any:
    """A 1-d tensor on the memory of a buffer, from `offset` bytes on.

    Raises:
        InvalidValueError: the object is no buffer, or it is empty or has not so many elements.
    """
    view = _buffer_of(buffer)
    if view is None:
        raise InvalidValueError(
            f"frombuffer: {type(buffer).__name__} objects do not implement Python's buffer "
            "protocol."
        )
    size = view.nbytes
    if not size or not count:
        raise InvalidValueError(
            f"both buffer length ({size}) and count ({count}) must not be 0.  Give a buffer with "
            "elements."
        )
    if not 0 <= offset < size:
        raise InvalidValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({size} bytes) minus 1."
        )
    rest = size - offset
    if count < 0 and rest % dtype.itemsize:
        raise InvalidValueError(
            f"buffer length ({rest} bytes) after offset ({offset} bytes) must be a multiple of "
            f"element size ({dtype.itemsize}).  Give count."
        )
    if count > 0 and count * dtype.itemsize > rest:
        raise InvalidValueError(
            f"requested buffer length ({count} * {dtype.itemsize} bytes) after offset ({offset} "
            f"bytes) must not be greater than actual buffer length ({size} bytes)."
        )
    array = np.frombuffer(buffer, dtype.numpy, count, offset)
    made = from_numpy(array)
    return made.requires_grad_() if requires_grad else made


def _buffer_of(data: Any) -> memoryview | None:
    try:
        return memoryview(data)
    except TypeError:
        return None


def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """`obj` as a tensor; `copy=True` always copies, `copy=False` never (or raises).

    Args:
        obj: a tensor, an array, a capsule of DLPack, a buffer (whose bytes are elements of `dtype`,
            or of the default dtype), or what `tensor` takes.
        requires_grad: of the result, also where that is `obj` itself; False cuts it off from the
            history of a tensor that was computed.

    Raises:
        ArgumentValueError: `copy=False`, and a copy is needed.
    """
    shared = _shared(obj, dtype, copy)
    if shared is None:
        return tensor(obj, dtype=dtype, device=device, requires_grad=bool(requires_grad))
    device = devices.chosen() if device is None else device
    place = shared.device if device is None else place_of("asarray", device)
    kind = shared.dtype if dtype is None else dtype_named(dtype, "asarray")
    made: Tensor = shared
    if kind is shared.dtype and place is shared.device:
        made = shared.clone() if copy else shared
    elif copy is False:
        raise ArgumentValueError(
            f"asarray(copy=False): can't alias elements of {shared.dtype.name} on {shared.device} "
            f"as {kind.name} on {place}."
        )
    else:
        made = TABLE.cast(shared, dtype=kind) if kind is not shared.dtype else shared
        made = made if place is made.device else TABLE.to_device(made, device=place)
    if requires_grad is False and not made.is_leaf:
        made = made.detach()
    elif requires_grad is not None and made.is_leaf:
        made.requires_grad = requires_grad
    return made


def _shared(obj: Any, dtype: DType | None, copy: bool | None) -> Tensor | None:
    """A tensor over the memory of what has one, or None.

    Raises:
        ArgumentRuntimeError: no copy is allowed of a number of NumPy's.
        ArgumentValueError: nor of other data.
    """
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.ndarray):
        return from_numpy(obj)
    if isinstance(obj, _CAPSULE):
        return from_dlpack(obj)
    if gpu.is_foreign(obj):
        foreign: Tensor = _tensor.wrap(gpu.shared(obj))
        return foreign
    if isinstance(obj, np.generic):
        if copy is False:
            raise ArgumentRuntimeError(
                "asarray(copy=False): can't alias NumPy scalars.  Leave out copy=False, or make "
                "an array of it."
            )
        return None
    if _buffer_of(obj) is not None:
        over: Tensor = frombuffer(obj, dtype=dtype or dtypes.default_floating())
        return over
    if copy is False:
        raise ArgumentValueError("asarray(copy=False): can't alias an arbitrary sequence.")
    return None


publish_overridable(globals(), ("asarray", "frombuffer", "from_dlpack"), take_any_data=True)
