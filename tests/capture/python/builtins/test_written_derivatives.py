"""Functions with a derivative of their own are part of the graph, with eager execution's numbers.

Every program is written for any library with PyTorch's names: it runs eagerly, compiled on every
backend, and in PyTorch where that is installed.
"""

import types
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import AutogradError
from dynajit.ir.keys import graph_text

try:
    import torch
except ImportError:
    torch = None


def programs(t: Any) -> dict[str, Any]:
    """Name -> (function of tensors, their shapes, whether it is differentiated twice)."""
    F = t.autograd.Function
    out: dict[str, Any] = {}

    def case(name, *shapes, second=False):
        def enter(function):
            out[name] = types.SimpleNamespace(run=function, shapes=shapes, second=second)
            return function

        return enter

    class Exp(F):
        @staticmethod
        def forward(ctx, x):
            r = x.exp()
            ctx.save_for_backward(r)
            return r

        @staticmethod
        def backward(ctx, g):
            (r,) = ctx.saved_tensors
            return g * r

    @case("exp", (3, 4), second=True)
    def _(x):
        return (Exp.apply(x) * x).sum()

    class Cube(F):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x**2

    @case("cube", (3, 4), second=True)
    def _(x):
        return (Cube.apply(x) * x.sin()).sum()

    class GRL(F):
        @staticmethod
        def forward(ctx, x, alpha):
            ctx.alpha = alpha
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return g.neg() * ctx.alpha, None

    @case("grl", (3, 4))
    def _(x):
        return (GRL.apply(x * 2, 0.5) * x).sum()

    @case("grl_leaf", (3, 4))
    def _(x):
        return (GRL.apply(x, 0.5) * x).sum()

    @case("grl_result", (3, 4))
    def _(x):
        return GRL.apply(x, 0.5)

    class Same(F):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 3

    @case("same", (3, 4))
    def _(x):
        return Same.apply(x)

    class STE(F):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, g):
            return g

    @case("ste", (3, 4))
    def _(x):
        return (STE.apply(x * 3) * x).sum()

    class Two(F):
        @staticmethod
        def forward(ctx, x, y):
            a, b = x * y, x + y.sum()
            ctx.save_for_backward(x, y, a)
            return a, b

        @staticmethod
        def backward(ctx, ga, gb):
            x, y, a = ctx.saved_tensors
            return ga * y + gb, ga * x + gb.sum() + 0 * a

    @case("two", (3, 4), (3, 4), second=True)
    def _(x, y):
        a, b = Two.apply(x, y)
        return (a * b).sum()

    @case("two_first_only", (3, 4), (3, 4))
    def _(x, y):
        a, _ = Two.apply(x, y)
        return a.sum()

    class TwoSaved(F):
        @staticmethod
        def forward(ctx, x):
            a, b = x.exp(), x.sin()[:2]
            ctx.save_for_backward(x, a)
            return a, b

        @staticmethod
        def backward(ctx, ga, gb):
            x, a = ctx.saved_tensors
            g = ga * a
            return g + x.cos() * t.cat([gb, gb[:1] * 0])

    @case("two_saved", (3, 4), second=True)
    def _(x):
        a, b = TwoSaved.apply(x)
        return (a[:2] * b).sum() + (a * a).sum()

    @case("two_returned", (3, 4))
    def _(x):
        return TwoSaved.apply(x)

    class TopK(F):
        @staticmethod
        def forward(ctx, x):
            v, i = x.max(dim=1)
            ctx.save_for_backward(i)
            ctx.shape = x.shape
            ctx.mark_non_differentiable(i)
            return v, i

        @staticmethod
        def backward(ctx, g, gi):
            (i,) = ctx.saved_tensors
            z = t.zeros(ctx.shape, dtype=g.dtype)
            return z.scatter(1, i[:, None], g[:, None])

    @case("topk", (3, 4))
    def _(x):
        v, i = TopK.apply(x)
        return v * i

    class Setup(F):
        @staticmethod
        def forward(x, w):
            return x @ w

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            gx = gw = None
            if ctx.needs_input_grad[0]:
                gx = g @ w.t()
            if ctx.needs_input_grad[1]:
                gw = x.t() @ g
            return gx, gw

    @case("setup", (3, 4), (4, 5), second=True)
    def _(x, w):
        return (Setup.apply(x, w) ** 2).sum()

    @case("setup_one", (3, 4), (4, 5))
    def _(x, w):
        return (Setup.apply(x, w.detach()) ** 2).sum()

    class Linear(F):
        @staticmethod
        def forward(ctx, input, weight, bias=None):
            ctx.save_for_backward(input, weight, bias)
            output = input.mm(weight.t())
            if bias is not None:
                output += bias.unsqueeze(0).expand_as(output)
            return output

        @staticmethod
        def backward(ctx, grad_output):
            input, weight, bias = ctx.saved_tensors
            grad_input = grad_weight = grad_bias = None
            if ctx.needs_input_grad[0]:
                grad_input = grad_output.mm(weight)
            if ctx.needs_input_grad[1]:
                grad_weight = grad_output.t().mm(input)
            if bias is not None and ctx.needs_input_grad[2]:
                grad_bias = grad_output.sum(0)
            return grad_input, grad_weight, grad_bias

    @case("linear", (3, 4), (5, 4), (5,), second=True)
    def _(x, w, b):
        return Linear.apply(x, w, b).tanh()

    class Once(F):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        @t.autograd.function.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x.cos()

    @case("once", (3, 4), second=True)
    def _(x):
        return (Once.apply(x) * x).sum()

    class NoGrad(F):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with t.no_grad():
                c = x.cos()
            return g * c

    @case("nograd_inside", (3, 4), second=True)
    def _(x):
        return (NoGrad.apply(x) * x).sum()

    class Nested(F):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**4

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 4 * Cube.apply(x)

    @case("nested", (3, 4), second=True)
    def _(x):
        return (Nested.apply(x)).sum()

    class Broad(F):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y, g * x

    @case("broadcast", (3, 4), (4,))
    def _(x, y):
        return Broad.apply(x, y)

    class NoneGrad(F):
        @staticmethod
        def forward(ctx, x, y):
            return x * 1 + y

        @staticmethod
        def backward(ctx, g):
            return g, None

    @case("none_grad", (3, 4), (3, 4))
    def _(x, y):
        return NoneGrad.apply(x, y)

    @case("none_grad_only", (3, 4))
    def _(y):
        return NoneGrad.apply(y.detach(), y)

    class Heaviside(F):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(x)
            ctx.scale = scale
            return (x > 0).to(x.dtype)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g / (ctx.scale * x.abs() + 1.0) ** 2, None

    @case("spike", (3, 4))
    def _(x):
        mem = x * 0
        s = 0
        for _ in range(3):
            mem = mem * 0.9 + x
            spk = Heaviside.apply(mem - 0.3, 25.0)
            mem = mem - spk
            s = s + spk
        return s * x

    class Mod(F):
        count = 0

        @staticmethod
        def forward(ctx, x):
            Mod.count += 1
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    @case("writes_class", (3,))
    def _(x):
        return Mod.apply(x) * Mod.count * 0 + x

    class Dirty(F):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    @case("dirty", (3,))
    def _(x):
        return Dirty.apply(x * 1).sin()

    class Leaky(F):
        @staticmethod
        def forward(ctx, x):
            m = x > 0
            y = t.where(m, x, x * 0.1)
            ctx.m = m
            return y

        @staticmethod
        def backward(ctx, g):
            return t.where(ctx.m, g, g * 0.1)

    @case("leaky_inplace_after", (3, 4))
    def _(x):
        y = Leaky.apply(x)
        y += 1
        return y * y

    @case("input_changed_after", (3, 4))
    def _(x):
        h = x * 2
        y = Leaky.apply(h)
        h.add_(1)
        return y * h

    class Sparse(F):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            r = 0
            if a is not None:
                r = r + a * 2
            if b is not None:
                r = r + b * 3
            return r

    @case("unmaterialized", (3,))
    def _(x):
        return Sparse.apply(x)[0]

    class Transposed(F):
        @staticmethod
        def forward(ctx, x):
            return (x * 2).t()

        @staticmethod
        def backward(ctx, g):
            return g.t() * 2

    @case("transposed", (3, 4))
    def _(x):
        return Transposed.apply(x)

    class Rand(F):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 + 0 * t.rand(3)

    @case("rand_backward", (3,))
    def _(x):
        return Rand.apply(x)

    class Raises(F):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise ValueError("mine")

    @case("raises", (3,))
    def _(x):
        return Raises.apply(x)

    class Wrong(F):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g, g

    @case("wrong_number", (3,))
    def _(x):
        return Wrong.apply(x)

    class WrongShape(F):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g[:2]

    @case("wrong_shape", (3,))
    def _(x):
        return WrongShape.apply(x)

    class ContView(F):
        @staticmethod
        def forward(ctx, x):
            ctx.shape = x.shape
            return x.reshape(-1) * 2

        @staticmethod
        def backward(ctx, g):
            g = g.contiguous()
            return g.view(ctx.shape) * 2

    @case("contiguous_view", (3, 4))
    def _(x):
        return ContView.apply(x)

    return out


