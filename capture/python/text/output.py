"""Text that the program writes: recorded in order, and written after the launch.

`print`, `write` of a text stream, calls of a logger and warnings do not end a graph. What they show
is taken when they are called: texts of objects are computed, containers are copied, tensors are
held as they are at that point. The effects are replayed in the order of the program, before all
writes to objects.
"""

import functools
from collections.abc import Callable
from typing import Any

from dynajit.capture.library.shown_turns import ShownInTurn, show_turns
from dynajit.capture.machine.effects import Effect
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import is_known
from dynajit.capture.python.contents import dict_entries, list_items, new_list
from dynajit.capture.python.tensors.arrays import elements_of, made_like
from dynajit.capture.python.text.later import is_later
from dynajit.capture.python.text.output_writers import Touched, is_stream_class, refuse_output
from dynajit.capture.python.text.text import Shown
from dynajit.capture.values.containers import DictValue, ListValue, TupleValue
from dynajit.capture.values.objects import InstanceDictValue
from dynajit.capture.values.symbolic import Known, Opaque, Scalar, Value, constant
from dynajit.capture.values.tensors import TensorContents, TensorValue
from dynajit.core.records import record


@record
class OutputEffect(Effect):
    """A call of `function`, whose result does not matter.

    Args:
        touched: lists that it makes longer.
        when: truths that the launch computes, without one of which it is not called.
    """

    function: Callable[..., Any]
    arguments: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...] = ()
    touched: tuple[Touched, ...] = ()
    when: tuple[Value, ...] = ()

    @property
    def values(self) -> list[Value]:
        return [*self.when, *self.arguments, *(item for _, item in self.keywords)]

    def replay(self, emitter: Any) -> None:
        pushers = [_pusher(emitter, value) for value in self.values]
        names = tuple(name for name, _ in self.keywords)
        function = self.function
        if self.when:
            function = functools.partial(_call_where, len(self.when), self.function)
        emitter.call(function, *pushers, keywords=names)
        emitter.pop()


def _call_where(count: int, function: Callable[..., Any], *given: Any, **keywords: Any) -> None:
    """Call a function where the first arguments, so many, are true; with the others."""
    if all(given[:count]):
        function(*given[count:], **keywords)


@record
class TurnsEffect(Effect):
    """What the turns of a loop write out, turn by turn.

    Args:
        shown: what each turn does.
        rows: of each turn a tuple of the values that differ between turns.
        fixed: those that do not.
        touched: lists that they make longer.
    """

    shown: tuple[ShownInTurn, ...]
    rows: ListValue
    fixed: tuple[Value, ...]
    touched: tuple[Touched, ...] = ()

    @property
    def values(self) -> list[Value]:
        return [self.rows, *self.fixed]

    def replay(self, emitter: Any) -> None:
        pushers = [_pusher(emitter, value) for value in self.values]
        emitter.call(functools.partial(show_turns, self.shown), *pushers)
        emitter.pop()


def _pusher(emitter: Any, value: Value) -> Callable[[], None]:
    return lambda: emitter.load_value(value)


def add_output(machine: Machine, effect: OutputEffect) -> None:
    """Add to what is written after the launch.

    Raises:
        GraphBreak: the captured code uses a list that this makes longer.
    """
    if any(machine.recorder.is_met(touched.object) for touched in effect.touched):
        raise refuse_output("a text is recorded in a list that the code uses")
    machine.recorder.add_output(effect)


def is_stream(value: Value) -> bool:
    """True for an existing text stream that only writes."""
    return isinstance(value, Opaque) and is_stream_class(type(value.object))


# -- what is shown -------------------------------------------------------------------------------


def snapshot(machine: Machine, value: Value, is_inner: bool = False) -> Steps[Value]:
    """A value that shows later what `value` shows now.

    Args:
        is_inner: inside a container, which shows the `repr` of its items.

    Raises:
        GraphBreak: its text cannot be known before the launch, nor taken after it.
    """
    if isinstance(value, Scalar):
        machine.recorder.use_scalar_type(value)
        return value
    if is_later(value):
        return value
    if isinstance(value, TensorValue):
        return _tensor_snapshot(machine, value)
    held = elements_of(machine, value)
    if held is not None and not machine.heap.is_adopted(held.identity):
        return made_like(machine, value, _tensor_snapshot(machine, held))
    if is_known(value):
        machine.recorder.use(value)
        return value
    if isinstance(value, TupleValue) and value.cls is tuple:
        machine.recorder.use(value)
        return TupleValue(tuple((yield from _snapshots(machine, value.items))))
    if isinstance(value, ListValue):
        return new_list(machine, (yield from _snapshots(machine, list_items(machine, value))))
    if (
        isinstance(value, DictValue)
        and value.cls is dict
        and not isinstance(value, InstanceDictValue)
    ):
        entries = dict_entries(machine, value)
        keys = yield from _snapshots(machine, [key for key, _ in entries.values()])
        items = yield from _snapshots(machine, [item for _, item in entries.values()])
        pairs = zip(entries, zip(keys, items, strict=True), strict=True)
        return DictValue(machine.heap.allocate(dict(pairs)), dict)
    text = yield from machine.to_text(value, "repr" if is_inner else "str")
    return Known(Shown(text)) if is_inner else constant(text)


def _snapshots(machine: Machine, values: Any) -> Steps[list[Value]]:
    shown = []
    for value in values:
        shown.append((yield from snapshot(machine, value, True)))
    return shown


def _tensor_snapshot(machine: Machine, value: TensorValue) -> TensorValue:
    """The tensor as it is now; its text does not name a gradient function of the eager tape."""
    held = machine.recorder.graph_value(value)
    if machine.recorder.heap.is_adopted(value.identity):
        if machine.recorder.input_nodes.get(held.node) is None:
            raise refuse_output("an existing tensor that was changed in place")
        machine.recorder.add_printed(value)
        return value
    if machine.recorder.builder.node_needs_gradient(held.node):
        raise refuse_output("a tensor with a gradient history")
    return TensorValue(machine.heap.allocate(TensorContents(held)), value.cls)
