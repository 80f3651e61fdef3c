"""How many processors this process may use."""

import os


def available_processors() -> int:
    """Those that the system lets it run on; all that there are, where a system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
