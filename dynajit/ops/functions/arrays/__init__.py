"""NumPy's functions over tensors: with NumPy's promotion, defaults and results, for graphs."""

from dynajit.ops.functions.arrays import (
    creation,
    diagonals,
    fourier,
    linear_algebra,
    padding,
    places,
    products,
    reductions,
    shapes,
    statistics,
    ufunc_methods,
    ufuncs,
    without_nan,
)

__all__ = ["creation", "diagonals", "fourier", "linear_algebra", "padding", "places", "products",
           "reductions", "shapes",
           "statistics", "ufunc_methods", "ufuncs", "without_nan"]  # fmt: skip
