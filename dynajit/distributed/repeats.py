"""Collectives that are called again with the very same tensors, as training does in every step.

Contract: `note` keeps what calls have found out, and `repeated` makes further ones by that. It
holds while the tensors show the same memory, and as long as the group knows that all processes make
the call; other processes may make theirs in either way. What has a `Work`, is captured, or does not
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
        arrays: what its tensors show, the first of which is written; held by the tensors alone.
        again: makes it, see `channels.channel.Again`.
        owners: the tensors, which forget the call when they go.
    """

    arrays: tuple[weakref.ref[Array], ...]
    again: Again
    owners: tuple[weakref.ref[Tensor], ...]


def note(
    group: ProcessGroup,
    name: str,
    op: Any,
    tensors: tuple[Tensor, ...],
    make: Callable[..., Again | None],
    *given: Any,
) -> None:
    """Keep how a call is made again, once it was made twice: most tensors are new in every call.

    Args:
        op: the reduction that the program asked for.
        tensors: as the call names them; the first is written.
        make, given: call and arguments that give what makes it with the memory that the tensors
            show, if anything does.
    """
    key = name, id(op), *map(id, tensors)  # members of enumerations are hashed by Python code
    before = group.seen.get(key)
    if before is None or before() is not tensors[0]:
        if len(group.seen) >= _MOST_KNOWN:
            group.seen.clear()
        group.seen[key] = weakref.ref(tensors[0])
        return
    again = make(*given)
    if again is None:
        return
    if len(group.repeats) >= _MOST_KNOWN:
        group.repeats.clear()
    forget = partial(_forget, group.repeats, key)
    owners = tuple(weakref.ref(tensor, forget) for tensor in tensors)
    arrays = tuple(weakref.ref(tensor._held) for tensor in tensors)
    group.repeats[key] = Repeat(arrays, again, owners)


def repeated(name: str, op: Any, group: Any, *tensors: Tensor) -> bool:
    """Whether the call was made before with these tensors; then it has been made again.

    Raises:
        DistBackendError: the engine failed, or the others did not come in time.
    """
    found: Any = STATE.default if group is None else group
    repeats = getattr(found, "repeats", None)  # None: no group, or this process is not in it
    repeat = repeats.get((name, id(op), *map(id, tensors))) if repeats else None
    if repeat is None:
        return False
    held = [tensor._held for tensor in tensors]
    for array, shown in zip(held, repeat.arrays, strict=True):
        if shown() is not array:
            return False
    if found.failure is not None or BEGUN.handed_over or LEVEL.is_detailed:
        return False
    try:
        request = repeat.again(*held)
        if request is not None:
            finished(request, None, found.limit, name)
    except DistBackendError as error:
        found.fail(error)
        raise
    bump_version(tensors[0])
    return True


def _forget(
    repeats: dict[tuple[object, ...], Repeat], key: tuple[object, ...], gone: object
) -> None:
    repeats.pop(key, None)
