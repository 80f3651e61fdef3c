"""Apple's GPUs by PyTorch's path: tensors do not live there."""


def is_available() -> bool:
    """Whether tensors can live on Apple's GPUs: False."""
    return False


def is_built() -> bool:
    """Whether this library was built for them: False."""
    return False


__all__ = ["is_available", "is_built"]
