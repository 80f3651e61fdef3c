"""`torch.Tag`: what a library says of its operators to PyTorch's own tools.

Contract: tags are accepted where operators are defined, and change nothing: what dynajit has to
know of an operator its schema says. `inplace` and `out` are refused there.
"""

import enum


class Tag(enum.Enum):
    """The tags of PyTorch's operators."""

    core = "core"
    cudagraph_unsafe = "cudagraph_unsafe"
    data_dependent_output = "data_dependent_output"
    dynamic_output_shape = "dynamic_output_shape"
    flexible_layout = "flexible_layout"
    generated = "generated"
    inplace = "inplace"
    inplace_view = "inplace_view"
    maybe_aliasing_or_mutating = "maybe_aliasing_or_mutating"
    needs_contiguous_strides = "needs_contiguous_strides"
    needs_exact_strides = "needs_exact_strides"
    needs_fixed_stride_order = "needs_fixed_stride_order"
    nondeterministic_bitwise = "nondeterministic_bitwise"
    nondeterministic_seeded = "nondeterministic_seeded"
    out = "out"
    out_variant = "out_variant"
    pointwise = "pointwise"
    pt2_compliant_tag = "pt2_compliant_tag"
    reduction = "reduction"
    view_copy = "view_copy"
