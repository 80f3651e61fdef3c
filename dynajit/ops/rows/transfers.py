"""The row that moves a tensor to another device.

Contract: the elements, dtype and dense layout stay. `Tensor.to`, `cpu` and `cuda` call it where the
device changes, so that gradients come back to where the tensor was. Passes and kernels treat it as
a call of its own: nothing is fused across devices.
"""

from typing import Any

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.ops.table import result_layouts, sample_rules
from dynajit.ops.table.families import describe, extern, require_tensor


def _infer(x: ValueType, *, device: Device, non_blocking: bool) -> TensorType:
    type = require_tensor(x, describe("to_device", ("x",), (x,)), "x")
    return TensorType(type.shape, type.dtype, device)


@extern(
    infer=_infer,
    vjp={"x": lambda ops, g, x_type: ops.to_device(g, device=x_type.device)},
    widens=True,
    layout=result_layouts.as_first,
    takes=dtypes.STORED,
    linear=("x",),
    samples=sample_rules.leading,
)
def to_device(xp: Any, x: Any, *, device: Device = CPU, non_blocking: bool = False) -> Any:
    """A copy of x on a device.

    With `non_blocking` a copy from or to pinned memory of the host may still be running when this
    returns: later work on the GPU's current stream waits for it, the host has to synchronize.
    """
    if device.type == "cuda":
        index = gpu.current_device() if device.index is None else device.index
        return gpu.to_device(x, index, non_blocking)
    if gpu.is_gpu_array(x):
        return gpu.to_host(x, non_blocking)
    return x.copy(order="K")
