"""Lists, tuples, dicts, sets, slices, strings; arguments that are containers."""

# The programs under test are spelled as users spell them.

from collections import OrderedDict, namedtuple

import pytest

Pair = namedtuple("Pair", "left right")


def list_methods(x, y):
    items = [x]
    items.append(y)
    items.extend([x + 1, 2])
    items.insert(0, 5)
    popped = items.pop()
    first = items.index(5)
    items.reverse()
    return items, popped, first, [3, 1, 3].count(3)


def list_slices(x, y):
    items = [x, y, 1, 2, 3]
    items[1:3] = [7]
    del items[-1]
    items[0] = items[0] * 2
    return items, items[::-1], items[:2]


def list_arithmetic(x, y):
    items = [1] * 2 + [x]
    items += (y,)
    items *= 1
    return items[2] + items[3] * len(items)


def list_comparison(x, y):
    return x + ([1, 2] == [1, 2]), [1, 2] < [1, 3], (1, "a") == (1, "b"), 2 in [1, 2]


def sort_in_place(x, y):
    items = [3, 1, 2]
    items.sort(key=lambda v: -v)
    return x * items[0], items


def tuples(x, y):
    pair = (x, y) + (1,)
    return pair[0] + pair[-1], pair[1:], (1, 2) * 2, pair.index(1) if False else 0


def named_tuples(x, y):
    pair = Pair(x, right=y)
    left, right = pair
    return pair.left + right, pair, pair._replace(left=1), pair._asdict()


def dict_methods(x, y):
    table = {"a": x, "b": 2}
    table["c"] = y + 1
    table.update(d=4)
    table.setdefault("a", 0)
    gone = table.pop("b")
    missing = table.get("zz", 9)
    return table, gone, missing, list(table.keys()), "a" in table, len(table)


def dict_iteration(x, y):
    total = x
    for key, value in {"a": 1, "b": 2}.items():
        total = total * value + len(key)
    for value in {"u": y}.values():
        total = total + value
    for key in {"p": 1}:
        total = total + len(key)
    return total


def dict_merging(x, y):
    left = {"a": x, "b": 1}
    return {**left, "b": y * 2}, left | {"c": 3}, dict(left, z=1), dict([("k", x)])


def dict_deletion(x, y):
    table = {"a": x, "b": y}
    del table["a"]
    return table, y + len(table)


def number_keys(x, y):
    table = {1: x, (2, "a"): y, None: 3}
    return table[True] + table[(2, "a")], table[1.0], table[None]


def ordered_dict(x, y):
    table = OrderedDict(a=x + 1, b=y)
    table.move_to_end("a")
    return table, list(table)


def sets(x, y):
    found = {1, 2} | {3}
    found.add(2)
    found.discard(1)
    return x + len(found), 3 in found, {1, 2} == {2, 1}, {1} <= {1, 2}


def frozen_set(x, y):
    return x * (2 if "a" in frozenset(["a", "b"]) else 3)


def strings(x, y):
    name = "-".join(["a", "b"]).upper().replace("A", "c")
    parts = ["x", "y", "z"]
    return x + len(name) + len(parts), name, name.startswith("c"), "b" in "abc", parts


def string_format(x, y):
    return x + 1, "{}-{:>4}".format(1, "a"), f"{2:.2f}", "%r" % (3,), str(1.5), repr("a")


def tensor_slices(x, y):
    return x[0] + 1, x[:, 1:], x[..., -1], x[None, 0, ::2], x[1][2]


def tensor_mask(x, y):
    return (x > 0).sum(), x.reshape(-1)[2:4]


def slice_objects(x, y):
    part = slice(0, 1)
    return x[part] * 2, [1, 2, 3][part], part.stop


def nested(x, y):
    tree = {"a": [x, {"b": (y, 1)}]}
    tree["a"][1]["c"] = tree["a"][0] + tree["a"][1]["b"][0]
    return tree


def copies(x, y):
    items = [x]
    other = items.copy()
    other.append(y - 1)
    again = list(items)
    table = {"a": items}
    shallow = dict(table)
    shallow["b"] = 1
    return items, other, again, table, shallow


