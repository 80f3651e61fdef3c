"""Messages from one process to another.

Contract: as of `distributed.collectives`; a message is received by the process that it was sent to,
in the order of sending, by a call with its tag.
"""

import functools
from collections.abc import Sequence
from typing import Any

from dynajit.capture.control import disable, is_compiling
from dynajit.core.errors import InvalidValueError
from dynajit.distributed import transfers
from dynajit.distributed.captured import nodes
from dynajit.distributed.collectives import check_tensor
from dynajit.distributed.groups import ProcessGroup, group_of, other_place
from dynajit.distributed.work import Work
from dynajit.eager.tensor.tensor import Tensor


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Send a tensor; the program goes on, and leaves the tensor alone until the `Work` has ended.

    Raises:
        InvalidValueError: there is no group, or no such process, or it is this one.
    """
    check_tensor(tensor, "tensor")
    found = group_of(group)
    if found is None:
        return None
    peer = other_place(found, dst, group_dst, "send", "destination")
    if is_compiling():
        return nodes.send(found, tensor, peer, tag)
    return transfers.send(found, tensor, peer, tag)


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Receive a tensor, of the shape and dtype that is sent, from a process, or any for None.

    Raises: as of `isend`.
    """
    check_tensor(tensor, "tensor")
    found = group_of(group)
    if found is None:
        return None
    if src is None and group_src is None:
        return _received_from_any(found, tensor, tag)
    peer = other_place(found, src, group_src, "recv", "source")
    if is_compiling():
        return nodes.receive(found, tensor, peer, tag)
    return transfers.receive(found, tensor, peer, tag)


@functools.partial(disable, reason="which process sends is known when its message is there")
def _received_from_any(group: ProcessGroup, tensor: Tensor, tag: int) -> Work | None:
    """A message of whoever sends first: no graph knows whose."""
    return transfers.receive(group, tensor, None, tag)


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor, and wait until it may be written again.

    Raises: as of `isend`, and DistBackendError where nobody received it in time.
    """
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive a tensor, and give the rank that sent it; -1 outside of the group.

    Raises: as of `send`.
    """
    work = irecv(tensor, src, group, tag, group_src)
    found = group_of(group)
    if work is None or found is None:
        return -1
    work.wait()
    return found.ranks[work.source_rank()]


class P2POp:
    """One message of `batch_isend_irecv`.

    Args:
        op: `isend` or `irecv`.
        tensor: what is sent or written.
        peer: the other process, as all count.
        group, tag: as of `isend`.
        group_peer: the other process, as the group counts.

    Raises:
        InvalidValueError: `op` is another function, or no process is named.
    """

    def __init__(
        self,
        op: Any,
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise InvalidValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        check_tensor(tensor, "tensor")
        self.op = op
        self.tensor = tensor
        self.peer = peer
        self.group = group
        self.tag = tag
        self.group_peer = group_peer


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Start several messages, in any order of sending and receiving.

    Raises:
        InvalidValueError: there are none, or something else is among them.
    """
    if not p2p_op_list or not all(isinstance(entry, P2POp) for entry in p2p_op_list):
        raise InvalidValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type "
            "``torch.distributed.P2POp``."
        )
    works = [
        entry.op(entry.tensor, entry.peer, entry.group, entry.tag, entry.group_peer)
        for entry in p2p_op_list
    ]
    return [work for work in works if work is not None]
