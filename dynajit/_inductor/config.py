"""Settings of PyTorch's code generator: they are accepted, and change nothing.

dynajit's own are in `dynajit.config`.
"""

from types import SimpleNamespace

conv_1x1_as_mm = False
coordinate_descent_check_all_directions = False
coordinate_descent_tuning = False
debug = False
epilogue_fusion = True
fallback_random = False
force_fuse_int_mm_with_mul = False
freezing = False
fx_graph_cache = True
max_autotune = False
max_autotune_gemm = False
use_mixed_mm = False
cpp = SimpleNamespace(threads=-1, simdlen=None, enable_kernel_profile=False)
triton = SimpleNamespace(cudagraphs=False, unique_kernel_names=True, cudagraph_trees=True)
