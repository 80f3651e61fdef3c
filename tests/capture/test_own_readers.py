"""Objects whose class has a `__getattribute__` in Python, as configurations of models have."""

from typing import Any, ClassVar

import pytest

import dynajit as dj


class Config:
    """Reads some attributes by other names."""

    names: ClassVar[dict[str, str]] = {"n": "num"}
    kind = "kind"

    def __init__(self) -> None:
        self.num = 3
        self.weight = dj.ones(2)
        self.sizes = [1, 2]

    def __setattr__(self, key: str, value: Any) -> None:
        names = super().__getattribute__("names")
        super().__setattr__(names.get(key, key), value)

    def __getattribute__(self, key: str) -> Any:
        if key != "names" and key in super().__getattribute__("names"):
            key = super().__getattribute__("names")[key]
        return super().__getattribute__(key)

    @property
    def twice(self) -> int:
        return self.n * 2  # type: ignore[attr-defined, no-any-return]

    def added(self, x: Any) -> Any:
        return x + self.num


class Model(dj.nn.Module):
    """Asks its configuration."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    def forward(self, x: Any) -> Any:
        config = self.config
        if getattr(config, "missing", None) is not None:
            return x * 100
        sizes = config.weight * config.sizes[1] + len(config.kind)
        return config.added(x) * config.twice + sizes


def test_configurations_are_part_of_one_graph_and_changes_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = Config()
    model = Model(config)
    compiled = dj.compile(model, fullgraph=True)
    x = dj.ones(2)

    def agrees() -> bool:
        return compiled(x).tolist() == model(x).tolist()

    assert agrees()
    config.n = 5  # type: ignore[attr-defined]
    assert agrees()
    config.weight = dj.zeros(2)
    assert agrees()
    config.sizes[1] = 7
    assert agrees()
    config.missing = 1  # type: ignore[attr-defined]
    assert agrees()
    del config.missing  # type: ignore[attr-defined]
    assert agrees()
    monkeypatch.setattr(Config, "missing", 2, raising=False)
    assert agrees()
    monkeypatch.undo()
    assert agrees()
    monkeypatch.setattr(Config, "names", {"n": "num", "num": "other"})
    config.__dict__["other"] = 9
    assert agrees()


def test_writes_are_done_after_the_launch() -> None:
    config = Config()

    def counted(x: Any) -> Any:
        config.count = getattr(config, "count", 0) + 1  # type: ignore[attr-defined]
        return x * config.count  # type: ignore[attr-defined]

    compiled = dj.compile(counted, fullgraph=True)

    assert [1.0] == compiled(dj.ones(1)).tolist()
    assert [2.0] == compiled(dj.ones(1)).tolist()
    assert 2 == config.count  # type: ignore[attr-defined]


def test_readers_that_are_replaced_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config()
    compiled = dj.compile(lambda x: x + config.num, fullgraph=True)
    assert [4.0] == compiled(dj.ones(1)).tolist()

    def reader(self: Any, key: str) -> Any:
        return 10 if key == "num" else object.__getattribute__(self, key)

    monkeypatch.setattr(Config, "__getattribute__", reader)
    assert [11.0] == compiled(dj.ones(1)).tolist()
