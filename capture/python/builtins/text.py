"""Methods of str and bytes that take values which are not known: `join`, `format`, `format_map`.

Every other method of a text is computed on the spot.
"""

from typing import Any, Final

from dynajit.capture.python.basic import Steps, as_python, defines, is_known
from dynajit.capture.python.errors import check_count, refuse, stand_in
from dynajit.capture.python.text.text import format_template
from dynajit.capture.values.symbolic import Constant, Value

TEXT_METHODS: Final = ("join", "format")


def text_method(
    x: Any, receiver: Constant, name: str, args: list[Value], keywords: dict[str, Value]
) -> Steps:
    """A method of `TEXT_METHODS` of a known str, or `join` of known bytes."""
    if name == "format" and isinstance(receiver.value, str):
        return (yield from format_template(x, receiver, args, keywords))
    separator = as_python(x, receiver)
    check_count(x, getattr(separator, name), args, keywords, 1, 1)
    return (yield from _join(x, receiver, separator, args[0]))


def _join(x: Any, receiver: Constant, separator: Any, iterable: Value) -> Steps:
    kind = x.type_of(iterable)
    if not (defines(kind, "__iter__") or defines(kind, "__getitem__")):
        refuse(x, "join", separator.join, [iterable])
    items = yield from x.to_items(iterable)
    if all(is_known(item) for item in items):
        parts = [as_python(x, item) for item in items]
        return x.fold(lambda text: text.join(parts), receiver)
    refuse(x, "join", lambda *_: separator.join([stand_in(x, item) for item in items]), items)
