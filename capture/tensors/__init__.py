"""What capture knows of tensors: layouts, memory, sizes."""
