"""Loop kernels as C."""
