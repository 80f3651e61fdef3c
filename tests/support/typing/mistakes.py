"""Mistakes that a type checker finds: each line with `# wrong` is one, and no other line is."""

import dynajit as dj
from dynajit import nn


@dj.compile(fullgraph=True)
def scaled(x: dj.Tensor, factor: int = 2) -> dj.Tensor:
    """x, factor times."""
    return x * factor


x = dj.zeros(3)
number: int = scaled(x, 3).sum().ndim
x.sum() + object()  # wrong
nn.Linear("a", 2)  # wrong
nn.Linear(2)  # wrong
x.trnspose(0, 1)  # wrong
dj.summ(x)  # wrong
nn.Linar(2, 2)  # wrong
nn.functional.sofmax(x)  # wrong
dj.linalg.nrom(x)  # wrong
dj.optim.Adm([x])  # wrong
scaled(3)  # wrong
scaled(x, "a")  # wrong
text: str = dj.add(x, 1)  # wrong
x.clamp_(0, 1, 2, 3)  # wrong
dj.config.recompile_limit = 8
dj.config.recompile_limit = "8"  # wrong
dj.config.recompile_limt = 8  # wrong
