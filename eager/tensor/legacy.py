"""Classes by element type (`FloatTensor`, `LongTensor`, ...) and `Variable`, of older programs.

Contract: the classes have no instances of their own: calling one makes a `Tensor` of its dtype, and
`isinstance` asks for the dtype. Those of `dynajit.cuda` make tensors on a GPU. Published by
`dynajit/__init__.py`, `dynajit.cuda` and `dynajit.autograd`.
"""

from typing import Any

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import ArgumentRuntimeError, DeviceError, DTypeTypeError
from dynajit.core.types.dtypes import DType
from dynajit.core.types.tensor_layouts import strided
from dynajit.eager.tensor.tensor import MSG_LEGACY_DEVICE, Tensor
from dynajit.eager.tensor.typed_names import TYPE_NAMES


class _TensorType(type):
    """Class of the classes: what `isinstance` asks."""

    dtype: DType
    is_cuda: bool

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, Tensor)
            and instance.layout is strided
            and instance.dtype is cls.dtype
            and instance.is_cuda is cls.is_cuda
        )


def _typed(name: str, is_cuda: bool = False) -> Any:
    dtype, place = TYPE_NAMES[name], "cuda" if is_cuda else None

    def make(cls: Any, *data: Any, device: Any = None) -> Tensor:
        if is_cuda:
            gpu.require(f"cuda.{name}")
        if data and isinstance(data[0], Tensor):
            if device is not None:
                raise ArgumentRuntimeError(MSG_LEGACY_DEVICE)
            if data[0].dtype is not dtype or data[0].is_cuda is not is_cuda:
                raise DTypeTypeError(
                    f"{name}: got a tensor of {data[0].dtype.name} on {data[0].device}.  Expected "
                    f"one of {dtype.name}; .to(...) makes one."
                )
            return Tensor(*data)
        made = Tensor(*data, dtype=dtype, device=place if device is None else device)
        if made.is_cuda is not is_cuda or made.is_meta:
            raise DeviceError(f"{name}: got device={device}.  Expected one of its class.")
        return made

    where = " on a GPU" if is_cuda else ""
    doc = f"Tensors of {dtype.name}{where}: `{name}(2, 3)` by sizes, `{name}([1, 2])` from data."
    home = "dynajit.cuda" if is_cuda else "dynajit"
    members = {
        "dtype": dtype, "is_cuda": is_cuda, "__new__": make, "__doc__": doc, "__module__": home,
    }  # fmt: skip
    return _TensorType(name, (), members)


FloatTensor = _typed("FloatTensor")
DoubleTensor = _typed("DoubleTensor")
HalfTensor = _typed("HalfTensor")
BFloat16Tensor = _typed("BFloat16Tensor")
LongTensor = _typed("LongTensor")
IntTensor = _typed("IntTensor")
ShortTensor = _typed("ShortTensor")
CharTensor = _typed("CharTensor")
ByteTensor = _typed("ByteTensor")
BoolTensor = _typed("BoolTensor")


CudaFloatTensor = _typed("FloatTensor", is_cuda=True)
CudaDoubleTensor = _typed("DoubleTensor", is_cuda=True)
CudaHalfTensor = _typed("HalfTensor", is_cuda=True)
CudaBFloat16Tensor = _typed("BFloat16Tensor", is_cuda=True)
CudaLongTensor = _typed("LongTensor", is_cuda=True)
CudaIntTensor = _typed("IntTensor", is_cuda=True)
CudaShortTensor = _typed("ShortTensor", is_cuda=True)
CudaCharTensor = _typed("CharTensor", is_cuda=True)
CudaByteTensor = _typed("ByteTensor", is_cuda=True)
CudaBoolTensor = _typed("BoolTensor", is_cuda=True)


class _VariableType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableType):
    """A tensor that shares the data's memory, without its history: tensors themselves have
    gradients, so programs no longer need it.

    Args:
        data: a tensor.
        requires_grad: whether the result requires gradients.
        volatile: has no effect.
    """

    def __new__(  # type: ignore[misc]
        cls, data: Tensor, requires_grad: bool = False, volatile: bool = False
    ) -> Tensor:
        made: Tensor = data.detach()
        return made.requires_grad_() if requires_grad else made
