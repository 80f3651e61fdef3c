"""Tensors: methods, writes, operators, derivatives that users write."""
