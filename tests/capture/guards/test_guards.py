"""Guards: every kind passes for what it was made from and fails for every way of changing it.

Each change is tried with and without a snapshot in front of the tree: `warm` calls the evaluator
often enough for one to be taken.
"""

import gc
import itertools
import math
import sys
import time
import types
import weakref
from collections import OrderedDict
from random import Random

import numpy as np
import pytest

from dynajit import eager
from dynajit.amp import autocast
from dynajit.capture import _capture
from dynajit.capture.guards.facts import FunctionFacts, MemoryUse, Predicate, TensorFacts
from dynajit.capture.guards.guards import GRAD_MODE_SOURCE, Guard
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.tree import compile_guards
from dynajit.capture.places.sources import (
    Attribute,
    Builtin,
    CellContents,
    ClassAttribute,
    Closure,
    ClosureCell,
    Constant,
    DefaultOf,
    Function,
    Global,
    InstanceDict,
    Item,
    Key,
    Local,
    MethodFunction,
    MethodSelf,
    PartOf,
    RandomSeed,
    Step,
    TypeOf,
)
from dynajit.core.errors import CaptureError, InternalError
from dynajit.eager import _tensor
from dynajit.eager.modes.autocast_mode import _autocast_word

SELF = Local("self", 0)


class Tensor(_tensor.TensorBase):
    """The C layout without the methods."""


class OtherTensor(_tensor.TensorBase):
    """Another class of the same layout."""


class Node:
    """A user object with inline values."""

    limit = 3

    def __init__(self, **attributes):
        for name, value in attributes.items():
            setattr(self, name, value)

    def method(self):
        return 1


class Dynamic(Node):
    """Like a neural-network module: attribute access falls back to user code."""

    def __getattr__(self, name):
        raise AssertionError("guards ran user code")


class Slotted:
    __slots__ = ("a", "b")


def plain(self=None, *, key=2):
    return self


def tensor(*shape, dtype=np.float32):
    return Tensor(np.zeros(shape, dtype))


def evaluator(*guards):
    return compile_guards([Guard(*guard) for guard in guards])


def warm(compiled, args, function=plain):
    """Guards must hold; afterwards a snapshot is in place where the tree is deep."""
    for _ in range(3):
        assert compiled.evaluator.check(args, function)
    assert compiled.explain_failure(args, function) is None
    assert compiled.evaluator.check(args, function)
    return compiled


def holds(compiled, args, function=plain):
    """The verdict; the slow path must agree with it."""
    verdict = compiled.evaluator.check(args, function)
    assert (compiled.explain_failure(args, function) is None) is verdict
    return verdict


def test_numbers_of_steps_and_kinds_agree_with_the_c_side():
    assert tuple(step.name for step in Step) == _capture.STEPS
    assert tuple(kind.name for kind in Kind) == _capture.KINDS
    assert list(range(len(Step))) == list(Step)
    assert list(range(len(Kind))) == list(Kind)


CONSTANTS = [
    None, True, False, 0, 1, -1, 10**30, 0.0, -0.0, 1.0, math.nan, math.inf, 1j, complex(0.0, -0.0),
    "a", "", b"a", (), (1, 2.0), (True, 2.0), ("a", (None,)), ...,
]  # fmt: skip


@pytest.mark.parametrize("expected", CONSTANTS, ids=repr)
def test_equals_separates_every_pair_of_constants(expected):
    compiled = evaluator((SELF, Kind.EQUALS, expected))
    verdicts = [compiled.evaluator.check((value,), plain) for value in CONSTANTS]

    assert [value is expected for value in CONSTANTS] == verdicts


def test_equals_accepts_an_equal_object_that_is_not_the_same():
    big = int("1" + "0" * 30)

    assert holds(evaluator((SELF, Kind.EQUALS, 10**30)), (big,))
    assert holds(evaluator((SELF, Kind.EQUALS, math.nan)), (float("nan"),))
    assert holds(evaluator((SELF, Kind.EQUALS, ("ab", 1.5))), (("".join(["a", "b"]), 3 / 2),))


def test_equals_does_not_call_eq_of_a_user_class():
    class Equal(int):
        def __eq__(self, other):
            raise AssertionError("user code ran")

        __hash__ = int.__hash__

    assert not holds(evaluator((SELF, Kind.EQUALS, 1)), (Equal(1),))


def test_equals_refuses_what_c_cannot_compare():
    with pytest.raises(InternalError, match="is not a constant"):
        evaluator((SELF, Kind.EQUALS, [1]))


def test_a_source_without_a_path_cannot_be_guarded():
    with pytest.raises(InternalError, match="has no path"):
        Guard(RandomSeed(), Kind.TYPE_IS, int)


def test_duplicate_guards_are_checked_once():
    facts = TensorFacts.of(tensor(2))
    compiled = evaluator((SELF, Kind.TENSOR, facts), (SELF, Kind.TENSOR, facts))

    assert 1 == len(compiled.guards)