NAMES = [name for name in programs(dj) if name != "once"]

#: Programs that break the graph, and a part of the reason.
BREAKING = {
    "writes_class": "Mod.count",
    "dirty": "forward writes to its arguments",
    "same": "shares memory",
    "grl_result": "shares memory",
    "unmaterialized": "may be None",
    "rand_backward": "draws random numbers",
    "raises": "backward raises an error",
    "wrong_number": "the wrong number of gradients",
    "wrong_shape": "a gradient does not fit",
}


def leaves(t: Any, shapes: Any) -> list[Any]:
    random = np.random.default_rng(0)
    return [t.tensor(random.standard_normal(shape), requires_grad=True) for shape in shapes]


def outcome(t: Any, program: Any, run: Any) -> list[Any]:
    """Results, gradients and second derivatives as arrays; an error as its class's kind."""
    inputs, found = leaves(t, program.shapes), []
    try:
        result = run(*inputs)
        results = result if isinstance(result, tuple) else (result,)
        found += [x.detach().numpy() for x in results]
        found.append([x.requires_grad for x in results])
        found += derivatives(t, results, inputs, program.second)
    except RuntimeError:
        found.append("refused")
    except ValueError as error:
        found.append(str(error))
    return found


def derivatives(t: Any, results: Any, inputs: Any, second: bool) -> list[Any]:
    loss = 0.0
    for number, x in enumerate(results):
        if x.requires_grad:
            factors = np.random.default_rng(5 + number).standard_normal(tuple(x.shape))
            loss = loss + (x * t.tensor(factors)).sum()
    grads = t.autograd.grad(loss, inputs, create_graph=second, allow_unused=True)
    found = [None if g is None else g.detach().numpy() for g in grads]
    if second:
        total = sum((g * g.cos()).sum() for g in grads if g is not None)
        grads = t.autograd.grad(total, inputs, allow_unused=True)
        found += [None if g is None else g.detach().numpy() for g in grads]
    return found


