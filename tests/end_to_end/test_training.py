"""Training through `compile`: the same numbers, state and rules as eager training."""

import copy
import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit import nn
from dynajit.core.errors import AutogradError


class Perceptron(nn.Module):
    """Two hidden layers, dropout if asked for."""

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.GELU())
        self.dropout = nn.Dropout(p)
        self.head = nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        return self.head(self.dropout(self.layers(x)))


class Tied(nn.Module):
    """An embedding whose weight is also the output layer's."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.mix = nn.Linear(8, 8)
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Any) -> Any:
        return self.head(self.mix(self.embedding(tokens)).tanh().mean(dim=1))


class Block(nn.Module):
    """Attention and a two-layer network, both with residuals."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(self.norm_1(x)).chunk(3, dim=-1)
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.view(*shape).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Transformer(nn.Module):
    """A small classifier of token sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.position = nn.Parameter(dj.randn(5, 8) * 0.1)
        self.blocks = nn.ModuleList([Block(8, 2) for _ in range(2)])
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(dim=1))


class Counting(nn.Module):
    """A running mean in a buffer, written by every forward."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 4)
        self.register_buffer("mean", dj.zeros(12))
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(dim=0)
        return self.layer(x - self.mean)


def batch_of(model: nn.Module) -> tuple[Any, Any]:
    """Inputs and targets that fit a model."""
    generator = np.random.default_rng(3)
    if isinstance(model, (Tied, Transformer)):
        tokens = generator.integers(0, 10, (6, 5))
        return dj.tensor(tokens), dj.tensor(generator.integers(0, 3, 6))
    x = generator.standard_normal((6, 12)).astype(np.float32)
    return dj.tensor(x), dj.tensor(generator.integers(0, 4, 6))


