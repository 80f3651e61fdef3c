"""Functions of signals."""