def assert_same(expected: list[Any], actual: list[Any]) -> None:
    assert len(expected) == len(actual), (expected, actual)
    for a, b in zip(expected, actual, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)
        else:
            assert a == b


@pytest.mark.parametrize("name", NAMES)
def test_eager_execution_agrees_with_pytorch(name: str) -> None:
    if torch is None:
        pytest.skip("PyTorch is not installed")
    theirs, ours = programs(torch)[name], programs(dj)[name]
    assert_same(outcome(torch, theirs, theirs.run), outcome(dj, ours, ours.run))


@pytest.mark.parametrize("backend", ["native", "numpy", "eager"])
@pytest.mark.parametrize("name", NAMES)
def test_compiled_programs_give_what_eager_ones_give(name: str, backend: str) -> None:
    plain, captured = programs(dj)[name], programs(dj)[name]
    compiled = dj.compile(captured.run, backend=backend)
    expected = outcome(dj, plain, plain.run)
    assert_same(expected, outcome(dj, captured, compiled))
    assert_same(expected, outcome(dj, captured, compiled))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BREAKING])
def test_a_function_is_part_of_one_graph(name: str) -> None:
    program = programs(dj)[name]
    report = dj.explain(program.run)(*leaves(dj, program.shapes))
    assert (len(report.graphs), len(report.breaks)) == (1, 0)