# ------------------------------------------------------------------------------------ tensors

TENSOR_CHANGES = {
    "class": OtherTensor(np.zeros((2, 3), np.float32)),
    "dtype": tensor(2, 3, dtype=np.float64),
    "byte order": Tensor(np.zeros((2, 3), np.dtype(np.float32).newbyteorder())),
    "rank": tensor(2, 3, 1),
    "size": tensor(2, 4),
    "strides": Tensor(np.zeros((3, 2), np.float32).T),
    "not a tensor": np.zeros((2, 3), np.float32),
}


@pytest.mark.parametrize("change", TENSOR_CHANGES)
def test_a_tensor_guard_fails_for_a_different(change):
    compiled = warm(evaluator((SELF, Kind.TENSOR, TensorFacts.of(tensor(2, 3)))), (tensor(2, 3),))

    assert not compiled.evaluator.check((TENSOR_CHANGES[change],), plain)


def test_a_tensor_guard_sees_requires_grad_and_a_new_array():
    x = tensor(2, 3)
    compiled = warm(evaluator((SELF, Kind.TENSOR, TensorFacts.of(x))), (x,))
    x.requires_grad = True

    assert not holds(compiled, (x,))
    x.requires_grad = False
    assert holds(compiled, (x,))
    x.array = np.zeros((2, 4), np.float32)
    assert not holds(compiled, (x,))


def test_a_view_made_stale_by_a_write_is_refreshed_before_it_is_judged():
    base = eager.tensor([[1.0, 2.0], [3.0, 4.0]])
    view = base[0]
    compiled = warm(evaluator((SELF, Kind.TENSOR, TensorFacts.of(view))), (view,))
    base.add_(1.0)

    assert holds(compiled, (view,))
    base.mul_(eager.tensor(2.0, requires_grad=True))
    assert not holds(compiled, (view,))


def test_unknown_sizes_strides_and_requires_grad_accept_anything():
    facts = TensorFacts(Tensor, TensorFacts.of(tensor(1)).dtype, "cpu", (None, 3), None, None)
    compiled = evaluator((SELF, Kind.TENSOR, facts))
    x = tensor(7, 3)
    x.requires_grad = True

    assert holds(compiled, (x,))
    assert holds(compiled, (Tensor(np.zeros((3, 5), np.float32).T),))
    assert not holds(compiled, (tensor(3, 7),))


def test_strides_of_size_one_and_of_empty_tensors_are_free():
    ones = np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), (1, 4), (400, 4))
    facts = TensorFacts.of(tensor(1, 4))

    assert holds(evaluator((SELF, Kind.TENSOR, facts)), (Tensor(ones),))
    empty = Tensor(np.zeros((3, 0), np.float32).T)
    assert holds(evaluator((SELF, Kind.TENSOR, TensorFacts.of(tensor(0, 3)))), (empty,))


def test_strides_that_are_no_multiple_of_the_item_size_are_refused():
    record = np.zeros(3, np.dtype([("a", np.uint8), ("b", np.float32)]))

    with pytest.raises(CaptureError, match="multiples of the item size"):
        TensorFacts.of(Tensor(record["b"]))


def test_contiguous_reads_the_strides():
    assert TensorFacts.of(tensor(2, 3)).contiguous
    assert not TensorFacts.of(Tensor(np.zeros((3, 2), np.float32).T)).contiguous


def test_zero_dimensional_tensors_are_guarded():
    compiled = evaluator((SELF, Kind.TENSOR, TensorFacts.of(tensor())))

    assert holds(compiled, (tensor(),))
    assert not holds(compiled, (tensor(1),))


# ------------------------------------------------------------------------- the other kinds

SIMPLE = [
    (Kind.TYPE_IS, list, [], ()),
    (Kind.TYPE_IS, int, 1, True),
    (Kind.LENGTH, 2, [1, 2], [1]),
    (Kind.LENGTH, 2, {1: 1, 2: 2}, {1: 1}),
    (Kind.LENGTH, 2, {1, 2}, 5),
    (Kind.LENGTH, 2, "ab", b"a"),
    (Kind.TRUE_VALUE, True, [0], []),
    (Kind.TRUE_VALUE, False, {}, {1: 1}),
    (Kind.TRUE_VALUE, True, (0,), 1),
    (Kind.DICT_KEYS, ("a", 1), {"a": 0, 1: 0}, {1: 0, "a": 0}),
    (Kind.DICT_KEYS, (1,), {1: 0}, {True: 0}),
    (Kind.DICT_KEYS, (), {}, {1: 0}),
    (Kind.DICT_KEYS, (1, 2), {2, 1}, {1, 2, 3}),
    (Kind.DICT_KEYS, (1, 2), {2, 1}, {1, 2.0}),
    (Kind.DICT_KEYS, ("a", "b"), OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)),
    (Kind.HAS_NO_KEY, "a", {}, {"a": 1}),
    (Kind.HAS_NO_KEY, "a", {"b": 1}, []),
    (Kind.HAS_NO_ATTRIBUTE, "x", Node(), Node(x=1)),
    (Kind.HAS_NO_ATTRIBUTE, "limits", Node(), Node(limits=1)),
    (Kind.INSTANCE_LACKS, "limit", Node(), Node(limit=1)),
    (Kind.FUNCTION, FunctionFacts(plain.__code__), plain, holds),
    (Kind.FUNCTION, FunctionFacts(plain.__code__), plain, len),
]


