"""Layer 1: what every operation means, and the library functions built on it.

`TABLE` holds all rows once this package is imported. Rows live in `rows` and, of neural networks,
in `rows.networks`; PyTorch's signatures are in `functions` (free functions) and `methods` (the
mixin of eager tensors and graph values). By every other name the package has a namespace of
operators, as `torch.ops` has: see `namespaces`.
"""

import dynajit.ops.rows.complex_numbers
import dynajit.ops.rows.composites
import dynajit.ops.rows.elementary
import dynajit.ops.rows.embedding
import dynajit.ops.rows.factorizations
import dynajit.ops.rows.fourier
import dynajit.ops.rows.indexing
import dynajit.ops.rows.linear_algebra
import dynajit.ops.rows.logic
import dynajit.ops.rows.movement
import dynajit.ops.rows.networks.activations
import dynajit.ops.rows.networks.attention
import dynajit.ops.rows.networks.batch_normalization
import dynajit.ops.rows.networks.convolution
import dynajit.ops.rows.networks.losses
import dynajit.ops.rows.networks.recurrent
import dynajit.ops.rows.networks.windows
import dynajit.ops.rows.pointwise
import dynajit.ops.rows.random
import dynajit.ops.rows.reductions
import dynajit.ops.rows.rounding
import dynajit.ops.rows.scans
import dynajit.ops.rows.scatter_reductions
import dynajit.ops.rows.searching
import dynajit.ops.rows.sparse_products
import dynajit.ops.rows.special
import dynajit.ops.rows.transfers
import dynajit.ops.rows.written_derivatives  # noqa: F401
from dynajit.ops.calls.namespaces import aten, load_library
from dynajit.ops.calls.namespaces import missing as __getattr__  # noqa: F401
from dynajit.ops.table.op_table import TABLE, Kind, Op
from dynajit.ops.table.typed import install_operators

install_operators()

__all__ = ["TABLE", "Kind", "Op", "aten", "load_library"]
