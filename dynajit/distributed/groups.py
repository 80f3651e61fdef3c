"""Groups of processes are made and ended here: who belongs to them, and what carries their arrays.

Contract: `core.process.process_groups.STATE` holds the groups; each has a channel of its own, so
that what one group sends never meets what another does. The backends "mpi", "gloo" and "nccl" are
names of engines in `channels`; "gloo" is served by MPI. One process needs none of them.
"""

import atexit
import datetime
import functools
import os
import sys
import time
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

from dynajit.core.errors import (
    DistBackendError,
    ExpectationError,
    InvalidValueError,
    UnsupportedError,
)
from dynajit.core.process import process_groups
from dynajit.core.process.process_groups import NON_GROUP_MEMBER, STATE, NonMember
from dynajit.distributed.channels import mpi, nccl
from dynajit.distributed.channels.channel import Channel
from dynajit.distributed.channels.nccl import NcclChannel
from dynajit.distributed.channels.one_process import OneProcess
from dynajit.distributed.rendezvous import announced, has_address, rendezvous
from dynajit.distributed.stores.store import Store
from dynajit.distributed.work import PROGRESS

default_pg_timeout: Final = datetime.timedelta(minutes=30)
"""How long a process waits for the others where nothing else is said. Source: PyTorch."""

#: Seconds until a process that fails ends the others, which may be about to say why they fail.
_GRACE_S: Final = 0.5

BACKENDS: Final = ("gloo", "nccl", "mpi", "ucc", "xccl", "fake", "undefined")
"""Names of backends that are accepted."""


class ProcessGroup(process_groups.ProcessGroup):
    """Processes that send each other arrays, as made by `init_process_group` or `new_group`.

    Args:
        channel: what carries them.
        ranks, backend, name, description: as of the base class.
        limit: seconds that a process waits for the others.

    Attributes:
        agreed: collectives that all processes were found to call alike.
        failure: what went wrong, after which the group sends nothing any more; None before.
        repeats, seen: how calls are made that were made before, and calls; see `repeats`.
    """

    __slots__ = ("_aside", "_beside", "agreed", "channel", "failure", "limit", "repeats", "seen")

    def __init__(
        self,
        channel: Channel,
        ranks: tuple[int, ...],
        backend: str,
        name: str,
        description: str,
        limit: float,
    ) -> None:
        super().__init__(ranks, channel.rank, backend, name, description)
        self.channel = channel
        self.limit = limit
        self.agreed: set[tuple[Any, ...]] = set()
        self.failure: str | None = None
        self.repeats: dict[int, Any] = {}
        self.seen: dict[tuple[object, ...], weakref.ref[Any]] = {}
        self._aside: Channel | None = None
        self._beside: ProcessGroup | None = None

    def aside(self) -> Channel:
        """A channel of the same processes, on which they tell each other what they are about to
        do; all ask for it at the same time."""
        if self._aside is None:
            self._aside = self.channel.split(range(self.size()))
            assert self._aside is not None
        return self._aside

    def beside(self) -> "ProcessGroup":
        """A group of the same processes for what another thread tells them; all ask for it at the
        same time. No program knows it."""
        if self._beside is None:
            channel = self.channel.split(range(self.size()))
            assert channel is not None
            self._beside = ProcessGroup(
                channel, self.ranks, self.name(), self.group_name, self.group_desc, self.limit
            )
        return self._beside

    def refuse_after_failure(self, name: str) -> None:
        """Refuse a call where one failed before.

        Raises:
            DistBackendError: one did.
        """
        if self.failure is not None:
            raise DistBackendError(
                f"{name}: the group failed before ({self.failure}).  Its processes no longer "
                "follow each other: end the program, and start it again."
            )

    def fail(self, error: Exception) -> None:
        """Send nothing any more: processes wait for each other, or have got different things.

        The engine cannot end in an orderly way then, so the job ends when this process does.
        """
        self.repeats.clear()
        if self.failure is None:
            self.failure = str(error).partition("\n")[0]
            channel, text = self.channel, self.failure
            atexit.register(lambda: channel.fail(f"rank {channel.rank} ends after: {text}"))


