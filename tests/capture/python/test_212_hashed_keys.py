"""`__hash__` and `__eq__` of keys run as often as in plain Python, and when it runs them."""

from types import ModuleType

import pytest

from dynajit.capture import _capture
from tests.support.python.harness import Compiler, case

CALLS = []
TABLE = {}
MEMBERS = set()


class Key:
    def __init__(self, number=7):
        self.number = number

    def __hash__(self):
        CALLS.append("hash")
        return self.number

    def __eq__(self, other):
        CALLS.append("eq")
        return self is other


class Failing:
    def __init__(self):
        self.fails = False

    def __hash__(self):
        if self.fails:
            raise ZeroDivisionError("hash")
        return 42


def new_dict():
    CALLS.clear()
    key, other = Key(), Key()
    table = {key: 1, 3: 4, other: 5, 7: 6}
    return table, list(table.values()), CALLS


def new_set():
    CALLS.clear()
    key = Key()
    members = {key, Key(), 7, Key(8)}
    id(members)
    return len(members), key in members, CALLS


def dict_in_a_tuple_after_a_removal():
    CALLS.clear()
    key = Key()
    table = {key: 1, 3: 4, Key(4): 2}
    del table[3]
    return (table, key), CALLS


def existing_dict():
    TABLE.clear()
    CALLS.clear()
    key = Key(3)
    TABLE[3] = 1
    TABLE[key] = 2
    TABLE[8] = 3
    return list(TABLE.values()), len(TABLE)


def existing_set():
    MEMBERS.clear()
    CALLS.clear()
    MEMBERS.add(3)
    MEMBERS.add(Key(3))
    MEMBERS.add(Key(4))
    id(MEMBERS)
    found = len(MEMBERS)
    MEMBERS.clear()
    return found, CALLS


def found_again():
    CALLS.clear()
    keys = [Key(number % 3) for number in range(12)]
    table = {key: position for position, key in enumerate(keys)}
    id(table)
    return [table[key] for key in keys], CALLS


class Registry(dict):
    pass


class Tags(set):
    pass


def derived_containers():
    CALLS.clear()
    key = Key()
    registry = Registry()
    registry[key] = 1
    registry[Key()] = 2
    tags = Tags()
    tags.add(key)
    return list(registry.values()), registry, (tags, len(tags))[1], CALLS


def hash_fails_later():
    key = Failing()
    table = {key: 1}
    members = {key}
    key.fails = True
    return list(table.values()), len(members)


CASES = [
    case(new_dict),
    case(new_set, breaks=None),
    case(dict_in_a_tuple_after_a_removal),
    case(existing_dict, breaks=None),
    case(existing_set, breaks=None),
    case(found_again, breaks=None),
    case(derived_containers),
    case(hash_fails_later),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def test_keys_are_stored_under_given_hashes_without_a_call():
    CALLS.clear()
    keys = tuple(Key() for _ in range(100))
    table, members = {}, set()
    _capture.store_hashed(table, (7,) * 100, keys, tuple(range(100)))
    _capture.store_hashed(members, (7,) * 100, keys, ())
    assert CALLS == []

    assert list(zip(keys, range(100), strict=True)) == list(table.items())
    assert members == set(keys)
    assert table[keys[50]] == 50


@pytest.mark.parametrize(
    "arguments", [(), ([], (), (), ()), ({}, (1,), (), ()), ({}, ("a",), (1,), (1,))]
)
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises((TypeError, ValueError)):
        _capture.store_hashed(*arguments)


class Asked:
    """Has the hash of a name, and notes that it was asked."""

    def __init__(self, name, log):
        self.name, self.log = name, log

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        self.log.append(other)
        return False


def missing_attribute(o):
    return getattr(o, "x", 5)


def written_attribute(o):
    o.x = 3
    return o.x


def name_in_fields(o):
    return "x" in o.__dict__


def name_of_variables(o):
    return hasattr(o, "x"), vars(o).get("x")


class Owner:
    """An ordinary instance."""


KINDS = {"instance": Owner, "function": lambda: lambda: None, "module": lambda: ModuleType("m")}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "function", [missing_attribute, written_attribute, name_in_fields, name_of_variables]
)
def test_names_are_looked_up_among_other_keys_as_often_as_python_does(function, kind):
    def made(log, has_other_keys):
        owner = KINDS[kind]()
        owner.__dict__["y"] = 1
        if has_other_keys:
            owner.__dict__[Asked("x", log)] = 0
        return owner

    compiled = Compiler().compile(function)
    for has_other_keys in (True, True, False, True):
        logs: tuple[list, list] = [], []
        expected, actual = (
            called(made(log, has_other_keys))
            for called, log in zip((function, compiled), logs, strict=True)
        )
        assert expected == actual
        assert logs[0] == logs[1]
