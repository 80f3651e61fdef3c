"""Pictures of graphs: nothing overlaps, arrows point down, equal layers may stand once."""

import re
from collections.abc import Callable
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

import dynajit as dj
from dynajit.ir.graph import Graph
from dynajit.report.page.picture import FOLDED_FROM, MOST_DRAWN, Picture, pictures_of


def graph_of(function: Callable[..., Any], *arguments: Any) -> Graph:
    """What capturing a call gives."""
    (graph,) = dj.explain(function, backend="eager")(*arguments).graphs
    return graph


def check(picture: Picture) -> None:
    """What every picture promises."""
    height = picture.as_data()["box"]
    for number, one in enumerate(picture.boxes):
        assert 0 <= one.x and one.x + one.width <= picture.width
        assert 0 <= one.y and one.y + height <= picture.height
        for other in picture.boxes[:number]:
            apart = one.x + one.width <= other.x or other.x + other.width <= one.x
            assert apart or one.y + height <= other.y or other.y + height <= one.y
    for source, target, path in picture.arrows:
        upper, lower = picture.boxes[source], picture.boxes[target]
        assert upper.y + height < lower.y
        x, y = map(float, re.findall(r"-?\d+", path)[:2])
        assert upper.x <= x <= upper.x + upper.width
        assert y == pytest.approx(upper.y + height, abs=1)
        assert re.search(rf"[ V]{lower.y:.0f}$", path)


@hypothesis.given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=25))
@hypothesis.settings(max_examples=25, deadline=None)
def test_boxes_of_any_graph_are_apart_and_arrows_point_down(pairs: list[tuple[int, int]]) -> None:
    def function(x: Any) -> Any:
        values = [x]
        for first, second in pairs:
            values.append(values[first % len(values)] + values[second % len(values)])
        return tuple(value.exp() for value in values)

    for picture in pictures_of(graph_of(function, dj.ones(2))):
        check(picture)


def test_the_same_graph_has_the_same_picture() -> None:
    graph = graph_of(lambda x, y: (x @ y).relu() + x.sum() * y, dj.ones(3, 3), dj.ones(3, 3))
    first, second = pictures_of(graph), pictures_of(graph)

    assert [p.as_data() for p in first] == [p.as_data() for p in second]


def test_every_operation_has_a_box_and_weights_are_within() -> None:
    """A weight that one operation takes is written into its box, by the layer's name."""
    model = dj.nn.Sequential(dj.nn.Linear(4, 8), dj.nn.ReLU(), dj.nn.Linear(8, 2))
    (picture,) = pictures_of(graph_of(model, dj.ones(3, 4)))
    titles = [box.title for box in picture.boxes]

    assert ["linear", "relu", "linear"] == [re.split(r"\W", title)[0] for title in titles[1:]]
    assert 4 == len(titles)
    assert 3 == len(picture.arrows)


def test_equal_layers_are_drawn_once_and_all_of_them() -> None:
    def layer(x: Any) -> Any:
        return (x.exp() + x).relu() * x.sum(dim=0)

    def function(x: Any) -> Any:
        for _ in range(FOLDED_FROM // 4):
            x = layer(x)
        return x.mean()

    folded, whole = pictures_of(graph_of(function, dj.ones(3, 2)))
    count = FOLDED_FROM // 4

    assert f"{count} equal layers" == folded.band[2]
    assert (count - 1) * 5 == len(whole.boxes) - len(folded.boxes)
    check(folded)
    check(whole)
    last = len(folded.boxes) - 1  # what follows the layers hangs on the one that is drawn
    assert any(target == last for _, target, _ in folded.arrows)


def test_what_is_too_large_to_look_at_has_no_picture() -> None:
    def function(x: Any) -> Any:
        for n in range(MOST_DRAWN):
            x = x @ x if n % 37 % 3 else x + n
        return x

    found = pictures_of(graph_of(function, dj.ones(2, 2)))

    assert all(len(picture.boxes) <= MOST_DRAWN for picture in found)
    assert all(picture.band for picture in found)
