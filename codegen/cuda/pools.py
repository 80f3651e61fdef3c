"""Pools in CUDA: which calls have kernels, and which functions they call.

Contract: a thread for each element of the result (see headers/device_pooling.h); sizes are those of
the loop kernel, known or symbolic.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dynajit.codegen.c.natives import number_text
from dynajit.codegen.c.support import ceil_div
from dynajit.codegen.cuda.convolution import DIMS, MOST_TAPS
from dynajit.codegen.cuda.units.steps import CudaKernel
from dynajit.codegen.cuda.units.support import Launch, scalar_type, with_parameters
from dynajit.codegen.loops.loop_ir import Buffer, NativeKernel
from dynajit.core.types.value_types import TensorType, ValueType, numel

THREADS: Final = 256


def why_not_pool(
    row: str, types: Sequence[ValueType | None], attributes: Mapping[str, Any]
) -> str | None:
    """Why a call has no CUDA kernel, or None if it has."""
    tensors = [type for type in types if isinstance(type, TensorType)]
    first = tensors[0]
    if not first.dtype.is_floating_point:
        return "the operand is not floating."
    if any(type.strides is not None and not type.is_contiguous for type in tensors):
        return "an operand is not row-major."
    if any(0 in type.shape for type in tensors) or 0 in attributes.get("shape", ()):
        return "an operand is empty."
    size = tuple(attributes["size"])
    known = tuple(k for k in size if isinstance(k, int))
    taps = numel(known)
    assert isinstance(taps, int)
    if len(size) > DIMS or first.rank < len(size):
        return "windows have more than three dims."
    if len(known) != len(size) or not 0 < taps <= MOST_TAPS:
        return "the windows' size is not known, 0 or too large."
    return None


def print_pool(kernel: NativeKernel) -> tuple[CudaKernel, ...]:
    """The CUDA kernel of a pool."""
    numbers = dict(kernel.numbers)
    first = kernel.reads[0]
    assert first is not None
    scalar = scalar_type(first.dtype)
    values = [buffer for buffer in kernel.reads if buffer is not None]
    results = list(kernel.writes)
    if kernel.row == "place_windows":
        function, side = f"dj_place_windows<{scalar}>", "in"
        given = [_pointer(values[0], f"const {scalar}"), values[1].name]
        given.append(_pointer(results[0], scalar))
    else:
        is_sum = str(kernel.row == "sum_pool").lower()
        function, side = f"dj_pool_windows<{is_sum}, {scalar}>", "out"
        chosen = results[1] if len(results) > 1 else None
        given = [_pointer(first, f"const {scalar}"), _pointer(results[0], scalar)]
        given.append(_pointer(chosen, "int64_t"))
    body = ["dj_pool c;", f"c.planes = {number_text(numbers['planes'][0])};"]
    for part, sizes in numbers.items():
        if part != "planes":
            body += [f"c.{part}[{d}] = {number_text(n)};" for d, n in enumerate(sizes)]
    body.append(f"{function}({', '.join(['c', *given])});")
    count = numbers["planes"][0] * numel(numbers[side])
    launch = Launch(ceil_div(count, THREADS), THREADS)
    return (with_parameters(kernel, kernel.name, body, launch, values, results),)


def _pointer(buffer: Buffer | None, c: str) -> str:
    return f"({c} *)nullptr" if buffer is None else f"({c} *){buffer.name}"
