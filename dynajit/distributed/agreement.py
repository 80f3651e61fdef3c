"""Whether the processes of a group call the same collective: what each asks for is compared.

Contract: `check` is called before every collective. What is asked for the first time in a group is
compared before anything is sent, so sizes that do not fit are an error and not wrong numbers; later
calls alike cost a look into a set. Processes that call the same collectives meet new ones at the
same calls, so either all compare or none. The debug level DETAIL compares every call, with shapes.
"""

import enum
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from dynajit import capture, codegen, eager
from dynajit.core.errors import DistBackendError, InvalidValueError
from dynajit.distributed.groups import ProcessGroup
from dynajit.distributed.work import finished
from dynajit.eager.tensor.tensor import Tensor

#: Calls that are remembered of a group: a program whose sizes vary meets ever new ones.
_MOST_REMEMBERED: Final = 4096

#: Folders whose functions stand between a program and here.
_OWN: Final = (
    str(Path(__file__).parents[1]),
    *(str(Path(str(package.__file__)).parent) for package in (capture, codegen, eager)),
)


class DebugLevel(enum.Enum):
    """How much is checked while a program runs."""

    OFF = 0
    INFO = 1
    DETAIL = 2


class Level:
    """The debug level of this process. Mutable.

    Attributes:
        is_detailed: every call is compared, not only new ones.
    """

    def __init__(self) -> None:
        self.set(DebugLevel.OFF)

    def set(self, level: DebugLevel) -> None:
        """Set it."""
        self.now = level
        self.is_detailed = level is DebugLevel.DETAIL


LEVEL: Final = Level()


def get_debug_level() -> DebugLevel:
    """The debug level."""
    return LEVEL.now


def set_debug_level(level: DebugLevel) -> None:
    """Set the debug level, in all processes at the same place of the program."""
    LEVEL.set(level)


def set_debug_level_from_env() -> None:
    """Set the debug level that TORCH_DISTRIBUTED_DEBUG names: OFF, INFO or DETAIL.

    Raises:
        InvalidValueError: it names another one.
    """
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if name not in DebugLevel.__members__:
        raise InvalidValueError(
            f"The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL, got {name!r}."
        )
    LEVEL.set(DebugLevel[name])


def check(group: ProcessGroup, name: str, tensors: Sequence[Tensor], *facts: Any) -> None:
    """Refuse a collective that another process of the group does not call.

    Args:
        name: of the function.
        tensors: in one message, whose size and dtype are those of all processes.
        facts: what else is the same: a reduction, the place of a root, text.

    Raises:
        DistBackendError: the processes call different ones, or not all come in time, or the group
            failed before.
    """
    if group.failure is not None:
        group.refuse_after_failure(name)
    key: tuple[Any, ...] = (name, facts)
    if len(tensors) == 1:
        key = (name, facts, math.prod(tensors[0].shape), tensors[0].dtype)
    elif tensors:
        key = (name, facts, sum(tensor.numel() for tensor in tensors), tensors[0].dtype)
    if key in group.agreed and not LEVEL.is_detailed:
        return
    if len(group.agreed) >= _MOST_REMEMBERED:
        group.agreed.clear()
        group.repeats.clear()
    _compare(group, _asked(name, tensors, facts))
    group.agreed.add(key)


def _asked(name: str, tensors: Sequence[Tensor], facts: tuple[Any, ...]) -> str:
    parts = [
        f"root={fact}" if isinstance(fact, int) else str(getattr(fact, "name", fact))
        for fact in facts
    ]
    if tensors:
        count = sum(tensor.numel() for tensor in tensors)
        size: Any = f"[{count} elements]"
        if LEVEL.is_detailed:
            size = list(tensors[0].shape) if len(tensors) == 1 else [count]
        parts.insert(0, f"{tensors[0].dtype.name}{size}")
    return f"{name}({', '.join(parts)})"


def _compare(group: ProcessGroup, asked: str) -> None:
    """Raise in all processes where not all ask for the same."""
    place = call_site()
    texts = _told(group, f"{asked}\n{place}", f"{asked} at {place}")
    if len({text.partition("\n")[0] for text in texts}) == 1:
        return
    lines = [
        f"  rank {rank}: {text.replace(chr(10), ' at ')}"
        for rank, text in zip(group.ranks, texts, strict=True)
    ]
    raise DistBackendError(
        f"{asked}: the processes of the group do not call the same collective.\n"
        + "\n".join(lines)
        + "\nExpected the same function, size, dtype, reduction and root in the same order.  "
        "Nothing was sent."
    )


def _told(group: ProcessGroup, text: str, called: str) -> list[str]:
    """The texts of all processes."""
    channel = group.aside()
    content = np.frombuffer(text.encode(), np.uint8)
    sizes = np.empty(group.size(), np.int64)
    own = np.array([content.size])
    try:
        finished(channel.all_gather(sizes, own), None, group.limit, called)
        padded = np.zeros(int(sizes.max()), np.uint8)
        padded[: content.size] = content
        rows = np.empty((group.size(), padded.size), np.uint8)
        finished(channel.all_gather(rows, padded), None, group.limit, called)
    except DistBackendError as error:
        group.fail(error)
        raise
    return [row[:size].tobytes().decode() for row, size in zip(rows, sizes.tolist(), strict=True)]


def call_site() -> str:
    """The program's line that led here: its file and number."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


set_debug_level_from_env()
