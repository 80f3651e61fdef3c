"""What captured code writes ends up exactly as in plain Python, around graph breaks too.

Every function runs plainly and compiled, on equal arguments, twice; results, arguments, printed
text, globals and raised errors are compared.
"""

import collections
import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

import dynajit as dj

COUNTER = 0
LOG: list[Any] = []
TABLE: dict[Any, Any] = {}


@pytest.fixture
def check(same: Any, outcome_of: Any, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """`check(function, *arguments)`: plain and compiled give the same, effects included."""

    def run(function: Callable[..., Any], arguments: Any, repeats: int) -> Any:
        global COUNTER
        COUNTER = 0
        LOG.clear()
        TABLE.clear()
        passed = copy.deepcopy(arguments)
        results = [outcome_of(function, *passed) for _ in range(repeats)]
        printed = capsys.readouterr().out
        return results, passed, printed, COUNTER, copy.copy(LOG), copy.copy(TABLE)

    def compare(function: Callable[..., Any], *arguments: Any, breaks: int | None = None) -> Any:
        expected = run(function, arguments, 2)
        compiled = dj.compile(function, backend="numpy")
        same(expected, run(compiled, arguments, 2), exact=False)
        same(expected, run(compiled, arguments, 2), exact=False)
        if breaks is not None:
            found = dj.explain(function, backend="numpy")(*copy.deepcopy(arguments))
            assert breaks == found.break_count, str(found)
        return expected[0]

    return compare


@pytest.fixture
def x() -> Any:
    """A tensor of shape (3,)."""
    return dj.tensor([1.0, -2.0, 3.0])


class Box:
    """An object with attributes of all kinds."""

    shared: ClassVar[list[Any]] = []
    __slots__ = ("__dict__", "slot")

    def __init__(self) -> None:
        self.count = 0
        self.items: list[Any] = []
        self.slot = 1
        self.tensor = dj.tensor([1.0, 1.0, 1.0])

    @property
    def doubled(self) -> Any:
        return self.count * 2

    @doubled.setter
    def doubled(self, value: Any) -> None:
        self.count = value // 2
        self.items.append("set")


# -- containers, attributes, globals, cells --------------------------------------------------------


def lists(x: Any, items: list[Any]) -> Any:
    items.append(x * 2)
    items.insert(0, x.shape[0])
    items[1:2] = [7, 8, 9]
    items.extend(item for item in (1, 2))
    del items[2]
    items.reverse()
    last = items.pop()
    items += [last, last]
    return items, len(items)


def dicts(x: Any, table: dict[Any, Any]) -> Any:
    table["new"] = x + 1
    table["old"] = table.pop("a", None)
    table.setdefault("list", []).append(x.sum())
    table.update(b=2, c=[1])
    table |= {"d": 4}
    del table["b"]
    table["b"] = 3
    return list(table), table.get("missing", 5), table.popitem()


def sets(x: Any, members: set[Any]) -> Any:
    members.add(4)
    members.discard(1)
    members |= {8, 9}
    return x * len(members), sorted(members)


def attributes(x: Any, box: Box) -> Any:
    box.count += 1
    box.slot = box.slot + box.count
    box.result = x * box.count
    box.items.append(box.result)
    box.doubled = 10
    setattr(box, "by_name", box.doubled)  # noqa: B010
    del box.tensor
    return box.result + box.slot


def globals_(x: Any) -> Any:
    global COUNTER
    COUNTER += 1
    LOG.append(COUNTER)
    TABLE[COUNTER] = x * COUNTER
    return TABLE[COUNTER] + COUNTER


def cells(x: Any) -> Any:
    count = 0
    seen = []

    def step(value: Any) -> Any:
        nonlocal count
        count += 1
        seen.append(count)
        return value * count

    for _ in range(3):
        x = step(x)
    return x, count, seen, [cell.cell_contents for cell in step.__closure__ or ()]


def escaping_closure(x: Any) -> Any:
    count = 10
    y = x * 2

    def later() -> Any:
        nonlocal count
        count += 1
        return y + count

    later()
    return later(), later().sum() * 0 + count


def class_attribute(x: Any, box: Box) -> Any:
    Box.shared.append(1)
    try:
        return x * len(box.shared)
    finally:
        Box.shared.clear()


def aliases(x: Any, items: list[Any]) -> Any:
    other = items
    nested = [items, other, {"same": items}]
    other.append(nested)
    items.append(1)
    result = x * len(items)
    items.remove(nested)
    return nested[0] is nested[1], nested[2]["same"] is items, result, nested


def default_argument(x: Any, seen: list[Any] = []) -> Any:  # noqa: B006
    seen.append(x.shape[0])
    try:
        return x * len(seen), list(seen)
    finally:
        seen.clear()


def containers_of_the_library(x: Any) -> Any:
    counts = collections.defaultdict(list)
    counts["a"].append(x)
    queue = collections.deque([1, 2], maxlen=3)
    queue.append(x.sum())
    ordered = collections.OrderedDict(a=1, b=x)
    ordered.move_to_end("a")
    return dict(counts), list(queue), ordered, collections.Counter("abca")


@dataclasses.dataclass
class Point:
    """A dataclass."""

    a: Any
    b: Any = 1
    c: list[Any] = dataclasses.field(default_factory=list)


def dataclass_objects(x: Any, point: Point) -> Any:
    point.c.append(point.b)
    point.b += 1
    made = Point(x * point.b, c=point.c)
    made.c.append("made")
    return made, made.c is point.c, dataclasses.replace(point, a=x)


def mutation_while_iterating(x: Any, items: list[Any]) -> Any:
    total = x
    for item in items:
        total = total + item
        if len(items) < 6:
            items.append(item * 2)
    return total


def unpacking(x: Any, items: list[Any]) -> Any:
    first, *rest, last = items
    items[0], items[-1] = last, first
    (a, b), c = (x, x + 1), x + 2
    return a + b * c + first, rest


PLAIN = [
    (lists, [[1, 2, 3]]),
    (dicts, [{"a": 1}]),
    (sets, [{1, 2}]),
    (attributes, None),
    (globals_, []),
    (cells, []),
    (escaping_closure, []),
    (class_attribute, None),
    (aliases, [[1]]),
    (default_argument, []),
    (containers_of_the_library, []),
    (dataclass_objects, [Point(1)]),
    (mutation_while_iterating, [[1, 2]]),
    (unpacking, [[1, 2, 3, 4]]),
]


@pytest.mark.parametrize(("function", "more"), PLAIN, ids=lambda v: getattr(v, "__name__", ""))
def test_effects_without_breaks(check: Any, x: Any, function: Any, more: Any) -> None:
    """State of lists, dicts, sets, objects, globals, cells."""
    check(function, x, *([Box()] if more is None else more))


# -- around breaks ---------------------------------------------------------------------------------


def print_in_loop(x: Any, items: list[Any]) -> Any:
    for i in range(3):
        items.append(i)
        x = x * 2
        print("step", i, x.shape, items)
        items.append(x.sum())
    return x + len(items)


def item_in_loop(x: Any, items: list[Any]) -> Any:
    total = 0.0
    for i in range(3):
        total += (x * i).sum().item()
        items.append(total)
    return x * total, items


def while_on_data(x: Any, items: list[Any]) -> Any:
    while x.abs().sum() < 50:
        items.append(len(items))
        x = x * 2
    else:
        items.append("else")
    return x


def branch_on_data(x: Any, box: Box) -> Any:
    box.count += 1
    if x.sum() > 0:
        box.items.append("positive")
        x = x + 1
    else:
        box.items.append("negative")
    box.count += 1
    return x * box.count


def with_block(x: Any, items: list[Any]) -> Any:
    with recording(items, "a") as name:
        items.append(name)
        x = x * 2
        print("inside", len(items))
        x = x + 1
    items.append("after")
    return x


@contextlib.contextmanager
def recording(items: list[Any], name: str) -> Iterator[str]:
    items.append(("enter", name))
    try:
        yield name
    finally:
        items.append(("exit", name))


class Manager:
    """A context manager class."""

    def __init__(self, items: list[Any], swallow: bool = False) -> None:
        self.items = items
        self.swallow = swallow

    def __enter__(self) -> "Manager":
        self.items.append("enter")
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> bool:
        self.items.append(("exit", None if kind is None else kind.__name__, str(value)))
        return self.swallow


def with_class_and_break(x: Any, items: list[Any]) -> Any:
    with Manager(items) as manager, Manager(items):
        x = x * 2
        if x.sum() > 0:
            manager.items.append("positive")
        x = x + 1
    return x


def with_swallowed_error(x: Any, items: list[Any]) -> Any:
    y = x * 2
    with Manager(items, swallow=True):
        y = y + 1
        print("about to fail")
        items.append(y.item())
        items.append("not reached")
    return y * 2


def no_grad_and_break(x: Any, items: list[Any]) -> Any:
    with dj.no_grad():
        y = x * 2
        items.append(dj.is_grad_enabled())
        print("inside")
        items.append(dj.is_grad_enabled())
        y = y + 1
    items.append(dj.is_grad_enabled())
    return y


def try_and_break(x: Any, items: list[Any]) -> Any:
    for i in range(2):
        try:
            items.append(("try", i))
            x = x + i
            if x.sum() > 2:
                raise ValueError(i)
            items.append("no error")
        except ValueError as error:
            items.append(("caught", str(error)))
            x = x * 2
        else:
            items.append("else")
        finally:
            items.append("finally")
            print("finally", i)
    return x


def return_in_finally(x: Any, items: list[Any]) -> Any:
    try:
        print("a")
        return x * 2
    finally:
        items.append("finally")


def continue_and_break(x: Any, items: list[Any]) -> Any:
    for i in range(6):
        if i == 1:
            continue
        if x.sum() + i > 6:
            break
        items.append(i)
        x = x + 0.1
    else:
        items.append("else")
    return x, i


def global_across_break(x: Any) -> Any:
    global COUNTER
    COUNTER += 1
    y = x * COUNTER
    print("counter", COUNTER)
    COUNTER += y.shape[0]
    TABLE["y"] = y
    LOG.append(int(y.sum()))
    return y + COUNTER


def cell_across_break(x: Any) -> Any:
    count = 0
    y = x

    def step() -> None:
        nonlocal count, y
        count += 1
        y = y * 2

    step()
    print(count)
    step()
    if y.sum() > 0:
        step()
    return y, count


def nested_calls(x: Any, items: list[Any]) -> Any:
    def inner(value: Any) -> Any:
        items.append("inner")
        if value.sum() > 0:
            return value * 2
        return value * 3

    a = inner(x)
    items.append("between")
    b = inner(-x)
    return a + b, [inner(v) for v in (x, -x)]


def comprehension_with_break(x: Any, items: list[Any]) -> Any:
    values = [(x * i).sum().item() for i in range(3)]
    table = {i: print(i) for i in range(2)}
    items.extend(values)
    return x * values[1], table


def generator_argument(x: Any, items: list[Any]) -> Any:
    def numbers() -> Iterator[int]:
        for i in range(3):
            items.append(i)
            yield i

    total = x
    for i in numbers():
        total = total + i
        print(i)
    return total + sum(numbers())


def stack_across_break(x: Any, items: list[Any]) -> Any:
    return (x * 2, items.append(1), (x + 1).sum().item(), [x - 1, items.append(2)], len(items))


def star_call_across_break(x: Any, items: list[Any]) -> Any:
    def both(*args: Any, **named: Any) -> Any:
        return sum(args), named

    return both(x, x.sum().item(), *items, key=print("k"), other=x * 2)


def match_statement(x: Any, items: list[Any]) -> Any:
    match items:
        case [1, *rest] if x.sum() > 0:
            items.append(rest)
            return x * 2
        case {"a": 1}:
            return x
        case _:
            return x * 3


def walrus_and_chained(x: Any, items: list[Any]) -> Any:
    if (total := x.sum()) > 0 and 0 < total < 10:
        items.append(total)
    return x if total else -x


def assertion(x: Any, items: list[Any]) -> Any:
    items.append("before")
    assert x.sum() > 0, "must be positive"
    items.append("after")
    return x


def delete_local(x: Any, items: list[Any]) -> Any:
    y = x * 2
    print("y", y.shape)
    z = y + 1
    del y
    items.append("y" in locals())
    return z


def iterator_across_break(x: Any, items: list[Any]) -> Any:
    iterator = iter(items)
    first = next(iterator)
    print(first)
    pairs = zip(items, iterator, strict=False)
    second = next(pairs)
    print(second)
    return x * first, list(pairs), list(enumerate(items, 5))


BREAKING = [
    (print_in_loop, [[]]),
    (item_in_loop, [[]]),
    (while_on_data, [[]]),
    (branch_on_data, None),
    (with_block, [[]]),
    (with_class_and_break, [[]]),
    (with_swallowed_error, [[]]),
    (no_grad_and_break, [[]]),
    (try_and_break, [[]]),
    (return_in_finally, [[]]),
    (continue_and_break, [[]]),
    (global_across_break, []),
    (cell_across_break, []),
    (nested_calls, [[]]),
    (comprehension_with_break, [[]]),
    (generator_argument, [[]]),
    (stack_across_break, [[]]),
    (star_call_across_break, [[1, 2]]),
    (match_statement, [[1, 2]]),
    (match_statement, [[2]]),
    (walrus_and_chained, [[]]),
    (assertion, [[]]),
    (delete_local, [[]]),
    (iterator_across_break, [[1, 2, 3, 4, 5]]),
]


@pytest.mark.parametrize(("function", "more"), BREAKING, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("sign", [1, -1])
def test_effects_around_breaks(check: Any, x: Any, function: Any, more: Any, sign: int) -> None:
    """The same inside loops, with, try, and in both directions of a branch."""
    check(function, x * sign, *([Box()] if more is None else more))


@pytest.mark.parametrize("function", [item_in_loop, branch_on_data, with_class_and_break])
def test_something_is_captured_around_breaks(x: Any, function: Any) -> None:
    """The functions above are not skipped as a whole."""
    argument = Box() if function is branch_on_data else []
    found = dj.explain(function, backend="numpy")(x, argument)

    assert found.break_count >= 1, str(found)
    assert found.graph_count >= 1, str(found)


# -- exceptions ------------------------------------------------------------------------------------


def raises_after_effects(x: Any, items: list[Any]) -> Any:
    items.append("before")
    y = x * 2
    items.append(y)
    raise KeyError("missing", items[0])


def raises_from_shape(x: Any, items: list[Any]) -> Any:
    items.append("before")
    y = x * 2
    items.append("computed")
    z = y + dj.ones(7)
    items.append("not reached")
    return z


def raises_in_callee(x: Any, items: list[Any]) -> Any:
    def callee(value: Any) -> Any:
        items.append("callee")
        return value[10]

    try:
        return callee(x * 2)
    except IndexError as error:
        items.append(type(error).__name__)
        raise RuntimeError("wrapped") from error


def caught_python_errors(x: Any, items: list[Any]) -> Any:
    for action in (
        lambda: {}["a"],
        lambda: [][1],
        lambda: int("z"),
        lambda: None.name,
        lambda: 1 / 0,
        lambda: x.no_such_name,
        lambda: undefined_name,  # noqa: F821
    ):
        try:
            action()
        except Exception as error:
            items.append((type(error).__name__, str(error)))
    return x * len(items)


def caught_tensor_error(x: Any, items: list[Any]) -> Any:
    try:
        y = x + dj.ones(5)
    except RuntimeError as error:
        items.append(type(error).__name__)
        y = x + 1
    return y


def nested_handlers(x: Any, items: list[Any]) -> Any:
    try:
        try:
            raise ValueError("inner")
        except ValueError:
            items.append("inner")
            raise TypeError("outer")  # noqa: B904
        finally:
            items.append("finally")
    except TypeError as error:
        items.append((str(error), type(error.__context__).__name__))
    return x * 2


def bare_reraise(x: Any, items: list[Any]) -> Any:
    try:
        items.append(x.sum().item())
        raise LookupError("again")
    except LookupError:
        items.append("handler")
        raise


def stop_iteration(x: Any, items: list[Any]) -> Any:
    iterator = iter(items)
    try:
        while True:
            x = x * next(iterator)
    except StopIteration:
        items.append("end")
    return x, next(iterator, "default")


def own_exception(x: Any, items: list[Any]) -> Any:
    class Own(Exception):
        def __init__(self, text: str, code: int) -> None:
            super().__init__(text)
            self.code = code

    try:
        raise Own("own", 3)
    except Own as error:
        items.append((str(error), error.code, error.args))
    return x + items[-1][1]


def escaping_exceptions(x: Any, items: list[Any]) -> Any:
    made = ValueError("made", 1)
    items.append(made)
    try:
        try:
            raise KeyError("first")
        except KeyError as first:
            raise RuntimeError("second") from first
    except RuntimeError as second:
        items.append(second)
        items.append(type(second.__cause__).__name__)
    return x * 2


def exit_sees_the_traceback(x: Any, items: list[Any]) -> Any:
    class Exit:
        def __enter__(self) -> None:
            items.append("enter")

        def __exit__(self, kind: Any, value: Any, trace: Any) -> bool:
            items.append((trace is None, kind is None))
            return True

    with Exit():
        x = x + 1
    with Exit():
        x = x * 2
        raise ValueError("swallowed")
    return x


class Coded(Exception):
    """An exception whose own __init__ calls that of its base."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def exception_with_own_init(x: Any, items: list[Any]) -> Any:
    try:
        raise Coded("own", 3)
    except Coded as error:
        items.append((str(error), error.code, error.args))
    return x + items[-1][1]


ERRORS = [
    escaping_exceptions,
    exit_sees_the_traceback,
    exception_with_own_init,
    raises_after_effects,
    raises_from_shape,
    raises_in_callee,
    caught_python_errors,
    caught_tensor_error,
    nested_handlers,
    bare_reraise,
    stop_iteration,
    own_exception,
]


@pytest.mark.parametrize("function", ERRORS)
def test_exceptions_leave_the_same_state(check: Any, x: Any, function: Any) -> None:
    """Raised and caught: class, text and everything written before."""
    check(function, x, [2, 3])


# -- tensors written in place, and shared memory ---------------------------------------------------


def in_place_on_argument(x: Any, items: list[Any]) -> Any:
    x.add_(1)
    x *= 2
    x[0] = 10
    y = x + 1
    x[1:].mul_(3)
    return y, x


def in_place_on_intermediate(x: Any, items: list[Any]) -> Any:
    y = x * 2
    y += 1
    y.mul_(x).clamp_(min=0)
    y[0] = 5
    y[1:] += 1
    z = y
    z -= 1
    return y, z is y


def in_place_on_view_of_intermediate(x: Any, items: list[Any]) -> Any:
    y = x * 2
    view = y[:2]
    view.add_(100)
    other = y.view(3, 1)
    y.mul_(2)
    return y, view, other


def in_place_on_view_of_argument(x: Any, items: list[Any]) -> Any:
    view = x[1:]
    before = view * 1
    view.zero_()
    return x + 1, view, before


def in_place_between_reads(x: Any, items: list[Any]) -> Any:
    a = x + 1
    x.add_(1)
    b = x + 1
    items.append(x)
    x.add_(1)
    return a, b, items[-1] is x, x + 1


def stored_then_changed(x: Any, items: list[Any]) -> Any:
    y = x * 2
    items.append(y)
    y += 1
    items.append(y)
    return items[-1] is items[-2], y * 1


def copy_and_fill(x: Any, items: list[Any]) -> Any:
    y = dj.zeros(3)
    y.copy_(x)
    z = dj.empty(3).fill_(2.0)
    x.fill_(4)
    return y, z


def augmented_item(x: Any, items: list[Any]) -> Any:
    items.append(x)
    items[-1] += 1
    items[-1] = items[-1] * 2
    return x, items[-1]


def attribute_in_place(x: Any, box: Box) -> Any:
    box.tensor += x
    kept = box.tensor
    box.tensor = box.tensor * 2
    kept.sub_(1)
    return kept, box.tensor


def data_and_detach(x: Any, items: list[Any]) -> Any:
    shared = x.detach()
    shared.add_(1)
    x.data.mul_(2)
    return x * 1, shared


def scatter_and_masks(x: Any, items: list[Any]) -> Any:
    y = dj.zeros(3)
    y[x > 0] = 1.0
    y[dj.tensor([0, 2])] += x[dj.tensor([2, 0])]
    y.masked_fill_(x < 0, -1.0)
    return y


IN_PLACE = [
    in_place_on_argument,
    in_place_on_intermediate,
    in_place_on_view_of_intermediate,
    in_place_on_view_of_argument,
    in_place_between_reads,
    stored_then_changed,
    copy_and_fill,
    augmented_item,
    data_and_detach,
    scatter_and_masks,
    attribute_in_place,
]


@pytest.mark.parametrize("function", IN_PLACE)
def test_in_place_writes_to_tensors(check: Any, x: Any, function: Any) -> None:
    """To arguments, intermediate tensors, views: captured or broken, the same result."""
    check(function, x, Box() if function is attribute_in_place else [])


def test_views_of_arguments_share_memory(x: Any) -> None:
    """What plain Python returns as a view is one; the argument itself is itself."""

    def views(x: Any) -> Any:
        return x, x[1:], x.view(3, 1), x.detach(), x.t(), x * 1, x.reshape(1, 3), x.expand(2, 3)

    for call in (views, dj.compile(views, fullgraph=True, backend="numpy")):
        value = x.clone()
        found = call(value)
        assert found[0] is value
        value.fill_(9.0)
        assert [9.0, 9.0] == found[1].tolist()
        assert [[9.0], [9.0], [9.0]] == found[2].tolist()
        assert [9.0] * 3 == found[3].tolist() == found[4].tolist()
        assert [1.0, -2.0, 3.0] == found[5].tolist()
        assert [[9.0] * 3] == found[6].tolist()
        assert [[9.0] * 3] * 2 == found[7].tolist()


def test_views_of_results_share_memory(x: Any) -> None:
    """Two results that are views of one tensor."""

    def views(x: Any) -> Any:
        y = x * 2
        return y, y[1:], y.view(3, 1)

    for call in (views, dj.compile(views, fullgraph=True, backend="numpy")):
        y, tail, column = call(x)
        y.zero_()
        assert [0.0, 0.0] == tail.tolist()
        assert [[0.0]] * 3 == column.tolist()


def test_aliased_arguments(x: Any, same: Any) -> None:
    """The same tensor or list twice, and then different ones."""

    def write(a: Any, b: Any, left: list[Any], right: list[Any]) -> Any:
        left.append(1)
        right.append(2)
        a.add_(1)
        return a * b, left is right, a is b, len(right)

    compiled = dj.compile(write, backend="numpy")
    for shared in (True, False, True, False):
        results = []
        for call in (write, compiled):
            a = x.clone()
            b = a if shared else x.clone()
            left: list[Any] = []
            right = left if shared else []
            results.append((call(a, b, left, right), a, b, left, right))
        same(results[0], results[1])


def test_views_of_one_tensor_as_arguments(x: Any, same: Any) -> None:
    """Overlapping arguments, one of them written."""

    def write(a: Any, b: Any) -> Any:
        c = b * 2
        a.mul_(10)
        return c + b, a + b

    compiled = dj.compile(write, backend="numpy")
    for _ in range(2):
        results = []
        for call in (write, compiled):
            base = x.clone()
            results.append((call(base[:2], base[1:]), base))
        same(results[0], results[1])


def test_a_global_tensor_is_read_anew(x: Any) -> None:
    """Replaced and written between calls."""

    def read(x: Any) -> Any:
        return x + TABLE["bias"]

    compiled = dj.compile(read, backend="numpy")
    TABLE["bias"] = dj.tensor([1.0, 1.0, 1.0])
    assert (x + 1).tolist() == compiled(x).tolist()
    TABLE["bias"].add_(1)
    assert (x + 2).tolist() == compiled(x).tolist()
    TABLE["bias"] = dj.tensor([5.0])
    assert (x + 5).tolist() == compiled(x).tolist()
    TABLE["bias"] = 7
    assert (x + 7).tolist() == compiled(x).tolist()
    TABLE.clear()
    with pytest.raises(KeyError, match="bias"):
        compiled(x)


def test_everything_read_is_guarded(x: Any) -> None:
    """Changing a global, a default, a closure cell, a class attribute or a function is seen."""
    factor = 2

    def helper(value: Any) -> Any:
        return value * factor

    def function(value: Any, plus: Any = 1) -> Any:
        return helper(value) + plus + COUNTER + Scale.by

    class Scale:
        by = 1

    compiled = dj.compile(function, backend="numpy")

    def agree() -> None:
        for _ in range(2):
            assert function(x).tolist() == compiled(x).tolist()

    global COUNTER
    COUNTER = 0
    agree()
    COUNTER = 5
    agree()
    factor = 3
    agree()
    Scale.by = 10
    agree()
    function.__defaults__ = (100,)
    compiled.__wrapped__.__defaults__ = (100,)
    agree()

    def helper(value: Any) -> Any:  # noqa: F811
        return value - 1

    agree()
    COUNTER = 0


@pytest.mark.parametrize("overwrite", [lambda t: t.zero_(), lambda t: t.fill_(2.0)])
def test_an_overwritten_tensor_keeps_its_history(overwrite) -> None:
    """Eager gives zero gradients, not none: an optimiser tells the two apart."""

    def function(x):
        joined = dj.cat([x, x])
        overwrite(joined)
        return joined

    gradients = []
    for call in (function, dj.compile(function)):
        x = dj.ones(3, requires_grad=True)
        result = call(x)
        assert result.requires_grad
        result.sum().backward()
        gradients.append(x.grad.tolist())

    assert [[0.0, 0.0, 0.0]] * 2 == gradients
