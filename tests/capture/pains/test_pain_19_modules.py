"""Pain 19: a compiled module is another class with other state_dict keys."""

import copy
import pickle
from typing import Any

import dynajit as dj
from dynajit import nn


class Network(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x).relu())


def test_class_keys_parameters_and_copies_stay() -> None:
    original = Network()
    compiled = dj.compile(original)
    x = dj.ones(2, 3)
    expected = original(x).tolist()
    assert expected == compiled(x).tolist()
    assert type(compiled) is Network
    assert list(original.state_dict()) == list(compiled.state_dict())
    assert all(a is b for a, b in zip(original.parameters(), compiled.parameters(), strict=True))
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert isinstance(other, Network)
        assert expected == other(x).tolist()
        assert list(original.state_dict()) == list(other.state_dict())
    compiled.load_state_dict(Network().state_dict())
    assert compiled(x).tolist() == original(x).tolist() != expected
