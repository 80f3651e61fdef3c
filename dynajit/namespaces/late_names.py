"""The names of the modules here that are imported when one of their names is first asked for."""

from typing import Final

STORAGES: Final = (
    "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage",
    "ComplexFloatStorage", "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage",
    "LongStorage", "ShortStorage", "Storage", "TypedStorage",
)  # fmt: skip
QUANTIZED: Final = (
    "dequantize", "int_repr",
    "q_per_channel_axis", "q_per_channel_scales", "q_per_channel_zero_points", "q_scale",
    "q_zero_point", "quantize_per_channel", "quantize_per_tensor", "quantize_per_tensor_dynamic",
)  # fmt: skip
FURTHER: Final = (
    "SymBool", "SymFloat", "SymInt", "alpha_dropout", "as_strided_scatter", "batch_norm",
    "bilinear", "binary_cross_entropy_with_logits", "celu_", "cond", "constant_pad_nd",
    "cosine_embedding_loss", "ctc_loss", "dropout_", "dsmm", "embedding", "empty_permuted",
    "empty_strided", "feature_alpha_dropout", "fill", "frobenius_norm", "frombuffer",
    "get_device", "get_num_interop_threads", "grid_sampler", "grid_sampler_2d",
    "grid_sampler_3d", "gru_cell", "hinge_embedding_loss",
    "instance_norm", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "is_distributed",
    "is_warn_always_enabled", "kl_div", "lstm_cell", "margin_ranking_loss", "newaxis",
    "nonzero_static", "norm_except_dim", "nuclear_norm", "poisson_nll_loss", "range",
    "rnn_relu_cell", "rnn_tanh_cell", "row_stack", "selu_", "set_anomaly_enabled",
    "set_default_tensor_type", "set_flush_denormal", "set_num_interop_threads", "set_warn_always",
    "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sum", "threshold_",
    "to_dlpack",
    "triplet_margin_loss", "typename", "unsafe_chunk", "unsafe_split",
    *STORAGES,
    *QUANTIZED,
)  # fmt: skip

NATIVE: Final = (
    "alias_copy", "as_strided_copy", "detach_copy", "diagonal_copy", "expand_copy",
    "native_batch_norm", "native_dropout", "native_group_norm", "native_layer_norm",
    "permute_copy", "select_copy", "slice_copy", "split_copy", "split_with_sizes_copy",
    "squeeze_copy", "t_copy", "transpose_copy", "unbind_copy", "unfold_copy", "unsqueeze_copy",
    "view_as_complex_copy", "view_as_real_copy", "view_copy",
)  # fmt: skip

PRIVATE: Final = (
    "ScriptModule", "_check", "_check_index", "_check_is_size", "_check_not_implemented",
    "_check_tensor_all", "_check_type", "_check_value", "_convert_indices_from_coo_to_csr",
    "_convert_indices_from_csr_to_coo", "_log_softmax_backward_data", "_sample_dirichlet",
    "_shape_as_tensor", "_softmax_backward_data", "_standard_gamma", "classes", "conv_tbc",
    "legacy_contiguous_format",
)  # fmt: skip
OF_C: Final = ("Future", "ListType", "PyTorchFileReader", "PyTorchFileWriter", "TensorType")
"""Names that PyTorch's package takes from its `_C`."""
