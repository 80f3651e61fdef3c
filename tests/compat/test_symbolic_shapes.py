"""Questions about sizes have answers, eagerly and in graphs that hold for several sizes."""

import pytest

import dynajit as dj
from dynajit.fx.experimental import symbolic_shapes


@pytest.mark.parametrize(
    "ask", ["guard_or_false", "guard_or_true", "guard_size_oblivious", "statically_known_true"]
)
def test_a_question_is_answered_by_the_sizes_of_the_call(ask: str) -> None:
    question = getattr(symbolic_shapes, ask)

    def program(x: dj.Tensor) -> dj.Tensor:
        return x + 1 if question(x.shape[0] > 4) else x * 2

    compiled = dj.compile(program, fullgraph=True)
    for size in (2, 3, 4, 5, 6, 7):
        x = dj.arange(float(size))
        assert program(x).tolist() == compiled(x).tolist()


def test_no_size_is_left_open() -> None:
    size = dj.ones(3).shape[0]
    assert (
        set() == symbolic_shapes.free_symbols(size) == symbolic_shapes.free_unbacked_symbols(size)
    )
    assert not symbolic_shapes.has_free_symbols(size)
    assert not symbolic_shapes.has_free_unbacked_symbols(size)
    assert not symbolic_shapes.is_symbolic(size)
