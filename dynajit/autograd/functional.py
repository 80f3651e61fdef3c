"""Jacobians, Hessians and their products with vectors, of functions of tensors.

Contract: as `torch.autograd.functional`: a function takes one tensor or several, and returns one or
several; results have the nesting of inputs and outputs, and no history unless `create_graph`.
Compiled functions call them as plain Python.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from dynajit.autograd.products import jacobian_of, reverse
from dynajit.capture.control import disable
from dynajit.core.errors import (
    ArgumentError,
    ArgumentValueError,
    AutogradError,
    UnsupportedError,
)
from dynajit.core.process import late
from dynajit.eager.modes import forward_levels
from dynajit.eager.modes.grad_mode import enable_grad
from dynajit.eager.operations import duals
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops import functions

MSG_INDEPENDENT: Final = (
    "Output {number} of the user-provided function does not require gradients. The outputs must be "
    "computed in a differentiable manner from the input when running in strict mode."
)


def _tuple(given: Any, what: str) -> tuple[bool, tuple[Tensor, ...]]:
    """Whether it was several tensors, and they."""
    several = isinstance(given, (tuple, list))
    found = tuple(given) if several else (given,)
    for number, item in enumerate(found):
        if not isinstance(item, Tensor):
            raise ArgumentError(
                f"The {what} given must be either a Tensor or a tuple of Tensors but the value at "
                f"index {number} has type {type(item)}."
            )
    return several, found


def _prepared(inputs: Sequence[Tensor], create_graph: bool) -> list[Tensor]:
    """The inputs with gradients; their own history is kept where a graph is made."""
    return [
        x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_()
        for x in inputs
    ]


def _called(func: Callable[..., Any], inputs: Sequence[Tensor]) -> tuple[bool, tuple[Tensor, ...]]:
    return _tuple(func(*inputs), "outputs of the user-provided function")


def _pushed(
    func: Callable[..., Any], inputs: Sequence[Tensor], vectors: Sequence[Any], strict: bool
) -> tuple[bool, tuple[Tensor, ...], list[Any]]:
    """What `_called` gives, and the tangents of the outputs.

    Args:
        vectors: of each input its tangent, or None.
    """
    with forward_levels.opening() as level:
        moved = [
            x if v is None else duals.make_dual(level, x, v)
            for x, v in zip(inputs, vectors, strict=True)
        ]
        several, outputs = _called(func, moved)
        found = [duals.tangent_of(level, y) for y in outputs]
    for number, tangent in enumerate(found):
        if tangent is None and strict:
            raise AutogradError(MSG_INDEPENDENT.format(number=number))
    return (
        several,
        outputs,
        [
            functions.zeros_like(y) if tangent is None else tangent
            for y, tangent in zip(outputs, found, strict=True)
        ],
    )


def _check_dependence(outputs: Sequence[Tensor], products: Sequence[Any], strict: bool) -> None:
    if not strict:
        return
    for number, y in enumerate(outputs):
        if not y.requires_grad:
            raise AutogradError(MSG_INDEPENDENT.format(number=number))
    for number, product in enumerate(products):
        if product is None:
            raise AutogradError(
                f"The output of the user-provided function is independent of input {number}. This "
                "is not allowed in strict mode."
            )


def _vectors(v: Any, like: Sequence[Tensor], several: bool, what: str) -> list[Tensor]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise AutogradError(
                f"The vector v can only be None if {what} contains a single Tensor with a single "
                "element"
            )
        return [functions.ones_like(like[0])]
    _, found = _tuple(v, "vector v")
    if len(found) != len(like):
        raise AutogradError(
            f"v is a tuple of invalid length: should be {len(like)} but got {len(found)}."
        )
    for number, (vector, x) in enumerate(zip(found, like, strict=True)):
        if tuple(vector.shape) != tuple(x.shape):
            raise AutogradError(
                f"v[{number}] has invalid size: should be {tuple(x.shape)} but got "
                f"{tuple(vector.shape)}."
            )
    return list(found)


def _given_back(found: Sequence[Any], several: bool, create_graph: bool) -> Any:
    kept = tuple(x if create_graph else x.detach() for x in found)
    return kept if several else kept[0]


@disable
def vjp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The function's value, and v times its Jacobian.

    Args:
        v: of the outputs' shapes; None for one output of one element.
        create_graph: results can be differentiated.
        strict: an output or input without influence is an error, not zeros.

    Raises:
        AutogradError: v does not fit; or see `strict`.
    """
    several, given = _tuple(inputs, "inputs")
    with enable_grad():
        tracked = _prepared(given, create_graph)
        several_out, outputs = _called(func, tracked)
        vectors = _vectors(v, outputs, several_out, "the user-provided function's output")
        found = reverse(outputs, tracked, vectors, create_graph, missing=strict)
        _check_dependence(outputs, found, strict)
    return (
        _given_back(outputs, several_out, create_graph),
        _given_back(found, several, create_graph),
    )


