"""`__torch_function__` of classes and modes, beside PyTorch's."""

import copy
import operator
import pickle
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.ops.table import overriding

torch = pytest.importorskip("torch")

LIBRARIES = [pytest.param(dj, id="dynajit"), pytest.param(torch, id="torch")]


def kit(t: Any) -> Any:
    """Classes that override functions, of one library, and what they were asked."""
    asked: list[str] = []

    class Logged(t.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            asked.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Foreign:
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            asked.append(func.__name__)
            return ("foreign", func.__name__, sorted(kwargs or {}))

    class Mode(t.overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            asked.append(func.__name__)
            return func(*args, **(kwargs or {}))

    class Plain(t.Tensor):
        def doubled(self) -> Any:
            return self * 2

    return SimpleNamespace(asked=asked, Logged=Logged, Foreign=Foreign, Mode=Mode, Plain=Plain)


CALLS = {
    "add": lambda t, m, p: m + p,
    "reflected add": lambda t, m, p: 1 + m,
    "plain + special": lambda t, m, p: p + m,
    "rsub": lambda t, m, p: 1 - m,
    "mul": lambda t, m, p: 2 * m,
    "div": lambda t, m, p: m / p,
    "pow": lambda t, m, p: m.pow(2),
    "floordiv": lambda t, m, p: m // 2,
    "mod": lambda t, m, p: m % 2,
    "matmul": lambda t, m, p: m @ p,
    "eq": lambda t, m, p: m == p,
    "lt": lambda t, m, p: m < 1,
    "gt reflected": lambda t, m, p: 1 < m,
    "neg": lambda t, m, p: -m,
    "item": lambda t, m, p: m[0],
    "set item": lambda t, m, p: m.__setitem__(0, 5),
    "iadd": lambda t, m, p: operator.iadd(m, 1),
    "iadd to plain": lambda t, m, p: operator.iadd(p, m),
    "len": lambda t, m, p: len(m),
    "shape": lambda t, m, p: m.shape,
    "dtype": lambda t, m, p: m.dtype,
    "data": lambda t, m, p: m.data,
    "grad": lambda t, m, p: m.grad,
    "dim": lambda t, m, p: m.dim(),
    "size": lambda t, m, p: m.size(),
    "sum": lambda t, m, p: m.sum(dim=0),
    "requires_grad": lambda t, m, p: m.requires_grad,
    "float": lambda t, m, p: float(m[0]),
    "method": lambda t, m, p: m.add(p),
    "plain method": lambda t, m, p: p.add(m),
    "copy_": lambda t, m, p: p.copy_(m),
    "clone": lambda t, m, p: m.clone(),
    "to": lambda t, m, p: m.to(t.float64),
    "function": lambda t, m, p: t.add(m, 1, alpha=2),
    "list": lambda t, m, p: t.stack([p, m]),
    "max": lambda t, m, p: m.max(0).values,
    "split": lambda t, m, p: t.split(m, 1),
    "relu": lambda t, m, p: t.nn.functional.relu(m),
    "softmax": lambda t, m, p: t.softmax(m, 0),
    "linear": lambda t, m, p: t.nn.functional.linear(m, t.ones(3, 2)),
    "einsum": lambda t, m, p: t.einsum("i,i", m, p),
    "dropout": lambda t, m, p: t.nn.functional.dropout(m, 0.5, False),
    "zeros_like": lambda t, m, p: t.zeros_like(m),
    "new_zeros": lambda t, m, p: m.new_zeros(2),
    "numpy": lambda t, m, p: m.numpy(),
    "tolist": lambda t, m, p: m.tolist(),
    "layer": lambda t, m, p: t.nn.ReLU()(m),
    "tensor": lambda t, m, p: t.tensor(m.tolist()),
    "as_tensor": lambda t, m, p: t.as_tensor(m),
    "as_subclass": lambda t, m, p: m.as_subclass(t.Tensor),
    "equal": lambda t, m, p: t.equal(m, p),
    "nothing": lambda t, m, p: p + 1,
    "contains": lambda t, m, p: 1.0 in m,
    "is_tensor": lambda t, m, p: t.is_tensor(m),
    "unsqueeze": lambda t, m, p: m.unsqueeze(0).shape,
    "embedding": lambda t, m, p: t.embedding(m[None], t.tensor([0])),
}


def shown(result: Any) -> Any:
    """What both libraries should give, in a form that can be compared."""
    if isinstance(result, (tuple, list)):
        return [shown(item) for item in result]
    if hasattr(result, "as_subclass"):
        with_class = type(result).__name__
        plain = result.as_subclass(dj.Tensor if isinstance(result, dj.Tensor) else torch.Tensor)
        return with_class, [round(x, 5) for x in plain.detach().flatten().tolist()]
    if isinstance(result, np.ndarray):
        return result.tolist()
    return str(result).replace("torch.", "").replace("dynajit.", "")


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["Logged", "Plain"])
def test_a_class_sees_the_calls_that_it_sees_with_pytorch(name: str, kind: str) -> None:
    """By the same names, and results have the same classes."""
    found = []
    for t in (dj, torch):
        tools = kit(t)
        special = t.tensor([1.0, 2.0]).as_subclass(getattr(tools, kind))
        plain = t.tensor([3.0, 5.0])
        result = CALLS[name](t, special, plain)
        found.append((list(tools.asked), shown(result)))
    assert found[1] == found[0]


FOREIGN_CALLS = {
    "function": lambda t, f, p: t.add(f, p),
    "second": lambda t, f, p: t.matmul(p, f),
    "operator": lambda t, f, p: p + f,
    "reflected": lambda t, f, p: p @ f,
    "list": lambda t, f, p: t.cat([p, f]),
    "tuple": lambda t, f, p: t.stack((f, p)),
    "named": lambda t, f, p: t.sum(input=f, dim=0),
    "functional": lambda t, f, p: t.nn.functional.linear(f, p),
    "one": lambda t, f, p: t.mean(f),
    "linalg": lambda t, f, p: t.linalg.norm(f),
    "method": lambda t, f, p: p.mul(f),
    "method of two": lambda t, f, p: p.matmul(f),
    "out": lambda t, f, p: t.exp(p, out=f),
}


@pytest.mark.parametrize("name", FOREIGN_CALLS)
def test_objects_that_are_no_tensors_are_asked(name: str) -> None:
    """By functions, operators and methods of tensors that get one, also as part of a list."""
    found = []
    for t in (dj, torch):
        tools = kit(t)
        found.append((FOREIGN_CALLS[name](t, tools.Foreign(), t.ones(2)), tools.asked))
    kinds = [(asked, result[:1]) for result, asked in found]
    if name == "linalg":
        kinds[1] = (["norm"], kinds[1][1])
    assert kinds[1] == kinds[0]


@pytest.mark.parametrize("t", LIBRARIES)
def test_a_foreign_class_may_answer_by_the_function(t: Any) -> None:
    """What is handed over is the object that programs know by the name."""
    handled = {
        t.mean: "mean", t.nn.functional.gelu: "gelu", t.Tensor.add: "add", t.linalg.solve: "solve",
        t.nn.functional.softmax: "softmax",
    }  # fmt: skip

    class Answering:
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            assert types == (Answering,)
            return handled[func]

    t.ones(1) + Answering()  # plain functions look at their arguments once somebody overrides
    assert t.mean(Answering()) == "mean"
    assert t.nn.functional.gelu(Answering()) == "gelu"
    assert t.ones(2).add(Answering()) == "add"
    assert t.linalg.solve(Answering(), t.ones(2)) == "solve"
    assert t.nn.functional.softmax(Answering(), 0) == "softmax"


@pytest.mark.parametrize("t", LIBRARIES)
def test_derived_classes_are_asked_first(t: Any) -> None:
    """And others as they come; NotImplemented passes the question on."""
    order = []

    class First:
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            order.append(cls.__name__)
            return NotImplemented

    class Other(First):
        pass

    class Derived(First):
        pass

    with pytest.raises(TypeError, match="add"):
        t.add(First(), Derived())
    assert order == ["Derived", "First"]
    order.clear()
    with pytest.raises(TypeError, match="cat"):
        t.cat([Other(), t.ones(1), Derived(), First(), Other()])
    assert order == ["Other", "Derived", "First"]


@pytest.mark.parametrize("t", LIBRARIES)
def test_two_classes_that_know_nothing_of_each_other_are_refused(t: Any) -> None:
    class Left(t.Tensor):
        pass

    class Right(t.Tensor):
        pass

    with pytest.raises(TypeError):
        t.add(t.ones(1).as_subclass(Left), t.ones(1).as_subclass(Right))


@pytest.mark.parametrize("t", LIBRARIES)
def test_parameters_override_nothing(t: Any) -> None:
    """Nor do classes that say so."""

    class Own(t.nn.Parameter):
        pass

    class Quiet(t.Tensor):
        __torch_function__ = t._C._disabled_torch_function_impl

    assert type(Own(t.ones(2)) + 1) is t.Tensor
    assert type(t.ones(2).as_subclass(Quiet).exp()) is t.Tensor
    assert not t.overrides.has_torch_function((Own(t.ones(2)), t.ones(1), 3))


@pytest.mark.parametrize("t", LIBRARIES)
def test_a_layer_keeps_the_class_of_its_input(t: Any) -> None:
    tools = kit(t)
    layer = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.LayerNorm(3), t.nn.GELU(), t.nn.Dropout(0.0))
    result = layer(t.ones(1, 2).as_subclass(tools.Plain))
    assert type(result) is tools.Plain
    assert type(result.doubled()) is tools.Plain


