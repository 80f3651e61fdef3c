"""The names of `dynajit.namespaces.further`, which is imported when one is first asked for."""

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
NAMES: Final = (
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
