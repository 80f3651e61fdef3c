"""Built-in functions, classes and methods, called with symbolic values."""
