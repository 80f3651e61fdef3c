"""`opcheck`: finds what is registered wrongly, where PyTorch's finds it."""

import itertools
from typing import Any

import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

_numbers = itertools.count()


def found(lib: Any, register: Any, requires_grad: bool, schema: str, kernel: Any) -> Any:
    """The tests that fail."""
    op = lib.library.custom_op(
        f"tests_of_checks::{lib.__name__}{next(_numbers)}",
        lambda *args: kernel(lib, *args),
        schema=schema,
        mutates_args=("x",) if "!" in schema else (),
    )
    register(lib, op)
    x = lib.tensor([0.5, 2.0], requires_grad=requires_grad)
    results = lib.library.opcheck(op, (x,), raise_exception=False)
    return sorted(name for name, text in results.items() if text != "SUCCESS")


def whole(lib: Any, op: Any) -> None:
    op.register_fake(lambda x: lib.empty_like(x))
    op.register_autograd(
        lambda ctx, g: g * 2 * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )


FUNCTIONAL = "(Tensor x) -> Tensor"
CASES = {
    "right": (whole, True, FUNCTIONAL, lambda lib, x: x * x),
    "without gradients": (whole, False, FUNCTIONAL, lambda lib, x: x * x),
    "writes and says so": (
        lambda lib, op: None, False, "(Tensor(a!) x) -> ()", lambda lib, x: (x.add_(1), None)[1],
    ),
    "writes": (whole, False, FUNCTIONAL, lambda lib, x: x.add_(1).clone()),
    "another shape": (whole, False, FUNCTIONAL, lambda lib, x: x[:1] * 1),
    "another dtype": (whole, False, FUNCTIONAL, lambda lib, x: x.double()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_tests_of_pytorch_fail_here(name: str) -> None:
    """At least one of those that fail there fails here, and none where none does."""
    register, flag, schema, kernel = CASES[name]
    theirs = found(torch, register, flag, schema, kernel)
    ours = found(dj, register, flag, schema, kernel)
    assert bool(theirs) == bool(ours)
    assert not theirs or set(ours) & set(theirs)


def test_what_fails_is_raised_with_the_name_of_the_test() -> None:
    op = dj.library.custom_op(
        "tests_of_checks::fails", lambda x: x + 1, schema=FUNCTIONAL, mutates_args=()
    )
    with pytest.raises(RuntimeError, match=r"test_faketensor.*register_fake"):
        dj.library.opcheck(op, (dj.ones(1),))
    with pytest.raises(RuntimeError, match="test_autograd_registration"):
        dj.library.opcheck(op, (dj.ones(1, requires_grad=True),))
    chosen = dj.library.opcheck(op, (dj.ones(1),), test_utils="test_schema")
    assert {"test_schema": "SUCCESS"} == chosen
    with pytest.raises(ValueError, match="no such test"):
        dj.library.opcheck(op, (dj.ones(1),), test_utils="test_nothing")
    op.register_fake(lambda x: dj.empty_like(x))
    assert "SUCCESS" in dj.library.opcheck(op, (dj.ones(1),))["test_aot_dispatch_dynamic"]
    op.register_autograd(lambda ctx, g: g * float(g.sum()))
    with pytest.raises(RuntimeError, match="test_aot_dispatch_dynamic"):
        dj.library.opcheck(op, (dj.ones(1, requires_grad=True),))