@pytest.mark.parametrize("t", LIBRARIES)
def test_gradients_of_a_special_leaf_ask_nobody(t: Any) -> None:
    tools = kit(t)
    leaf = t.ones(2).as_subclass(tools.Logged).requires_grad_()
    loss = (leaf * leaf * t.tensor([2.0, 3.0])).exp().sum()
    tools.asked.clear()
    loss.backward()
    assert tools.asked == ["backward"]
    assert type(leaf.grad) is t.Tensor
    expected = 2 * np.array([2.0, 3.0]) * np.exp([2.0, 3.0])
    np.testing.assert_allclose(expected, leaf.grad.numpy(), rtol=1e-5)


def test_a_row_that_a_layer_runs_by_itself_asks_the_class() -> None:
    """Also where no public function was called."""
    tools = kit(dj)
    special = dj.ones(2).as_subclass(tools.Logged)
    assert type(dj.ops.TABLE.exp(special)) is tools.Logged
    assert tools.asked == ["exp"]


@pytest.mark.parametrize("t", LIBRARIES)
def test_a_mode_sees_the_calls_of_its_block(t: Any) -> None:
    """Factories, functions, methods and operators; those within a call are not seen."""
    tools = kit(t)
    with tools.Mode():
        y = t.ones(2) + 1
        y.sum()
        t.add(y, y)
        t.nn.functional.softmax(y, 0)
        t.tensor([1.0])
        t.arange(3)
    seen = list(tools.asked)
    t.ones(2) + 1
    assert seen == ["ones", "add", "sum", "add", "softmax", "tensor", "arange"]
    assert tools.asked == seen


