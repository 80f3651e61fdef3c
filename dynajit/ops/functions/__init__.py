"""Free functions with PyTorch's names and signatures: what `dynajit.<name>` publishes.

Contract: every name in `__all__` takes tensors (eager or graph values) first, calls rows and other
library functions only, and so runs eagerly and while a graph is recorded. The exceptions need a
tensor's contents (`nonzero`, `masked_select`, `where` with one argument, `allclose`, `equal`):
they run eagerly, and capture breaks the graph there. Functions of neural networks are in
`ops.functions.networks.nn` and are published by `dynajit.nn.functional`; a few are here, too, as in
PyTorch. Here, and not where they are defined, they take `out=` and NumPy's names
(`ops.calls.library_calls`). A function is here
because it says so where it is defined (`ops.calls.public`); the imports bring the modules in which
such functions are.
"""

from typing import TYPE_CHECKING, Any

import dynajit.ops.functions.arrangement.arrangement
import dynajit.ops.functions.arrangement.scatter
import dynajit.ops.functions.arrangement.search
import dynajit.ops.functions.arrangement.statistics
import dynajit.ops.functions.creation.creation
import dynajit.ops.functions.creation.signal_windows
import dynajit.ops.functions.elements.complex
import dynajit.ops.functions.elements.elementwise
import dynajit.ops.functions.elements.number
import dynajit.ops.functions.elements.special
import dynajit.ops.functions.matrices.matrix
import dynajit.ops.functions.matrices.older_linalg
import dynajit.ops.functions.networks.convolution
import dynajit.ops.functions.networks.nn
import dynajit.ops.functions.networks.noise
import dynajit.ops.functions.networks.pooling
import dynajit.ops.functions.networks.quantization
import dynajit.ops.functions.networks.resampling
import dynajit.ops.functions.reductions.pair
import dynajit.ops.functions.reductions.reduction
import dynajit.ops.functions.shapes.index
import dynajit.ops.functions.shapes.shape
import dynajit.ops.functions.signals.spectrogram
from dynajit.ops.calls.library_calls import publish
from dynajit.ops.calls.public import published as published
from dynajit.ops.table.overriding import publish_overridable

if TYPE_CHECKING:
    from dynajit.ops.functions.arrangement.arrangement import *
    from dynajit.ops.functions.arrangement.scatter import *
    from dynajit.ops.functions.arrangement.search import *
    from dynajit.ops.functions.arrangement.statistics import *
    from dynajit.ops.functions.creation.creation import *
    from dynajit.ops.functions.creation.signal_windows import *
    from dynajit.ops.functions.elements.complex import *
    from dynajit.ops.functions.elements.elementwise import *
    from dynajit.ops.functions.elements.number import *
    from dynajit.ops.functions.elements.special import *
    from dynajit.ops.functions.matrices.matrix import *
    from dynajit.ops.functions.matrices.older_linalg import *
    from dynajit.ops.functions.networks.convolution import *
    from dynajit.ops.functions.networks.nn import *
    from dynajit.ops.functions.networks.noise import *
    from dynajit.ops.functions.networks.pooling import *
    from dynajit.ops.functions.networks.quantization import *
    from dynajit.ops.functions.networks.resampling import *
    from dynajit.ops.functions.reductions.pair import *
    from dynajit.ops.functions.reductions.reduction import *
    from dynajit.ops.functions.shapes.index import *
    from dynajit.ops.functions.shapes.shape import *  # type: ignore[assignment]  # `unfold` of a dim
    from dynajit.ops.functions.signals.spectrogram import *


__all__ = publish(globals(), "")
publish_overridable(globals(), set(__all__) - {"can_cast", "is_tensor", "broadcast_shapes"})
