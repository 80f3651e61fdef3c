"""Calls of custom operators in graphs.

Contract: `call` is called with values of a graph. Called by `library.operators`.
"""

from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import OperatorError


def call(overload: Any, values: Sequence[Any]) -> Any:
    """The results of a call within a graph.

    Raises:
        RuntimeError: it cannot be part of one.
    """
    raise OperatorError(f"{overload}: it is called outside of graphs")
