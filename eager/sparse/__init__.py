"""Tensors of positions and values."""
