"""What random programs found, reduced to the few lines that were wrong."""

import gc
import types
import weakref

import numpy as np
import pytest

import dynajit as dj


def leaves(count):
    """Leaf tensors that get gradients."""
    return [
        dj.from_numpy(np.float32([1.5, -2.0, 0.25]) * (i + 1)).requires_grad_()
        for i in range(count)
    ]


@pytest.fixture
def gradients():
    """`gradients(f, compiled)`: what two leaves get when the first result goes backward."""

    def run(function):
        a, b = leaves(2)
        function(a * 1, b * 1)[0].sum().backward()
        return [None if leaf.grad is None else leaf.grad.numpy() for leaf in (a, b)]

    return run


def test_an_argument_that_no_differentiated_result_depends_on_gets_no_gradient(gradients):
    def f(x, y):
        return y * 3, x.tanh()

    expected, found = gradients(f), gradients(dj.compile(f, backend="numpy"))
    assert expected[0] is None
    assert found[0] is None
    np.testing.assert_allclose(expected[1], found[1])


def test_a_written_argument_that_no_result_depends_on_gets_no_gradient(gradients):
    def f(x, y):
        x.mul_(2)
        return (y + 0.5,)

    expected, found = gradients(f), gradients(dj.compile(f, backend="numpy"))
    assert expected[0] is None
    assert found[0] is None
    np.testing.assert_allclose(expected[1], found[1])


def test_a_class_whose_object_was_an_argument_dies_with_its_module():
    module = types.ModuleType("short_lived")
    text = "class Box:\n    pass\n\ndef f(x, box):\n    return x * 2, box\n"
    exec(text, vars(module))
    compiled = dj.compile(module.f, backend="numpy")
    compiled(dj.ones(3), module.Box())
    left = weakref.ref(module.Box)
    del module, compiled
    gc.collect()
    assert left() is None
