"""What `test_pytorch_samples.py` leaves out, and what differs from PyTorch: each with a reason."""

_INTERNAL = "a function inside of PyTorch, which programs do not call"
_FOR_CUDA = "compiles C++ for a GPU: write the function and compile it"
_NO_CSR = "compressed rows are not available: sparse tensors have coordinates"

ABSENT: dict[str, str] = {
    "__rdiv__": "a name of Python 2",
    "_batch_norm_with_update": _INTERNAL,
    "_chunk_cat": _INTERNAL,
    "_native_batch_norm_legit": _INTERNAL,
    "_segment_reduce.lengths": _INTERNAL,
    "_segment_reduce.offsets": _INTERNAL,
    "_softmax_backward_data": _INTERNAL,
    "_unsafe_masked_index": _INTERNAL,
    "_unsafe_masked_index_put_accumulate": _INTERNAL,
    "_upsample_bilinear2d_aa": _INTERNAL,
    "chalf": "complex32 is not available",
    "hash_tensor": "a name of PyTorch 2.13 that no program was seen to call",
    "jiterator_2inputs_2outputs": _FOR_CUDA,
    "jiterator_4inputs_with_extra_args": _FOR_CUDA,
    "jiterator_binary": _FOR_CUDA,
    "jiterator_binary_return_by_ref": _FOR_CUDA,
    "jiterator_unary": _FOR_CUDA,
    "max_pool2d_with_indices_backward": _INTERNAL,
    "native_dropout_backward": _INTERNAL,
    "nn.functional.linear_cross_entropy": "a name of PyTorch 2.13 that no program was seen to call",
    "nn.functional.linear_cross_entropy.chunked": "as without chunks",
    "nn.functional.linear_cross_entropy.chunked_none": "as without chunks",
    "slice": _INTERNAL,
    "sparse.sampled_addmm": _NO_CSR,
    "torch._scaled_mm": _INTERNAL,
    "torch._scaled_mm_v2": _INTERNAL,
    "torch.ops.aten._efficient_attention_forward": _INTERNAL,
    "torch.ops.aten._flash_attention_forward": _INTERNAL,
    "torch.ops.aten._safe_softmax.default": _INTERNAL,
}
"""Operators whose name dynajit does not have."""

UNDEFINED: dict[str, str] = {
    "empty": "memory as it was found",
    "empty_like": "memory as it was found",
    "empty_permuted": "memory as it was found",
    "empty_strided": "memory as it was found",
    "new_empty": "memory as it was found",
    "new_empty_strided": "memory as it was found",
}
"""Names of operators whose values are not defined: dtypes and sizes are compared."""

PROCESSED: dict[str, str] = {
    "linalg.eig": "eigenvectors have any length and phase",
    "linalg.eigh": "eigenvectors have any phase",
    "linalg.svd": "singular vectors have any phase",
    "svd": "singular vectors have any phase",
}
"""Names of operators with several right results: PyTorch's tests say what of them is unique."""

REFUSED: dict[str, str] = {
    "as_strided in place": "as_strided_ makes a tensor a view of itself",
    "as_strided.partial_views in place": "as_strided_ makes a tensor a view of itself",
    "nn.functional.triplet_margin_with_distance_loss": "samples have PyTorch's layers",
    "sparse.mm.reduce": _NO_CSR,
}
"""Operators, or in-place forms, of which every sample is refused by name (UnsupportedError)."""

_NUMBERS = "numbers are taken in the place of tensors, too"
_OUT = "an out that shares memory with itself or an operand is written when the values are there"
_LAYOUT = "the layout that is asked for is not looked at"
_DTYPES = "dtypes are refused that PyTorch takes"

