"""The autocast word of the calling thread (`ops.calls.autocast_words`): two primitives in C.

Contract: a word per thread; new threads start with 0, autocast off. `dynajit.eager` hands both to
`ops.calls.autocast`, and capture follows both.
"""

from dynajit.eager._tensor import _autocast_word, _set_autocast_word

__all__ = ["_autocast_word", "_set_autocast_word"]