def group_of(group: Any) -> ProcessGroup | None:
    """The group that is meant, the default one for None; None where this process is not in it.

    Raises:
        InvalidValueError: there is no group, or this one was destroyed.
    """
    default = STATE.default
    if group is None and isinstance(default, ProcessGroup):
        return default
    found = process_groups.member_of(group)
    return found if isinstance(found, ProcessGroup) else None


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: datetime.timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Make the group of all processes.

    The processes are started together: by `python -m dynajit.distributed.run`, by `mpiexec`, or by
    `multiprocessing.spawn`. Processes that a program starts itself meet at an address or by a store
    where the MPI library is MPICH. One process makes a group of one without any engine.

    Args:
        backend: "mpi", "gloo" (which MPI serves), "nccl", which carries tensors on GPUs, one with
            the other ("cpu:gloo,cuda:nccl"), or None for MPI; other names that PyTorch knows mean
            MPI.
        init_method: "env://" (the default) reads RANK and WORLD_SIZE, or what mpiexec says, where
            they are not given; other URLs may say "?rank=0&world_size=2". Addresses are only used
            by processes that were not started together: MASTER_ADDR and MASTER_PORT,
            "tcp://HOST:PORT", "file:///PATH".
        timeout: how long a process waits for the others; `default_pg_timeout` if None.
        world_size, rank: how many processes there are, and the place of this one.
        store: given in place of `init_method`, with `world_size` and `rank`; it stays the
            program's. Processes that were not started together meet by it.
        group_name: to tell groups apart.
        pg_options, device_id: accepted.

    Raises:
        InvalidValueError: there is a group already, or nothing says how many processes there are.
        ExpectationError: PyTorch knows no such backend.
        UnsupportedError: there are several processes and MPI, or NCCL if asked for, is not
            installed.
        DistBackendError: another number of processes was started.
        DistStoreError, DistNetworkError: processes do not meet in time.
    """
    if STATE.default is not None:
        raise InvalidValueError("trying to initialize the default process group twice!")
    name = _backend_name(backend)
    if store is None:
        size, place = announced(init_method or "env://", world_size, rank)
    else:
        size, place = _of_store(init_method, world_size, rank)
    if not 0 <= place < size:
        raise InvalidValueError(
            f"init_process_group(world_size={size}, rank={place}): expected a rank from 0 to "
            f"{size - 1}."
        )
    limit = timeout or default_pg_timeout
    if size > 1 and mpi.is_alone():
        _meet(store, init_method or "env://", size, place, limit)
    channel: Channel = OneProcess() if size == 1 else mpi.world(size, place)
    if size > 1 and _uses_nccl(name):
        channel = NcclChannel(channel)
    group = ProcessGroup(
        channel,
        tuple(range(size)),
        name,
        group_name or "0",
        "default_pg",
        limit.total_seconds(),
    )
    STATE.default, STATE.groups, STATE.count = group, (group,), 1
    if size > 1:
        _end_together()


def _meet(store: Store | None, url: str, size: int, place: int, limit: datetime.timedelta) -> None:
    """Let processes that a program started itself meet, if something says where.

    Raises:
        UnsupportedError: MPI is missing.
        DistStoreError, DistNetworkError: they do not all come in time.
    """
    if store is None and has_address(url):
        store, _, _ = next(rendezvous(url, place, size, limit))
    if store is not None:
        mpi.meet(store, size, place, limit)


@functools.cache
def _end_together() -> None:
    """End all processes when an exception ends this one: the others would wait for it."""
    before = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        before(kind, error, traceback)
        default = STATE.default
        if isinstance(default, ProcessGroup) and not issubclass(kind, KeyboardInterrupt):
            sys.stderr.flush()
            time.sleep(_GRACE_S)
            default.channel.fail(
                f"rank {default.rank()} ended with {kind.__name__}: all processes end."
            )

    sys.excepthook = hook


def _uses_nccl(name: str) -> bool:
    """Whether a backend carries arrays on GPUs by NCCL: "nccl" alone, or for "cuda".

    Raises:
        UnsupportedError: it does, and NCCL is not here.
    """
    if "nccl" not in [part.removeprefix("cuda:") for part in name.split(",")]:
        return False
    reason = nccl.why_not()
    if reason is not None:
        raise UnsupportedError(
            f"init_process_group({name!r}): NCCL is not here: {reason}  Use the backend 'gloo', "
            "which carries tensors on GPUs over the host."
        )
    return True


def _backend_name(backend: str | None) -> str:
    if backend is None:
        return "undefined"
    name = str(backend).lower()
    for part in name.split(","):
        if part.rpartition(":")[2] not in BACKENDS:
            raise ExpectationError(
                f"Unknown backend type {part.rpartition(':')[2]}.  Expected one of "
                f"{', '.join(BACKENDS[:-1])}."
            )
    return name


def _of_store(init_method: str | None, size: int, place: int) -> tuple[int, int]:
    """World size and rank, which are given with a store."""
    if init_method is not None:
        raise ExpectationError("Cannot specify both init_method and store.")
    if size < 0 or place < 0:
        raise ExpectationError("world_size and rank must be given with a store.")
    return size, place


def destroy_process_group(group: Any = None) -> None:
    """Forget a group; the default one, and all others with it, for None.

    Raises:
        ExpectationError: there is none.
        InvalidValueError: it is not known.
    """
    if STATE.default is None:
        raise ExpectationError("Process group cannot be None")
    found = group_of(group)
    if found is None:
        return
    found.repeats.clear()
    if found is not STATE.default:
        STATE.groups = tuple(other for other in STATE.groups if other is not found)
        return
    STATE.default, STATE.groups = None, ()
    PROGRESS.forget()


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: datetime.timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> ProcessGroup | NonMember:
    """A group of some of the processes; `GroupMember.NON_GROUP_MEMBER` in the others.

    Args:
        ranks: which, as all processes count; None for all.
        timeout, backend: of the default group if None.
        use_local_synchronization: accepted; only members need to call this in any case, but all
            must have made the same number of groups before.
        group_desc: to tell groups apart.
        sort_ranks: the group counts in rising order, else in the order given.
        pg_options, device_id: accepted.

    Raises:
        InvalidValueError: there is no default group, or `ranks` names a process twice, one that
            there is not, or none.
    """
    default = group_of(None)
    if default is None:
        raise InvalidValueError(process_groups.MSG_NO_GROUP)
    members = list(default.ranks if ranks is None else ranks)
    _check_ranks(members, default.size())
    if sort_ranks:
        members.sort()
    name = default.name() if backend is None else _backend_name(backend)
    number, STATE.count = STATE.count, STATE.count + 1
    channel = default.channel.split(members)
    if channel is None:
        return NON_GROUP_MEMBER
    limit = default.limit if timeout is None else timeout.total_seconds()
    group = ProcessGroup(
        channel, tuple(members), name, str(number), group_desc or "undefined", limit
    )
    STATE.groups = (*STATE.groups, group)
    return group


def _check_ranks(ranks: list[int], size: int) -> None:
    if not ranks:
        raise InvalidValueError("new_group(ranks=[]): a group needs a process.")
    if len(ranks) > size:
        raise InvalidValueError(
            "the new group's world size should be less or equal to the world size set by "
            "init_process_group"
        )
    if len(set(ranks)) < len(ranks):
        raise InvalidValueError(f"new_group(ranks={ranks}): expected each process once.")
    for rank in ranks:
        if not 0 <= rank < size:
            raise InvalidValueError(
                f"Rank {rank} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})"
            )


def place_in(group: ProcessGroup, given: int | None, within_group: int | None, name: str) -> int:
    """The place in a group of a process that is named as all count, or as the group does.

    Raises:
        InvalidValueError: none is named, or both are, or it is not in the group.
    """
    if given is None and within_group is None:
        raise InvalidValueError("Must specify global_rank or group_rank")
    if given is not None and within_group is not None:
        raise InvalidValueError("Can't specify both group_rank and global_rank")
    if given is None:
        assert within_group is not None
        if not 0 <= within_group < group.size():
            raise DistBackendError(
                f"{name}: invalid root rank: {within_group}.  Expected 0 to {group.size() - 1}."
            )
        return within_group
    if given not in group.ranks:
        if group.size() == len(STATE.groups[0].ranks):
            raise DistBackendError(
                f"{name}: invalid root rank: {given}.  Expected 0 to {group.size() - 1}."
            )
        raise InvalidValueError(f"Global rank {given} is not part of group {group!r}")
    return group.ranks.index(given)


def is_at_root(group: ProcessGroup, root: int, entries: object, name: str, end: str) -> bool:
    """Whether this process is the one that has a list of an entry for each process.

    Args:
        entries: the list, if there is one here.
        name: of the argument.
        end: what the root is: "source" or "destination".

    Raises:
        InvalidValueError: it has none, or another process has one.
    """
    is_root = group.rank() == root
    if is_root and not entries:
        raise InvalidValueError(f"Argument ``{name}`` must be specified on {end} rank.")
    if entries and not is_root:
        raise InvalidValueError(f"Argument ``{name}`` must NOT be specified on non-{end} ranks.")
    return is_root


def other_place(
    group: ProcessGroup, given: int | None, within_group: int | None, name: str, what: str
) -> int:
    """The place of another process, as `place_in`.

    Raises:
        InvalidValueError: as of `place_in`, or it is this process.
    """
    peer = place_in(group, given, within_group, name)
    if peer == group.rank():
        raise InvalidValueError(
            f"Invalid {what} rank: {what} rank should not be the same as the rank of the current "
            "process."
        )
    return peer


def _fail_after_fork() -> None:
    """A child has its parent's groups, but not its engine."""
    for group in STATE.groups:
        if isinstance(group, ProcessGroup) and group.size() > 1:
            group.channel = _Forked(group.channel)
            group._aside = group._beside = None


class _Forked(OneProcess):
    """The channel of a process that was forked after the group was made: it sends nothing."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self.rank, self.size = channel.rank, channel.size

    def __getattribute__(self, name: str) -> Any:
        if name in Channel.__abstractmethods__ and name != "fail":
            raise DistBackendError(
                f"{name}: this process was forked after init_process_group, and its parent holds "
                "the group's engine.  Start processes by the 'spawn' method, or fork before."
            )
        return super().__getattribute__(name)


os.register_at_fork(after_in_child=_fail_after_fork)
