"""Objects that end while something iterates over what held them.

Iterators hold what they go over, not its items; those that give tuples (`items()`, `zip`,
`enumerate`) also keep the tuple that they gave, with what is in it, until they give the next one.
"""

import collections
import gc
import itertools
import weakref

import pytest

import dynajit as dj
from tests.support.python.harness import Compiler

LOG = []


class Ending:
    """Says when it ends, and may then empty a container."""

    def __init__(self, name, emptied=None):
        self.name = name
        self.emptied = emptied

    def __del__(self):
        LOG.append(("end", self.name))
        if self.emptied is not None:
            self.emptied.clear()


class Plain:
    pass


def items_of_a_dict_that_an_end_empties(table):
    for item in table.items():
        LOG.append(item[0])
        if item[0] == 2:
            table[2] = None


def unpacked_items(table):
    for key, value in table.items():
        LOG.append(key)
        table[key] = None
        del value
        LOG.append("deleted")
    LOG.append("after")


def items_bound_anew(table):
    for item in table.items():
        LOG.append(item[0])
        table[item[0]] = None
    LOG.append("after")


def items_that_the_next_turn_lets_go_of(table):
    for key, value in table.items():
        LOG.append(key)
        value = table[key] = None
        LOG.append("written")
    return value


def reversed_items(table):
    for key, value in reversed(table.items()):
        LOG.append(key)
        table[key] = None
        del value
        LOG.append("deleted")
    LOG.append("after")


def items_of_an_ordered_dict(table):
    table = collections.OrderedDict(table.copy())
    LOG.append("made")
    for key, value in table.items():
        LOG.append(key)
        table[key] = None
        del value
        LOG.append("deleted")
    LOG.append("after")


def items_by_hand(table):
    iterator = iter(table.items())
    key, value = next(iterator)
    table[key] = None
    del value
    LOG.append("deleted")
    next(iterator)
    LOG.append("next")
    table.clear()
    LOG.append("cleared")
    del iterator
    LOG.append("iterator")


def items_that_have_ended(table):
    iterator = iter(table.items())
    for _, value in iterator:
        LOG.append("turn")
        del value
    table.clear()
    LOG.append("cleared")
    del iterator
    LOG.append("iterator")


def a_returned_iterator(table):
    iterator = iter(table.items())
    key, value = next(iterator)
    table[key] = None
    del value
    LOG.append("deleted")
    return iterator


def a_break_with_an_iterator_that_nothing_reads(table):
    iterator = iter(table.items())
    key, value = next(iterator)
    table[key] = None
    del value
    LOG.append("deleted")
    dj.graph_break()
    LOG.append("broken")
    table.clear()
    LOG.append("cleared")


def values_of_a_dict(table):
    for value in table.values():
        LOG.append(value and value.name)
        table[1] = None
        LOG.append("written")
        value = None
        LOG.append("let go")
    LOG.append("after")


def values_of_a_dict_that_an_end_empties(table):
    for value in table.values():
        LOG.append(value.name)
        table[value.name] = None
    return value


def keys_of_a_dict(table):
    for key in table:
        LOG.append(key)
        if key == 2:
            table[2] = None
            LOG.append("written")
    LOG.append("after")


def table_of_keys(table):
    table = {value: name for name, value in table.items()}
    LOG.append("made")
    for key in table:
        LOG.append(key.name)
        table.clear()
        LOG.append("cleared")
        break
    del key
    LOG.append("after")


def members_of_a_set(table):
    members = {table[2]}
    table.clear()
    LOG.append("made")
    for member in members:
        members.clear()
        LOG.append("cleared")
        break
    del member
    LOG.append("after")


def zipped(table):
    values = list(table.values())
    table.clear()
    LOG.append("made")
    for value, number in zip(values, range(8)):
        values[number] = None
        LOG.append(number)
        del value
        LOG.append("deleted")
    LOG.append("after")


def zipped_pairs(table):
    values = list(table.values())
    table.clear()
    LOG.append("made")
    for pair in zip(values, range(8)):
        values[pair[1]] = None
        LOG.append(pair[1])
    LOG.append("after")


def enumerated(table):
    values = list(table.values())
    table.clear()
    LOG.append("made")
    for number, value in enumerate(values):
        values[number] = None
        LOG.append(number)
        del value
        LOG.append("deleted")
    LOG.append("after")


