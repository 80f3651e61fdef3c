"""Checks of the options that optimisers share, and names that programs import from PyTorch's.

Contract: values that cannot be right are ValueErrors with PyTorch's texts; options that choose one
of PyTorch's implementations (`foreach`, `fused`, `capturable`) are accepted, since they change no
number, and `differentiable=True` is refused by name.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from dynajit.core.errors import InvalidValueError, UnsupportedError
from dynajit.core.types.dtypes import DType, default_floating, float32, float64
from dynajit.eager.modes.grad_mode import is_grad_enabled, set_grad_enabled
from dynajit.eager.tensor.tensor import Tensor

_SPOKEN = {"lr": "learning rate", "eps": "epsilon value"}


def check_options(**values: Any) -> None:
    """Refuse negative options, and learning rates of several numbers.

    Raises:
        InvalidValueError: an option is negative or NaN, or `lr` has more than one element.
    """
    for name, value in values.items():
        if isinstance(value, Tensor) and value.numel() != 1:
            raise InvalidValueError(f"Tensor {name} must be 1-element")
        if not value >= 0.0:
            raise InvalidValueError(f"Invalid {_SPOKEN.get(name, name + ' value')}: {value}")


def check_betas(betas: Any) -> None:
    """Refuse decays outside of [0, 1).

    Raises:
        InvalidValueError: a decay is out of range.
        UnsupportedError: a decay is a tensor.
    """
    for number in (0, 1):
        if isinstance(betas[number], Tensor):
            raise UnsupportedError(
                f"betas[{number}] is a tensor: decays are numbers here.  "
                f"Pass betas[{number}].item()."
            )
        if not 0.0 <= betas[number] < 1.0:
            raise InvalidValueError(f"Invalid beta parameter at index {number}: {betas[number]}")


def check_implementation(options: dict[str, Any]) -> None:
    """Refuse what the options about PyTorch's implementations cannot mean together.

    Raises:
        InvalidValueError: `foreach` with a tensor as learning rate.
        UnsupportedError: `differentiable=True`.
        RuntimeError: `fused` with `foreach` or `differentiable`.
    """
    if options.get("fused") and options.get("differentiable"):
        raise RuntimeError("`fused` does not support `differentiable`")
    if options.get("fused") and options.get("foreach"):
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    if options.get("differentiable"):
        raise UnsupportedError(
            "differentiable=True: steps are not recorded by autograd here.  Leave it out, or write "
            "the update of the parameters as a function of them."
        )
    if not isinstance(options["lr"], Tensor):
        return
    if options.get("foreach") and not options.get("capturable"):
        raise InvalidValueError(
            "lr as a Tensor is not supported for capturable=False and foreach=True"
        )


class RequiredParameter:
    """The class of `required`: the default of an option that every group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = RequiredParameter()


def _use_grad_for_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """A `step` whose writes are recorded only where `defaults["differentiable"]` says so."""

    @wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        before = is_grad_enabled()
        set_grad_enabled(args[0].defaults.get("differentiable", False))
        try:
            return function(*args, **kwargs)
        finally:
            set_grad_enabled(before)

    return step


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[..., Any]:
    """A decorator that changes nothing: captures need no exception for optimisers."""
    return lambda function: function


def _get_value(x: Tensor | float) -> Any:
    """The number in a tensor; a number as it is."""
    return x.item() if isinstance(x, Tensor) else x


def _to_scalar(x: Tensor | float) -> Any:
    """A tensor of one element as a zero-dimensional one; a number as it is."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() else x


def _dispatch_sqrt(x: Tensor | float) -> Any:
    """The root of a tensor or of a number."""
    return x.sqrt() if isinstance(x, Tensor) else x**0.5


def _stack_if_compiling(x: Tensor | float) -> Any:
    """`x` as it is."""
    return x


def _get_scalar_dtype(is_fused: Any = None) -> DType:
    """The dtype in which steps are counted: float64 where that is the default one, else float32."""
    return float64 if default_floating() is float64 else float32


def _default_to_fused_or_foreach(
    params: Any, differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """(fused, foreach): tensors on the CPU take neither by themselves."""
    return False, False


def _view_as_real(params: Any, *state_and_grads: Any) -> None:
    """Nothing to do for real parameters.

    Raises:
        UnsupportedError: a parameter is complex.
    """
    if any(parameter.is_complex() for parameter in params):
        raise UnsupportedError("optimisers take real parameters: a complex one was given")


_params_doc = "params (iterable): parameters, groups of them, or pairs of a name and one."
_foreach_doc = "foreach (bool, optional): accepted; it changes no result (default: None)."
_fused_doc = "fused (bool, optional): accepted; it changes no result (default: None)."
_capturable_doc = "capturable (bool, optional): accepted; it changes no result (default: False)."
_differentiable_doc = "differentiable (bool, optional): autograd records the step (default: False)."
_maximize_doc = "maximize (bool, optional): ascend in place of descending (default: False)."
