"""Collectives of Python objects in a group of one process: what is received is a pickled copy.

Contract: as of `distributed.collectives`.
"""

import pickle
from typing import Any

from dynajit.core.errors import ArgumentError, InvalidValueError
from dynajit.core.process.process_groups import NON_GROUP_MEMBER, member_of
from dynajit.distributed.collectives import check_root


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put a copy of an object into the first place of a list.

    Raises:
        InvalidValueError: there is no group.
        IndexError: the list is empty.
    """
    if member_of(group) is not NON_GROUP_MEMBER:
        object_list[0] = _copied(obj)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Put a copy of an object into the first place of a list.

    Raises:
        InvalidValueError: there is no group, or no list.
        ShapeError: another process than 0 is named.
    """
    if member_of(group) is NON_GROUP_MEMBER:
        return
    check_root("gather_object", 0 if dst is None and group_dst is None else dst, group_dst)
    if not object_gather_list:
        raise InvalidValueError("Argument ``gather_list`` must be specified on destination rank.")
    object_gather_list[0] = _copied(obj)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Send one process's objects to all: the list stays as it is.

    Raises:
        InvalidValueError: there is no group.
        ArgumentError: `object_list` is no list.
        ShapeError: another process than 0 is named.
    """
    if member_of(group) is NON_GROUP_MEMBER:
        return
    check_root("broadcast_object_list", 0 if src is None and group_src is None else src, group_src)
    if not isinstance(object_list, list):
        raise ArgumentError(
            f"broadcast_object_list: expected a list of objects, got {type(object_list).__name__}."
        )


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Put a copy of the one input into the first place of the output list.

    Raises:
        InvalidValueError: there is no group, no input, or no place.
        ShapeError: another process than 0 is named.
    """
    if member_of(group) is NON_GROUP_MEMBER:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise InvalidValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    check_root("scatter_object_list", 0 if src is None and group_src is None else src, group_src)
    if not scatter_object_input_list or len(scatter_object_input_list) != 1:
        raise InvalidValueError(
            "source rank must provide non-None scatter_object_input_list of the world's size, 1"
        )
    scatter_object_output_list[0] = _copied(scatter_object_input_list[0])


def _copied(item: Any) -> Any:
    return pickle.loads(pickle.dumps(item))
