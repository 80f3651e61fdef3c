"""What is decided before anything is printed: which values share a kernel, and where they live."""
