"""Utilities on parameters: clipping of gradients, and all parameters as one vector."""

import math
import warnings
from collections.abc import Iterable
from typing import Any

from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions import cat, stack


def _all_of(tensors: Any) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: Any) -> list[Tensor]:
    return [each.grad for each in _all_of(parameters) if each.grad is not None]


def _together(norms: list[Any]) -> list[Any]:
    """Norms as they may be stacked: those of tensors on several meshes, or on one and none, as
    plain tensors."""
    if len({getattr(norm, "device_mesh", None) for norm in norms}) < 2:
        return norms
    return [norm.full_tensor() if hasattr(norm, "full_tensor") else norm for norm in norms]


def get_total_norm(
    tensors: Any,
    norm_type: float | str = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Norm of all elements of a tensor or several, a zero-dim tensor.

    Args:
        tensors: a tensor or several.
        norm_type: the norm's order, `inf` or "inf" for the largest magnitude.
        error_if_nonfinite: refuse a norm that is not finite.
        foreach: how PyTorch goes about it; there is one way here.

    Raises:
        RuntimeError: the norm is not finite and `error_if_nonfinite`.
    """
    order, listed = float(norm_type), _all_of(tensors)
    if not listed:
        return tensor(0.0)
    with no_grad():
        total = stack(_together([each.norm(order) for each in listed])).norm(order)
        if error_if_nonfinite and not math.isfinite(total.item()):
            raise RuntimeError(
                f"The total norm of order {order} for gradients is non-finite, so it cannot "
                "be clipped.  Pass error_if_nonfinite=False to scale anyway."
            )
    return total


def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients in place by max_norm / total_norm where that is below 1."""
    with no_grad():
        scale = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
        for gradient in _gradients(parameters):
            gradient.mul_(scale)


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float | str = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients in place so that their common norm is at most `max_norm`.

    Args:
        parameters: a tensor or several; those without `.grad` are passed over.
        max_norm: largest norm that is left as it is.
        norm_type: the norm's order, `inf` or "inf" for the largest magnitude.
        error_if_nonfinite: refuse a norm that is not finite.
        foreach: how PyTorch goes about it; there is one way here.

    Returns:
        The norm before clipping, a zero-dim tensor.

    Raises:
        RuntimeError: the norm is not finite and `error_if_nonfinite`.
    """
    listed = _all_of(parameters)
    parts = next((each for each in listed if hasattr(type(each), "total_norm_of")), None)
    if parts is None:
        total = get_total_norm(_gradients(listed), norm_type, error_if_nonfinite)
    else:  # parts of parameters: other processes have the others
        total = parts.total_norm_of(listed, float(norm_type), error_if_nonfinite)
    clip_grads_with_norm_(listed, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Any,
    max_norm: float,
    norm_type: float | str = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """`clip_grad_norm_` by its older name, with a warning."""
    warnings.warn(
        "`nn.utils.clip_grad_norm` is deprecated in favour of `nn.utils.clip_grad_norm_`.",
        category=FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp gradients in place to [-clip_value, clip_value]; `foreach` has no effect."""
    with no_grad():
        for gradient in _gradients(parameters):
            gradient.clamp_(-clip_value, clip_value)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, flattened, one after the other: shape (total,)."""
    return cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the pieces of a vector of shape (total,) into the parameters."""
    start = 0
    for parameter in parameters:
        end = start + parameter.numel()
        parameter.data = vec[start:end].view(parameter.shape).data
        start = end
