"""The functions that PyTorch writes in Python, by its path: `from torch.functional import norm`.

Contract: the very functions of the package; which, they say themselves (`ops.calls.public`).
"""

import dynajit
import dynajit.ops.functions.matrices.lowrank
from dynajit.core.process import late
from dynajit.ops.functions import published

__all__ = sorted(published("functional"))
globals().update({name: getattr(dynajit, name) for name in __all__})

late.show(__name__)
