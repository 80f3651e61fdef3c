"""Numbers of Python's that are other ones in each turn of a loop.

While a turn is captured that stands for all turns (`capture.execution.loops`), the loop's counter,
and variables that hold numbers, are run-time numbers with a `Turn` as their source. What the turn
computes of them is an expression, and no guard can ask for it. Where the graph takes such a number,
the body of the loop gets an input (`lift`); what the input is in each turn is found by running the
expressions for all turns, with the functions that Python itself calls: `numbers_of`.

How many blocks of random numbers the turns before have used (`blocks_before`) is such a number,
too: with it, draws of a turn begin where the last turn's have ended.
"""

import functools
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeGuard

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.places.sources import Turn
from dynajit.capture.values.containers import ListValue
from dynajit.capture.values.numbers import FUNCTIONS
from dynajit.capture.values.symbolic import Constant, Scalar, Value
from dynajit.core.records import record
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import ScalarType
from dynajit.ir import graph
from dynajit.ir.loops import LARGEST_NUMBER, Listed, Steps

#: Turns that no loop reaches: years.
ENDLESS: Final = 1 << 40

#: Turns whose numbers are found one by one: some tenths of a second.
MOST_LISTED: Final = 100_000

#: Comparisons whose answer changes once at most, where differences go one way.
_ORDERS: Final = frozenset({"<", "<=", ">", ">="})

#: Of numbers that fit 64 bits whatever number of turns below 2**31 there is.
LARGEST_START: Final = 1 << 60
LARGEST_STEP: Final = 1 << 28


#: What computes a number from what the counter ("") and variables are in a turn.
_Function: TypeAlias = Callable[[Mapping[str, int | float]], Any]


#: Items, and the tensor that holds them.
Table: TypeAlias = tuple[Sequence[Value], graph.Value]


class Varies(Exception):
    """A number is not one of the same class in every turn, or computing it raises."""


class Turns:
    """Numbers that the body of one loop takes. Mutable: it gets more as the turn is captured.

    Args:
        loop: its number in the capture.
        placeholder: makes an input of the graph that stands for one.
        first: objects that the turn makes have this id or a later one.

    Attributes:
        decide: answers a comparison in a frame that may end the loop, or is the same in all turns;
            None: nothing does.
        settles_truths: whether that says of a number, too, whether it is true.
        asked: ids of lists that the turn has read.
        grown: id -> list that is older than the turn, which has appended to it.
        tables: lists and tuples of the caller's numbers that the turn reads by its counter: what
            stands for one -> (its items, a tensor that holds them, from in front of the turn).
        wanted: such that have no table, likewise: their items.
        truths: node of a comparison -> the comparison, where Python finds it for all turns.
        relied: numbers that must be right in every turn, whether the body takes them or not.
        reserved: blocks of random numbers, by device, in front of the first turn; None: it is not
            known how many turns there are, and none may draw.
    """

    def __init__(
        self, loop: int, placeholder: Callable[[str, ScalarType], graph.Value], first: int
    ) -> None:
        self.loop, self.first = loop, first
        self.asked: set[int] = set()
        self.grown: dict[int, ListValue] = {}
        self.truths: dict[graph.Node, Scalar] = {}
        self.tables: Mapping[Any, Table] = {}
        self.wanted: dict[Any, Sequence[Value]] = {}
        self._placeholder = placeholder
        self.taken: dict[Any, tuple[Scalar, graph.Value]] = {}
        self.relied: dict[Any, Scalar] = {}
        self.decide: Callable[[Any, str, Value, Value], bool | None] | None = None
        self.settles_truths = False
        self.reserved: Mapping[Device, Number] | None = None

    def take(self, scalar: Scalar) -> graph.Value:
        """The input that stands for a number."""
        key = key_of(scalar)
        found = self.taken.get(key)
        if found is None:
            is_float = scalar.python_type is float
            kind = ScalarType(Category.FLOATING if is_float else Category.INTEGER)
            found = self.taken[key] = (scalar, self._placeholder("turn", kind))
        return found[1]

    def clear(self) -> None:
        """The turn was undone: its inputs are gone."""
        self.taken.clear()
        self.relied.clear()
        self.asked.clear()
        self.grown.clear()
        self.truths.clear()

    def forget(self, exist: Callable[[graph.Node], bool]) -> None:
        """Leave out the inputs that the graph has no longer."""
        self.taken = {key: pair for key, pair in self.taken.items() if exist(pair[1].node)}


