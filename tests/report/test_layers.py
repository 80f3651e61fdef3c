"""Equal layers among guards and operations."""

import hypothesis
import hypothesis.strategies as st

from dynajit.report.layers import SHORTEST_PERIOD, layers_in, repeat_in
from dynajit.report.versions import GuardText


def guard(place: str, text: str = "type({}) is Layer") -> GuardText:
    return GuardText(text.format(place), place, None, "", False)


def test_guards_of_equal_layers_are_one_group_and_nothing_is_lost() -> None:
    """A layer that differs stands alone; what a layer has more is no reason to differ."""
    names = [f".part{n}.weight" for n in range(10)]
    equal = [guard(f"self.layers['{i}']{name}") for i in range(6) for name in names]
    more = [guard("self.layers['0'].first")]
    other = [guard("self.layers['6'].another"), guard("x"), guard("self.heads[0]")]
    (group,), rest = layers_in([*equal, *more, *other])

    assert "self.layers[0..5]: 61 guards of 6 equal layers" == str(group)
    assert other == sorted(rest, key=other.index)
    assert {*equal, *more} == set(group.guards)


def test_items_with_a_guard_or_two_are_no_layers() -> None:
    guards = [guard(f"f.__defaults__[{i}]") for i in range(5)]

    assert ([], guards) == layers_in(guards)


def test_layers_within_layers_belong_to_the_outer_ones() -> None:
    guards = [guard(f"net.blocks[{i}].heads[{j}].scale") for i in range(3) for j in range(4)]
    (group,), rest = layers_in(guards)

    assert ("net.blocks", (0, 1, 2), []) == (group.container, group.indices, rest)


def test_the_longest_repetition_of_the_shortest_parts_is_found() -> None:
    layer = "abcde"
    found = repeat_in("xy" + 6 * layer + "zz")

    assert (5, 6, 32) == (found.period, found.count, found.stop)
    assert repeat_in("abcdefghijklm") is None
    assert repeat_in("") is None
    assert repeat_in("aaaaa" * 4).period == SHORTEST_PERIOD


@hypothesis.given(st.lists(st.integers(0, 2), max_size=40))
def test_parts_of_a_repetition_are_equal(keys: list[int]) -> None:
    found = repeat_in(keys)
    if found is not None:
        parts = [keys[found.start + n * found.period :][: found.period] for n in range(found.count)]
        assert all(part == parts[0] and len(part) == found.period for part in parts)
        assert found.count >= 2
