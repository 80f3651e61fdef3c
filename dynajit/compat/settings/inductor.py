"""Settings of code generation by PyTorch's path `_inductor.config`; see `compat.settings.foreign`.

Contract: those that dynajit has act on `dynajit.config`: both names are one setting.
"""

import sys
from typing import Any, Final

from dynajit.compat.settings.foreign import Acting, Group, Row, Telling, become
from dynajit.core.process import config

_MEASURING: Final = "compile(mode='max-autotune') chooses kernels on a GPU by measuring."
_REPLAYING: Final = "compile(mode='reduce-overhead') replays CUDA graphs."
_FUSING: Final = "dynajit.config.disabled_passes = 'fuse' leaves fusion out."
_KEEPING: Final = "dynajit.config.cache_dir says where compiled functions are kept."
_SHOWING: Final = "dynajit.config.dump names a folder for all that is made of a function."
_FIXED: Final = "code generation decides this by itself."


def _set_threads(value: Any) -> None:
    config.configure(num_threads=0 if value == -1 else value)


_THREADS: Final = Acting(lambda: config.current().num_threads or -1, _set_threads)

ROWS: Final[dict[str, Row]] = {
    "conv_1x1_as_mm": Telling((False, True), _FIXED),
    "coordinate_descent_check_all_directions": Telling((False,), _MEASURING),
    "coordinate_descent_tuning": Telling((False,), _MEASURING),
    "cpp": Group(
        "_inductor.config.cpp",
        {
            "enable_kernel_profile": Telling(
                (False,), "dynajit.config.link_kernels lets profilers name kernels."
            ),
            "simdlen": Telling((None,), "dynajit.config.cpu names what kernels are compiled for."),
            "threads": _THREADS,
        },
    ),
    "debug": Telling((False,), _SHOWING),
    "epilogue_fusion": Telling((True,), _FUSING),
    "fallback_random": Telling((False, True), _FIXED),
    "force_disable_caches": Telling((False,), _KEEPING),
    "force_fuse_int_mm_with_mul": Telling((False, True), _FIXED),
    "freezing": Telling((False,), _FIXED),
    "fx_graph_cache": Telling((True,), _KEEPING),
    "max_autotune": Telling((False,), _MEASURING),
    "max_autotune_gemm": Telling((False,), _MEASURING),
    "triton": Group(
        "_inductor.config.triton",
        {
            "cudagraph_trees": Telling((True, False), _FIXED),
            "cudagraphs": Telling((False,), _REPLAYING),
            "unique_kernel_names": Telling((True, False), _FIXED),
        },
    ),
    "use_mixed_mm": Telling((False, True), _FIXED),
}

become(sys.modules[__name__], "_inductor.config", ROWS)
