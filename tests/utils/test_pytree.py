"""Trees against PyTorch's: leaves, structures, maps, refusals."""

from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import pytest

import dynajit as dj
from dynajit.utils import _pytree as ours

torch = pytest.importorskip("torch")
theirs = torch.utils._pytree
Point = namedtuple("Point", ["x", "y"])


class Own(dict):  # type: ignore[type-arg]
    """A class that nobody registered."""


TREES = [
    3, None, (), [], {}, (1,), [1, [2, (3, None)]], {"a": 1, "b": {"c": [2]}}, Point(1, [2, 3]),
    OrderedDict([("z", 1), ("a", (2, 3))]), defaultdict(list, {"k": [1, 2]}), deque([1, 2], 3),
    Own(a=1), ("text", {4: 5}),
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_leaves_and_maps_equal_pytorchs(tree: Any) -> None:
    """Leaves in order, put together again, mapped, counted."""
    leaves, spec = ours.tree_flatten(tree)
    expected, their_spec = theirs.tree_flatten(tree)

    assert expected == leaves
    assert their_spec.num_leaves == spec.num_leaves
    assert their_spec.is_leaf() == spec.is_leaf()
    again = ours.tree_unflatten(leaves, spec)
    assert (tree, type(tree)) == (again, type(again))
    double = lambda leaf: (leaf, leaf)
    assert theirs.tree_map(double, tree) == ours.tree_map(double, tree)
    paired = ours.tree_map(lambda a, b: [a, b], tree, tree)
    assert theirs.tree_map(lambda a, b: [a, b], tree, tree) == paired
    assert spec == ours.tree_structure(tree)
    assert hash(spec) == hash(ours.tree_structure(tree))


def test_leaves_can_be_chosen() -> None:
    """By `is_leaf`; maps of some classes only."""
    tree = [(1, 2), {"a": (3, 4.0)}]
    pairs = lambda t: isinstance(t, tuple)

    assert theirs.tree_leaves(tree, is_leaf=pairs) == ours.tree_leaves(tree, is_leaf=pairs)
    assert [(1, 2), {"a": (3, 5.0)}] == ours.tree_map_only(float, lambda x: x + 1, tree)
    assert [(2, 2), {"a": (4, 4.0)}] == ours.tree_map_only(
        lambda x: x in (1, 3), lambda x: x + 1, tree
    )
    assert ours.tree_any(lambda x: x == 4.0, tree)
    assert not ours.tree_all(lambda x: x == 4.0, tree)
    assert [1, 2, 3, 4.0] == list(ours.tree_iter(tree))


def test_classes_can_be_registered() -> None:
    """Once."""

    class Box:
        def __init__(self, inside: Any) -> None:
            self.inside = inside

    ours.register_pytree_node(Box, lambda b: ([b.inside], None), lambda c, _: Box(next(iter(c))))
    try:
        assert 4 == ours.tree_map(lambda x: x + 1, [Box(3)])[0].inside
        with pytest.raises(ValueError, match="already registered"):
            ours.register_pytree_node(Box, lambda b: ([], None), lambda c, _: Box(0))
    finally:
        del ours.SUPPORTED_NODES[Box]


def test_what_does_not_fit_is_refused() -> None:
    """PyTorch's classes of errors."""
    for module in (theirs, ours):
        spec = module.tree_structure([1, (2, 3)])
        with pytest.raises(ValueError, match="length"):
            module.tree_unflatten([1], spec)
        with pytest.raises(TypeError, match="TreeSpec"):
            module.tree_unflatten([1], 3)
        with pytest.raises(ValueError, match=r"[Nn]ode|arity"):
            module.tree_map(lambda a, b: a, [1, (2, 3)], [1, [2, 3]])
        with pytest.raises(ValueError, match=r"[Nn]ode|key"):
            module.tree_map(lambda a, b: a, {"a": 1}, {"b": 1})


def test_maps_are_captured() -> None:
    """Over tensors in nested containers, in one graph."""

    def scaled(batch: Any) -> Any:
        leaves, spec = ours.tree_flatten(batch)
        return ours.tree_unflatten([leaf * 2 for leaf in leaves], spec), ours.tree_map(
            lambda a: a + 1, batch
        )

    batch = {"a": dj.ones(2), "b": [dj.zeros(1), (dj.ones(3),)]}
    doubled, more = dj.compile(scaled, fullgraph=True)(batch)

    assert [2.0, 2.0] == doubled["a"].tolist()
    assert [1.0] == more["b"][0].tolist()
    assert [2.0] * 3 == more["b"][1][0].tolist()


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_paths_of_leaves_equal_pytorchs(tree: Any) -> None:
    expected, result = theirs.tree_leaves_with_path(tree), ours.tree_leaves_with_path(tree)
    assert [leaf for _, leaf in expected] == [leaf for _, leaf in result]
    texts = [theirs.keystr(path) for path, _ in expected]
    assert texts == [ours.keystr(path) for path, _ in result]
    given: list[Any] = []
    ours.tree_map_with_path(lambda path, *leaves: given.append((path, leaves)), tree, tree)
    assert [(path, (leaf, leaf)) for path, leaf in result] == given


@pytest.mark.parametrize("module", [ours, theirs])
def test_a_registered_class_says_its_steps(module: Any) -> None:
    class Pair:
        def __init__(self, left: Any, right: Any) -> None:
            self.left, self.right = left, right

    module.register_pytree_node(
        Pair,
        lambda pair: ([pair.left, pair.right], None),
        lambda children, _: Pair(*children),
        flatten_with_keys_fn=lambda pair: (
            [(module.GetAttrKey("left"), pair.left), (module.GetAttrKey("right"), pair.right)],
            None,
        ),
    )
    found = module.tree_leaves_with_path({"a": Pair(1, [2, 3])})
    assert ["['a'].left", "['a'].right[0]", "['a'].right[1]"] == [
        module.keystr(path) for path, _ in found
    ]
    path, leaf = found[2]
    step = {"a": Pair(1, [2, 3])}
    for key in path:
        step = key.get(step)
    assert leaf == step


@pytest.mark.parametrize("module", [ours, theirs])
def test_a_dict_is_taken_apart_with_its_keys(module: Any) -> None:
    pairs, context = module._dict_flatten_with_keys({"a": 1, 2: [3]})
    assert [("['a']", 1), ("[2]", [3])] == [(str(key), value) for key, value in pairs]
    assert ["a", 2] == context
    assert module.MappingKey("a") == pairs[0][0]
