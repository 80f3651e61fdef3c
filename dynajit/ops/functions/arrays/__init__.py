"""NumPy's functions over tensors: with NumPy's promotion, defaults and results, for graphs."""

from dynajit.ops.functions.arrays import (
    creation,
    fourier,
    linear_algebra,
    products,
    reductions,
    shapes,
    statistics,
    ufunc_methods,
    ufuncs,
)

__all__ = ["creation", "fourier", "linear_algebra", "products", "reductions", "shapes",
           "statistics", "ufunc_methods", "ufuncs"]  # fmt: skip
