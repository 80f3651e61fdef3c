"""OpenMP by PyTorch's path: kernels do not use it."""


def is_available() -> bool:
    """Whether OpenMP is used: False."""
    return False


__all__ = ["is_available"]
