"""Derived classes that override what the built-in class does: who asks whom is as in plain Python."""

from collections import Counter, OrderedDict, defaultdict

import pytest

from tests.support.python.harness import case


class OwnReading(dict):
    def __getitem__(self, k):
        return "G" + str(dict.get(self, k))

    def keys(self):
        return ["x"]

    def __iter__(self):
        return iter(["z"])

    def __len__(self):
        return 77

    def __eq__(self, o):
        return "eq"

    __hash__ = None


class OwnIteration(list):
    def __len__(self):
        return 5

    def __iter__(self):
        return iter("ab")

    def __eq__(self, o):
        return False

    def append(self, v):
        super().append(("w", v))


class OwnText(str):
    def __eq__(self, o):
        return str.__eq__(self, o)

    def __hash__(self):
        return hash(str(self))

    def __add__(self, o):
        return OwnText(str.__add__(self, o) + "+")

    def __repr__(self):
        return "S!"

    def __len__(self):
        return 3


class OwnNumber(int):
    def __index__(self):
        return 0

    def __int__(self):
        return 9

    def __eq__(self, o):
        return int.__eq__(self, o)

    def __hash__(self):
        return 1

    def __bool__(self):
        return False

    def __add__(self, o):
        return NotImplemented


class OwnTuple(tuple):
    def __eq__(self, o):
        return "teq"

    def __hash__(self):
        return 3


class OwnCounter(Counter):
    def __missing__(self, k):
        return 10


def mapping_with_own_reading():
    d = OwnReading(a=1, b=2)
    e = {}
    e.update(d)
    return (
        d["a"],
        len(d),
        list(d),
        dict(d),
        e,
        {**d},
        d.get("a"),
        d == {},
        "a" in d,
        list(d.items()),
        bool(d),
        sorted(d.values()),
        d.copy(),
        d | {},
        {} | d,
        d.setdefault("q", 3),
        d.pop("a"),
        d,
    )


def list_with_own_iteration():
    items = OwnIteration([1])
    items.append(2)
    items += [3]
    return (
        len(items),
        list(items),
        [*l],
        items == [1],
        [1] == items,
        items + [1],
        [0] + items,
        items[0],
        items[1:],
        1 in items,
        items.index(1),
        bool(items),
        max(OwnIteration([3])),
        items,
        sorted(OwnIteration([2])),
        tuple(items),
        items * 2,
        items.copy(),
        items.count(1),
        "".join(OwnIteration(["q"])),
        list(reversed(items)),
        list(enumerate(items)),
        dict.fromkeys(items),
    )


def text_with_own_operators():
    s = OwnText("ab")
    return (
        s + "c",
        s == "ab",
        "ab" == s,
        {s: 1},
        {"ab": 2}.get(s),
        len(s),
        s.upper(),
        f"{s}",
        f"{s!r}",
        [s],
        str(s),
        "%s" % s,
        s[0],
        s in "xabx",
        "x" + s,
        s.join(["1", "2"]),
        s * 2,
        s < "b",
        sorted([OwnText("b"), OwnText("a")]),
        s.startswith("a"),
        bool(s),
        "a" in s,
        "-".join([s, s]),
        repr([s]),
        s.format(),
        hash(s) == hash("ab"),
    )


def number_with_own_conversions():
    i = OwnNumber(2)
    return (
        [5, 6, 7][i],
        int(i),
        i == 2,
        bool(i),
        i * 3,
        3 * i,
        -i,
        i < 3,
        i | 1,
        f"{i}",
        f"{i:03d}",
        str(i),
        [i],
        range(i),
        i.real,
        i.bit_length(),
        {2: "a"}.get(i),
        1 + i,
        2**i,
        divmod(7, i),
        i / 2,
        abs(i),
        round(i),
        max(i, 1),
        "%d" % i,
        "ab" * i,
        float(i),
        not i,
        i and 1,
        isinstance(i, int),
        type(i).__name__,
    )


def declined_addition():
    try:
        return OwnNumber(2) + 1
    except TypeError as e:
        return str(e)


def tuple_with_own_equality():
    p = OwnTuple((1, 2))
    return (
        p == (1, 2),
        (1, 2) == p,
        p != (1, 2),
        p + (3,),
        (0,) + p,
        p[0],
        p[::-1],
        len(p),
        list(p),
        p * 2,
        {p: 1},
        "%s-%s" % p,
        p.index(2),
        hash(p),
        p < (1, 3),
        1 in p,
        tuple(p),
        p,
    )


