"""Orders of products in einsum by PyTorch's path: operands are taken from left to right."""

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """Whether the package opt_einsum is used: False."""
    return False


__all__ = ["enabled", "is_available", "strategy"]
