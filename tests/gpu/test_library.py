"""Operators that programs define, on a GPU: the kernel of "cuda", eagerly and in graphs."""

from typing import Any

import pytest

import dynajit as dj

pytestmark = pytest.mark.usefixtures("driver", "strict_programs")


def operator(name: str) -> Any:
    op = dj.library.custom_op(
        f"tests_on_gpus::{name}",
        lambda x: x * 10,
        schema="(Tensor x) -> Tensor",
        mutates_args=(),
        device_types="cpu",
    )
    op.register_kernel("cuda")(lambda x: x * 2)
    op.register_fake(lambda x: dj.empty_like(x))
    op.register_autograd(lambda ctx, g: g * 2)
    return op


def test_the_kernel_of_the_operands_device_runs() -> None:
    op = operator("eager")
    assert [10.0] == op(dj.ones(1)).tolist()
    x = dj.ones(3, device="cuda", requires_grad=True)
    result = op(x)
    result.sum().backward()
    assert "cuda" == result.device.type
    assert ([2.0] * 3, [2.0] * 3) == (result.tolist(), x.grad.tolist())


def test_a_compiled_function_is_one_graph() -> None:
    op = operator("compiled")
    compiled = dj.compile(lambda x: (op(x + 1) * 3).sum(), fullgraph=True)
    x = dj.ones(3, device="cuda", requires_grad=True)
    result = compiled(x)
    result.backward()
    assert (36.0, [6.0] * 3) == (result.item(), x.grad.tolist())


def test_an_expression_is_part_of_the_kernel() -> None:
    """The text for CUDA, where there is one."""
    op = operator("expression")
    op.register_expression("exp(x) * 3.0", cuda="exp(x) + 0.5")
    x = dj.linspace(-1, 1, 300, device="cuda")
    compiled = dj.compile(lambda x: op(x) * 2, fullgraph=True)
    dj.testing.assert_close(compiled(x), (x.exp() + 0.5) * 2)
    assert [3.0] == [round(v, 5) for v in dj.compile(lambda x: op(x))(dj.zeros(1)).tolist()]


def test_a_function_of_c_is_for_the_cpu() -> None:
    op = operator("function")
    op.register_c_kernel("#include <stdint.h>\nvoid f(const float *x, float *y, int64_t n) {}", "f")
    assert [2.0] == op(dj.ones(1, device="cuda")).tolist()
