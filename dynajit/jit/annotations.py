"""Names of types that TorchScript programs import from here: those of `typing`, and its own."""

from typing import (  # noqa: UP035
    Any,
    Dict,
    Final,
    List,
    NamedTuple,
    Optional,
    Tuple,
    Type,
    Union,
)


class BroadcastingList:
    """`BroadcastingList2[int]`: an int, or a list of two: a type to annotate by."""

    def __class_getitem__(cls, types: Any) -> None:
        return None


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingList
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = BroadcastingList

__all__ = [
    "Any",
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "BroadcastingList4",
    "BroadcastingList5",
    "BroadcastingList6",
    "Dict",
    "Final",
    "List",
    "NamedTuple",
    "Optional",
    "Tuple",
    "Type",
    "Union",
]
