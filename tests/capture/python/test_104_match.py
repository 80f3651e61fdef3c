"""Structural pattern matching, every kind of pattern; `global` and `del`."""

# The programs under test are spelled as users spell them.

import dataclasses
import enum

import pytest

from tests.support.python.harness import case

COUNT = 5
NAME = "name"


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x = x
        self.y = y


class Three(Point):
    __match_args__ = ("x", "y", "z")

    def __init__(self, x, y, z):
        super().__init__(x, y)
        self.z = z


class NoArgs:
    a = 1


class WrongArgs:
    __match_args__ = ["x"]


class NumberArgs:
    __match_args__ = (1,)


class Lazy:
    __match_args__ = ("value",)

    @property
    def value(self):
        return self.stored * 2

    def __init__(self, stored):
        self.stored = stored


@dataclasses.dataclass
class Pair:
    left: object
    right: object = None


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Mapping:
    """Not a mapping for `match`, though it has the methods."""

    def get(self, key, default=None):
        return 1

    def keys(self):
        return ["a"]


def literals(v):
    match v:
        case 0:
            return "zero"
        case -1 | 1:
            return "one"
        case "a" | "b":
            return "letter"
        case None:
            return "none"
        case True:
            return "true"
        case 2.5:
            return "float"
        case b"x":
            return "bytes"
        case _:
            return "other"


def sequences(v):
    match v:
        case []:
            return "empty"
        case [a]:
            return "one", a
        case [1, b]:
            return "starts", b
        case (a, b):
            return "two", a, b
        case [first, *rest, last] if len(rest) > 1:
            return first, rest, last
        case [first, *_]:
            return "first", first
    return "none"


def mappings(v):
    match v:
        case {"a": 1, **rest}:
            return "a one", rest
        case {"a": [x, y]}:
            return "list", x, y
        case {"b": b, "c": c}:
            return b, c
        case {}:
            return "mapping"
    return "none"


def classes(v):
    match v:
        case Three(x, y, z):
            return "three", x, y, z
        case Point(0, y):
            return "on axis", y
        case Point(x=a, y=b):
            return a, b
        case Pair(Point(x, _), right):
            return "pair", x, right
        case Pair():
            return "any pair"
        case int(n):
            return "int", n
        case str() as text:
            return "text", text
        case list([a, b]) | tuple([a, b]):
            return "two", a, b
        case dict():
            return "dict"
    return "none"


def constants(v):
    match v:
        case Color.RED:
            return "red"
        case Color.BLUE:
            return "blue"
    return "none"


def guards(v):
    match v:
        case [a, b] if a == b:
            return "same"
        case [a, b] if a < b:
            return "less", a
        case [a, b]:
            return a, b


def nested(v):
    match v:
        case {"points": [Point(x=0, y=y), *others]}:
            return y, len(others)
        case {"points": [Point() as first]}:
            return first.x
    return None


def captures_survive(v):
    match v:
        case [a, 3]:
            return "matched", a
        case [b, 4]:
            return "second", a, b
    return None


def attribute_patterns(v):
    match v:
        case Lazy(6):
            return "six"
        case Lazy(value):
            return value


def missing_attributes(v):
    match v:
        case NoArgs(a=1, b=2):
            return "both"
        case NoArgs(a=1):
            return "a"


def too_many(v):
    match v:
        case NoArgs(1):
            return "matched"


def too_many_points(v):
    match v:
        case Point(1, 2, 3):
            return "matched"


def attribute_twice(v):
    match v:
        case Point(1, x=1):
            return "matched"


def wrong_match_args(v):
    match v:
        case WrongArgs(1):
            return "matched"


def wrong_match_arg(v):
    match v:
        case NumberArgs(1):
            return "matched"


def no_class(v):
    match v:
        case COUNT():
            return "matched"


def int_with_two(v):
    match v:
        case int(1, 2):
            return "matched"


def not_a_mapping():
    match Mapping():
        case {"a": 1}:
            return "mapping"
        case Mapping():
            return "object"


def in_loop(items):
    total = 0
    for item in items:
        match item:
            case ("add", n):
                total += n
            case ("stop",):
                break
            case {"skip": True}:
                continue
    return total


def own_objects(n):
    match [Point(n, 2), Pair(n)]:
        case [Point(x, y), Pair(left=z)]:
            return x + y + z


def global_written(n):
    global COUNT
    before = COUNT
    COUNT = n
    COUNT += 1
    return before, COUNT


def global_deleted():
    global NAME
    found = NAME
    del NAME
    try:
        return NAME
    except NameError as error:
        return found, str(error)


def global_deleted_and_set():
    global NAME
    del NAME
    NAME = "new"
    return NAME


def global_made_and_deleted():
    global MADE
    MADE = 1
    found = MADE
    del MADE
    return found


def global_deleted_twice():
    global NAME
    del NAME
    del NAME


def nonlocal_written(n):
    count = n

    def add():
        nonlocal count
        count += 1
        return count

    return add(), add(), count


def nonlocal_deleted():
    value = 1

    def forget():
        nonlocal value
        del value

    forget()
    return value


def deletes_items(items, table):
    del items[0], table["a"]
    del items[1:]
    (first,) = items
    del first
    return items, table


CASES = [
    *(case(literals, v) for v in (0, 1, -1, "b", None, True, 2.5, b"x", [])),
    *(case(sequences, v) for v in ([], [7], [1, 2], (2, 3), [1, 2, 3], [1, 2, 3, 4], "ab", 3)),
    *(case(mappings, v) for v in ({"a": 1, "z": 2}, {"a": [1, 2]}, {"b": 1, "c": 2}, {}, [])),
    *(case(classes, v) for v in (Point(0, 3), Point(1, 2), Three(1, 2, 3), Pair(Point(4, 5), 6),
                                 Pair(1), 3, "t", [1, 2], (1, 2), {}, None)),
    case(constants, Color.RED), case(constants, Color.BLUE), case(constants, 1),
    case(guards, [1, 1]), case(guards, [1, 2]), case(guards, [2, 1]), case(guards, None),
    case(nested, {"points": [Point(0, 1), 2]}), case(nested, {"points": [Point(5, 1)]}),
    case(captures_survive, [1, 3]), case(captures_survive, [1, 4]),
    case(attribute_patterns, Lazy(3)), case(attribute_patterns, Lazy(4)),
    case(missing_attributes, NoArgs()), case(too_many, NoArgs()),
    case(too_many_points, Point(1, 2)), case(attribute_twice, Point(1, 2)),
    case(wrong_match_args, WrongArgs()), case(wrong_match_arg, NumberArgs()), case(no_class, 3),
    case(int_with_two, 1), case(not_a_mapping), case(own_objects, 3),
    case(in_loop, [("add", 1), {"skip": True}, ("add", 2), ("stop",), ("add", 9)]),
    case(global_written, 3), case(global_deleted), case(global_deleted_and_set),
    case(global_made_and_deleted), case(global_deleted_twice), case(nonlocal_written, 1),
    case(nonlocal_deleted), case(deletes_items, [1, 2, 3], {"a": 1, "b": 2}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def test_matching_on_shapes_is_captured(x, assert_captured):
    def function(x):
        match x.shape:
            case (rows, columns) if rows < columns:
                return x.T + columns
            case (n,):
                return x + n

    assert_captured(function, x)
