"""The one place where heavy or optional libraries are imported late.

`import dynajit` loads NumPy and nothing heavy; SciPy's BLAS pointers, CuPy, matplotlib and the like
are loaded when first needed, through `load`.
"""

import importlib
from types import ModuleType

from dynajit.core.errors import UnsupportedError


def load(module: str, *, needed_for: str, install: str) -> ModuleType:
    """Import `module`, or say what needs it and how to install it.

    Args:
        module: dotted name, such as `scipy.linalg.cython_blas`.
        needed_for: what the user asked for, in words.
        install: the pip requirement that brings the module.

    Raises:
        UnsupportedError: the module cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:  # of libraries that write into the user's home, too
        raise UnsupportedError(
            f"{needed_for} needs the Python module {module!r}, which cannot be imported "
            f"({error}).  Install it with: pip install {install!r}"
        ) from error
