"""MKL by PyTorch's path: kernels do not use it."""


def is_available() -> bool:
    """Whether MKL is used: False."""
    return False


__all__ = ["is_available"]
