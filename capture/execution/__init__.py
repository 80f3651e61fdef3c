"""The symbolic executor."""