@pytest.mark.parametrize(("kind", "expected", "good", "bad"), SIMPLE, ids=str)
def test_a_guard_passes_and_fails(kind, expected, good, bad):
    compiled = evaluator((SELF, kind, expected))

    assert holds(compiled, (good,))
    assert not holds(compiled, (bad,))


def test_has_no_attribute_sees_the_class():
    assert not holds(evaluator((SELF, Kind.HAS_NO_ATTRIBUTE, "limit")), (Node(),))


def test_an_ordered_dict_that_was_reordered_fails():
    keys = OrderedDict(a=1, b=2)
    compiled = warm(evaluator((Attribute(SELF, "d"), Kind.DICT_KEYS, ("a", "b"))), (Node(d=keys),))
    owner = Node(d=keys)
    warm(compiled, (owner,))
    keys.move_to_end("a")

    assert not holds(compiled, (owner,))


PREDICATES = [
    (Predicate(int, (("<", 5),)), 4, 5),
    (Predicate(int, ((">=", 2), ("!=", 3))), 2, 3),
    (Predicate(int, (("==", 2**70),)), 2**70, 2**70 + 1),
    (Predicate(int, (("<", 2.5),)), 2, 3),
    (Predicate(int, (("==", 1),)), 1, True),
    (Predicate(float, (("<", 0.0),), negated=True), math.nan, -1.0),
    (Predicate(float, (("==", math.nan),), negated=True), math.nan, 1),
    (Predicate(float, ((">", 0),)), 0.5, math.nan),
    (Predicate(float, (("<=", 2),)), 2.0, 2),
]


@pytest.mark.parametrize(("predicate", "good", "bad"), PREDICATES, ids=str)
def test_a_predicate_compares_numbers(predicate, good, bad):
    compiled = evaluator((SELF, Kind.PREDICATE, predicate))

    assert holds(compiled, (good,))
    assert not holds(compiled, (bad,))


def test_the_grad_mode_is_guarded():
    compiled = evaluator((GRAD_MODE_SOURCE, Kind.GRAD_MODE, True))
    before = _capture.set_grad_mode(True)
    try:
        assert holds(compiled, ())
        assert _capture.get_grad_mode()
        _capture.set_grad_mode(False)
        assert not holds(compiled, ())
    finally:
        _capture.set_grad_mode(before)


def test_the_autocast_word_is_guarded():
    compiled = evaluator((GRAD_MODE_SOURCE, Kind.AUTOCAST, 0))

    assert holds(compiled, ())
    with autocast("cpu"):
        assert not holds(compiled, ())
        compiled = evaluator((GRAD_MODE_SOURCE, Kind.AUTOCAST, _autocast_word()))
        assert holds(compiled, ())
    assert not holds(compiled, ())


def test_relations_compare_two_places():
    other = Local("other", 1)
    one, two = tensor(2), tensor(2)

    assert holds(evaluator((SELF, Kind.ALIASED, other)), (one, one))
    assert not holds(evaluator((SELF, Kind.ALIASED, other)), (one, two))
    assert holds(evaluator((SELF, Kind.NOT_ALIASED, other)), (one, two))
    assert not holds(evaluator((SELF, Kind.NOT_ALIASED, other)), (one, one))
    assert holds(evaluator((SELF, Kind.NO_SHARED_STORAGE, other)), (one, two))
    assert not holds(evaluator((SELF, Kind.NO_SHARED_STORAGE, other)), (one, one))


def test_relations_between_places_under_a_snapshot():
    a, b = Key(Attribute(SELF, "d"), "a"), Key(Attribute(SELF, "d"), "b")
    one, two = tensor(2), tensor(2)
    owner = Node(d={"a": one, "b": two})
    facts = TensorFacts.of(one)
    compiled = warm(
        evaluator((a, Kind.TENSOR, facts), (b, Kind.TENSOR, facts), (a, Kind.NOT_ALIASED, b)),
        (owner,),
    )
    owner.d["b"] = one

    assert not holds(compiled, (owner,))
    owner.d["b"] = two
    assert holds(compiled, (owner,))


# --------------------------------------------------------------------------------- sources


def closure_of(value):
    def inner():
        return value

    return inner


