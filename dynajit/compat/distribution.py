"""What `importlib.metadata` says of PyTorch while dynajit stands in its place.

Contract: the version is that of `version`, the name the one that the library was entered by in
`sys.modules`. There are no files and no requirements. `compat.finder` hands it out.
"""

from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

from dynajit.compat.version import __version__


class Standing(Distribution):
    """The metadata of another name of the library.

    Args:
        alias: the name.
    """

    def __init__(self, alias: str) -> None:
        self._texts = {
            "METADATA": f"Metadata-Version: 2.1\nName: {alias}\nVersion: {__version__}\n",
            "top_level.txt": f"{alias}\n",
        }

    def read_text(self, filename: str) -> str | None:
        """The text of a file of metadata, or None."""
        return self._texts.get(filename)

    def locate_file(self, path: Any) -> Any:
        """Where a file of the package would lie."""
        return Path(__file__).resolve().parent.parent / path


__all__ = ["Standing"]
