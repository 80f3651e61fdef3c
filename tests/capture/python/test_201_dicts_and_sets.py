"""Dicts, sets and their views: methods, order, keys of every kind, exact errors."""

from collections import OrderedDict
from dataclasses import dataclass

import pytest

import dynajit as dj
from dynajit.capture.entry import session


def caught(function, *arguments, **keywords):
    """The result, or the exception's class name and text."""
    try:
        return function(*arguments, **keywords)
    except Exception as error:
        return type(error).__name__, str(error)


def forms_of_dict(x):
    return (
        x + 1,
        dict(),
        dict(a=1),
        dict([("a", 1), ["b", 2], "cd"]),
        dict({"a": 1}, b=2),
        dict(zip("ab", [1, 2])),
        dict.fromkeys("ab"),
        dict.fromkeys([1, 2], 0),
        {**{"a": 1}, "b": 2, **{"a": 3}},
        caught(dict, 5),
        caught(dict, [1]),
        caught(dict, ["abc"]),
        caught(dict, 1, 2),
    )


def order_is_of_first_insertion(x):
    table = {"a": 1, "b": 2}
    table["a"] = 3
    del table["b"]
    table["b"] = 4
    table["c"] = 5
    table |= {"a": 6, "z": 7}
    merged = {"z": 0} | table
    return x + 1, table, list(table), merged, list(reversed(table)), list(reversed(table.items()))


def get_pop_setdefault(x):
    table = {"a": 1, "b": 2, "c": 3}
    return (
        x + 1,
        table.get("a"),
        table.get("q"),
        table.get("q", 5),
        table.pop("a"),
        table.pop("q", None),
        table.setdefault("b", 9),
        table.setdefault("n", 9),
        table.setdefault("m"),
        table.popitem(),
        table,
        caught(table.pop, "zz"),
        caught({}.popitem),
        caught(table.pop),
        caught(table.get),
        caught(table.update, 5),
        caught(table.setdefault),
        caught(lambda: table["missing"]),
        caught(lambda: table[[]]),
        caught(lambda: {[]: 1}),
        caught(lambda: {{}: 1}),
    )


def delete(x):
    def missing():
        table = {}
        del table["a"]

    return x + 1, caught(missing), caught(lambda: {}[(1, 2)])


def update_forms(x):
    table = {"a": 1}
    table.update({"b": 2})
    table.update([("c", 3)], d=4)
    table.update(zip("e", [5]))
    table.update()
    return x + 1, table, caught(table.update, [1]), caught(table.update, ["abc"])


def views(x):
    table = {"a": 1, "b": 2}
    keys, values, items = table.keys(), table.values(), table.items()
    table["c"] = 3
    return (
        x + 1,
        list(keys),
        list(values),
        list(items),
        len(keys),
        "c" in keys,
        3 in values,
        ("c", 3) in items,
        ("c", 4) in items,
        sorted(keys & {"a", "q"}),
        sorted(keys | {"q"}),
        sorted(keys - {"a"}),
        sorted(keys ^ {"a", "q"}),
        sorted(items & {("a", 1)}),
        keys == {"a", "b", "c"},
        keys <= {"a", "b", "c", "d"},
        keys.isdisjoint(["z"]),
        repr(keys),
        repr(values),
        repr(items),
        sorted(keys & ["a"]),
    )


def keys_of_equal_value(x):
    table = {1: "int", True: "bool", 1.0: "float"}
    zero = {0.0: "a", -0.0: "b", 0: "c"}
    return (
        x + 1,
        table,
        list(table),
        zero,
        {1: 2} == {True: 2.0},
        {1, True, 1.0},
        len({0, 0.0, False}),
    )


