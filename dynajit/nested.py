"""Tensors of several lengths by PyTorch's path: refused."""

from dynajit.core.process import late
from dynajit.core.refusals import refused_function

_WHY = (
    "there are no nested tensors here.  Pad the parts by nn.utils.rnn.pad_sequence, and mask what "
    "was added."
)

as_nested_tensor = refused_function("nested.as_nested_tensor", _WHY)
masked_select = refused_function("nested.masked_select", _WHY)
narrow = refused_function("nested.narrow", _WHY)
nested_tensor = refused_function("nested.nested_tensor", _WHY)
nested_tensor_from_jagged = refused_function("nested.nested_tensor_from_jagged", _WHY)
to_padded_tensor = refused_function("nested.to_padded_tensor", _WHY)

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]

late.show(__name__)