def counter_with_own_missing():
    c = OwnCounter("aab")
    c["q"] += 1
    c.subtract(z=1)
    return (
        c,
        c["none"],
        c.most_common(2),
        +c,
        c + Counter("a"),
        Counter("a") + c,
        type(c.copy()),
        c.elements and sorted(c.elements()),
        c == Counter("aab"),
        dict(c),
        c.total(),
        c >= Counter("a"),
        Counter(c),
        Counter(a=2) == Counter({"a": 2, "b": 0}),
        c.keys() & {"a"},
        len(c),
    )


def ordered_with_own_writing():
    o = OwnOrdered([("b", 1), ("a", 2)])
    o.move_to_end("b")
    o["c"] = 3
    del o["a"]
    return (
        o,
        list(o),
        o == OrderedDict(b=1, c=3),
        o == {"c": 3, "b": 1},
        o.popitem(),
        o.popitem(last=False),
        o.setdefault("z", 1),
        list(o.items()),
        list(reversed(o)),
        o.pop("z"),
        len(o),
    )


class OwnOrdered(OrderedDict):
    def __setitem__(self, k, v):
        super().__setitem__(k, v * 10)


class Numbered(defaultdict):
    def __missing__(self, k):
        self[k] = len(self)
        return self[k]


def factories():
    d = Numbered()
    d["a"]
    d["b"]
    e = defaultdict.__missing__
    g = Grouped(list)
    g["x"].append(1)
    g["y"]
    return d, d.default_factory, g, g["x"], dict(g), g.get("none"), "q" in g


class Grouped(defaultdict):
    pass


def mapping_passed_in(d):
    d["n"] = 5
    d.attr = [1]
    d.pop("a", None)
    d.update(k=1)
    return dict.get(d, "n"), d.attr


def lists_passed_in(items, other):
    items.append(other)
    items.other = other
    other.append(items[0])
    return items, other


def aliases(items):
    m = items
    m += [4]
    items.insert(0, 9)
    return m is items, items


def nested(d):
    d["inner"]["x"] = d
    return d["inner"]


def attribute_of_a_default():
    try:
        OwnCounter()["a"].foo
    except AttributeError as e:
        return str(e)


def set_with_own_operators(s):
    s.add(3)
    s |= {4}
    s -= {1}
    t = s | {9}
    u = s.copy()
    s.discard(2)
    return t, u, s, len(s), 3 in s, s == {3, 4}, sorted(s), s.isdisjoint({7}), s <= {3, 4, 5}


class OwnSet(set):
    def __ior__(self, o):
        self.log = 1
        return super().__ior__(o)

    def __contains__(self, v):
        return True


class Plain(dict):
    pass


class PlainList(list):
    pass


def iterators_over_storage(d):
    out = []
    for k in d:
        out.append(k)
    it = iter(d.items())
    next(it)
    return out, it, d.keys(), d


def changed_while_iterated(d):
    try:
        for k in d:
            d[k + "1"] = 1
    except RuntimeError as e:
        return str(e)


def iterator_of_a_grown_list(items):
    it = iter(items)
    next(it)
    items.append(7)
    return it, items


CASES = [
    case(f, breaks=None)
    for f in (
        mapping_with_own_reading,
        list_with_own_iteration,
        text_with_own_operators,
        number_with_own_conversions,
        declined_addition,
        tuple_with_own_equality,
        counter_with_own_missing,
        ordered_with_own_writing,
        factories,
        attribute_of_a_default,
    )
] + [
    case(mapping_passed_in, OwnReading(a=1), breaks=None),
    case(mapping_passed_in, Plain(a=1), breaks=None),
    case(lists_passed_in, OwnIteration([1]), PlainList([2]), breaks=None),
    case(aliases, PlainList([1]), breaks=None),
    case(nested, Plain(inner=Plain()), breaks=None),
    case(set_with_own_operators, OwnSet({1, 2}), breaks=None),
    case(iterators_over_storage, Plain(a=1, b=2), breaks=None),
    case(changed_while_iterated, Plain(a=1), breaks=None),
    case(iterator_of_a_grown_list, PlainList([1, 2]), breaks=None),
    case(iterators_over_storage, Counter("ab"), breaks=None),
]


class OwnFloat(float):
    def __float__(self):
        return 5.0

    def __eq__(self, o):
        return True

    __hash__ = float.__hash__


