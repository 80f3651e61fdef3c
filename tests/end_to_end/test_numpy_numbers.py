"""Numbers of NumPy's in compiled functions: what is one, and what an array without dims.

`s` is an element, `z` an array without dims.
"""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.fuzz.arrays import difference

EXPRESSIONS = """\
s.astype(int)
s.astype(np.float32)
s.copy()
s.reshape(())
s.reshape(1)
s.transpose()
s.squeeze()
s.round(1)
s.clip(0, 1)
np.transpose(s)
np.squeeze(s)
np.reshape(s, ())
np.copy(s)
np.array(s)
np.asarray(s)
np.asanyarray(s)
np.roll(s, 1)
np.pad(s, 0)
np.select([s > 0], [s], 0)
np.where(s > 0, s, 1)
np.floor(s).astype(np.int64)
z.astype(int)
z.copy()
z.reshape(())
z.transpose()
z.squeeze()
np.copy(z)
np.reshape(z, ())
np.floor(z)
"""


@pytest.mark.parametrize("expression", EXPRESSIONS.splitlines())
def test_what_numpy_gives_a_number_for_is_one(expression: str) -> None:
    function = eval(f"lambda x, z: (lambda s: {expression})(x[1])", {"np": np})
    x, z = np.array([1.5, 2.25, -3.0]), np.array(2.5)

    compiled = dj.compile(function, fullgraph=True)

    assert difference(function(x, z), compiled(x, z)) is None


def test_an_array_of_a_number_is_other_memory() -> None:
    def function(x: Any) -> Any:
        s = x[0]
        y = np.asarray(s)
        y += 1
        return s, y, x

    expected, found = function(np.ones(3)), dj.compile(function, fullgraph=True)(np.ones(3))

    assert difference(list(expected), list(found)) is None
