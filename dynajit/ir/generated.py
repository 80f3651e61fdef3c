"""A graph as a Python function that a debugger can step through.

The text is `printing.print_graph`'s; it is registered with `linecache`, so `pdb`, tracebacks and
`inspect.getsource` show its lines, one operation each. Used by the `eager` backend.
"""

import itertools
import linecache
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

import numpy as np

from dynajit.core.errors import InternalError
from dynajit.core.quoting import on_a_line
from dynajit.ir.graph import Graph
from dynajit.ir.loops import Loop
from dynajit.ir.nests import NEST
from dynajit.ir.printing import large_constants, loop_name, own_rows, print_graph
from dynajit.ir.written_derivative import WrittenDerivative

_numbers: Final = itertools.count()


def generated_function(graph: Graph, constant: Callable[[Any], Any]) -> FunctionType:
    """The printed graph as a function of its inputs, in order; returns a tuple of outputs.

    Args:
        graph: any graph; composites are called as one row. Symbolic sizes are read from the inputs.
        constant: makes an operand of a constant's array.

    Raises:
        InternalError: the printed text holds no function.
    """
    text = print_graph(graph) + "\n"
    file = f"<dynajit graph {next(_numbers)}: {on_a_line(graph.name)}>"
    namespace: dict[str, Any] = {"__name__": f"dynajit graph {graph.name}"}
    exec(compile(text, file, "exec"), namespace)
    functions = [
        value
        for value in namespace.values()
        if isinstance(value, FunctionType) and value.__code__.co_filename == file
    ]
    if not functions:
        raise InternalError(f"{graph.name}: the printed graph has no function")
    function = functions[-1]  # after the derivatives that users wrote
    written = {
        f"{node.name}_backward": value
        for node in graph.nodes
        for value in node.attributes.values()
        if isinstance(value, WrittenDerivative)
    }
    namespace["derivative"] = lambda backward, *facts: written[backward.__name__]
    namespace["array"] = lambda data, dtype: constant(np.array(data, dtype=dtype))
    namespace["rows"] = own_rows(graph)
    namespace["loops"] = {
        loop_name(node, key): value
        for node in graph.calls
        for key, value in node.attributes.items()
        if isinstance(value, Loop)
    }
    namespace["nests"] = {n.name: n.attributes["nest"] for n in graph.calls if n.op is NEST}
    namespace["constants"] = {
        name: constant(array) for name, array in large_constants(graph).items()
    }
    # No modification time: linecache keeps the entry although there is no such file.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    weakref.finalize(function, linecache.cache.pop, file, None)
    return function