def places():
    """(source, arguments, function, how to change the place).

    Names are rebound on the way: use a change before taking the next item.
    """
    node = Node(a=[1])
    yield Attribute(SELF, "a"), (node,), plain, lambda: setattr(node, "a", 5)

    fallback = Dynamic(a=[1])
    yield Attribute(SELF, "a"), (fallback,), plain, lambda: setattr(fallback, "a", 5)

    materialised = Node(a=[1])
    materialised.__dict__["a"] = materialised.a
    yield Attribute(SELF, "a"), (materialised,), plain, lambda: setattr(materialised, "a", 5)

    through = Node(a=[1])
    yield Attribute(SELF, "a"), (through,), plain, lambda: through.__dict__.update(a=5)

    swapped = Node(a=[1])
    yield Attribute(SELF, "a"), (swapped,), plain, lambda: setattr(swapped, "__dict__", {"a": 5})

    deleted = Node(a=[1])
    yield Attribute(SELF, "a"), (deleted,), plain, lambda: delattr(deleted, "a")

    slotted = Slotted()
    slotted.a = [1]
    yield Attribute(SELF, "a"), (slotted,), plain, lambda: setattr(slotted, "a", 5)

    namespace = types.ModuleType("namespace")
    namespace.a = [1]
    yield Attribute(Constant(namespace), "a"), (), plain, lambda: setattr(namespace, "a", 5)

    class Owner:
        a = (1,)

    yield Attribute(SELF, "a"), (Owner(),), plain, lambda: setattr(Owner, "a", 5)

    class Owner:
        a = (1,)

    yield Attribute(Constant(Owner), "a"), (), plain, lambda: setattr(Owner, "a", 5)

    class Owner:
        a = (1,)

    shadowed = Owner()
    yield Attribute(SELF, "a"), (shadowed,), plain, lambda: setattr(shadowed, "a", 5)

    class Owner:
        pass

    late = Owner()
    late.a = [1]
    yield Attribute(SELF, "a"), (late,), plain, lambda: setattr(Owner, "a", property(lambda s: 5))

    class Owner:
        def a(self):
            return 1

    yield ClassAttribute(SELF, "a"), (Owner(),), plain, lambda: setattr(Owner, "a", len)

    items = [[1], [2]]
    yield Item(SELF, 1), (items,), plain, lambda: items.__setitem__(1, 5)

    items = [[1], [2]]
    yield Item(SELF, 1), (items,), plain, lambda: items.pop()

    held = Node(a=([1], [2]))
    yield Item(Attribute(SELF, "a"), 0), (held,), plain, lambda: setattr(held, "a", (5, 5))

    table = {"k": [1]}
    yield Key(SELF, "k"), (table,), plain, lambda: table.update(k=5)

    table = {"k": [1]}
    yield Key(SELF, "k"), (table,), plain, table.clear

    table = {7: [1], "other": 2}
    yield Key(SELF, 7), (table,), plain, lambda: table.update({7: 5})

    user_key = Node()
    table = {user_key: [1]}
    yield Key(SELF, user_key), (table,), plain, lambda: table.update({user_key: 5})

    scope = {"g": [1]}
    exec("def f(): return g", scope)
    yield Global("g"), (), scope["f"], lambda: scope.update(g=5)

    scope = {"g": [1]}
    exec("def f(): return g", scope)
    yield Global("g"), (), scope["f"], lambda: scope.pop("g")

    scope = {}
    exec("def f(): return len", scope)
    yield Builtin("len"), (), scope["f"], lambda: scope.update(len=5)

    inner = closure_of([1])
    yield (
        Closure(Function(), 0, "value"),
        (),
        inner,
        lambda: setattr(inner.__closure__[0], "cell_contents", 5),
    )

    cell = types.CellType([1])
    yield CellContents(SELF), (cell,), plain, lambda: setattr(cell, "cell_contents", 5)

    def with_default(a=[1], *, b=[2]):  # noqa: B006
        return a

    yield (
        DefaultOf(Function(), 0),
        (),
        with_default,
        lambda: setattr(with_default, "__defaults__", (5,)),
    )

    def with_default(a=[1], *, b=[2]):  # noqa: B006
        return a

    yield (
        DefaultOf(Function(), "b"),
        (),
        with_default,
        lambda: with_default.__kwdefaults__.update(b=5),
    )

    def with_code():
        return 1

    yield (
        PartOf(SELF, "__code__"),
        (with_code,),
        plain,
        lambda: setattr(with_code, "__code__", plain.__code__),
    )

    changed = Node()
    yield TypeOf(SELF), (changed,), plain, lambda: setattr(changed, "__class__", Dynamic)

    mapped = Node(a=1)
    yield InstanceDict(SELF), (mapped,), plain, lambda: setattr(mapped, "__dict__", {"a": 1})


def value_at(source, args, function):
    """What the evaluator finds at `source`."""
    compiled = evaluator((source, Kind.TYPE_IS, Missing))
    number, value = compiled.evaluator.first_failure(args, function)
    assert 0 == number
    assert value is not NotImplemented
    return value


class Missing:
    """No value has this class."""


PLACES = list(places())


