"""Rows that have CUDA kernels of their own.

Contract: `why_not_native` decides from a call's operand types and attributes alone, as
`codegen.natives` does for C, so that passes leave exactly those composites whole that a kernel is
printed for. Called by `codegen.cuda_text`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dynajit.codegen import cuda_attention
from dynajit.codegen.cuda_steps import CudaKernel
from dynajit.codegen.loops import NativeKernel
from dynajit.codegen.natives import ATTENTION
from dynajit.core.errors import CodegenError
from dynajit.core.types import ValueType


def why_not_native(
    row: str, types: Sequence[ValueType | None], attributes: Mapping[str, Any]
) -> str | None:
    """Why a call of a composite has no CUDA kernel of its own, or None if it has."""
    if row in ATTENTION:
        return cuda_attention.why_not_attention(row, types, attributes)
    return f"{row} has no CUDA kernel of its own."


def print_native(kernel: NativeKernel) -> tuple[CudaKernel, ...]:
    """The CUDA kernels of a row.

    Raises:
        CodegenError: the row has none.
    """
    if kernel.row in ATTENTION:
        return cuda_attention.print_attention(kernel)
    raise CodegenError(f"{kernel.name}: {kernel.row} has a kernel in C only.")
