"""Rows among which there are loops: each loop's body is a program of its own, called turn by turn.

Contract: `LoopProgram` gives what `NumpyProgram` gives of the same graph, and has its attributes.
Nothing of a turn is interpreted: a turn is one call of a program. `LoopBlueprint` is what can be
kept on disk of it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynajit.codegen.run.numpy_backend import NumpyProgram
from dynajit.core.records import record
from dynajit.ir import interpret, loops
from dynajit.ir.graph import Graph
from dynajit.ops.evaluate import evaluate
from dynajit.ops.table.op_table import Op


@record(eq=False)
class LoopBlueprint:
    """A graph of rows with loops, as data.

    Args:
        graph: the rows.
        bodies: the blueprint of the body of each loop, in the order of `loops.loops_of`; None for
            what cannot be kept.
    """

    graph: Graph
    bodies: tuple[Any, ...]


class LoopProgram(NumpyProgram):
    """See the module. Immutable.

    Args:
        graph: rows, with loops among them.
        name: for reports.
        bodies: the program of each loop's body, in the order of `loops.loops_of`.
    """

    def __init__(self, graph: Graph, name: str, bodies: Sequence[Any]) -> None:
        super().__init__(graph, name)
        self._bodies = dict(zip(loops.loops_of(graph), bodies, strict=True))
        self.kernels = tuple(kernel for body in bodies for kernel in body.kernels)
        self.source = "\n".join([self.source, *(body.source for body in bodies)])
        self.explain = "\n".join(f"in each turn of a loop: {body.explain}" for body in bodies)
        self.from_cache = all(body.from_cache for body in bodies)
        self.stages = {name: value for body in bodies for name, value in body.stages.items()}

    def _run(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        return interpret.run_again(self._walk, operands, self._evaluate)

    def _evaluate(self, op: Op, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """One row; a loop by the program of its body."""
        if op is not loops.LOOP:
            return evaluate(op, args, named)
        go, *values = args
        arrays = [_row_major(value) for value in values]
        return loops.run(named["loop"], named["limit"], [go, *arrays], self._bodies[named["loop"]])

    def __repr__(self) -> str:
        return f"<LoopProgram {self.name}>"


def _row_major(value: Any) -> Any:
    """An array whose elements lie row by row; a number as it is."""
    return np.asarray(value, order="C") if isinstance(value, np.ndarray) else value
