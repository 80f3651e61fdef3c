"""Launches that draw leave generators as plain Python would, or as they were."""

import threading
from typing import Any

import numpy as np
import pytest

from dynajit.capture.emit.drawing import MSG_GENERATOR, Drawing, rehearsing
from dynajit.capture.values.generator_states import words_of
from dynajit.core.errors import LaunchFailed
from dynajit.eager import Tensor
from dynajit.eager.tensor.creation import tensor_over


def _after_one(state: Tensor) -> tuple[Tensor]:
    """The state of a generator that has drawn once: what a launch gives."""
    generator = np.random.Generator(np.random.PCG64(7))
    words = words_of(generator)
    assert words is not None and np.array_equal(state.numpy(), words)
    generator.random()
    after = words_of(generator)
    assert after is not None
    return (tensor_over(after),)


def test_a_generator_is_behind_the_draws_of_the_launch() -> None:
    generator, plain = (np.random.Generator(np.random.PCG64(7)) for _ in range(2))
    Drawing(_after_one, [(0, 0, False)])(generator)
    plain.random()
    assert generator.random() == plain.random()


def test_a_launch_that_raises_and_a_rehearsal_leave_a_generator_as_it_was() -> None:
    def fails(state: Tensor) -> tuple[Tensor]:
        raise LaunchFailed("an index is out of range")

    generator, plain = (np.random.Generator(np.random.PCG64(7)) for _ in range(2))
    with pytest.raises(LaunchFailed):
        Drawing(fails, [(0, 0, False)])(generator)
    with rehearsing():
        Drawing(_after_one, [(0, 0, False)])(generator)
    assert generator.random() == plain.random()


def test_two_generators_over_one_state_and_unknown_ones_are_refused() -> None:
    bits = np.random.PCG64(7)
    pair = np.random.Generator(bits), np.random.Generator(bits)

    def never(*states: Tensor) -> tuple[Any, ...]:
        raise AssertionError

    with pytest.raises(LaunchFailed, match=MSG_GENERATOR):
        Drawing(never, [(0, 0, False), (1, 1, False)])(*pair)

    class Own(np.random.PCG64):
        pass

    with pytest.raises(LaunchFailed, match=MSG_GENERATOR):
        Drawing(never, [(0, 0, False)])(np.random.Generator(Own(7)))


def test_nobody_else_draws_while_a_launch_runs() -> None:
    generator = np.random.Generator(np.random.PCG64(7))
    drawn = threading.Event()

    def other() -> None:
        generator.random()
        drawn.set()

    thread = threading.Thread(target=other)

    def launch(state: Tensor) -> tuple[Tensor]:
        thread.start()
        assert not drawn.wait(0.2)
        return _after_one(state)

    Drawing(launch, [(0, 0, False)])(generator)
    thread.join()
    plain = np.random.Generator(np.random.PCG64(7))
    plain.random(2)
    assert generator.random() == plain.random()
