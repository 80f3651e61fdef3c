"""What it means that a GPU reports a fault, and the exception that says so.

Contract: CUDA answers with the same error from a fault on, whatever it is asked, and whoever made
it: the call that shows it is seldom the one that did it. `message` says that of the code of an
error, or None for other errors; within `in_words` such errors of CuPy become `DeviceError`. Codes
are those of `cuda.h`, which the driver and the runtime share.
"""

from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Final

from dynajit.core.errors import DeviceError

MSG_FAULT: Final = (
    "the GPU reports {error} ({call}, code {code}): a kernel that was launched earlier, here or by "
    "another library, {fault}.  Its results are lost, and CUDA answers every later call in this "
    "process with the same error: start a new process.  To find the kernel, run with "
    "CUDA_LAUNCH_BLOCKING=1 or under compute-sanitizer; look first at kernels of your own "
    "(cupy.RawKernel and its kin), whose addresses nobody else checks."
)

FAULTS: Final[Mapping[int, str]] = MappingProxyType(
    {
        700: "read or wrote memory that is not its own",
        710: "failed an assertion of its own",
        714: "used up its stack",
        715: "met an illegal instruction",
        716: "used an address that is no multiple of what it read",
        717: "used memory of the wrong kind",
        718: "jumped to where no code is",
        719: "stopped while it ran",
    }
)
"""What the kernel did, by code: CUDA_ERROR_ILLEGAL_ADDRESS, _ASSERT, _HARDWARE_STACK_ERROR,
_ILLEGAL_INSTRUCTION, _MISALIGNED_ADDRESS, _INVALID_ADDRESS_SPACE, _INVALID_PC, _LAUNCH_FAILED."""


def message(code: int, error: str, call: str) -> str | None:
    """What a fault means and what to do; None if the code is of another error.

    Args:
        error: the library's name of it.
        call: who was told.
    """
    if code not in FAULTS:
        return None
    return MSG_FAULT.format(error=error, call=call, code=code, fault=FAULTS[code])


class _InWords:
    """See `in_words`. Stateless."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, RuntimeError):
            text = message(getattr(error, "status", 0), str(error), "CuPy")
            if text is not None:
                raise DeviceError(text) from error


in_words: Final = _InWords()
"""`with in_words:` faults that CuPy raises within the block are `DeviceError`."""
