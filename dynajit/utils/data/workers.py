"""The worker processes of a loader, seen from the process that has the loader.

Contract: batches come in the order of their indices (or as they arrive), what a worker raises is
raised here, and a worker that dies is an error. Workers, pipes and shared blocks are gone when the
iterator ends, is dropped, or the interpreter exits.
"""

import os
import secrets
import signal
import time
import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from multiprocessing import connection, resource_tracker
from typing import Any, Final

from dynajit.utils.data import handover
from dynajit.utils.data.fetching import BatchIterator
from dynajit.utils.data.pinning import pin_memory
from dynajit.utils.data.worker import Ask, Batch, Exhausted, Failure, Restart, Task, run

GRACE_S: Final = 5.0  # for a worker to end by itself


class _Worker:
    """One process and this end of its pipe. Mutable: what it was asked for, whether it has more."""

    def __init__(self, context: Any, task: Task, others: list[Any]) -> None:
        self.pipe, theirs = context.Pipe()
        inherited = [*others, self.pipe] if context.get_start_method() == "fork" else []
        self.process = context.Process(target=run, args=(task, theirs, inherited), daemon=True)
        self.pending: deque[int] = deque()
        self.has_more = True
        try:
            with warnings.catch_warnings():
                # Python warns of a fork beside threads: the child computes alone
                warnings.simplefilter("ignore", DeprecationWarning)
                self.process.start()
        except BaseException:
            self.pipe.close()
            raise
        finally:
            theirs.close()


class Crew:
    """All workers of an iterator. Mutable: workers end."""

    def __init__(self, context: Any, tasks: list[Task]) -> None:
        resource_tracker.ensure_running()  # workers share it: blocks are registered once
        self.workers: list[_Worker] = []
        self._owner = os.getpid()
        self._token = f"{os.getpid()}_{secrets.token_hex(4)}"
        try:
            for task in tasks:
                others = [worker.pipe for worker in self.workers]
                self.workers.append(_Worker(context, task, others))
        except BaseException:
            self.end()
            raise

    def block_name(self, number: int) -> str:
        """The name of the shared block of a batch."""
        return f"dj_{self._token}_{number}"

    def ask(self, worker: _Worker, number: int, index: Any) -> None:
        """Have a worker fetch a batch.

        Raises:
            RuntimeError: it is dead.
        """
        worker.pending.append(number)
        self._send(worker, Ask(number, index, self.block_name(number)))

    def restart(self) -> None:
        """Have all workers begin again; what they were asked for is dropped."""
        while any(worker.pending for worker in self.workers):
            message = self.receive(None)
            if isinstance(message, Batch):
                handover.forget(self.block_name(message.number))
        for worker in self.workers:
            worker.has_more = True
            self._send(worker, Restart())

    def _send(self, worker: _Worker, message: Any) -> None:
        try:
            worker.pipe.send(message)
        except OSError as error:
            raise self._death([worker]) from error

    def receive(self, timeout: float | None) -> Any:
        """The next message of any worker, taken off what that worker was asked for.

        Raises:
            RuntimeError: nothing came in time, or a worker is dead.
        """
        asked = {worker.pipe: worker for worker in self.workers if worker.pending}
        sentinels = {worker.process.sentinel: worker for worker in asked.values()}
        ready = connection.wait([*asked, *sentinels], timeout)
        if not ready:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
        for pipe in ready:
            worker = asked.get(pipe)
            if worker is not None:
                return self._received(worker)
        dead = [sentinels[sentinel] for sentinel in ready]
        for worker in dead:
            if worker.pipe.poll():  # it answered before it died
                return self._received(worker)
        raise self._death(dead)

    def _received(self, worker: _Worker) -> Any:
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError) as error:
            raise self._death([worker]) from error
        worker.pending.remove(message.number)
        if isinstance(message, Exhausted):
            worker.pending.clear()  # it answers nothing more
            worker.has_more = False
        return message

    def _death(self, dead: list[_Worker]) -> RuntimeError:
        for worker in dead:
            worker.process.join(GRACE_S)
        pids = ", ".join(str(worker.process.pid) for worker in dead)
        reasons = ", ".join(_end_of(worker.process.exitcode) for worker in dead)
        return RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly ({reasons})")

    def end(self) -> None:
        """End all workers and remove what they left; in a forked child nothing is done."""
        if os.getpid() != self._owner:
            return
        workers, self.workers = self.workers, []
        for worker in workers:
            _try_to_send_end(worker)
        _drain(workers)
        for worker in workers:
            _stop(worker.process)
            worker.pipe.close()
            for number in worker.pending:
                handover.forget(self.block_name(number))


