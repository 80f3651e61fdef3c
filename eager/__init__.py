"""Eager tensors and autograd: what runs while nothing is compiled."""
