"""Switches of PyTorch's backends by their paths: honest answers, and settings that are accepted.

Contract: each module answers whether its library is here, and holds attributes that programs set.
Those of TF32 count (`cuda.matmul`, `precision`); nothing reads the others, since kernels are this
library's own.
"""

from dynajit.backends import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]
