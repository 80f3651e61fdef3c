"""Random numbers in mapped functions: the same for all samples, or other ones for each.

Contract: within `drawing`, in its thread, library functions that draw get from `reserve_random`
what `randomness` says. For numbers of its own each sample needs a part of the stream: as many
blocks are reserved as all samples take, and the seed is a `SampleSeed`, by which the row comes to
the handler of tensors that hold samples, which draws for all of them at once.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dynajit.core.types.device import CPU, Device
from dynajit.eager.modes.random import default_generator
from dynajit.eager.operations.execute import handle
from dynajit.ops.table import dispatch


class SampleSeed(int):
    """The seed of a row that draws for each sample; a number for whoever looks at it. Mutable: it
    gets its fields once.
    """

    _level: Any
    _batch: Any

    @property
    def __dynajit_priority__(self) -> float:
        priority: float = self._level.priority
        return priority

    @property
    def __dynajit_handler__(self) -> dispatch.Handler:
        handler: dispatch.Handler = self._level.handler
        return handler


@contextmanager
def drawing(level: Any, randomness: str) -> Iterator[None]:
    """A block in which random numbers are drawn as `randomness` says: see `vmap`."""
    outer = dispatch.reserving()

    def reserve(blocks: Any, device: Device = CPU) -> tuple[Any, Any, Any]:
        if randomness == "error":
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use "
                "the 'same' or 'different' randomness flags on vmap or perform the randomness "
                "operation out of vmap"
            )
        if level.drawn_from is None:
            level.drawn_from = default_generator.get_state()
        if randomness == "same":
            return outer(blocks, device)
        seed, offset, shift = outer(blocks * level.count, device)
        own = SampleSeed(int(seed))
        own._level, own._batch = level, seed
        return own, offset, shift

    with dispatch.recording(handle, reserve, is_run=True):
        yield
