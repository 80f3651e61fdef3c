"""`opcheck`: whether what was registered for an operator is right, tried on sample arguments.

Contract: every test is independent; what fails is raised, or told. Called by users, in tests.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from dynajit.core import any_arrays
from dynajit.core.errors import InvalidValueError, OperatorError
from dynajit.eager.grad_mode import no_grad
from dynajit.library.definitions import CustomOpDef
from dynajit.library.operators import OpOverload, OpOverloadPacket
from dynajit.library.schema import tensors_in

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
        atol, rtol: not used by these tests.

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
        found = _TESTS[name](overload, overload._schema.bind(args, kwargs or {}))
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


def _test_schema(overload: OpOverload, values: list[Any]) -> str | None:
    before = [any_arrays.as_numpy(tensor.array).copy() for tensor in tensors_in(values)]
    with no_grad():
        overload.call_python(overload, _copied(values))
        copies = _copied(values)
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


def _copied(values: Sequence[Any]) -> list[Any]:
    return [
        [item and item.detach().clone() for item in value]
        if isinstance(value, list) and any(True for _ in tensors_in([value]))
        else value.detach().clone()
        if any(True for _ in tensors_in([value]))
        else value
        for value in values
    ]


def _test_autograd_registration(overload: OpOverload, values: list[Any]) -> str | None:
    if not any(tensor.requires_grad for tensor in tensors_in(values)):
        return None
    if overload.derivative is None and overload.whole is None:
        return "an argument requires a gradient, and no derivative is registered."
    return None


_TESTS: Final[dict[str, Callable[[OpOverload, list[Any]], str | None]]] = {
    "test_schema": _test_schema,
    "test_autograd_registration": _test_autograd_registration,
}
