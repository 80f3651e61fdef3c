"""What the processor offers, by PyTorch's path."""


def get_cpu_capability() -> str:
    """The widest instructions that PyTorch's own kernels would use; generated kernels use what the
    compiler finds."""
    return "DEFAULT"


__all__ = ["get_cpu_capability"]
