"""What a call of a compiled function costs beyond its kernels: guards, dispatch, outputs.

Functions of 1, 10 and 100 small tensors, and a 20-layer MLP from which the time of its generated
program alone is subtracted. With `--compare torch`, the same with PyTorch.
"""

from collections.abc import Callable, Sequence
from typing import Any

import dynajit as dj
from dynajit import nn
from dynajit.core.process import optional
from dynajit.measuring.timing import interleaved, row, seconds


def add_all(*tensors: Any) -> Any:
    """Sum of the arguments."""
    total = tensors[0] + 1
    for tensor in tensors[1:]:
        total = total + tensor
    return total


def fixed_arity(count: int) -> Callable[..., Any]:
    """A function of exactly `count` positional arguments that sums them."""
    names = ", ".join(f"t{i}" for i in range(count))
    scope = {"add_all": add_all}
    exec(f"def total({names}):\n    return add_all({names})", scope)  # source is built above
    return scope["total"]  # type: ignore[return-value]


def arguments(count: int) -> None:
    """Cost per call with `count` tensors of 8 elements."""
    tensors = [dj.randn(8) for _ in range(count)]
    compiled = dj.compile(fixed_arity(count))
    eager = fixed_arity(count)
    with dj.no_grad():
        times = interleaved(
            {"eager": lambda: eager(*tensors), "compiled": lambda: compiled(*tensors)}
        )
    print(row(f"{count} tensor arguments", times, "eager"))


def mlp_overhead(depth: int = 20, width: int = 16) -> None:
    """A deep, narrow MLP: the call minus its generated program."""
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)))
    x = dj.randn(8, width)
    compiled = dj.compile(model)
    with dj.no_grad():
        compiled(x)
        program, arrays = program_and_arrays(model, x)
        times = interleaved(
            {
                "eager": lambda: model(x),
                "compiled": lambda: compiled(x),
                "program alone": lambda: program(*arrays),
            }
        )
    print(row(f"MLP of {depth} layers, inference", times, "eager"))
    overhead = times["compiled"] - times["program alone"]
    print(f"{'  guards and dispatch':34s}  {seconds(max(overhead, 0.0))}")


def program_and_arrays(model: Any, x: Any) -> tuple[Any, Sequence[Any]]:
    """The generated program of one inference call, and the arrays it is called with."""
    explanation = dj.explain(model)(x)
    record = explanation.records[0]
    program = dict(record.programs)["forward"]
    named = [x, *model.parameters()]
    arrays = []
    for node in record.graph.inputs:
        fitting = [t for t in named if tuple(t.shape) == tuple(node.type.shape)]
        arrays.append(fitting[0].detach().numpy())
    return program, arrays


def torch_arguments(count: int) -> None:
    """The same with PyTorch."""
    torch = optional.load("torch", needed_for="--compare torch", install="torch")
    tensors = [torch.randn(8) for _ in range(count)]
    compiled = torch.compile(fixed_arity(count))
    eager = fixed_arity(count)
    with torch.no_grad():
        times = interleaved(
            {
                "torch eager": lambda: eager(*tensors),
                "torch.compile": lambda: compiled(*tensors),
            }
        )
    print(row(f"{count} tensor arguments", times, "torch eager"))


def main(compare: Sequence[str] = ()) -> None:
    """Print the table."""
    for count in (1, 10, 100):
        arguments(count)
        if "torch" in compare:
            torch_arguments(count)
    mlp_overhead()
