"""The tape: how a tensor was made, and what backward needs of it.

Older pickles know what its main module defines by the name of the room.
"""

from dynajit.core.process import late

__getattr__ = late.publish(
    __name__,
    modules=(),
    names=dict.fromkeys(
        ("GradientEdge", "backward", "grad"),
        "dynajit.eager.backward.engine",
    ),
)
