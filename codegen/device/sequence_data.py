"""Sequences of programs as data that can lie on disk.

Contract: `to_data` and `from_data` turn a `SequenceBlueprint` into what JSON can hold and back; the
blueprints of its parts are turned by the functions that they are given.
"""

from collections.abc import Callable, Mapping
from typing import Any

from dynajit.codegen.device.sequence import SequenceBlueprint, Transfer
from dynajit.codegen.run import order
from dynajit.codegen.run.blueprints import literal
from dynajit.core.types.device import Device


def to_data(
    blueprint: SequenceBlueprint, part_to_data: Callable[[Any], dict[str, Any]]
) -> dict[str, Any]:
    """Dicts, lists, strings and numbers that JSON writes and reads unchanged.

    Raises:
        Unstorable: a part cannot be kept, or a result is an object of its own.
    """
    return {
        "name": blueprint.name,
        **order.to_data(blueprint.order, literal),
        "parts": [
            {"to": (part.device.type, part.device.index), "non_blocking": part.non_blocking}
            if isinstance(part, Transfer)
            else part_to_data(part)
            for part in blueprint.parts
        ],
    }


def from_data(
    data: Mapping[str, Any], part_from_data: Callable[[dict[str, Any]], Any]
) -> SequenceBlueprint | None:
    """The blueprint that `to_data` was given; None if a part cannot be built here.

    Raises:
        KeyError, IndexError, TypeError, ValueError: the data is something else.
    """
    parts = tuple(
        Transfer(Device(*part["to"]), part["non_blocking"]) if "to" in part
        else part_from_data(part)
        for part in data["parts"]
    )  # fmt: skip
    if None in parts:
        return None
    return SequenceBlueprint(data["name"], order.from_data(data), parts)