@pytest.mark.parametrize("index", range(len(PLACES)), ids=[str(p[0]) for p in PLACES])
def test_a_changed_place_is_seen(index):
    source, args, function, change = next(itertools.islice(places(), index, None))
    value = value_at(source, args, function)
    compiled = warm(evaluator((source, Kind.IDENTITY, value)), args, function)
    change()

    assert not holds(compiled, args, function)


@pytest.mark.parametrize("index", range(len(PLACES)), ids=[str(p[0]) for p in PLACES])
def test_a_changed_place_is_seen_below_an_attribute(index):
    """The same changes, reached through one more object, so that a snapshot covers them."""
    source, args, function, change = next(itertools.islice(places(), index, None))
    value = value_at(source, args, function)
    if source.root == SELF:
        owner = Node(root=args[0])
        args = (owner,)
        source = graft(source, Attribute(SELF, "root"))
    compiled = warm(evaluator((source, Kind.IDENTITY, value)), args, function)
    change()

    assert not holds(compiled, args, function)


def graft(source, root):
    """`source` with its root replaced."""
    if source.parent is None:
        return root
    fields = {name: getattr(source, name) for name in source.__slots__}
    fields["base"] = graft(source.parent, root)
    return type(source)(**{k: v for k, v in fields.items() if k != "step"})


def test_bound_methods_are_taken_apart():
    node = Node()
    compiled = evaluator(
        (MethodFunction(SELF), Kind.FUNCTION, FunctionFacts(Node.method.__code__)),
        (MethodSelf(SELF), Kind.IDENTITY, node),
    )

    assert holds(compiled, (node.method,))
    assert not holds(compiled, (Node().method,))
    assert not holds(compiled, (plain,))


def test_a_closure_cell_is_an_object():
    inner = closure_of(1)

    assert inner.__closure__[0] is value_at(ClosureCell(Function(), 0), (), inner)


def test_no_property_and_no_getattr_runs():
    class Loud:
        @property
        def a(self):
            raise AssertionError("user code ran")

        def __getattribute__(self, name):
            raise AssertionError("user code ran")

    for source in (Attribute(SELF, "a"), Attribute(SELF, "b")):
        compiled = evaluator((source, Kind.EQUALS, 1))
        assert (0, NotImplemented) == compiled.evaluator.first_failure((Loud(),), plain)
    assert not holds(evaluator((Attribute(SELF, "zz"), Kind.EQUALS, 1)), (Dynamic(),))


def test_the_grad_of_a_tensor_is_a_place():
    x = tensor(2)
    compiled = warm(evaluator((Attribute(SELF, "grad"), Kind.EQUALS, None)), (x,))
    x.grad = tensor(2)

    assert not holds(compiled, (x,))


# ------------------------------------------------------------------------- a module, warm


def model():
    """Two layers under registries, as neural-network modules keep them."""
    layers = {}
    for name in ("first", "second"):
        layers[name] = Dynamic(
            _parameters={"weight": tensor(3, 3), "bias": tensor(3)}, _modules={}, training=True
        )
    return Dynamic(_modules=layers, _parameters={}, training=True, step=0)


def guards_of(root, source=SELF):
    """The guards that running the model relies on."""
    guards = [
        Guard(source, Kind.TYPE_IS, type(root)),
        Guard(Attribute(source, "training"), Kind.EQUALS, True),
        Guard(Attribute(source, "_modules"), Kind.DICT_KEYS, tuple(root._modules)),
        Guard(source, Kind.INSTANCE_LACKS, "method"),
        Guard(ClassAttribute(source, "method"), Kind.FUNCTION, FunctionFacts(Node.method.__code__)),
    ]
    for name, parameter in root._parameters.items():
        place = Key(Attribute(source, "_parameters"), name)
        guards.append(Guard(place, Kind.TENSOR, TensorFacts.of(parameter)))
    for name, module in root._modules.items():
        guards += guards_of(module, Key(Attribute(source, "_modules"), name))
    return guards


def set_array(m):
    m._modules["second"]._parameters["weight"].array = np.zeros((3, 4), np.float32)


def require_grad(m):
    m._modules["second"]._parameters["weight"].requires_grad = True


def change_tensor_class(m):
    m._modules["second"]._parameters["weight"].__class__ = OtherTensor


MODEL_CHANGES = {
    "flag of a layer": lambda m: setattr(m._modules["second"], "training", False),
    "flag of the root": lambda m: setattr(m, "training", False),
    "parameter replaced": lambda m: m._modules["first"]._parameters.update(weight=tensor(3, 4)),
    "parameter removed": lambda m: m._modules["first"]._parameters.pop("bias"),
    "layer replaced": lambda m: m._modules.update(first=Dynamic()),
    "layer added": lambda m: m._modules.update(third=Dynamic()),
    "layers reordered": lambda m: m._modules.update(first=m._modules.pop("first")),
    "registry replaced": lambda m: setattr(m._modules["first"], "_parameters", {}),
    "method on the instance": lambda m: setattr(m._modules["second"], "method", plain),
    "class of a layer": lambda m: setattr(m._modules["second"], "__class__", Node),
    "dict of a layer": lambda m: setattr(m._modules["second"], "__dict__", {"training": True}),
    "array of a parameter": set_array,
    "requires_grad of a parameter": require_grad,
    "class of a parameter": change_tensor_class,
}


