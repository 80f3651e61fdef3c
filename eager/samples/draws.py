"""Random numbers in mapped functions: the same for all samples, or other ones for each.

Contract: within `drawing`, in its thread, library functions that draw get from `reserve_random`
what `randomness` says. For numbers of its own each sample needs a part of the stream: as many
blocks are reserved as all samples take, and the seed is a `SampleSeed`, by which the row comes to
the handler of tensors that hold samples, which draws for all of them at once.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dynajit.core.types.device import CPU, META, Device
from dynajit.eager.modes.random import generator_of, reserve
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
    outer = dispatch.redirected()

    def take(blocks: Any, device: Device, generator: Any) -> tuple[Any, Any, Any]:
        if outer is not None:
            return outer(blocks, device, generator)
        if generator is None and device is META:
            return reserve(blocks, device)
        source = generator_of(device) if generator is None else generator
        level.note_draw(source)
        return (*source.reserve(int(blocks)), 0)

    def give(blocks: Any, device: Device = CPU, generator: Any = None) -> tuple[Any, Any, Any]:
        if randomness == "error":
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use "
                "the 'same' or 'different' randomness flags on vmap or perform the randomness "
                "operation out of vmap"
            )
        if randomness == "same":
            return take(blocks, device, generator)
        seed, offset, shift = take(blocks * level.count, device, generator)
        own = SampleSeed(int(seed))
        own._level, own._batch = level, seed
        return own, offset, shift

    with dispatch.recording(handle, give, is_run=True):
        yield
