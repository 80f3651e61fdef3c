"""Operators that programs define, in compiled functions: one graph, and eager's numbers."""

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

_numbers = itertools.count()


def operator(
    kernel: Callable[..., Any],
    fake: Callable[..., Any] | None = None,
    backward: Callable[..., Any] | None = None,
    setup_context: Callable[..., Any] | None = None,
    schema: str = "(Tensor x) -> Tensor",
    mutates_args: Any = (),
) -> Any:
    """An operator with a name of its own."""
    op = dj.library.custom_op(
        f"tests_of_graphs::op{next(_numbers)}", kernel, schema=schema, mutates_args=mutates_args
    )
    if fake is not None:
        op.register_fake(fake)
    if backward is not None:
        op.register_autograd(backward, setup_context=setup_context)
    return op


def numpy_sine(calls: list[Any] | None = None) -> Any:
    """sin, by NumPy, with fake and derivative."""

    def kernel(x: Any) -> Any:
        if calls is not None:
            calls.append(x)
        return dj.from_numpy(np.sin(x.numpy()))

    return operator(
        kernel,
        lambda x: dj.empty_like(x),
        lambda ctx, g: g * ctx.saved_tensors[0].cos(),
        lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )


def data(*shape: int) -> Any:
    return dj.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def leaf(*shape: int) -> Any:
    return data(*shape).requires_grad_()


def test_an_operator_with_a_fake_is_part_of_the_graph() -> None:
    calls: list[Any] = []
    sin = numpy_sine(calls)

    def function(x: Any) -> Any:
        return (sin(x * 2) + 1).sum()

    found = dj.explain(function)(data(3))
    assert (1, 0) == (len(found.graphs), len(found.breaks))
    compiled = dj.compile(function, fullgraph=True)
    calls.clear()
    for _ in range(3):
        x = data(3)
        dj.testing.assert_close(compiled(x), function(x))
    assert 6 == len(calls)
    assert "1 versions" in str(compiled.report())


@pytest.mark.parametrize("path", ["packet", "overload"])
def test_operators_are_found_in_ops(path: str) -> None:
    op = dj.library.custom_op(
        f"found_{path}::f", lambda x: x + 1, schema="(Tensor x) -> Tensor", mutates_args=()
    )
    op.register_fake(lambda x: dj.empty_like(x))

    def packet(x: Any) -> Any:
        return dj.ops.found_packet.f(x) * 2

    def overload(x: Any) -> Any:
        return dj.ops.found_overload.f.default(x) * 2

    function = {"packet": packet, "overload": overload}[path]
    assert function(data(2)).tolist() == dj.compile(function, fullgraph=True)(data(2)).tolist()


def test_functions_of_aten_are_nodes() -> None:
    def function(x: Any) -> Any:
        return dj.ops.aten.mm.default(x, x) + dj.ops.aten.mul.Tensor(x, x)

    x = data(3, 3)
    dj.testing.assert_close(dj.compile(function, fullgraph=True)(x), function(x))


@pytest.mark.parametrize("backend", ["native", "numpy", "eager"])
def test_gradients_are_eagers_first_and_second(backend: str) -> None:
    sin = numpy_sine()

    def function(x: Any, y: Any) -> Any:
        return (sin(x * y) * x).sum()

    found = []
    for f in (function, dj.compile(function, fullgraph=True, backend=backend)):
        x, y = leaf(3, 2), leaf(2)
        first = dj.autograd.grad(f(x, y), (x, y))
        (again,) = dj.autograd.grad(f(x, y), x, create_graph=True)
        second = dj.autograd.grad(again.sum(), (x, y))
        found.append([*first, *second])
    dj.testing.assert_close(found[1], found[0])


def test_gradcheck_of_a_compiled_function() -> None:
    sin = numpy_sine()
    x = dj.tensor([0.5, -1.0, 2.0], dtype=dj.float64, requires_grad=True)

    assert dj.autograd.gradcheck(dj.compile(lambda x: sin(x) * x, fullgraph=True), (x,))


