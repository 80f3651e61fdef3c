"""Counter and user classes derived from dict, list, set, tuple, str, int, float: captured whole."""

import copy
from collections import Counter, OrderedDict, defaultdict

import pytest

from tests.support.python.harness import case


class Registry(dict):
    """Names what it lacks, and counts how often it was written."""

    writes = 0

    def __missing__(self, key):
        return f"no {key}"

    def __setitem__(self, key, value):
        self.writes += 1
        super().__setitem__(key, value)


class Shouting(dict):
    def __getitem__(self, key):
        return str(super().__getitem__(key)).upper()

    def __init__(self, *args, tag="t", **kwargs):
        super().__init__(*args, **kwargs)
        self.tag = tag

    def __contains__(self, key):
        return super().__contains__(key.lower())


class Stack(list):
    def push(self, item):
        self.append(item)
        return self

    def __getitem__(self, index):
        return ("item", super().__getitem__(index))


class Tags(set):
    def add(self, item):
        super().add(item.lower())


class Point(tuple):
    def __new__(cls, x, y):
        made = super().__new__(cls, (x, y))
        made.name = "p"
        return made

    def __getnewargs__(self):
        return tuple(self)

    @property
    def x(self):
        return self[0]

    def __add__(self, other):
        return Point(self[0] + other[0], self[1] + other[1])


class Name(str):
    def shout(self):
        return self.upper() + "!"


class Meters(float):
    unit = "m"

    def __add__(self, other):
        return Meters(float(self) + float(other))


class Level(int):
    def __new__(cls, value, label="none"):
        made = super().__new__(cls, value)
        made.label = label
        return made

    def __repr__(self):
        return f"Level({int(self)}, {self.label})"


class Ordered(OrderedDict):
    def last(self):
        return next(reversed(self))


class Groups(defaultdict):
    def total(self):
        return sum(len(group) for group in self.values())


class Slotted(list):
    __slots__ = ("label",)


# -- made in the function ------------------------------------------------------------------------


def counter_arithmetic():
    c, d = Counter("abca"), Counter(a=1, z=-2)
    c.subtract("ab")
    c["new"] += 3
    del c["missing"]
    return c, c + d, c - d, c & d, c | d, +d, -d, c == d, c <= d, c.copy(), repr(c), bool(c)


def counter_of_everything():
    c = Counter([1, 2, 1])
    c.update(
        {2: 5},
    )
    c.update(k=1)
    return (
        c.most_common(),
        c.most_common(1),
        list(c.elements()),
        c[99],
        list(c),
        c.total(),
        c.pop(2),
    )


def counter_in_place():
    c = Counter(a=3, b=1)
    alias = c
    c += Counter(a=1, c=1)
    c -= Counter(b=5)
    c |= Counter(z=2)
    c &= Counter(a=2, z=9)
    return c, alias is c, type(c) is Counter


def missing_keys():
    r = Registry(a=1)
    r["b"] = 2
    r.update(c=3)
    r.setdefault("d", 4)
    return (
        r,
        r["zz"],
        r.get("zz"),
        "zz" in r,
        r.writes,
        len(r),
        dict(r),
        list(r.items()),
        r | {"q": 1},
    )


def overridden_getitem():
    s = Shouting({"a": "x"}, tag="n", b="y")
    return (
        s,
        s["a"],
        s.get("a"),
        "A" in s,
        dict(s),
        list(s.values()),
        s.copy(),
        s == {"a": "x"},
        {**s},
    )


def list_methods():
    s = Stack([1]).push(3).push(2)
    s.sort()
    s += (7,)
    s.extend(n * 2 for n in s[:0])
    s.insert(0, 9)
    return s, s[0], s[-1], list(s), s.pop(), s + [1], s * 2, s == [9, 1, 2, 3], len(s), s.index(3)


def sets():
    t = Tags()
    t.add("A")
    t.add("a")
    t.update({"b"})
    return (
        t,
        t | {"c"},
        t & {"a"},
        {"a"} <= t,
        "a" in t,
        sorted(t),
        t == {"a", "b"},
        len(t),
        repr(Tags()),
    )


def tuples():
    p = Point(1, 2)
    q = p + Point(3, 4)
    a, b = q
    return (
        p,
        q,
        q.x,
        a,
        b,
        p == (1, 2),
        p < q,
        hash(p) == hash((1, 2)),
        {p: 1}[(1, 2)],
        p[:],
        len(p),
        p.name,
    )


def texts():
    n = Name("ab")
    return (n, n.shout(), n + "c", "x" + n, n == "ab", {n: 1}["ab"], n[0], f"{n}|{n!r}|{n:>4}", str(n), len(n),
            "b" in n, n.split("a"), n * 2, type(n + "c") is str, isinstance(n, str), n.join(["1", "2"]))  # fmt: skip


def numbers():
    m, n = Meters(1.5), Level(3, "hi")
    return (m, n, m + 1, 1 + m, m * 2, n + 1, 1 + n, n * n, n == 3, [1, 2, 3, 4][n], repr(n), f"{n}", n.label,
            float(m), int(n), -n, abs(-m), n > 2, bool(n), range(n), n.real, m.unit, {3: "x"}[n], divmod(n, 2))  # fmt: skip


def others():
    o = Ordered(a=1)
    o["b"] = 2
    o.move_to_end("a")
    g = Groups(list)
    g["x"].append(1)
    g["y"].append(2)
    return o, o.last(), list(o), g, g.total(), g["x"], g.default_factory is list


def slots():
    s = Slotted((1, 2))
    s.label = "n"
    return s, s.label, [*s]


