"""Sobol' points: without scrambling PyTorch's, with it evenly spread."""

import warnings

import numpy as np
import pytest

import dynajit as dj
from dynajit.quasirandom import SobolEngine

pytest.importorskip("scipy")


@pytest.mark.parametrize("dimension", [1, 3, 50])
def test_points_are_pytorchs(dimension: int) -> None:
    torch = pytest.importorskip("torch")
    theirs, ours = torch.quasirandom.SobolEngine(dimension), SobolEngine(dimension)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for count in (1, 6, 0, 9):
            expected = theirs.draw(count).numpy()
            np.testing.assert_array_equal(ours.draw(count).numpy(), expected)
    theirs.reset().fast_forward(3)
    ours.reset().fast_forward(3)
    np.testing.assert_array_equal(
        ours.draw(2, dtype=dj.float64).numpy(), theirs.draw(2, dtype=torch.float64).numpy()
    )
    assert theirs.num_generated == ours.num_generated


def test_scrambled_points_are_seeded_and_even() -> None:
    points = SobolEngine(2, scramble=True, seed=3).draw_base2(6)

    np.testing.assert_array_equal(
        points.numpy(), SobolEngine(2, scramble=True, seed=3).draw(64).numpy()
    )
    counts = np.histogram2d(*points.numpy().T, bins=8, range=[[0, 1], [0, 1]])[0]
    assert (counts == 1).all()


def test_results_are_written_and_counts_checked() -> None:
    engine = SobolEngine(2)
    out = dj.empty(4, 2)

    assert engine.draw(4, out=out) is out
    with pytest.raises(ValueError, match="power of 2"):
        engine.draw_base2(1)
    for dimension in (0, 21202):
        with pytest.raises(ValueError, match="Supported range"):
            SobolEngine(dimension)
    assert "SobolEngine(dimension=2)" == repr(engine)