@pytest.mark.parametrize("name", BREAKING)
def test_what_cannot_be_captured_breaks_at_the_call(name: str) -> None:
    program = programs(dj)[name]
    report = dj.explain(program.run)(*leaves(dj, program.shapes))
    assert BREAKING[name] in str(report.breaks[0])


def test_a_second_derivative_of_what_has_one_only_is_an_error() -> None:
    compiled = dj.compile(programs(dj)["once"].run)
    (x,) = leaves(dj, [(3, 4)])
    (first,) = dj.autograd.grad(compiled(x), x, create_graph=True)
    np.testing.assert_allclose(first.detach(), (x * x.cos() + x.sin()).detach(), rtol=1e-12)
    with pytest.raises(AutogradError, match="once_differentiable"):
        first.sum().backward()


def test_a_saved_argument_must_stay_as_it_was() -> None:
    program = programs(dj)["setup"]
    base, w = leaves(dj, program.shapes)
    x = base * 2
    y = dj.compile(program.run)(x, w)
    x.add_(1)
    with pytest.raises(AutogradError, match="saved by SetupBackward"):
        y.backward()


def test_an_argument_that_backward_does_not_read_may_be_overwritten() -> None:
    class Rounded(dj.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, g):
            return g

    base = dj.full((3,), 1.3, requires_grad=True)
    x = base * 2
    y = dj.compile(lambda x: Rounded.apply(x))(x)
    x.add_(1)
    y.sum().backward()
    np.testing.assert_array_equal(base.grad, np.full(3, 2, np.float32))