def _end_of(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by signal: {signal.Signals(-code).name}"
    return f"exit code {code}"


def _try_to_send_end(worker: _Worker) -> None:
    try:
        worker.pipe.send(None)
    except OSError:
        return  # it is dead


def _drain(workers: list[_Worker]) -> None:
    """Read what comes until all have ended: a worker may be waiting for room in its pipe."""
    end = time.monotonic() + GRACE_S
    alive = {worker.process.sentinel: worker for worker in workers}
    pipes = {worker.pipe: worker for worker in workers}
    while alive and (left := end - time.monotonic()) > 0:
        for ready in connection.wait([*alive, *pipes], left):
            if ready in pipes:
                _discard(ready, pipes)
            elif ready in alive:
                pipes.pop(alive.pop(ready).pipe, None)


def _discard(pipe: Any, pipes: dict[Any, _Worker]) -> None:
    try:
        pipe.recv_bytes()
    except (EOFError, OSError):
        pipes.pop(pipe)


def _stop(process: Any) -> None:
    for stop in (process.terminate, process.kill):
        if process.is_alive():
            stop()
            process.join(GRACE_S)
    process.join()
    process.close()


class WorkerIterator(BatchIterator):
    """Batches that workers fetch. Mutable: an iterator.

    Args:
        context: of `multiprocessing`.
        tasks: one per worker.
        ahead: batches that are asked for before they are wanted, per worker.
        timeout: seconds to wait for a batch, or None.
        in_order: give batches in the order of their indices.
        persistent: keep the workers at the end; `restart` begins again.
    """

    def __init__(
        self,
        context: Any,
        tasks: list[Task],
        *,
        ahead: int,
        timeout: float | None,
        in_order: bool,
        persistent: bool,
        pins: bool,
    ) -> None:
        self._crew = Crew(context, tasks)
        self._end = weakref.finalize(self, self._crew.end)
        self._ahead = ahead
        self._timeout = timeout
        self._in_order = in_order
        self._persistent = persistent
        self._pins = pins
        self._sent = 0  # number of the next batch to ask for
        self._turn = 0  # worker that is asked next
        self._expected: deque[int] = deque()  # numbers that will come, in order
        self._arrived: dict[int, Any] = {}
        self._indices: Iterator[Any] = iter(())

    @property
    def processes(self) -> list[Any]:
        """The worker processes."""
        return [worker.process for worker in self._crew.workers]

    def start(self, indices: Iterator[Any]) -> None:
        """Ask for the first batches."""
        self._indices = indices
        for _ in range(self._ahead * len(self._crew.workers)):
            self._ask_for_one()

    def restart(self, indices: Iterator[Any]) -> None:
        """Begin again with workers that were kept; what was under way is dropped."""
        self._drop_batches()
        self._guarded(self._crew.restart)
        self._turn = 0
        self.start(indices)

    def __next__(self) -> Any:
        while self._expected:
            number = self._next_to_give()
            if number is not None:
                return self._given(number)
            self._guarded(self._take)
        if not self._persistent:
            self.close()
        raise StopIteration

    def close(self) -> None:
        """End the workers."""
        self._drop_batches()
        self._end()

    def _drop_batches(self) -> None:
        for message in self._arrived.values():
            if isinstance(message, Batch):
                handover.forget(self._crew.block_name(message.number))
        self._arrived.clear()
        self._expected.clear()

    def __del__(self) -> None:
        if hasattr(self, "_end") and self._end.alive:
            self.close()

    def _guarded(self, step: Any) -> None:
        """Do a step; end the workers where one of them is dead or too slow."""
        try:
            step()
        except RuntimeError:
            self.close()
            raise

    def _next_to_give(self) -> int | None:
        if self._in_order:
            return self._expected[0] if self._expected[0] in self._arrived else None
        return next(iter(self._arrived), None)

    def _given(self, number: int) -> Any:
        self._expected.remove(number)
        self._guarded(self._ask_for_one)  # where that fails, `close` removes the block, too
        message = self._arrived.pop(number)
        if isinstance(message, Failure):
            raise message.again()
        name = self._crew.block_name(message.number)
        batch = handover.unpacked(message.data, name, message.has_block, self._pins)
        return pin_memory(batch) if self._pins else batch

    def _take(self) -> None:
        message = self._crew.receive(self._timeout)
        if not isinstance(message, Exhausted):
            self._arrived[message.number] = message
            return
        coming = {number for worker in self._crew.workers for number in worker.pending}
        self._expected = deque(n for n in self._expected if n in coming or n in self._arrived)
        self._ask_for_one()

    def _ask_for_one(self) -> None:
        worker = self._next_worker()
        if worker is None:
            return
        try:
            index = next(self._indices)
        except StopIteration:
            return
        self._expected.append(self._sent)
        self._crew.ask(worker, self._sent, index)
        self._sent += 1

    def _next_worker(self) -> _Worker | None:
        """Workers take turns; where order does not count, who has least to do is first."""
        workers = self._crew.workers
        places = [(self._turn + i) % len(workers) for i in range(len(workers))]
        places = [place for place in places if workers[place].has_more]
        if not places:
            return None
        place = places[0]
        if not self._in_order:
            place = min(places, key=lambda p: len(workers[p].pending))
        self._turn = (place + 1) % len(workers)
        return workers[place]
