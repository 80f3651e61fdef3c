"""The names of `dynajit.namespaces.private`, which is imported when one is first asked for."""

from typing import Final

NAMES: Final = (
    "ScriptModule", "_check", "_check_index", "_check_is_size", "_check_not_implemented",
    "_check_tensor_all", "_check_type", "_check_value", "_convert_indices_from_coo_to_csr",
    "_convert_indices_from_csr_to_coo", "_log_softmax_backward_data", "_sample_dirichlet",
    "_shape_as_tensor", "_softmax_backward_data", "_standard_gamma", "classes", "conv_tbc",
    "legacy_contiguous_format",
)  # fmt: skip
OF_C: Final = ("Future", "ListType", "PyTorchFileReader", "PyTorchFileWriter", "TensorType")
"""Names that PyTorch's package takes from its `_C`."""
