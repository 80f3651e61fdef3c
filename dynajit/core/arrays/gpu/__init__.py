"""GPUs: the file that imports CuPy, and what it lacks."""
