"""Layer 3: eager tensors and autograd, what runs while nothing is compiled.

Importing this package makes eager the default way to run ops (`dispatch.install_eager`), and the
keeper of each thread's autocast word (`autocast.install`). Memory of results that are gone is kept
for the next ones (`core.process.freed_memory`).
"""

from dynajit.core.process import freed_memory
from dynajit.eager._rows import attempt
from dynajit.eager.backward import forward  # noqa: F401 - follows tangents
from dynajit.eager.modes.autocast_mode import _autocast_word, _set_autocast_word
from dynajit.eager.modes.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from dynajit.eager.modes.random import Generator, default_generator, reserve
from dynajit.eager.operations.execute import handle
from dynajit.eager.operations.outputs import write_into
from dynajit.eager.sparse import to_sparse  # noqa: F401 - methods of Tensor
from dynajit.eager.tensor.creation import (
    as_tensor,
    empty,
    empty_like,
    from_numpy,
    tensor,
)
from dynajit.eager.tensor.shared_memory import asarray, from_dlpack
from dynajit.eager.tensor.tensor import Size, Tensor
from dynajit.ops.calls import autocast
from dynajit.ops.table import dispatch

freed_memory.keep()
dispatch.install_eager(handle, reserve, attempt)
dispatch.install_writer(write_into)
autocast.install(_autocast_word, _set_autocast_word)

__all__ = [
    "Generator",
    "Size",
    "Tensor",
    "as_tensor",
    "asarray",
    "default_generator",
    "empty",
    "empty_like",
    "enable_grad",
    "from_dlpack",
    "from_numpy",
    "inference_mode",
    "is_grad_enabled",
    "is_inference",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
    "tensor",
]
