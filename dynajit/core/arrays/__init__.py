"""Arrays wherever they live: NumPy's, CuPy's, those without elements, and their products."""
