"""Activation checkpointing: tensors that backward needs are computed again instead of kept.

Contract: results, gradients and random draws are those of the plain call. Where a compiled region
calls `checkpoint`, the function becomes part of the region: what backward computes again is decided
for the whole graph. Programs import this module by PyTorch's path; the work is done by
`eager.backward.recomputation`.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from dynajit.core.errors import DeviceError, InvalidValueError, UnsupportedError
from dynajit.core.process import late
from dynajit.core.types.device import Device
from dynajit.eager.backward.recomputation import CheckpointError, Reentrant, recomputed, tensors_in
from dynajit.eager.modes.random import Generator, generator_of
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.layers.containers import Sequential
from dynajit.ops.table.dispatch import is_recording

CheckpointFunction = Reentrant


def noop_context_fn() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Two contexts that do nothing: what `context_fn` is by default."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[..., Any] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`; what its backward needs is computed again in backward.

    Args:
        function: a callable that does the same in both runs.
        use_reentrant: False records the call and can be differentiated in every way; True runs it
            unrecorded, for `backward()` to all leaves only. None is True, with a warning.
        context_fn: gives two context managers, entered around the first and the second run.
        determinism_check: "default" compares shapes and dtypes of both runs, "none" does not.
        debug: has no effect.
        early_stop: has no effect: the second run goes to its end.
        preserve_rng_state: (by name) the second run draws the random numbers of the first; True.

    Raises:
        ValueError: unknown arguments, or such as only one of the variants takes.
        CheckpointError: (in backward) the second run was not like the first.
    """
    if use_reentrant is None:
        _warn("checkpoint")
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if determinism_check not in ("default", "none"):
        raise InvalidValueError(
            f"checkpoint(determinism_check={determinism_check!r}): expected 'default' or 'none'."
        )
    if use_reentrant and kwargs:
        raise InvalidValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if use_reentrant and (context_fn is not noop_context_fn or debug):
        raise InvalidValueError(
            "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
        )
    if is_recording():
        return function(*args, **kwargs)
    if use_reentrant:
        return Reentrant.apply(function, preserve, *args)
    return recomputed(
        function,
        args,
        kwargs,
        preserve_random=preserve,
        contexts=context_fn(),
        checks_metadata=determinism_check == "default",
    )


def _warn(name: str) -> None:
    warnings.warn(
        f"{name}: the use_reentrant parameter should be passed explicitly.  use_reentrant=False is "
        "recommended; without it, it is True.",
        stacklevel=3,
    )


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """A chain of functions, cut into segments of which all but the last are checkpointed.

    Args:
        functions: a Sequential, or a list of callables of one argument.
        segments: how many parts of equal length (the last takes the rest).
        input: what the first function takes.
        use_reentrant, preserve_rng_state: as in `checkpoint`.

    Raises:
        ValueError: unknown arguments.
    """
    if use_reentrant is None:
        _warn("checkpoint_sequential")
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise InvalidValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    chain = list(functions.children()) if isinstance(functions, Sequential) else list(functions)
    length = len(chain) // segments
    for part in range(segments - 1):
        input = checkpoint(
            _chained(chain[part * length : (part + 1) * length]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return _chained(chain[(segments - 1) * length :])(input)


def _chained(functions: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        for function in functions:
            value = function(value)
        return value

    return run


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The numbers of the GPUs that hold tensors among the arguments, and the states of their
    default generators."""
    places = {x.device for x in tensors_in(args) if x.is_cuda}
    numbers = sorted(place.index for place in places)
    return numbers, [_generator(number).get_state() for number in numbers]


def _generator(number: int) -> Generator:
    return generator_of(Device("cuda", number))


def set_device_states(
    devices: Sequence[int], states: Sequence[Any], *, device_type: str | None = None
) -> None:
    """Restore what `get_device_states` returned.

    Raises:
        DeviceError: there is no such GPU, or devices of another type are meant.
    """
    if device_type not in (None, "cuda"):
        raise DeviceError(
            f"set_device_states(device_type={device_type!r}): expected 'cuda', or nothing."
        )
    for number, state in zip(devices, states, strict=True):
        _generator(number).set_state(state)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same values; tensors without their history, as leaves that require what they did."""
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs
    )


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Has no effect: the second run goes to its end."""
    yield


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Has no effect."""
    yield


def create_selective_checkpoint_contexts(*args: Any, **kwargs: Any) -> Any:
    """Contexts that say per operation what is kept.

    Raises:
        UnsupportedError: there are none.
    """
    raise UnsupportedError(
        "create_selective_checkpoint_contexts: what is kept cannot be said per operation.  Put "
        "checkpoint() around the parts that shall be computed again."
    )


__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

late.show(__name__)
