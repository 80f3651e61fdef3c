"""What tests ask of loops in graphs."""

import re
from collections.abc import Callable
from typing import Any

import dynajit as dj

_LOOP = re.compile(r"rows\['loop(_\d+)?'\]")


def loops_of(function: Callable[..., Any], *args: Any) -> int:
    """How many loops the graphs of one call have, those in bodies of others included."""
    found = dj.explain(function)(*args)
    return sum(len(_LOOP.findall(str(graph))) for graph in found.graphs)
