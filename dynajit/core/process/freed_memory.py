"""What the C library does with memory that arrays gave back: it keeps it for the next ones.

Contract: `keep` is called once, when eager tensors are first there. glibc gives blocks above a
threshold of its own back to the system, and gets them again for the next result, page by page; it
raises the threshold as such blocks are freed, so that the speed of a program depends on what it
freed before. `keep` sets what these thresholds grow to. Whoever sets one of glibc's variables
(`USERS_OWN`) has said what is to happen, and is left alone. Elsewhere `keep` does nothing.
"""

import ctypes
import os
from collections.abc import Mapping
from typing import Final

USERS_OWN: Final = (
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_MMAP_MAX_",
    "GLIBC_TUNABLES",
)
"""Variables of the environment that glibc reads."""

#: Parameters of mallopt, and their values: the most that glibc raises them to by itself, for blocks
#: of 32 MB, of which it accepts no larger. Source: mallopt(3), M_MMAP_THRESHOLD.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_KEPT_BYTES: Final = 64 << 20
_LARGEST_KEPT_BYTES: Final = 32 << 20


def keep(environment: Mapping[str, str] = os.environ) -> bool:
    """Have freed memory kept, up to 64 MB, in blocks of up to 32 MB.

    A linear layer and GELU of 400 KB took 6 ms instead of 1.5, most of it for new pages; messages
    between processes of 256 KB took 450 microseconds instead of 28.

    Returns:
        Whether it is kept now: False with another C library, or where the program's user decided.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is None or any(environment.get(name) for name in USERS_OWN):
        return False
    values = ((_TRIM_THRESHOLD, _KEPT_BYTES), (_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES))
    return all(mallopt(parameter, value) == 1 for parameter, value in values)
