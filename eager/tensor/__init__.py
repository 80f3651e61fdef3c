"""The class `Tensor`: what it is made from, and how it prints.

Older pickles know what its main module defines by the name of the room.
"""

from dynajit.core.process import late

__getattr__ = late.publish(
    __name__,
    modules=(),
    names=dict.fromkeys(
        ("Size", "Tensor", "_rebuilt", "_rebuilt_meta"),
        "dynajit.eager.tensor.tensor",
    ),
)
