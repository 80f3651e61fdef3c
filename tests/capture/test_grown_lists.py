"""Lists that only grow: appended to without being read, so their length is not guarded."""

import pytest

from dynajit import eager
from dynajit.capture.entry import cache, session
from dynajit.ir.interpret import replay
from tests.support.publishing import publisher


@pytest.fixture
def compile():
    """Compiles with an interpreting backend and counts the compiles."""
    made = []
    options = session.Options(
        lambda captured: lambda *operands: replay(captured.graph, operands, eager.from_numpy)
    )
    publish = publisher(options)

    def counted(function, arguments):
        made.append(function.__qualname__)
        return publish(function, arguments)

    def compile(function):
        return cache.compiled_function(function, counted), made

    return compile


def both(function, compile, make, calls=5):
    """Final list and compile count after several calls on one list, plain and compiled."""
    x = eager.tensor([1.0, 2.0])
    plain = make()
    for _ in range(calls):
        function(x, plain)
    compiled, made = compile(function)
    grown = make()
    for _ in range(calls):
        compiled(x, grown)
    assert [str(item) for item in plain] == [str(item) for item in grown]
    return len(made)


def appends(x, items):
    items.append(x * 2)
    items.append("end")
    return x + 1


def extends(x, items):
    items.extend([1, 2])
    items.extend(item for item in "ab")
    items += (x.sum(),)
    return x + 1


def appends_then_reads(x, items):
    items.append(1)
    y = x + len(items)
    items.append(2)
    return y


def reads_then_appends(x, items):
    y = x + len(items)
    items.append(y)
    return y


def appends_then_inserts(x, items):
    items.append(1)
    items.insert(0, x + 1)
    items.append(3)
    return x * 2


@pytest.mark.parametrize("function", [appends, extends])
def test_a_list_that_is_only_extended_needs_one_version(function, compile):
    assert 1 == both(function, compile, lambda: [0])


@pytest.mark.parametrize("function", [appends_then_reads, reads_then_appends, appends_then_inserts])
def test_a_list_that_is_also_read_is_right_for_every_length(function, compile):
    assert 5 == both(function, compile, lambda: [0])


def test_two_names_of_one_list_grow_together(compile):
    def function(x, a, b):
        a.append(1)
        b.append(2)
        a.append(len(b))
        return x + 1

    x = eager.tensor([1.0])
    compiled, _ = compile(function)
    for _ in range(2):
        same, first, second = [7], [7], [7]
        compiled(x, same, same)
        compiled(x, first, second)
        assert [7, 1, 2, 3] == same
        assert ([7, 1, 2], [7, 2]) == (first, second)


def test_a_break_after_an_append_keeps_it_once(compile):
    def function(x, items):
        items.append("before")
        y = x + 1
        items.append(y.sum().item())
        return y

    x = eager.tensor([1.0])
    compiled, _ = compile(function)
    items = []
    compiled(x, items)
    compiled(x, items)
    assert ["before", 2.0, "before", 2.0] == items


def test_a_bound_method_of_a_list_is_called_for_the_list_it_is_bound_to(compile):
    def function(x, push):
        push(x.shape[0])
        return x * 2

    compiled, made = compile(function)
    first, second = [], []
    for target in (first, second, first):
        compiled(eager.tensor([1.0]), target.append)
    assert ([1, 1], [1]) == (first, second)
    assert 1 == len(made)
    compiled(eager.tensor([1.0]), first.extend if False else first.remove)
    assert [1] == first
    assert 2 == len(made)


def test_reading_behind_a_break_does_not_fix_the_length_in_front_of_it(compile):
    def function(x, items):
        items.append("grown")
        y = x * x.sum()
        items.reverse()  # read here, and undone: the break below goes back in front of it
        del items[0], y.missing
        return y

    def run(function):
        items = []
        for _ in range(3):
            with pytest.raises(AttributeError):
                function(eager.tensor([1.0]), items)
        return items

    compiled, _ = compile(function)
    assert run(function) == run(compiled)