def several() -> Any:
    """Results of four dtypes, lists among arguments and results."""

    def kernel(x: Any, ws: Any, n: Any) -> Any:
        return x * n + ws[0], x.argmax(-1), [x.double() * ws[1], ws[0] + 1], x > 0

    def fake(x: Any, ws: Any, n: Any) -> Any:
        positions = x.new_empty(x.shape[:-1], dtype=dj.int64)
        lists = [dj.empty_like(x, dtype=dj.float64), dj.empty_like(ws[0])]
        return dj.empty_like(x), positions, lists, dj.empty_like(x, dtype=dj.bool)

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, ws, ctx.n = inputs
        assert isinstance(x, dj.Tensor)
        ctx.save_for_backward(x, ws[1], output[1], output[0])

    def backward(ctx: Any, g: Any, _: Any, gs: Any, __: Any) -> Any:
        x, w, positions, result = ctx.saved_tensors
        gx = g * ctx.n + gs[0].float() * w + 0.1 * positions.sum() + 0.1 * result
        return gx, [g + gs[1], (gs[0] * x).float()], None

    return operator(
        kernel,
        fake,
        backward,
        setup_context,
        "(Tensor x, Tensor[] ws, int n) -> (Tensor, Tensor, Tensor[], Tensor)",
    )


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"backend": "numpy"}])
def test_several_results_of_several_dtypes(options: Any) -> None:
    op = several()

    def function(x: Any, a: Any, b: Any) -> Any:
        o, i, (p, q), m = op(x * 1.5, [a, b], 3)
        loss = (o * 2).sum() + p.sum().float() * 2 + (q * q).sum() + (x * m).sum()
        return loss, o, i, p, q, m

    compiled = dj.compile(function, fullgraph=True, **options)
    for n in (5, 7, 5):
        found = []
        for f in (function, compiled):
            inputs = [leaf(4, n) for _ in range(3)]
            results = f(*inputs)
            results[0].backward()
            found.append([*(r.detach() for r in results), *(x.grad for x in inputs)])
        dj.testing.assert_close(found[1], found[0])
    if "dynamic" in options:
        assert "1 versions" in str(compiled.report())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64"])
def test_gradients_in_every_dtype(dtype: str) -> None:
    pair = operator(
        lambda x: (x.clone(), x.abs() * 3),
        lambda x: (dj.empty_like(x), x.abs()),
        lambda ctx, a, b: a * 2 + b.to(a.dtype),
        None,
        "(Tensor x) -> (Tensor, Tensor)",
    )

    def function(x: Any) -> Any:
        p, q = pair(x * 2)
        return (p.abs() * q).sum()

    found = []
    for f in (function, dj.compile(function, fullgraph=True)):
        x = dj.tensor([[1.0, 2, 3]]).to(getattr(dj, dtype)).requires_grad_()
        f(x).backward()
        found.append(x.grad)
    dj.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_kernels_get_row_major_arrays(dtype: str, shape: Any) -> None:
    strides = []

    def kernel(x: Any) -> Any:
        strides.append(x.is_contiguous())
        return x.clone()

    op = operator(kernel, lambda x: dj.empty_like(x))
    x = dj.ones(shape, dtype=getattr(dj, dtype))

    def function(x: Any) -> Any:
        return op(x.mT if x.ndim else x)

    assert function(x).tolist() == dj.compile(function, fullgraph=True)(x).tolist()
    assert strides[-1]


def test_equal_calls_are_two_calls() -> None:
    """A kernel may draw random numbers."""
    calls = [0]

    def kernel(x: Any) -> Any:
        calls[0] += 1
        return x + calls[0]

    op = operator(kernel, lambda x: dj.empty_like(x))
    result = dj.compile(lambda x: op(x) * 10 + op(x), fullgraph=True)(dj.zeros(1))
    assert ([12.0], [2]) == (result.tolist(), calls)


@pytest.mark.parametrize("is_fused", [False, True])
def test_calls_on_constants_are_not_made_ahead(is_fused: bool) -> None:
    """What a kernel gives may differ in every call."""
    calls = [0]

    def kernel(x: Any, y: Any) -> Any:
        calls[0] += 1
        return x + y + calls[0]

    op = operator(kernel, lambda x, y: dj.empty_like(x), schema="(Tensor x, Tensor y) -> Tensor")
    if is_fused:
        op.register_expression("x + y")
    for backend in ("native", "numpy"):
        compiled = dj.compile(
            lambda x: op(dj.tensor([1.0, 2.0]), dj.ones(2)) + x, fullgraph=True, backend=backend
        )
        calls[0] = 0
        found = [compiled(dj.zeros(2)).tolist() for _ in range(2)]
        if is_fused and backend == "native":
            assert ([[2.0, 3.0]] * 2, [0]) == (found, calls)
        else:
            assert [[3.0, 4.0], [4.0, 5.0]] == found


