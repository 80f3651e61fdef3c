"""Nested containers taken apart and put together, by PyTorch's path and with its signatures.

Contract: containers are tuples, lists, dicts, named tuples, `OrderedDict`, `defaultdict`, `deque`
and what `register_pytree_node` adds; everything else, None too, is a leaf. Classes count exactly
(a class derived from dict is a leaf unless it is registered); named tuples are any. Programs import
this module; the library itself uses `core.pytree`, which knows fewer containers.
"""

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from dynajit.core.errors import ArgumentError, InvalidValueError
from dynajit.core.records import record

PyTree: TypeAlias = Any
Context: TypeAlias = Any


@record
class NodeDef:
    """How one class is taken apart: `flatten_fn(tree) -> (children, context)`, and together."""

    type: type
    flatten_fn: Callable[[Any], tuple[list[Any], Context]]
    unflatten_fn: Callable[[Iterable[Any], Context], Any]


class TreeSpec:
    """The structure of a nest, without its leaves. Immutable.

    Args:
        type: class of the container; None for a leaf.
        context: what its class needs besides the children (keys of a dict).
        children_specs: the structures of the children.
    """

    __slots__ = ("children_specs", "context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Context, children_specs: list["TreeSpec"]) -> None:
        self.type = type
        self.context = context
        self.children_specs = children_specs
        self.num_children = len(children_specs)
        self.num_nodes: int = 1 + sum(child.num_nodes for child in children_specs)
        self.num_leaves: int = (
            1 if type is None else sum(child.num_leaves for child in children_specs)
        )

    def is_leaf(self) -> bool:
        """Whether it stands for one leaf."""
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """The nest with these leaves.

        Raises:
            ValueError: the number of leaves does not fit.
        """
        given = list(leaves)
        if len(given) != self.num_leaves:
            raise InvalidValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(given)} but the spec refers "
                f"to a pytree that holds {self.num_leaves} items ({self!r})."
            )
        return _joined(iter(given), self)

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """The subtrees of `tree` where this structure has its leaves.

        Raises:
            ValueError: `tree` has another structure above them.
        """
        found: list[PyTree] = []
        _collect_up_to(self, tree, found)
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        mine = (self.type, self.context, self.children_specs)
        return mine == (other.type, other.context, other.children_specs)

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), self.num_nodes, self.num_leaves))

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        children = ", ".join(map(repr, self.children_specs))
        return f"TreeSpec({self.type.__name__}, {self.context!r}, [{children}])"


def LeafSpec() -> TreeSpec:
    """The structure of a leaf."""
    return TreeSpec(None, None, [])


def treespec_leaf() -> TreeSpec:
    """The structure of a leaf."""
    return LeafSpec()


def _is_named_tuple(kind: Any) -> bool:
    return kind is namedtuple or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


@record
class MappingKey:
    """A step into a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What lies there."""
        return mapping[self.key]


@record
class SequenceKey:
    """A step into a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """What lies there."""
        return sequence[self.idx]


@record
class GetAttrKey:
    """A step into an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """What lies there."""
        return getattr(obj, self.name)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], Context]:
    values, context = _dict_flatten(d)
    return [(MappingKey(key), value) for key, value in zip(context, values, strict=True)], context


def _flatten_defaultdict(tree: Any) -> tuple[list[Any], Context]:
    return list(tree.values()), [tree.default_factory, list(tree)]


def _unflatten_defaultdict(children: Iterable[Any], context: Context) -> Any:
    factory, keys = context
    return defaultdict(factory, zip(keys, children, strict=True))


SUPPORTED_NODES: dict[type, NodeDef] = {
    definition.type: definition
    for definition in (
        NodeDef(tuple, lambda t: (list(t), None), lambda c, _: tuple(c)),
        NodeDef(list, lambda t: (t, None), lambda c, _: list(c)),
        NodeDef(dict, _dict_flatten, _dict_unflatten),
        NodeDef(
            OrderedDict,
            _dict_flatten,
            lambda c, keys: OrderedDict(zip(keys, c, strict=True)),
        ),
        NodeDef(defaultdict, _flatten_defaultdict, _unflatten_defaultdict),
        NodeDef(deque, lambda t: (list(t), t.maxlen), lambda c, length: deque(c, maxlen=length)),
    )
}
"""How each container class is taken apart; `register_pytree_node` adds to it."""