def shared_list(x, y):
    items = [x]
    table = {"a": items, "b": items}
    table["a"].append(y)
    return table["b"][1] * 2, table


def ranges(x, y):
    steps = range(1, 10, 3)
    return x * steps[1] + len(steps), 4 in steps, list(steps), steps


def unpack_calls(x, y):
    def target(a, b=2, *rest, key=0, **others):
        return a * b + len(rest) + key + len(others)

    args, named = [x, y], {"key": 3, "zz": 1}
    return target(*args, *[1, 2], **named), target(x), target(x, key=1)


def isinstance_checks(x, y):
    kinds = [isinstance(x, type(y)), isinstance([], (list, tuple)), isinstance(1, bool)]
    return x + sum(kinds), type([]) is list, int.__name__


def getattr_calls(x, y):
    return x.sum(), getattr(x, "nothing", 5), hasattr(x, "shape")


def conversions(x, y):
    return x * int("3") + float(2), bool([]), bool("a"), tuple([1]), list("ab"), str(3), int(2.7)


def rounding(x, y):
    return x * round(2.567, 1) + abs(-3) + divmod(7, 2)[1] + pow(2, 3)


FUNCTIONS = [
    value
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__module__", "") == __name__
    and not isinstance(value, type)
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_gives_one_graph_and_the_same_result(function, x, y, assert_captured):
    assert_captured(function, x, y)


def append_to_argument(x, items):
    items.append(x * 2)
    items[0] = 7
    return len(items)


def write_to_dict_argument(x, table):
    table["new"] = x + 1
    del table["old"]
    table["kept"] += 1
    return table


def clear_dict_argument(x, table):
    table.clear()
    table["only"] = x * 2


def reorder_dict_argument(x, table):
    table["old"] = table.pop("old")
    return x + 1


def sort_argument(x, items):
    items.sort()
    return x * items[0]


def nested_argument(x, tree):
    tree["a"][0].append(x - 1)
    return tree["a"][1] + x


def add_to_set(x, members):
    members.add(3)
    return x * 2


CHANGES = [
    (append_to_argument, [1, 2]),
    (write_to_dict_argument, {"old": 1, "kept": 2}),
    (clear_dict_argument, {"old": 1}),
    (reorder_dict_argument, {"old": 1, "kept": 2}),
    (sort_argument, [3, 1, 2]),
    (nested_argument, {"a": [[1], 5]}),
    (add_to_set, set()),
]  # fmt: skip


@pytest.mark.parametrize(("function", "argument"), CHANGES, ids=lambda f: str(f)[:30])
def test_changes_of_arguments_are_replayed(function, argument, x, assert_captured):
    assert_captured(function, x, argument)


def test_a_changed_list_keeps_its_identity(x, compiler):
    items = [1]
    compiled = compiler.compile(lambda x, items: (items.append(x + 1), items)[1])
    assert compiled(x, items) is items
    assert 2 == len(items)


def test_one_list_passed_twice_is_seen_as_one(x, compiler):
    def function(x, a, b):
        a.append(2)
        return x * len(b)

    compiled = compiler.compile(function)
    one = [1]
    assert (compiled(x, one, one).numpy() == (x * 2).numpy()).all()
    assert (compiled(x, [1], [1]).numpy() == (x * 1).numpy()).all()
    again = [1]
    assert (compiled(x, again, again).numpy() == (x * 2).numpy()).all()


def test_a_list_of_another_length_is_another_program(x, compiler):
    compiled = compiler.compile(lambda x, items: sum(items, x * 0))
    for items in ([x], [x, x], [x, x, x], [x]):
        assert (compiled(x, items).numpy() == (x * len(items)).numpy()).all()
    assert 3 == len(compiler.graphs)


def test_a_value_of_an_item_is_guarded_only_if_used(x, compiler):
    compiled = compiler.compile(lambda x, table: x * table["a"])
    for b in (1, "two", None):
        compiled(x, {"a": 2.0, "b": b})
    assert 1 == len(compiler.graphs)


def moved_argument(table):
    table.move_to_end("a")
    return list(table)


def test_an_argument_is_reordered(assert_captured):
    assert_captured(moved_argument, OrderedDict(a=1, b=2), graphs=0)
