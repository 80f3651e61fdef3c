"""Backends by name: built in, PyTorch's, and the program's own."""

import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentError
from dynajit.driver import registered_backends


@pytest.fixture(autouse=True)
def _no_others(monkeypatch):
    monkeypatch.setattr(registered_backends, "_registered", {})


def plain(module, examples):
    return module


@pytest.mark.parametrize(("name", "ours"), [("inductor", "native"), ("aot_eager", "eager")])
def test_pytorchs_names_mean_backends_of_ours(name, ours) -> None:
    explanation = dj.explain(lambda x: x * 2, backend=name)(dj.ones(2))

    assert [ours] == [record.backend for record in explanation.records]
    assert [2.0, 2.0] == dj.compile(lambda x: x * 2, backend=name)(dj.ones(2)).tolist()


def test_a_registered_backend_is_found_by_its_name() -> None:
    assert plain is dj.register_backend(plain)

    @dj.register_backend(name="second", tags=("experimental",))
    def other(module, examples):
        return module

    built_in = ["native", "numpy", "eager", "cuda", "inductor", "aot_eager"]
    assert [*built_in, "plain", "second"] == dj.list_backends()
    assert [*built_in, "plain"] == dj.list_backends(exclude_tags=("debug", "experimental"))
    for name in ("plain", "second"):
        assert [3.0] == dj.compile(lambda x: x + 1, backend=name)(dj.tensor([2.0])).tolist()


def test_a_name_means_one_backend() -> None:
    dj.register_backend(plain)
    dj.register_backend(plain)
    for name in ("plain", "native", "inductor"):
        with pytest.raises(ArgumentError, match="another backend has this name"):
            dj.register_backend(lambda module, examples: module, name=name)


def test_what_is_no_backend_is_refused() -> None:
    with pytest.raises(ArgumentError, match="expected what can be called"):
        dj.register_backend(3)
    with pytest.raises(ArgumentError, match="Give name="):
        dj.register_backend(type("Nameless", (), {"__call__": plain})())
    with pytest.raises(RuntimeError, match=r"Expected one of native, .*aot_eager, or a callable"):
        dj.compile(lambda x: x, backend="nativ")


def test_verification_is_of_generated_kernels_whatever_they_are_called() -> None:
    dj.compile(lambda x: x, backend="inductor", options={"verify": True})
    with pytest.raises(ArgumentError, match="only the kernels"):
        dj.compile(lambda x: x, backend="aot_eager", options={"verify": True})
