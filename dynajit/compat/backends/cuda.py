"""CUDA's switches by PyTorch's path.

Contract: `matmul.allow_tf32` is `config.allow_tf32`, for eager and compiled products on a GPU. The
other settings are accepted and change nothing: sums of products are always float32, and attention
has one form, whose kernel is chosen by its shape.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import InvalidValueError
from dynajit.core.process import config, late
from dynajit.nn.attention import SDPBackend


class _Products:
    """Settings of products of matrices. Mutable: programs set its attributes."""

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 matrices on a GPU may be in TF32."""
        return config.current().allow_tf32

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        config.configure(allow_tf32=bool(allowed))

    @property
    def fp32_precision(self) -> str:
        """ "tf32" or "ieee", as `allow_tf32` says."""
        return "tf32" if self.allow_tf32 else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, precision: str) -> None:
        if precision not in ("tf32", "ieee", "none"):
            raise InvalidValueError(
                f"backends.cuda.matmul.fp32_precision = {precision!r}: expected 'tf32', 'ieee' or "
                "'none'."
            )
        self.allow_tf32 = precision == "tf32"


matmul = _Products()
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Whether tensors can be used with CUDA: where CuPy and a GPU are here."""
    return gpu.is_available()


def flash_sdp_enabled() -> bool:
    """What `enable_flash_sdp` was told last."""
    return _attention["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Accepted; attention has one form."""
    _attention["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """What `enable_mem_efficient_sdp` was told last."""
    return _attention["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Accepted; attention has one form."""
    _attention["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """What `enable_math_sdp` was told last."""
    return _attention["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Accepted; attention has one form."""
    _attention["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` was told last."""
    return _attention["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Accepted; attention has one form."""
    _attention["cudnn"] = bool(enabled)


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[Any]:
    """Accepted settings for the block; attention has one form."""
    before = dict(_attention)
    _attention.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield
    finally:
        _attention.update(before)


__all__ = [
    "SDPBackend",
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "sdp_kernel",
]

late.show(__name__)
