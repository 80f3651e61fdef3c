"""NumPy's functions over tensors: with NumPy's promotion, defaults and results, for graphs."""

from dynajit.ops.functions.arrays import creation, products, reductions, shapes, ufuncs

__all__ = ["creation", "products", "reductions", "shapes", "ufuncs"]
