"""Deques while something changes them, and what an OrderedDict does otherwise than a dict."""

import copy
from collections import OrderedDict, deque

import pytest

from tests.support.python.harness import case


def caught(function, *arguments):
    """The result, or the exception's class name and text."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error).__name__, str(error)


class Clears:
    """Empties the deque that it is in when it is compared."""

    def __init__(self, owner):
        self.owner = owner

    def __eq__(self, other):
        self.owner.clear()
        return False


def with_clearing():
    made = deque()
    made.extend([Clears(made), 1, 2])
    return made


def changed_by_its_items():
    a, b, c, d = with_clearing(), with_clearing(), with_clearing(), with_clearing()
    return caught(a.count, 7), caught(b.remove, 7), caught(c.index, 7), caught(lambda: 7 in d), a


def changed_while_it_is_read(change):
    d = deque([1, 2, 3])
    forward, backward = iter(d), reversed(d)
    first = next(forward), next(backward)
    change(d)
    return first, caught(list, forward), caught(list, backward), caught(list, forward)


def appended(d):
    d.append(4)


def rotated(d):
    d.rotate(1)


def shortened_and_grown(d):
    d.append(d.popleft())


def reversed_in_place(d):
    d.reverse()
    d[0] = "new"


def iterators():
    d = deque("ab")
    return type(iter(d)).__name__, type(reversed(d)).__name__, type(reversed(d))(d)


def multiplied():
    d = deque("ab", 3)
    same = d
    d *= 2
    return d * 2, 2 * d, -1 * d, d is same, deque("ab") * 0


def compared():
    a, b = deque("abc"), deque("abd")
    return a < b, a <= b, a > b, a >= b, a == b, a != b, a == "abc", a != [1]


def searched():
    d = deque("abcabc")
    return d.index("c", 3), d.index("b", -3), caught(d.index, "a", 4), caught(d.remove, "z")


def attributes():
    d = deque("ab", 4)
    found = [hasattr(d, name) for name in ("items", "state", "maxlen", "__rmul__")]
    return found, caught(setattr, d, "maxlen", 3), d.maxlen, caught(lambda: d.items)


def one_is_ordered():
    a, b = OrderedDict({0: 0, 1: 1}), {1: 2, 3: 3}
    return a | b, b | a, type(b | a), {} | b


def nested_in_itself():
    table = OrderedDict(a=1)
    table["self"] = table
    plain = {}
    plain[1] = plain.items()
    return repr(table), repr(plain)


def behind_its_back():
    table = OrderedDict(a=1, b=2)
    dict.__delitem__(table, "a")
    return caught(repr, table), len(table)


class Key:
    """Counts how often it is asked for its hash."""

    asked = 0

    def __hash__(self):
        Key.asked += 1
        return 5


def asked_for_hashes(table):
    return list(table), len(table), Key.asked


def copied(table):
    made = copy.copy(table)
    return made.note, made, copy.deepcopy(table).note


CASES = [
    case(changed_by_its_items),
    case(changed_while_it_is_read, appended),
    case(changed_while_it_is_read, rotated),
    case(changed_while_it_is_read, shortened_and_grown),
    case(changed_while_it_is_read, reversed_in_place),
    case(iterators, breaks=None),
    case(multiplied),
    case(compared),
    case(searched),
    case(attributes, breaks=None),
    case(one_is_ordered),
    case(nested_in_itself, breaks=None),
    case(behind_its_back, breaks=None),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def test_keys_of_an_existing_ordered_dict_are_not_hashed_by_the_compiler(compiler):
    table = OrderedDict([(Key(), 1), ("b", 2)])
    Key.asked = 0
    asked_for_hashes(table)
    once, Key.asked = Key.asked, 0
    keys, length, asked = compiler.compile(asked_for_hashes)(table)
    assert (list(table), 2) == (keys, length)
    assert once == asked


def test_a_copy_of_an_ordered_dict_keeps_its_attributes(assert_captured):
    table = OrderedDict(a=1)
    table.note = "kept"
    assert_captured(copied, table, graphs=None, breaks=None)


def nested(depth):
    table = {}
    for _ in range(depth):
        table = {1: table.values()}
    return opaque(len(table)), table is None, len(table)


def opaque(value):
    memoryview(b"abc")
    return value


def test_objects_nested_too_deeply_for_the_compiler_run_as_plain_python(strict, compiler):
    assert (1, False, 1) == compiler.compile(nested)(3000)
    assert ["objects that are nested too deeply"] == compiler.skips


# -- deques that existed before --------------------------------------------------------------------


def read(d):
    return d[0], d[-1], len(d), d.maxlen, list(d), 2 in d, bool(d), type(d), isinstance(d, deque), d


def queued(d, item):
    d.append(item)
    return d.popleft(), d


def changed_at_both_ends(d):
    d.appendleft(7)
    d.extend([8, 9])
    d.rotate(2)
    del d[1]
    d[0] = 5
    d.reverse()
    return sum(d)


def emptied(d):
    d.clear()
    return len(d), d


def only_appended(d):
    d.append(1)


def gone_through_and_changed(d):
    def go():
        for item in d:
            d.append(item)

    return caught(go), d


def one_deque_twice(d, other):
    d.append(1)
    return d is other, len(other), d == other


EXISTING = [
    case(function, deque([1, 2, 3], limit), *rest, graphs=0)
    for limit in (None, 3, 4)
    for function, *rest in (
        (read,), (queued, 5), (changed_at_both_ends,), (emptied,), (only_appended,),
        (gone_through_and_changed,), (one_deque_twice, deque([1])),
    )
]  # fmt: skip


@pytest.mark.parametrize("case", EXISTING, ids=str)
def test_an_argument_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def test_another_length_limit_and_item_is_noticed(compiler):
    compiled = compiler.compile(read)
    for items, limit in ([1, 2], None), ([1, 2], 2), ([1, 3], 2), ([1, 3, 4], None), ([2, 1], 9):
        assert read(deque(items, limit)) == compiled(deque(items, limit))
    assert 0 == len(compiler.breaks)


def test_a_deque_that_is_only_appended_to_has_one_version(compiler):
    compiled, kept = compiler.compile(only_appended), deque()
    for _ in range(20):
        compiled(kept)
    assert deque([1] * 20) == kept
    assert 1 == len(compiler.regions)


def put_and_taken(d):
    d.append(1)
    d.pop()


def replaced(d):
    d[1] = 5


@pytest.mark.parametrize("function", [put_and_taken, replaced])
def test_who_goes_over_a_deque_notices_what_plain_python_lets_it_notice(function, compiler):
    compiled = compiler.compile(function)
    for called in function, compiled, compiled:
        kept = deque([1, 2, 3])
        going = iter(kept)
        next(going)
        called(kept)
        if function is replaced:
            assert 5 == next(going)
        else:
            with pytest.raises(RuntimeError, match="mutated"):
                next(going)
