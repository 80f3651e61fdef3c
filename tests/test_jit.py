"""TorchScript's functions pass through what they get, or refuse by name."""
# ruff: noqa: UP007, UP045

from typing import Any, Optional, Union

import pytest

import dynajit as dj
from dynajit.core.errors import UnsupportedError

MODULE = dj.nn.Linear(2, 2)


@pytest.mark.parametrize(
    ("value", "type"),
    [
        ([1], list[int]), ([1], list[str]), ([], list[int]), ([[1]], list[list[int]]),
        ({"a": 1}, dict[str, int]), ({"a": 1}, dict[str, str]), ((1, "a"), tuple[int, str]),
        ((1, 2), tuple[int, str]), (None, Optional[int]), (3, Optional[int]), ("a", Optional[int]),
        (3, int), (3, (str, int)), (3, Union[str, int]), (3, int | str), ([1], list[int]),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:The inner type of a container")
def test_types_of_values_are_told_as_in_pytorch(value: Any, type: Any) -> None:
    torch = pytest.importorskip("torch")
    assert torch.jit.isinstance(value, type) is dj.jit.isinstance(value, type)


def test_what_annotates_and_decorates_changes_nothing() -> None:
    assert dj.jit.annotate(list[int], MODULE) is MODULE
    for decorate in (dj.jit.script_if_tracing, dj.jit.interface, dj.jit.script_method):
        assert decorate(MODULE) is MODULE
    assert (1, int) == dj.jit.Attribute(1, int)
    assert dj.compile(lambda x: dj.jit.annotate(int, x + 1), fullgraph=True)(dj.ones(2)).sum() == 4


@pytest.mark.parametrize("name", ["script", "freeze", "optimize_for_inference"])
def test_what_would_compile_warns(name: str) -> None:
    with pytest.warns(UserWarning, match="no TorchScript"):
        assert getattr(dj.jit, name)(MODULE) is MODULE
    with pytest.warns(UserWarning, match="no TorchScript"):
        assert dj.jit.trace_module(MODULE, {"forward": dj.ones(2)}) is MODULE


def test_forked_calls_are_finished_at_once() -> None:
    future = dj.jit.fork(lambda x, y: x - y, 3, y=1)
    assert 2 == dj.jit.wait(future) == future.wait() == future.value()
    assert future.done()
    with pytest.raises(ZeroDivisionError):
        dj.jit.fork(lambda: 1 / 0)


def test_settings_are_accepted() -> None:
    dj.jit.enable_onednn_fusion(True)
    assert not dj.jit.onednn_fusion_enabled()
    assert dj.jit.set_fusion_strategy([("STATIC", 2)]) == []
    with dj.jit.optimized_execution(False):
        assert dj.ones(1).item() == 1


def test_files_of_torchscript_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="state_dict"):
        dj.jit.load("model.pt")
    with pytest.raises(UnsupportedError, match="state_dict"):
        dj.jit.save(MODULE, "model.pt")
