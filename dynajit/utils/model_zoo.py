"""Weights from the network by PyTorch's older path: refused, since nothing here downloads.

Contract: `load_url` raises; `dynajit.hub` says the same.
"""

from typing import Any

from dynajit.core.errors import UnsupportedError


def load_url(url: str, model_dir: str | None = None, *options: Any, **named: Any) -> Any:
    """Weights from a URL.

    Raises:
        UnsupportedError: nothing is downloaded.
    """
    raise UnsupportedError(
        f"load_url({url!r}): dynajit downloads nothing.  Fetch the file by other means, and open "
        "it with dynajit.load."
    )


__all__ = ["load_url"]
