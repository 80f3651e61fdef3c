"""Versions, by PyTorch's path `version.__version__`.

Contract: the first part of `__version__` is the release of PyTorch whose names and behaviour are
offered, since programs written for PyTorch decide by it what they use; dynajit's own version
follows the plus sign and is `dynajit`. `tests/test_exports.py` compares the latter with the
package's metadata.
"""

from typing import Final

dynajit: Final = "0.1.0"
pytorch: Final = "2.13.0"
__version__: Final = f"{pytorch}+dynajit.{dynajit}"

#: Versions of the GPU libraries that the package was built with: none.
cuda = None
hip = None
xpu = None

#: The commit that a build of PyTorch names, and whether it is one for debugging.
git_version: Final = "unknown"
debug: Final = False

__all__ = ["cuda", "debug", "git_version", "hip", "xpu"]
