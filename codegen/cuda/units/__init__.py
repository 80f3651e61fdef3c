"""What CUDA printers share: kernels with their launches, teams of threads, packs."""