def enumerated_zip(table):
    values = list(table.values())
    table.clear()
    LOG.append("made")
    for number, (value, _) in enumerate(zip(values, range(8))):
        values[number] = None
        LOG.append(number)
        del value
        LOG.append("deleted")
    LOG.append("after")


def enumerated_pairs_by_hand(table):
    values = list(table.values())
    table.clear()
    LOG.append("made")
    iterator = enumerate(values)
    pair = next(iterator)
    values[0] = None
    LOG.append("written")
    del pair
    LOG.append("deleted")
    pair = next(iterator)
    LOG.append("next")
    pair = next(iterator)
    LOG.append("next")
    values.clear()
    LOG.append("cleared")
    pair = None
    LOG.append("let go")
    del iterator
    LOG.append("iterator")


def zip_that_has_ended(table):
    values = list(table.values())
    table.clear()
    LOG.append("made")
    iterator = zip(values)
    for (value,) in iterator:
        LOG.append(value.name)
    del value
    values.clear()
    LOG.append("cleared")
    del iterator
    LOG.append("iterator")


def listed(table):
    values = list(table.values())
    table.clear()
    for value in values:
        LOG.append(value.name)
        values[value.name] = None
        LOG.append("written")
    LOG.append("after")


def reversed_list(table):
    values = list(table.values())
    table.clear()
    for value in reversed(values):
        values[value.name] = None
        LOG.append("written")
        del value
        LOG.append("deleted")
    LOG.append("after")


def listed_without_another_name(table):
    for value in list(table.values()):
        table.clear()
        LOG.append("cleared")
        break
    LOG.append("left")
    del value
    LOG.append("after")


def mapped(table):
    values = list(table.values())
    table.clear()
    for value in map(lambda value: value, values):
        values[value.name] = None
        LOG.append("written")
        del value
        LOG.append("deleted")
    LOG.append("after")


def filtered(table):
    values = list(table.values())
    table.clear()
    for value in filter(None, values):
        values[value.name] = None
        LOG.append("written")
        del value
        LOG.append("deleted")
    LOG.append("after")


def _through(make):
    def through(table):
        values = list(table.values())
        table.clear()
        LOG.append("made")
        for value in make(values):
            if isinstance(value, tuple):
                value = value[0]
            LOG.append(value.name)
            values[value.name] = None
            LOG.append("written")
            del value
            LOG.append("deleted")
        LOG.append("after")

    return through


def _named(name, make):
    made = _through(make)
    made.__name__ = name
    return made


LIBRARY = [
    _named("chain", lambda values: itertools.chain(values)),
    _named("chain_from_iterable", lambda values: itertools.chain.from_iterable([values])),
    _named("islice", lambda values: itertools.islice(values, 3)),
    _named("takewhile", lambda values: itertools.takewhile(lambda value: True, values)),
    _named("dropwhile", lambda values: itertools.dropwhile(lambda value: False, values)),
    _named("filterfalse", lambda values: itertools.filterfalse(lambda value: False, values)),
    _named("compress", lambda values: itertools.compress(values, [1, 1, 1, 1])),
    _named("starmap", lambda values: itertools.starmap(lambda value: value, zip(values))),
    _named("zip_longest", lambda values: itertools.zip_longest(values)),
    _named("cycle", lambda values: itertools.islice(itertools.cycle(values), 4)),
    _named("accumulate", lambda values: itertools.accumulate(values, lambda one, two: two)),
    _named("pairwise", lambda values: itertools.pairwise(values)),
    _named("tee", lambda values: itertools.tee(values)[0]),
    _named("product", lambda values: itertools.product(values)),
    _named("deque", lambda values: collections.deque(values)),
    _named("generator", lambda values: (value for value in values)),
]


def attributes(table):
    thing = Plain()
    vars(thing).update({str(name): value for name, value in table.items()})
    table.clear()
    LOG.append("made")
    for name, value in vars(thing).items():
        LOG.append(name)
        setattr(thing, name, None)
        LOG.append("written")
        del value
        LOG.append("deleted")
    LOG.append("after")


def values_of_attributes(table):
    thing = Plain()
    vars(thing).update({str(name): value for name, value in table.items()})
    table.clear()
    LOG.append("made")
    for value in vars(thing).values():
        setattr(thing, "1", None)
        LOG.append("written")
        del value
        LOG.append("deleted")
    LOG.append("after")


def emptied_attributes(table):
    thing = Plain()
    vars(thing).update({str(name): value for name, value in table.items()})
    table.clear()
    LOG.append("made")
    for value in vars(thing).values():
        vars(thing).clear()
        LOG.append("written")
        del value
        LOG.append("deleted")
    LOG.append("after")


