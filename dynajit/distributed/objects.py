"""Collectives of Python objects: what is received is a pickled copy.

Contract: as of `distributed.collectives`. Pickles run code when they are read: processes of one
program trust each other.
"""

import functools
import pickle
from typing import Any, Final

import numpy as np

from dynajit.capture.control import disable
from dynajit.core.errors import ArgumentError, DistBackendError, InvalidValueError
from dynajit.distributed import agreement
from dynajit.distributed.channels.channel import Array
from dynajit.distributed.groups import ProcessGroup, group_of, is_at_root, other_place, place_in
from dynajit.distributed.work import finished

_SIZES = np.int64

_between_graphs: Final = functools.partial(
    disable, reason="objects travel as pickles, which graphs know nothing of"
)

#: The tag of messages of objects, which programs do not use.
_OBJECTS: Final = 32_001


@_between_graphs
def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put every process's object into the place of a list that its rank says.

    Raises:
        InvalidValueError: there is no group.
        IndexError: the list is shorter than the group.
        DistBackendError: the engine failed, or the others did not come in time.
    """
    found = group_of(group)
    if found is None:
        return
    for rank, item in enumerate(gathered(found, obj)):
        object_list[rank] = item


@_between_graphs
def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Put every process's object into the list of one, by rank.

    Raises: as of `collectives.gather`.
    """
    found = group_of(group)
    if found is None:
        return
    given = 0 if dst is None and group_dst is None else dst
    root = place_in(found, given, group_dst, "gather_object")
    is_at_root(found, root, object_gather_list, "gather_list", "destination")
    items = gathered(found, obj)
    if object_gather_list:
        for rank, item in enumerate(items):
            object_gather_list[rank] = item


@_between_graphs
def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Put one process's objects into the lists of all, which are of one length.

    Raises:
        InvalidValueError: there is no group.
        ArgumentError: `object_list` is no list.
        DistBackendError: there is no such process, or as of `all_gather_object`.
    """
    found = group_of(group)
    if found is None:
        return
    given = 0 if src is None and group_src is None else src
    root = place_in(found, given, group_src, "broadcast_object_list")
    if not isinstance(object_list, list):
        raise ArgumentError(
            f"broadcast_object_list: expected a list of objects, got {type(object_list).__name__}."
        )
    if found.size() > 1:
        is_root = found.rank() == root
        items = sent_by(found, object_list if is_root else None, root)
        if not is_root:
            object_list[:] = items


@_between_graphs
def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Put one of the objects of one process's list into the first place of each process's list.

    Raises:
        InvalidValueError: there is no group, no input for each process, or no place.
        DistBackendError: as of `broadcast_object_list`.
    """
    found = group_of(group)
    if found is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise InvalidValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    given = 0 if src is None and group_src is None else src
    root = place_in(found, given, group_src, "scatter_object_list")
    is_root = found.rank() == root
    items = scatter_object_input_list
    if is_root and (not items or len(items) != found.size()):
        raise InvalidValueError(
            "source rank must provide non-None scatter_object_input_list of the world's size, "
            f"{found.size()}"
        )
    sent = sent_by(found, items if is_root else None, root)
    scatter_object_output_list[0] = sent[found.rank()]


@_between_graphs
def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to one process, which receives them by `recv_object_list`.

    Args:
        device, use_batch: accepted.

    Raises:
        InvalidValueError: there is no group, or it is sent to this process.
        DistBackendError: nobody received it in time, or there is no such process.
    """
    found = group_of(group)
    if found is None:
        return
    found.refuse_after_failure("send_object_list")
    peer = other_place(found, dst, group_dst, "send_object_list", "destination")
    content = np.frombuffer(pickle.dumps(object_list), np.uint8)
    size = np.array([content.size], _SIZES)
    _wait(found, found.channel.send(size, peer, _OBJECTS))
    _wait(found, found.channel.send(content, peer, _OBJECTS))


@_between_graphs
def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Put what a process, any for None, sends into the list, and give its rank; -1 outside of the
    group.

    Args:
        object_list: as long as what is sent.
        device, use_batch: accepted.

    Raises:
        InvalidValueError: there is no group, it is received from this process, or the list is of
            another length.
        DistBackendError: nothing came in time, or there is no such process.
    """
    found = group_of(group)
    if found is None:
        return -1
    found.refuse_after_failure("recv_object_list")
    is_any = src is None and group_src is None
    peer = None if is_any else other_place(found, src, group_src, "recv_object_list", "source")
    size = np.zeros(1, _SIZES)
    request = found.channel.receive(size, peer, _OBJECTS)
    _wait(found, request)
    content = np.empty(int(size[0]), np.uint8)
    _wait(found, found.channel.receive(content, request.source, _OBJECTS))
    items = pickle.loads(content.tobytes())
    if len(items) != len(object_list):
        raise InvalidValueError(
            f"recv_object_list: {len(items)} objects for a list of {len(object_list)}.  Expected "
            "a list of as many places."
        )
    object_list[:] = items
    return found.ranks[request.source]


def gathered(group: ProcessGroup, item: Any) -> list[Any]:
    """The objects of all processes."""
    if group.size() == 1:
        return [pickle.loads(pickle.dumps(item))]
    agreement.check(group, "all_gather_object", [])
    content = np.frombuffer(pickle.dumps(item), np.uint8)
    sizes = np.empty(group.size(), _SIZES)
    _wait(group, group.channel.all_gather(sizes, np.array([content.size], _SIZES)))
    # Messages of one size: all_gather knows no others.
    padded = np.zeros(int(sizes.max()), np.uint8)
    padded[: content.size] = content
    rows = np.empty((group.size(), padded.size), np.uint8)
    _wait(group, group.channel.all_gather(rows, padded))
    return [
        pickle.loads(row[:size].tobytes()) for row, size in zip(rows, sizes.tolist(), strict=True)
    ]


def sent_by(group: ProcessGroup, item: Any, root: int) -> Any:
    """A copy of the root's object."""
    if group.size() == 1:
        return pickle.loads(pickle.dumps(item))
    agreement.check(group, "broadcast_object_list", [], root)
    is_root = group.rank() == root
    content: Array = np.frombuffer(pickle.dumps(item), np.uint8) if is_root else None
    size = np.array([content.size if is_root else 0], _SIZES)
    _wait(group, group.channel.broadcast(size, root))
    if not is_root:
        content = np.empty(int(size[0]), np.uint8)
    _wait(group, group.channel.broadcast(content, root))
    return pickle.loads(content.tobytes())


def _wait(group: ProcessGroup, request: Any) -> None:
    try:
        finished(request, None, group.limit, "a message of objects")
    except DistBackendError as error:
        group.fail(error)
        raise
