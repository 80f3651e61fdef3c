"""The garbage collector, held while much is made that stays.

Contract: `paused()` leaves the collector as it was, also after an error. Called by `dynajit` around
its imports: what they make are rows, classes and functions, and going over them again and again
took a fifth of the time.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """No automatic collection within the block."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
