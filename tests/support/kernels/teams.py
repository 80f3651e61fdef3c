"""What the tests of kernels with threads of their own share."""

from typing import Any

import numpy as np


def same_for_teams(program: Any, arrays: list[np.ndarray]) -> tuple[Any, ...]:
    """The results, which are the same bits for one, two and three threads."""
    results: tuple[Any, ...] = program(*arrays)
    for threads in (1, 2, 3):
        program.threads = threads
        for one, other in zip(results, program(*arrays), strict=True):
            assert one.tobytes() == other.tobytes(), threads
    return results
