"""`as_strided` in captured code: a copy where nobody can tell it from the view, else a break."""

import numpy as np
import pytest

import dynajit as dj

CAPTURED = {
    "a part": lambda x: x.as_strided((2, 2), (4, 1)) + 1,
    "from further on": lambda x: dj.as_strided(x + 0, (2, 2), (1, 2), 1) * 2,
    "overlapping": lambda x: x.as_strided((2, 3, 2), (3, 2, 1)) * 3,
    "a sum": lambda x: (x * 2).as_strided((3, 2), (2, 1), 3).sum(),
    "one element": lambda x: x.as_strided([], []) + 1,
    "of what is made": lambda x: x.detach().clone().as_strided((2, 2), (1, 1)),
}

LEFT = {
    "a view that is returned": lambda x: x.as_strided((3,), (5,)),
    "an offset in the storage": lambda x: x.as_strided((2, 2), (1, 2), 1) * 2,
    "another layout": lambda x: x.t().as_strided((2, 2), (1, 1)) + 1,
    "a write to what is seen": lambda x: _written(x, x.detach().as_strided((2, 2), (1, 1))),
    "a write to the view": lambda x: x.detach().as_strided((2, 2), (2, 1)).add_(1),
}


def _written(x, view):
    x.detach().add_(5)
    return view + 1


@pytest.mark.parametrize("name", [*CAPTURED, *LEFT])
@pytest.mark.parametrize("needs_gradient", [False, True])
def test_values_gradients_and_memory_are_those_of_eager_execution(name, needs_gradient):
    function = CAPTURED[name] if name in CAPTURED else LEFT[name]
    compiled = dj.compile(function, fullgraph=name in CAPTURED)
    for _ in range(2):
        a, b = (dj.arange(12.0).reshape(3, 4).requires_grad_(needs_gradient) for _ in range(2))
        expected, actual = function(a), compiled(b)
        np.testing.assert_allclose(expected.tolist(), actual.tolist(), rtol=1e-6)
        assert a.tolist() == b.tolist()
        if expected.requires_grad:
            expected.sum().backward()
            actual.sum().backward()
            np.testing.assert_allclose(a.grad.tolist(), b.grad.tolist(), rtol=1e-6)
        with dj.no_grad():
            a.add_(1)
            b.add_(1)
        np.testing.assert_allclose(expected.tolist(), actual.tolist(), rtol=1e-6)
