"""CUDA's switches by PyTorch's path: there is no GPU, settings are accepted and change nothing."""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

matmul = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    fp32_precision="none",
)
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Whether tensors can be used with CUDA: False."""
    return False


def flash_sdp_enabled() -> bool:
    """What `enable_flash_sdp` was told last."""
    return _attention["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Accepted; attention on the CPU has one form."""
    _attention["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """What `enable_mem_efficient_sdp` was told last."""
    return _attention["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Accepted; attention on the CPU has one form."""
    _attention["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """What `enable_math_sdp` was told last."""
    return _attention["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Accepted; attention on the CPU has one form."""
    _attention["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` was told last."""
    return _attention["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Accepted; attention on the CPU has one form."""
    _attention["cudnn"] = bool(enabled)


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[Any]:
    """Accepted settings for the block; attention on the CPU has one form."""
    before = dict(_attention)
    _attention.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield
    finally:
        _attention.update(before)


__all__ = [
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
