"""Pain 21: nobody knows why it compiled again."""

from typing import Any

import dynajit as dj
from dynajit import nn


def test_the_reason_has_guard_old_new_and_line() -> None:
    class Model(nn.Module):
        """Has a mode."""

        def __init__(self) -> None:
            super().__init__()
            self.mode = "fast"

        def forward(self, x: Any) -> Any:
            y = x + 1
            return y * 2 if self.mode == "fast" else y  # the mode

    model = Model()
    compiled = dj.compile(model)
    compiled(dj.ones(2))
    compiled.mode = "slow"
    compiled(dj.ones(2))
    (reason,) = compiled.report().recompiles
    line = Model.forward.__code__.co_firstlineno + 2
    assert "self.mode" in reason.guard
    assert ("'fast'", "'slow'") == (reason.old, reason.new)
    assert reason.location.endswith(f":{line}")
    for part in ("self.mode", "'fast'", "'slow'", f":{line}"):
        assert part in str(compiled.report())
