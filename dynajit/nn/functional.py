"""Functions of neural networks with PyTorch's names: `import dynajit.nn.functional as F`.

A function is here because it says so where it is defined (`ops.calls.public`), mostly in
`ops.functions.networks`; the imports bring the modules in which such functions are. Here they get
the argument `inplace` where PyTorch has one: the result is then written into the input; and the
argument `out`.
"""

from typing import TYPE_CHECKING

import dynajit.nn.ctc
import dynajit.nn.lookups
import dynajit.nn.statistics
import dynajit.ops.functions.elements.elementwise
import dynajit.ops.functions.networks.convolution
import dynajit.ops.functions.networks.fractional_pooling
import dynajit.ops.functions.networks.grid
import dynajit.ops.functions.networks.loss
import dynajit.ops.functions.networks.margin_losses
import dynajit.ops.functions.networks.multihead_attention
import dynajit.ops.functions.networks.nn
import dynajit.ops.functions.networks.noise
import dynajit.ops.functions.networks.pooling
import dynajit.ops.functions.networks.resampling
import dynajit.ops.functions.reductions.pair
import dynajit.ops.rows.networks.batch_normalization
from dynajit.core.process import late
from dynajit.nn.attention.projections import (
    _canonical_mask,
    _in_projection,
    _in_projection_packed,
    _none_or_dtype,
)
from dynajit.nn.writing import in_place, with_inplace
from dynajit.ops.calls.library_calls import publish
from dynajit.ops.calls.public import InPlace, published
from dynajit.ops.table.overriding import (
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    publish_overridable,
)

if TYPE_CHECKING:
    from dynajit.nn.ctc import *
    from dynajit.nn.lookups import *
    from dynajit.nn.statistics import *
    from dynajit.ops.functions.elements.elementwise import *
    from dynajit.ops.functions.networks.convolution import *
    from dynajit.ops.functions.networks.fractional_pooling import *
    from dynajit.ops.functions.networks.grid import *
    from dynajit.ops.functions.networks.loss import *
    from dynajit.ops.functions.networks.margin_losses import *
    from dynajit.ops.functions.networks.multihead_attention import *
    from dynajit.ops.functions.networks.nn import *
    from dynajit.ops.functions.networks.noise import *
    from dynajit.ops.functions.networks.pooling import *
    from dynajit.ops.functions.networks.resampling import *
    from dynajit.ops.functions.reductions.pair import *
    from dynajit.ops.rows.networks.batch_normalization import *


__all__ = publish(globals(), "nn.functional")
for _facts in published("nn.functional").values():
    if _facts.inplace_argument:
        globals()[_facts.name] = with_inplace(_facts.function, saves_input=_facts.saves_input)
    if _facts.in_place is InPlace.FUNCTION:
        globals()[f"{_facts.name}_"] = in_place(globals()[_facts.name])
        __all__.append(f"{_facts.name}_")
__all__.sort()
del _facts
publish_overridable(globals(), __all__)
late.show(
    __name__,
    also=(
        "handle_torch_function",
        "has_torch_function",
        "has_torch_function_unary",
        "has_torch_function_variadic",
    ),
)
