"""Tensors of derived classes, and objects, whose classes override functions: they are asked in
captured code as in eager execution, with the same arguments in the same order."""

import pytest

import dynajit as dj
from dynajit import Tensor


class Kept(Tensor):
    """Overrides nothing: results are of its class."""


class Counting(Tensor):
    """Writes down what it is asked about; adds by subtracting."""

    asked = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.asked.append((func, types))
        if func in (dj.add, Tensor.add):
            func = dj.sub
        return super().__torch_function__(func, types, args, kwargs or {})


class Scaled(Tensor):
    """Leaves the protocol to make a call, and multiplies what comes back."""

    scale = 3.0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with dj._C.DisableTorchFunctionSubclass():
            found = func(*args, **(kwargs or {}))
            return found * cls.scale if isinstance(found, Tensor) else found

    def tripled(self):
        return self.sum()

    @property
    def doubled(self):
        return self * 2


class Wrapper:
    """No tensor, but holds one."""

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return Wrapper(func(*map(bare, args), **(kwargs or {})))


def bare(argument):
    if isinstance(argument, list):
        return [bare(item) for item in argument]
    return argument.held if isinstance(argument, Wrapper) else argument


FUNCTIONS = {
    "operators": lambda x, y: (x * 2, x + y, 3 - x, y + x, -x, abs(x), 2**x, x / 2, x @ y.t()),
    "comparisons": lambda x, y: (x == y, x > 1, 1 > x),
    "items": lambda x, y: (x[0], x[:, 1:], len(x)),
    "functions": lambda x, y: (dj.add(x, 1).sum(), dj.where(y > 0, x, y), dj.zeros_like(x)),
    "lists": lambda x, y: (dj.stack([y, x]), dj.cat((x, y))),
    "several results": lambda x, y: (x.split(1), dj.max(x, 0)),
    "views": lambda x, y: (x.T, x.reshape(3, 2), x.detach(), x.data),
    "facts": lambda x, y: (x.shape, x.dtype, x.dim(), x.size(0), x.requires_grad, type(x)),
    "classes": lambda x, y: (x.as_subclass(Tensor) + 1, y.as_subclass(type(x)) * 2),
    "layers": lambda x, y: dj.nn.functional.relu(x),
    "methods as functions": lambda x, y: (Tensor.mul(x, y), Tensor.sum(x, 0)),
    "conversions": lambda x, y: (x.to(dj.float64), x.contiguous(), x.clone().zero_()),
}


def described(found):
    if isinstance(found, (tuple, list)):
        return [described(item) for item in found]
    if not isinstance(found, Tensor):
        return found
    plain = found.as_subclass(Tensor)
    return type(found), plain.tolist(), plain.requires_grad


def outcome(function, cls, start, needs_gradient):
    x = (dj.arange(6.0) + start).reshape(2, 3).requires_grad_(needs_gradient)
    Counting.asked.clear()
    found = function(x.as_subclass(cls), dj.full((2, 3), 2.0))
    asked = list(Counting.asked)
    return described(found), asked


@pytest.mark.parametrize("cls", [Kept, Counting, Scaled])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_classes_are_asked_as_in_eager_execution(name, cls):
    function = FUNCTIONS[name]
    compiled = dj.compile(function, fullgraph=True)
    for needs_gradient in (False, True):
        for start in (0.0, 1.0):
            expected = outcome(function, cls, start, needs_gradient)
            assert expected == outcome(compiled, cls, start, needs_gradient)


@pytest.mark.parametrize("cls", [Kept, Counting, Scaled])
def test_gradients_are_those_of_eager_execution(cls):
    def loss(x, y):
        return ((x + y) * x).sum()

    compiled = dj.compile(loss, fullgraph=True)
    found = []
    for function in (loss, compiled, compiled):
        x = dj.arange(6.0).reshape(2, 3).requires_grad_()
        function(x.as_subclass(cls), dj.ones(2, 3)).backward()
        found.append(x.grad.tolist())
    assert [found[0]] * 2 == found[1:]


def test_writes_reach_the_tensor_and_its_version():
    def write(x, y):
        x.add_(y)
        x[0] = 7
        return x * 2

    compiled = dj.compile(write, fullgraph=True)
    for cls in (Kept, Counting, Kept):
        pairs = [dj.ones(2, 3).as_subclass(cls) for _ in range(2)]
        expected, actual = (f(x, dj.ones(2, 3)) for f, x in zip((write, compiled), pairs))
        assert described(expected) == described(actual)
        assert described(pairs[0]) == described(pairs[1])


def test_attributes_and_methods_of_the_class_are_read():
    def read(x):
        return x.tripled() + x.doubled.sum() + x.scale + x.own

    compiled = dj.compile(read, fullgraph=True)
    x = dj.ones(2).as_subclass(Scaled)
    x.own = 1.0
    for scale, own in ((3.0, 1.0), (5.0, 1.0), (5.0, 2.0)):
        Scaled.scale, x.own = scale, own
        assert described(read(x)) == described(compiled(x))
    Scaled.scale = 3.0


def test_objects_that_hold_tensors_are_asked():
    def call(wrapped, x):
        found = [dj.mul(wrapped, x), dj.stack([x, wrapped]), x + wrapped, wrapped.held + x]
        return bare(found)

    compiled = dj.compile(call, fullgraph=True)
    for start in (1.0, 2.0):
        wrapped, x = Wrapper(dj.full((2,), start)), dj.ones(2)
        assert described(call(wrapped, x)) == described(compiled(wrapped, x))


class Inner(Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is dj.mul:
            return NotImplemented
        return ("inner", func is dj.add, types)


class Outer(Inner):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


def refused(x, y):
    try:
        return dj.mul(x, y)
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("function", [lambda x, y: dj.add(x, y), refused])
def test_derived_classes_are_asked_first_and_all_may_decline(function):
    compiled = dj.compile(function, fullgraph=True)
    for x, y in ((Inner, Outer), (Outer, Inner), (Tensor, Inner)):
        given = dj.ones(2).as_subclass(x), dj.ones(2).as_subclass(y)
        assert function(*given) == compiled(*given)


def test_another_method_and_a_block_that_asks_nobody_are_noticed():
    class Changing(Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "first"

    compiled = dj.compile(lambda x: dj.add(x, 1))
    x = dj.ones(2).as_subclass(Changing)
    assert "first" == compiled(x)
    with dj._C.DisableTorchFunctionSubclass():
        assert [2, 2] == compiled(x).tolist()
    assert "first" == compiled(x)
    Changing.__torch_function__ = classmethod(lambda *_, **named: "second")
    assert "second" == compiled(x)


def test_a_name_that_a_class_gets_later_is_noticed():
    class Late(Tensor):
        pass

    compiled = dj.compile(lambda x: x.sigmoid())
    x = dj.zeros(2).as_subclass(Late)
    assert [0.5, 0.5] == compiled(x).tolist()
    Late.sigmoid = lambda self: "own"
    assert "own" == compiled(x)
    Late.sigmoid = False
    with pytest.raises(TypeError, match="not callable"):
        compiled(x)
