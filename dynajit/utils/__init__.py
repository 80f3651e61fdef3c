"""Utilities that programs import by PyTorch's paths, each when it is first asked for."""

from typing import TYPE_CHECKING

from dynajit.core.process import late

if TYPE_CHECKING:
    from dynajit.utils import (
        checkpoint,
        data,
        dlpack,
        flop_counter,
        summary,
        tensorboard,
    )

__all__ = [
    "checkpoint",
    "cpp_extension",
    "data",
    "dlpack",
    "flop_counter",
    "hooks",
    "model_zoo",
    "summary",
    "tensorboard",
]

__getattr__ = late.publish(
    __name__,
    modules=(
        "_device", "_python_dispatch", "_pytree", "checkpoint", "data", "dlpack", "flop_counter",
        "summary", "tensorboard",
    ),
)  # fmt: skip
late.show(__name__)
