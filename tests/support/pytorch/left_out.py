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
    "nn.functional.triplet_margin_with_distance_loss": "samples have PyTorch's layers",
    "sparse.mm.reduce": _NO_CSR,
}
"""Operators, or in-place forms, of which every sample is refused by name (UnsupportedError)."""

_NUMBERS = "numbers are taken in the place of tensors, too"
_OUT = "an out that shares memory with itself or an operand is written when the values are there"
_COMPLEX = "complex numbers are refused"

DIFFERENT: tuple[tuple[str, str, str], ...] = (
    (
        "addbmm",
        "float32 in place, float64 in place, int64 in place, complex64 in place, "
        "complex128 in place, bfloat16 in place",
        "a tensor that has another size than the result is refused; PyTorch changes its size",
    ),
    (
        "as_strided_scatter",
        "float64 gradient, complex128 gradient",
        "PyTorch's gradient of what a source without dims overwrites is not 0",
    ),
    (
        "as_strided.partial_views",
        "float32 in place, float64 in place, int64 in place, bool in place, complex64 in place, "
        "complex128 in place, bfloat16 in place",
        "the samples are views; PyTorch is given a clone, whose memory is smaller",
    ),
    ("matrix_exp", "bfloat16", "PyTorch's are NaN"),
    ("nn.functional.rms_norm", "complex64, complex128", _COMPLEX),
    (
        "nn.functional.batch_norm",
        "float32, float64, bfloat16",
        "a tensor of one dim is refused, also without elements",
    ),
    ("histogramdd", "float32, float64", "edges that do not rise are refused"),
    ("logcumsumexp", "complex64, complex128", _COMPLEX),
    ("special.bessel_j0", "float64", "PyTorch's have 7 digits"),
    ("special.bessel_y1", "float64", "PyTorch's have 7 digits"),
    *((name, "error 0", _NUMBERS) for name in ("copysign", "float_power", "fmod", "pow")),
    *((name, "error 0", _NUMBERS) for name in ("eq", "ge", "gt", "le", "lt", "ne")),
    *((name, "error 1", _NUMBERS) for name in ("clamp_max", "clamp_min")),
    *((name, "error 1", _NUMBERS) for name in ("max.binary", "min.binary")),
    *(
        (name, "error 0, error 1", _NUMBERS)
        for name in (
            "__radd__", "__rand__", "__rmul__", "__ror__", "__rxor__", "atan2", "igamma", "igammac",
            "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "rsub",
        )
    ),
    *(
        (name, "error 0, error 1, error 2", _NUMBERS)
        for name in ("fmax", "fmin", "gcd", "lcm", "ldexp")
    ),
    ("cat", "error 6", _OUT),
    ("gather", "error 6", _OUT),
    ("gather", "error 7", "copies of the sample's tensors share no memory: see `bad_calls`"),
    ("kthvalue", "error 0", _OUT),
    ("masked_select", "error 1, error 2", _OUT),
    ("take", "error 1, error 2", _OUT),
    ("nn.functional.max_pool1d", "error 5, error 17", "pools of no channel have no element"),
    ("nn.functional.max_pool3d", "error 4", "pools of no channel have no element"),
)  # fmt: skip
"""Operator, what differs (dtypes and forms, with commas), and why."""

_TWICE = "a product of 16-bit floats is rounded in front of the sum, as on a GPU"
_ORDER = "sums in another order"

ROUNDED: tuple[tuple[str, str, str], ...] = (
    ("addbmm", "bfloat16", _TWICE),
    ("baddbmm", "bfloat16, bfloat16 in place", _TWICE),
    ("nn.functional.linear", "bfloat16", _TWICE),
    ("nn.functional.conv_transpose3d", "float32", _ORDER),
    ("nn.functional.scaled_dot_product_attention", "float32", _ORDER),
    ("fft.hfft2", "float32, complex64", _ORDER),
)
"""The same for rounding errors, which may be within PyTorch's tolerance on another processor."""

_WHOLE_STORAGE = "PyTorch copies the whole storage, and so keeps the offset"
_OF_ONE = "PyTorch's are views of one tensor"
_WRITES = "a buffer whose elements share memory is not written"

ELSEWHERE: dict[str, str] = {
    "as_strided_scatter": _WHOLE_STORAGE,
    "diagonal_scatter": _WHOLE_STORAGE,
    "select_scatter": _WHOLE_STORAGE,
    "slice_scatter": _WHOLE_STORAGE,
    "native_batch_norm": _WRITES,
    "nn.functional.batch_norm": f"{_WRITES}; an empty vector is refused",
    "nn.functional.embedding": _WRITES,
    "nn.functional.embedding_bag": _WRITES,
    "logcumsumexp": _COMPLEX,
    "nn.functional.rms_norm": _COMPLEX,
    "histogramdd": "edges that do not rise are refused",
    "linalg.tensorsolve": "the pivots of a singular matrix are 0 or not, by rounding",
    "nonzero": _OF_ONE,
    "unravel_index": _OF_ONE,
}
"""Operators whose results lie in other memory than PyTorch's, or from another offset on."""

_OF_VIEW = "that of view(), in front of strided elements; no element is reached by it"

STRIDES_OF_ONE: dict[str, str] = {
    "atleast_3d": _OF_VIEW,
    "squeeze": _OF_VIEW,
    "squeeze.multiple": _OF_VIEW,
    "unsqueeze": _OF_VIEW,
    "x.unsqueeze(0)": _OF_VIEW,
    "F.dropout3d(x, 0.0)": _OF_VIEW,
}
"""Operators, and calls, of which the stride of a dim of size 1 may be another one."""

_IDENTITY = "PyTorch asks for an identity, or a difference, of bools in front"

_EMPTY = "where there is no element, no dtype is looked at"

MIXED_DTYPES: dict[str, str] = {
    "_softmax_backward_data": _INTERNAL,
    "addmm": "factors of products of integers lose their fraction",
    "addmm.decomposed": "bools are added",
    "cov": "weights of 16-bit floats of integers: the result is float32",
    "gradient": "coordinates are converted to the dtype of the values",
    "linalg.lstsq.grad_oriented": "the table's function gives two of the four results",
    "linalg.matrix_rank": _EMPTY,
    "linalg.matrix_rank.hermitian": _EMPTY,
    "linalg.vander": "16-bit floats are taken",
    **{
        f"masked.{name}": _IDENTITY
        for name in ("amax", "amin", "logaddexp", "logsumexp", "std", "var")
    },
    "native_batch_norm": "statistics of 16-bit floats are 16-bit floats, whatever the parameters",
    "native_group_norm": "statistics of 16-bit floats are 16-bit floats, whatever the parameters",
    "native_layer_norm": "statistics of 16-bit floats are 16-bit floats, whatever the parameters",
    "nn.functional.conv_transpose1d": "the bias of integers, or of no element, has any dtype",
    "normal.in_place": "the table's function is the method",
    "scatter": _EMPTY,
    "topk": "bools are taken: the refusal is that of a kernel",
}
"""Operators that take operands of dtypes that PyTorch refuses, or give results of another dtype."""


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
