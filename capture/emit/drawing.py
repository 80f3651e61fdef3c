"""Launches that draw random numbers from generators of NumPy's and of Python's.

Contract: a `Drawing` is called with generators in place of their states. It holds their locks while
the launch runs, so that no other thread draws the same numbers, and has them in the state that the
launch has left afterwards. Where the launch raises, they are as they were, and so they are where
`rehearsing` is around it.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dynajit.capture.values.generator_states import bits_of, lock_of, set_words, words_of
from dynajit.core.errors import LaunchFailed
from dynajit.eager.tensor.creation import tensor_over

MSG_GENERATOR: str = "a generator of random numbers of another kind, or two that share a state"


class Drawing:
    """See the module's text.

    Args:
        launch: takes states as tensors, and gives what they are afterwards.
        states: of each the position among its arguments, that among its results, and whether normal
            numbers are drawn.
    """

    def __init__(
        self, launch: Callable[..., tuple[Any, ...]], states: Sequence[tuple[int, int, bool]]
    ) -> None:
        self._launch, self._states = launch, states

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        """
        Raises:
            LaunchFailed: by the launch, or since a generator has a state that nobody knows.
        """
        generators = [args[position] for position, _, _ in self._states]
        if len({id(bits_of(each)) for each in generators}) < len(generators):
            raise LaunchFailed(MSG_GENERATOR)
        states = [*zip(generators, self._states, strict=True)]
        given = list(args)
        with contextlib.ExitStack() as held:
            for lock in sorted(map(lock_of, generators), key=id):
                held.enter_context(lock)
            for generator, (position, _, has_normals) in states:
                words = words_of(generator, has_normals)
                if words is None:
                    raise LaunchFailed(MSG_GENERATOR)
                given[position] = tensor_over(words)
            results = self._launch(*given)
            if not _rehearsals.are_on:
                for generator, (_, position, has_normals) in states:
                    set_words(generator, results[position].numpy(), has_normals)
        return results


class _Rehearsals(threading.local):
    """Whether generators stay as they are, in this thread."""

    are_on = False


_rehearsals = _Rehearsals()


@contextlib.contextmanager
def rehearsing() -> Iterator[None]:
    """Launches leave generators as they are."""
    _rehearsals.are_on = True
    try:
        yield
    finally:
        _rehearsals.are_on = False


__all__ = ["Drawing", "rehearsing"]
