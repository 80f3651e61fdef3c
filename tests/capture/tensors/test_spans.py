"""Tensors that may overlap with another are found, whatever came before."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import dynajit as dj
from dynajit.capture.tensors.spans import Spans

MEMORY = np.zeros(200, np.float32)


@st.composite
def parts(draw: st.DrawFn) -> np.ndarray:
    """A view of MEMORY with gaps, or an array of its own; some are empty."""
    start = draw(st.integers(0, 190))
    step = draw(st.integers(1, 9))
    count = draw(st.integers(0, 20))
    part = MEMORY[start : start + step * count : step]
    return part if draw(st.booleans()) else part.copy()


@given(st.lists(parts(), max_size=30), parts())
def test_what_may_overlap_is_found(arrays: list[np.ndarray], asked: np.ndarray) -> None:
    """As NumPy says of each pair."""
    spans = Spans()
    tensors = [dj.from_numpy(array) for array in arrays]
    for number, tensor in enumerate(tensors):
        spans.add(tensor, number)
        spans.add(tensor, number)

    expected = [n for n, array in enumerate(arrays) if np.may_share_memory(array, asked)]
    assert expected == sorted(spans.near(dj.from_numpy(asked)))
    assert list(range(len(arrays))) == list(spans.values)


def test_views_of_one_storage_are_found_also_where_they_are_apart() -> None:
    """A history of one is a history of all."""
    base, other = dj.zeros(10), dj.zeros(10)
    spans = Spans()
    spans.add(base[:3], "first")
    spans.add(other[:3], "other")

    assert [] == spans.near(base[5:])
    assert ["first"] == spans.of_storage(base[5:])
    assert [] == spans.of_storage(dj.zeros(1))