_NAMED_TUPLE = NodeDef(tuple, lambda t: (list(t), type(t)), lambda c, kind: kind(*c))
SUPPORTED_NODES[namedtuple] = _NAMED_TUPLE  # type: ignore[index]


def _get_node_type(tree: Any) -> Any:
    """The key of a container in `SUPPORTED_NODES`: its class, `namedtuple` for those."""
    return namedtuple if _is_named_tuple(type(tree)) else type(tree)


def _is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether it is no container, or `is_leaf` says so."""
    return _definition(tree, is_leaf) is None


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[list[Any], Context]],
    unflatten_fn: Callable[[Iterable[Any], Context], Any],
    *,
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Context]] | None = None,
    **options: Any,
) -> None:
    """Let instances of a class be containers.

    Args:
        flatten_fn: gives the children, and what else is needed to put them together.
        unflatten_fn: takes both.
        flatten_with_keys_fn: gives pairs of a step and a child, and what else is needed.
        options: names for saving structures; they have no effect.

    Raises:
        ValueError: the class is registered already.
    """
    if cls in SUPPORTED_NODES:
        raise InvalidValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn)
    if flatten_with_keys_fn is not None:
        _WITH_KEYS[cls] = flatten_with_keys_fn


_WITH_KEYS: dict[type, Callable[[Any], tuple[list[tuple[Any, Any]], Context]]] = {}


_register_pytree_node = register_pytree_node


def _definition(tree: Any, is_leaf: Callable[[Any], bool] | None) -> NodeDef | None:
    """How `tree` is taken apart, or None for a leaf."""
    if is_leaf is not None and is_leaf(tree):
        return None
    kind = type(tree)
    if kind in SUPPORTED_NODES:
        return SUPPORTED_NODES[kind]
    return _NAMED_TUPLE if _is_named_tuple(kind) else None


def _collect(tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None) -> TreeSpec:
    definition = _definition(tree, is_leaf)
    if definition is None:
        leaves.append(tree)
        return LeafSpec()
    children, context = definition.flatten_fn(tree)
    kind = context if definition is _NAMED_TUPLE else definition.type
    return TreeSpec(kind, context, [_collect(child, leaves, is_leaf) for child in children])


def _collect_up_to(spec: TreeSpec, tree: Any, found: list[Any]) -> None:
    if spec.type is None:
        found.append(tree)
        return
    definition = _definition(tree, None)
    children, _ = ([], None) if definition is None else definition.flatten_fn(tree)
    if type(tree) is not spec.type or len(children) != spec.num_children:
        raise InvalidValueError(
            f"Node type mismatch; expected {spec!r}, but got {type(tree)!r} of {len(children)} "
            "children."
        )
    if issubclass(spec.type, dict):
        keys = list(spec.context[1] if spec.type is defaultdict else spec.context)
        if set(keys) != set(tree):
            raise InvalidValueError(f"Node keys mismatch; expected {keys!r}, got {list(tree)!r}.")
        children = [tree[key] for key in keys]
    for child_spec, child in zip(spec.children_specs, children, strict=True):
        _collect_up_to(child_spec, child, found)


def _joined(leaves: Iterator[Any], spec: TreeSpec) -> Any:
    if spec.type is None:
        return next(leaves)
    definition = _NAMED_TUPLE if _is_named_tuple(spec.type) else SUPPORTED_NODES[spec.type]
    return definition.unflatten_fn(
        [_joined(leaves, child) for child in spec.children_specs], spec.context
    )


def tree_flatten(
    tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and the structure.

    Args:
        is_leaf: says what is a leaf although it is a container.
    """
    leaves: list[Any] = []
    spec = _collect(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The nest of this structure with these leaves.

    Raises:
        TypeError: the second argument is no structure.
        ValueError: the number of leaves does not fit.
    """
    if not isinstance(treespec, TreeSpec):
        raise ArgumentError(
            "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but "
            f"got item of type {type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_leaves(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> Iterator[Any]:
    """An iterator over the leaves in order."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> TreeSpec:
    """The structure."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any],
    tree: PyTree,
    *rests: PyTree,
    is_leaf: Callable[[PyTree], bool] | None = None,
) -> PyTree:
    """The nest of the results of `func` on the leaves, and on those of `rests` in their places.

    Raises:
        ValueError: one of `rests` has another structure.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(*given) for given in zip(leaves, *others, strict=True)])


