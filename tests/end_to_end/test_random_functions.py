"""Random straight-line functions of the public API: compiled they give what they give eagerly.

`DYNAJIT_FUZZ_SEEDS` scales the number of functions (1 by default); `DYNAJIT_FUZZ_FIRST` is the
first seed.
"""

import os
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.support.kernels.fuzz_functions import write

SCALE = float(os.environ.get("DYNAJIT_FUZZ_SEEDS", "1"))
FIRST = int(os.environ.get("DYNAJIT_FUZZ_FIRST", "0"))


def values(given: Any) -> np.ndarray:
    """Of a tensor or a number."""
    return given.detach().numpy() if isinstance(given, dj.Tensor) else np.asarray(given)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + round(12 * SCALE)))
def test_results_and_written_arguments_are_those_of_eager(seed: int) -> None:
    written = write(seed)
    function = written.function()
    given, compiled_given = written.arguments(False), written.arguments(False)

    dj.manual_seed(5)
    expected = function(*given)
    dj.manual_seed(5)
    actual = dj.compile(function)(*compiled_given)

    tolerance = 1e-3 if written.has_float32 else 1e-9
    pairs = zip((*expected, *given), (*actual, *compiled_given), strict=True)
    for left, right in ((values(a), values(b)) for a, b in pairs):
        assert (left.dtype, left.shape) == (right.dtype, right.shape), written.source
        scale = max(1.0, float(np.abs(left).max(initial=0)))
        np.testing.assert_allclose(
            right, left, rtol=tolerance, atol=tolerance * scale, err_msg=written.source
        )
