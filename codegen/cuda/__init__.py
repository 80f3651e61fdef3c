"""Loop kernels as CUDA."""
