"""Operators by source text: fused into generated kernels, or called."""

import itertools
from typing import Any

import numpy as np
import pytest

import dynajit as dj

_numbers = itertools.count()

SOURCE = """
#include <math.h>
#include <stdint.h>

void scaled_exp(const float *x, double k, float *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) out[i] = (float)(k * exp(x[i]));
}

void double_it(float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) x[i] *= 2;
}

void halves(const int32_t *x, _Bool up, double *half, int32_t *rest, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        half[i] = x[i] / 2 + up;
        rest[i] = x[i] % 2;
    }
}
"""


def operator(schema: str, kernel: Any, fake: Any = None, mutates_args: Any = ()) -> Any:
    """An operator with a name of its own."""
    name = f"tests_of_sources::op{next(_numbers)}"
    op = dj.library.custom_op(name, kernel, schema=schema, mutates_args=mutates_args)
    if fake is not None:
        op.register_fake(fake)
    return op


def gate() -> Any:
    """x exp(-y) + k, k twice where x is negative; with a derivative."""
    op = operator(
        "(Tensor x, Tensor y, float k) -> Tensor",
        lambda x, y, k: dj.where(x > 0, x * (-y).exp() + k, x * (-y).exp() + 2 * k),
        lambda x, y, k: x * y,
    )

    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        decay = (-y).exp()
        return g * decay, -g * x * decay, None

    op.register_autograd(
        backward,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs[:2]),
    )
    return op


def results_of(function: Any, dtype: Any, *shapes: Any) -> list[Any]:
    """The result, first and second derivatives."""
    random = np.random.default_rng(0)
    inputs = [
        dj.tensor(random.standard_normal(shape), dtype=dtype).requires_grad_() for shape in shapes
    ]
    result = function(*inputs)
    first = dj.autograd.grad(result.sum(), inputs, create_graph=True)
    second = dj.autograd.grad(sum(g.sum() for g in first), inputs, allow_unused=True)
    result = function(*inputs)
    result.sum().backward()
    return [result.detach(), *(x.grad for x in inputs), *first, *second]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", [{}, {"options": {"verify": True}}, {"backend": "numpy"}])
def test_an_expression_is_part_of_the_kernel(dtype: str, options: Any) -> None:
    """The kernel of the operator is not called; broadcasting is the kernel's."""
    op = gate()
    op.register_expression("x * exp(-y) + k * (x > 0 ? 1.0 : 2)")

    def function(x: Any, y: Any) -> Any:
        return op(x * 2, y, 0.1) + 1

    shapes = ((64, 1), (3,))
    expected = results_of(function, getattr(dj, dtype), *shapes)
    compiled = dj.compile(function, fullgraph=True, **options)
    found = results_of(compiled, getattr(dj, dtype), *shapes)
    dj.testing.assert_close(found, expected)
    if not options:
        assert 1 == len(dj.explain(function)(dj.ones(3), dj.ones(3)).kernels)


def test_the_text_of_the_expression_is_in_the_kernel() -> None:
    op = operator("(Tensor x, int n) -> Tensor", lambda x, n: x * n, lambda x, n: dj.empty_like(x))
    op.register_expression("x * n + 12345.5 - 12345.5")
    found = dj.explain(lambda x: (op(x, 3) * 2).sum())(dj.ones(4))

    assert "12345.5f" in str(found.kernels[0].source)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("tanh(x) + sqrt(fabs(x)) * pow(2, x)", lambda x: np.tanh(x) + np.sqrt(abs(x)) * 2.0**x),
        ("fmax(x, 0.5) - fmin(x, -.5e-1)", lambda x: np.maximum(x, 0.5) - np.minimum(x, -0.05)),
        ("x < 0 || x > 1 ? -x : (float)(int)(x * 4)", lambda x: np.where(
            (x < 0) | (x > 1), -x, np.trunc(x * 4))),
        ("cbrt(x) + hypot(x, 1) + log1p(exp(x))", lambda x: np.cbrt(x) + np.hypot(x, 1) + np.log1p(
            np.exp(x))),
        ("isnan(x) ? 1 : x + 1e-3", lambda x: x + 1e-3),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_and_signs_of_c(text: str, reference: Any, dtype: str) -> None:
    op = operator(
        "(Tensor x) -> Tensor",
        lambda x: dj.from_numpy(reference(x.numpy()).astype(x.numpy().dtype)),
        lambda x: dj.empty_like(x),
    )
    op.register_expression(text)
    x = dj.linspace(-2, 2, 41, dtype=getattr(dj, dtype))

    dj.testing.assert_close(dj.compile(lambda x: op(x) + 0, fullgraph=True)(x), op(x))


@pytest.mark.parametrize("value", [0.1, 1e-30, 1e300, float("inf"), -float("inf"), 3.0, -2.5])
def test_numbers_are_part_of_the_text(value: float) -> None:
    op = operator(
        "(Tensor x, float k) -> Tensor", lambda x, k: x * 0 + k, lambda x, k: dj.empty_like(x)
    )
    op.register_expression("x * 0 + k")
    x = dj.ones(3, dtype=dj.float64)

    assert op(x, value).tolist() == dj.compile(lambda x: op(x, value), fullgraph=True)(x).tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "complex64"])
def test_other_dtypes_go_to_the_kernel(dtype: str) -> None:
    calls = []

    def kernel(x: Any) -> Any:
        calls.append(1)
        return x * 2

    op = operator("(Tensor x) -> Tensor", kernel, lambda x: dj.empty_like(x))
    op.register_expression("x * 2")
    x = dj.ones(2, dtype=getattr(dj, dtype))

    assert [2.0, 2.0] == dj.compile(lambda x: op(x), fullgraph=True)(x).tolist()
    assert calls