def reversal(t: Any) -> Any:
    class Reversed(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return -g

    return Reversed


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_view_that_forward_gives_sees_later_writes(is_compiled: bool) -> None:
    reverse = reversal(dj)

    def write(x: Any) -> Any:
        y = reverse.apply(x)
        x.add_(1)
        return y * x

    x = dj.ones(3, requires_grad=True) * 2
    found = (dj.compile(write) if is_compiled else write)(x)
    np.testing.assert_array_equal(found.detach(), np.full(3, 9, np.float32))


def test_a_view_that_leaves_the_region_shares_memory() -> None:
    reverse = reversal(dj)
    x = dj.ones(3, requires_grad=True) * 2
    y = dj.compile(lambda x: reverse.apply(x))(x)
    assert y.data_ptr() == x.data_ptr()


def test_a_reversed_gradient_within_a_network_needs_no_break() -> None:
    reverse, first, second = reversal(dj), dj.nn.Linear(4, 5), dj.nn.Linear(5, 2)

    def network(x: Any) -> Any:
        features = first(x).relu()
        return second(features).sum() + second(reverse.apply(features)).square().sum()

    x = dj.randn(3, 4)
    network(x).backward()
    expected = [p.grad.clone() for p in (*first.parameters(), *second.parameters())]
    first.zero_grad(), second.zero_grad()
    dj.compile(network, fullgraph=True)(x).backward()
    for p, g in zip((*first.parameters(), *second.parameters()), expected, strict=True):
        np.testing.assert_allclose(p.grad, g, rtol=2e-5, atol=1e-6)


def test_sizes_and_numbers_may_vary() -> None:
    class Scaled(dj.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.save_for_backward(x)
            ctx.k = k
            return x.flatten(1) * k

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return (g * ctx.k).reshape(x.shape), None

    compiled = dj.compile(lambda x, k: Scaled.apply(x * 2, k).sum(0))
    counts = []
    for rows, k in ((3, 0.5), (4, 0.5), (5, 0.7), (6, 1.5)):
        x = dj.ones(rows, 2, 3, requires_grad=True)
        y = compiled(x, k)
        y.sum().backward()
        np.testing.assert_allclose(y.detach(), np.full(6, 2 * k * rows), rtol=1e-6)
        np.testing.assert_allclose(x.grad, np.full((rows, 2, 3), 2 * k), rtol=1e-6)
        counts.append(len(compiled.entries()))
    assert counts == [1, 2, 2, 2]


def test_nothing_is_recorded_without_gradients() -> None:
    compiled = dj.compile(programs(dj)["exp"].run)
    assert not compiled(dj.ones(3, 4)).requires_grad
    with dj.no_grad():
        assert not compiled(dj.ones(3, 4, requires_grad=True)).requires_grad


def test_a_context_that_is_kept_is_the_real_one() -> None:
    kept = []

    class Kept(dj.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            kept.append(ctx)
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    dj.compile(lambda x: Kept.apply(x))(dj.ones(3, requires_grad=True))
    (x,) = kept[0].saved_tensors
    np.testing.assert_array_equal(x.detach(), np.ones(3))


def test_what_backward_prints_is_printed_when_it_runs(capsys: Any) -> None:
    class Talking(dj.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            print("backward")
            return g * 2

    y = dj.compile(lambda x: Talking.apply(x).sum())(dj.ones(3, requires_grad=True))
    assert capsys.readouterr().out == ""
    y.backward()
    assert capsys.readouterr().out == "backward\n"


def test_a_function_under_autocast_is_left_to_eager_execution() -> None:
    program = programs(dj)["setup"]
    x, w = (leaf.detach().float().requires_grad_() for leaf in leaves(dj, program.shapes))
    with dj.autocast("cpu", dtype=dj.bfloat16):
        plain = program.run(x, w)
        report = dj.explain(program.run)(x, w)
        compiled = dj.compile(program.run)(x, w)
    assert "under autocast" in str(report.breaks[0])
    np.testing.assert_array_equal(compiled.detach(), plain.detach())


def test_the_derivative_is_printed_and_runs() -> None:
    program = programs(dj)["two_saved"]
    (x,) = leaves(dj, program.shapes)
    (graph,) = dj.explain(program.run)(x).graphs
    text = str(graph)
    assert "def with_derivative_of_result_backward(" in text
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    (found,) = namespace[graph.name.replace(".", "_").replace("<", "_").replace(">", "_")](x)
    expected = program.run(x)
    np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-12)
    (ours,), (theirs,) = (dj.autograd.grad(y, x) for y in (found, expected))
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_graphs_with_other_derivatives_have_other_keys() -> None:
    def graph_with(factor: float) -> Any:
        class Scaled(dj.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * factor

        (graph,) = dj.explain(lambda x: Scaled.apply(x))(dj.ones(3, requires_grad=True)).graphs
        return graph_text(graph)

    assert graph_with(2.0) == graph_with(2.0)
    assert graph_with(2.0) != graph_with(3.0)


class _HandsOn(dj.autograd.Function):
    @staticmethod
    def forward(ctx, box):
        return box[0], box[1] * 2.0

    @staticmethod
    def backward(ctx, *gradients):
        return None


class _Same(dj.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def _handed_on(x):
    given, doubled = _HandsOn.apply((x, x * 1.0))
    return given + doubled, given is x, x.requires_grad


def _given_back(x):
    with dj.no_grad():
        y = _Same.apply(x)
    return y * 2.0, y is x, y.requires_grad


@pytest.mark.parametrize("function", [_handed_on, _given_back])
def test_outputs_without_history_are_those_of_eager_execution(function) -> None:
    """A tensor that forward hands on is detached by eager execution; an input has an alias."""
    plain, compiled = function(dj.ones(2, requires_grad=True)), dj.compile(function)
    for _ in range(2):
        found = compiled(dj.ones(2, requires_grad=True))
        assert (plain[0].tolist(), plain[0].requires_grad) == (
            found[0].tolist(),
            found[0].requires_grad,
        )
        assert plain[1:] == found[1:]


def test_a_backward_that_writes_to_what_existed_before_runs_eagerly() -> None:
    """Also where no operation has used it before."""
    count = dj.zeros(3)

    class Counts(dj.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            count.add_(1)
            return g * 2

    compiled = dj.compile(lambda x: Counts.apply(x).sum())
    for expected in (1.0, 2.0):
        compiled(dj.ones(3, requires_grad=True)).backward()
        assert [expected] * 3 == count.tolist()
