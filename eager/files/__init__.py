"""Checkpoints: `save` and `load`."""
