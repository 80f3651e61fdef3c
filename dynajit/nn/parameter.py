"""Parameters and buffers: tensors that a Module registers when they are assigned to it."""

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


def _rebuild(cls: type[Parameter], array: Any, requires_grad: bool) -> Parameter:
    return cls(Tensor._from_array(array), requires_grad)


def _of_checkpoint(data: Tensor, requires_grad: bool = True, hooks: Any = None) -> Parameter:
    return Parameter(data, bool(requires_grad))


def _of_checkpoint_with_state(
    data: Tensor, requires_grad: bool, hooks: Any, state: Any
) -> Parameter:
    made: Parameter = with_state(Parameter(data, bool(requires_grad)), state)
    return made


declare("torch.nn.parameter", "Parameter", Parameter)
declare("torch._utils", "_rebuild_parameter", _of_checkpoint)
declare("torch._utils", "_rebuild_parameter_with_state", _of_checkpoint_with_state)
