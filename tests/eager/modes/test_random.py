"""Generators: seeds, states, independence."""

import copy
import pickle
import threading

import pytest

from dynajit.core.errors import ArgumentError
from dynajit.eager.modes import random
from dynajit.eager.modes.random import Generator
from dynajit.eager.tensor.creation import empty, tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.table import dispatch


def draw(generator: Generator, count: int = 5) -> list[float]:
    return empty(count).uniform_(generator=generator).tolist()


def test_the_same_seed_gives_the_same_numbers() -> None:
    first, second = Generator().manual_seed(3), Generator().manual_seed(3)

    assert draw(first) == draw(second)
    assert draw(first) == draw(second)


def test_draws_do_not_overlap() -> None:
    generator = Generator().manual_seed(3)

    assert not set(draw(generator)) & set(draw(generator))


def test_the_state_can_be_kept_and_restored() -> None:
    generator = Generator().manual_seed(3)
    draw(generator)
    state = generator.get_state()
    first = draw(generator)
    generator.set_state(state)

    assert (first, (16,)) == (draw(generator), state.shape)


def test_a_wrong_state_is_refused() -> None:
    with pytest.raises(ArgumentError, match="uint8 tensor"):
        Generator().set_state(tensor([1.0]))


@pytest.mark.parametrize("seed", [0, -1, 2**64 - 1, 2**63])
def test_64_bit_seeds_are_accepted(seed: int) -> None:
    assert seed % 2**64 == Generator().manual_seed(seed).initial_seed()


@pytest.mark.parametrize("seed", [2**64, 1.5, "1", True])
def test_other_seeds_are_refused(seed: object) -> None:
    with pytest.raises(ArgumentError, match="manual_seed"):
        Generator().manual_seed(seed)


def test_a_drawn_seed_is_returned_and_used() -> None:
    generator = Generator()
    seed = generator.seed()

    assert draw(generator) == draw(Generator().manual_seed(seed))


def test_copies_continue_where_the_original_is() -> None:
    generator = Generator().manual_seed(3)
    draw(generator)
    copies = [copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    expected = draw(generator)

    assert [expected, expected] == [draw(copied) for copied in copies]


def test_the_default_generator_serves_ops() -> None:
    random.manual_seed(7)
    state = random.get_rng_state()
    first = empty(3).normal_().tolist()
    random.set_rng_state(state)

    assert (first, 7) == (empty(3).normal_().tolist(), random.initial_seed())


def test_eager_reserves_blocks_from_the_default_generator() -> None:
    random.manual_seed(7)

    assert ((7, 0, 0), (7, 3, 0)) == (dispatch.reserve_random(3), dispatch.reserve_random(1))


def test_threads_never_get_the_same_block() -> None:
    generator = Generator()
    taken = []

    def work() -> None:
        for _ in range(500):
            taken.append(generator.reserve(1)[1])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert list(range(2000)) == sorted(taken)


def test_bernoulli_fills_with_zeros_and_ones() -> None:
    x = empty(1000).bernoulli_(0.3, generator=Generator().manual_seed(1))

    assert {0.0, 1.0} == set(x.tolist())
    assert 0.3 == pytest.approx(sum(x.tolist()) / 1000, abs=0.06)
    assert isinstance(x, Tensor)
