"""dynajit: eager tensors with autograd, and a compiler for ordinary Python.

`import dynajit as dj`: names, signatures and semantics follow PyTorch 2.x. What users may rely on
is what `__all__` lists.
"""

import math
import sys
from typing import TYPE_CHECKING

from dynajit.compat import finder as _finder
from dynajit.core.process import tracebacks as _tracebacks
from dynajit.core.process.collector import paused

_finder.install(sys.modules[__name__])  # for PyTorch's paths, and `sys.modules["torch"] = dynajit`

with paused():
    from dynajit import amp, autograd, cuda, linalg, nn, ops, utils
    from dynajit.amp import autocast
    from dynajit.amp.state import (
        autocast_decrement_nesting,
        autocast_increment_nesting,
        clear_autocast_cache,
        get_autocast_cpu_dtype,
        get_autocast_dtype,
        get_autocast_gpu_dtype,
        is_autocast_cache_enabled,
        is_autocast_cpu_enabled,
        is_autocast_enabled,
        set_autocast_cache_enabled,
        set_autocast_cpu_dtype,
        set_autocast_cpu_enabled,
        set_autocast_dtype,
        set_autocast_enabled,
        set_autocast_gpu_dtype,
    )
    from dynajit.compat.backends.precision import (
        get_float32_matmul_precision,
        set_float32_matmul_precision,
    )
    from dynajit.core import errors
    from dynajit.core.errors import OutOfMemoryError
    from dynajit.core.process import config, late
    from dynajit.core.process.determinism import (
        are_deterministic_algorithms_enabled,
        get_deterministic_debug_mode,
        is_deterministic_algorithms_warn_only_enabled,
        set_deterministic_debug_mode,
        use_deterministic_algorithms,
    )
    from dynajit.core.process.threads import get_num_threads, set_num_threads
    from dynajit.core.types.device import Device as device
    from dynajit.core.types.dtypes import DType as dtype
    from dynajit.core.types.dtypes import (
        bfloat16,
        bool_,
        complex64,
        complex128,
        float8_e4m3fn,
        float8_e4m3fnuz,
        float8_e5m2,
        float8_e5m2fnuz,
        float8_e8m0fnu,
        float16,
        float32,
        float64,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
    )
    from dynajit.core.types.memory_format import MemoryFormat as memory_format
    from dynajit.core.types.memory_format import (
        channels_last,
        channels_last_3d,
        contiguous_format,
        preserve_format,
    )
    from dynajit.core.types.tensor_layouts import Layout as layout
    from dynajit.core.types.tensor_layouts import (
        sparse_bsc,
        sparse_bsr,
        sparse_coo,
        sparse_csc,
        sparse_csr,
        strided,
    )
    from dynajit.core.types.type_info import finfo, iinfo
    from dynajit.driver.compile import (
        allow_in_graph,
        compile,
        compile_stats,
        disable,
        explain,
        graph_break,
        is_compiling,
        list_backends,
        mark_dynamic,
        mark_static,
        register_backend,
        register_pattern,
        reset,
        set_stance,
    )
    from dynajit.eager.modes.defaults import (
        get_default_device,
        get_default_dtype,
        set_default_device,
        set_default_dtype,
    )
    from dynajit.eager.modes.grad_mode import (
        enable_grad,
        inference_mode,
        is_grad_enabled,
        is_inference,
        is_inference_mode_enabled,
        no_grad,
        set_grad_enabled,
    )
    from dynajit.eager.modes.random import (
        Generator,
        default_generator,
        get_rng_state,
        initial_seed,
        manual_seed,
        seed,
        set_rng_state,
    )
    from dynajit.eager.tensor.count_draws import binomial, poisson
    from dynajit.eager.tensor.creation import as_tensor, from_numpy, tensor
    from dynajit.eager.tensor.legacy import (
        BFloat16Tensor,
        BoolTensor,
        ByteTensor,
        CharTensor,
        DoubleTensor,
        FloatTensor,
        HalfTensor,
        IntTensor,
        LongTensor,
        ShortTensor,
    )
    from dynajit.eager.tensor.printing import set_printoptions
    from dynajit.eager.tensor.shared_memory import asarray, from_dlpack
    from dynajit.eager.tensor.tensor import Size, Tensor
    from dynajit.namespaces import inplace as _inplace
    from dynajit.namespaces import late_names as _late_names
    from dynajit.report.log import set_logs

# The library's functions, and what only some programs use, which is imported when it is first asked
# for: `import dynajit` is quick.
globals().update({name: getattr(ops.functions, name) for name in ops.functions.__all__})

if TYPE_CHECKING:
    from dynajit import (
        distributed,
        distributions,
        fft,
        func,
        fx,
        jit,
        library,
        optim,
        profiler,
        special,
        testing,
    )
    from dynajit.compat import (
        hub,
        multiprocessing,
        overrides,
        random,
        serialization,
        storage,
        torch_version,
        types,
        version,
    )
    from dynajit.compat.storage import UntypedStorage, is_storage
    from dynajit.compat.torch_version import __version__  # noqa: F401
    from dynajit.cuda import accelerator
    from dynajit.eager.files.serialization import load, save
    from dynajit.func import vmap
    from dynajit.library.tags import Tag
    from dynajit.measuring.bench import bench
    from dynajit.namespaces import masked

