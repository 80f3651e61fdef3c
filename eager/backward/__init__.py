"""Gradients: the engine, functions with derivatives of their own, checks, recomputation."""
