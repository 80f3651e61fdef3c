"""Symbolic traces: graphs of modules, what they compute, and how they are changed; as PyTorch's."""

import copy
import operator
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")
pytest.importorskip("torch.fx")

LIBRARIES = (torch, dj)


def model_of(t: Any) -> Any:
    """A module with layers, a parameter, a buffer and a constant of its own."""

    class Model(t.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lin = t.nn.Linear(4, 5)
            self.p = t.nn.Parameter(t.ones(5) * 0.5)
            self.seq = t.nn.Sequential(t.nn.Linear(5, 5), t.nn.ReLU(), t.nn.Linear(5, 3))
            self.register_buffer("b", t.ones(3))

        def forward(self, x: Any, y: Any = 2.0, *, z: Any = None) -> Any:
            h = self.lin(x) + self.p * y
            h = t.cat([h[:, :2], h[:, 2:]], 1).relu()
            out = self.seq(t.nn.functional.dropout(h, 0.0, self.training))
            out = out - out.mean(dim=-1, keepdim=True)
            return {"o": out * self.b + t.ones(3), "s": out.sum()}

    made = Model()
    with t.no_grad():
        for parameter in made.parameters():
            parameter.copy_(t.linspace(-1, 1, parameter.numel()).reshape(parameter.shape))
    return made


def rows(graph: Any) -> list[tuple[str, str, int]]:
    """Kind, name and number of users of each node."""
    return [(node.op, node.name, len(node.users)) for node in graph.nodes]


def test_modules_are_traced_as_in_pytorch() -> None:
    traced = [t.fx.symbolic_trace(model_of(t)) for t in LIBRARIES]

    assert rows(traced[0].graph) == rows(traced[1].graph)
    assert sorted(traced[0].state_dict()) == sorted(traced[1].state_dict())
    for t, module in zip(LIBRARIES, traced, strict=True):
        module.graph.lint()
        x = t.linspace(0, 1, 8).reshape(2, 4)
        expected = model_of(t)(x)
        actual = module(x)
        np.testing.assert_array_equal(expected["o"].detach().numpy(), actual["o"].detach().numpy())
        assert type(module).__name__ == "Model"


def test_graphs_are_changed_and_compiled_again() -> None:
    results = []
    for t in LIBRARIES:
        module = t.fx.symbolic_trace(model_of(t))
        (old,) = [n for n in module.graph.nodes if n.op == "call_method" and n.target == "relu"]
        with module.graph.inserting_after(old):
            new = module.graph.call_function(t.tanh, (old.args[0],))
        old.replace_all_uses_with(new)
        module.graph.erase_node(old)
        module.recompile()
        assert "torch.tanh" in module.code
        results.append(module(t.linspace(0, 1, 8).reshape(2, 4))["o"].detach().numpy())

    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)


def added(t: Any) -> Any:
    """A function with two operations."""
    return lambda x: t.relu(x) + 1


def stars_of(t: Any) -> Any:
    """A function with `*` and `**`."""

    def stars(x: Any, *rest: Any, **named: Any) -> Any:
        a, b = t.split(x, 1)
        return t.add(a, b) + rest[0] + named["c"]

    return stars


