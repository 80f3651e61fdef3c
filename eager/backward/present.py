"""The backward that runs in this thread: what it goes to, what is called when it has ended, and the
modes in which its formulas run.

Contract: one backward may run within another, from a hook or a formula; callbacks are those of the
outermost one, and the modes of the program are as before when a block is left.
"""

import threading
from collections.abc import Callable
from typing import Any

from dynajit.core.errors import AutogradError
from dynajit.eager._tensor import _set_grad_enabled
from dynajit.eager.modes.autocast_mode import _autocast_word, _set_autocast_word
from dynajit.eager.operations.execute import eager_dispatch
from dynajit.ops.calls.autocast_words import CUDA_ENABLED


class _Present(threading.local):
    """The backward that runs in this thread. Mutable."""

    partial = False
    run: Any = None
    callbacks: list[Callable[[], object]] | None = None


_present = _Present()


def queue_callback(callback: Callable[[], object]) -> None:
    """Call it when the backward that runs in this thread, the outermost one, has ended well.

    Raises:
        AutogradError: none runs.
    """
    if _present.callbacks is None:
        raise AutogradError(
            "Final callbacks can only be installed during backward pass: call queue_callback in a "
            "hook."
        )
    _present.callbacks.append(callback)


def is_partial() -> bool:
    """Whether the backward that runs now goes to given inputs only, not to every leaf."""
    return _present.partial


def run_of_thread() -> Any:
    """The innermost backward that runs now in this thread, of `engine`; None: none does."""
    return _present.run


def is_running() -> bool:
    """Whether a backward runs now in this thread."""
    return _present.callbacks is not None


class formulas_mode:
    """Grad mode on or off, and eager dispatch, while formulas run, on a GPU in the dtypes of the
    forward pass whatever autocast says. Mutable: one use."""

    def __init__(self, create_graph: bool, partial: bool, run: Any) -> None:
        self.create_graph = create_graph
        self.run = run
        self.partial = partial
        self.callbacks: list[Callable[[], object]] | None = None
        self.dispatch = eager_dispatch()

    def __enter__(self) -> "formulas_mode":
        self.dispatch.__enter__()
        self.word = _autocast_word()
        _set_autocast_word(self.word & ~CUDA_ENABLED)
        self.before = _set_grad_enabled(self.create_graph)
        self.partial, _present.partial = _present.partial, self.partial
        self.run, _present.run = _present.run, self.run
        self.callbacks = _present.callbacks
        if self.callbacks is None:
            _present.callbacks = []
        return self

    def end(self) -> None:
        """What was asked to be done at the end, if this is the outermost run."""
        while self.callbacks is None and _present.callbacks:
            _present.callbacks.pop(0)()

    def __exit__(self, *error: Any) -> None:
        _present.partial = self.partial
        _present.run = self.run
        _present.callbacks = self.callbacks
        _set_grad_enabled(self.before)
        _set_autocast_word(self.word)
        self.dispatch.__exit__(*error)
