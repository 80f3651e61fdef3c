"""Looking at the tape, and at what it saves, by PyTorch's path.

Contract: saved tensors go through functions of the program's own in eager code and in compiled
functions that are called within a block; opening a block is a graph break.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dynajit.autograd.overwriting import allow_mutation_on_saved_tensors
from dynajit.autograd.several import register_multi_grad_hook
from dynajit.capture.control import disable
from dynajit.core.errors import AutogradError
from dynajit.core.process import late
from dynajit.eager import _tensor
from dynajit.eager.backward.engine import GradientEdge
from dynajit.eager.tape import saved_hooks
from dynajit.eager.tape.node import Node, accumulator_of
from dynajit.eager.tensor.tensor import Tensor


class saved_tensors_hooks:
    """A block in which every tensor that is saved for backward goes through two functions.

    Args:
        pack_hook: takes the tensor, without history; what it returns is kept instead.
        unpack_hook: takes that, and returns a tensor: that value is what backward computes with.

    Raises:
        AutogradError: `pack_hook` wrote to the tensor; `disable_saved_tensors_hooks` forbids it.
        ArgumentError: `unpack_hook` returned something else than a tensor.
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        _enter((self.pack_hook, self.unpack_hook))

    def __exit__(self, *args: object) -> None:
        _leave()


class save_on_cpu(saved_tensors_hooks):
    """A block in which saved tensors wait in the memory of the CPU.

    Args:
        pin_memory: accepted; it says how copies are made.
        device_type: of the GPUs; "cuda".
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(_to_cpu, _from_cpu)


def _to_cpu(tensor: Any) -> tuple[Any, Any]:
    return tensor.device, tensor.cpu()


def _from_cpu(packed: tuple[Any, Any]) -> Any:
    device, tensor = packed
    return tensor.to(device)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """A block in which `saved_tensors_hooks` raises AutogradError with this text."""
    _refuse(error_message)
    try:
        yield
    finally:
        _allow()


# Compiled code has no record of the blocks around it: opening and closing one ends the graph.
_enter = disable(saved_hooks.enter)
_leave = disable(saved_hooks.leave)
_refuse = disable(saved_hooks.refuse)
_allow = disable(saved_hooks.allow)


def increment_version(tensor: Any) -> None:
    """Let the tape know of a write that it did not see, to a tensor or to several.

    Raises:
        AutogradError: something else than a tensor; a RuntimeError, as in PyTorch.
    """
    tensors: Any = [tensor] if isinstance(tensor, Tensor) else tensor
    if not isinstance(tensors, Iterable):
        raise AutogradError("increment_version expects a tensor or an iterable of tensors")
    for one in tensors:
        if not isinstance(one, Tensor):
            raise AutogradError("increment_version expects each element to be a tensor")
        _tensor.bump_version(one)


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Where the gradient of a tensor arrives; `autograd.grad` takes it as an input or output.

    Raises:
        AutogradError: the tensor requires no gradient; a RuntimeError, as in PyTorch.
    """
    if not tensor.requires_grad:
        raise AutogradError("It is not possible to get the gradient edge for a Tensor that does "
                            "not require gradients")  # fmt: skip
    node = tensor.grad_fn
    if node is None:
        return GradientEdge(accumulator_of(tensor), 0)
    node.more().kinds[tensor.output_index] = tuple(tensor.shape), tensor.dtype, tensor.device
    return GradientEdge(node, tensor.output_index)


__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]

late.show(__name__)
