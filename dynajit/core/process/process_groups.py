"""Groups of processes: which there are, and who asks is in which.

Contract: `STATE` is the one mutable place. `dynajit.distributed` makes and ends groups; `nn` and
`utils.data` ask the same questions below it.
"""

from collections.abc import Callable
from typing import Any, Final

from dynajit.core.errors import InvalidValueError

MSG_NO_GROUP: Final = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)


class ProcessGroup:
    """Some of the processes that run a program together.

    Args:
        ranks: their places among all processes, in the order of the group.
        place: of this process in the group.
        backend: as the program called it.
        name, description: to tell groups apart.
    """

    __slots__ = ("_backend", "_place", "group_desc", "group_name", "ranks")

    def __init__(
        self, ranks: tuple[int, ...], place: int, backend: str, name: str, description: str
    ) -> None:
        self.ranks = ranks
        self._place = place
        self._backend = backend
        self.group_name = name
        self.group_desc = description

    def rank(self) -> int:
        """The place of this process."""
        return self._place

    def size(self) -> int:
        """The number of processes."""
        return len(self.ranks)

    def name(self) -> str:
        """Of the backend."""
        return self._backend

    def __repr__(self) -> str:
        return (
            f"ProcessGroup(name={self.group_name!r}, backend={self._backend!r}, "
            f"rank={self.rank()}, size={self.size()})"
        )


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
        rows: `rows(tensor, group)` -> a row for each process with its tensor, one dim, through
            which gradients pass; None until the package of groups was imported.
    """

    __slots__ = ("count", "default", "groups", "rows")

    def __init__(self) -> None:
        self.default: ProcessGroup | None = None
        self.groups: tuple[ProcessGroup, ...] = ()
        self.count = 0
        self.rows: Callable[[Any, ProcessGroup], Any] | None = None


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
    """The place of this process in a group, or -1 outside of it.

    Raises:
        InvalidValueError: there is no such group.
    """
    found = member_of(group)
    return -1 if isinstance(found, NonMember) else found.rank()


def get_world_size(group: Any = None) -> int:
    """The number of processes in a group, or -1 outside of it.

    Raises:
        InvalidValueError: there is no such group.
    """
    found = member_of(group)
    return -1 if isinstance(found, NonMember) else found.size()
