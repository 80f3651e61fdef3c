"""Methods that eager tensors and graph values share, with PyTorch's names and signatures.

Contract: a method reads only `shape`, `dtype` and `device` of its operands and otherwise calls
rows and library functions, so the same text runs eagerly and while a graph is recorded. Nothing
here writes in place: the eager tensor adds those forms.
"""


class TensorMethods:
    """Mixin of `eager.Tensor` and `ir.graph.Value`."""

    __slots__ = ()

    __hash__ = object.__hash__
