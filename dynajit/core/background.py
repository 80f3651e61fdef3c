"""Work beside the caller, which a process finishes before it ends.

Contract: `start` returns at once where it can. The executors of `concurrent.futures` take no work
any more once a process begins to end, and work that is under way then may need to start more.
Called by `codegen`, which waits for compilers, and by `dynajit.launches`.
"""

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


def start(work: Callable[..., T], *arguments: Any) -> "Future[T]":
    """The result of `work(*arguments)`, to be, from a thread that sees the caller's configuration.

    Where no thread can be started the work is done here: CPython 3.12 starts none once the main
    thread has ended.
    """
    context, future = contextvars.copy_context(), Future[T]()

    def run() -> None:
        try:
            future.set_result(context.run(work, *arguments))
        except BaseException as error:  # whoever asks for the result gets it
            future.set_exception(error)

    try:
        threading.Thread(target=run).start()
    except RuntimeError:
        run()
    return future