@disable
def jvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The function's value, and its Jacobian times v, which is computed along with it.

    Args: as of `vjp`; v is of the inputs' shapes.
    """
    _, given = _tuple(inputs, "inputs")
    with enable_grad():
        tracked = _prepared(given, create_graph)
        vectors = _vectors(v, given, len(given) > 1, "the input")
        several_out, outputs, found = _pushed(func, tracked, vectors, strict)
    return (
        _given_back(outputs, several_out, create_graph),
        _given_back(found, several_out, create_graph),
    )


@disable
def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian: of shape (*output.shape, *input.shape), nested by outputs, then by inputs.

    Args:
        create_graph, strict: as of `vjp`.
        strategy: "reverse-mode", row by row, or "forward-mode", column by column.
        vectorize: has no effect: they are computed one after the other.

    Raises:
        ArgumentValueError: another strategy.
        UnsupportedError: "forward-mode" with `create_graph` or `strict`.
    """
    several, given = _tuple(inputs, "inputs")
    if _is_forward(strategy, create_graph=create_graph, strict=strict):
        with enable_grad():
            return _jacobian_by_columns(func, given, several)
    with enable_grad():
        tracked = _prepared(given, create_graph)
        several_out, outputs = _called(func, tracked)
        if strict:
            probe = reverse(
                outputs,
                tracked,
                [functions.ones_like(y) for y in outputs],
                False,
                True,
                missing=True,
            )
            _check_dependence(outputs, probe, strict)
        rows = [
            _given_back(jacobian_of(y, tracked, create_graph), several, create_graph)
            for y in outputs
        ]
    return tuple(rows) if several_out else rows[0]


def _is_forward(strategy: str, **options: bool) -> bool:
    """Whether a Jacobian is computed in forward mode, which takes no options."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ArgumentValueError(
            f"jacobian: Expected strategy to be either 'forward-mode' or 'reverse-mode', got "
            f"{strategy!r}."
        )
    for name, is_set in options.items():
        if is_set and strategy == "forward-mode":
            raise UnsupportedError(
                f'jacobian: `{name}=True` and `strategy="forward-mode"` are not supported together.'
                '  Use "reverse-mode".'
            )
    return strategy == "forward-mode"


def _jacobian_by_columns(func: Callable[..., Any], given: Sequence[Tensor], several: bool) -> Any:
    """The Jacobian in forward mode: a call for each element of the inputs."""
    tracked = _prepared(given, False)
    several_out, outputs, _ = _pushed(func, tracked, [None] * len(given), False)
    columns: list[list[list[Tensor]]] = [[[] for _ in given] for _ in outputs]
    for place, x in enumerate(given):
        for unit in functions.eye(x.numel(), dtype=x.dtype, device=x.device):
            vectors = [unit.reshape(x.shape) if i == place else None for i in range(len(given))]
            _, _, found = _pushed(func, tracked, vectors, False)
            for k, tangent in enumerate(found):
                columns[k][place].append(tangent.detach())
    rows = []
    for y, parts in zip(outputs, columns, strict=True):
        shaped = [
            (functions.stack(part, dim=-1) if part else y.new_zeros((*y.shape, 0))).reshape(
                (*y.shape, *x.shape)
            )
            for part, x in zip(parts, given, strict=True)
        ]
        rows.append(tuple(shaped) if several else shaped[0])
    return tuple(rows) if several_out else rows[0]


def _require_scalar(outputs: Sequence[Tensor], several: bool) -> Tensor:
    if several or outputs[0].numel() != 1:
        raise AutogradError(
            "The output of the user-provided function should be a single Tensor with a single "
            "element"
        )
    value: Tensor = outputs[0].reshape(())
    return value


@disable
def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function with one value: nested by inputs, twice.

    Args: as of `jacobian`; the outer strategy is that of the gradient's Jacobian.

    Raises:
        AutogradError: the function has another value than one number.
    """
    several, _ = _tuple(inputs, "inputs")

    def gradient(*tracked: Tensor) -> Any:
        several_out, outputs = _called(func, tracked)
        value = _require_scalar(outputs, several_out)
        found = reverse([value], tracked, [functions.ones_like(value)], True, missing=strict)
        _check_dependence(outputs, found, strict)
        return tuple(found) if several else found[0]

    return jacobian(gradient, inputs, create_graph, strategy=outer_jacobian_strategy)


@disable
def vhp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The function's value, and v times its Hessian.

    Args: as of `vjp`; v is of the inputs' shapes.
    """
    several, given = _tuple(inputs, "inputs")
    with enable_grad():
        vectors = _vectors(v, given, several, "the input")
        tracked = _prepared(given, create_graph)
        several_out, outputs = _called(func, tracked)
        value = _require_scalar(outputs, several_out)
        gradients = reverse([value], tracked, [functions.ones_like(value)], True, missing=strict)
        _check_dependence(outputs, gradients, strict)
        found = reverse(gradients, tracked, vectors, create_graph, retain_graph=True)
    return _given_back(outputs, False, create_graph), _given_back(found, several, create_graph)


@disable
def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The function's value, and its Hessian, which is symmetric, times v; as `vhp`."""
    return vhp(func, inputs, v, create_graph, strict)


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

late.show(__name__)
