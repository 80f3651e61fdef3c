"""The version of dynajit, by PyTorch's path `version.__version__`.

`tests/test_exports.py` compares it with the package's metadata.
"""

__version__ = "0.1.0"

#: Versions of the GPU libraries that the package was built with: none.
cuda = None
hip = None

__all__ = ["cuda", "hip"]
