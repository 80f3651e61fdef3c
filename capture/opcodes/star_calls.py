"""Handlers of `f(*items, **named)`: operands are joined, then the call is made.

The words of the TypeErrors are those of CPython: `format_kwargs_error` and `check_args_iterable`
(Python/ceval.c). See `capture.opcodes`.
"""

from typing import Final

from dynajit.capture.bytecode.versions import IS_311
from dynajit.capture.machine.exceptions import Raised, raise_python
from dynajit.capture.machine.frames import Frame, Steps
from dynajit.capture.machine.machine import Handler, Machine
from dynajit.capture.opcodes.control import callee_and_arguments
from dynajit.capture.opcodes.operators import is_iterable
from dynajit.capture.python.basic import as_python, type_name, type_of, unsupported
from dynajit.capture.python.builtins.dicts import to_pairs
from dynajit.capture.python.contents import dict_contains, dict_store
from dynajit.capture.python.exceptions import current
from dynajit.capture.values.containers import DictValue
from dynajit.capture.values.symbolic import NONE, Value


def called_text(machine: Machine, callee: Value) -> Steps[str]:
    """How messages name what is called: `module.qualname()`.

    Raises:
        GraphBreak: it has no such name; the message contains its text.
    """
    try:
        name = as_python(machine, (yield from machine.get_attribute(callee, "__qualname__")))
        module = as_python(machine, (yield from machine.get_attribute(callee, "__module__")))
    except Raised:
        raise unsupported("the text of what is called", callee) from None
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"


def _keyword(machine: Machine, key: Value) -> str:
    """The name that a key of `**` is.

    Raises:
        Raised: it is no string.
        GraphBreak: it is of a class derived from str, which has a say in what it equals.
    """
    kind = type_of(machine, key)
    if not issubclass(kind, str):
        raise_python(machine, TypeError, "keywords must be strings")
    if kind is not str:
        raise unsupported("**", key)
    name: str = as_python(machine, key)
    return name


def call_function_ex(machine: Machine, frame: Frame, with_keywords: bool) -> Steps[None]:
    """`f(*args, **kwargs)`."""
    if IS_311:  # the caller keeps the arguments until the call is over; an inlined one does not
        machine.refuse_watched(frame.stack[-1 - with_keywords :])
    named = frame.pop() if with_keywords else None
    items = frame.pop()
    kind = type_of(machine, items)
    if not is_iterable(kind):
        callee, _ = callee_and_arguments(frame, [])
        name = yield from called_text(machine, callee)
        raise_python(
            machine,
            TypeError,
            f"{name} argument after * must be an iterable, not {type_name(kind)}",
        )
    positional = yield from machine.to_items(items)
    callee, arguments = callee_and_arguments(frame, list(positional))
    keywords = {}
    if named is not None:
        for key, item in (yield from to_pairs(machine, named)):
            keywords[_keyword(machine, key)] = item
    frame.push((yield from machine.call(callee, arguments, keywords)))


def dict_merge(machine: Machine, frame: Frame, depth: int) -> Steps[None]:
    """Join `**items` with the keyword arguments that are there."""
    items = frame.pop()
    target = frame.stack[-depth]
    callee = frame.stack[-depth - 2]
    if callee is None:  # the empty slot lies above what is called, from 3.13 on
        callee = frame.stack[-depth - 3]
    kind = type_of(machine, items)
    if not isinstance(items, DictValue) and not hasattr(kind, "keys"):
        name = yield from called_text(machine, callee)
        raise_python(
            machine, TypeError, f"{name} argument after ** must be a mapping, not {type_name(kind)}"
        )
    for key, item in (yield from to_pairs(machine, items)):
        _keyword(machine, key)
        if dict_contains(machine, target, key):
            if IS_311 and current(machine) is not NONE:
                # the KeyError is made at once, to be chained, and format_kwargs_error wants it raw
                raise_python(machine, KeyError, as_python(machine, key))
            name = yield from called_text(machine, callee)
            text = f"{name} got multiple values for keyword argument '{as_python(machine, key)}'"
            raise_python(machine, TypeError, text)
        dict_store(machine, target, key, item)


HANDLERS: Final[dict[str, Handler]] = {
    "CALL_FUNCTION_EX": call_function_ex,
    "DICT_MERGE": dict_merge,
}
