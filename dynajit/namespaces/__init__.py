"""Functions by PyTorch's namespaces: each group in a module of its own."""