def changed_while_iterated(x):
    def grow():
        table = {"a": 1}
        for key in table:
            table[key + "x"] = 1

    def shrink():
        table = {"a": 1, "b": 2}
        for key in table.keys():
            del table[key]

    def same_size():
        table = {"a": 1, "b": 2}
        for key, _ in table.items():
            table[key] = 5
        return table

    def set_grows():
        items = {1}
        for item in items:
            items.add(item + 1)

    return x + 1, caught(grow), caught(shrink), caught(same_size), caught(set_grows)


class Key:
    def __init__(self, name, number):
        self.name = name
        self.number = number

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return isinstance(other, Key) and self.name == other.name


@dataclass(frozen=True)
class Point:
    a: int
    b: int


class Plain:
    pass


def user_keys(x):
    table = {Key("a", 1): "first", Key("b", 2): "second"}
    table[Key("a", 3)] = "third"
    return (
        x + 1,
        len(table),
        table[Key("a", 9)],
        Key("b", 0) in table,
        Key("c", 0) in table,
        [key.number for key in table],
        table.get(Key("z", 0), "none"),
        table.pop(Key("b", 1)),
        len({Key("a", 1), Key("a", 2), Key("b", 1)}),
        len(table),
    )


def dataclass_keys(x):
    table = {Point(1, 2): "a", Point(3, 4): "b"}
    return (
        x + 1,
        table[Point(1, 2)],
        Point(3, 4) in table,
        Point(0, 0) in table,
        table.get(Point(3, 4)),
    )


def objects_as_keys(x):
    a, b = Plain(), Plain()
    table = {a: 1, b: 2}
    table[a] = 3
    return x + 1, table[a], table[b], Plain() in table, len({a, b, a})


def tensors_as_keys(x):
    y = x + 1
    table = {x: "x", y: "y"}
    return x + 1, table[x], table[y], x in table


def tuples_as_keys(x):
    table = {(1, "a"): 1, (2, (3, 4)): 2}
    return x + 1, table[1, "a"], table[(2, (3, 4))], (2, (3, 4)) in table, (1,) in table


def comparisons(x):
    return (
        x + 1,
        {"a": 1} == {"a": 1.0},
        {"a": 1} != {"b": 1},
        {"a": [1, {"b": 2}]} == {"a": [1, {"b": 2}]},
        {"a": 1, "b": 2} == {"b": 2, "a": 1},
        caught(lambda: {} < {}),
        {} == [],
    )


def ordered_dicts(x):
    table = OrderedDict([("a", 1), ("b", 2), ("c", 3)])
    table.move_to_end("a")
    table.move_to_end("c", last=False)
    other = OrderedDict(reversed(list(table.items())))
    return (
        x + 1,
        list(table),
        table.popitem(),
        table.popitem(last=False),
        table,
        repr(table),
        OrderedDict(a=1, b=2) == OrderedDict(b=2, a=1),
        OrderedDict(a=1, b=2) == {"b": 2, "a": 1},
        list(other),
        caught(table.move_to_end, "zz"),
        table | {"q": 1},
    )


def comprehensions(x):
    words = ["a", "bb", "cc"]
    table = {w: len(w) for w in words if w != "a"}
    inverse = {v: k for k, v in table.items()}
    nested = {k: {j: k * j for j in range(2)} for k in range(2)}
    return x + 1, table, inverse, nested, {k: v for k, v in zip("ab", range(2))}


def sets(x):
    a = {3, 1, 2}
    b = set([2, 3, 4])
    a.add(9)
    a.discard(100)
    a.remove(1)
    return (
        x + 1,
        sorted(a),
        sorted(a | b),
        sorted(a & b),
        sorted(a - b),
        sorted(a ^ b),
        a <= b,
        {2} < a,
        a.isdisjoint({100}),
        a.issubset([2, 3, 9]),
        a.issuperset((2,)),
        sorted(a.union([7], (8,))),
        sorted(a.intersection([2], {2, 3})),
        sorted(a.difference([2])),
        sorted(a.symmetric_difference([2, 50])),
        len(a),
        caught(a.remove, 77),
        caught(set().pop),
        caught(lambda: a | [1]),
        caught(a.add),
        caught(set, 5),
        caught(lambda: {[]}),
        a == {2, 3, 9},
        a == frozenset({2, 3, 9}),
    )


