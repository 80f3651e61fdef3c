"""Layer 1: what every operation means, and the library functions built on it.

`TABLE` holds all rows once this package is imported. Rows live in `pointwise`, `elementary`,
`logic`, `reductions`, `movement`, `indexing`, `random`, `linear_algebra`, `factorizations`,
`scans`, `searching`, `scatter_reductions`, `sparse_products`, `special`, `activations`,
`composites`, `embedding`, `attention`, `losses`, `windows`, `convolution`, `batch_normalization`,
`recurrent`, `complex_numbers`, `fourier`, `transfers` and `written_derivatives`; PyTorch's
signatures are in `functions` (free functions) and `methods` (the mixin of eager tensors and graph
values). By every other name the package has a namespace of operators, as `torch.ops` has: see
`namespaces`.
"""

import dynajit.ops.activations
import dynajit.ops.attention
import dynajit.ops.batch_normalization
import dynajit.ops.complex_numbers
import dynajit.ops.composites
import dynajit.ops.convolution
import dynajit.ops.elementary
import dynajit.ops.embedding
import dynajit.ops.factorizations
import dynajit.ops.fourier
import dynajit.ops.indexing
import dynajit.ops.linear_algebra
import dynajit.ops.logic
import dynajit.ops.losses
import dynajit.ops.movement
import dynajit.ops.pointwise
import dynajit.ops.random
import dynajit.ops.recurrent
import dynajit.ops.reductions
import dynajit.ops.scans
import dynajit.ops.scatter_reductions
import dynajit.ops.searching
import dynajit.ops.sparse_products
import dynajit.ops.special
import dynajit.ops.transfers
import dynajit.ops.windows
import dynajit.ops.written_derivatives  # noqa: F401
from dynajit.ops.namespaces import aten, load_library
from dynajit.ops.namespaces import missing as __getattr__  # noqa: F401
from dynajit.ops.table import TABLE, Kind, Op

__all__ = ["TABLE", "Kind", "Op", "aten", "load_library"]
