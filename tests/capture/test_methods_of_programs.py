"""Methods that programs put into the class of tensors are captured as what they are."""

import pytest

import dynajit as dj


@pytest.fixture(autouse=True)
def as_before():
    before = dict(vars(dj.Tensor))
    yield
    for name in set(vars(dj.Tensor)) - set(before):
        delattr(dj.Tensor, name)
    for name, member in before.items():
        if vars(dj.Tensor).get(name) is not member:
            setattr(dj.Tensor, name, member)


def test_a_new_method_is_part_of_the_graph() -> None:
    dj.Tensor.scaled = lambda self, factor: self * factor
    compiled = dj.compile(lambda x: (x + 1).scaled(3) + x.scaled(factor=2), fullgraph=True)

    assert [5.0, 5.0] == (compiled(dj.ones(2)) - 3).tolist()


def test_a_method_that_takes_the_place_of_another_is_called() -> None:
    """Also one that is put there after compiling, and the former one when it is back."""
    compiled, before = dj.compile(lambda x: x.exp() + 1), dj.Tensor.exp
    assert [2.0] == compiled(dj.zeros(1)).tolist()
    dj.Tensor.exp = lambda self: self + 10
    assert [11.0] == compiled(dj.zeros(1)).tolist()
    dj.Tensor.exp = lambda self: self + 20
    assert [21.0] == compiled(dj.zeros(1)).tolist()
    dj.Tensor.exp = before
    assert [2.0] == compiled(dj.zeros(1)).tolist()


def test_a_random_fill_may_be_replaced() -> None:
    dj.Tensor.uniform_ = lambda self, low, high: self.copy_(dj.full((2,), 7.0))
    compiled = dj.compile(lambda x: dj.zeros(2).uniform_(0, 1) + x)

    assert [8.0, 8.0] == compiled(dj.ones(2)).tolist()


def test_a_property_runs_as_plain_python() -> None:
    dj.Tensor.doubled = property(lambda self: self * 2)
    compiled = dj.compile(lambda x: (x + 1).doubled - x)

    assert [3.0, 3.0] == compiled(dj.ones(2)).tolist()


def test_a_method_of_parameters_is_called() -> None:
    dj.nn.Parameter.half = lambda self: self / 2
    layer = dj.nn.Linear(2, 2)
    try:
        found = dj.compile(lambda x: layer.bias.half() + x)(dj.ones(2))
    finally:
        del dj.nn.Parameter.half

    assert (layer.bias / 2 + 1).tolist() == found.tolist()
