"""Methods that eager tensors and graph values share.

Older pickles know what its main module defines by the name of the room.
"""

from dynajit.core.process import late

__getattr__ = late.publish(
    __name__,
    modules=(),
    names=dict.fromkeys(
        (
            "CreationMethods",
            "ElementwiseMethods",
            "MatrixMethods",
            "Operators",
            "ReductionMethods",
            "ShapeMethods",
            "TensorMethods",
        ),
        "dynajit.ops.methods.methods",
    ),
)
