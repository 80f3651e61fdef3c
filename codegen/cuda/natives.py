"""Rows that have CUDA kernels of their own.

Contract: `why_not_native` decides from a call's operand types and attributes alone, as
`codegen.plan.natives` does for C, so that passes leave exactly those composites whole that a kernel
is printed for.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dynajit.codegen.cuda import attention as cuda_attention
from dynajit.codegen.cuda import convolution as cuda_convolution
from dynajit.codegen.cuda import ordering as cuda_ordering
from dynajit.codegen.cuda import pools as cuda_pools
from dynajit.codegen.cuda.units.steps import CudaKernel, Options
from dynajit.codegen.cuda.units.support import Choices
from dynajit.codegen.loops.loop_ir import NativeKernel
from dynajit.codegen.plan.native_ordering import why_not_ordering
from dynajit.codegen.plan.natives import ATTENTION, CONVOLUTIONS, ORDERINGS, POOLS
from dynajit.core.errors import CodegenError
from dynajit.core.types.value_types import ValueType

_POOLS: Final = (*POOLS, "place_windows")

_HEADERS: Final = {
    **dict.fromkeys(ATTENTION, ("device_mma.h", "device_attention.h", "device_attention_mma.h")),
    **dict.fromkeys(
        CONVOLUTIONS, ("device_mma.h", "device_convolution.h", "device_convolution_mma.h")
    ),
    **dict.fromkeys(_POOLS, ("device_mma.h", "device_pooling.h")),
    **dict.fromkeys(ORDERINGS, ("device_mma.h", "device_ordering.h")),
}
"""Row -> what its kernels need of the headers besides the prelude."""


def headers_of(kernels: Iterable[CudaKernel]) -> list[str]:
    """The headers that some kernels need besides the prelude, in order."""
    rows = {k.kernel.row for k in kernels if isinstance(k.kernel, NativeKernel)}
    return list(dict.fromkeys(header for row in sorted(rows) for header in _HEADERS[row]))


def why_not_native(
    row: str, types: Sequence[ValueType | None], attributes: Mapping[str, Any]
) -> str | None:
    """Why a call of a composite has no CUDA kernel of its own, or None if it has."""
    if row in ATTENTION:
        return cuda_attention.why_not_attention(row, types, attributes)
    if row in CONVOLUTIONS:
        return cuda_convolution.why_not_convolution(row, types, attributes)
    if row in _POOLS:
        return cuda_pools.why_not_pool(row, types, attributes)
    if row in ORDERINGS:
        return why_not_ordering(types[0])
    return f"{row} has no CUDA kernel of its own."


def print_native(
    kernel: NativeKernel, choices: Choices, options: Options
) -> tuple[CudaKernel, ...]:
    """The CUDA kernels of a row.

    Raises:
        CodegenError: the row has none.
    """
    if kernel.row in ATTENTION:
        return cuda_attention.print_attention(kernel, options)
    if kernel.row in CONVOLUTIONS:
        return cuda_convolution.print_convolution(kernel, choices, options)
    if kernel.row in _POOLS:
        return cuda_pools.print_pool(kernel)
    if kernel.row in ORDERINGS:
        return cuda_ordering.print_ordering(kernel)
    raise CodegenError(f"{kernel.name}: {kernel.row} has a kernel in C only.")
