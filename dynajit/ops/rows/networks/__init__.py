"""Rows of neural networks."""
