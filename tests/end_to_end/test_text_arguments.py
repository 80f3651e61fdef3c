"""Texts that are only compared are guarded by the outcome: one version for all that differ."""

from typing import Any

import pytest

import dynajit as dj

LIMIT = "b"


def equal(x: Any, mode: str) -> Any:
    if mode == "a":
        return x + 1
    return x + 2, mode


def unequal(x: Any, mode: str) -> Any:
    return (x * 2 if "a" != mode else x), [mode]


def chained(x: Any, mode: str) -> Any:
    if mode == "a":
        return x
    elif mode == LIMIT:
        return -x
    return x * 3


def among(x: Any, mode: str) -> Any:
    return x + 1 if mode in ("a", "b") else x - 1


def among_dict_items(x: Any, mode: str) -> Any:
    return x * sum(value for name, value in {"a": 2, "b": 3}.items() if name == mode)


@pytest.mark.parametrize(
    ("function", "versions"),
    [(equal, 2), (unequal, 2), (chained, 3), (among, 3), (among_dict_items, 3)],
)
@pytest.mark.parametrize("order", ["abcdefg", "gfedcba", "cadbec"])
def test_one_version_serves_all_texts_that_differ(function: Any, versions: int, order: str) -> None:
    compiled = dj.compile(function, backend="numpy", fullgraph=True)
    x = dj.ones(1)
    for mode in order * 2:
        assert str(function(x, mode)) == str(compiled(x, mode))

    assert versions == compiled.report().entries


def test_the_kind_of_text_is_part_of_the_condition() -> None:
    """An instance of a derived class may be equal to anything."""

    class Same(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = str.__hash__

    compiled = dj.compile(equal, backend="numpy")
    x = dj.ones(1)
    for mode in ("c", Same("c"), 5, None, "d", Same("d"), b"a"):
        assert str(equal(x, mode)) == str(compiled(x, mode))


def test_a_text_that_is_used_otherwise_is_guarded_itself() -> None:
    def f(x: Any, mode: str) -> Any:
        y = x + 1 if mode != "a" else x
        return y, mode.upper(), {mode: 1}.get("c"), len(mode)

    compiled = dj.compile(f, backend="numpy", fullgraph=True)
    for mode in ("c", "a", "b", "dd", "c"):
        assert str(f(dj.ones(1), mode)) == str(compiled(dj.ones(1), mode))


def test_the_other_text_is_guarded() -> None:
    """A global may be bound to another text."""
    compiled = dj.compile(chained, backend="numpy")
    x = dj.ones(1)
    try:
        for text in ("b", "c", "d"):
            globals()["LIMIT"] = text
            for mode in "abcd":
                assert chained(x, mode).tolist() == compiled(x, mode).tolist()
    finally:
        globals()["LIMIT"] = "b"


def test_attributes_are_guarded_by_the_outcome_too() -> None:
    class Model(dj.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mode = "a"

        def forward(self, x: Any) -> Any:
            return x + 1 if self.mode == "a" else x - 1

    model = Model()
    compiled = dj.compile(model, backend="numpy", fullgraph=True)
    for mode in "abcdeafg":
        model.mode = mode
        assert model(dj.ones(1)).tolist() == compiled(dj.ones(1)).tolist()
    assert compiled.report().entries == 2
