"""What backends of the program's own get: graphs that run, print, and say what is known."""

import contextlib
import io
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import UnsupportedError
from dynajit.core.types.dtypes import Category
from dynajit.driver.graph_module import Example, GraphModule
from dynajit.ir.node import NodeKind


def captured(function: Any, *args: Any, **options: Any) -> tuple[GraphModule, list[Any], Any]:
    """The module and the examples of the graph of one call, and what the call gave."""
    seen: list[Any] = []

    def backend(module: GraphModule, examples: list[Any]) -> GraphModule:
        seen.append((module, examples))
        return module

    result = dj.compile(function, backend=backend, fullgraph=True, **options)(*args)
    ((module, examples),) = seen
    return module, examples, result


def several(x, w, n):
    return (x.t() @ w).relu().view(-1) * dj.tensor([2.0]), x.sum() + n


def arguments():
    return dj.arange(6.0).view(3, 2), dj.ones(3, 4, requires_grad=True), 3.5


def test_a_module_runs_its_graph_with_gradients() -> None:
    x, w, n = arguments()
    expected = several(x, w, n)
    _, _, actual = captured(several, x, w, n)

    for one, other in zip(expected, actual, strict=True):
        assert one.tolist() == other.tolist()
    (mine,) = dj.autograd.grad(expected[0].sum(), w)
    (theirs,) = dj.autograd.grad(actual[0].sum(), w)
    assert mine.tolist() == theirs.tolist()


def test_the_code_runs_by_itself_and_names_the_users_lines() -> None:
    x, w, n = arguments()
    module, *_ = captured(several, x, w, n)
    namespace: dict[str, Any] = {}
    exec(module.code, namespace)
    function = next(
        v for v in namespace.values() if isinstance(v, FunctionType) and v.__name__ == "several"
    )
    namespace["array"] = lambda data, dtype: dj.tensor(data, dtype=getattr(dj, dtype))

    assert several(x, w, n)[0].tolist() == function(x, w, n)[0].tolist()
    line = several.__code__.co_firstlineno + 1
    assert f"relu = ops.relu(matmul)  # float32[2, 4]  test_graph_module.py:{line}" in module.code
    assert module.code == str(module)


def test_examples_say_what_is_known_of_the_inputs() -> None:
    _, (x, w, n), _ = captured(several, *arguments())

    assert ((3, 2), dj.float32, dj.device("cpu"), (2, 1), False) == (
        x.shape, x.dtype, x.device, x.strides, x.requires_grad
    )  # fmt: skip
    assert (True, Category.FLOATING) == (w.requires_grad, n.category)
    assert (2, (3, 2), 3, (2, 1), 1, 6, True) == (
        x.dim(), x.size(), x.size(0), x.stride(), x.stride(1), x.numel(), x.is_contiguous()
    )  # fmt: skip


@pytest.mark.parametrize(
    "tensor", [dj.ones(2, 3).t(), dj.ones(4, 6)[::2, ::3], dj.ones(0, 2), dj.ones(()), dj.ones(3)]
)
def test_zeros_are_a_tensor_of_that_kind(tensor) -> None:
    _, (example,), _ = captured(lambda x: x + 1, tensor)
    made = example.zeros()

    assert (tensor.shape, tensor.dtype) == (made.shape, made.dtype)
    assert tensor.numel() == 0 or tensor.stride() == made.stride()
    assert not made.any()


def test_strides_are_those_of_eager_execution() -> None:
    """Of every value: asked of tensors that the rows make one after the other."""

    def function(x, w):
        turned = x.transpose(0, 2)
        return (turned * 2 + turned[0]).sum(1), (turned.reshape(4, 6) @ w).t().exp()

    inputs = dj.ones(2, 3, 4), dj.ones(6, 5).t().contiguous().t()
    module, *_ = captured(function, *inputs)
    values = dict(zip(module.graph.inputs, inputs, strict=True))
    for node in module.graph.calls:
        values[node] = node.op(*(values.get(a, a) for a in node.args), **node.attributes)

    known = {node: module.strides(node) for node in values}
    assert known == {node: value.stride() for node, value in values.items()}
    assert any(strides != tuple(sorted(strides)[::-1]) for strides in known.values())


def test_the_table_has_a_row_for_each_node_with_strides() -> None:
    module, *_ = captured(several, *arguments())
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        module.print_tabular()

    rows = text.getvalue().splitlines()
    assert ["kind", "name", "op", "arguments", "attributes", "type", "strides", "line"] == (
        rows[0].split()
    )
    assert len(module.graph.nodes) + 3 == len(rows)
    assert "(1, 2)" in next(row for row in rows if row.split()[1] == "permute")


def test_print_readable_prints_the_code_unless_told_not_to(capsys) -> None:
    module, *_ = captured(several, *arguments())

    assert module.code == module.print_readable(print_output=False)
    assert "" == capsys.readouterr().out
    module.print_readable()
    assert f"{module.code}\n" == capsys.readouterr().out


def test_it_shows_itself_in_a_line() -> None:
    module, *_ = captured(several, *arguments())
    assert f"<GraphModule several: {len(module.graph.calls)} operations>" == repr(module)


def test_a_copy_for_fx_can_be_changed_and_runs() -> None:
    def backend(module, examples):
        copy = module.to_fx()
        for node in copy.graph.nodes:
            if node.op == "call_function" and node.target.name == "sin":
                node.target = dj.cos
            if node.op != "output":
                assert node.meta["val"].shape == (3,) and node.meta["location"] is not None
        copy.recompile()
        return copy

    compiled = dj.compile(lambda x: x.sin() * dj.tensor([1.0, 2.0, 3.0]), backend=backend)

    np.testing.assert_allclose(
        np.cos([0.0, 1, 2]) * [1, 2, 3], compiled(dj.arange(3.0)).numpy(), rtol=1e-6
    )


def test_sizes_that_vary_are_symbols_and_have_no_zeros_and_no_copy_for_fx() -> None:
    module, (example,), result = captured(lambda x: x * 2, dj.ones(3, 4), dynamic=True)

    assert [[2.0] * 4] * 3 == result.tolist()
    assert not all(isinstance(size, int) for size in example.shape)
    with pytest.raises(UnsupportedError, match="a size varies"):
        example.zeros()
    with pytest.raises(UnsupportedError, match=r"sizes vary.*dynamic=False"):
        module.to_fx()


def test_nodes_are_placeholders_constants_and_calls() -> None:
    module, *_ = captured(several, *arguments())

    assert {*NodeKind} == {node.kind for node in module.graph.nodes}
    assert isinstance(Example((2,), dj.float32).shape, tuple)