def more_attributes(table):
    thing = Plain()
    thing.one = 1
    for name in vars(thing):
        setattr(thing, "x" + name, None)
        LOG.append(name)
    LOG.append("after")


def held_in_a_list(table):
    for key, value in table.items():
        table[key] = [value]
    del value
    for key, value in table.items():
        LOG.append(key)
        table[key] = None
        del value
        LOG.append("deleted")
    LOG.append("after")


FUNCTIONS = [
    items_of_a_dict_that_an_end_empties,
    unpacked_items,
    items_bound_anew,
    items_that_the_next_turn_lets_go_of,
    reversed_items,
    items_of_an_ordered_dict,
    items_by_hand,
    items_that_have_ended,
    a_returned_iterator,
    a_break_with_an_iterator_that_nothing_reads,
    values_of_a_dict,
    values_of_a_dict_that_an_end_empties,
    keys_of_a_dict,
    table_of_keys,
    members_of_a_set,
    zipped,
    zipped_pairs,
    enumerated,
    enumerated_zip,
    enumerated_pairs_by_hand,
    zip_that_has_ended,
    listed,
    reversed_list,
    listed_without_another_name,
    mapped,
    filtered,
    held_in_a_list,
    attributes,
    values_of_attributes,
    emptied_attributes,
    more_attributes,
    *LIBRARY,
]


@pytest.fixture(autouse=True)
def _no_collections():
    """What earlier tests left behind ends before this one, and nothing is kept by a cycle."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def outcome(function, empties):
    """The log of a call with a dict of things that end; what they then empty may be the dict."""
    table = {}
    emptied = table if empties else None
    table.update((number, Ending(number, emptied)) for number in range(4))
    LOG.clear()
    try:
        LOG.append(type(function(table)))
    except RuntimeError as error:
        LOG.append(str(error))
    LOG.append("returned")
    found = list(LOG)
    for value in table.values():
        if value is not None:
            value.emptied = None
    return found


@pytest.mark.parametrize("empties", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_items_end_where_plain_python_ends_them(function, empties):
    expected = outcome(function, empties)
    compiled = Compiler().compile(function)
    for _ in range(3):
        assert outcome(compiled, empties) == expected


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_the_same_in_a_frame_that_is_inlined(function):
    expected = outcome(function, False)
    compiled = Compiler().compile(lambda table: function(table))
    for _ in range(3):
        assert outcome(compiled, False) == expected


def _alive(references):
    return [reference() is not None for reference in references]


def seen_in_unpacked_items(table, references):
    found = []
    for key, value in table.items():
        table[key] = None
        del value
        found.append(_alive(references))
    return found, _alive(references)


def seen_in_items(table, references):
    found = []
    for item in table.items():
        table[item[0]] = None
        found.append(_alive(references))
    del item
    return found, _alive(references)


def seen_in_zip(table, references):
    values = list(table.values())
    table.clear()
    found = []
    for value, number in zip(values, range(9)):
        values[number] = value = None
        found.append(_alive(references))
    return found, _alive(references)


def seen_in_enumerate(table, references):
    values = list(table.values())
    table.clear()
    found = []
    for number, value in enumerate(values):
        values[number] = value = None
        found.append(_alive(references))
    return found, _alive(references)


def seen_in_values(table, references):
    found = []
    for value in table.values():
        table[1] = table[2] = value = None
        found.append(_alive(references))
    return found, _alive(references)


def seen_behind_an_iterator_that_nothing_reads(table, references):
    iterator = iter(table.items())
    key, value = next(iterator)
    table[key] = value = None
    return _alive(references)


SEEN = [
    seen_in_unpacked_items,
    seen_in_items,
    seen_in_zip,
    seen_in_enumerate,
    seen_in_values,
    seen_behind_an_iterator_that_nothing_reads,
]


def seen(function, keep):
    table = {number: Plain() for number in range(4)}
    if keep:
        table = {number: [value] for number, value in table.items()}
    references = [weakref.ref(v[0] if keep else v) for v in table.values()]
    return function(table, references)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("function", SEEN, ids=lambda function: function.__name__)
def test_weak_references_see_items_as_long_as_in_plain_python(function, keep):
    compiled = Compiler().compile(function)
    expected = seen(function, keep)
    for _ in range(3):
        assert seen(compiled, keep) == expected
