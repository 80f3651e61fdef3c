"""`nn.attention`: which kernel computes `scaled_dot_product_attention`, as programs ask it.

Contract: names and checks are PyTorch's; there is one implementation, so that a choice changes
nothing.
"""

import enum
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from dynajit.core.errors import ExpectationError
from dynajit.core.process import late

#: Programs set it for more warnings; none depends on it here.
WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """Kernels that PyTorch tells apart."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


class sdpa_kernel:
    """A context in which attention may use these kernels; it changes nothing here.

    Args:
        backends: one or several.
        set_priority: whether their order says which are preferred.

    Raises:
        ExpectationError: something that is not a backend.
    """

    def __init__(
        self, backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False
    ) -> None:
        listed = [backends] if isinstance(backends, SDPBackend) else backends
        if not isinstance(listed, list):
            raise ExpectationError(
                "Backend must be an instance of SDPBackend or a list of SDPBackend instances, "
                f"got {type(backends).__name__}"
            )

    def __enter__(self) -> dict[str, Any]:
        return {}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def __call__(self, function: Any) -> Any:
        """The function, as a decorator gives it: nothing is to be done around its calls."""
        return function


__all__ = [
    "WARN_FOR_UNFUSED_KERNELS",
    "SDPBackend",
    "sdpa_kernel",
]

late.show(__name__)
