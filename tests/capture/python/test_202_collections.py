"""collections: deque, defaultdict, Counter, ChainMap, namedtuple, UserDict."""

import copy
from collections import ChainMap, Counter, UserDict, UserList, defaultdict, deque, namedtuple

import pytest


def caught(function, *arguments, **keywords):
    """The result, or the exception's class name and text."""
    try:
        return function(*arguments, **keywords)
    except Exception as error:
        return type(error).__name__, str(error)


Pair = namedtuple("Pair", "a b", defaults=[5])


def deques(x):
    d = deque([1, 2, 3])
    d.append(4)
    d.appendleft(0)
    d.extend([5, 6])
    d.extendleft("ab")
    first, last = d.popleft(), d.pop()
    d.rotate(2)
    d.rotate(-1)
    d.remove(3)
    d.insert(1, "i")
    d.reverse()
    d[0] = "zero"
    return (
        x + 1,
        list(d),
        first,
        last,
        len(d),
        d[1],
        d[-1],
        2 in d,
        d.count(2),
        d.index(2),
        d.maxlen,
        bool(d),
        list(reversed(d)),
        type(d) is deque,
        isinstance(d, deque),
        d == deque(list(d)),
        repr(deque([1])),
        d.copy() == d,
    )


def deque_with_maxlen(x):
    d = deque(maxlen=3)
    for i in range(5):
        d.append(i)
    e = deque([1, 2, 3], 2)
    e.appendleft(9)
    return x + 1, list(d), list(e), e.maxlen, repr(d)


def deque_errors(x):
    return (
        x + 1,
        caught(deque().pop),
        caught(deque().popleft),
        caught(lambda: deque([1])[5]),
        caught(deque([1]).remove, 7),
        caught(deque, 5),
        caught(deque, [], -1),
    )


def deque_of_tensors(x):
    window = deque(maxlen=2)
    for i in range(4):
        window.append(x * i)
    return sum(window), list(window)


def default_dicts(x):
    groups = defaultdict(list)
    for k, v in [("a", 1), ("b", 2), ("a", 3)]:
        groups[k].append(v)
    counts = defaultdict(int)
    for c in "abca":
        counts[c] += 1
    nested = defaultdict(lambda: defaultdict(int))
    nested["a"]["b"] += 1
    return (
        x + 1,
        dict(groups),
        dict(counts),
        groups.get("zz"),
        "zz" in groups,
        nested["a"]["b"],
        len(nested),
        caught(lambda: defaultdict()["q"]),
        type(groups) is defaultdict,
        list(counts.items()),
        groups.pop("a"),
    )


def counters(x):
    c = Counter("abracadabra")
    d = Counter(a=1, z=2)
    return (
        x + 1,
        c["a"],
        c["missing"],
        c.most_common(2),
        sorted(c.elements())[:3],
        (c + d)["a"],
        (c - d)["a"],
        (c & d)["a"],
        (c | d)["z"],
        c.total(),
        len(c),
        dict(c),
    )


def counter_updates(x):
    c = Counter([1, 1, 2])
    c.update([2, 3])
    c.subtract({1: 5})
    c[9] += 1
    return x + 1, dict(c), c[1], dict(+c), list(c)


def chain_maps(x):
    base, top = {"a": 1, "b": 2}, {"b": 3}
    m = ChainMap(top, base)
    m["c"] = 4
    return x + 1, m["a"], m["b"], m.get("q", 0), "c" in m, top, len(m), m.new_child({"a": 9})["a"]


def named(x):
    p = Pair(1)
    return (
        x + 1,
        p,
        p.a,
        p.b,
        p._replace(a=2),
        p._asdict(),
        Pair._fields,
        Pair._make([3, 4]),
        p == (1, 5),
    )


def user_containers(x):
    d = UserDict(a=1)
    d["b"] = 2
    l = UserList([1, 2])
    l.append(3)
    return x + 1, d["a"], dict(d), len(l), l[0], list(l)


class Registry(dict):
    def __missing__(self, key):
        return f"no {key}"

    def add(self, key):
        self[key] = len(self)


class Stack(list):
    def push(self, item):
        self.append(item)
        return self


def subclasses_of_containers(x):
    r = Registry(a=1)
    r.add("b")
    s = Stack([1])
    s.push(2).push(3)
    return x + 1, r["a"], r["zz"], dict(r), len(r), list(s), s[-1], len(s), isinstance(r, dict)


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


def counts_up(table, key):
    table[key] += 1
    return table[key], key in table, len(table), list(table)


def looks_up(table, key):
    try:
        return table[key]
    except KeyError as error:
        return repr(error)


def kept_by_object(table, key, x):
    table[key]["sum"] = table[key].get("sum", 0) + x
    return x * 2


@pytest.mark.parametrize("table", [defaultdict(int), defaultdict(int, a=3, b=4)], ids=len)
def test_an_existing_defaultdict_makes_what_it_lacks(assert_captured, table):
    assert_captured(counts_up, table, "a", graphs=None)


def test_an_existing_defaultdict_without_a_factory_raises(assert_captured):
    assert_captured(looks_up, defaultdict(None, a=1), "b", graphs=None)


def test_a_copy_of_an_existing_defaultdict_keeps_its_factory(assert_captured):
    def copies(table):
        return table.copy(), table | {"b": 2}, copy.copy(table), copy.deepcopy(table), repr(table)

    assert_captured(copies, defaultdict(list, a=[1]), graphs=None, breaks=None)


def test_tensors_are_keys_by_identity(compiler, x):
    keys = [x + 0, x + 0, x + 0]
    table, compiled = defaultdict(dict), compiler.compile(kept_by_object)
    for key in (0, 1, 0, 2, 1, 0):
        compiled(table, keys[key], x)
    assert [id(key) for key in table] == [id(key) for key in keys]
    sums = [entry["sum"] for entry in table.values()]
    assert [same.tolist() for same in sums] == [(x * n).tolist() for n in (3, 2, 1)]
    assert [] == compiler.breaks
