"""What a worker process of a loader does: it fetches the batches that it is asked for.

Contract: messages to a worker are `Ask`, `Restart` and None (end); it answers each `Ask` with a
`Batch`, a `Failure` or an `Exhausted`, in order, and none after `Exhausted` until a restart. A
worker whose parent has died ends at once.
"""

import multiprocessing
import os
import queue
import random
import threading
import traceback
from collections.abc import Callable
from dataclasses import field
from multiprocessing import connection
from typing import Any

import numpy as np

from dynajit.core.process.threads import set_num_threads
from dynajit.core.records import record
from dynajit.eager.modes.random import manual_seed
from dynajit.utils.data import handover
from dynajit.utils.data.fetching import IterableFetcher, made_fetcher

_SEED_WORDS = 4  # of 32 bits, for NumPy's generator


@record
class WorkerInfo:
    """What a worker knows about itself.

    Args:
        id: its number, from 0.
        num_workers: how many there are.
        seed: what its random generators were seeded with.
        dataset: this process's copy of the data set.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any = field(repr=False)


@record
class Task:
    """All that a worker needs to start."""

    id: int
    num_workers: int
    base_seed: int
    dataset: Any
    batched: bool
    collate: Callable[[Any], Any]
    drop_last: bool
    initialize: Callable[[int], Any] | None
    own_order: bool = False


@record
class Ask:
    """Fetch the batch of these indices; large arrays go to a block of this name."""

    number: int
    index: Any
    block_name: str


@record
class Restart:
    """Begin the data set again."""


@record
class Batch:
    """A batch as `handover.packed` gave it."""

    number: int
    data: bytes
    has_block: bool


@record
class Exhausted:
    """The worker's data set has ended; it answers nothing more until a restart."""

    number: int


@record
class Failure:
    """What a worker raised: the class, or None where it cannot be pickled, and the traceback."""

    number: int
    kind: type[BaseException] | None
    name: str
    text: str
    where: str

    def again(self) -> BaseException:
        """The same exception for who asked, with the worker's traceback in its text."""
        message = f"Caught {self.name} {self.where}.\nOriginal {self.text}"
        if self.kind is None:
            return RuntimeError(message)
        if issubclass(self.kind, KeyError):
            return self.kind(_Verbatim(message))
        try:
            return self.kind(message)
        except Exception:  # its constructor wants something else
            return RuntimeError(message)


class _Verbatim(str):
    """A text whose representation is itself: KeyError shows representations."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


_here: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a loader, what it is; None in every other process."""
    return _here


def failure(number: int, error: BaseException, worker: int) -> Failure:
    """An exception as a message."""
    kind: type[BaseException] | None = type(error)
    try:
        handover.packed(kind, "")
    except Exception:  # a class of a function's scope has no name that others could look up
        kind = None
    text = "".join(traceback.format_exception(error))
    where = f"in DataLoader worker process {worker}"
    return Failure(number, kind, type(error).__name__, text, where)


def run(task: Task, pipe: Any, others: list[Any]) -> None:
    """Serve until the end is asked for; the main function of a worker process.

    Args:
        pipe: this end of the pipe to who asks.
        others: ends that only the parent should have: a fork brings them along.
    """
    for end in others:
        end.close()
    asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, asked), daemon=True).start()
    try:
        _serve(task, pipe, asked)
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        return  # the parent says what happened


def _listen(pipe: Any, asked: Any) -> None:
    """Take messages at once, so that who asks never waits; end with the parent."""
    parent = multiprocessing.parent_process()
    watched = [pipe] if parent is None else [pipe, parent.sentinel]
    while True:
        if pipe not in connection.wait(watched):
            os._exit(1)
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            os._exit(1)
        asked.put(message)
        if message is None:
            return


def _seed(task: Task) -> int:
    """Seed Python's, NumPy's and the library's generators; each worker has its own numbers."""
    seed = task.base_seed + task.id
    random.seed(seed)
    manual_seed(seed)
    np.random.seed(np.random.SeedSequence(seed).generate_state(_SEED_WORDS))
    return seed


def _serve(task: Task, pipe: Any, asked: Any) -> None:
    global _here
    set_num_threads(1)
    _here = WorkerInfo(task.id, task.num_workers, _seed(task), task.dataset)
    fetcher, broken = _started(task, first=True)
    ended = False
    while (message := asked.get()) is not None:
        if isinstance(message, Restart):
            fetcher, broken = _started(task, first=False)
            ended = False
            continue
        if ended:
            continue
        if broken is not None:
            pipe.send(failure(message.number, broken, task.id))
            continue
        answer = _answer(message, fetcher, task)
        ended = isinstance(answer, Exhausted)
        pipe.send(answer)


def _started(task: Task, first: bool) -> tuple[Any, BaseException | None]:
    """(fetcher, None), or (None, what went wrong), which is told with the first batch."""
    try:
        if first and task.initialize is not None:
            task.initialize(task.id)
        return _fetcher_of(task), None
    except Exception as error:
        return None, error


def _fetcher_of(task: Task) -> Any:
    return made_fetcher(
        task.dataset, task.batched, task.collate, task.drop_last, task.own_order or None
    )


def _answer(message: Ask, fetcher: Any, task: Task) -> Any:
    try:
        data, has_block = handover.packed(fetcher(message.index), message.block_name)
        return Batch(message.number, data, has_block)
    except StopIteration as error:
        if isinstance(fetcher, IterableFetcher):
            return Exhausted(message.number)
        return failure(message.number, error, task.id)
    except Exception as error:
        return failure(message.number, error, task.id)
