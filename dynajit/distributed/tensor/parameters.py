"""DTensors as parameters of modules, and what is asked of several of them at once.

Contract: `as_parameter` gives a leaf that is a `DTensor` and a `Parameter`, on the same part;
`Parameter(x)` of a DTensor comes here, too. Norms over such parameters are of the whole.
"""

from typing import Any

from dynajit.distributed.collectives import all_reduce
from dynajit.distributed.reductions import ReduceOp
from dynajit.distributed.tensor.dtensor import DTensor, made_as
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.parameter import Parameter


class DTensorParameter(DTensor, Parameter):
    """A DTensor that is a module's parameter when assigned as an attribute."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return DTensor.__deepcopy__(self, memo)

    def found_anywhere(self, flags: dict[Any, Tensor]) -> None:
        """Flags of this process, which are 0 or 1, become those of any; every process of the mesh
        calls this."""
        for flag in flags.values():
            for at in range(self.device_mesh.ndim):
                if self.device_mesh.size(at) > 1:
                    all_reduce(flag, ReduceOp.MAX, group=self.device_mesh.get_group(at))


def as_parameter(x: DTensor, requires_grad: bool = True) -> DTensorParameter:
    """A parameter on the part of a tensor.

    Args:
        x: the tensor; its history is left behind.
        requires_grad: whether gradients are accumulated in `.grad`.
    """
    found = made_as(DTensorParameter, x._local, x._layout)
    found.requires_grad = requires_grad
    return found


def _as_parameter(self: DTensor, requires_grad: bool) -> DTensor:
    """What `Parameter(x)` gives of a DTensor."""
    return as_parameter(self, requires_grad)


DTensor._as_parameter = _as_parameter  # type: ignore[method-assign]

__all__ = ["DTensorParameter", "as_parameter"]
