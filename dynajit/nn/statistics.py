"""`batch_norm` and `instance_norm` of `nn.functional`: they write running statistics.

Contract: what capture inlines, unlike the library's functions: so it sees the writes, as it does
any write of the program's own. The arithmetic is `ops.rows.networks.batch_normalization`.
"""

from typing import Any

from dynajit.core.errors import ArgumentError, ArgumentRuntimeError, InvalidValueError
from dynajit.ops.calls.public import public
from dynajit.ops.rows.networks.batch_normalization import (
    moved_statistics,
    normalized_by,
    normalized_by_batch,
    normalized_by_instance,
)


@public("nn.functional")
def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Normalised per channel (dim 1) by the batch's statistics or by running ones.

    Args:
        input: (N, C, *), floating.
        running_mean, running_var: (C), or None: moved in training, used otherwise.
        weight, bias: (C), or None.
        momentum: share of the batch in the moved statistics.

    Raises:
        InvalidValueError: one value per channel in training.
        ShapeError: sizes that do not fit.
        ArgumentError: no statistics to use.
    """
    if not training:
        if running_mean is None or running_var is None:
            raise ArgumentRuntimeError(
                "batch_norm(training=False): expected running_mean and running_var to be given."
            )
        return normalized_by(input, running_mean, running_var, weight, bias, eps)
    if isinstance(eps, (int, float)) and eps <= 0:
        raise InvalidValueError(f"batch_norm: eps must be positive during training, but got {eps}.")
    result = normalized_by_batch(input, weight, bias, eps)
    _move(input, running_mean, running_var, momentum, False)
    return result


@public("nn.functional")
def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Normalised per instance and channel, by its own statistics or by running ones.

    Args:
        input: (N, C, *sizes), floating.
        running_mean, running_var: (C), or None: moved by the average over the batch, or used.
        weight, bias: (C), or None.
        use_input_stats: whose statistics.
        momentum: share of the batch in the moved statistics.

    Raises:
        InvalidValueError: one element per channel.
        ShapeError: sizes that do not fit.
        ArgumentError: no statistics to use.
    """
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise ArgumentError(
                "instance_norm: Expected running_mean and running_var to be defined when "
                "use_input_stats is false."
            )
        return normalized_by(input, running_mean, running_var, weight, bias, eps)
    result = normalized_by_instance(input, weight, bias, eps)
    _move(input, running_mean, running_var, momentum, True)
    return result


def _move(input: Any, mean: Any, var: Any, momentum: Any, per_instance: bool) -> None:
    if mean is None and var is None:
        return
    new_mean, new_var = moved_statistics(input, mean, var, momentum, per_instance)
    if mean is not None:
        mean.copy_(new_mean)
    if var is not None:
        var.copy_(new_var)