def collects(turns: Sequence[Turns], heap: Any, value: Any) -> bool:
    """Whether items are appended to a list that is older than a turn; the turns note it."""
    if type(value) is not ListValue:
        return False
    identity = value.identity
    older = [turn for turn in turns if identity < turn.first or heap.is_adopted(identity)]
    for turn in older:
        turn.grown[identity] = value
    return bool(older)


def is_of_a_turn(scalar: Any) -> bool:
    """True for a number of a turn, and for what is computed of one."""
    return bool(_loops(scalar))


def is_plain_number(value: Value) -> TypeGuard[Scalar | Constant]:
    """True for an int, a float or a truth of Python's that is not computed by the launch."""
    return isinstance(value, (Constant, Scalar)) and type(value.value) in (int, float, bool)


def is_of_loop(scalar: Any, loop: int) -> bool:
    """Whether a number is made of what turns of one loop have, and of none of another loop.

    Args:
        loop: its number.
    """
    return _loops(scalar) == {loop}


def decided(turns: Sequence[Turns], frame: Any, symbol: str, a: Value, b: Value) -> bool | None:
    """The answer to a comparison that is known for all turns, or that ends the loop when it
    changes; None: it is another one."""
    if not turns or turns[-1].decide is None or not (is_of_a_turn(a) or is_of_a_turn(b)):
        return None
    return turns[-1].decide(frame, symbol, a, b)


def settled_truth(turns: Sequence[Turns], frame: Any, value: Value) -> bool | None:
    """Whether a number that differs between turns is true, where that is known for all turns; None:
    it is true in some."""
    if not isinstance(value, Scalar) or not turns or not turns[-1].settles_truths:
        return None
    return decided(turns, frame, "!=", value, Constant(0))


def compared_in_all(turns: Sequence[Turns], symbol: str, a: Value, b: Value) -> bool | None:
    """The answer to a comparison where it is the same in all turns but the last.

    Returns:
        False, too, where it is made of the turn's own numbers, and not known to be the same; None:
        the launch alone knows.
    """
    if not turns or not turns[-1].settles_truths:
        return None
    answer = decided(turns, None, symbol, a, b)
    numbers = [side for side in (a, b) if isinstance(side, Scalar) and is_of_a_turn(side)]
    is_own = all(_owner(turns[-1:], number) for number in numbers)
    return False if answer is None and is_own else answer


def chosen_in_turn(
    turns: Sequence[Turns],
    condition: graph.Node,
    without_relied: Callable[[Scalar], Scalar],
    *operands: Value,
) -> Scalar | None:
    """`first if condition else second`, of floats that Python finds for all turns.

    Args:
        condition: a truth of the graph.
        without_relied: a number of turns without parts that are relied on.
        operands: the first and the second.

    Returns:
        None: one is another number, or the number of turns is not known.
    """
    if not turns or not turns[-1].settles_truths:
        return None
    truth = turns[-1].truths.get(condition)
    floats = [value for value in operands if isinstance(value, (Constant, Scalar))]
    if truth is None or len(floats) < 2 or any(type(value.value) is not float for value in floats):
        return None
    known = [
        without_relied(value) if isinstance(value, Scalar) and is_of_a_turn(value) else value
        for value in floats
    ]
    chosen = FUNCTIONS["choose"](truth.value, *(value.value for value in known))
    found = Scalar(chosen, None, ("choose", (truth, *known)))
    return found if _owner(turns, found) is turns[-1] else None


def table_in_turn(turns: Sequence[Turns], key: Any, items: Sequence[Value]) -> graph.Value | None:
    """The tensor that holds some items; None: there is none yet, which is noted.

    Args:
        key: what stands for the list or the tuple.
    """
    for turn in reversed(turns):
        known, table = turn.tables.get(key, ((), None))
        if len(known) == len(items) and all(map(operator.is_, known, items)):
            return table
    if turns:
        turns[-1].wanted[key] = items
    return None


