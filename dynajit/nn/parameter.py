"""Parameters and buffers: tensors that a Module registers when they are assigned to it.

Contract: as in PyTorch; results of operations on them are plain tensors. Called by `nn.module` and
by model code.
"""

from typing import Any

from dynajit.eager.checkpoint_names import declare, with_state
from dynajit.eager.creation import empty
from dynajit.eager.tensor import Tensor


class Parameter(Tensor):
    """A tensor that is a module's parameter when assigned as an attribute.

    Args:
        data: the tensor whose array the parameter shares; empty if None.
        requires_grad: whether gradients are accumulated in `.grad`.
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> "Parameter":
        source = empty(0) if data is None else data
        parameter = Tensor._from_array(source.array, cls)
        if requires_grad:
            parameter.requires_grad = True
        return parameter

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        pass

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Parameter":
        if id(self) in memo:
            return memo[id(self)]
        copied = type(self)(self.detach().clone(), self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.detach().numpy(), self.requires_grad)


class Buffer(Tensor):
    """A tensor that is a module's buffer when assigned as an attribute.

    Args:
        data: the tensor whose array the buffer shares; empty if None.
        persistent: whether it is part of the module's state dict.
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> "Buffer":
        source = empty(0) if data is None else data
        made = Tensor._from_array(source.array, cls)
        made.persistent = persistent
        if source.requires_grad:
            made.requires_grad = True
        return made

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        pass


def is_lazy(param: Any) -> bool:
    """Whether a parameter has no sizes yet: False, all have."""
    return False


def _rebuild(cls: type[Parameter], array: Any, requires_grad: bool) -> Parameter:
    return cls(Tensor._from_array(array), requires_grad)


def rebuilt_parameter(data: Tensor, requires_grad: bool = True, hooks: Any = None) -> Parameter:
    """A parameter of a checkpoint, from the tensor that it was."""
    return Parameter(data, bool(requires_grad))


def _of_checkpoint_with_state(
    data: Tensor, requires_grad: bool, hooks: Any, state: Any
) -> Parameter:
    made: Parameter = with_state(Parameter(data, bool(requires_grad)), state)
    return made


declare("torch.nn.parameter", "Parameter", Parameter)
declare("torch._utils", "_rebuild_parameter", rebuilt_parameter)
declare("torch._utils", "_rebuild_parameter_with_state", _of_checkpoint_with_state)
