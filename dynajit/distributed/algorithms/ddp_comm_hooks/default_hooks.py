"""Hooks of distributed modules, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_function

_WHY = "dynajit runs in one process; there is nobody to send gradients to."

allreduce_hook = refused_function(
    "distributed.algorithms.ddp_comm_hooks.default_hooks.allreduce_hook", _WHY
)
bf16_compress_hook = refused_function(
    "distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_hook", _WHY
)
bf16_compress_wrapper = refused_function(
    "distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_wrapper", _WHY
)
fp16_compress_hook = refused_function(
    "distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook", _WHY
)
fp16_compress_wrapper = refused_function(
    "distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_wrapper", _WHY
)

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]
