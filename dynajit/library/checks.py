"""`opcheck`: whether what was registered for an operator is right, tried on sample arguments.

Contract: every test is independent; what fails is raised, or told.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import CaptureError, InvalidValueError, OperatorError
from dynajit.driver.compile import compile
from dynajit.eager.backward.engine import grad
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor
from dynajit.library import autograd, traced
from dynajit.library.definitions import CustomOpDef
from dynajit.library.forms import Form
from dynajit.library.operators import OpOverload, OpOverloadPacket
from dynajit.library.schema import tensors_in
from dynajit.testing.comparison import assert_close

SUCCESS: Final = "SUCCESS"


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] | None = None,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, str]:
    """Test an operator on sample arguments.

    Args:
        op: an operator, or what `custom_op` made.
        args, kwargs: of the call.
        test_utils: names of tests; None: all. `test_schema`: the arguments that the schema does
            not call written keep their values. `test_autograd_registration`: a derivative is
            registered, if an argument requires a gradient.
        raise_exception: raise what a test finds; else put it into the result.
        atol, rtol: of the comparison of compiled and eager, as in `testing.assert_close`.

    Returns:
        per test "SUCCESS", or what it found.

    Raises:
        OperatorError: a test found something.
        ValueError: there is no such test.
    """
    overload = _overload_of(op, args, kwargs or {})
    names = tuple(_TESTS) if test_utils is None else (
        (test_utils,) if isinstance(test_utils, str) else tuple(test_utils))  # fmt: skip
    results: dict[str, str] = {}
    for name in names:
        if name not in _TESTS:
            raise InvalidValueError(
                f"opcheck(test_utils={name!r}): no such test.  Expected {sorted(_TESTS)}."
            )
        values = overload._schema.bind(args, kwargs or {})
        found = _TESTS[name](overload, values, {"atol": atol, "rtol": rtol})
        if found is not None and raise_exception:
            raise OperatorError(f"opcheck: {name} of {overload}: {found}")
        results[name] = found or SUCCESS
    return results


def _overload_of(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpOverload:
    if isinstance(op, CustomOpDef):
        return op._opoverload
    if isinstance(op, OpOverloadPacket):
        return op.fitting(args, kwargs)
    if isinstance(op, OpOverload):
        return op
    raise InvalidValueError(
        f"opcheck({op!r}): expected an operator of torch.ops, or what custom_op made."
    )


def _test_schema(overload: OpOverload, values: list[Any], options: Any) -> str | None:
    before = [any_arrays.as_numpy(tensor.array).copy() for tensor in tensors_in(values)]
    copies = _copied(values)
    with no_grad():
        overload.call_python(overload, copies)
    after = iter(any_arrays.as_numpy(tensor.array) for tensor in tensors_in(copies))
    kept = iter(before)
    for argument, value in zip(overload._schema.arguments, copies, strict=True):
        for _ in tensors_in([value]):
            if not np.array_equal(next(kept), next(after), equal_nan=True) and (
                not argument.is_written
            ):
                return (
                    f"the argument '{argument.name}' is written, but the schema does not say so "
                    "(mutates_args)."
                )
    return None


def _copied(values: Sequence[Any], keeps_history: bool = False) -> list[Any]:
    """Values with clones of their tensors, which are leaves."""

    def copied(value: Any) -> Any:
        if isinstance(value, list):
            return [copied(item) for item in value]
        if not isinstance(value, Tensor):
            return value
        return value.detach().clone().requires_grad_(keeps_history and value.requires_grad)

    return [copied(value) for value in values]


def _test_autograd_registration(
    overload: OpOverload, values: list[Any], options: Any
) -> str | None:
    if not any(tensor.requires_grad for tensor in tensors_in(values)):
        return None
    if overload.derivative is None and overload.whole is None:
        return "an argument requires a gradient, and no derivative is registered."
    return None


def _test_faketensor(overload: OpOverload, values: list[Any], options: Any) -> str | None:
    if overload.whole is not None or not overload._schema.returns:
        return None
    if overload.fake is None:
        return "no fake is registered (register_fake)."
    with no_grad():
        real = _types(overload.call_python(overload, _copied(values)))
    types = [traced.type_of(tensor) for tensor in tensors_in(values)]
    fake = _types(traced.results(overload, Form(overload, values).filled, types))
    if real != fake:
        return f"the operator gives {_shown(real)}, by its fake it gives {_shown(fake)}."
    return None


def _types(results: Any) -> list[Any]:
    leaves = autograd.flat(results if isinstance(results, tuple) else (results,))
    return [traced.type_of(leaf) for leaf in leaves if isinstance(leaf, Tensor)]


def _shown(types: Sequence[Any]) -> str:
    return ", ".join(map(str, types))


def _test_compiled(overload: OpOverload, values: list[Any], options: Any) -> str | None:
    if overload._schema.is_mutable or not any(True for _ in tensors_in(values)):
        return None

    def function(*args: Any, **keywords: Any) -> Any:
        return overload(*args, **keywords)

    eager = _with_gradients(overload, function, values)
    try:
        compiled = _with_gradients(overload, compile(function, fullgraph=True), values)
        assert_close(compiled, eager, equal_nan=True, **options)
    except (CaptureError, OperatorError, AssertionError) as error:
        return f"compiled: {error}"
    return None


def _with_gradients(
    overload: OpOverload, function: Callable[..., Any], values: Sequence[Any]
) -> list[Any]:
    """The tensors that a call gives, then the gradients of the sum of those with a history."""
    copies = _copied(values, keeps_history=True)
    args, keywords = overload._schema.split(copies)
    results = function(*args, **keywords)
    leaves = autograd.flat(results if isinstance(results, tuple) else (results,))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    wanted = [tensor for tensor in tensors_in(copies) if tensor.requires_grad]
    total = [tensor.abs().sum() for tensor in tensors if tensor.requires_grad]
    if wanted and total:
        found = grad(total, wanted, allow_unused=True)
        tensors += [gradient for gradient in found if gradient is not None]
    return [tensor.detach() for tensor in tensors]


_TESTS: Final[dict[str, Callable[[OpOverload, list[Any], dict[str, Any]], str | None]]] = {
    "test_schema": _test_schema,
    "test_autograd_registration": _test_autograd_registration,
    "test_faketensor": _test_faketensor,
    "test_aot_dispatch_dynamic": _test_compiled,
}
