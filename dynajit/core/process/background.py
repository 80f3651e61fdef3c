"""Work beside the caller, which a process finishes before it ends.

Contract: `start` and `start_yielding` return at once where they can. The executors of
`concurrent.futures` take no work any more once a process begins to end, and work that is under way
then may need to start more.
"""

import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


def start(work: Callable[..., T], *arguments: Any) -> "Future[T]":
    """The result of `work(*arguments)`, to be, from a thread that sees the caller's configuration.

    Where no thread can be started the work is done here: CPython 3.12 starts none once the main
    thread has ended.
    """

    def yielding() -> Iterator[T]:
        yield work(*arguments)

    return start_yielding(yielding)


def start_yielding(work: Callable[..., Iterator[T]], *arguments: Any) -> "Future[T]":
    """As `start`, of work that yields its result and then tidies up, for which nobody waits."""
    context, future = contextvars.copy_context(), Future[T]()

    def run() -> None:
        try:
            for result in work(*arguments):
                future.set_result(result)
        except BaseException as error:  # whoever asks for the result gets it
            if future.done():
                raise
            future.set_exception(error)

    try:
        threading.Thread(target=context.run, args=(run,)).start()
    except RuntimeError:
        context.run(run)
    return future