def tree_map_(
    func: Callable[..., Any],
    tree: PyTree,
    *rests: PyTree,
    is_leaf: Callable[[PyTree], bool] | None = None,
) -> PyTree:
    """Call `func` on the leaves as `tree_map` does; returns `tree`."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(
    type_or_types_or_pred: Any,
    func: Callable[[Any], Any],
    tree: PyTree,
    is_leaf: Callable[[PyTree], bool] | None = None,
) -> PyTree:
    """`tree_map` on leaves of these classes, or of which a function says True; others stay."""
    return tree_map(_only(type_or_types_or_pred, func), tree, is_leaf=is_leaf)


def _only(chosen: Any, func: Callable[[Any], Any]) -> Callable[[Any], Any]:
    is_function = callable(chosen) and not isinstance(chosen, type)

    def apply(leaf: Any) -> Any:
        matches = chosen(leaf) if is_function else isinstance(leaf, chosen)
        return func(leaf) if matches else leaf

    return apply


def tree_flatten_with_path(
    tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """The leaves, each behind the steps that lead to it, and the structure.

    Raises:
        ValueError: a registered class says no steps.
    """
    found: list[tuple[tuple[Any, ...], Any]] = []
    _collect_with_path(tree, (), found, is_leaf)
    return found, tree_structure(tree, is_leaf)


def tree_leaves_with_path(
    tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> list[tuple[tuple[Any, ...], Any]]:
    """The leaves, each behind the steps that lead to it."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(
    func: Callable[..., Any],
    tree: PyTree,
    *rests: PyTree,
    is_leaf: Callable[[PyTree], bool] | None = None,
) -> PyTree:
    """A nest of `func(steps, leaf, *leaves of the others)`."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten(
        func(path, leaf, *given) for (path, leaf), *given in zip(pairs, *others, strict=True)
    )


def keystr(kp: Iterable[Any]) -> str:
    """Steps as a text, such as `['weights'][0]`."""
    return "".join(map(str, kp))


def _steps_into(tree: Any) -> list[Any]:
    kind = type(tree)
    if kind in _WITH_KEYS:
        return [step for step, _ in _WITH_KEYS[kind](tree)[0]]
    if isinstance(tree, dict):
        return [MappingKey(key) for key in tree]
    if _is_named_tuple(kind):
        return [GetAttrKey(name) for name in tree._fields]
    if isinstance(tree, (tuple, list, deque)):
        return [SequenceKey(i) for i in range(len(tree))]
    raise InvalidValueError(
        f"{kind} has no flatten_with_keys_fn.  Give one to register_pytree_node."
    )


def _collect_with_path(
    tree: Any,
    path: tuple[Any, ...],
    found: list[tuple[tuple[Any, ...], Any]],
    is_leaf: Callable[[Any], bool] | None,
) -> None:
    definition = _definition(tree, is_leaf)
    if definition is None:
        found.append((path, tree))
        return
    children, _ = definition.flatten_fn(tree)
    for step, child in zip(_steps_into(tree), children, strict=True):
        _collect_with_path(child, (*path, step), found, is_leaf)


def tree_all(
    pred: Callable[[Any], bool], tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> bool:
    """Whether `pred` holds for every leaf."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(
    pred: Callable[[Any], bool], tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> bool:
    """Whether `pred` holds for some leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


__all__ = [
    "SUPPORTED_NODES",
    "Context",
    "GetAttrKey",
    "LeafSpec",
    "MappingKey",
    "NodeDef",
    "PyTree",
    "SequenceKey",
    "TreeSpec",
    "keystr",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_leaf",
]