def test_sizes_may_be_arguments() -> None:
    op = operator(
        lambda x, n: dj.ones(n) * x.sum(),
        lambda x, n: x.new_empty(n),
        schema="(Tensor x, SymInt n) -> Tensor",
    )

    def function(x: Any) -> Any:
        return op(x, x.shape[0] * 2) + 1

    compiled = dj.compile(function, fullgraph=True, dynamic=True)
    for n in (2, 3, 4):
        assert function(dj.ones(n)).tolist() == compiled(dj.ones(n)).tolist()
    assert "1 versions" in str(compiled.report())


def test_numbers_are_relied_on() -> None:
    op = operator(
        lambda x, k: x * k, lambda x, k: dj.empty_like(x), schema="(Tensor x, float k) -> Tensor"
    )
    compiled = dj.compile(lambda x, k: op(x, k) + 1, fullgraph=True)
    assert [3.0, 4.0, 3.0] == [compiled(dj.ones(1), k).item() for k in (2.0, 3.0, 2.0)]


def test_what_is_registered_later_counts() -> None:
    op = operator(lambda x: x + 1, lambda x: dj.empty_like(x), lambda ctx, g: g * 7)
    compiled = dj.compile(lambda x: op(x) * 2, fullgraph=True)
    for factor in (7, 9):
        op.register_autograd(lambda ctx, g, factor=factor: g * factor)
        x = leaf(2)
        compiled(x).sum().backward()
        assert [2.0 * factor] * 2 == x.grad.tolist()


def test_an_operator_within_a_derivative() -> None:
    """Its fake is asked there, too; its own derivative is the second one."""
    twice = operator(lambda x: x * 2, lambda x: dj.empty_like(x))
    op = operator(lambda x: x * x, lambda x: dj.empty_like(x), lambda ctx, g: twice(g))
    function = dj.compile(lambda x: op(x).sum(), fullgraph=True)
    x = leaf(3)
    function(x).backward()
    assert [2.0] * 3 == x.grad.tolist()
    (g,) = dj.autograd.grad((function(x) ** 2), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        g.sum().backward()
    twice.register_autograd(lambda ctx, g: g * 2)
    again = dj.compile(lambda x: op(x).sum(), fullgraph=True)
    second = []
    for f in (again, lambda x: op(x).sum()):
        (g,) = dj.autograd.grad((f(x) ** 2), x, create_graph=True)
        second.append(dj.autograd.grad(g.sum(), x)[0].tolist())
    assert second[0] == second[1]


def test_values_that_backward_does_not_need_may_be_written() -> None:
    """As in eager execution: only what setup_context saved is watched."""
    op = operator(
        lambda x, y: x * y,
        lambda x, y: dj.empty_like(x),
        lambda ctx, g: (g * ctx.saved_tensors[0], None),
        lambda ctx, inputs, output: ctx.save_for_backward(inputs[1]),
        "(Tensor x, Tensor y) -> Tensor",
    )
    for f in (op, dj.compile(lambda x, y: op(x, y), fullgraph=True)):
        x, y = leaf(3), dj.ones(3) * 3
        unsaved = x * 1
        result = f(unsaved, y)
        with dj.no_grad():
            unsaved.add_(1)
        result.sum().backward()
        assert [3.0] * 3 == x.grad.tolist()
        result = f(x, y)
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            result.sum().backward()


def passed(ctx: Any, g: Any) -> Any:
    """A derivative that is 1."""
    return g


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: operator(lambda x: x + 1), "no fake impl registered"),
        (lambda: operator(lambda x: x + 1, lambda x: dj.empty(int(x.sum())), passed), "int"),
        (lambda: operator(lambda x: x + 1, lambda x: x.numpy(), passed), "numpy"),
        (lambda: operator(lambda x: x + 1, lambda x: 3, passed), "Unable to cast"),
        (lambda: operator(lambda x: x + 1, lambda x: dj.empty_like(x)), "no derivative"),
        (
            lambda: operator(lambda x: x + 1, lambda x: x + 0, lambda ctx, g: g * float(g.sum())),
            "float",
        ),
        (lambda: operator(lambda x: x + 1, lambda x: x + 0, lambda ctx, g: None), "no gradient"),
    ],
)
def test_the_rest_is_a_graph_break_with_a_reason(make: Any, words: str) -> None:
    op = make()

    def function(x: Any) -> Any:
        return op(x * 2) * 2

    (found, *others) = dj.explain(function)(leaf(3)).breaks
    assert not others
    assert "custom_operator" == found.name
    assert words in found.reason
    dj.testing.assert_close(dj.compile(function)(leaf(3)), function(leaf(3)))


