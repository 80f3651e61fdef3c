"""What a backend of the program's own gets: a captured graph that can be called, read and printed.

Contract: a `GraphModule` does not change. Called with tensors and numbers in the order of the
graph's inputs, it runs the graph operation by operation, as eager execution would, with gradients,
and gives a tuple with a tensor for each output. `to_fx` makes a copy that can be changed.
`example_inputs` are `Example`s: what is known of each input when the graph is captured.
Page: docs/backends.md.
"""

import functools
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from dynajit.capture.tensors.layouts import strides_of
from dynajit.core.errors import UnsupportedError
from dynajit.core.process.late import Late
from dynajit.core.quoting import as_python_name, on_a_line
from dynajit.core.records import record
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.value_types import (
    Shape,
    Size,
    TensorType,
    ValueType,
    contiguous_strides,
    numel,
)
from dynajit.eager.tensor.creation import from_numpy
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ir import printing
from dynajit.ir.generated import generated_function
from dynajit.ir.graph import Graph
from dynajit.ir.node import Node, NodeKind
from dynajit.ir.sizes import symbol_places
from dynajit.ops.functions.creation.creation import zeros

if TYPE_CHECKING:
    from dynajit.fx import graph as fx_graphs
    from dynajit.fx import graph_module as fx_modules
else:
    fx_graphs = Late("dynajit.fx.graph")
    fx_modules = Late("dynajit.fx.graph_module")


@record
class Example:
    """What is known of a tensor input: asked as a tensor is, but without elements.

    Args:
        shape: sizes; a size that varies is a symbol.
        dtype, device: of the tensor.
        strides: in elements.
        requires_grad: gradients flow to it.
    """

    shape: Shape
    dtype: DType
    device: Device = CPU
    strides: Shape = ()
    requires_grad: bool = False

    def size(self, dim: int | None = None) -> Any:
        """The sizes, or one of them."""
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        """The strides, or one of them."""
        return self.strides if dim is None else self.strides[dim]

    def dim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def numel(self) -> Size:
        """Number of elements."""
        return numel(self.shape)

    def is_contiguous(self) -> bool:
        """Whether it is laid out row by row."""
        return self.strides == contiguous_strides(self.shape)

    def zeros(self) -> Tensor:
        """A tensor of this kind.

        Raises:
            UnsupportedError: a size varies.
        """
        if not all(isinstance(size, int) for size in (*self.shape, *self.strides)):
            raise UnsupportedError(
                f"zeros of {self}: a size varies.  Make a tensor of a size that you choose."
            )
        sizes: Any = self.shape
        room = 1 + sum((size - 1) * step for size, step in zip(sizes, self.strides, strict=True))
        whole = zeros(0 if 0 in sizes else room, dtype=self.dtype, device=self.device)
        made: Tensor = whole.as_strided(sizes, self.strides)
        return made.requires_grad_(self.requires_grad) if self.requires_grad else made


@record
class NumberExample:
    """What is known of a number that calls change.

    Args:
        category: bool, integer, floating or complex.
    """

    category: Category


class GraphModule:
    """A captured graph, for backends; see the module.

    Args:
        graph: typed nodes in the order in which they run, see `dynajit.ir.graph`.
        requires_grad: per input, whether gradients flow to it.
    """

    def __init__(self, graph: Graph, requires_grad: Sequence[bool]) -> None:
        self.graph = graph
        self.requires_grad = tuple(requires_grad)

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """The outputs, computed operation by operation."""
        results: tuple[Any, ...] = self.forward(*inputs)
        return results

    @functools.cached_property
    def forward(self) -> FunctionType:
        """The function that a call runs: `pdb` steps through its lines, tracebacks show them."""
        return generated_function(self.graph, from_numpy)

    @property
    def code(self) -> str:
        """The graph as a Python module with one function; comments have types and your lines."""
        return str(self.graph)

    @property
    def example_inputs(self) -> list[Example | NumberExample]:
        """What is known of the inputs, in order."""
        pairs = zip(self.graph.inputs, self.requires_grad, strict=True)
        return [_example(node.type, self.strides(node), needs) for node, needs in pairs]

    def strides(self, node: Node) -> Shape | None:
        """Strides, in elements, that a value would have in eager execution; None where that is not
        known, or for a number. What a backend makes may lie otherwise."""
        return self._strides[node]

    @functools.cached_property
    def _strides(self) -> Mapping[Node, Shape | None]:
        known: dict[Node, Shape | None] = {}
        for node in self.graph.nodes:
            known[node] = strides_of(node, known) if isinstance(node.type, TensorType) else None
        return known

    def print_tabular(self) -> None:
        """Print a row for each node: kind, name, operation, arguments, type, strides, your line."""
        print(printing.print_tabular(self.graph, self._strides))

    def print_readable(self, print_output: bool = True) -> str:
        """Print the code, and give it back.

        Args:
            print_output: False: it is not printed.
        """
        if print_output:
            print(self.code)
        return self.code

    def to_fx(self) -> "fx_modules.GraphModule":
        """A copy as `dynajit.fx` has graphs, to be changed and compiled again.

        Operations are calls of their rows; `node.meta["val"]` is an `Example`, and
        `node.meta["location"]` your line.

        Raises:
            UnsupportedError: a size varies.
        """
        return _to_fx(self)

    def __repr__(self) -> str:
        return f"<GraphModule {on_a_line(self.graph.name)}: {len(self.graph.calls)} operations>"

    def __str__(self) -> str:
        return self.code


def _example(
    kind: ValueType, strides: Shape | None, requires_grad: bool = False
) -> Example | NumberExample:
    if not isinstance(kind, TensorType):
        return NumberExample(kind.category)
    laid = contiguous_strides(kind.shape) if strides is None else strides
    return Example(kind.shape, kind.dtype, kind.device, laid, requires_grad)


def _to_fx(module: GraphModule) -> "fx_modules.GraphModule":
    graph = module.graph
    if any(dim is not None for _, dim in symbol_places(graph).values()):
        raise UnsupportedError(
            f"to_fx({graph.name}): sizes vary, which graphs of fx do not know.  Compile with "
            "dynamic=False."
        )
    made = fx_graphs.Graph()
    copies: dict[Node, Any] = {}
    constants: dict[str, Tensor] = {}
    for node in graph.nodes:
        copies[node] = copy = _copied(made, node, copies)
        if node.kind is NodeKind.CONSTANT:
            constants[node.name] = from_numpy(node.value)
        copy.meta["val"] = _example(node.type, module.strides(node))
        copy.meta["location"] = node.location
    made.output(tuple(copies.get(o, o) if isinstance(o, Node) else o for o in graph.outputs))
    return fx_modules.GraphModule(constants, made, as_python_name(graph.name))


def _copied(made: "fx_graphs.Graph", node: Node, copies: Mapping[Node, Any]) -> Any:
    """A node in a graph of fx."""
    if node.kind is NodeKind.PLACEHOLDER:
        return made.placeholder(node.name)
    if node.op is None:
        return made.get_attr(node.name)
    args = tuple(copies[a] if isinstance(a, Node) else a for a in node.args)
    return made.call_function(node.op, args, dict(node.attributes), name=node.name)
