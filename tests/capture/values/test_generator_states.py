"""States of generators are read and written as they are."""

import random
from typing import Any

import numpy as np
import pytest

from dynajit.capture.values import generator_states
from dynajit.capture.values.generator_states import set_words, words_of
from tests.capture.execution.nests.test_draws import BITS, state_of

pytestmark = pytest.mark.one_python


def generators(seed: int) -> list[Any]:
    """Of all kinds, some with half of a number or a normal one kept."""
    numpys = [
        cls(bits(seed)) for bits in BITS for cls in (np.random.Generator, np.random.RandomState)
    ]
    found = [*numpys, random.Random(seed)]
    for each in found:
        for _ in range(seed + 1):
            each.normal() if each in numpys else each.gauss(0, 1)
            if isinstance(each, np.random.Generator):
                each.integers(5)
    return found


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("has_normals", [True, False])
def test_a_generator_has_the_state_of_another_one(
    in_place: bool, has_normals: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator_states, "_lies_in_place", lambda: in_place)
    for source, target in zip(generators(2), generators(3), strict=True):
        words = words_of(source, has_normals)
        assert words is not None
        kept = target.get_state(legacy=False) if isinstance(target, np.random.RandomState) else None
        set_words(target, words, has_normals)
        if kept is not None and not has_normals:
            state = source.get_state(legacy=False)
            source.set_state({**state, "has_gauss": kept["has_gauss"], "gauss": kept["gauss"]})
        assert state_of(source) == state_of(target)


def test_twisters_of_numpy_lie_where_they_are_looked_for() -> None:
    assert generator_states._lies_in_place()


def test_bit_generators_of_other_kinds_have_no_words() -> None:
    class Own(np.random.PCG64):
        pass

    assert words_of(np.random.Generator(Own(1))) is None
    assert words_of(np.random.RandomState(Own(1))) is None
