"""Modules under the names by which older pickles know them: files moved into rooms since.

Contract: `MOVED` has every module that published a class or a function, and none of the others; a
room that has the name of one of its modules (`eager.tensor`) answers for that module itself.
"""

from collections.abc import Mapping
from typing import Final

_KEPT_NAME: Final = {
    "core.process": "determinism process_groups threads",
    "core.types": "device dtypes memory_format tensor_layouts type_info",
    "eager.backward": "compiled function gamma_numbers gradcheck recomputation",
    "eager.files": "serialization",
    "eager.modes": "defaults grad_mode random write_limits",
    "eager.operations": "execute inplace layout reshaping storages subclasses",
    "eager.sparse": "to_sparse",
    "eager.tape": "anomaly node",
    "eager.tensor": "convert count_draws creation legacy printing typed_names",
    "ops.calls": "arguments autocast contents library_calls namespaces placing",
    "ops.functions.creation": "signal_windows",
    "ops.functions.matrices": "householder",
    "ops.functions.networks": "fractional_pooling margin_losses multihead_attention",
    "ops.methods": "analysis_methods kind_methods",
    "ops.rows.networks": "batch_normalization",
    "ops.table": "dispatch flops overriding scalar type_rules",
}
"""Room -> modules that lay in its package."""

_WITHOUT_SUFFIX: Final = {
    "ops.functions.arrangement": "arrangement scatter search segment statistics",
    "ops.functions.creation": "creation",
    "ops.functions.elements": "complex elementwise number special",
    "ops.functions.matrices": "linalg lowrank matrix norm older_linalg",
    "ops.functions.networks": (
        "convolution embedding grid loss nn noise pooling recurrent resampling"
    ),
    "ops.functions.reductions": "pair reduction",
    "ops.functions.shapes": "index shape",
    "ops.functions.signals": "spectrogram",
}
"""Room -> modules that lay in its package as `name_functions`."""

_RENAMED: Final = {
    "core.gpu": "core.arrays.gpu.runtime",
    "core.gpu_faults": "core.arrays.gpu.faults",
    "core.gpu_memory": "core.arrays.gpu.memory",
    "eager.checkpoint_names": "eager.files.names",
    "eager.sparse_functions": "eager.sparse.functions",
}


def _moved() -> dict[str, str]:
    pairs = dict(_RENAMED)
    for rooms, suffix in ((_KEPT_NAME, ""), (_WITHOUT_SUFFIX, "_functions")):
        for room, names in rooms.items():
            package = room.partition(".")[0]
            pairs |= {f"{package}.{name}{suffix}": f"{room}.{name}" for name in names.split()}
    return {f"dynajit.{old}": f"dynajit.{new}" for old, new in pairs.items()}


MOVED: Final[Mapping[str, str]] = _moved()
"""Older name -> present name."""