@pytest.mark.parametrize("materialise", [False, True], ids=["inline", "dict"])
@pytest.mark.parametrize("change", MODEL_CHANGES)
def test_a_change_to_a_model_is_seen(change, materialise):
    m = model()
    if materialise:
        for module in (m, *m._modules.values()):
            module.__dict__ = dict(module.__dict__)
    compiled = warm(compile_guards(guards_of(m)), (m,))
    assert compiled.evaluator.facts[0] > 0
    MODEL_CHANGES[change](m)

    assert not holds(compiled, (m,))


def test_a_change_of_the_class_is_seen():
    class Owner(Dynamic):
        pass

    m = model()
    for module in (m, *m._modules.values()):
        module.__class__ = Owner
    compiled = warm(compile_guards(guards_of(m)), (m,))
    Owner.method = lambda self: 2

    assert not holds(compiled, (m,))


def test_a_change_of_a_base_class_is_seen():
    class Base(Dynamic):
        pass

    class Owner(Base):
        pass

    m = model()
    m.__class__ = Owner
    compiled = warm(compile_guards(guards_of(m)), (m,))
    Base._modules = property(lambda self: {})

    assert not holds(compiled, (m,))


@pytest.mark.parametrize("materialise", [False, True], ids=["inline", "dict"])
def test_changes_that_do_not_matter_keep_the_guards(materialise):
    m = model()
    if materialise:
        for module in (m, *m._modules.values()):
            module.__dict__ = dict(module.__dict__)
    compiled = warm(compile_guards(guards_of(m)), (m,))
    for step in range(100):
        m.step = step
        m._modules["first"]._parameters["extra"] = step
        m._modules["first"]._parameters["weight"].array[...] = step

        assert holds(compiled, (m,))
    unrelated = tensor(2)
    unrelated.requires_grad = True  # bumps the metadata epoch

    assert holds(compiled, (m,))


def test_a_parameter_of_equal_metadata_is_accepted():
    m = model()
    compiled = warm(compile_guards(guards_of(m)), (m,))
    m._modules["first"]._parameters["weight"] = tensor(3, 3)

    assert holds(compiled, (m,))


def test_address_reuse_does_not_fool_the_snapshot():
    """A tensor that dies and another one at its address: the new one's metadata counts."""
    m = model()
    compiled = warm(compile_guards(guards_of(m)), (m,))
    registry = m._modules["first"]._parameters
    for _ in range(200):
        array = np.zeros((3, 4), np.float32)
        registry["weight"] = None
        registry["weight"] = Tensor(array)
        assert not holds(compiled, (m,))
        registry["weight"] = tensor(3, 3)
        assert holds(compiled, (m,))


def test_address_reuse_of_a_whole_model_is_seen():
    m = model()
    compiled = warm(compile_guards(guards_of(m)), (m,))
    for _ in range(100):
        del m
        m = model()
        assert holds(compiled, (m,))
        m._modules["second"].training = False
        assert not holds(compiled, (m,))


def test_two_models_of_one_shape_take_turns():
    first, second = model(), model()
    compiled = warm(compile_guards(guards_of(first)), (first,))
    for _ in range(50):
        assert holds(compiled, (first,))
        assert holds(compiled, (second,))
    second.training = False
    for _ in range(50):
        assert holds(compiled, (first,))
        assert not holds(compiled, (second,))


def test_a_model_in_a_closure_or_a_global_is_covered():
    m = model()
    inner = closure_of(m)
    compiled = warm(compile_guards(guards_of(m, Closure(Function(), 0))), (), inner)
    assert compiled.evaluator.facts[0] > 0
    m._modules["first"].training = False
    assert not holds(compiled, (), inner)
    m._modules["first"].training = True
    assert holds(compiled, (), inner)

    scope = {"m": m, "step": 0}
    exec("def f(): return m", scope)
    compiled = warm(compile_guards(guards_of(m, Global("m"))), (), scope["f"])
    for step in range(20):
        scope["step"] = step
        assert holds(compiled, (), scope["f"])
    scope["m"] = model()
    assert holds(compiled, (), scope["f"])
    scope["m"].training = False
    assert not holds(compiled, (), scope["f"])


