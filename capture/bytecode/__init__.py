"""Bytecode of every supported Python: read, translated and written."""
