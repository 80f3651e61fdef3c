"""`inspect.signature` in captured code: what it says, and that changes are seen."""

import inspect
from typing import Any

import pytest

import dynajit as dj


def asked(a: Any, b: Any = 3, *, c: Any = None) -> Any:
    return a


def replaced(a: Any, b: Any = 1, *, c: Any = None, d: Any = 2) -> Any:
    return a


class Model(dj.nn.Module):
    """Counts parameters, as chunked layers of models do."""

    def part(self, x: Any, y: Any = 1) -> Any:
        return x + y

    def forward(self, x: Any) -> Any:
        count = len(inspect.signature(self.part).parameters)
        parameters = inspect.signature(asked).parameters
        known = "b" in parameters and "z" not in parameters
        kinds = [p.kind == inspect.Parameter.KEYWORD_ONLY for p in parameters.values()]
        none = parameters["a"].default is inspect.Parameter.empty
        numbers = parameters["b"].default + len(list(parameters.keys())) + sum(kinds) + none
        return self.part(x) * count + numbers + known


def test_signatures_are_known_and_changes_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    compiled = dj.compile(model, fullgraph=True)
    x = dj.ones(2)

    assert model(x).tolist() == compiled(x).tolist()
    monkeypatch.setattr(asked, "__defaults__", (7,))
    assert model(x).tolist() == compiled(x).tolist()
    monkeypatch.setattr(asked, "__code__", replaced.__code__)
    monkeypatch.setattr(asked, "__kwdefaults__", {"c": 1, "d": 2})
    assert model(x).tolist() == compiled(x).tolist()


def test_signatures_of_wrapped_functions_are_left_to_python() -> None:
    def wrapper(*args: Any) -> Any:
        return None

    wrapper.__wrapped__ = asked  # type: ignore[attr-defined]
    compiled = dj.compile(lambda x: x + len(inspect.signature(wrapper).parameters))

    assert [4.0] == compiled(dj.ones(1)).tolist()
