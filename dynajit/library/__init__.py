"""`torch.library`: operators that programs define.

`custom_op` makes an operator of a Python function, `Library` and `define` make one of a schema.
Either is found in `torch.ops`, runs eagerly and under autograd, and is part of the graphs of
compiled functions where it says what its results are like (`register_fake`).
docs/howto/custom_operators.md shows how. Imported when it is first asked for.
"""

from dynajit.core.process import late
from dynajit.core.refusals import refused_function
from dynajit.library.checks import opcheck
from dynajit.library.definitions import (
    REASON_AUTOCAST,
    REASON_TORCH_DISPATCH,
    REASON_VMAP,
    CustomOpDef,
    custom_op,
)
from dynajit.library.inference import infer_schema
from dynajit.library.libraries import (
    Library,
    define,
    fallthrough_kernel,
    impl,
    impl_abstract,
    register_autograd,
    register_fake,
    register_kernel,
)

_REASON_TRITON = (
    "Triton is not here.  Give custom_op a Python function, which may call kernels of CuPy."
)

get_ctx = refused_function(
    "library.get_ctx",
    "sizes that depend on contents cannot be part of a graph.  Leave the operator without a fake: "
    "then compiled functions call it between two graphs.",
)
get_kernel = refused_function(
    "library.get_kernel", "kernels are kept per operator.  Call the operator, `torch.ops.ns.name`."
)
register_autocast = refused_function("library.register_autocast", REASON_AUTOCAST)
register_torch_dispatch = refused_function("library.register_torch_dispatch", REASON_TORCH_DISPATCH)
register_vmap = refused_function("library.register_vmap", REASON_VMAP)
triton_op = refused_function("library.triton_op", _REASON_TRITON)
wrap_triton = refused_function("library.wrap_triton", _REASON_TRITON)

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "get_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]

late.show(__name__)
