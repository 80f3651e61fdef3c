"""Derivatives against finite differences.

Contract: analytical Jacobians come from the tape, or column by column from forward mode; numerical
ones from central differences in float64; a mismatch shows both. A complex number counts as two
elements, its real and its imaginary part: the gradient of a real loss L for z = x + iy is
dL/dx + i dL/dy. Inputs are perturbed in place and restored.
"""

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import (
    ArgumentValueError,
    AutogradError,
    ExpectationError,
    UnsupportedError,
)
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase, _set_grad_enabled
from dynajit.eager.backward import engine as tape
from dynajit.eager.modes import forward_levels
from dynajit.eager.operations import duals
from dynajit.ops.table.tangents import is_continuous


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of `func` agree with central differences.

    Args:
        func: takes `inputs`, returns a tensor or a tuple of tensors.
        inputs: one tensor or several; those with requires_grad (float64, complex128) are checked.
        eps: step of the differences.
        atol, rtol: largest accepted `|a - n| - rtol * |n|`.
        raise_exception: raise instead of returning False.
        nondet_tol: accepted difference between two backward runs.
        check_forward_ad, check_backward_ad: whether tangents, and gradients, are checked.
        check_undefined_grad: whether an input without a tangent counts as one that does not move.
        check_batched_grad, check_batched_forward_grad: refused where True.
        others: without effect; whole Jacobians are compared also with `fast_mode`.

    Returns:
        True if every Jacobian agrees.

    Raises:
        AutogradError: a Jacobian disagrees; both are shown.
        ArgumentError: no input requires a gradient.
        AssertionError: nothing shall be checked.
        UnsupportedError: derivatives in batches shall be checked.
    """
    if not (check_forward_ad or check_backward_ad):
        raise ExpectationError(
            "gradcheck: Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
    _refuse_others(
        check_batched_grad=check_batched_grad,
        check_batched_forward_grad=check_batched_forward_grad,
    )
    given = (inputs,) if isinstance(inputs, TensorBase) else tuple(inputs)
    checked = _checked_inputs(given)
    try:
        if check_backward_ad:
            _check(func, given, checked, eps, atol, rtol, nondet_tol)
        if check_forward_ad:
            _check_forward(func, given, checked, eps, atol, rtol)
            if check_undefined_grad:
                _check_undefined(func, given, checked)
    except AutogradError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """`gradcheck` of the gradients of `func`: second derivatives.

    Args:
        grad_outputs: gradients of the outputs to start from; None draws fixed normal numbers.
        check_fwd_over_rev, check_rev_over_rev: whether tangents, and gradients, of gradients are
            checked.
        check_batched_grad: refused where True.
        others: as in `gradcheck`.
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise ExpectationError(
            "gradgradcheck: Expected at least one of check_fwd_over_rev or check_rev_over_rev to "
            "be True"
        )
    _refuse_others(check_batched_grad=check_batched_grad)
    given = (inputs,) if isinstance(inputs, TensorBase) else tuple(inputs)
    outputs = _differentiable(func(*given))
    if grad_outputs is None:
        draw = np.random.default_rng(0)
        starts: list[Any] = [_tensor.wrap(_drawn(draw, o.array)) for o in outputs]
        for start in starts:
            start.requires_grad = True
    else:
        starts = [grad_outputs] if isinstance(grad_outputs, TensorBase) else list(grad_outputs)
    count = len(starts)
    needed = [isinstance(x, TensorBase) and x.requires_grad for x in (*given, *starts)]

    def gradients(*operands: Any) -> tuple[Any, ...]:
        for x, is_needed in zip(operands, needed, strict=True):
            if is_needed:  # forward mode gives values without history
                x.requires_grad = True
        plain, received = operands[:-count], operands[-count:]
        wanted = [x for x in plain if isinstance(x, TensorBase) and x.requires_grad]
        found = tape.grad(
            _differentiable(func(*plain)), wanted, received, create_graph=True, allow_unused=True
        )
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients,
        (*given, *starts),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
    )


def _refuse_others(**checks: bool) -> None:
    asked = [name for name, is_asked in checks.items() if is_asked]
    if asked:
        raise UnsupportedError(
            f"gradcheck({asked[0]}=True): derivatives are computed one at a time.  Leave it out."
        )


def _drawn(draw: "np.random.Generator", like: Any) -> Any:
    """Normal numbers of the shape of `like`, complex where it is."""
    drawn = draw.standard_normal(like.shape)
    if like.dtype.kind == "c":
        drawn = drawn + 1j * draw.standard_normal(like.shape)
    return any_arrays.placed_like(np.asarray(drawn), like)


