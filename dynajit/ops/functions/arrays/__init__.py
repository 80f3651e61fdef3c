"""NumPy's functions over tensors: with NumPy's promotion, defaults and results, for graphs."""

from dynajit.ops.functions.arrays import creation, products, reductions, shapes, ufuncs
from dynajit.ops.functions.arrays.page import functions_page

__all__ = ["creation", "functions_page", "products", "reductions", "shapes", "ufuncs"]
