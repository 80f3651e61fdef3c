"""Groups of processes: there is one process, and once a program says so it is a group.

Contract: `STATE` is the one mutable place; its groups hold process 0 alone. What asks for more
processes is refused. `dynajit.distributed` publishes the functions; `nn.parallel` and `utils.data`
ask the same questions.
"""

import datetime
import os
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from dynajit.core.errors import ExpectationError, InvalidValueError, UnsupportedError

MSG_NO_GROUP: Final = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)
MSG_ONE_PROCESS: Final = (
    "{call}: dynajit runs in one process.  Expected world_size 1 and rank 0; start one process, or "
    "leave the group away."
)
default_pg_timeout: Final = datetime.timedelta(minutes=30)
"""Accepted where a timeout is; nothing waits."""

BACKENDS: Final = ("gloo", "nccl", "mpi", "ucc", "xccl", "fake", "undefined")
"""Names of backends that are accepted: one process needs none of them."""


class ProcessGroup:
    """A group of one process, as made by `init_process_group` or `new_group`.

    Args:
        backend: as the program called it.
        name, description: to tell groups apart.
    """

    __slots__ = ("_backend", "group_desc", "group_name")

    def __init__(self, backend: str, name: str, description: str) -> None:
        self._backend = backend
        self.group_name = name
        self.group_desc = description

    def rank(self) -> int:
        """The place of this process: 0."""
        return 0

    def size(self) -> int:
        """The number of processes: 1."""
        return 1

    def name(self) -> str:
        """Of the backend."""
        return self._backend

    def __repr__(self) -> str:
        return f"ProcessGroup(name={self.group_name!r}, backend={self._backend!r}, size=1)"


class NonMember:
    """What stands for a group that this process does not belong to."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NON_GROUP_MEMBER"


NON_GROUP_MEMBER: Final = NonMember()


class State:
    """The groups of this process; mutable.

    Attributes:
        default: the group of all processes, or None.
        groups: all groups that were made and not destroyed, the default one first.
        count: of groups made since the default one, which names the next one.
    """

    __slots__ = ("count", "default", "groups")

    def __init__(self) -> None:
        self.default: ProcessGroup | None = None
        self.groups: tuple[ProcessGroup, ...] = ()
        self.count = 0


STATE: Final = State()


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return STATE.default is not None


def default_group() -> ProcessGroup:
    """The group of all processes.

    Raises:
        InvalidValueError: there is none yet; a ValueError, as in PyTorch.
    """
    if STATE.default is None:
        raise InvalidValueError(MSG_NO_GROUP)
    return STATE.default


def member_of(group: ProcessGroup | NonMember | None) -> ProcessGroup | NonMember:
    """The group that is meant: the default one for None.

    Raises:
        InvalidValueError: there is no group, or this one was destroyed.
    """
    default = default_group()
    if group is None:
        return default
    if group is NON_GROUP_MEMBER:
        return NON_GROUP_MEMBER
    if not isinstance(group, ProcessGroup) or group not in STATE.groups:
        raise InvalidValueError(
            f"Group {group!r} is not registered, please create group with new_group API"
        )
    return group


def get_rank(group: Any = None) -> int:
    """The place of this process in a group: 0, or -1 outside of it.

    Raises:
        InvalidValueError: there is no such group.
    """
    return -1 if member_of(group) is NON_GROUP_MEMBER else 0


def get_world_size(group: Any = None) -> int:
    """The number of processes in a group: 1, or -1 outside of it.

    Raises:
        InvalidValueError: there is no such group.
    """
    return -1 if member_of(group) is NON_GROUP_MEMBER else 1


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Make the group of all processes, of which there is one.

    Args:
        backend: any name that PyTorch knows; nothing is sent.
        init_method: "env://" (the default) reads RANK and WORLD_SIZE where they are not given;
            other URLs may say "?rank=0&world_size=1".
        timeout, store, group_name, pg_options, device_id: accepted.
        world_size, rank: 1 and 0.

    Raises:
        InvalidValueError: there is a group already, or nothing says how many processes there are.
        ExpectationError: PyTorch knows no such backend.
        UnsupportedError: there are to be more processes than this one.
    """
    if STATE.default is not None:
        raise InvalidValueError("trying to initialize the default process group twice!")
    name = _backend_name(backend)
    size, place = _announced(init_method, store, world_size, rank)
    if (size, place) != (1, 0):
        call = f"init_process_group(world_size={size}, rank={place})"
        raise UnsupportedError(MSG_ONE_PROCESS.format(call=call))
    group = ProcessGroup(name, group_name or "0", "default_pg")
    STATE.default, STATE.groups, STATE.count = group, (group,), 1


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


def _announced(init_method: str | None, store: Any, size: int, place: int) -> tuple[int, int]:
    """World size and rank, from the arguments, a URL or the environment."""
    if store is not None:
        if init_method is not None:
            raise ExpectationError("Cannot specify both init_method and store.")
        if size < 0 or place < 0:
            raise ExpectationError("world_size and rank must be given with a store.")
        return size, place
    url = init_method or "env://"
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    ask = _from_environment if parts.scheme == "env" else _missing
    place = _number(place, query, "rank", ask, parts.scheme)
    return _number(size, query, "world_size", ask, parts.scheme), place


def _number(
    given: int, query: dict[str, str], name: str, ask: Callable[[str, str], str], scheme: str
) -> int:
    if given >= 0:
        return given
    return int(query[name] if name in query else ask(name, scheme))


def _from_environment(name: str, scheme: str) -> str:
    found = os.environ.get(name.upper())
    if found is None:
        raise InvalidValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable "
            f"{name.upper()} expected, but not set"
        )
    return found


def _missing(name: str, scheme: str) -> str:
    raise InvalidValueError(
        f"Error initializing torch.distributed using {scheme}:// rendezvous: {name} parameter "
        "missing"
    )


def destroy_process_group(group: Any = None) -> None:
    """Forget a group; the default one, and all others with it, for None.

    Raises:
        ExpectationError: there is none.
        InvalidValueError: it is not known.
    """
    if STATE.default is None:
        raise ExpectationError("Process group cannot be None")
    if group is NON_GROUP_MEMBER:
        return
    found = member_of(group)
    if found is STATE.default:
        STATE.default, STATE.groups = None, ()
        return
    STATE.groups = tuple(other for other in STATE.groups if other is not found)


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> ProcessGroup:
    """One more group.

    Args:
        ranks: [0], or None for all processes.
        others: as of `init_process_group`.

    Raises:
        InvalidValueError: there is no default group, or `ranks` names other processes, or none.
    """
    default = default_group()
    if ranks is not None:
        _check_ranks(list(ranks))
    name = default.name() if backend is None else _backend_name(backend)
    group = ProcessGroup(name, str(STATE.count), group_desc or "undefined")
    STATE.groups, STATE.count = (*STATE.groups, group), STATE.count + 1
    return group


def _check_ranks(ranks: list[int]) -> None:
    if not ranks:
        raise InvalidValueError("new_group(ranks=[]): a group needs a process.  Expected [0].")
    if len(ranks) > 1:
        raise InvalidValueError(
            "the new group's world size should be less or equal to the world size set by "
            "init_process_group"
        )
    if ranks[0] != 0:
        raise InvalidValueError(
            f"Rank {ranks[0]} is out of range. Valid ranks are 0 to 0 (world_size=1)"
        )
