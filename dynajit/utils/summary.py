"""`summary(model, input)`: the modules of a model, their results' shapes, parameters, operations.

Contract: the model runs once, in evaluation mode and without recording, so its statistics, its
gradients and the random numbers stay as they are; lazy layers take their sizes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dynajit.core.records import record
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.hooks import register_module_forward_hook
from dynajit.nn.module import Module
from dynajit.utils._pytree import tree_leaves
from dynajit.utils.flop_counter import FlopCounterMode, aligned


@record
class ModuleSummary:
    """One module of the tree.

    Args:
        path: as in `named_modules`; "" for the model.
        kind: name of its class.
        shapes: of the tensors in its first result; empty if it did not run.
        parameters: number of elements of the parameters that are its own, not those of inner ones.
        flops: of its products, and of those of inner modules, in all its calls.
    """

    path: str
    kind: str
    shapes: tuple[tuple[int, ...], ...]
    parameters: int
    flops: int


@record
class Summary:
    """What `summary` found; `str` of it is a table.

    Args:
        modules: the model, then its inner modules in the order of `named_modules`.
        parameters: elements of all parameters; shared ones count once.
        trainable: those that require gradients.
        flops: floating-point operations of one forward's products.
    """

    modules: tuple[ModuleSummary, ...]
    parameters: int
    trainable: int
    flops: int

    def __str__(self) -> str:
        rows = [("Module", "Output", "Parameters", "FLOP")]
        for module in self.modules:
            level = module.path.count(".") + 1 if module.path else 0
            name = f"{'  ' * level}{module.path.rpartition('.')[2]} ({module.kind})"
            shapes = ", ".join(str(list(shape)) for shape in module.shapes) or "-"
            rows.append((name, shapes, f"{module.parameters:,}", f"{module.flops:,}"))
        return (
            f"{aligned(rows)}\n{self.parameters:,} parameters, {self.trainable:,} of them "
            f"trainable; {self.flops:,} floating-point operations in products"
        )


def summary(model: Module, *args: Any, **kwargs: Any) -> Summary:
    """Run `model(*args, **kwargs)` once and tell what it consists of.

    Raises:
        what the model raises.
    """
    shapes: dict[int, tuple[tuple[int, ...], ...]] = {}

    def note(module: Module, given: Any, result: Any) -> None:
        found = [tuple(x.shape) for x in tree_leaves(result) if isinstance(x, Tensor)]
        shapes.setdefault(id(module), tuple(found))

    counter = FlopCounterMode(display=False)
    with _evaluating(model), no_grad(), counter, register_module_forward_hook(note):
        model(*args, **kwargs)
    counts = counter.get_flop_counts()
    root = type(model).__name__
    modules = tuple(
        ModuleSummary(
            path,
            type(module).__name__,
            shapes.get(id(module), ()),
            sum(p.numel() for p in module.parameters(recurse=False)),
            sum(counts.get(f"{root}.{path}" if path else root, {}).values()),
        )
        for path, module in model.named_modules()
    )
    parameters = list(model.parameters())
    return Summary(
        modules,
        sum(p.numel() for p in parameters),
        sum(p.numel() for p in parameters if p.requires_grad),
        counter.get_total_flops(),
    )


@contextmanager
def _evaluating(model: Module) -> Iterator[None]:
    """Every module in evaluation mode within the block, and as it was after it."""
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


__all__ = ["ModuleSummary", "Summary", "summary"]
