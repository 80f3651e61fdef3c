"""Jacobians, Hessians and their products with vectors, of functions of tensors.

Contract: as `torch.autograd.functional`: a function takes one tensor or several, and returns one or
several; results have the nesting of inputs and outputs, and no history unless `create_graph`.
Compiled functions call them as plain Python.
"""

from collections.abc import Callable, Sequence
from typing import Any

from dynajit.autograd.products import forward, jacobian_of, reverse
from dynajit.capture.control import disable
from dynajit.core.errors import ArgumentError, AutogradError
from dynajit.core.process import late
from dynajit.eager.modes.grad_mode import enable_grad
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops import functions


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


def _check_dependence(outputs: Sequence[Tensor], products: Sequence[Any], strict: bool) -> None:
    if not strict:
        return
    for number, y in enumerate(outputs):
        if not y.requires_grad:
            raise AutogradError(
                f"Output {number} of the user-provided function does not require gradients. The "
                "outputs must be computed in a differentiable manner from the input when running "
                "in strict mode."
            )
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
    """The function's value, and its Jacobian times v, by two backward runs.

    Args: as of `vjp`; v is of the inputs' shapes.
    """
    _, given = _tuple(inputs, "inputs")
    with enable_grad():
        tracked = _prepared(given, create_graph)
        vectors = _vectors(v, given, len(given) > 1, "the input")
        several_out, outputs = _called(func, tracked)
        _check_dependence(outputs, (), strict)
        found = forward(outputs, tracked, vectors, create_graph)
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
        vectorize, strategy: have no effect: rows are computed one after the other.
    """
    several, given = _tuple(inputs, "inputs")
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

    Args: as of `jacobian`.

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

    return jacobian(gradient, inputs, create_graph)


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
