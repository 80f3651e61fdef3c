"""Losses of logits whose classes are spread over processes."""

import contextlib
from collections.abc import Iterator

from dynajit.distributed.tensor.running import implicit_replication


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """A block in which `cross_entropy` of logits that are split along their classes takes a plain
    tensor of targets, the same in every process; its backward is to run within, too.

    Logits are never joined, here or outside: each process looks targets up among its classes, and
    only maxima, sums and losses are sent, of the size of the targets. Weights of classes and smooth
    labels are those of one process.
    """
    with implicit_replication():
        yield


__all__ = ["loss_parallel"]
