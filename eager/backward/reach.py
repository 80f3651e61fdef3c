"""Where gradients would go, without running backward."""

from collections.abc import Sequence
from typing import Any

from dynajit.eager.tape.node import Node


def has_other_leaves(outputs: Sequence[Any], known: Sequence[Any]) -> bool:
    """Whether a gradient of the outputs would reach a leaf that is not among `known`.

    Outputs that hold samples have a history behind them, too.
    """
    seen = {id(x) for x in known}
    waiting: list[Any] = []
    for y in outputs:
        behind: Any = y
        while behind is not None:
            if behind.requires_grad:
                waiting.append(behind if behind.grad_fn is None else behind.grad_fn)
            behind = getattr(behind, "_batch", None)
    while waiting:
        target = waiting.pop()
        if id(target) in seen:
            continue
        seen.add(id(target))
        if not isinstance(target, Node):
            return True
        waiting += [edge for edge in target.edges if edge is not None]
    return False
