"""The C extension `dynajit.ops.native._native_windows`: what each function gives may be
NotImplemented."""

from typing import Any, TypeAlias

Pair: TypeAlias = tuple[int, int]

def sum_pool(
    x: Any, size: Pair, stride: Pair, before: Pair, after: Pair, dilation: Pair, /
) -> Any: ...
def max_pool(
    x: Any, size: Pair, stride: Pair, before: Pair, after: Pair, dilation: Pair, /
) -> Any: ...
def max_pool_choice(
    x: Any, size: Pair, stride: Pair, before: Pair, after: Pair, dilation: Pair, /
) -> Any: ...
def max_pool_slope(
    g: Any, x: Any, size: Pair, stride: Pair, before: Pair, after: Pair, dilation: Pair, /
) -> Any: ...
def sum_pool_slope(
    g: Any, x_type: Any, size: Pair, stride: Pair, before: Pair, after: Pair, dilation: Pair, /
) -> Any: ...
