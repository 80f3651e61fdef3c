"""Storages against PyTorch's: what programs ask of the memory behind tensors."""

import pathlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dynajit as dj

torch = pytest.importorskip("torch", reason="PyTorch is the oracle")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """PyTorch says of each storage with a dtype that it is deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return next(c for c in (IndexError, TypeError, RuntimeError) if isinstance(error, c))


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "of one memory": lambda L, a: a.storage().data_ptr() == a[2:].storage().data_ptr(),
    "where": lambda L, a: a[2:].data_ptr() - a.storage().data_ptr(),
    "sizes": lambda L, a: [f(a[2:].storage()) for f in (len, lambda s: s.size())],
    "bytes": lambda L, a: (a.storage().nbytes(), a.storage().element_size()),
    "type": lambda L, a: (a.storage().type(), str(a.storage().dtype).split(".")[-1]),
    "class": lambda L, a: isinstance(a.storage(), L.LongStorage),
    "another class": lambda L, a: isinstance(a.storage(), L.FloatStorage),
    "is storage": lambda L, a: (L.is_storage(a.storage()), L.is_storage(a.untyped_storage())),
    "list": lambda L, a: a[1:3].storage().tolist(),
    "list of bytes": lambda L, a: a[1:3].untyped_storage().tolist(),
    "item": lambda L, a: (a[1:3].storage()[3], a.storage()[-1], a.untyped_storage()[8]),
    "item beyond": lambda L, a: a.storage()[5],
    "byte beyond": lambda L, a: a.untyped_storage()[40],
    "part": lambda L, a: a.storage()[1:3],
    "part of bytes": lambda L, a: a.untyped_storage()[8:10].tolist(),
    "convert": lambda L, a: (a.storage().float().tolist(), a.storage().float().type()),
    "made": lambda L, a: L.FloatStorage([1, 2]).tolist() + L.BoolStorage([1, 0]).tolist(),
    "made by size": lambda L, a: (L.DoubleStorage(3).size(), L.UntypedStorage(3).nbytes()),
    "made of bytes": lambda L, a: L.UntypedStorage([1, 2]).tolist(),
    "made of integers that wrap": lambda L, a: L.UntypedStorage((-1, 256, True)).tolist(),
    "made of a range": lambda L, a: L.UntypedStorage(range(3)).tolist(),
    "iterated": lambda L, a: list(a.storage()),
    "clone": lambda L, a: (a.storage().clone().fill_(1).tolist(), a.tolist()),
    "untyped": lambda L, a: a.storage().untyped().data_ptr() == a.untyped_storage().data_ptr(),
    "device": lambda L, a: (str(a.storage().device), a.storage().is_cuda, a.storage().cpu()[1]),
    "set to a storage": lambda L, a: _shown(L.zeros(0, dtype=L.int64).set_(a.storage())),
    "set to bytes": lambda L, a: _shown(L.zeros(0).set_(a.untyped_storage())),
    "set to a tensor": lambda L, a: _shown(L.zeros(0, dtype=L.int64).set_(a[1:])),
    "set to nothing": lambda L, a: _shown(a.set_()),
    "set to a part": lambda L, a: _shown(a.clone().set_(a.storage(), 1, (2, 2), (2, 1))),
    "set to rows": lambda L, a: _shown(a.clone().set_(a[1:].storage(), 1, (2, 2))),
    "set to a part of a tensor": lambda L, a: _shown(a.clone().set_(a[2:], 0, (2,), (2,))),
    "set to another dtype": lambda L, a: a.set_(L.zeros(2)),
    "set to a storage of another dtype": lambda L, a: a.set_(L.zeros(2).storage()),
    "set of a leaf": lambda L, a: L.zeros(2, requires_grad=True).set_(L.zeros(3)),
}


def _shown(x: Any) -> Any:
    return x.tolist(), tuple(x.stride()), x.storage_offset()


@pytest.mark.parametrize("name", PROGRAMS)
def test_storages_are_pytorchs(name: str) -> None:
    program = PROGRAMS[name]
    assert _outcome(lambda: program(torch, torch.arange(5))) == _outcome(
        lambda: program(dj, dj.arange(5))
    )


@pytest.mark.parametrize("given", [-1, "a", [1.5], ["1"], None, True, 2.5, {1: 2}], ids=repr)
def test_what_gives_no_bytes_is_refused(given: Any) -> None:
    for library in (torch, dj):
        with pytest.raises(RuntimeError):
            library.UntypedStorage(given)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "complex64", "int8"])
def test_elements_are_written_where_tensors_see_them(dtype: str) -> None:
    def program(L: Any) -> Any:
        a = L.arange(6).reshape(2, 3).to(getattr(L, dtype))
        storage = a.t()[1:].storage()
        storage[0] = 1
        storage.untyped()[3] = 0
        storage.copy_(storage.clone())
        b = L.zeros(6, dtype=getattr(L, dtype))
        b.storage().copy_(storage)
        return a.tolist(), b.tolist()

    assert program(torch) == program(dj)


def test_what_is_set_shares_memory_and_keeps_the_tensor() -> None:
    def program(L: Any) -> Any:
        a, b = L.zeros(2), L.arange(6.0)
        before, view = a._version, a.view(1, 2)
        a.set_(b.storage(), 2, (2,), (3,))
        a.add_(10)
        return a.tolist(), b.tolist(), view.tolist(), a._version > before, a.is_contiguous()

    assert program(torch) == program(dj)


def test_memory_does_not_grow() -> None:
    """PyTorch makes a storage larger for `set_` and `resize_`: undefined elements, here refused."""
    a = dj.arange(5)
    with pytest.raises(RuntimeError, match="out of bounds"):
        a.set_(a.storage(), 3, (3,), (1,))
    with pytest.raises(RuntimeError, match="cannot get"):
        a.untyped_storage().resize_(80)
    assert 5 == a.storage().resize_(5).size()


def test_files_are_mapped(tmp_path: pathlib.Path) -> None:
    def program(L: Any) -> Any:
        path = str(tmp_path / L.__name__)
        kept = L.LongStorage.from_file(path, shared=True, size=3)
        kept[1] = 7
        seen = L.LongStorage.from_file(path, False, size=3)
        seen[0] = 5
        raw = L.UntypedStorage.from_file(path, True, 24)
        with pytest.raises(RuntimeError):
            L.LongStorage.from_file(path, False, size=4)
        return kept.tolist(), seen.tolist(), raw.tolist()

    assert program(torch) == program(dj)


def test_a_compiled_function_may_ask_for_the_storage() -> None:
    def function(x: Any) -> Any:
        y = x[1:]
        return y * 2, x.storage().data_ptr() == y.storage().data_ptr()

    x = dj.arange(3.0)
    doubled, is_same = dj.compile(function)(x)
    assert ([2.0, 4.0], True) == (doubled.tolist(), is_same)
