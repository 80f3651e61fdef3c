"""SciPy by CuPy: special functions."""