@pytest.mark.parametrize("t", LIBRARIES)
def test_modes_nest(t: Any) -> None:
    """The inner one is asked first, and its own calls go to the outer one."""
    order = []

    class Named(t.overrides.TorchFunctionMode):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            order.append(self.name)
            return func(*args, **(kwargs or {}))

    with Named("outer"), Named("inner"):
        t.ones(1)
    assert order == ["inner", "outer"]


@pytest.mark.parametrize("t", LIBRARIES)
def test_a_mode_ends_with_an_error(t: Any) -> None:
    tools = kit(t)
    with pytest.raises(ValueError, match="mine"), tools.Mode():
        raise ValueError("mine")
    t.ones(1)
    assert not tools.asked


@pytest.mark.parametrize("t", LIBRARIES)
def test_a_mode_may_change_calls(t: Any) -> None:
    class Doubling(t.overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is t.ones else result

    with Doubling():
        assert t.ones(2).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("t", LIBRARIES)
def test_a_mode_is_asked_before_classes(t: Any) -> None:
    tools = kit(t)
    special = t.ones(2).as_subclass(tools.Plain)
    with tools.Mode():
        result = special.exp()
    assert tools.asked == ["exp"]
    assert type(result) is tools.Plain


@pytest.mark.parametrize("t", LIBRARIES)
def test_a_mode_is_of_its_thread(t: Any) -> None:
    tools = kit(t)
    with tools.Mode():
        other = threading.Thread(target=lambda: t.ones(1) + 1)
        other.start()
        other.join()
    assert not tools.asked


@pytest.mark.parametrize("t", LIBRARIES)
def test_blocks_that_ask_nobody(t: Any) -> None:
    tools = kit(t)
    special = t.ones(2).as_subclass(tools.Logged)
    with t._C.DisableTorchFunctionSubclass():
        assert type(special + 1) is t.Tensor
        assert not t.overrides.has_torch_function((special,))
    with tools.Mode(), t._C.DisableTorchFunction():
        special + 1
        t.ones(1)
    assert not tools.asked


@pytest.mark.parametrize("t", LIBRARIES)
def test_functions_of_the_program_may_be_overridden(t: Any) -> None:
    tools = kit(t)

    def mine(x: Any, scale: Any = 1) -> Any:
        if t.overrides.has_torch_function((x,)):
            return t.overrides.handle_torch_function(mine, (x,), x, scale=scale)
        return x * scale

    assert mine(t.ones(1), 3).tolist() == [3.0]
    assert mine(tools.Foreign(), 3) == ("foreign", "mine", ["scale"])
    x = t.ones(1)
    tools.asked.clear()
    with tools.Mode():
        mine(x)
    assert tools.asked[0] == "mine"


@pytest.mark.parametrize("t", LIBRARIES)
def test_a_decorated_function_may_be_overridden(t: Any) -> None:
    tools = kit(t)

    @t.overrides.wrap_torch_function(lambda x: (x,))
    def mine(x: Any) -> Any:
        return x + 1

    assert mine(t.ones(1)).tolist() == [2.0]
    assert mine(tools.Foreign())[:2] == ("foreign", "mine")


@pytest.mark.parametrize("t", LIBRARIES)
def test_questions_are_answered(t: Any) -> None:
    tools = kit(t)
    overrides = t.overrides
    special = t.ones(1).as_subclass(tools.Logged)
    assert overrides.is_tensor_like(t.ones(1))
    assert overrides.is_tensor_like(tools.Foreign())
    assert not overrides.is_tensor_like(3)
    assert overrides.has_torch_function_unary(special)
    assert overrides.has_torch_function_variadic(t.ones(1), special)
    assert not overrides.has_torch_function_variadic(t.ones(1), 3)
    assert overrides.is_tensor_method_or_property(t.Tensor.add)
    assert overrides.is_tensor_method_or_property(t.Tensor.shape.__get__)
    assert not overrides.is_tensor_method_or_property(t.stack)
    assert t.mean in overrides.get_overridable_functions()[t]
    assert t.nn.functional.relu in overrides.get_overridable_functions()[t.nn.functional]
    assert t.Tensor.add in overrides.get_overridable_functions()[t.Tensor]
    assert t.tensor not in overrides.get_overridable_functions()[t]
    assert overrides.resolve_name(t.stack) == "torch.stack"
    assert overrides.resolve_name(t.Tensor.numel) == "torch.Tensor.numel"
    assert overrides.resolve_name(t.Tensor.add) == "torch.Tensor.add"
    assert overrides.resolve_name(t.nn.functional.linear) == "torch.nn.functional.linear"


@pytest.mark.parametrize("t", LIBRARIES)
def test_every_overridable_function_is_called_by_its_name(t: Any) -> None:
    """With an object of another kind in the first place."""
    tools = kit(t)
    t.ones(1) + tools.Foreign()
    listed = t.overrides.get_overridable_functions()[t]
    calls = {t.exp: (), t.where: (t.ones(1), t.ones(1)), t.topk: (2,), t.meshgrid: (t.ones(1),)}
    for function, others in calls.items():
        assert function in listed
        tools.asked.clear()
        function(tools.Foreign(), *others)
        assert tools.asked == [function.__name__]


def test_functions_are_the_same_after_somebody_overrode() -> None:
    """Names, docs, signatures and results; they can be copied and pickled."""
    tools = kit(dj)
    dj.ones(1).as_subclass(tools.Logged).exp()
    relu = dj.nn.functional.relu
    assert (relu.__name__, relu.__doc__ is not None) == ("relu", True)
    assert pickle.loads(pickle.dumps(dj.Tensor.exp)) is dj.Tensor.exp
    assert copy.deepcopy(relu) is relu
    np.testing.assert_array_equal(relu(dj.tensor([-1.0, 2.0])).numpy(), [0.0, 2.0])
    with pytest.raises(TypeError):
        relu()


def test_functions_have_the_names_that_programs_compare() -> None:
    """Methods that are no other names of others, and functions that write."""
    names = ("numel", "bitwise_left_shift", "mvlgamma", "add_", "__iadd__", "__ifloordiv__", "sum")
    assert [getattr(dj.Tensor, name).__name__ for name in names] == [*names]
    assert dj.nn.functional.relu_.__name__ == "relu_"


def test_texts_name_the_class() -> None:
    for t in (dj, torch):
        tools = kit(t)
        special = t.ones(2).as_subclass(tools.Plain)
        assert repr(special) == "Plain([1., 1.])"
        assert f"{special[0]} {special.bool()}" == "Plain(1.) Plain([True, True])"


def test_classes_that_are_asked_for_every_operation_are_refused() -> None:
    """When one of their tensors is computed with, not before."""

    class Dispatching(dj.Tensor):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            raise AssertionError

    special = dj.ones(2).as_subclass(Dispatching)
    for call in (lambda: special + 1, lambda: dj.ones(2) * special, lambda: special[0]):
        with pytest.raises(NotImplementedError, match="Dispatching defines __torch_dispatch__"):
            call()
    with pytest.raises(NotImplementedError, match="Dispatching"):
        dj.compile(lambda x: x + 1)(special)


def test_parameters_of_classes_that_override_are_refused() -> None:
    """In PyTorch they keep the class."""
    tools = kit(dj)
    with pytest.raises(NotImplementedError, match="as_subclass"):
        dj.nn.Parameter(dj.ones(2).as_subclass(tools.Plain))


# -- compiled functions --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Logged", "Plain"])
def test_a_compiled_function_asks_the_class(kind: str) -> None:
    """What the class does is captured, without a break."""
    tools = kit(dj)
    special = dj.ones(2).as_subclass(getattr(tools, kind))

    def function(x: Any) -> Any:
        return dj.nn.functional.relu(x + 1).sum()

    compiled = dj.compile(function)
    for _ in range(2):
        result = compiled(special)
        assert type(result) is type(special)
    if kind == "Logged":
        assert tools.asked == ["add", "relu", "sum"] * 2
    assert type(compiled(dj.ones(2))) is dj.Tensor
    assert type(dj.compile(function, fullgraph=True)(special)) is type(special)


def test_a_compiled_function_asks_objects() -> None:
    """Those that it makes, too."""
    tools = kit(dj)
    calls = {
        "function": lambda x: dj.add(x, tools.Foreign()),
        "operator": lambda x: (x * 2) + tools.Foreign(),
        "functional": lambda x: dj.nn.functional.relu(tools.Foreign()),
        "list": lambda x: dj.cat([x, tools.Foreign()]),
        "method": lambda x: x.add(tools.Foreign()),
    }
    for function in calls.values():
        compiled = dj.compile(function)
        for _ in range(2):
            assert compiled(dj.ones(2)) == function(dj.ones(2))


def test_a_mode_sees_what_a_compiled_function_does() -> None:
    """Entered before it is compiled or after, and within it."""
    tools = kit(dj)

    def function(x: Any) -> Any:
        return (x + 1).sum()

    for is_warm in (False, True):
        compiled = dj.compile(function, fullgraph=True)
        if is_warm:
            compiled(dj.ones(2))
        tools.asked.clear()
        x = dj.ones(2)
        with tools.Mode():
            compiled(x)
        assert tools.asked == ["add", "sum"]
        compiled(x)
        assert tools.asked == ["add", "sum"]

    def entering(x: Any) -> Any:
        x = x + 1
        with tools.Mode():
            y = x.sum()
        return y * 2

    compiled = dj.compile(entering)
    for _ in range(3):
        tools.asked.clear()
        assert compiled(dj.ones(2)).item() == 8.0
        assert tools.asked == ["sum"]


def test_what_is_compiled_after_somebody_overrode_is_whole() -> None:
    """Functions that look at their arguments are captured as before."""
    tools = kit(dj)
    dj.ones(1).as_subclass(tools.Logged).exp()
    functional = dj.nn.functional

    def function(x: Any) -> Any:
        y = functional.silu(functional.layer_norm(x, (2,)))
        y = functional.dropout(y, 0.5, False).T.real + x.max()
        y[0] = 1
        y += dj.tensor([1.0, 2.0])
        return dj.einsum("ij,ij->i", y, y).relu_()

    x = dj.tensor([[1.0, 2.0], [3.0, 5.0]])
    compiled = dj.compile(function, fullgraph=True)
    np.testing.assert_allclose(function(x).numpy(), compiled(x).numpy(), rtol=1e-6)


def test_functions_are_compiled_as_they_were_written() -> None:
    """Before somebody overrides, and after it: their bodies change then."""
    compiled = dj.compile(dj.nn.functional.conv_transpose1d, fullgraph=True)
    overriding.begin()
    again = dj.compile(dj.nn.functional.conv_transpose1d, fullgraph=True)
    for length in (5, 6, 9):
        operands = dj.randn(1, 2, length), dj.ones(2, 3, 2)
        expected = dj.nn.functional.conv_transpose1d(*operands)
        dj.testing.assert_close(compiled(*operands), expected)
        dj.testing.assert_close(again(*operands), expected)
