"""`python -m dynajit doctor`: what is installed, and what to do about what is missing."""

import os
import platform
import sys
from pathlib import Path

import numpy as np

from dynajit.codegen import toolchain
from dynajit.core import _products, config, optional
from dynajit.core.errors import DynajitError, UnsupportedError


def main(arguments: list[str]) -> int:
    """Print one line per component; returns 0 if compiled functions can run at full speed."""
    checks = [_python(), _numpy(), _blas(), _compiler(), _cache(), _gpu()]
    for name, fine, text in checks:
        print(f"{'ok ' if fine else '-- '} {name:10s} {text}")
    needed = {"compiler", "blas", "cache"}
    return 0 if all(fine for name, fine, _ in checks if name in needed) else 1


Check = tuple[str, bool, str]


def _python() -> Check:
    version = platform.python_version()
    fine = (3, 11) <= sys.version_info[:2] <= (3, 14)
    return "python", fine, version if fine else f"{version}: use 3.11, 3.12, 3.13 or 3.14"


def _numpy() -> Check:
    return "numpy", True, np.__version__


def _blas() -> Check:
    try:
        optional.load("scipy.linalg.cython_blas", needed_for="matrix products", install="scipy")
    except UnsupportedError as error:
        return "blas", False, str(error)
    own = next(iter(_products.addresses()), None)
    return "blas", True, f"our own products for {own}, SciPy's for vectors" if own else "SciPy's"


def _compiler() -> Check:
    try:
        compiler = toolchain.find_compiler()
    except DynajitError as error:
        return "compiler", False, str(error)
    if compiler is None:
        return (
            "compiler", False,
            "none found: install gcc or clang, or set DYNAJIT_CC; the NumPy backend is used",
        )  # fmt: skip
    return "compiler", True, str(compiler)


def _cache() -> Check:
    folder = config.current().cache_dir
    existing = next((p for p in (folder, *folder.parents) if p.exists()), Path("/"))
    if not os.access(existing, os.W_OK):
        return "cache", False, f"{folder} cannot be written: set DYNAJIT_CACHE_DIR"
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) if folder.exists() else 0
    return "cache", True, f"{folder} ({size / 1e6:.1f} MB)"


def _gpu() -> Check:
    try:
        optional.load("cupy", needed_for="GPU tensors", install="dynajit[cuda12]")
    except UnsupportedError:
        return "gpu", False, "CuPy is not installed; GPU tensors are not available"
    return "gpu", True, "CuPy is installed"
