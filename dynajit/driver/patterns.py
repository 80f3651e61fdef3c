"""Patterns that programs register: parts of captured graphs that are replaced.

Contract: patterns hold for the whole process, for what is compiled from then on, in the order in
which they were registered. They are applied to captured graphs before anything else, so derivatives
are those of the replacement. The pass is `ir.passes.replace_patterns`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from dynajit.capture.control import disable
from dynajit.core.errors import ArgumentError
from dynajit.core.process import config
from dynajit.core.process.late import Late
from dynajit.core.records import record

if TYPE_CHECKING:
    from dynajit.capture.region.region import CapturedGraph
    from dynajit.driver import launches
    from dynajit.driver.launches import PassRecord
    from dynajit.ir import verify as verification
    from dynajit.ir.passes import replace_patterns as passes
else:
    launches = Late("dynajit.driver.launches")
    passes = Late("dynajit.ir.passes.replace_patterns")
    verification = Late("dynajit.ir.verify")

NAME: Final = "replace_patterns"

_patterns: "Final[list[passes.Pattern]]" = []


@record(eq=False)
class PatternHandle:
    """A registered pattern.

    Args:
        name: of the pattern.
    """

    name: str

    def remove(self) -> None:
        """Do not replace it any more, in what is compiled from now on."""
        _patterns[:] = [known for known in _patterns if known.name != self.name]


def register_pattern(
    search: Callable[..., Any],
    replacement: Callable[..., Any],
    example_inputs: Sequence[Any],
    *,
    name: str | None = None,
) -> PatternHandle:
    """Replace a part of graphs by other operations, in what is compiled from now on.

    Args:
        search: a function of tensors and numbers; what it computes is looked for. It gives one
            tensor. Where its operations differ by the sizes or dtypes of its operands, those of
            the part count.
        replacement: a function of the same operands that gives a tensor of the same shape and
            dtype. Its results are used, and its derivatives.
        example_inputs: operands for which both can be tried out: tensors, of which shape, dtype
            and device count; a number stands for any number of its kind.
        name: for reports and messages; that of `search` by default.

    Returns:
        What can be removed.

    Raises:
        ArgumentError: one of the functions is not as it should be, or there is such a name.
    """
    named = name or str(getattr(search, "__name__", "pattern"))
    if any(known.name == named for known in _patterns):
        raise ArgumentError(
            f"register_pattern(name={named!r}): there is a pattern of this name.  Give another "
            "name=, or remove the other one."
        )
    if not isinstance(example_inputs, (list, tuple)):
        raise ArgumentError(
            f"register_pattern({named}): example_inputs is a {type(example_inputs).__name__}.  "
            "Expected a list with an example of each operand."
        )
    types = [passes.type_of_example(example) for example in example_inputs]
    _patterns.append(passes.pattern(named, disable(search), disable(replacement), types))
    return PatternHandle(named)


def replaced(captured: "CapturedGraph") -> "tuple[CapturedGraph, tuple[PassRecord, ...]]":
    """A captured graph after all patterns, and what they did, for reports."""
    if not _patterns or NAME in config.current().disabled_passes:
        return captured, ()
    start = time.perf_counter()
    graph = passes.replace_patterns(captured.graph, tuple(_patterns))
    elapsed_ms = 1e3 * (time.perf_counter() - start)
    if config.current().verify_graphs:
        verification.verify(graph, NAME)
    seen = launches.PassRecord("captured", NAME, captured.graph, graph, elapsed_ms)
    return replace(captured, graph=graph), (seen,)
