"""What kind of tensor a tensor is: questions about layouts and devices, and methods of sparse and
quantized tensors, which refuse by name where the tensor is another one.

Contract: the tensor is dense; what is said of devices that are not here is False. Mixed into the
methods of eager tensors and graph values (`ops.methods.methods`). Sparse tensors
(`eager.sparse.sparse_tensor`) answer for themselves; `to_sparse` and `sparse_mask`, which make
them, are methods of eager tensors only.
"""

from typing import Any, ClassVar, Final

from dynajit.core.refusals import refused_function
from dynajit.core.types.tensor_layouts import WHY_COMPRESSED, Layout, strided

_WHY_DENSE: Final = (
    "expected a sparse tensor, got a dense one.  Call .to_sparse() first, or leave the call out."
)
_WHY_QUANTIZED: Final = "there are no quantized tensors here.  Use a floating dtype."

_ABSENT: Final = (
    "is_sparse", "is_sparse_csr", "is_mkldnn", "is_quantized", "is_nested", "is_xpu", "is_mps",
    "is_ipu", "is_xla", "is_mtia", "is_maia", "is_vulkan",
)  # fmt: skip
_OF_SPARSE: Final = (
    "coalesce", "is_coalesced", "indices", "values", "_indices", "_values", "_nnz",
    "sparse_resize_", "sparse_resize_and_clear_",
)  # fmt: skip
_OF_COMPRESSED: Final = (
    "to_sparse_csr", "to_sparse_csc", "to_sparse_bsr", "to_sparse_bsc", "crow_indices",
    "col_indices", "ccol_indices", "row_indices",
)  # fmt: skip
_QUANTIZED: Final = ("q_scale", "q_zero_point", "dequantize", "int_repr")


class KindMethods:
    """Mixin: see the module."""

    __slots__ = ()

    @property
    def is_meta(self: Any) -> bool:
        """Whether the tensor has no elements but a shape only."""
        return bool(self.device.type == "meta")

    #: `strided`: the tensor is dense. Backward asks for it at every sum of gradients, so it is no
    #: property.
    layout: ClassVar[Layout] = strided

    def sparse_dim(self) -> int:
        """0: no dimension of a dense tensor is sparse."""
        return 0

    def dense_dim(self: Any) -> int:
        """The number of dimensions: all of a dense tensor's are dense."""
        return len(self.shape)

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
        """The tensor itself (in another dtype): it is dense."""
        return self if dtype is None else self.to(dtype)  # type: ignore[attr-defined]


def _absent(name: str) -> Any:
    def answer(self: Any) -> bool:
        return False

    answer.__doc__ = f"`{name}`: False."
    return property(answer)


for _name in _ABSENT:
    setattr(KindMethods, _name, _absent(_name))
for _name in _OF_SPARSE:
    setattr(KindMethods, _name, refused_function(f"Tensor.{_name}", _WHY_DENSE))
for _name in _OF_COMPRESSED:
    setattr(KindMethods, _name, refused_function(f"Tensor.{_name}", WHY_COMPRESSED))
for _name in _QUANTIZED:
    setattr(KindMethods, _name, refused_function(f"Tensor.{_name}", _WHY_QUANTIZED))