def test_without_gradients_no_derivative_is_needed() -> None:
    op = operator(lambda x: x + 1, lambda x: dj.empty_like(x))
    with dj.no_grad():
        assert [2.0] == dj.compile(lambda x: op(x), fullgraph=True)(dj.ones(1)).tolist()
    x = dj.ones(1, requires_grad=True)
    assert [2.0] == dj.compile(lambda x: op(x.detach()), fullgraph=True)(x).tolist()


def test_operators_without_tensors_run_for_real() -> None:
    """What they give may differ in every call."""
    calls = [0]

    def kernel(n: Any) -> Any:
        calls[0] += 1
        return dj.ones(n) * calls[0]

    op = operator(kernel, lambda n: dj.empty(n), schema="(int n) -> Tensor")
    compiled = dj.compile(lambda x: op(2) + x)
    assert [[1.0, 1.0], [2.0, 2.0]] == [compiled(dj.zeros(2)).tolist() for _ in range(2)]


def numpy_doubling() -> Any:
    """Doubles its argument, in place."""

    def kernel(x: Any) -> None:
        x.numpy()[...] *= 2

    return operator(kernel, schema="(Tensor(a!) x) -> ()", mutates_args=("x",))


def assert_captured(function: Callable[..., Any], *make: Callable[[], Any]) -> None:
    """One graph, without breaks: results and arguments are afterwards as in eager execution."""
    expected, arguments = [m() for m in make], [m() for m in make]
    result = function(*expected)
    compiled = dj.compile(function, fullgraph=True)
    for _ in range(2):
        arguments = [m() for m in make]
        assert_equal(compiled(*arguments), result)
        assert_equal(arguments, expected)
        written = [[x._version > 0 for x in given] for given in (arguments, expected)]
        assert written[0] == written[1]


def assert_equal(found: Any, expected: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for left, right in zip(found, expected, strict=True):
            assert_equal(left, right)
    elif isinstance(expected, dj.Tensor):
        assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())
    else:
        assert found == expected


def test_an_operator_that_writes_to_an_intermediate_is_part_of_the_graph() -> None:
    double = numpy_doubling()

    def function(x: Any) -> Any:
        y = x + 1
        return y * 3 if double(y) is None else x

    assert_captured(function, lambda: data(3))


def test_an_operator_that_writes_to_an_argument_is_part_of_the_graph() -> None:
    double = numpy_doubling()

    def function(x: Any) -> Any:
        y = x * 3
        double(x)
        double(x)
        return y + x

    assert_captured(function, lambda: data(3))


def test_an_operator_may_write_to_a_view() -> None:
    double = numpy_doubling()

    def function(x: Any) -> Any:
        double(x[1:, 0])
        double(x.t()[0])
        return x.amax()

    assert_captured(function, lambda: data(3, 2))


def test_an_operator_may_write_and_have_results() -> None:
    def kernel(x: Any, y: Any, n: int) -> Any:
        y.add_(x, alpha=n)
        return x + n, [y * 2, x.sum().long()]

    op = operator(
        kernel,
        lambda x, y, n: (dj.empty_like(x), [dj.empty_like(y), x.new_empty((), dtype=dj.int64)]),
        schema="(Tensor x, Tensor(a!) y, int n) -> (Tensor, Tensor[])",
        mutates_args=("y",),
    )

    def function(x: Any, y: Any) -> Any:
        first, (second, third) = op(x, y, 3)
        return first + second, third, y * 1

    assert_captured(function, lambda: data(4), lambda: dj.ones(4))


def test_an_operator_may_write_to_several_tensors_of_a_list_and_to_none() -> None:
    def kernel(xs: Any, y: Any, z: Any) -> None:
        for x in xs:
            x.add_(z)
        if y is not None:
            y.zero_()

    op = operator(
        kernel,
        schema="(Tensor(a!)[] xs, Tensor(b!)? y, Tensor z) -> ()",
        mutates_args=("xs", "y"),
    )

    def function(a: Any, b: Any, z: Any) -> Any:
        op([a, b], None, z)
        op([a], y=b, z=z)
        return a + b

    assert_captured(
        function, lambda: data(4), lambda: dj.ones(4, dtype=dj.float64), lambda: data(4)
    )


