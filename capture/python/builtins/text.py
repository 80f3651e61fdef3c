"""Methods of str and bytes that take values which are not known: `join`, `format`, `format_map`.

Every other method of a text is computed on the spot.
"""

from typing import Any, Final

from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import as_python, defines, is_known, type_of
from dynajit.capture.python.containers import fold
from dynajit.capture.python.errors import check_count, refuse, stand_in
from dynajit.capture.python.text.text import format_template
from dynajit.capture.values.symbolic import Constant, Value

TEXT_METHODS: Final = ("join", "format")


def text_method(
    machine: Machine, receiver: Constant, name: str, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """A method of `TEXT_METHODS` of a known str, or `join` of known bytes."""
    if name == "format" and isinstance(receiver.value, str):
        return (yield from format_template(machine, receiver, args, keywords))
    separator = as_python(machine, receiver)
    check_count(machine, getattr(separator, name), args, keywords, 1, 1)
    return (yield from _join(machine, receiver, separator, args[0]))


def _join(machine: Machine, receiver: Constant, separator: Any, iterable: Value) -> Steps[Value]:
    kind = type_of(machine, iterable)
    if not (defines(kind, "__iter__") or defines(kind, "__getitem__")):
        refuse(machine, "join", separator.join, [iterable])
    items = yield from machine.to_items(iterable)
    if all(is_known(item) for item in items):
        parts = [as_python(machine, item) for item in items]
        return fold(machine, lambda text: text.join(parts), receiver)
    refuse(
        machine,
        "join",
        lambda *_: separator.join([stand_in(machine, item) for item in items]),
        items,
    )