def random_change(random, m, spare):
    """One random change somewhere in the model; most of them can be undone by another one."""
    module = random.choice([m, *(v for v in m._modules.values() if isinstance(v, Node))])
    registry = module._parameters
    name = random.choice(["weight", "bias", "extra"])
    shape = {"weight": (3, 3), "bias": (3,), "extra": (2,)}[name]
    choice = random.randrange(14)
    if choice == 0:
        module.training = random.random() < 0.8
    elif choice == 1:
        registry[name] = tensor(*shape)
    elif choice == 2:
        registry[name] = tensor(*(size + random.randrange(2) for size in shape))
    elif choice == 3 and isinstance(registry.get(name), Tensor):
        registry[name].requires_grad = random.random() < 0.3
    elif choice == 4 and isinstance(registry.get(name), Tensor):
        registry[name].array = np.zeros(shape, np.float32)
    elif choice == 5:
        module.__dict__ = dict(module.__dict__)
    elif choice == 6:
        module.step = random.randrange(1000)
    elif choice == 7:
        module.__dict__["step"] = 5
    elif choice == 8:
        module._parameters = dict(registry)
    elif choice == 9:
        module.__class__ = random.choice([Dynamic, Dynamic, Node])
    elif choice == 10:
        layer = random.choice(["first", "second"])
        spare[layer], m._modules[layer] = m._modules[layer], spare[layer]
    elif choice == 11:
        setattr(module, f"extra{random.randrange(40)}", 1)
    elif choice == 12:
        Dynamic.counter = random.randrange(5)
    elif isinstance(registry.get(name), Tensor):
        registry[name].__class__ = random.choice([Tensor, Tensor, OtherTensor])


def repair(m):
    """Bring the model back to what the guards expect."""
    for module in (m, *m._modules.values()):
        module.__class__ = Dynamic
        module.training = True
        for name, shape in (("weight", (3, 3)), ("bias", (3,))):
            if module is not m:
                module._parameters[name] = tensor(*shape)


@pytest.mark.parametrize("seed", range(20))
def test_after_random_changes_the_snapshot_agrees_with_the_tree(seed):
    """`holds` compares both after every change, in long random histories."""
    random = Random(seed)
    m, spare = model(), dict(model()._modules)
    compiled = warm(compile_guards(guards_of(m)), (m,))
    verdicts = []
    for _ in range(400):
        for _ in range(random.randrange(1, 3)):
            random_change(random, m, spare)
        verdicts.append(holds(compiled, (m,)))
        if random.random() < 0.3:
            repair(m)
            verdicts.append(holds(compiled, (m,)))
            holds(compiled, (m,))

    assert {True, False} == set(verdicts)


def test_a_list_of_layers_is_covered():
    layers = [model(), model()]
    owner = Node(layers=layers)
    guards = [
        Guard(Attribute(SELF, "layers"), Kind.LENGTH, 2),
        *guards_of(layers[0], Item(Attribute(SELF, "layers"), 0)),
        *guards_of(layers[1], Item(Attribute(SELF, "layers"), 1)),
    ]
    compiled = warm(compile_guards(guards), (owner,))
    layers.append(1)
    assert not holds(compiled, (owner,))
    layers.pop()
    assert holds(compiled, (owner,))
    layers[1]._modules["second"]._parameters["bias"].requires_grad = True
    assert not holds(compiled, (owner,))


# --------------------------------------------------------------------- ownership and reports


def test_guards_do_not_keep_instances_alive():
    m = model()
    node = Node()
    guards = [
        *guards_of(m),
        Guard(SELF, Kind.IDENTITY, m),
        Guard(Attribute(SELF, "table"), Kind.DICT_KEYS, (node,)),
        Guard(Key(Attribute(SELF, "table"), node), Kind.EQUALS, 1),
    ]
    m.table = {node: 1}
    compiled = warm(compile_guards(guards), (m,))
    references = [weakref.ref(m), weakref.ref(node)]
    del m, node, guards
    gc.collect()

    assert [None, None] == [reference() for reference in references]
    assert not compiled.evaluator.check((model(),), plain)
    assert all(str(guard) for guard in compiled.guards)


def test_an_identity_guard_fails_for_another_object_at_the_address():
    node = Node()
    compiled = evaluator((SELF, Kind.IDENTITY, node))
    assert holds(compiled, (node,))
    del node
    for _ in range(50):
        assert not holds(compiled, (Node(),))


@pytest.mark.parametrize("times", [0, 5])
def test_none_is_not_an_object_that_has_ended(times):
    node = Node()
    guarded = [
        (Guard(SELF, Kind.IDENTITY, node), node, None),
        (Guard(SELF, Kind.DICT_KEYS, (node,)), {node: 1}, {None: 1}),
        (Guard(Key(SELF, node), Kind.EQUALS, 1), {node: 1}, {None: 1}),
    ]
    compiled = []
    for guard, fitting, other in guarded:
        compiled.append((compile_guards([guard]), other))
        assert all(holds(compiled[-1][0], (fitting,)) for _ in range(1 + times))
    del node, guarded, guard, fitting
    gc.collect()

    assert [False] * 3 == [holds(guards, (other,)) for guards, other in compiled]


