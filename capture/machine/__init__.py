"""The state of a symbolic execution: frames, heap, what was recorded."""
