"""Tensors of positions and values.

Older pickles know what its main module defines by the name of the room.
"""

from dynajit.core.process import late

__getattr__ = late.publish(
    __name__,
    modules=(),
    names=dict.fromkeys(
        ("SparseTensor", "made"),
        "dynajit.eager.sparse.sparse_tensor",
    ),
)
