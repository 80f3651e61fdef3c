"""Pain 2: after eight recompiles the compiler silently stops; functions share one budget."""

from typing import Any

import pytest

import dynajit as dj


def marked(x: Any, key: str) -> Any:
    """3 where it is compiled, 2 where it is plain Python."""
    return x * (3 if dj.is_compiling() else 2) if key else x


def of_rank(rank: int) -> Any:
    """A tensor that needs a version of its own: the place where it stands cannot do without."""
    return dj.ones((1,) * rank)


def test_beyond_the_limit_the_oldest_version_goes_with_one_warning() -> None:
    compiled = dj.compile(marked, backend="numpy")
    with dj.config.override(recompile_limit=4), pytest.warns(RuntimeWarning) as caught:
        for rank in range(7):
            assert 3.0 == compiled(of_rank(rank), "key").item()
    assert 1 == len(caught)
    assert "dropped" in str(caught[0].message)
    assert 4 == compiled.report().entries
    assert 6 == len(compiled.report().recompiles)


def test_a_function_that_never_settles_says_so_and_keeps_using_what_fits() -> None:
    compiled = dj.compile(marked, backend="numpy")
    with dj.config.override(recompile_limit=2), pytest.warns(RuntimeWarning) as caught:
        found = [compiled(of_rank(rank), "key").item() for rank in range(30)]
        last = found.index(2.0) - 1
        assert 3.0 == compiled(of_rank(last), "key").item()
    assert last > 4 * 2
    assert [3.0] * (last + 1) + [2.0] * (29 - last) == found
    assert ["dropped", "plain Python"] == [
        next(word for word in ("plain Python", "dropped") if word in str(warning.message))
        for warning in caught
    ]


def test_a_text_that_changes_in_every_call_leaves_its_place_to_python() -> None:
    """The rest of the function is compiled all the same, for every text."""
    compiled = dj.compile(marked, backend="numpy")
    for i in range(30):
        assert [3.0] == compiled(dj.ones(1), f"key {i}").tolist()
    assert compiled.report().entries <= 8


def test_two_functions_of_one_code_object_do_not_share_a_budget() -> None:
    def make(factor: str) -> Any:
        def function(x: Any, key: str) -> Any:
            return marked(x, key + factor)

        return function

    compiled = [dj.compile(make(name), backend="numpy") for name in ("a", "b")]
    x = dj.ones(1)
    with dj.config.override(recompile_limit=5):
        for i in range(4):
            for function in compiled:
                assert [3.0] == function(x, f"{i}").tolist()
    assert [4, 4] == [function.report().entries for function in compiled]