def sets_in_place(x):
    a = {1, 2, 3, 4}
    alias = a
    a |= {9}
    a &= {1, 2, 9}
    a -= {1}
    a ^= {2, 5}
    b = {1}
    b.update([2], "ab")
    b.intersection_update([1, "a"])
    b.difference_update(["a"])
    return x + 1, sorted(a), alias is a, b


def order_of_sets(x):
    a = {30, 10, 20, 5, 7}
    a.add(100)
    a.discard(10)
    words = {"delta", "alpha", "bravo", "charlie"}
    words |= {"echo", "alpha"}
    return (
        x + 1,
        list(a),
        [v for v in words],
        list(a | {1, 2}),
        list({v % 5 for v in range(20)}),
        a.pop(),
        list(a),
        list(words - {"echo"}),
        str(a),
        list(a.copy()),
        list(set("hello")),
        tuple(frozenset([3, 1, 2])),
        a,
        words,
    )


def frozensets(x):
    f = frozenset([1, 2])
    return (
        x + 1,
        f | {3},
        {3} | f,
        f & {1},
        f == {1, 2},
        1 in f,
        {f: "key"}[frozenset([2, 1])],
        hash(f) == hash(frozenset((2, 1))),
        frozenset(),
        f.union([5]),
        sorted(f),
        len(f),
        {1} in {frozenset([1])},
    )


