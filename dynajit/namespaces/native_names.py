"""The names of `dynajit.namespaces.native`, which is imported when one is first asked for."""

from typing import Final

NAMES: Final = (
    "alias_copy", "as_strided_copy", "detach_copy", "diagonal_copy", "expand_copy",
    "native_batch_norm", "native_dropout", "native_group_norm", "native_layer_norm",
    "permute_copy", "select_copy", "slice_copy", "split_copy", "split_with_sizes_copy",
    "squeeze_copy", "t_copy", "transpose_copy", "unbind_copy", "unfold_copy", "unsqueeze_copy",
    "view_as_complex_copy", "view_as_real_copy", "view_copy",
)  # fmt: skip
