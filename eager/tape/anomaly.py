"""Anomaly detection: which line of the forward made the operation that failed in backward.

Contract: within `detect_anomaly()` every recorded operation keeps the stack of the call that made
it; an error in its backward, or a NaN that it produces, shows that stack. Off, it costs one look-up
per recorded operation.
"""

import traceback
from contextvars import ContextVar, Token
from typing import Any, Final

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import AutogradError
from dynajit.core.types.tensor_layouts import strided

KEY: Final = "traceback"  # where a node's metadata keeps the stack
_check_nan: ContextVar[bool | None] = ContextVar("dynajit_anomaly", default=None)

is_detecting = _check_nan.get  # None: off; else whether NaN is looked for


class set_detect_anomaly:
    """Turn detection on or off: at once, and until the end of the block if used with `with`.

    Args:
        mode: True to detect.
        check_nan: also raise where backward produces NaN.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.token: Token[bool | None] = _check_nan.set(check_nan if mode else None)

    def __enter__(self) -> None:
        """Nothing: detection was switched on creation."""

    def __exit__(self, *error: object) -> None:
        _check_nan.reset(self.token)


class detect_anomaly:
    """Detect anomalies in the block; see the module.

    Args:
        check_nan: also raise where backward produces NaN.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        self.tokens: list[Token[bool | None]] = []

    def __enter__(self) -> None:
        self.tokens.append(_check_nan.set(self.check_nan))

    def __exit__(self, *error: object) -> None:
        _check_nan.reset(self.tokens.pop())


def remember(node: Any) -> None:
    """Keep the stack of the call that makes this node, without eager's own frames."""
    stack = traceback.extract_stack()
    own = __file__.rpartition("/")[0].rpartition("/")[0]
    node.metadata[KEY] = [frame for frame in stack if not frame.filename.startswith(own)]


def explain(node: Any, error: BaseException) -> None:
    """Add to the error where the node was made."""
    stack = node.metadata.get(KEY)
    if stack:
        lines = "".join(traceback.format_list(stack))
        error.add_note(f"{node.name()} was made in the forward run by this call:\n{lines}")


def check(node: Any, results: Any) -> None:
    """Refuse NaN in the gradients that a node gives.

    Raises:
        AutogradError: an element is NaN.
    """
    for position, result in enumerate(results):
        if result is None:
            continue
        elements = result if result.layout is strided else result._values()
        if any_arrays.has_nan(elements.array):
            raise AutogradError(
                f"Function '{node.name()}' returned nan values in its {position}th output."
            )