def outer_of(t: Any) -> Any:
    """A module with a module of the program inside."""

    class Outer(t.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.m = model_of(t)

        def forward(self, x: Any) -> Any:
            return self.m(x)["o"]

    return Outer()


def leaves_of(t: Any, leaf: str) -> Any:
    """A tracer for which modules of a class are leaves."""

    class Leaves(t.fx.Tracer):  # type: ignore[misc, name-defined]
        def is_leaf_module(self, m: Any, name: str) -> bool:
            return type(m).__name__ == leaf or super().is_leaf_module(m, name)

    return Leaves()


def test_nodes_with_users_cannot_be_erased_and_dead_ones_go() -> None:
    for t in LIBRARIES:
        module = t.fx.symbolic_trace(added(t))
        relu = next(n for n in module.graph.nodes if n.name == "relu")
        with pytest.raises(RuntimeError, match="still had 1 users"):
            module.graph.erase_node(relu)
        add = next(n for n in module.graph.nodes if n.op == "call_function" and n.name == "add")
        add.replace_all_uses_with(relu)
        module.graph.eliminate_dead_code()
        module.recompile()

        assert "add" not in [n.name for n in module.graph.nodes]
        assert [0.0, 2.0] == module(t.tensor([-1.0, 2.0])).tolist()


def test_interpreters_and_transformers_run_graphs() -> None:
    for t in LIBRARIES:
        module = t.fx.symbolic_trace(model_of(t))
        x = t.linspace(0, 1, 8).reshape(2, 4)
        expected = module(x)["o"].tolist()

        class Counting(t.fx.Interpreter):  # type: ignore[misc, name-defined]
            calls = 0

            def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
                Counting.calls += 1
                return super().call_function(target, args, kwargs)

        assert expected == Counting(module).run(x)["o"].tolist()
        assert 9 == Counting.calls
        assert expected == t.fx.Transformer(module).transform()(x)["o"].tolist()
        assert expected == copy.deepcopy(module)(x)["o"].tolist()


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda x: x if x.sum() > 0 else -x, ValueError),
        (lambda x: list(x), ValueError),
        (lambda x: len(x), RuntimeError),
    ],
)
def test_what_depends_on_values_is_refused(function: Any, error: type[Exception]) -> None:
    for t in LIBRARIES:
        with pytest.raises(error):
            t.fx.symbolic_trace(function)


def test_stars_unpacking_and_concrete_arguments() -> None:
    for t in LIBRARIES:

        def chosen(x: Any, n: int) -> Any:
            return x * n if n > 1 else x

        traced = t.fx.symbolic_trace(stars_of(t))
        assert [6.0] == traced(t.tensor([1.0, 2.0]), 2, c=1).tolist()
        fixed = t.fx.symbolic_trace(chosen, concrete_args={"n": 3})
        assert [3.0] == fixed(t.ones(1), 3).tolist()
        assert not t.fx._symbolic_trace.is_fx_tracing()


def test_leaf_modules_are_what_a_tracer_says() -> None:
    for t in LIBRARIES:
        outer = outer_of(t)
        graph = leaves_of(t, type(outer.m).__name__).trace(outer)
        assert ["x", "m", "getitem", "output"] == [node.name for node in graph.nodes]
        x = t.ones(2, 4)
        assert outer(x).tolist() == t.fx.GraphModule(outer, graph)(x).tolist()


def test_graphs_are_built_with_proxies() -> None:
    for t in LIBRARIES:
        graph = t.fx.Graph()
        tracer = t.fx.proxy.GraphAppendingTracer(graph)
        a, b = (t.fx.Proxy(graph.placeholder(name), tracer) for name in "ab")
        w = t.fx.Proxy(graph.get_attr("w"), tracer)
        result = t.einsum("ij,jk->ik", a, b) * 2 + w + t.stack([a.reshape(-1), b.reshape(-1)]).sum()
        graph.output(result.node)
        module = t.fx.GraphModule({"w": t.ones(2)}, graph, "Einsum")

        assert [[13.0, 13.0], [13.0, 13.0]] == module(t.ones(2, 2), t.ones(2, 2)).tolist()
        assert "Einsum" == type(module).__name__
        assert ["w"] == list(module.state_dict())


def test_compiled_graph_modules_are_one_graph() -> None:
    traced = dj.fx.symbolic_trace(model_of(dj))
    x = dj.ones(2, 4)

    compiled = dj.compile(traced, fullgraph=True)
    np.testing.assert_allclose(
        compiled(x)["o"].detach().numpy(), traced(x)["o"].detach().numpy(), rtol=1e-5
    )


def test_operators_are_written_as_operators() -> None:
    traced = dj.fx.symbolic_trace(lambda x: (x + 1) * x[0] @ x)

    assert operator.matmul in [node.target for node in traced.graph.nodes]
    assert "@" in traced.code
    assert "%add" in str(traced.graph)
