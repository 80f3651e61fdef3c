"""Collectives that are called again with the very same tensors, as training does in every step.

Contract: `note` keeps what calls have found out, the last one that wrote a tensor, and `repeated`
makes further ones by that. It holds while the tensors show the same memory, and until the group
fails; other processes may make theirs in either way. What has a `Work`, is captured, or does not
lie where the engine reads and writes it is never repeated.
"""

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from dynajit.core.errors import DistBackendError
from dynajit.core.process.begun import BEGUN
from dynajit.core.process.process_groups import STATE
from dynajit.core.records import record
from dynajit.distributed.agreement import LEVEL
from dynajit.distributed.channels.channel import Again, Array
from dynajit.distributed.groups import ProcessGroup
from dynajit.distributed.work import finished
from dynajit.eager._tensor import bump_version
from dynajit.eager.tensor.tensor import Tensor

#: Of so many calls a group knows how they are repeated; then it forgets all of them.
_MOST_KNOWN = 256


@record
class Repeat:
    """How a collective is started again.

    Args:
        name, op: what the program called, and the reduction that it asked for.
        written: what the tensor that it writes shows; held by the tensor alone.
        read: the same of the one that it reads; gives None where that is what it writes.
        again: makes it, see `channels.channel.Again`.
        owners: the tensors, which forget the call when they go.
    """

    name: str
    op: Any
    written: weakref.ref[Array]
    read: Callable[[], Array | None]
    again: Again
    owners: tuple[weakref.ref[Tensor], ...]


def note(
    group: ProcessGroup,
    name: str,
    op: Any,
    written: Tensor,
    read: Tensor | None,
    make: Callable[..., Again | None],
    *given: Any,
) -> None:
    """Keep how a call is made again, once it was made twice: most tensors are new in every call.

    Args:
        op: the reduction that the program asked for.
        read: None where the call reads what it writes.
        make, given: call and arguments that give what makes it with the memory that the tensors
            show, if anything does.
    """
    # Members of enumerations are hashed by Python code, so their places stand for them.
    key = name, id(op), id(written), id(read)
    before = group.seen.get(key)
    if before is None or before() is not written:
        if len(group.seen) >= _MOST_KNOWN:
            group.seen.clear()
        group.seen[key] = weakref.ref(written)
        return
    again = make(*given)
    if again is None:
        return
    if len(group.repeats) >= _MOST_KNOWN:
        group.repeats.clear()
    forget = partial(_forget, group.repeats, id(written))
    tensors = (written,) if read is None else (written, read)
    owners = tuple(weakref.ref(tensor, forget) for tensor in tensors)
    output = weakref.ref(written._held)
    source = _nothing if read is None else weakref.ref(read._held)
    group.repeats[id(written)] = Repeat(name, op, output, source, again, owners)


def repeated(name: str, op: Any, group: Any, written: Tensor, read: Tensor | None = None) -> bool:
    """Whether the call was made before with these tensors; then it has been made again.

    Small arrays take no longer than Python takes: what runs here is written out and kept short.

    Args:
        op, written, read: as of `note`.
        group: the default one if None.

    Raises:
        DistBackendError: the engine failed, or the others did not come in time.
    """
    found: Any = STATE.default if group is None else group
    repeats = getattr(found, "repeats", None)  # None: no group, or this process is not in it
    repeat = repeats.get(id(written)) if repeats else None
    if repeat is None or repeat.op is not op or repeat.name != name:
        return False
    output = written._held
    source = None if read is None else read._held
    if repeat.written() is not output or repeat.read() is not source:
        return False
    if LEVEL.is_detailed or BEGUN.handed_over:
        return False
    try:
        request = repeat.again(output, source)
        if request is not None:
            finished(request, None, found.limit, name)
    except DistBackendError as error:
        found.fail(error)
        raise
    bump_version(written)
    return True


def _nothing() -> None:
    pass


def _forget(repeats: dict[int, Repeat], written: int, gone: object) -> None:
    repeats.pop(written, None)
