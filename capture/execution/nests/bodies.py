"""What a loop nest asks of bytecode: where jumps lead, what only raises, what a `for` gives.

Contract: answers follow from the instructions alone.
"""

from typing import Final

from dynajit.capture.bytecode.instructions import Body


def targets(body: Body) -> frozenset[int]:
    """Where jumps lead."""
    found = _TARGETS.get(body)
    if found is None:
        found = frozenset(
            successor
            for index in range(len(body))
            for successor in body.successors(index)
            if successor != index + 1
        )
        if len(_TARGETS) > _MOST_BODIES:
            _TARGETS.clear()
        _TARGETS[body] = found
    return found


_MOST_BODIES: Final = 100
_TARGETS: Final[dict[Body, frozenset[int]]] = {}

_QUIET: Final = frozenset(
    ("LOAD_CONST", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_COMMON_CONSTANT", "PUSH_NULL", "CALL",
     "LOAD_ATTR", "LOAD_METHOD", "BINARY_OP", "BUILD_STRING", "FORMAT_VALUE", "CONVERT_VALUE",
     "BUILD_TUPLE", "BINARY_SUBSCR")
)  # fmt: skip


def raises(body: Body, index: int) -> bool:
    """Whether instructions do nothing but raise an exception, from one on."""
    first = body[index]
    is_start = first.operation in ("LOAD_GLOBAL", "LOAD_COMMON_CONSTANT", "PUSH_NULL")
    while is_start and index < len(body) and body[index].operation in _QUIET:
        index += 1
    return is_start and index < len(body) and body[index].operation == "RAISE_VARARGS"


def is_of_item(body: Body, index: int) -> bool:
    """Whether a store is of what a `for` gives, or of a part of it."""
    while body[index].operation in ("STORE_FAST", "UNPACK_SEQUENCE"):
        index -= 1
    return body[index].operation == "FOR_ITER"


__all__ = ["is_of_item", "raises", "targets"]
