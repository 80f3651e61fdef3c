"""`cupyx` of the stand-in: the error state of linear algebra, special functions."""

import contextlib
import threading


class _State(threading.local):
    linalg = "ignore"


_state = _State()


def geterr():
    return {"divide": None, "over": None, "under": None, "invalid": None, "linalg": _state.linalg}


@contextlib.contextmanager
def errstate(*, divide=None, over=None, under=None, invalid=None, linalg=None):
    if linalg not in (None, "ignore", "raise"):
        raise NotImplementedError
    before = _state.linalg
    _state.linalg = linalg or before
    try:
        yield
    finally:
        _state.linalg = before