def train(
    model: nn.Module, call: Callable[..., Any], optimizer: Any, steps: int = 4
) -> list[float]:
    """Losses of some steps on one batch."""
    inputs, targets = batch_of(model)
    losses = []
    for _ in range(steps):
        loss = call(model, inputs, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def loss_of(model: nn.Module, inputs: Any, targets: Any) -> Any:
    """The function that is compiled."""
    return F.cross_entropy(model(inputs), targets)


MODELS = {
    "perceptron": Perceptron,
    "dropout": functools.partial(Perceptron, 0.4),
    "tied": Tied,
    "transformer": Transformer,
    "buffers": Counting,
}
OPTIMIZERS = {
    "perceptron": lambda p: dj.optim.SGD(p, lr=0.1, momentum=0.9),
    "dropout": lambda p: dj.optim.SGD(p, lr=0.1),
    "tied": lambda p: dj.optim.Adam(p, lr=0.01),
    "transformer": lambda p: dj.optim.SGD(p, lr=0.1, momentum=0.9),  # Adam would amplify rounding
    "buffers": lambda p: dj.optim.SGD(p, lr=0.1),
}


@pytest.mark.parametrize("backend", ["native", "numpy", "eager"])
@pytest.mark.parametrize("name", list(MODELS))
def test_training_compiled_is_training_eagerly(name: str, backend: str) -> None:
    """Losses, parameters and buffers after some steps; one graph, no break, one compile."""
    found = []
    compiled = dj.compile(loss_of, fullgraph=True, backend=backend)
    for call in (loss_of, compiled):
        dj.manual_seed(7)
        model = MODELS[name]()
        losses = train(model, call, OPTIMIZERS[name](model.parameters()))
        found.append((losses, {k: v.numpy().copy() for k, v in model.state_dict().items()}))

    (expected, expected_state), (actual, actual_state) = found
    np.testing.assert_allclose(actual, expected, rtol=1e-5)
    assert list(expected_state) == list(actual_state)
    for key, value in expected_state.items():
        np.testing.assert_allclose(actual_state[key], value, rtol=2e-4, atol=2e-5, err_msg=key)
    assert 1 == compiled.report().entries


def test_dropout_masks_are_the_eager_ones() -> None:
    """Bit by bit, over several calls, and the generator ends in the same state."""
    x = dj.ones(50)

    def masks(value: Any) -> Any:
        return F.dropout(value, 0.3), F.dropout(value, 0.6)

    compiled = dj.compile(masks, fullgraph=True)
    for seed in (0, 1):
        dj.manual_seed(seed)
        expected = [masks(x) for _ in range(3)]
        after = dj.rand(3).tolist()
        dj.manual_seed(seed)
        actual = [compiled(x) for _ in range(3)]

        for left, right in zip(expected, actual, strict=True):
            assert left[0].tolist() == right[0].tolist()
            assert left[1].tolist() == right[1].tolist()
        assert after == dj.rand(3).tolist()


def test_evaluation_mode_and_back() -> None:
    """`eval()`, `train()` and `no_grad` choose versions; each is compiled once."""
    dj.manual_seed(0)
    model = Perceptron(0.5)
    compiled = dj.compile(model, backend="numpy")
    x, _ = batch_of(model)
    for _ in range(2):
        model.eval()
        compiled.eval()
        np.testing.assert_allclose(
            compiled(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-6
        )
        with dj.no_grad():
            assert not compiled(x).requires_grad
        model.train()
        compiled.train()
        dj.manual_seed(1)
        expected = model(x)
        dj.manual_seed(1)
        actual = compiled(x)
        np.testing.assert_allclose(actual.detach().numpy(), expected.detach().numpy(), rtol=1e-6)
        assert actual.requires_grad


def test_frozen_parameters_get_no_gradient() -> None:
    """`requires_grad` toggled between calls."""
    dj.manual_seed(0)
    model = Perceptron()
    x, targets = batch_of(model)
    compiled = dj.compile(loss_of, backend="numpy")
    for frozen in (False, True, False):
        model.layers[0].weight.requires_grad_(not frozen)
        model.zero_grad()
        compiled(model, x, targets).backward()
        assert frozen == (model.layers[0].weight.grad is None)
        assert model.head.weight.grad is not None


def cubic(x: Any, y: Any) -> Any:
    return (x * x * x * y).sum()


@pytest.mark.parametrize("backend", ["native", "numpy", "eager"])
def test_double_backward(backend: str) -> None:
    """Gradients of gradients through a compiled function."""
    compiled = dj.compile(cubic, backend=backend)
    x = dj.tensor([1.0, -2.0, 3.0], requires_grad=True)
    y = dj.tensor([0.5, 1.5, -1.0], requires_grad=True)
    (first,) = dj.autograd.grad(compiled(x, y), [x], create_graph=True)
    np.testing.assert_allclose(first.detach().numpy(), (3 * x * x * y).detach().numpy(), rtol=1e-6)
    second = dj.autograd.grad(first.sum(), [x, y])

    np.testing.assert_allclose(second[0].numpy(), (6 * x * y).detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(second[1].numpy(), (3 * x * x).detach().numpy(), rtol=1e-6)


def test_gradient_penalty_in_training() -> None:
    """A loss that contains a gradient of a compiled function."""
    results = []
    for call in (cubic, dj.compile(cubic, backend="numpy")):
        x = dj.tensor([1.0, -2.0], requires_grad=True)
        y = dj.tensor([0.5, 1.5], requires_grad=True)
        value = call(x, y)
        (gradient,) = dj.autograd.grad(value, [x], create_graph=True)
        (value + (gradient * gradient).sum()).backward()
        results.append((x.grad.tolist(), y.grad.tolist()))

    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)


# -- hooks -----------------------------------------------------------------------------------------


def test_a_forward_hook_added_after_the_first_call_runs() -> None:
    """And stops running once it is removed."""
    model = Perceptron()
    compiled = dj.compile(model, backend="numpy")
    x, _ = batch_of(model)
    before = compiled(x).tolist()
    seen = []

    def double(module: Any, args: Any, result: Any) -> Any:
        seen.append(type(module).__name__)
        return result * 2

    handle = model.head.register_forward_hook(double)
    doubled = compiled(x).tolist()
    handle.remove()

    assert ["Linear"] == seen
    np.testing.assert_allclose(doubled, np.array(before) * 2, rtol=1e-6)
    assert before == compiled(x).tolist()
    assert ["Linear"] == seen


def test_a_pre_hook_changes_the_arguments() -> None:
    """As without compiling."""
    model = nn.Linear(3, 2)
    compiled = dj.compile(model, backend="numpy")
    x = dj.ones(4, 3)
    compiled(x)
    with_hook = model.register_forward_pre_hook(lambda module, args: (args[0] * 3,))
    expected = model(x).tolist()
    actual = compiled(x).tolist()
    with_hook.remove()

    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_tensor_hooks_on_arguments_and_results() -> None:
    """They see and change the gradients."""
    results = []
    for call in (cubic, dj.compile(cubic, backend="numpy")):
        x = dj.tensor([1.0, -2.0], requires_grad=True)
        y = dj.tensor([0.5, 1.5], requires_grad=True)
        seen: list[Any] = []
        x.register_hook(lambda grad: grad * 10)
        out = call(x, y)
        out.register_hook(lambda grad, seen=seen: seen.append(grad.item()))
        (out * 2).backward()
        results.append((x.grad.tolist(), y.grad.tolist(), seen))

    assert results[0] == results[1]


def test_full_backward_hook_of_a_module() -> None:
    """Registered before the first call."""
    results = []
    for wrap in (lambda m: m, functools.partial(dj.compile, backend="numpy")):
        dj.manual_seed(0)
        model = nn.Linear(3, 2)
        seen: list[Any] = []
        model.register_full_backward_hook(
            lambda module, given, got, seen=seen: seen.append(got[0].tolist())
        )
        wrap(model)(dj.ones(4, 3, requires_grad=True)).sum().backward()
        results.append((seen, model.weight.grad.tolist()))

    assert 1 == len(results[0][0])
    assert results[0] == results[1]


# -- rules of backward -----------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["native", "numpy", "eager"])
def test_backward_twice(backend: str) -> None:
    """An error as in eager, and allowed with retain_graph."""
    compiled = dj.compile(cubic, backend=backend)
    messages = []
    for call in (cubic, compiled):
        x = dj.tensor([1.0, -2.0], requires_grad=True)
        y = dj.tensor([0.5, 1.5])
        out = call(x, y)
        out.backward(retain_graph=True)
        once = x.grad.tolist()
        out.backward()
        assert [2 * g for g in once] == x.grad.tolist()
        with pytest.raises(RuntimeError) as caught:
            out.backward()
        messages.append(str(caught.value))

    assert messages[0] == messages[1]
    assert "backward through the graph a second time" in messages[0]


@pytest.mark.parametrize("backend", ["native", "numpy", "eager"])
def test_in_place_write_to_a_saved_tensor(backend: str) -> None:
    """PyTorch's error for inputs."""
    compiled = dj.compile(cubic, backend=backend)
    x = dj.tensor([1.0, -2.0], requires_grad=True)
    y = dj.tensor([0.5, 1.5])
    out = compiled(x, y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


@pytest.mark.parametrize("backend", ["native", "numpy", "eager"])
@pytest.mark.parametrize("name", ["exp", "softmax", "sqrt"])
def test_in_place_write_to_a_result(name: str, backend: str) -> None:
    """PyTorch's error, or, where backward does not read the result, the right gradient."""
    function = {
        "exp": lambda a: a.exp(),
        "softmax": lambda a: (a @ a).softmax(-1),
        "sqrt": lambda a: (a @ a.exp()).sqrt(),
    }[name]
    start = [[1.0, 2.0], [0.5, 3.0]]
    leaf = dj.tensor(start, requires_grad=True)
    (function(leaf) * 2).sum().backward()
    x = dj.tensor(start, requires_grad=True)
    result = dj.compile(function, backend=backend)(x)
    result.mul_(2)
    try:
        result.sum().backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        np.testing.assert_allclose(x.grad.tolist(), leaf.grad.tolist(), rtol=1e-5)


def test_in_place_write_to_a_parameter_between_forward_and_backward() -> None:
    """What an optimizer step at the wrong place does."""
    model = Perceptron()
    x, targets = batch_of(model)
    loss = dj.compile(loss_of, backend="numpy")(model, x, targets)
    with dj.no_grad():
        model.head.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("size", [3, 4])
def test_the_error_names_the_shape_of_the_call_where_sizes_are_symbols(size: int) -> None:
    """The numbers that eager execution would print, not the graph's names for them."""

    def function(x: Any) -> tuple[Any, Any]:
        part = (x * 2)[1:]
        return part.sin(), part

    compiled = dj.compile(function, backend="numpy", dynamic=True)
    messages = []
    for call in (function, compiled):
        result, part = call(dj.ones(size, requires_grad=True))
        part.add_(1)
        with pytest.raises(AutogradError) as caught:
            result.sum().backward()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert f"[float32 [{size - 1}]]" in messages[0]


def test_gradients_accumulate() -> None:
    """Two backward calls add up; a used result gets the sum of its uses."""
    results = []
    for call in (cubic, dj.compile(cubic, backend="numpy")):
        x = dj.tensor([1.0, -2.0], requires_grad=True)
        out = call(x, x)
        (out * 2 + out).backward()
        call(x, x).backward()
        results.append(x.grad.tolist())

    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)


def test_results_without_gradient_in_between() -> None:
    """Integer and detached results do not require gradients; the rest does."""

    def several(x: Any) -> Any:
        return x * 2, x.argmax(), x.detach() + 1, (x > 0), x.sum()

    results = []
    for call in (several, dj.compile(several, fullgraph=True, backend="numpy")):
        x = dj.tensor([1.0, -2.0, 3.0], requires_grad=True)
        out = call(x)
        out[4].backward()
        results.append(([t.requires_grad for t in out], x.grad.tolist()))

    assert [True, False, False, False, True] == results[0][0]
    assert results[0] == results[1]


def test_no_grad_inside_the_function() -> None:
    """What is computed under no_grad has no history; the mode is restored."""

    def partly(x: Any) -> Any:
        with dj.no_grad():
            scale = (x * x).sum()
        return (x * scale).sum()

    results = []
    for call in (partly, dj.compile(partly, fullgraph=True, backend="numpy")):
        x = dj.tensor([1.0, -2.0, 3.0], requires_grad=True)
        call(x).backward()
        results.append(x.grad.tolist())
        assert dj.is_grad_enabled()

    assert [14.0, 14.0, 14.0] == results[0]
    assert results[0] == results[1]


def break_in_no_grad(x: Any) -> Any:
    y = x * 2
    with dj.no_grad():
        print(end="")
        y = y + 1
    return x - y, y


def view_before_break_in_no_grad(x: Any) -> Any:
    view = x[1:]
    with dj.no_grad():
        print(end="")
    return view * 2, view


def view_after_break_in_no_grad(x: Any) -> Any:
    with dj.no_grad():
        print(end="")
        inner = x[1:]
    return x[:1], inner


def enabled_below_no_grad(x: Any) -> Any:
    with dj.no_grad():
        a = x * 2
        with dj.enable_grad():
            b, view = x * 3, x[1:]
            print(end="")
            c = x * 4
        d = x * 5
    return a, b, view, c, d


def mode_set_by_call(x: Any) -> Any:
    dj.set_grad_enabled(False)
    a = x * 2
    print(end="")
    dj.set_grad_enabled(True)
    return a, x * 3, x[1:]


class RunningMean(nn.Module):
    """A buffer updated in place under no_grad, as batch normalisation does: graph breaks."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("mean", dj.zeros(4))

    def forward(self, x: Any) -> Any:
        y = self.layer(x)
        mean = y.mean(dim=0)
        with dj.no_grad():
            self.mean.mul_(0.9).add_(0.1 * mean)
        return y - 0.5 * mean


def test_a_buffer_updated_in_place(same: Any) -> None:
    """Outputs, gradients and the buffer, over several calls."""
    x = dj.tensor(np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32))
    results = []
    for wrap in (lambda m: m, functools.partial(dj.compile, backend="numpy")):
        dj.manual_seed(0)
        model = RunningMean()
        call = wrap(model)
        outputs = [call(x * step) for step in (1, 2, 3)]
        sum(output.pow(2).sum() for output in outputs).backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        results.append((outputs, gradients, model.mean))

    same(results[0], results[1], exact=False)


@pytest.mark.parametrize("backend", ["native", "numpy", "eager"])
@pytest.mark.parametrize(
    "function",
    [
        break_in_no_grad,
        view_before_break_in_no_grad,
        view_after_break_in_no_grad,
        enabled_below_no_grad,
        mode_set_by_call,
    ],
)
@pytest.mark.parametrize("mode", [True, False])
def test_grad_mode_across_breaks(same: Any, function: Any, backend: str, mode: bool) -> None:
    """What has a history is decided where it is computed, not where its region starts."""
    results = []
    for call in (function, dj.compile(function, backend=backend)):
        x = dj.tensor([1.0, -2.0, 3.0], requires_grad=True)
        with dj.set_grad_enabled(mode):
            out = call(x)
        for part in out:
            if part.requires_grad:
                part.sum().backward()
        results.append((out, x.grad))

    same(results[0], results[1])


# -- what compile returns --------------------------------------------------------------------------


def test_a_compiled_module_is_the_module() -> None:
    """Class, parameters, state-dict keys; attributes set on either's children are shared."""
    model = Perceptron()
    compiled = dj.compile(model)

    assert type(model) is type(compiled)
    assert isinstance(compiled, Perceptron)
    assert list(model.state_dict()) == list(compiled.state_dict())
    for left, right in zip(model.parameters(), compiled.parameters(), strict=True):
        assert left is right
    assert model.head is compiled.head


def test_a_compiled_module_is_copied_and_pickled() -> None:
    """The copy has parameters of its own and computes the same."""
    dj.manual_seed(0)
    compiled = dj.compile(Perceptron(), backend="numpy")
    x, _ = batch_of(compiled)
    expected = compiled(x).tolist()
    copied = copy.deepcopy(compiled)
    loaded = pickle.loads(pickle.dumps(compiled))
    with dj.no_grad():
        compiled.head.weight.zero_()

    np.testing.assert_allclose(copied(x).tolist(), expected, rtol=1e-6)
    np.testing.assert_allclose(loaded(x).tolist(), expected, rtol=1e-6)
    assert copied.head.weight is not compiled.head.weight
    assert type(loaded) is Perceptron


def test_compile_in_place() -> None:
    """`model.compile()` compiles the module's own call."""
    model = Perceptron()
    x, _ = batch_of(model)
    expected = model(x).tolist()
    assert None is model.compile(backend="numpy")

    np.testing.assert_allclose(model(x).tolist(), expected, rtol=1e-6)
    np.testing.assert_allclose(copy.deepcopy(model)(x).tolist(), expected, rtol=1e-6)


def test_replaced_parameters_and_children_are_seen() -> None:
    """Assigning a parameter or a sub-module between calls."""
    model = Perceptron()
    x, _ = batch_of(model)
    compiled = dj.compile(model, backend="numpy")
    compiled(x)
    model.head.weight = nn.Parameter(dj.ones(4, 16))
    np.testing.assert_allclose(compiled(x).tolist(), model(x).tolist(), rtol=1e-6)
    model.head = nn.Linear(16, 7)
    np.testing.assert_allclose(compiled(x).tolist(), model(x).tolist(), rtol=1e-6)
    model.layers.append(nn.Tanh())
    np.testing.assert_allclose(compiled(x).tolist(), model(x).tolist(), rtol=1e-6)


class Scaler:
    """An object with every kind of method."""

    factor = 3

    def __init__(self, offset: float) -> None:
        self.offset = offset

    def method(self, x: Any) -> Any:
        return x * self.factor + self.offset

    def __call__(self, x: Any) -> Any:
        return self.method(x) * 2

    @staticmethod
    @dj.compile(backend="numpy")
    def static(x: Any) -> Any:
        return x + 1

    @classmethod
    @dj.compile(backend="numpy")
    def of_class(cls, x: Any) -> Any:
        return x * cls.factor

    @dj.compile(backend="numpy")
    def decorated(self, x: Any, *, twice: bool = False) -> Any:
        """Docstring."""
        return self.method(x) * (2 if twice else 1)

    @dj.compile(backend="numpy")
    @staticmethod
    def around_static(x: Any) -> Any:
        return x - 1

    @dj.compile(backend="numpy")
    @classmethod
    def around_class(cls, x: Any) -> Any:
        return x - cls.factor


def test_everything_callable_is_compiled() -> None:
    """Methods, lambdas, partials, static and class methods, callable objects."""
    x = dj.tensor([1.0, 2.0])
    scaler = Scaler(0.5)
    compiled = functools.partial(dj.compile, backend="numpy")

    assert [3.5, 6.5] == compiled(scaler.method)(x).tolist()
    assert [7.0, 13.0] == compiled(scaler)(x).tolist()
    assert [2.0, 4.0] == compiled(lambda value: value * 2)(x).tolist()
    partial = functools.partial(lambda a, b, c=0: a * b + c, x, c=1)
    assert [3.0, 5.0] == compiled(partial)(2).tolist()
    for owner in (Scaler, scaler):
        assert [2.0, 3.0] == owner.static(x).tolist()
        assert [3.0, 6.0] == owner.of_class(x).tolist()
        assert [0.0, 1.0] == owner.around_static(x).tolist()
        assert [-2.0, -1.0] == owner.around_class(x).tolist()
    assert [3.5, 6.5] == scaler.decorated(x).tolist()
    assert [7.0, 13.0] == scaler.decorated(x, twice=True).tolist()
    assert "Docstring." == Scaler.decorated.__doc__
    assert "decorated" == Scaler.decorated.__name__


def test_signatures_defaults_and_keywords() -> None:
    """Positional-only, keyword-only, *args and **kwargs arrive as in a plain call."""

    def every_kind(a: Any, /, b: Any = 2, *rest: Any, c: Any = 3, **more: Any) -> Any:
        total = a * b + c
        for item in rest:
            total = total + item
        for key in sorted(more):
            total = total + more[key]
        return total, len(rest), sorted(more)

    compiled = dj.compile(every_kind, backend="numpy")
    x = dj.tensor([1.0, 2.0])
    for args, kwargs in (
        ((x,), {}),
        ((x, 5), {}),
        ((x, 5, 6, x), {}),
        ((x,), {"b": x, "c": 1.5}),
        ((x, 1, 2), {"z": 3, "y": x}),
    ):
        expected, actual = every_kind(*args, **kwargs), compiled(*args, **kwargs)
        assert expected[0].tolist() == actual[0].tolist()
        assert expected[1:] == actual[1:]


def test_a_custom_backend_gets_the_graph() -> None:
    """A callable (graph module, example inputs) -> callable over tensors."""
    seen = []

    def backend(module: Any, examples: Any) -> Any:
        seen.append((module.graph, examples))
        return lambda x, y: (x * 100 + y,)

    compiled = dj.compile(lambda x, y: x + y, backend=backend)
    result = compiled(dj.tensor([1.0, 2.0]), dj.tensor([3.0, 4.0]))

    assert [103.0, 204.0] == result.tolist()
    assert 1 == len(seen)
    assert ["add"] == [node.op.name for node in seen[0][0].calls]
    assert [(2,), (2,)] == [kind.shape for kind in seen[0][1]]


def test_compile_inside_compile() -> None:
    """A compiled function called from a compiled function is inlined or called, not broken."""
    inner = dj.compile(lambda x: x.exp() * 2, backend="numpy")
    outer = dj.compile(lambda x: inner(x) + inner(x + 1), backend="numpy")
    x = dj.tensor([0.5, 1.0], requires_grad=True)
    out = outer(x)
    out.sum().backward()

    np.testing.assert_allclose(out.tolist(), (x.exp() * 2 + (x + 1).exp() * 2).tolist(), rtol=1e-6)
    np.testing.assert_allclose(x.grad.tolist(), out.tolist(), rtol=1e-6)


def test_independent_results_of_one_graph_go_backward_one_after_the_other() -> None:
    """As in eager execution; results that need one saved value do so only once."""

    def independent(x: Any) -> Any:
        return x.exp().sum(), (x * x).sum()

    def saves_nothing_shared(x: Any) -> Any:
        y = x + 1
        return y.exp().sum(), (y * y).sum()

    def shared(x: Any) -> Any:
        y = x.exp()
        return y.sum(), (y * 2).sum()

    for function, works in ((independent, True), (saves_nothing_shared, True), (shared, False)):
        gradients = []
        for run in (function, dj.compile(function, fullgraph=True)):
            x = dj.tensor([0.5, -1.0], requires_grad=True)
            first, second = run(x)
            first.backward()
            if works:
                second.backward()
            else:
                with pytest.raises(dj.errors.AutogradError, match="second time"):
                    second.backward()
            with pytest.raises(dj.errors.AutogradError, match="second time"):
                first.backward()
            gradients.append(x.grad.tolist())
        assert gradients[0] == pytest.approx(gradients[1])


def test_backward_may_come_again_where_nothing_is_saved() -> None:
    """As in eager execution and PyTorch: what was saved for one result does not end another."""

    def function(x: Any, y: Any) -> Any:
        return (x + 1).sum(), x.exp().sum(), -y, x * 1

    gradients = []
    for run in (function, dj.compile(function, fullgraph=True)):
        x = dj.tensor([0.5, -1.0], requires_grad=True)
        y = dj.tensor([2.0, 3.0], requires_grad=True)
        plus, power, negative, same = run(x, y)
        for once in (power, same.sum()):
            once.backward()
            for _ in range(2):
                plus.backward()
                negative.sum().backward()
            with pytest.raises(dj.errors.AutogradError, match="second time"):
                once.backward()
        gradients.append((x.grad.tolist(), y.grad.tolist()))
    assert gradients[0] == gradients[1]


def test_a_break_between_a_write_and_its_old_value_keeps_results_independent() -> None:
    """What keeps a written tensor's old value is no operation of the program's."""
    layer = dj.nn.Linear(3, 2)

    def function(x: Any, y: Any) -> Any:
        old = y * x
        y[1:].add_(1)
        layer(x).sum().backward()
        clamped = old.clamp(-50, 50)
        return y, clamped

    gradients = []
    for run in (function, dj.compile(function)):
        leaf = dj.tensor([1.0, 2.0, -3.0], requires_grad=True)
        written, _ = run(dj.tensor([1.0, 2.0, 3.0]), leaf * 1)
        written.sum().backward()
        gradients.append(leaf.grad.tolist())
    assert gradients[0] == gradients[1]
