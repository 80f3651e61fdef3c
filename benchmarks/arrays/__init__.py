"""NumPy programs beside NumPy, Numba and JAX: see `benchmarks.arrays.table`."""