def test_a_written_tensor_may_require_a_gradient_where_none_are_recorded() -> None:
    double = numpy_doubling()

    def function(x: Any) -> Any:
        with dj.no_grad():
            double(x)
        return x.detach() + 1

    assert_captured(function, lambda: leaf(3))


def test_writes_that_a_graph_cannot_follow_are_done_by_the_real_call() -> None:
    double = numpy_doubling()
    twice = operator(
        lambda x, y: x.add_(y.clone()) is None or None,
        schema="(Tensor(a!) x, Tensor y) -> ()",
        mutates_args=("x",),
    )

    def with_itself(x: Any) -> Any:
        twice(x, x[:1])
        return x * 1

    x, y = data(3), data(3)
    assert with_itself(x).tolist() == dj.compile(with_itself)(y).tolist()
    assert "there twice" in dj.explain(with_itself)(data(3)).breaks[0].reason

    def with_gradient(x: Any) -> Any:
        y = x * 2
        double(y)
        return y

    with pytest.raises(RuntimeError, match="requires a gradient"):
        dj.compile(with_gradient)(leaf(3))


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (lambda x: dj.zeros(3), "by its fake"),
        (lambda x: x.double(), "by its fake"),
        (lambda x: x, "may not alias"),
        (lambda x: {}["no key"], "no key"),
    ],
)
def test_a_kernel_that_does_not_do_what_its_fake_says_is_an_error(kernel: Any, words: str) -> None:
    op = operator(kernel, lambda x: dj.empty_like(x))
    with pytest.raises((RuntimeError, KeyError), match=words):
        dj.compile(lambda x: op(x) * 2, fullgraph=True)(dj.ones(2))


def test_nothing_is_warned_about() -> None:
    """A graph of nothing but operators runs without kernels: so the program wants it."""
    sin = numpy_sine()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dj.compile(lambda x: sin(x), fullgraph=True)(data(2))


def test_kernels_are_not_captured() -> None:
    """They run as they are, also below a compiled function."""
    seen = []

    def kernel(x: Any) -> Any:
        seen.append(dj.compiler.is_compiling())
        return dj.from_numpy(np.array([float(v) for v in x.numpy()], np.float32))

    op = operator(kernel)
    found = dj.explain(lambda x: op(x * 2) * 2)(data(3))
    assert 1 == len(found.breaks)
    assert not any(seen)


@pytest.mark.parametrize("path", ["x * 2", "(x * 2).abs()", "x.real * 1", "x.detach() * 2"])
def test_what_requires_a_gradient_is_known_of_complex_values(path: str) -> None:
    """Whether an operator needs its derivative depends on it; it was False for complex results."""
    function = eval(f"lambda x: (({path}).requires_grad, {path})")
    x = dj.ones(2, dtype=dj.complex64, requires_grad=True)

    assert function(x)[0] is dj.compile(function, fullgraph=True)(x)[0]


def test_compiled_in_the_background() -> None:
    """The graph runs op by op at first, its own rows included."""
    sin = numpy_sine()
    compiled = dj.compile(lambda x: sin(x) + 1, fullgraph=True, options={"async": True})
    for _ in range(3):
        dj.testing.assert_close(compiled(data(3)), data(3).sin() + 1)


def test_kernels_are_not_run_again_to_save_memory() -> None:
    """They might give something else."""
    calls: list[Any] = []
    sin = numpy_sine(calls)
    compiled = dj.compile(
        lambda x: (sin(x * 2) * sin(x)).exp().sum(),
        fullgraph=True,
        options={"activation_memory_budget": 0.0},
    )
    compiled(leaf(64)).backward()

    assert 2 == len(calls)


def test_a_fake_or_derivative_may_not_call_an_operator_that_writes() -> None:
    double = numpy_doubling()

    def backward(ctx: Any, g: Any) -> Any:
        double(g)
        return g

    op = operator(lambda x: x * 1, lambda x: dj.empty_like(x), backward)
    x = leaf(2)
    dj.compile(lambda x: op(x) + 1)(x).sum().backward()
    assert [2.0, 2.0] == x.grad.tolist()
    explained = dj.explain(lambda x: op(x) + 1)(leaf(2))
    assert "writes to an argument" in explained.breaks[0].reason
