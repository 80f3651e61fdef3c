"""`dynajit.special`: special functions by PyTorch's path; see `ops.functions.elements.special`."""

import dynajit.ops.functions.elements.elementwise
import dynajit.ops.functions.elements.number
import dynajit.ops.functions.elements.polynomials
import dynajit.ops.functions.elements.special
import dynajit.ops.functions.networks.nn
import dynajit.ops.functions.reductions.reduction
from dynajit.core.process import late
from dynajit.ops.calls.library_calls import publish

__all__ = publish(globals(), "special")

late.show(__name__)