def test_results_that_are_not_pointwise_go_to_the_kernel() -> None:
    op = operator(
        "(Tensor x) -> Tensor", lambda x: dj.cat([x, x]), lambda x: x.new_empty(2 * x.shape[0])
    )
    op.register_expression("x")

    assert [1.0] * 4 == dj.compile(lambda x: op(x), fullgraph=True)(dj.ones(2)).tolist()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x = 3", ValueError), ("x; x", ValueError), ("z + 1", ValueError), ("f(x)", ValueError),
        ("x +", RuntimeError), ("x % x", RuntimeError), ("x) + (x", ValueError),
        ("x // 2", RuntimeError), ("{x}", ValueError), ('"x"', ValueError),
    ],
)  # fmt: skip
def test_wrong_expressions_are_refused_when_they_are_registered(text: str, kind: Any) -> None:
    op = operator("(Tensor x) -> Tensor", lambda x: x * 2)
    with pytest.raises(kind, match="tests_of_sources"):
        op.register_expression(text)


@pytest.mark.parametrize(
    "schema",
    ["(Tensor[] x) -> Tensor", "(Tensor? x) -> Tensor", "(Tensor x) -> (Tensor, Tensor)",
     "(Tensor x, str s) -> Tensor", "(Tensor(a!) x) -> ()"],
)  # fmt: skip
def test_expressions_are_about_tensors_and_numbers(schema: str) -> None:
    op = operator(schema, lambda x: x, mutates_args=("x",) if "!" in schema else ())
    with pytest.raises(ValueError, match="one result"):
        op.register_expression("x")


# -- functions of C ------------------------------------------------------------------------------


def test_a_function_of_c_is_a_kernel() -> None:
    op = operator("(Tensor x, float k) -> Tensor", lambda x, k: None, lambda x, k: x + 0)
    op.register_c_kernel(SOURCE, "scaled_exp")
    op.register_autograd(
        lambda ctx, g: (g * ctx.saved_tensors[0], None),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
    )
    x = dj.linspace(-1, 1, 6).reshape(2, 3)
    expected = 3 * x.exp()
    for function in (op, dj.compile(lambda x, k: op(x, k), fullgraph=True)):
        leaf = x.clone().requires_grad_()
        result = function(leaf, 3.0)
        result.sum().backward()
        dj.testing.assert_close(result.detach(), expected)
        dj.testing.assert_close(leaf.grad, expected)
        dj.testing.assert_close(function(x.t(), 3.0), expected.t(), check_stride=False)


def test_a_function_of_c_writes_where_the_schema_says() -> None:
    op = operator("(Tensor(a!) x) -> ()", lambda x: None, mutates_args=("x",))
    op.register_c_kernel(SOURCE, "double_it")
    x = dj.ones(2, 3)
    op(x[1])

    assert ([[1.0] * 3, [2.0] * 3], 1) == (x.tolist(), x._version)
    with pytest.raises(RuntimeError, match="must be contiguous"):
        op(x.t())


def test_several_results_of_a_function_of_c() -> None:
    op = operator(
        "(Tensor x, bool up) -> (Tensor, Tensor)",
        lambda x, up: None,
        lambda x, up: (dj.empty_like(x, dtype=dj.float64), dj.empty_like(x)),
    )
    op.register_c_kernel(SOURCE, "halves")
    x = dj.tensor([4, 7], dtype=dj.int32)

    assert [[3.0, 4.0], [0, 1]] == [y.tolist() for y in op(x, True)]
    compiled = dj.compile(lambda x: op(x, False), fullgraph=True)
    assert [[2.0, 3.0], [0, 1]] == [y.tolist() for y in compiled(x)]


def test_elements_of_other_dtypes_are_refused() -> None:
    """They would be read as what they are not."""
    op = operator("(Tensor x, float k) -> Tensor", lambda x, k: None, lambda x, k: x + 0)
    op.register_c_kernel(SOURCE, "scaled_exp")
    with pytest.raises(RuntimeError, match="pointer to float where the tensor is float64"):
        op(dj.ones(2, dtype=dj.float64), 1.0)


@pytest.mark.parametrize(
    ("schema", "function", "kind"),
    [
        ("(Tensor x) -> Tensor", "scaled_exp", ValueError),
        ("(float k, Tensor x) -> Tensor", "scaled_exp", ValueError),
        ("(Tensor x, float k) -> (Tensor, Tensor)", "scaled_exp", ValueError),
        ("(Tensor x, str k) -> Tensor", "scaled_exp", ValueError),
        ("(Tensor x, float k) -> Tensor", "absent", RuntimeError),
    ],
)
def test_functions_that_do_not_fit_are_refused(schema: str, function: str, kind: Any) -> None:
    op = operator(schema, lambda x, k=0: x)
    with pytest.raises(kind, match="tests_of_sources"):
        op.register_c_kernel(SOURCE, function)


def test_what_the_compiler_says_is_told() -> None:
    op = operator("(Tensor x) -> Tensor", lambda x: x)
    with pytest.raises(RuntimeError, match="its source text"):
        op.register_c_kernel("void f(const float *x, float *y, int64_t n) {", "f")


def test_results_of_a_function_of_c_need_a_fake() -> None:
    op = operator("(Tensor x, float k) -> Tensor", lambda x, k: None)
    op.register_c_kernel(SOURCE, "scaled_exp")
    with pytest.raises(RuntimeError, match="register_fake"):
        op(dj.ones(2), 1.0)
