"""What tests of kernels share: random graphs, and CUDA units that run on the CPU."""
