"""`dynajit.linalg`: linear algebra by PyTorch's path; see `ops.functions.matrices.linalg`."""

from typing import TYPE_CHECKING

import dynajit.ops.functions.matrices.householder
import dynajit.ops.functions.matrices.linalg
import dynajit.ops.functions.matrices.matrix
import dynajit.ops.functions.matrices.norm
import dynajit.ops.functions.matrices.reported_failures
import dynajit.ops.rows.symmetric_factors
from dynajit.core.errors import LinAlgError
from dynajit.core.process import late
from dynajit.ops.calls.library_calls import publish

if TYPE_CHECKING:
    from dynajit.ops.functions.matrices.householder import *
    from dynajit.ops.functions.matrices.linalg import *
    from dynajit.ops.functions.matrices.matrix import *
    from dynajit.ops.functions.matrices.norm import *
    from dynajit.ops.functions.matrices.reported_failures import *
    from dynajit.ops.rows.symmetric_factors import *


__all__ = ["LinAlgError", *publish(globals(), "linalg")]

late.show(__name__)
