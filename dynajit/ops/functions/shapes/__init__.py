"""Functions that change shapes, and choose by integers."""
