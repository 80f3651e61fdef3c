"""Pain 12: writes through views and aliases are lost or refused."""

from typing import Any

import dynajit as dj


def test_a_write_through_a_view_of_an_argument_is_seen_by_all() -> None:
    def function(x: Any) -> Any:
        row = x[1]
        row.mul_(10)
        x[:, 0] = -1
        return x.sum(), row

    results = []
    for run in (function, dj.compile(function, fullgraph=True)):
        x = dj.arange(6.0).reshape(2, 3)
        outside = x[1:]
        total, row = run(x)
        row.add_(1)
        results.append([x.tolist(), outside.tolist(), total.item(), row.tolist()])
    assert results[0] == results[1]


def test_two_arguments_that_share_memory() -> None:
    def function(a: Any, b: Any) -> Any:
        a.add_(b)
        return a * b

    compiled = dj.compile(function)
    for overlap in (False, True, False):
        results = []
        for run in (function, compiled):
            base = dj.arange(8.0)
            a, b = (base[:4], base[:4]) if overlap else (base[:4], base[4:])
            results.append([run(a, b).tolist(), base.tolist()])
        assert results[0] == results[1]


def test_buffers_of_a_module_change_as_in_eager() -> None:
    class Running(dj.nn.Module):
        """A running mean."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", dj.zeros(3))
            self.register_buffer("count", dj.tensor(0))

        def forward(self, x: Any) -> Any:
            with dj.no_grad():
                self.mean.mul_(0.9).add_(x.mean(dim=0), alpha=0.1)
                self.count += 1
            return x - self.mean

    states = []
    for wrap in (lambda model: model, lambda model: dj.compile(model, fullgraph=True)):
        model = Running()
        kept = model.mean
        run = wrap(model)
        for i in range(3):
            run(dj.full((2, 3), float(i)))
        states.append([model.mean.tolist(), kept.tolist(), model.count.item()])
    assert states[0] == states[1]
