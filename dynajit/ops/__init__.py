"""Layer 1: what every operation means, and the library functions built on it.

`TABLE` holds all rows once this package is imported. Rows live in `pointwise`, `reductions`,
`movement`, `indexing`, `random`, `linear_algebra` and `composites`; PyTorch's signatures are in
`functions` (free functions) and `methods` (the mixin of eager tensors and graph values).
"""

import dynajit.ops.indexing
import dynajit.ops.linear_algebra
import dynajit.ops.movement
import dynajit.ops.random
from dynajit.ops.table import TABLE, Kind, Op

__all__ = ["TABLE", "Kind", "Op"]