def _parts(array: Any) -> Any:
    """The elements in a row, float64; a complex one as its two parts."""
    flat = np.ascontiguousarray(any_arrays.as_numpy(array)).reshape(-1)
    return np.array(flat.view(flat.real.dtype), np.float64)


def _part_count(array: Any) -> int:
    return int(array.size) * (2 if array.dtype.kind == "c" else 1)


def _unit(array: Any, k: int) -> Any:
    """Zeros like `array` with 1 in part k."""
    unit = np.zeros(array.size, array.dtype)
    unit.view(unit.real.dtype)[k] = 1
    return any_arrays.placed_like(unit.reshape(array.shape), array)


def _checked_inputs(inputs: Sequence[Any]) -> list[int]:
    """Positions of the inputs that are checked."""
    found = []
    for position, x in enumerate(inputs):
        if not isinstance(x, TensorBase) or not x.requires_grad:
            continue
        if x.array.dtype not in (np.float64, np.complex128):
            warnings.warn(
                f"gradcheck: input #{position} requires gradient and is not a double precision "
                "floating point. This check will likely fail if all the inputs are not of double "
                "precision floating point.",
                stacklevel=3,
            )
        if 0 in [s for s, n in zip(x.array.strides, x.array.shape, strict=True) if n > 1]:
            raise AutogradError(
                f"gradcheck: input #{position} has elements that share memory.  Pass a clone()."
            )
        found.append(position)
    if not found:
        raise ArgumentValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )
    return found


def _differentiable(outputs: Any) -> list[Any]:
    given = (outputs,) if isinstance(outputs, TensorBase) else outputs
    return [o for o in given if isinstance(o, TensorBase) and o.requires_grad]


def _check(
    func: Callable[..., Any],
    inputs: tuple[Any, ...],
    checked: list[int],
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
) -> None:
    outputs = _differentiable(func(*inputs))
    if not outputs:
        numerical = _numerical(func, inputs, checked, eps, None)
        for jacobian in itertools.chain.from_iterable(numerical):
            if np.abs(jacobian).max(initial=0.0) > atol:
                raise AutogradError(
                    "gradcheck: no output requires grad, but the outputs depend on the inputs:\n"
                    f"numerical:\n{jacobian}"
                )
        return
    analytical = _analytical(outputs, inputs, checked)
    again = _analytical(outputs, inputs, checked)
    positions = _positions_of(func, inputs)
    numerical = _numerical(func, inputs, checked, eps, positions)
    for o, i in itertools.product(range(len(outputs)), range(len(checked))):
        if np.abs(analytical[o][i] - again[o][i]).max(initial=0.0) > nondet_tol:
            raise AutogradError(
                f"Backward is not reentrant, i.e., running backward with same input and "
                f"grad_output multiple times gives different values (output {o}, input "
                f"{checked[i]}); the tolerance is {nondet_tol}."
            )
        if not np.allclose(analytical[o][i], numerical[o][i], rtol, atol, equal_nan=True):
            raise AutogradError(
                f"Jacobian mismatch for output {o} with respect to input {checked[i]},\n"
                f"numerical:\n{numerical[o][i]}\nanalytical:\n{analytical[o][i]}\n"
                "(rows: elements of the input, columns: elements of the output)"
            )


def _check_forward(
    func: Callable[..., Any],
    inputs: tuple[Any, ...],
    checked: list[int],
    eps: float,
    atol: float,
    rtol: float,
) -> None:
    analytical = [_tangents(func, inputs, i) for i in checked]
    numerical = _numerical(func, inputs, checked, eps, None, is_continuous)
    for o, i in itertools.product(range(len(numerical)), range(len(checked))):
        if not np.allclose(analytical[i][o], numerical[o][i], rtol, atol, equal_nan=True):
            raise AutogradError(
                f"Jacobian computed with forward mode mismatch for output {o} with respect to "
                f"input {checked[i]},\n"
                f"numerical:\n{numerical[o][i]}\nanalytical:\n{analytical[i][o]}\n"
                "(rows: elements of the input, columns: elements of the output)"
            )


def _continuous(outputs: Any) -> list[Any]:
    given = (outputs,) if isinstance(outputs, TensorBase) else outputs
    return [o for o in given if isinstance(o, TensorBase) and is_continuous(o)]


