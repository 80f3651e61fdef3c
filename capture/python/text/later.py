"""Texts of numbers that the launch computes, or that differ between the turns of a loop.

`f"{loss.item():.3f}"` in a turn is a text that nobody knows before the launch, and that is mostly
written out and nothing else (`LaterText`). Contract: whether making it raises is found out ahead,
with numbers of the same classes; where that depends on the number, there is no such text.
"""

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import as_python, is_known
from dynajit.capture.python.tensors.arrays import is_array
from dynajit.capture.python.tensors.counts import asked_in_turns, is_count
from dynajit.capture.tensors.turns import is_of_a_turn
from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.symbolic import Scalar, Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.texts import LaterText

#: What makes a character of an int, by the function that takes the template: some have none.
_CHARACTERS: Final[dict[Any, Any]] = {format: re.compile("c$"), str.format: re.compile(r"c\}")}

#: The letter of a conversion in a template for `%`.
_LETTERS: Final = re.compile("%[^%a-zA-Z]*([a-zA-Z%])")

#: A value of each class whose text is as that of all others.
_SAMPLES: Final[dict[type, Any]] = {int: 1, float: 1.5, bool: True, str: "x"}


def is_later(value: Value) -> bool:
    """True for a number whose text is not known before the launch, and for such a text."""
    if isinstance(value, Scalar):
        return value.python_type in _SAMPLES and is_of_a_turn(value)
    return isinstance(value, LaterText) or is_count(value) or _is_of_numpy(value)


def _is_of_numpy(value: Value) -> bool:
    """True for a number of NumPy's that the launch computes."""
    return is_array(value) and issubclass(value.python_type, np.generic)


def shown_number(machine: Machine, value: Value) -> Value:
    """What the format of a tensor shows: of one without dims its number, where it may be one that
    the launch computes. Other values as they are."""
    if not isinstance(value, TensorValue) or machine.recorder.graph_value(value).shape != ():
        return value
    return asked_in_turns(machine, value) or value


def text_of(
    machine: Machine, function: Callable[..., Any], arguments: Sequence[Value], kind: Any = None
) -> LaterText | None:
    """A text of which an argument is not known yet.

    Args:
        function: makes it of the arguments.
        kind: the function of Python's that it stands for, where it is no such one.

    Returns:
        None: all are known, one is something else, or the function may raise.
    """
    if not any(map(_has_later, arguments)) or not all(map(_has_text, arguments)):
        return None
    samples = [_sample(machine, value) for value in arguments]
    if _may_refuse(kind or function, samples, arguments):
        return None
    try:
        function(*samples)
    except Exception:
        return None
    return LaterText(function, tuple(arguments))


def _may_refuse(kind: Any, samples: Sequence[Any], arguments: Sequence[Value]) -> bool:
    """Whether it depends on a number whether there is a text."""
    if kind is operator.mod:
        letters = [letter for letter in _LETTERS.findall(str(samples[0])) if letter != "%"]
        values = arguments[1]
        items = values.items if isinstance(values, TupleValue) else (values,)
        pairs = zip(letters, items, strict=False)
        return "*" in str(samples[0]) or any(
            is_later(item) and letter in _refused(item.python_type) for letter, item in pairs
        )
    character = _CHARACTERS.get(kind)
    texts = [text for text in samples if type(text) is str]
    return character is not None and any(map(character.search, texts))


def _refused(kind: type) -> str:
    """Letters that some numbers of a class refuse: infinity is no int, and -1 no character."""
    return "c" if issubclass(kind, (int, np.integer, np.bool_)) else "diuc"


def _has_later(value: Value) -> bool:
    if isinstance(value, TupleValue) and value.cls is tuple:
        return any(map(_has_later, value.items))
    return is_later(value)


def _has_text(value: Value) -> bool:
    """Whether its text asks nothing of the program."""
    if isinstance(value, TupleValue) and value.cls is tuple:
        return all(map(_has_text, value.items))
    return is_later(value) or (is_known(value) and value.python_type in _SAMPLES)


def _sample(machine: Machine, value: Value) -> Any:
    if isinstance(value, TupleValue):
        return tuple(_sample(machine, item) for item in value.items)
    if not is_later(value):
        return as_python(machine, value)
    kind = value.python_type
    return kind(1) if issubclass(kind, np.generic) else _SAMPLES[kind]


def joined(*parts: str) -> str:
    """What an f-string makes of its parts."""
    return "".join(parts)


__all__ = ["is_later", "joined", "shown_number", "text_of"]