def item_in_turn(items: Sequence[Value], index: Any) -> Scalar | None:
    """An item of numbers that are the same in all calls, by an index that differs between turns.

    Args:
        items: of a list or a tuple.

    Returns:
        None: it is another index, there is no such item in the turn that is captured, or the items
        are not numbers of one class.
    """
    if not isinstance(index, Scalar) or index.python_type is not int or not is_of_a_turn(index):
        return None
    values = numbers_in(items)
    if values is None or not -len(values) <= index.value < len(values):
        return None
    return Scalar(values[int(index.value)], None, ("item", (Constant(values), index)))


def numbers_in(items: Sequence[Value]) -> tuple[int | float, ...] | None:
    """Numbers of one class, ints or floats, that are the same in all calls; None: other values."""
    if not items or not all(isinstance(item, Constant) for item in items):
        return None
    values = tuple([item.value for item in items if isinstance(item, Constant)])
    return values if set(map(type, values)) in ({int}, {float}) else None


def always(counter: range, loop: int, symbol: str, a: Value, b: Value) -> bool | None:
    """The answer to a comparison of ints that go up in equal steps, where it is the same in all
    turns of a loop; None: it is another one in some, or not known.

    Args:
        counter: the loop's counter in every turn.
        loop: its number.
    """
    sides = [side for side in (a, b) if isinstance(side, (Constant, Scalar))]
    if len(sides) < 2 or any(side.python_type is not int for side in sides):
        return None
    difference = Scalar(0, None, ("-", tuple(sides)))
    steps = _steps(difference, {"": Steps(counter.start, counter.step)})
    if steps is None or _loops(difference) != {loop}:
        return None
    first, last = steps.at(0), steps.at(len(counter) - 1)  # what lies between is between them
    if (first > 0, first < 0) != (last > 0, last < 0):
        return None
    return bool(FUNCTIONS[symbol](first, 0))


def truths(
    counter: range, loop: int, carried: Mapping[str, range], asked: Scalar
) -> Sequence[bool] | None:
    """Whether a number is true in every turn of a loop; None: it is not known.

    Args:
        counter: the loop's counter in every turn.
        loop: its number.
        carried: variables that hold ints -> what they are in every turn.
        asked: the number, or a comparison.
    """
    if len(counter) > MOST_LISTED or _loops(asked) != {loop} or not _is_of_turns_only(asked):
        return None
    if not names_in(asked) <= {"", *carried}:
        return None
    try:
        return [bool(truth) for truth in _column(asked, {"": counter, **carried})]
    except Varies:
        return None


def names_in(value: Any) -> set[str]:
    """What turns have that a number is made of: variables, and "" for the counter."""
    if not isinstance(value, Scalar):
        return set()
    if isinstance(value.source, Turn):
        return {value.source.name}
    operands = () if value.expression is None else value.expression[1]
    return {name for operand in operands for name in names_in(operand)}