def mixed_operands(i, s, p, f):
    return (
        i + 1,
        s + "x",
        p + (1,),
        f * 2,
        [1, 2, 3][:i],
        {i: 1},
        s in {"q": 1},
        i == i,
        f"{f:.1f}",
        max(f, 1),
        sum([i, i]),
        "a%s" % s,
        ("x",) + p,
        p and 1,
        i.__class__ is PlainInt,
    )


class PlainInt(int):
    tag = 1


class PlainText(str):
    pass


class PlainTuple(tuple):
    pass


def derived_keys(d, k):
    d[k] = 2
    d["plain"] = 3
    return d[k], k in d, list(d)[0] is k, d


def derived_indices(items):
    return (
        items[: PlainInt(2)],
        items[PlainInt(-1)],
        "abc"[PlainInt(1) :],
        (1, 2, 3)[PlainInt(0)],
        range(5)[PlainInt(2)],
        items.pop(PlainInt(0)),
        items.insert(PlainInt(0), 7),
        items * PlainInt(2),
        items,
    )


def keywords_of(**k):
    return k


def unpacked(d):
    return keywords_of(**d), [*d], {**d, "z": 1}, dict(d, y=2), dict([*d.items()])


def compared(a, b):
    return (
        a == b,
        a != b,
        a < b,
        a <= b,
        sorted([b, a]),
        min(a, b),
        [a] == [b],
        (a,) == (b,),
        a in [b],
        {a} | {b},
    )


def asked_for_classes(c):
    return (
        isinstance(c, dict),
        isinstance(c, (list, Counter)),
        issubclass(type(c), dict),
        callable(c),
        type(c).__mro__,
        c.__class__,
        hasattr(c, "most_common"),
        vars(c),
        c.__dict__,
    )


def made_with_new_and_init():
    made = Counted(3)
    return made, made.n, len(made)


class Counted(list):
    def __new__(cls, n):
        o = super().__new__(cls)
        o.made = True
        return o

    def __init__(self, n):
        super().__init__(range(n))
        self.n = n


def initialised_again(items):
    items.__init__([5, 6])
    list.__init__(items, (7,))
    return items


def mapping_initialised_again(d):
    d.__init__(z=1)
    dict.__init__(d, [("q", 2)])
    d.clear()
    d["last"] = 0
    return d


def index_error():
    try:
        return PlainList([1])[5]
    except IndexError as e:
        return str(e)


def key_error():
    try:
        return {}[PlainText("k")]
    except KeyError as e:
        return e.args, type(e.args[0])


def from_keys():
    return Plain.fromkeys("ab", 1), Counter.__name__


def counter_attribute(c):
    c.total_ = sum(c.values())
    del c["a"]
    return c


def matched(v):
    match v:
        case dict() as q:
            return "dict", q
        case [a, *_]:
            return "list", a
        case str():
            return "str"
        case int():
            return "int"


def methods_by_name(o):
    return (
        o.__len__(),
        o.__contains__(1),
        o.__getitem__(0),
        o.__iter__().__next__(),
        o.__eq__([1]),
        o.__add__([2]),
        o.__mul__(2),
        list.__len__(o),
        list.append(o, 5),
        o,
    )


CASES += [
    case(mixed_operands, PlainInt(2), PlainText("q"), PlainTuple((1,)), OwnFloat(1.5), breaks=None),
    case(derived_keys, {"q": 1}, PlainText("q"), breaks=None),
    case(derived_keys, {}, PlainText("q"), breaks=None),
    case(derived_indices, [1, 2, 3], breaks=None),
    case(unpacked, Plain(a=1), breaks=None),
    case(unpacked, Counter("a"), breaks=None),
    case(compared, PlainInt(1), PlainInt(2), breaks=None),
    case(compared, PlainText("b"), "a", breaks=None),
    case(compared, 1, PlainInt(1), breaks=None),
    case(asked_for_classes, Counter("a"), breaks=None),
    case(made_with_new_and_init, breaks=None),
    case(initialised_again, PlainList([1]), breaks=None),
    case(mapping_initialised_again, Plain(a=1), breaks=None),
    case(index_error, breaks=None),
    case(key_error, breaks=None),
    case(from_keys, breaks=None),
    case(counter_attribute, Counter("aab"), breaks=None),
    case(matched, Plain(), breaks=None),
    case(matched, PlainList([1]), breaks=None),
    case(matched, PlainText("a"), breaks=None),
    case(matched, PlainInt(1), breaks=None),
    case(methods_by_name, PlainList([1]), breaks=None),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)
