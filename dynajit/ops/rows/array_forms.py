"""What eager runs in place of a composite's rows: forms of composites on raw arrays.

A composite is a dozen rows, each of which costs its checks, its plan and a tensor. On small
operands that is most of the time: with 4 x 8 elements, eager `softmax` takes twice, `layer_norm`
three times and `cross_entropy` seven times as long by its rows as by its form.

Contract: `form(xp, *arrays, **attributes)` gives a new array with the numbers of the composite's
function up to rounding, or NotImplemented for operands that are anything but the plain case:
float32 or float64 throughout, shapes that fit, nothing empty. The function then computes or
refuses, so a form never raises. Floating-point exceptions are silent (the caller sees to it).
A form stands in front of its row, which declares it as `array=`, and is compared with the row's
function by the conformance test. Here is what forms share.
"""

import math
from typing import Any, Final

import numpy as np

from dynajit.ops.table.op_table import TABLE

FLOAT32: Final = np.dtype(np.float32)
FLOAT64: Final = np.dtype(np.float64)
INT64: Final = np.dtype(np.int64)


def is_plain(x: np.ndarray | None) -> bool:
    """True for an array of float32 or float64, not empty, of one dimension or more."""
    return x is not None and x.dtype in (FLOAT32, FLOAT64) and x.ndim > 0 and x.size > 0


def sum_of(xp: Any, x: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    """The sum along some dims."""
    return TABLE.sum.rule.array(xp, x, dim=dim, keepdim=keepdim)


def mean_of(xp: Any, x: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    """The mean along some dims."""
    return sum_of(xp, x, dim, keepdim) / math.prod([x.shape[d] for d in dim])
