"""`vmap`: a function of one sample, applied to a batch of them.

Contract: as `torch.vmap`: `eager.samples.mapping` calls the function once, for all samples. What
PyTorch refuses in mapped functions because it has no single sample (`item()`, conditions on values)
works here: the function is then called once per sample. A write to a tensor that all samples share
is refused. `dynajit.func` publishes it.
"""

from collections.abc import Callable
from typing import Any, Final

from dynajit.core.errors import InvalidValueError
from dynajit.eager.samples.mapping import called

RANDOMNESS: Final = ("error", "different", "same")


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that applies `func` to every sample of its arguments.

    Args:
        func: takes single samples, returns a tensor or a nest of them.
        in_dims: which dim of a positional argument holds the samples: a number for all of them, or
            a nest that fits the arguments, or their outer parts; None: every sample gets all of
            it. So it is with keyword arguments.
        out_dims: where results have the dim of samples: a number, or a nest that fits what `func`
            returns; None: `func` returns what does not depend on the sample, once.
        randomness: "different" random numbers for each sample, the "same" for all, or an "error".
        chunk_size: has no effect: all samples are computed at once.

    Returns:
        a function of whole batches; its results have the gradients of `func`'s.

    Raises:
        ValueError: dims that do not fit what they stand for, different numbers of samples,
            results that are no tensors.
        RuntimeError: `func` draws random numbers under "error", or writes to a tensor that is no
            sample and that it did not make; another `randomness`.
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. "
            f"Got {randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise InvalidValueError(
            f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})"
        )

    def mapped(*args: Any, **kwargs: Any) -> Any:
        return called(func, in_dims, out_dims, randomness, args, kwargs)

    return mapped


__all__ = ["vmap"]