def test_guards_release_what_they_own():
    class Local_(Node):
        pass

    reference = weakref.ref(Local_)
    compiled = evaluator((SELF, Kind.TYPE_IS, Local_))
    assert reference() is not None
    del compiled, Local_
    gc.collect()

    assert reference() is None


def test_checking_leaves_reference_counts_alone():
    m = model()
    compiled = warm(compile_guards(guards_of(m)), (m,))
    weight = m._modules["first"]._parameters["weight"]
    before = sys.getrefcount(m), sys.getrefcount(weight), sys.getrefcount(True)
    for step in range(1000):
        m.step = step
        compiled.evaluator.check((m,), plain)
        compiled.evaluator.first_failure((model(),), plain)

    after = sys.getrefcount(m), sys.getrefcount(weight), sys.getrefcount(True)
    assert before[:2] == after[:2]


def test_a_failure_explains_itself():
    weight = Key(Attribute(SELF, "_parameters"), "weight")
    owner = Dynamic(_parameters={"weight": tensor(8, 4)})
    compiled = evaluator((weight, Kind.TENSOR, TensorFacts.of(tensor(8, 4))))
    owner._parameters["weight"] = tensor(9, 4)
    failure = compiled.explain_failure((owner,), plain)

    assert "self.weight: shape was [8, 4], now [9, 4]" == failure.explanation
    assert "Tensor float32[8, 4], strides=[4, 1], requires_grad=False" == failure.old
    assert "Tensor float32[9, 4], strides=[4, 1], requires_grad=False" == failure.new
    owner._parameters.clear()
    failure = compiled.explain_failure((owner,), plain)
    assert failure.explanation.startswith("self.weight does not exist any more")


EXPLANATIONS = [
    (Kind.TYPE_IS, int, 1.0, "type(self) is int", "self: expected a int, now 1.0"),
    (Kind.EQUALS, 3, 4, "self == 3", "self: expected 3, now 4"),
    (Kind.LENGTH, 2, [1], "len(self) == 2", "self: expected length 2, now length 1"),
    (Kind.DICT_KEYS, ("a",), {}, "list(self) == ['a']",
     "self: expected the keys ['a'], now the keys []"),
    (Kind.PREDICATE, Predicate(int, (("<", 5),)), 7, "self < 5", "self: expected it < 5, now 7"),
    (Kind.IDENTITY, len, 1, "self is function len",
     "self: expected function len, now 1"),
    (Kind.HAS_NO_KEY, "a", {"a": 1}, "'a' not in self",
     "self: expected no key 'a', now it has one"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "expected", "bad", "condition", "sentence"), EXPLANATIONS)
def test_conditions_and_explanations_are_readable(kind, expected, bad, condition, sentence):
    guard = Guard(SELF, kind, expected)

    assert condition == guard.expression()
    assert sentence == guard.explain(bad)


def test_a_malformed_tree_is_refused():
    with pytest.raises(TypeError):
        _capture.Guards(((1, 2),), 0)
    with pytest.raises(ValueError, match="unknown step"):
        _capture.Guards(((99, None, 0, (), ()),), 0)
    with pytest.raises(TypeError):
        _capture.Guards(((0, 0, 0, ((int(Kind.TENSOR), (int,), 0),), ()),), 1)
    with pytest.raises(TypeError):
        compile_guards([]).evaluator.check([1], plain)


def test_thousands_of_guards_are_compiled_in_linear_time():
    """A function that reads a long list has one guard per item."""
    started = time.perf_counter()
    compiled = evaluator(*((Item(SELF, i), Kind.EQUALS, i) for i in range(8000)))
    assert time.perf_counter() - started < 4
    assert holds(compiled, (list(range(8000)),))


def test_written_tensors_are_apart_writable_and_of_the_expected_kind():
    """Ranges that overlap, read-only memory, shared storage and leaves fail the guard."""

    def check(one, two, use):
        members = ((SELF, use), (Local("other", 1), MemoryUse.READ))
        return holds(evaluator((SELF, Kind.SEPARATE_MEMORY, members)), (one, two))

    whole = eager.tensor(np.arange(8, dtype=np.float32))
    leaf = eager.tensor(np.ones(2, np.float32)).requires_grad_()
    assert check(whole[:4], whole[4:], MemoryUse.WRITTEN)
    assert not check(whole[:4], whole[3:], MemoryUse.WRITTEN)
    assert check(whole[:4], whole[3:], MemoryUse.READ)
    assert not check(whole[:4], whole[4:], MemoryUse.WRITTEN | MemoryUse.ALONE)
    assert check(leaf, whole, MemoryUse.WRITTEN | MemoryUse.LEAF)
    assert not check(leaf, whole, MemoryUse.WRITTEN | MemoryUse.RECORDED)
    assert check(leaf * 2, whole, MemoryUse.WRITTEN | MemoryUse.RECORDED | MemoryUse.RESULT)
    frozen = np.ones(2, np.float32)
    frozen.flags.writeable = False
    assert not check(eager.from_numpy(frozen), whole, MemoryUse.WRITTEN)
