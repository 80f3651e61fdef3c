"""Where a model's values would be quantized: the stubs pass values on, as PyTorch's do in models
that were not converted. What makes a model quantized is refused (`compat.names`).
"""

from typing import Any

from dynajit.nn.module import Module


class QuantStub(Module):
    """Where a model's values would be quantized: they stay as they are.

    Args:
        qconfig: kept.
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        """`x` itself."""
        return x


class DeQuantStub(QuantStub):
    """Where quantized values would become floats again: they stay as they are."""
