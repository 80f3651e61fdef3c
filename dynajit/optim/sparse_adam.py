"""Adam for sparse gradients: refused by name."""

from typing import Any

from dynajit.core.errors import UnsupportedError


class SparseAdam:
    """Refused by name: there are no sparse gradients here.

    Raises:
        UnsupportedError: always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedError(
            "SparseAdam: gradients are dense here (there are no sparse tensors).  Use Adam."
        )