def period_of(answers: Sequence[bool], most: int) -> int | None:
    """After how many turns answers come again; None: after more than `most`, or never."""
    return next(
        (k for k in range(1, min(most, len(answers) // 2) + 1) if answers[k:] == answers[:-k]),
        None,
    )


def place_of_rare(answers: Sequence[bool]) -> int:
    """Where the answer that fewer have is given last."""
    rare = 2 * sum(answers) <= len(answers)
    places = [place for place, answer in enumerate(answers) if answer is rare]
    return places[-1] if places else 0


def with_known(scalar: Scalar, known: Callable[[Scalar], Constant | None]) -> Scalar:
    """A number of a turn with constants for the parts that `known` knows."""
    found = _with_known_part(scalar, known)
    assert isinstance(found, Scalar)
    return found


def _with_known_part(
    value: Scalar | Constant, known: Callable[[Scalar], Constant | None]
) -> Scalar | Constant:
    if isinstance(value, Constant) or isinstance(value.source, Turn):
        return value
    if value.expression is None:
        return known(value) or value
    symbol, operands = value.expression
    found = tuple([_with_known_part(operand, known) for operand in operands])
    if all(a is b for a, b in zip(found, operands, strict=True)):
        return value
    return Scalar(value.value, value.source, (symbol, found), value.symbolic)


def lift(turns: Sequence[Turns], scalar: Scalar) -> graph.Value:
    """The input of the loop's body that is this number.

    Raises:
        GraphBreak: it is made of numbers of several loops, or of others that vary.
    """
    owner = _owner(turns, scalar)
    if owner is None:
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, "a number of several loops")
    return owner.take(scalar)


def blocks_before(turns: Turns, device: Device) -> tuple[Number, Scalar]:
    """How many blocks of random numbers were reserved in front of a turn: a number that is the same
    in all turns, since sizes decide about it, and one of the turn.

    Raises:
        GraphBreak: the number of turns is not known.
    """
    if turns.reserved is None:
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, "random numbers in turns of a loop")
    first = turns.reserved.get(device, 0)
    place = Turn(turns.loop, _blocks_name(device))
    return (0, Scalar(first, place)) if isinstance(first, int) else (first, Scalar(0, place))


def blocks_after(
    turns: Turns, used: Mapping[Device, Number]
) -> dict[str, tuple[int | float, Scalar]]:
    """For `numbers_of`, as of variables: what `blocks_before` is in the first turn, and what in the
    turn that follows one.

    Args:
        used: blocks that a turn reserves.

    Raises:
        GraphBreak: see `blocks_before`; or sizes decide about those of a turn.
    """
    found: dict[str, tuple[int | float, Scalar]] = {}
    for device, blocks in used.items():
        _, before = blocks_before(turns, device)
        if type(blocks) is not int:
            raise GraphBreak(breaks.UNSUPPORTED_OPERATION, "random numbers of sizes that vary")
        after = Scalar(before.value + blocks, None, ("+", (before, Constant(blocks))))
        found[_blocks_name(device)] = before.value, after
    return found


def _blocks_name(device: Device) -> str:
    """A name that no variable has."""
    return f"random blocks of {device}"


def rely(turns: Sequence[Turns], scalar: Scalar, arm: graph.Node | None = None) -> bool:
    """Whether a number is computed for every turn before there is a loop: `numbers_of` refuses the
    loop where that raises, or gives a number of another class than in this turn.

    Args:
        arm: the truth of the graph by which Python runs what asks for it: turns in which it does
            not are left out, where that is known for all turns; None: it does in all.
    """
    owner = _owner(turns, scalar)
    if owner is None:
        return False
    runs = None if arm is None else owner.truths.get(arm)
    if runs is not None:
        scalar = Scalar(scalar.value, None, ("choose", (runs, scalar, Constant(scalar.value))))
    owner.relied.setdefault(key_of(scalar), scalar)
    return True


def note_negation(turns: Sequence[Turns], truth: graph.Value, negation: graph.Value) -> None:
    """A truth of the graph is the negation of another one, which Python may find for all turns."""
    known = turns[-1].truths if turns else {}
    found = known.get(truth.node)
    if found is not None:
        negated = Scalar(not found.value, None, ("==", (found, Constant(False))))
        known[negation.node] = negated


def note_both(
    turns: Sequence[Turns], first: graph.Value, second: graph.Value, both: graph.Value
) -> None:
    """A truth of the graph is that of two others, which Python may find for all turns."""
    known = turns[-1].truths if turns else {}
    a, b = known.get(first.node), known.get(second.node)
    if a is not None and b is not None:
        value = bool(a.value) and bool(b.value)
        known[both.node] = Scalar(value, None, ("choose", (a, b, Constant(False))))


def is_of_several_loops(a: Any, b: Any) -> bool:
    """Whether two numbers are made of what the turns of different loops have."""
    first, second = _loops(a), _loops(b)
    return bool(first and second) and first != second


def _owner(turns: Sequence[Turns], scalar: Scalar) -> Turns | None:
    """The loop whose turns have all that a number is made of; None: there is no such one."""
    found = _loops(scalar)
    owner = next((entry for entry in turns if {entry.loop} == found), None)
    return owner if _is_of_turns_only(scalar) else None


def _loops(scalar: Any) -> set[int]:
    if not isinstance(scalar, Scalar):
        return set()
    if isinstance(scalar.source, Turn):
        return {scalar.source.loop}
    operands = () if scalar.expression is None else scalar.expression[1]
    return {loop for operand in operands for loop in _loops(operand)}


def _is_of_turns_only(scalar: Any) -> bool:
    if isinstance(scalar, Constant) or isinstance(scalar.source, Turn):
        return True
    return scalar.expression is not None and all(map(_is_of_turns_only, scalar.expression[1]))


def key_of(value: Any) -> Any:
    """Equal for numbers that are made of the same ones by the same operations."""
    if isinstance(value, Constant):
        is_number = isinstance(value.value, (int, float))
        return (type(value.value), repr(value.value)) if is_number else value
    if value.expression is None:
        return value.source
    return value.expression[0], *map(key_of, value.expression[1])


def numbers_of(
    counter: range,
    carried: Mapping[str, tuple[int | float, Any]],
    wanted: Sequence[Scalar],
) -> tuple[list[Steps | Listed], dict[str, int | float]]:
    """What each of some numbers is in every turn; and what variables hold after the last.

    Args:
        counter: the loop's counter in every turn.
        carried: variable -> (what it holds in the first turn, what it holds after a turn).

    Raises:
        Varies: see there; or turns are too many for it.
    """
    steps = _in_steps(counter, carried, wanted)
    if steps is not None:
        return steps
    if len(counter) > MOST_LISTED:
        raise Varies
    columns, ends = _columns_of(counter, carried)
    rows = [_checked(_column(scalar, columns), scalar.python_type) for scalar in wanted]
    return [_shortest(row) for row in rows], ends


def _columns_of(
    counter: range, carried: Mapping[str, tuple[int | float, Any]]
) -> tuple[dict[str, Sequence[int | float]], dict[str, int | float]]:
    """What the counter ("") and variables are in every turn; and what variables hold after the
    last."""
    now = {name: first for name, (first, _) in carried.items()}
    columns: dict[str, list[int | float]] = {name: [] for name in carried}
    after_turns = [(n, _function(after), type(first)) for n, (first, after) in carried.items()]
    for count in counter if carried else ():
        for name, column in columns.items():
            column.append(now[name])
        known = {"": count, **now}
        now = {name: _value(function, known, kind) for name, function, kind in after_turns}
    return {"": counter, **columns}, now


def _column(value: Any, columns: Mapping[str, Sequence[int | float]]) -> Sequence[int | float]:
    """A number in every turn: there may be many thousand turns, so that C walks over them.

    Raises:
        Varies: something else decides about it, or computing it raises.
    """
    count = len(columns[""])
    if isinstance(value, Constant):
        return (value.value,) * count
    if isinstance(value.source, Turn):
        found = columns.get(value.source.name)
        if found is None:
            raise Varies
        return found
    if value.expression is None:
        raise Varies
    name, operands = value.expression
    try:
        if name == "choose":  # what is not chosen in a turn may raise there
            function = _function(value)
            turns = zip(*columns.values(), strict=True)
            return [function(dict(zip(columns, known, strict=True))) for known in turns]
        parts = [_column(operand, columns) for operand in operands]
        return list(map(FUNCTIONS[name], *parts))
    except Exception as error:
        raise Varies from error


def _checked(column: Sequence[int | float], kind: type) -> Sequence[int | float]:
    """A number in every turn, where it is one of its class that the graph can hold."""
    if not set(map(type, column)) <= {kind} or not issubclass(kind, (int, float)):
        raise Varies
    if issubclass(kind, int) and column and max(map(abs, column)) >= LARGEST_NUMBER:
        raise Varies
    return column


@record(eq=False)
class Asked:
    """A comparison of numbers of a turn.

    Args:
        symbol: the operator.
        a, b: what it compares.
        answer: in the first turn.
    """

    symbol: str
    a: Scalar | Constant
    b: Scalar | Constant
    answer: bool


def turns_alike(
    counter: range,
    carried: Mapping[str, tuple[int | float, Any]],
    asked: Sequence[Asked],
) -> int:
    """For how many turns, from the first on, comparisons have the answers of the first.

    Args:
        counter: the loop's counter in every turn.
        carried: see `numbers_of`.

    Raises:
        Varies: the numbers are not known, or too many turns have to be looked at.
    """
    in_steps = {name: pair for name, pair in carried.items() if goes_in_steps(name, pair)}
    limit, others = len(counter), []
    for each in asked:
        found = _in_steps(counter, in_steps, [each.a, each.b])
        if found is None:
            others.append(each)
        else:
            a, b = found[0]
            limit = min(limit, _turns_with(each, a, b, limit))
    return _turns_by_looking(counter[:limit], carried, others) if others else limit


def _turns_by_looking(
    counter: range, carried: Mapping[str, tuple[int | float, Any]], asked: Sequence[Asked]
) -> int:
    """The same, by going through the turns.

    Raises:
        Varies: see there.
    """
    after_turns = [(n, _function(after), type(first)) for n, (first, after) in carried.items()]
    compared = [
        (FUNCTIONS[each.symbol], _function(each.a), _function(each.b), each.answer)
        for each in asked
    ]
    now = {name: first for name, (first, _) in carried.items()}
    for turn, count in enumerate(counter[:MOST_LISTED]):
        known = {"": count, **now}
        try:
            is_alike = all(bool(f(a(known), b(known))) is answer for f, a, b, answer in compared)
        except Exception as error:
            raise Varies from error
        if not is_alike:
            return turn
        now = {name: _value(function, known, kind) for name, function, kind in after_turns}
    if len(counter) > MOST_LISTED:
        raise Varies
    return len(counter)


def _turns_with(asked: Asked, a: Any, b: Any, limit: int) -> int:
    """For how many turns a comparison has its answer, from the first on.

    Args:
        a, b: what it compares, in every turn.

    Raises:
        Varies: too many for looking at each.
    """
    compare = FUNCTIONS[asked.symbol]

    def holds(turn: int) -> bool:
        return bool(compare(a.at(turn), b.at(turn))) is asked.answer

    if asked.symbol in _ORDERS and hasattr(a, "step") and hasattr(b, "step"):
        low, high = 0, limit  # differences of steps go one way: the answer changes once
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if holds(middle) else (low, middle)
        return low
    found = next((turn for turn in range(min(limit, MOST_LISTED)) if not holds(turn)), None)
    if found is None and limit > MOST_LISTED:
        raise Varies
    return limit if found is None else found


def step_of(name: str, pair: tuple[int | float, Any]) -> int | None:
    """By how much an int that a variable holds goes up in each turn; None: by something else.

    Args:
        pair: what it holds in the first turn, and what it holds after a turn.
    """
    found = _in_steps(range(1), {name: pair}, ())
    return None if found is None else int(found[1][name] - pair[0])


def goes_in_steps(name: str, pair: tuple[int | float, Any]) -> bool:
    """Whether a variable holds an int that goes up in equal steps.

    Args:
        pair: what it holds in the first turn, and what it holds after a turn.
    """
    return _in_steps(range(1), {name: pair}, ()) is not None


def _in_steps(
    counter: range,
    carried: Mapping[str, tuple[int | float, Any]],
    wanted: Sequence[Scalar | Constant],
) -> tuple[list[Steps | Listed], dict[str, int | float]] | None:
    """`numbers_of` where all of them go up in equal steps; None: they do not."""
    known = {"": Steps(counter.start, counter.step)}
    ends: dict[str, int | float] = {}
    for name, (first, after) in carried.items():
        own = {name: Steps(0, 0)}
        change = _steps(after, own)
        if type(first) is not int or change is None or not _is_read_once(after, name):
            return None
        known[name] = Steps(first, change.start)
        ends[name] = first + change.start * len(counter)
    found = [_steps(scalar, known) for scalar in wanted]
    exact = [step for step in found if step is not None]
    if len(exact) < len(found):
        return None
    last = max(len(counter) - 1, 0)
    if any(abs(step.at(turn)) >= LARGEST_NUMBER for step in exact for turn in (0, last)):
        raise Varies
    return list(exact), ends


def steps_of(
    counter: range, carried: Mapping[str, tuple[int | float, Any]], wanted: Sequence[Scalar]
) -> tuple[Sequence[Steps], dict[str, int]]:
    """`numbers_of` for any number of turns: what numbers are, and what variables change by.

    Raises:
        Varies: they do not go up in equal steps, or in such that some number of turns makes them
            too large.
    """
    found = _in_steps(counter[:1], carried, wanted)
    if found is None:
        raise Varies
    numbers, ends = found
    changes = {name: int(end - carried[name][0]) for name, end in ends.items()}
    exact = [number for number in numbers if isinstance(number, Steps)]
    known = [Steps(int(carried[name][0]), change) for name, change in changes.items()]
    for steps in (*exact, *known):
        if abs(steps.start) > LARGEST_START or abs(steps.step) > LARGEST_STEP:
            raise Varies
    return exact, changes


def _is_read_once(after: Any, name: str) -> bool:
    """Whether what a variable holds after a turn is what it held before, and something constant."""
    if isinstance(after, Scalar) and isinstance(after.source, Turn):
        return after.source.name == name
    if not isinstance(after, Scalar) or after.expression is None:
        return False
    symbol, operands = after.expression
    if symbol not in ("+", "-") or len(operands) != 2:
        return False
    first, second = operands
    if isinstance(second, Constant):
        return _is_read_once(first, name)
    return symbol == "+" and isinstance(first, Constant) and _is_read_once(second, name)


def _steps(value: Any, known: Mapping[str, Steps]) -> Steps | None:
    """A number as steps, where it is a sum, a difference or a constant multiple of such."""
    if isinstance(value, Constant):
        return Steps(value.value, 0) if type(value.value) is int else None
    if isinstance(value.source, Turn):
        return known.get(value.source.name)
    if value.expression is None or len(value.expression[1]) != 2:
        return None
    symbol, operands = value.expression
    a, b = (_steps(operand, known) for operand in operands)
    if a is None or b is None:
        return None
    if symbol == "+":
        return Steps(a.start + b.start, a.step + b.step)
    if symbol == "-":
        return Steps(a.start - b.start, a.step - b.step)
    if symbol == "*" and not (a.step and b.step):
        return Steps(a.start * b.start, a.start * b.step + a.step * b.start)
    return None


def _value(function: _Function, known: Mapping[str, int | float], kind: type) -> int | float:
    """A number in one turn."""
    try:
        found: object = function(known)
    except Exception as error:
        raise Varies from error
    if isinstance(found, float) and kind is type(found):
        return found
    if isinstance(found, int) and kind is type(found) and abs(found) < LARGEST_NUMBER:
        return found
    raise Varies


def _function(value: Any) -> _Function:
    """What computes a number from what is known of a turn: there may be many thousand turns.

    Raises:
        Varies: something else decides about it.
    """
    if isinstance(value, Constant):
        return functools.partial(_same, value.value)
    if isinstance(value.source, Turn):
        return operator.itemgetter(value.source.name)
    if value.expression is None:
        raise Varies
    name, operands = value.expression
    function, parts = FUNCTIONS[name], [_function(operand) for operand in operands]
    if name == "choose":
        condition, chosen, other = parts
        return lambda known: chosen(known) if condition(known) else other(known)
    if len(parts) != 2:
        return lambda known: function(*[part(known) for part in parts])
    first, second = parts
    return lambda known: function(first(known), second(known))


def _same(value: int | float, known: Mapping[str, int | float]) -> int | float:
    return value


def _shortest(row: Sequence[int | float]) -> Steps | Listed:
    first = row[0] if row else 0
    if set(map(type, row)) <= {int}:
        steps = Steps(int(first), int(row[1] - first) if len(row) > 1 else 0)
        if all(map(operator.eq, row, itertools.count(steps.start, steps.step))):
            return steps
    return Listed(tuple(row))
