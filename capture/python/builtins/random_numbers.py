"""Random numbers of Python: draws of `random.Random` objects, in captured code.

Contract: what an existing generator gives is never known while capturing. Each draw is noted, and
made anew in every call, in program order, before the launch; its number is a run-time number of the
region. A decision on one is a break. A generator that the captured code makes of a known seed is
known altogether: its numbers are constants, and where it must exist afterwards one is made with its
state.
"""

import _random
import random
import types
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.exceptions import NotKnown
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import as_python, at_once, is_known, unsupported
from dynajit.capture.python.builtins.table import special
from dynajit.capture.python.contents import list_items
from dynajit.capture.python.conversion import from_python
from dynajit.capture.python.errors import refuse
from dynajit.capture.values.containers import ListValue, TupleValue
from dynajit.capture.values.random_numbers import Draw, RandomValue
from dynajit.capture.values.symbolic import NONE, Opaque, Scalar, Value, constant

#: What draws a number, or says from where to draw, by its known arguments.
_DRAWS: Final = ("random", "uniform", "randint", "randrange", "seed")

#: Of a generator that is known, also what gives known results by known arguments.
_KNOWN_DRAWS: Final = (
    *_DRAWS, "gauss", "normalvariate", "expovariate", "betavariate", "triangular", "getrandbits",
)  # fmt: skip

#: What those call of the generator itself.
_CALLED: Final = ("random", "randrange", "getrandbits", "_randbelow")

#: Draws of a region; of more, the rest is left to Python.
MOST_DRAWS: Final = 64

#: Integers within these bounds fit every integer of a graph.
_MOST: Final = 2**62


def receiver_of(machine: Machine, target: Any, args: list[Value]) -> tuple[str, Value, bool] | None:
    """(method, generator, whether it is the first argument) of a function that draws; else None."""
    name = str(getattr(target, "__name__", ""))
    if isinstance(target, types.BuiltinMethodType) and type(target.__self__) is random.Random:
        owner = target.__self__
        return name, machine.recorder.wrap(owner, sources.Constant(owner)), False
    if isinstance(target, (types.FunctionType, types.MethodDescriptorType)):
        is_method = any(vars(c).get(name) is target for c in (random.Random, _random.Random))
        if is_method and args and args[0].python_type is random.Random:
            return name, args[0], True
    return None


def draw(
    machine: Machine, name: str, generator: Value, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """`generator.name(*args, **keywords)`.

    Raises:
        GraphBreak: it is not among those that are noted, or its arguments are not known.
    """
    if isinstance(generator, RandomValue):
        return _known_draw(machine, name, generator, args, keywords)
    if isinstance(generator, Opaque) and id(generator.object) in machine.recorder.states:
        raise GraphBreak(breaks.GLOBAL_STATE, "random numbers behind those that a loop draws")
    if not isinstance(generator, Opaque) or name not in _DRAWS:
        raise GraphBreak(breaks.GLOBAL_STATE, f"Random.{name} draws random numbers")
    given, named = _arguments(machine, name, args, keywords)
    if name == "seed" and (not given or type(given[0]) not in (int, float, str, bytes)):
        raise GraphBreak(breaks.GLOBAL_STATE, "Random.seed() of the time, or of an object")
    draws = machine.heap[machine.recorder.draws_id]
    if len(draws) == MOST_DRAWS:
        raise GraphBreak(breaks.LIMIT, "random numbers of Python")
    machine.recorder.use(generator)
    for called in (name, *_CALLED):
        if called in vars(generator.object):
            raise GraphBreak(breaks.GLOBAL_STATE, f"Random.{called} of one generator alone")
        machine.recorder.guard(generator.source, Kind.INSTANCE_LACKS, called, "method")
    found, state = _made_with(machine, name, _state_of(generator.object, draws), given, named)
    made = Draw(generator, name, given, named, state)
    machine.heap.write(machine.recorder.draws_id, (*draws, made))
    if found is None:
        return NONE
    if type(found) is int and not -_MOST < found < _MOST:
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, "a random number of many digits")
    place = sources.Drawn(generator.source, len(draws), name)
    return Scalar(found, place)


def _arguments(
    machine: Machine, name: str, args: list[Value], keywords: dict[str, Value]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if not all(map(is_known, (*args, *keywords.values()))):
        raise unsupported(f"Random.{name}", *args)
    try:
        given = tuple(as_python(machine, value) for value in args)
        return given, {key: as_python(machine, value) for key, value in keywords.items()}
    except NotKnown:
        raise unsupported(f"Random.{name}", *args) from None


def _state_of(generator: random.Random, draws: tuple[Draw, ...]) -> Any:
    """The state of a generator behind the draws so far."""
    for earlier in reversed(draws):
        if earlier.generator.object is generator:
            return earlier.state
    return generator.getstate()


def _made_with(
    machine: Machine, name: str, state: Any, given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, Any]:
    """What a method gives for a state, and the state behind it."""
    generator = random.Random()
    generator.setstate(state)
    try:
        found = getattr(generator, name)(*given, **named)
    except Exception:
        values: list[Value] = [constant(value) for value in given]
        keywords: dict[str, Value] = {key: constant(value) for key, value in named.items()}
        refuse(machine, name, getattr(generator, name), values, keywords)
    return found, generator.getstate()


# -- generators that are made ----------------------------------------------------------------------


@special(random.Random)
@at_once
def _make(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    given, named = _arguments(machine, "Random", args, keywords)
    seed = (*given, *named.values())
    if len(seed) != 1 or type(seed[0]) not in (int, float, str, bytes):
        raise GraphBreak(breaks.GLOBAL_STATE, "a generator with a seed that is not known")
    try:
        state = random.Random(*given, **named).getstate()
    except TypeError:
        refuse(machine, "Random", random.Random, args, keywords)
    return RandomValue(machine.heap.allocate(state), random.Random)


def _known_draw(
    machine: Machine,
    name: str,
    generator: RandomValue,
    args: list[Value],
    keywords: dict[str, Value],
) -> Value:
    sequence = args[0] if len(args) == 1 and not keywords else None
    if name in ("choice", "shuffle") and isinstance(sequence, (ListValue, TupleValue)):
        return _chosen(machine, name, generator, sequence)
    if name not in _KNOWN_DRAWS:
        raise GraphBreak(breaks.GLOBAL_STATE, f"Random.{name} draws random numbers")
    given, named = _arguments(machine, name, args, keywords)
    found, state = _made_with(machine, name, machine.heap[generator.identity], given, named)
    machine.heap.write(generator.identity, state)
    result: Value = from_python(machine, found)
    return result


def _chosen(
    machine: Machine, name: str, generator: RandomValue, sequence: ListValue | TupleValue
) -> Value:
    """An item of a sequence, or a list in another order: places are drawn."""
    is_list = isinstance(sequence, ListValue)
    items = list_items(machine, sequence) if isinstance(sequence, ListValue) else sequence.items
    places = list(range(len(items)))
    if not items or (name == "shuffle" and not is_list):
        raise unsupported(f"Random.{name}", sequence)
    found, state = _made_with(machine, name, machine.heap[generator.identity], (places,), {})
    machine.heap.write(generator.identity, state)
    if name == "choice":
        chosen: Value = items[found]
        return chosen
    assert isinstance(sequence, ListValue)
    machine.heap.write(sequence.identity, tuple(items[place] for place in places))
    return NONE