DIFFERENT: tuple[tuple[str, str, str], ...] = (
    ("addbmm", "bfloat16", "not yet right"),
    (
        "addbmm",
        "float32 in place, float64 in place, int64 in place, complex64 in place, "
        "complex128 in place, bfloat16 in place",
        "not yet taken",
    ),
    ("baddbmm", "bfloat16, bfloat16 in place", "not yet taken"),
    ("addcmul", "bfloat16, bfloat16 in place", "not yet right"),
    ("addcdiv", "bfloat16, bfloat16 in place", "not yet right"),
    ("istft", "complex128 gradient", "not yet taken"),
    ("gradient", "bfloat16", "not yet right"),
    ("logaddexp", "complex64, complex128", _DTYPES),
    ("logaddexp", "bfloat16", "not yet right"),
    ("logaddexp", "error 0, error 1, error 2", _NUMBERS),
    ("logaddexp2", "bfloat16", "not yet right"),
    ("matrix_exp", "bfloat16", _DTYPES),
    ("nn.functional.conv_transpose1d", "int64, complex64, complex128", _DTYPES),
    ("nn.functional.conv_transpose2d", "int64, complex64, complex128", _DTYPES),
    ("nn.functional.conv_transpose3d", "float32", "not yet right"),
    ("nn.functional.conv_transpose3d", "int64, complex64, complex128", _DTYPES),
    ("nn.functional.conv1d", "int64, complex64, complex128", _DTYPES),
    ("nn.functional.conv2d", "int64, complex64, complex128", _DTYPES),
    ("nn.functional.conv3d", "int64, complex64, complex128", _DTYPES),
    ("nn.functional.rms_norm", "complex64, complex128", _DTYPES),
    ("nn.functional.linear", "bfloat16", "not yet right"),
    ("nn.functional.scaled_dot_product_attention", "float32", "not yet taken"),
    (
        "nn.functional.silu.complex",
        "complex64, complex128, complex64 in place, complex128 in place",
        _DTYPES,
    ),
    ("nn.functional.batch_norm", "float32, float64, bfloat16", "not yet taken"),
    ("gather", "error 6, error 7", _OUT),
    (
        "new_empty_strided",
        "float32, float64, int64, bool, complex64, complex128, bfloat16",
        "not yet taken",
    ),
    ("histogramdd", "float32, float64", "not yet taken"),
    ("logsumexp", "complex64, complex128", _DTYPES),
    ("logcumsumexp", "complex64, complex128", _DTYPES),
    ("fft.hfft2", "float32, complex64", "not yet right"),
    ("special.bessel_j0", "float64", "not yet right"),
    ("special.bessel_y1", "float64", "not yet right"),
    ("masked.logsumexp", "complex64, complex128", _DTYPES),
    ("float_power", "error 0", _NUMBERS),
    ("clamp_max", "error 1", _NUMBERS),
    ("clamp_min", "error 1", _NUMBERS),
    ("atan2", "error 0, error 1", _NUMBERS),
    ("copysign", "error 0", _NUMBERS),
    ("eq", "error 0", _NUMBERS),
    ("fmax", "error 0, error 1, error 2", _NUMBERS),
    ("fmin", "error 0, error 1, error 2", _NUMBERS),
    ("fmod", "error 0", _NUMBERS),
    ("ge", "error 0", _NUMBERS),
    ("gt", "error 0", _NUMBERS),
    ("kthvalue", "error 0", _OUT),
    ("le", "error 0", _NUMBERS),
    ("ldexp", "error 0, error 1, error 2", _NUMBERS),
    ("lt", "error 0", _NUMBERS),
    ("masked_select", "error 1, error 2", _OUT),
    ("max.binary", "error 1", _NUMBERS),
    ("maximum", "error 0, error 1", _NUMBERS),
    ("min.binary", "error 1", _NUMBERS),
    ("minimum", "error 0, error 1", _NUMBERS),
    ("logical_and", "error 0, error 1", _NUMBERS),
    ("logical_or", "error 0, error 1", _NUMBERS),
    ("logical_xor", "error 0, error 1", _NUMBERS),
    ("lcm", "error 0, error 1, error 2", _NUMBERS),
    ("gcd", "error 0, error 1, error 2", _NUMBERS),
    ("nn.functional.max_pool1d", "error 5, error 17", "not yet refused"),
    ("nn.functional.max_pool3d", "error 4", "not yet refused"),
    ("igamma", "error 0, error 1", _NUMBERS),
    ("igammac", "error 0, error 1", _NUMBERS),
    ("ne", "error 0", _NUMBERS),
    ("pow", "error 0", _NUMBERS),
    ("__radd__", "error 0, error 1", _NUMBERS),
    ("__rmul__", "error 0, error 1", _NUMBERS),
    ("__rand__", "error 0, error 1", _NUMBERS),
    ("__ror__", "error 0, error 1", _NUMBERS),
    ("__rxor__", "error 0, error 1", _NUMBERS),
    ("rsub", "error 0, error 1", _NUMBERS),
    ("index_select", "error 0", _OUT),
    ("take", "error 1, error 2", _OUT),
    ("cat", "error 6, error 8", _OUT),
)
"""Operator, what differs (dtypes and forms, with commas), and why."""

ROUNDED: tuple[tuple[str, str, str], ...] = ()
"""The same for rounding errors, which may be within PyTorch's tolerance on another processor."""


def expected(name: str, form: str) -> dict[str, bool]:
    """What may differ of an operator in a form ("", "in place", "error"), and whether it must."""
    return {
        about.strip(): must_differ
        for rows, must_differ in ((DIFFERENT, True), (ROUNDED, False))
        for operator, abouts, _ in rows
        if operator == name
        for about in abouts.split(",")
        if form_of(about) == form
    }


def form_of(about: str) -> str:
    """The test that looks at it: "in place", "error", or "" for results and gradients."""
    return next((form for form in ("in place", "error") if form in about), "")


def differing() -> set[str]:
    """The operators of which something differs."""
    return {operator for operator, _, _ in (*DIFFERENT, *ROUNDED)}