# What only some programs use is imported when it is first asked for: `import dynajit` is quick.
__getattr__ = late.publish(
    __name__,
    modules=(
        "distributed",
        "distributions",
        "fft",
        "func",
        "fx",
        "jit",
        "library",
        "optim",
        "profiler",
        "special",
        "testing",
    ),
    names={
        "GradScaler": "dynajit.amp",
        "Event": "dynajit.cuda.streams",
        "Stream": "dynajit.cuda.streams",
        "Tag": "dynajit.library.tags",
        "UntypedStorage": "dynajit.compat.storage",
        "_VariableFunctionsClass": "dynajit.namespaces.foreach",
        "__version__": "dynajit.compat.torch_version",
        "bench": "dynajit.measuring.bench",
        "_assert": "dynajit.compat.private",
        **dict.fromkeys(("geqrf", "ormqr", "orgqr"), "dynajit.ops.functions.matrices.householder"),
        "histogramdd": "dynajit.ops.functions.arrangement.search",
        "_assert_async": "dynajit.compat.private",
        "is_storage": "dynajit.compat.storage",
        **dict.fromkeys(
            ("lobpcg", "pca_lowrank", "svd_lowrank"), "dynajit.ops.functions.matrices.lowrank"
        ),
        "load": "dynajit.eager.files.serialization",
        "save": "dynajit.eager.files.serialization",
        "scalar_tensor": "dynajit.ops.functions.creation.creation",
        "segment_reduce": "dynajit.ops.functions.arrangement.segment",
        "sparse_bsc_tensor": "dynajit.sparse",
        "sparse_bsr_tensor": "dynajit.sparse",
        "sparse_compressed_tensor": "dynajit.sparse",
        "sparse_coo_tensor": "dynajit.sparse",
        "sparse_csc_tensor": "dynajit.sparse",
        "sparse_csr_tensor": "dynajit.sparse",
        "vmap": "dynajit.func",
        **dict.fromkeys(_inplace.NAMES, "dynajit.namespaces.inplace"),
        **dict.fromkeys(_late_names.FURTHER, "dynajit.namespaces.further"),
        **dict.fromkeys(_late_names.PRIVATE, "dynajit.namespaces.private"),
        **dict.fromkeys(_late_names.OF_C, "dynajit._C"),
        **dict.fromkeys(_late_names.NATIVE, "dynajit.namespaces.native"),
    },
    families={"_foreach_": "dynajit.namespaces.foreach"},
)


torch = sys.modules[__name__]  # PyTorch's package imports itself: `torch.torch.Tensor`

_finder.complete(torch)
_tracebacks.install()

pi = math.pi
inf = math.inf
nan = math.nan
e = math.e
bool = bool_
half = float16
float = float32
double = float64
cfloat = complex64
cdouble = complex128
short = int16
int = int32
long = int64

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "Generator",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "OutOfMemoryError",
    "ShortTensor",
    "Size",
    "Tag",
    "Tensor",
    "UntypedStorage",
    "accelerator",
    "allow_in_graph",
    "amp",
    "ao",
    "are_deterministic_algorithms_enabled",
    "as_tensor",
    "asarray",
    "autocast",
    "autocast_decrement_nesting",
    "autocast_increment_nesting",
    "autograd",
    "backends",
    "bench",
    "bfloat16",
    "binomial",
    "bool",
    "cdouble",
    "cfloat",
    "channels_last",
    "channels_last_3d",
    "clear_autocast_cache",
    "compile",
    "compile_stats",
    "compiler",
    "complex64",
    "complex128",
    "config",
    "contiguous_format",
    "cpu",
    "cuda",
    "default_generator",
    "device",
    "disable",
    "distributed",
    "distributions",
    "double",
    "dtype",
    "e",
    "enable_grad",
    "errors",
    "explain",
    "export",
    "fft",
    "finfo",
    "float",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "from_numpy",
    "func",
    "fx",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "get_default_device",
    "get_default_dtype",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_threads",
    "get_rng_state",
    "graph_break",
    "half",
    "hub",
    "iinfo",
    "inf",
    "inference_mode",
    "initial_seed",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "is_compiling",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_grad_enabled",
    "is_inference",
    "is_inference_mode_enabled",
    "is_storage",
    "jit",
    "layout",
    "library",
    "linalg",
    "list_backends",
    "load",
    "long",
    "manual_seed",
    "mark_dynamic",
    "mark_static",
    "masked",
    "memory_format",
    "mps",
    "multiprocessing",
    "nan",
    "nested",
    "nn",
    "no_grad",
    "onnx",
    "ops",
    "optim",
    "overrides",
    "pi",
    "poisson",
    "preserve_format",
    "profiler",
    "quantization",
    "random",
    "register_backend",
    "register_pattern",
    "reset",
    "return_types",
    "save",
    "seed",
    "serialization",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_gpu_dtype",
    "set_default_device",
    "set_default_dtype",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "set_logs",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "set_stance",
    "short",
    "signal",
    "sparse",
    "sparse_bsc",
    "sparse_bsc_tensor",
    "sparse_bsr",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo",
    "sparse_coo_tensor",
    "sparse_csc",
    "sparse_csc_tensor",
    "sparse_csr",
    "sparse_csr_tensor",
    "special",
    "storage",
    "strided",
    "tensor",
    "testing",
    "torch_version",
    "types",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "use_deterministic_algorithms",
    "utils",
    "version",
    "vmap",
    "xpu",
    *ops.functions.__all__,
]

_listed = frozenset(__all__)
__all__ += [name for name in late.names_of(__name__) if name[0] != "_" and name not in _listed]
late.show(__name__, also=("torch",))
