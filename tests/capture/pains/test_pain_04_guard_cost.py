"""Pain 4: checking guards runs Python for every fact."""

import sys
from typing import Any

import dynajit as dj
from dynajit import nn


def test_a_hit_runs_one_python_function_and_no_other() -> None:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(20)))
    compiled = dj.compile(model, fullgraph=True)
    x = dj.ones(2, 4)
    with dj.no_grad():
        compiled(x)
        compiled(x)
        calls: list[str] = []

        def profile(frame: Any, event: str, argument: Any) -> None:
            if event == "call":
                calls.append(frame.f_code.co_name)

        sys.setprofile(profile)
        try:
            compiled(x)
        finally:
            sys.setprofile(None)
    assert ["__call__", "_call_forward"] == calls[:2]
    assert all("guard" not in name and "check" not in name for name in calls)
    assert len(calls) <= 4
