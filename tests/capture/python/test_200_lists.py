"""Lists and tuples: every method, slices with steps, comparison, unpacking, exact errors."""

# The programs under test are spelled as users spell them.

import pytest


def caught(function, *arguments):
    """The result, or the exception's class name and text."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error).__name__, str(error)


def append_and_extend(x):
    items = [1]
    items.append(2)
    items.extend((3, 4))
    items.extend("ab")
    items.extend(range(2))
    items.extend({"k": 1})
    items += [x.shape]
    return x + 1, items


def insert_positions(x):
    items = [0, 1, 2]
    items.insert(1, "a")
    items.insert(-1, "b")
    items.insert(100, "c")
    items.insert(-100, "d")
    return x + 1, items


def pop_positions(x):
    items = list(range(6))
    return x + 1, items.pop(), items.pop(0), items.pop(-2), items


def pop_errors(x):
    return x + 1, caught([].pop), caught([1].pop, 5), caught([1].pop, "a")


def remove_and_index(x):
    items = [1, 2, 3, 2, 1]
    items.remove(2)
    return x + 1, items, items.index(1), items.index(1, 1), items.index(2, 0, 4), items.count(1)


def index_errors(x):
    def remove():
        [1].remove(3)

    return (
        x + 1,
        caught([1, 2].index, 5),
        caught([1, 2].index, 1, 1),
        caught([1, 2].index, 2, -5, -1),
        caught(remove),
        caught((1, 2).index, 7),
    )


def arity_errors(x):
    return (
        x + 1,
        caught([].append),
        caught([].append, 1, 2),
        caught([].insert, 1),
        caught([].extend, 5),
        caught([].sort, 1),
        caught([].pop, 1, 2),
        caught((1,).count),
        caught([].clear, 1),
        caught([].copy, 1),
        caught([].reverse, 1),
    )


def sort_with_key_and_reverse(x):
    rows = [("b", 2), ("a", 2), ("c", 1), ("d", 1)]
    rows.sort(key=lambda row: row[1])
    first = list(rows)
    rows.sort(key=lambda row: row[1], reverse=True)
    words = ["bb", "A", "c", "aaa"]
    words.sort(key=len)
    words2 = sorted(words, key=str.lower)
    return x + 1, first, rows, words, words2, sorted("hello", reverse=True)


def sort_errors(x):
    def mixed():
        return sorted([1, "a", 2])

    return x + 1, caught(mixed), caught(sorted, 5), caught(lambda: [3, None].sort())


class Ordered:
    def __init__(self, rank):
        self.rank = rank

    def __lt__(self, other):
        return self.rank < other.rank


def sort_user_objects(x):
    items = [Ordered(3), Ordered(1), Ordered(2)]
    items.sort()
    return x + 1, [item.rank for item in items], min(items).rank, max(items).rank


def reverse_copy_clear(x):
    items = [1, 2, 3]
    other = items.copy()
    items.reverse()
    again = items[:]
    items.clear()
    return x + 1, items, other, again, items is again


def slice_assignment(x):
    items = list(range(8))
    items[2:4] = "abc"
    items[::3] = ["x"] * len(items[::3])
    items[1:1] = [9, 9]
    items[-2:] = []
    return x + 1, items


def slice_assignment_errors(x):
    def stepped():
        items = [1, 2, 3, 4]
        items[::2] = [1]

    def not_iterable():
        items = [1]
        items[0:1] = 5

    def stepped_not_iterable():
        items = [1]
        items[::2] = 5

    def out_of_range():
        items = [1]
        items[4] = 2

    def wrong_index():
        items = [1]
        items["a"] = 2

    return (
        x + 1,
        caught(stepped),
        caught(not_iterable),
        caught(stepped_not_iterable),
        caught(out_of_range),
        caught(wrong_index),
    )


def slice_deletion(x):
    items = list(range(10))
    del items[::2]
    other = list(range(10))
    del other[2:5], other[-1]
    third = list(range(5))
    del third[::-1]
    return x + 1, items, other, third


def deletion_errors(x):
    def out_of_range():
        items = [1]
        del items[3]

    def wrong_index():
        items = [1]
        del items["a"]

    def of_tuple():
        items = (1,)
        del items[0]

    def into_tuple():
        items = (1,)
        items[0] = 1

    return x + 1, caught(out_of_range), caught(wrong_index), caught(of_tuple), caught(into_tuple)


def subscript_errors(x):
    items, pair, text, five = [1, 2], (1, 2), "abc", 5
    return (
        x + 1,
        caught(lambda: items[5]),
        caught(lambda: items["a"]),
        caught(lambda: items[1.0]),
        caught(lambda: pair[9]),
        caught(lambda: pair[None]),
        caught(lambda: items[::0]),
        caught(lambda: text[7]),
        caught(lambda: text["a"]),
        caught(lambda: range(3)[9]),
        caught(lambda: five[0]),
    )


class Index:
    def __index__(self):
        return 1


def user_index(x):
    items = [10, 20, 30]
    return x + 1, items[Index()], (1, 2, 3)[Index()], items[Index() :], "abc"[Index()]


def arithmetic(x):
    items = [1, 2] + [3]
    twice = items * 2
    thrice = 3 * [0]
    items *= 2
    none = items * -1
    return x + 1, items, twice, thrice, none, (1,) * 3, 2 * (1, 2), [1] * True


def arithmetic_errors(x):
    return (
        x + 1,
        caught(lambda: [1] + (2,)),
        caught(lambda: [1] + 1),
        caught(lambda: (1,) + [2]),
        caught(lambda: [1] * "a"),
        caught(lambda: [1] * 1.5),
        caught(lambda: 1 + [1]),
        caught(lambda: [1] - [1]),
        caught(lambda: [1] * [1]),
        caught(lambda: -[1]),
        caught(lambda: [1] < 5),
        caught(lambda: [1] < (5,)),
        caught(lambda: None + 1),
        caught(lambda: "a" + 1),
        caught(lambda: {} + {}),
        caught(lambda: {1} + {2}),
        caught(lambda: len(5)),
    )


def ordering(x):
    return (
        x + 1,
        [1, 2] < [1, 3],
        [1, 2] < [1, 2, 0],
        [] < [0],
        (1, "b") > (1, "a"),
        [1, [2, 3]] >= [1, [2, 3]],
        (1, 2) == (1.0, True + 1),
        [1] == (1,),
        [1] != (1,),
        [[1], 2] == [[1], 2],
        caught(lambda: [1, "a"] < [1, 2]),
        caught(lambda: (1, None) < (1, 2)),
    )


def nan_identity(x):
    nan = float("nan")
    other = float("nan")
    return (
        x + 1,
        [nan] == [nan],
        nan == nan,
        nan in [nan],
        nan in [other],
        [nan].index(nan),
        [nan].count(nan),
        (nan,) == (nan,),
        [nan] == [other],
    )


def membership(x):
    return (
        x + 1,
        1 in [True],
        1.0 in (1, 2),
        "a" in ["b"],
        None in [None],
        [1] in [[1]],
        5 not in [],
    )


def starred_unpacking(x):
    first, *rest = [1, 2, 3]
    *init, last = "abc"
    a, (b, *c), d = 1, [2, 3, 4], 5
    (e,) = {"only": 1}
    joined = [*rest, *"xy", *range(2)]
    pair = (*rest, 0)
    return x + 1, first, rest, init, last, a, b, c, d, e, joined, pair


def unpacking_errors(x):
    def few():
        a, b = [1]

    def many():
        a, b = [1, 2, 3]

    def starred():
        a, b, *c = [1]

    def not_iterable():
        a, b = 5

    def many_of_generator():
        a, b = (i for i in range(5))

    def star_of_int():
        return [*5]

    return (
        x + 1,
        caught(few),
        caught(many),
        caught(starred),
        caught(not_iterable),
        caught(many_of_generator),
        caught(star_of_int),
    )


def comprehensions(x):
    matrix = [[i * j for j in range(3)] for i in range(3)]
    flat = [v for row in matrix for v in row if v % 2 == 0]
    walrus = [y for v in flat if (y := v + 1) > 1]
    table = {k: [v] * k for k, v in enumerate("abc")}
    members = sorted({v % 3 for v in range(10)})
    return x + 1, matrix, flat, walrus, y, table, members


def growing_while_iterated(x):
    items = [1, 2, 3]
    for item in items:
        if len(items) < 8:
            items.append(item * 10)
    shrinking = [1, 2, 3, 4, 5]
    seen = []
    for item in shrinking:
        seen.append(item)
        shrinking.remove(item)
    return x + 1, items, shrinking, seen


def aliases(x):
    items = [1]
    both = [items, items]
    both[0].append(2)
    grid = [[0] * 2] * 2
    grid[0][0] = 1
    return x + 1, both, grid, both[0] is both[1]


def nested_list_of_tensors(x):
    rows = [[x, x + 1], [x * 2]]
    rows[0][1] = rows[0][1] * 3
    rows[1].append(rows[0][0])
    return [r for row in rows for r in row], len(rows)


def tuple_methods(x):
    items = (1, 2, 1, 3)
    return x + 1, items.count(1), items.index(3), items.index(1, 1), items + (4,), hash(items) != 0


def list_of_constructor(x):
    return (
        x + 1,
        list(),
        list("ab"),
        list({"a": 1}),
        list(range(3)),
        list(zip("ab", [1, 2])),
        list(map(str, [1, 2])),
        tuple([1, 2]),
        tuple(),
        tuple("ab"),
        caught(list, 5),
        caught(tuple, 1, 2),
        caught(list, 1, 2),
    )


def item_of_literal(x):
    return x + 1, "hello"[1:3], b"abc"[0], b"abc"[::-1], range(10)[2:8:2], range(10)[-1]


def special_methods_by_name(x):
    items = [3, 1]
    items.__setitem__(0, 5)
    items.__iadd__([7])
    items.__delitem__(1)
    return (
        x + 1,
        items.__len__(),
        items.__contains__(5),
        items.__getitem__(0),
        items.__add__([1]),
        items.__mul__(2),
        items.__eq__([5, 7]),
        list(items.__iter__()),
        list(items.__reversed__()),
        items,
    )


def repr_of_containers(x):
    return (
        x + 1,
        repr([1, "a", None, (2,), {"k": 1.5}]),
        str((1, [2, {3}])),
        f"{[1, 2]} {{}} {(1,)!r}",
        repr({}),
        str(set()),
        repr(frozenset({1})),
        "%s" % ([1],),
        "{}".format([1]),
        repr(slice(1, None)),
        repr(range(3)),
    )


def repr_of_recursive_list(x):
    items = [1]
    items.append(items)
    return x + 1, repr(items), len(items)


def delete_names(x):
    a = b = [1]
    del a
    try:
        a
    except UnboundLocalError as error:
        text = str(error)
    return x + 1, b, text


def sum_and_friends(x):
    return (
        x + 1,
        sum([1, 2.5]),
        sum([[1], [2]], []),
        sum(range(5), 10),
        sum([], start=3),
        min([3, 1, 2]),
        max("abc"),
        min(3, 1),
        max([], default=None),
        min([1, -3, 2], key=abs),
        any([0, 1]),
        all([]),
        caught(sum, ["a"]),
        caught(sum, [], ""),
        caught(max, []),
        caught(min, 5),
        caught(max, 1, "a"),
    )


FUNCTIONS = [
    value
    for name, value in list(globals().items())
    if getattr(value, "__code__", None) is not None
    and value.__module__ == __name__
    and name != "caught"
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_function_is_captured_without_a_break(assert_captured, x, function):
    """Same result as plain Python, in one graph."""
    assert_captured(function, x)
