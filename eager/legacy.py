"""Classes by element type (`FloatTensor`, `LongTensor`, ...) and `Variable`, of older programs.

Contract: the classes have no instances of their own: calling one makes a `Tensor` of its dtype, and
`isinstance` asks for the dtype. Published by `dynajit/__init__.py` and `dynajit.autograd`.
"""

from typing import Any

from dynajit.core.dtypes import DType
from dynajit.eager.tensor import Tensor
from dynajit.eager.typed_names import TYPE_NAMES


class _TensorType(type):
    """Class of the classes: what `isinstance` asks."""

    dtype: DType

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype


def _typed(name: str) -> Any:
    dtype = TYPE_NAMES[name]

    def make(cls: Any, *data: Any, device: Any = None) -> Tensor:
        return Tensor(*data, dtype=dtype, device=device)

    doc = f"Tensors of {dtype.name}: `{name}(2, 3)` by sizes, `{name}([1, 2])` from data."
    members = {"dtype": dtype, "__new__": make, "__doc__": doc, "__module__": __name__}
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
        made = data.detach()
        return made.requires_grad_() if requires_grad else made
