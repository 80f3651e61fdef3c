"""What kind of tensor a tensor is: questions about layouts and devices that are not here, and
methods of sparse and quantized tensors, which refuse by name.

Contract: all tensors are dense, on the CPU. Mixed into the methods of eager tensors and graph
values (`ops.methods`).
"""

from typing import Any, Final

from dynajit.core.refusals import refused_function

WHY_SPARSE: Final = (
    "there are no sparse tensors here.  Use a dense tensor, with index_add or embedding_bag where "
    "most elements are 0."
)
_WHY_QUANTIZED: Final = "there are no quantized tensors here.  Use a floating dtype."

_ABSENT: Final = (
    "is_sparse", "is_sparse_csr", "is_mkldnn", "is_quantized", "is_nested", "is_xpu", "is_mps",
    "is_ipu", "is_xla", "is_mtia", "is_maia", "is_vulkan",
)  # fmt: skip
_SPARSE: Final = (
    "to_sparse", "to_sparse_csr", "to_sparse_coo", "coalesce", "is_coalesced", "indices", "values",
    "_indices", "_values", "crow_indices", "col_indices", "sparse_mask", "sparse_resize_",
    "sparse_dim", "_nnz",
)  # fmt: skip
_QUANTIZED: Final = ("q_scale", "q_zero_point", "dequantize", "int_repr")


class KindMethods:
    """Mixin: see the module."""

    __slots__ = ()

    @property
    def is_meta(self: Any) -> bool:
        """Whether the tensor has no elements but a shape only."""
        return bool(self.device.type == "meta")

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
for _name in _SPARSE:
    setattr(KindMethods, _name, refused_function(f"Tensor.{_name}", WHY_SPARSE))
for _name in _QUANTIZED:
    setattr(KindMethods, _name, refused_function(f"Tensor.{_name}", _WHY_QUANTIZED))
