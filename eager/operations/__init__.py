"""How tensors run operations, and how they are written to and seen in other shapes."""
