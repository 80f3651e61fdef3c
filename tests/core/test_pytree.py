"""Nested containers come apart and together again."""

from collections import OrderedDict, namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynajit.core import pytree

Point = namedtuple("Point", ["x", "y"])

TREES = st.recursive(
    st.one_of(st.integers(), st.none(), st.text(max_size=3)),
    lambda t: st.one_of(
        st.lists(t, max_size=3),
        st.lists(t, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), t, max_size=3),
        st.tuples(t, t).map(lambda pair: Point(*pair)),
    ),
    max_leaves=10,
)


@given(TREES)
def test_unflatten_undoes_flatten(tree):
    leaves, structure = pytree.flatten(tree)
    again = pytree.unflatten(leaves, structure)
    assert again == tree
    assert type(again) is type(tree)


def test_leaves_come_in_order():
    leaves, _ = pytree.flatten({"b": [1, (2, 3)], "a": Point(4, None)})
    assert leaves == [1, 2, 3, 4, None]


def test_subclasses_and_sets_are_leaves():
    tree = [OrderedDict(a=1), {2}]
    leaves, _ = pytree.flatten(tree)
    assert leaves == tree


def test_map_keeps_the_nest():
    assert pytree.tree_map(lambda x: x + 1, {"a": [1, 2], "b": Point(3, 4)}) == {
        "a": [2, 3], "b": Point(4, 5)
    }  # fmt: skip


def test_equal_nests_have_equal_structures():
    one, two = (pytree.flatten({"a": [leaf, (2,)]})[1] for leaf in (1, "x"))
    assert one == two
    assert hash(one) == hash(two)


@pytest.mark.parametrize(("count", "word"), [(1, "few"), (3, "many")])
def test_a_wrong_number_of_leaves_is_refused(count, word):
    _, structure = pytree.flatten([1, 2])
    with pytest.raises(ValueError, match=word):
        pytree.unflatten([0] * count, structure)
