"""What is removed from dicts and sets, which iterators over them may notice."""

from typing import Any

from dynajit.capture.machine.machine import Machine
from dynajit.capture.values.containers import EVERY_KEY


def removals(machine: Machine, table: Any) -> tuple[int, int]:
    """Where removals from a dict or set are listed, and how many there were so far."""
    slot = machine.removals.get(table.identity)
    if slot is None or not machine.heap.has(slot):
        slot = machine.removals[table.identity] = machine.heap.allocate(())
    return slot, len(machine.heap[slot])


def removed(machine: Machine, table: Any, token: Any = EVERY_KEY) -> None:
    """Something is removed from a dict or set, which an iterator over it may notice.

    Args:
        token: the key; for a set it does not matter which.
    """
    slot, _ = removals(machine, table)
    machine.heap.write(slot, (*machine.heap[slot], token))
