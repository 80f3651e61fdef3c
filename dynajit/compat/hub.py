"""Models and weights from the network by PyTorch's path: nothing here downloads.

Contract: the folder of fetched files is PyTorch's, so what lies there is found; every function that
would have to fetch something raises.
"""

import os
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlparse

from dynajit.core.errors import UnsupportedError
from dynajit.core.refusals import refused_function
from dynajit.eager.files.serialization import load as _load_file

_WHY = "dynajit downloads nothing.  Fetch the file by other means, and open it with dynajit.load."

#: The part of a file's name that says the start of its SHA-256, as `resnet18-bfd8deac.pth`.
HASH_REGEX: Final = re.compile(r"-([a-f0-9]*)\.")

#: The folder that `set_dir` chose.
_chosen: str | None = None


def _get_torch_home() -> str:
    """PyTorch's folder for what it fetches: `$TORCH_HOME`, or `torch` in the user's cache."""
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder of fetched models: what `set_dir` said, or `hub` in PyTorch's folder."""
    return os.path.join(_get_torch_home(), "hub") if _chosen is None else _chosen


def set_dir(d: str | os.PathLike[str]) -> None:
    """Let `get_dir` say another folder."""
    global _chosen
    _chosen = os.path.expanduser(d)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """What the file of that address holds, where it was fetched before.

    Args:
        url: the last part of its path names the file.
        model_dir: the folder; None: `checkpoints` in `get_dir()`.
        map_location: see `dynajit.load`.
        progress: changes nothing.
        check_hash: changes nothing: the file is there already.
        file_name: another name of the file.
        weights_only: see `dynajit.load`.

    Raises:
        UnsupportedError: the file is not in the folder.
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    path = os.path.join(folder, file_name or os.path.basename(urlparse(url).path))
    if not os.path.exists(path):
        raise UnsupportedError(
            f"hub.load_state_dict_from_url({url!r}): there is no file {path}, and dynajit "
            "downloads nothing.  Fetch it by other means, and put it there."
        )
    state: dict[str, Any] = _load_file(path, map_location, weights_only=weights_only)
    return state


class tqdm:
    """A bar of progress that programs take from here; it is not drawn.

    Args:
        iterable: what iterating over the bar gives.
        total: the number of steps, kept; `n` counts them. Other options change nothing.
    """

    def __init__(self, iterable: Any = None, *args: Any, total: Any = None, **kwargs: Any) -> None:
        self.iterable = iterable
        self.total = total
        self.n: float = 0

    def __iter__(self) -> Iterator[Any]:
        for item in self.iterable:
            self.n += 1
            yield item

    def update(self, n: float = 1) -> None:
        """`n` more steps are done."""
        self.n += n

    def set_postfix(self, *args: Any, **kwargs: Any) -> None:
        """What would stand behind the bar."""

    def set_description(self, desc: str | None = None, refresh: bool = True) -> None:
        """What would stand before the bar."""

    def close(self) -> None:
        """The bar ends."""

    def __enter__(self) -> "tqdm":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


download_url_to_file = refused_function("hub.download_url_to_file", _WHY)
help = refused_function("hub.help", _WHY)
list = refused_function("hub.list", _WHY)
load = refused_function("hub.load", _WHY)

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
    "tqdm",
]