def _moved(
    func: Callable[..., Any], inputs: tuple[Any, ...], directions: dict[int, Any]
) -> list[Any]:
    """The parts of the outputs' tangents, where these inputs move."""
    with forward_levels.opening() as level:
        given = [x.detach() if isinstance(x, TensorBase) else x for x in inputs]
        for i, direction in directions.items():
            given[i] = duals.make_dual(level, given[i], _tensor.wrap(direction))
        found = []
        for output in _continuous(func(*given)):
            tangent = duals.tangent_of(level, output)
            count = _part_count(output.array)
            found.append(np.zeros(count) if tangent is None else _parts(tangent.array))
        return found


def _tangents(func: Callable[..., Any], inputs: tuple[Any, ...], position: int) -> list[Any]:
    """Per output the Jacobian by one input, shape (input parts, output parts)."""
    array = inputs[position].array
    rows = [_moved(func, inputs, {position: _unit(array, k)}) for k in range(_part_count(array))]
    return [np.stack(column) for column in zip(*rows, strict=True)]


def _check_undefined(func: Callable[..., Any], inputs: tuple[Any, ...], checked: list[int]) -> None:
    """An input without a tangent is one that does not move."""
    draw = np.random.default_rng(0)
    directions = {i: _drawn(draw, inputs[i].array) for i in checked}
    for i in checked:
        others = {j: direction for j, direction in directions.items() if j != i}
        still = {**others, i: any_arrays.filled_like(inputs[i].array, 0)}
        results = _moved(func, inputs, others), _moved(func, inputs, still)
        for o, (without, zero) in enumerate(zip(*results, strict=True)):
            if not np.allclose(without, zero, equal_nan=True):
                raise AutogradError(
                    f"Mismatch in tangent values for output {o} when input {i} has an undefined "
                    f"tangent value.  Got {without}, expected {zero}."
                )


def _positions_of(func: Callable[..., Any], inputs: tuple[Any, ...]) -> list[int]:
    """Which outputs of `func` require a gradient; `_numerical` runs it without gradients."""
    outputs = func(*inputs)
    given = (outputs,) if isinstance(outputs, TensorBase) else outputs
    return [i for i, o in enumerate(given) if isinstance(o, TensorBase) and o.requires_grad]


def _analytical(outputs: list[Any], inputs: tuple[Any, ...], checked: list[int]) -> list[Any]:
    """Per output, per checked input: Jacobian, shape (input parts, output parts)."""
    targets = [inputs[i] for i in checked]
    jacobians = []
    for output in outputs:
        count = _part_count(output.array)
        columns = [np.zeros((_part_count(x.array), count)) for x in targets]
        for k in range(count):
            found = tape.grad(
                output,
                targets,
                _tensor.wrap(_unit(output.array, k)),
                retain_graph=True,
                allow_unused=True,
            )
            for column, gradient in zip(columns, found, strict=True):
                if gradient is not None:
                    column[:, k] = _parts(gradient.array)
        jacobians.append(columns)
    return jacobians


def _numerical(
    func: Callable[..., Any],
    inputs: tuple[Any, ...],
    checked: list[int],
    eps: float,
    positions: list[int] | None,
    takes: Callable[[Any], bool] = lambda output: True,
) -> list[Any]:
    """The same Jacobians by central differences.

    Args:
        positions: of the outputs; None: all those that `takes` says.
    """

    def values() -> list[Any]:
        outputs = func(*inputs)
        given = (outputs,) if isinstance(outputs, TensorBase) else outputs
        chosen = range(len(given)) if positions is None else positions
        return [
            _parts(given[i].array)
            for i in chosen
            if isinstance(given[i], TensorBase) and takes(given[i])
        ]

    # Leaves are perturbed under the tape's eyes; functions that differentiate inside need it on.
    before = _set_grad_enabled(True)
    try:
        shapes = [v.size for v in values()]
        jacobians = [[np.zeros((_part_count(inputs[i].array), n)) for i in checked] for n in shapes]
        for place, i in enumerate(checked):
            array = inputs[i].array
            per_element = 2 if array.dtype.kind == "c" else 1
            for k in range(_part_count(array)):
                element = np.unravel_index(k // per_element, array.shape)
                original = array[element].item()
                step = eps * 1j if k % per_element else eps
                array[element] = original + step
                above = values()
                array[element] = original - step
                below = values()
                array[element] = original
                for o, (high, low) in enumerate(zip(above, below, strict=True)):
                    jacobians[o][place][k] = (high - low) / (2 * eps)
    finally:
        _set_grad_enabled(before)
    return jacobians
