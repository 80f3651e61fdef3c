"""The thread that moves works forward: it outlives the group whose works it knew."""

import threading
import time

from dynajit.distributed.channels.channel import DONE, Done, Request
from dynajit.distributed.work import Progress, Work


class Asked(Request):
    """A transfer that tells when somebody has asked for it."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def test(self) -> bool:
        self.asked.set()
        return True


def made(request: Request) -> Work:
    return Work(request, [], None, 60, "a test's")


def test_works_are_moved_forward_after_others_were_forgotten() -> None:
    """Also when the thread was just told of a work that is forgotten before it looks."""
    progress = Progress()
    first = Asked()
    progress.add(made(first))
    assert first.asked.wait(60)
    thread = progress._thread
    assert thread is not None
    with progress._wake:  # the thread wakes up when this is let go of
        progress.add(made(DONE))
        progress.forget()
    second = Asked()
    progress.add(made(second))
    assert second.asked.wait(60)
    assert thread.is_alive()


def test_a_forgotten_work_is_not_asked_for_again() -> None:
    class Never(Done):
        count = 0

        def test(self) -> bool:
            self.count += 1
            return False

    progress, never, last = Progress(), Never(), Asked()
    progress.add(made(never))
    while never.count < 2:
        time.sleep(0.001)
    progress.forget()
    progress.add(made(last))
    assert last.asked.wait(60)
    time.sleep(0.01)  # a round that had begun before has ended
    count = never.count
    time.sleep(0.05)
    assert never.count == count
