"""Writing into tensors."""
