"""Settings of PyTorch's capture: they are accepted, and change nothing.

dynajit's own are in `dynajit.config`.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

accumulated_cache_size_limit = 256
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit = 8
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
dynamic_shapes = True
guard_nn_modules = True
inline_inbuilt_nn_modules = True
log_level = None
optimize_ddp = True
recompile_limit = 8
suppress_errors = False
verbose = False


@contextlib.contextmanager
def patch(changes: Any = None, **named: Any) -> Iterator[None]:
    """Settings for the block; they change nothing."""
    module = vars(sys.modules[__name__])
    given = {**(changes if isinstance(changes, dict) else {}), **named}
    before = {name: module.get(name) for name in given}
    module.update(given)
    try:
        yield
    finally:
        module.update(before)
