"""Utilities that programs import by PyTorch's paths."""

from dynajit.utils import (
    _pytree,  # noqa: F401  (published, though not by `import *`)
    checkpoint,
    cpp_extension,
    data,
    dlpack,
    flop_counter,
    hooks,
    model_zoo,
    summary,
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
]