def holds_itself():
    s = Stack()
    s.alias = s
    r = Registry()
    r.stack = s
    return [s, r, s]


def iterators():
    r, s = Registry(a=1, b=2), Stack([5, 6, 7])
    i, j, k = iter(r), iter(s), r.items()
    next(i), next(j)
    return i, j, k, r, s


def raises():
    try:
        Counter(1)
    except TypeError as error:
        first = str(error)
    try:
        Shouting()["q"]
    except KeyError as error:
        return first, error.args, {Name("k"): 2}


def unpacked():
    def keywords(**given):
        return given

    r = Registry(a=1)
    first, *rest = Stack([1, 2, 3])
    match r:
        case {"a": found}:
            pass
    match Stack([4, 5]):
        case [one, *more]:
            pass
    return (
        keywords(**r),
        first,
        rest,
        found,
        one,
        more,
        [*Stack([1])],
        sorted(Stack([2, 1])),
        max(Stack([1, 3])),
    )


MADE = [
    case(function)
    for function in (
        counter_arithmetic, counter_of_everything, counter_in_place, missing_keys,
        overridden_getitem, list_methods, sets, tuples, texts, numbers, others, slots,
        holds_itself, iterators, raises, unpacked,
    )
]  # fmt: skip


# -- passed in -------------------------------------------------------------------------------------


def counts(counter, x):
    counter.update("ab")
    counter["sum"] += 2
    return x + counter["a"], counter, counter.most_common(1)


def writes(registry, x):
    registry["k"] = x * 2
    registry.tag = "written"
    del registry["a"]
    return registry["zz"], registry.writes, len(registry)


def pushes(stack, x):
    stack.push(x).push(1)
    stack.reverse()
    stack.seen = len(stack)
    return stack[0], stack


def replaces(stack):
    stack[1:] = [8]
    stack.sort(key=lambda n: -n)
    return stack


def grows(tags):
    tags.add("NEW")
    tags.discard("old")
    return len(tags), "new" in tags


def reads(point, name, level, meters, x):
    return (
        x * level + meters,
        point.x,
        name.shout(),
        point + (1, 1),
        level.label,
        name,
        level,
        point,
    )


def reorders(ordered):
    ordered["z"] = 1
    ordered.move_to_end("a")
    return ordered.last(), ordered


def groups(table):
    table["a"].append(1)
    table["b"].append(2)
    return table.total(), table


def slotted(s):
    s.append(s.label)
    s.label = "after"
    return s


def two(first, second):
    first["a"] = 5
    return second["a"], first is second


def labelled():
    s = Slotted([1])
    s.label = "before"
    return s


def stack_with_attribute():
    s = Stack([1, 2])
    s.seen = 0
    return s


PASSED = [
    case(counts, Counter("abc"), 2.0),
    case(writes, Registry(a=1, b=2), 1.0),
    case(pushes, stack_with_attribute(), 2),
    case(replaces, Stack([1, 2, 3])),
    case(grows, Tags({"old", "x"})),
    case(reads, Point(1, 2), Name("n"), Level(3, "l"), Meters(0.5), 2),
    case(reorders, Ordered(a=1, b=2)),
    case(groups, Groups(list, a=[0])),
    case(slotted, labelled()),
    case(two, Registry(a=1), Registry(a=2)),
]


@pytest.mark.parametrize("case", [*MADE, *PASSED], ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def test_one_object_under_two_names_is_one_object(assert_captured):
    one = Registry(a=1)
    assert_captured(two, one, one, graphs=None)


def test_tensors_live_in_derived_containers(assert_captured, x):
    def run(x):
        stack = Stack([x])
        stack.push(x + 1)
        total = Counter()
        total["sum"] += x * 2
        return stack, total, sum(list(stack))

    assert_captured(run, x)


def test_numbers_of_derived_classes_are_operands(assert_captured, x):
    def run(x):
        return (
            x * Meters(2.0),
            Level(3) * x,
            x + Meters(1.0),
            x.reshape(Stack([1, -1])),
            x[Level(0)],
        )

    assert_captured(run, x, breaks=None)


def test_a_new_value_of_a_derived_number_is_noticed(compiler):
    def double(level):
        return level * 2, level.label

    compiled = compiler.compile(double)
    for value in (3, 4, 3):
        assert (value * 2, "l") == compiled(Level(value, "l"))
    assert (6, "other") == compiled(Level(3, "other"))
    assert [] == compiler.breaks


def test_one_version_serves_equal_texts_of_a_derived_class(compiler):
    def shout(name):
        return name.shout()

    compiled = compiler.compile(shout)
    assert ["AB!"] * 3 == [compiled(Name("".join(["a", "b"]))) for _ in range(3)]
    assert 1 == len(compiler.regions)


def test_a_set_of_a_derived_class_with_other_members_is_another_version(compiler):
    def size(tags):
        return len(tags), "x" in tags

    compiled = compiler.compile(size)
    assert (1, True) == compiled(Tags({"x"}))
    assert (1, False) == compiled(Tags({"y"}))
    assert (2, True) == compiled(Tags({"x", "y"}))


def test_copies_break_once(assert_captured):
    def copies(counter):
        return copy.copy(counter), copy.deepcopy(counter)

    assert_captured(copies, Counter("ab"), graphs=None, breaks=None)


MISSING = object()


def test_plain_objects_mark_what_is_missing(assert_captured):
    def run(table, key):
        found = table.get(key, MISSING)
        own = object()
        return found is MISSING, own is MISSING, own == own, table.get(key, own) is own, own

    assert_captured(run, {"a": 1}, "b", graphs=None)
    assert_captured(run, {"a": MISSING}, "a", graphs=None)
