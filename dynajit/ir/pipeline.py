"""What is done to every graph, in order.

`optimize` runs the passes of `PASSES`. Those whose names are in `Config.disabled_passes` are left
out; `NEEDED` are not to be: code generation relies on them.
"""

import time
from collections.abc import Callable, Set
from typing import Final, TypeAlias

from dynajit.core.process import config
from dynajit.ir.graph import Graph
from dynajit.ir.passes.eliminate_common_subexpressions import eliminate_common_subexpressions
from dynajit.ir.passes.eliminate_dead_code import eliminate_dead_code
from dynajit.ir.passes.expand_composites import Keeps, expand_composites
from dynajit.ir.passes.fold_constants import fold_constants
from dynajit.ir.passes.keep_gates import keep_gates
from dynajit.ir.passes.keep_refusals import keep_refusals
from dynajit.ir.passes.merge_loops import merge_loops
from dynajit.ir.passes.simplify_algebra import simplify_algebra
from dynajit.ir.verify import verify

Pass: TypeAlias = Callable[[Graph], Graph]
Observer: TypeAlias = Callable[[str, Graph, Graph, float], None]

PASSES: Final[tuple[Pass, ...]] = (
    # What nothing needs is not worth expanding; capture leaves many unused nodes.
    eliminate_dead_code,
    # Derivatives were taken; those of a loop name the loop.
    merge_loops,
    # It looks at composites, and leaves nodes that nothing needs.
    keep_gates,
    # The passes below see only rows that code generation knows.
    expand_composites,
    # Folding makes literals, which simplification looks for.
    fold_constants,
    simplify_algebra,
    # After simplification more nodes are equal, and those it left over are dead.
    eliminate_common_subexpressions,
    eliminate_dead_code,
    # Who reads what is known now.
    keep_refusals,
)

NEEDED: Final = frozenset({expand_composites.__name__, keep_refusals.__name__})
"""Passes that run always."""


def optimize(
    graph: Graph,
    *,
    kept_composites: Set[str] = frozenset(),
    keeps: Keeps | None = None,
    observe: Observer | None = None,
) -> Graph:
    """The graph after all passes.

    Args:
        graph: an inference graph or a joint graph. It is verified first when
            `Config.verify_graphs`, and so is the result of every pass.
        kept_composites: names of composites that are not expanded.
        keeps: further calls of composites that are not.
        observe: called after each pass with its name, the graph before and after, and
            milliseconds.

    Raises:
        InternalError: a pass broke the graph (only when verifying).
    """
    asked = config.current()
    verifying, disabled = asked.verify_graphs, asked.disabled_passes
    if verifying:
        verify(graph)
    for step in PASSES:
        name = step.__name__
        if name in disabled:
            continue
        start = time.perf_counter()
        before = graph
        if step is expand_composites:
            graph = expand_composites(graph, kept_composites, keeps)
        else:
            graph = step(graph)
        milliseconds = (time.perf_counter() - start) * 1e3
        if verifying:
            verify(graph, name)
        if observe is not None:
            observe(name, before, graph, milliseconds)
    return graph