FUNCTIONS = [
    value
    for name, value in list(globals().items())
    if getattr(value, "__code__", None) is not None
    and value.__module__ == __name__
    and value.__code__.co_varnames[: value.__code__.co_argcount] == ("x",)
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_function_is_captured_without_a_break(assert_captured, x, function):
    """Same result as plain Python, without a break."""
    assert_captured(function, x)


def update_argument(x, table, members):
    table["new"] = x + 1
    table.pop("a")
    members.add("m")
    members.discard("zz")
    return len(members)


def test_argument_dict_and_empty_set_change(assert_captured, x):
    """Writes reach the arguments."""
    assert_captured(update_argument, x, {"a": 1, "b": 2}, set())


def member_of_argument(x, members):
    return x + ("a" in members) + ("q" in members)


def iterate_argument_set(x, members):
    total = x
    for member in members:
        total = total * 2 + member
    return total


def change_argument_set(x, members):
    members.add(7)
    members.discard(2)
    return x + len(members)


@pytest.mark.parametrize(
    "function", [member_of_argument, iterate_argument_set, change_argument_set]
)
def test_argument_set_with_members(assert_captured, x, function):
    """Membership, order and changes of a set that existed before."""
    members = {"a", "b"} if function is member_of_argument else {2, 40, 5}
    assert_captured(function, x, members)


def swap_while_iterated(x):
    table = {"a": 1, "b": 2}
    for key in table:
        del table[key]
        table[key + "x"] = 1
    return x + len(table)


def test_swapping_keys_of_what_is_iterated_over(assert_captured, x):
    """What Python does then depends on the table's layout: a break."""
    assert_captured(swap_while_iterated, x, graphs=None, breaks=None)


class CollidingKey:
    """Has the hash of 7, and empties what it is compared in."""

    def __hash__(self):
        return 7

    def __eq__(self, other):
        COLLIDING.append(other)
        return False


COLLIDING = []
TABLE_OF_COLLIDING = {CollidingKey(): 1}


def look_up_among_colliding(x):
    del COLLIDING[:]
    return x + (7 in TABLE_OF_COLLIDING), TABLE_OF_COLLIDING.get(7), list(COLLIDING)


def test_comparisons_of_existing_keys_are_run_by_the_program_alone(assert_captured, x):
    assert_captured(look_up_among_colliding, x, graphs=None, breaks=None)


def remove_a_set_from_a_set(x):
    members = {frozenset([1]), frozenset([2]), 3}
    members.remove({1})
    members.discard({2})
    members.discard({4})
    key = {5}
    try:
        members.remove(key)
    except KeyError as error:
        return x + len(members), error.args[0] is key


@dataclass(frozen=True)
class EqualKey:
    number: int


def dicts_with_equal_keys(x):
    return (
        x + 1,
        {EqualKey(1): 1} == {EqualKey(1): 1},
        {EqualKey(1): 1} == {EqualKey(2): 1},
        {EqualKey(1): 1} != {EqualKey(1): 2},
    )


def test_sets_are_found_as_frozensets(assert_captured, x):
    assert_captured(remove_a_set_from_a_set, x)


def test_keys_of_compared_dicts_are_equal_not_identical(assert_captured, x):
    assert_captured(dicts_with_equal_keys, x)


class OwnDict(dict):
    pass


def dict_subclass_from_keys(x):
    made = OwnDict.fromkeys("ab", 1)
    made["c"] = 2
    return x + 1, made == {"a": 1, "b": 1, "c": 2}, type(made) is OwnDict


def test_class_method_that_makes_an_object_is_run_in_every_call(assert_captured, x):
    assert_captured(dict_subclass_from_keys, x, graphs=None, breaks=None)


def sets_with_equal_keys(x):
    one = {EqualKey(1)}
    return (
        x + 1,
        one == {EqualKey(1)},
        one <= {EqualKey(1), EqualKey(2)},
        len(one | {EqualKey(1)}),
        len(one & {EqualKey(1)}),
        len(one - {EqualKey(1)}),
        one.isdisjoint({EqualKey(1)}),
        {EqualKey(1): 1}.keys() == {EqualKey(1): 2}.keys(),
    )


def views_with_unhashable_items(x):
    return x + 1, {1: [2]}.items() == {1: [2]}.items(), {1: [2]}.items() == {1: [3]}.items()


@pytest.mark.parametrize("function", [sets_with_equal_keys, views_with_unhashable_items])
def test_members_that_compare_in_their_own_way(assert_captured, x, function):
    assert_captured(function, x, graphs=None, breaks=None)


class LoudKey:
    """Tells of every comparison."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return 5

    def __eq__(self, other):
        COLLIDING.append((self.number, other.number))
        return self.number == other.number


def make_table_of_loud_keys(x):
    del COLLIDING[:]
    table = {LoudKey(1): x, LoudKey(2): 2}
    members = {LoudKey(3), LoudKey(3)}
    return table, members, list(COLLIDING), x.sum().item()


def store_under_a_loud_key(table, x):
    del COLLIDING[:]
    table[LoudKey(1)] = x
    table[LoudKey(2)] = x + 1
    return len(table), list(COLLIDING)


def test_comparisons_with_effects_are_made_once_when_a_dict_is_made(assert_captured, x):
    assert_captured(make_table_of_loud_keys, x, graphs=None, breaks=None)


def test_comparisons_with_effects_are_made_once_when_a_key_is_stored(assert_captured, x):
    assert_captured(store_under_a_loud_key, {}, x, graphs=None, breaks=None)


def test_storing_the_tensor_that_is_there_writes_no_dict():
    """So that many states, each with a counter, need not be kept apart from each other."""

    def step(states):
        for state in states:
            state["count"] += 1

    states = [{"count": dj.zeros(())} for _ in range(3)]
    region = session.capture(step, (states,))

    assert ["TensorEffect"] * 3 == [type(effect).__name__ for effect in region.effects]
    counted = [state["count"] for state in states]
    dj.compile(step)(states)
    assert [1, 1, 1] == [count.item() for count in counted]
    assert all(state["count"] is count for state, count in zip(states, counted, strict=True))
