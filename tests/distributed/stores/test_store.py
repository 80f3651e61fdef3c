"""Stores: what PyTorch's give, between threads, processes and over a network."""

import contextlib
import multiprocessing
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import dynajit.distributed as dist

SOON = timedelta(seconds=0.2)


def stores_of(library: Any, folder: Path) -> dict[str, Callable[[], Any]]:
    """Makers of one store of every kind."""
    return {
        "hash": library.HashStore,
        "file": lambda: library.FileStore(str(folder / "keys"), 1),
        "tcp": lambda: library.TCPStore("localhost", 0, 1, True),
        "prefix": lambda: library.PrefixStore("a", library.HashStore()),
    }


KINDS = ["hash", "file", "tcp", "prefix"]


def transcript(store: Any, is_extended: bool = True) -> list[Any]:
    """Answers of a store to everything that it can be asked."""
    store.set("a", "1")
    store.set("b", b"\x00\xff")
    found = [store.get("a"), store.get("b"), store.add("n", 3), store.add("n", -5)]
    found += [store.get("n"), store.add("a", 10), store.check(["a", "b"]), store.check(["a", "z"])]
    found += [store.compare_set("c", "", "x"), store.get("c")]
    found += [store.compare_set("c", "y", "z"), store.get("c")]
    found += [store.compare_set("c", "x", "z"), store.get("c")]
    found += [store.compare_set("d", "y", "z"), store.check(["d"])]
    if is_extended:
        store.multi_set(["e", "f"], ["1", "2"])
        store.append("e", "3")
        store.append("g", "4")
        found += store.multi_get(["e", "f", "g"])
    store.wait(["a"], SOON)
    store.set_timeout(timedelta(seconds=7))
    return [*found, store.timeout]


@pytest.mark.parametrize("kind", KINDS)
def test_stores_answer_as_pytorchs(kind: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    ours = stores_of(dist, tmp_path / "ours")[kind]()
    theirs = stores_of(torch.distributed, tmp_path / "theirs")[kind]()
    is_extended = theirs.has_extended_api()
    assert transcript(theirs, is_extended) == transcript(ours, is_extended)


@pytest.mark.parametrize("kind", KINDS)
def test_keys_are_deleted_and_counted(kind: str, tmp_path: Path) -> None:
    store = stores_of(dist, tmp_path)[kind]()
    store.set("a", "1")
    store.set("b", "2")
    assert (2, True, False, 1) == (
        store.num_keys(), store.delete_key("a"), store.delete_key("a"), store.num_keys(),
    )  # fmt: skip
    store.set("a", "3")
    assert b"3" == store.get("a")


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_does_not_come_is_named(kind: str, tmp_path: Path) -> None:
    store = stores_of(dist, tmp_path)[kind]()
    store.set("here", "1")
    store.set_timeout(SOON)
    for call in (lambda: store.get("gone"), lambda: store.wait(["here", "gone"], SOON)):
        started = time.monotonic()
        with pytest.raises(dist.DistStoreError, match=r"timeout after 200ms, keys: gone\."):
            call()
        assert 0.15 < time.monotonic() - started < 5
    with pytest.raises(dist.DistStoreError, match="is no number"):
        store.set("text", "x")
        store.add("text", 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_is_waited_for(kind: str, tmp_path: Path) -> None:
    store = stores_of(dist, tmp_path)[kind]()
    later = threading.Timer(0.1, lambda: store.set("late", "1"))
    later.start()
    assert b"1" == store.get("late")
    later.join()


def _count(kind: str, place: Any, turns: int) -> None:
    store = dist.FileStore(place) if kind == "file" else dist.TCPStore("localhost", place)
    for _ in range(turns):
        store.add("n", 1)
    store.append("done", b"x")


@pytest.mark.parametrize("kind", ["file", "tcp"])
def test_processes_lose_no_update(kind: str, tmp_path: Path) -> None:
    """Of 2 processes and this one."""
    path = str(tmp_path / "keys")
    store = dist.FileStore(path) if kind == "file" else dist.TCPStore("localhost", 0, 1, True)
    place = path if isinstance(store, dist.FileStore) else store.port
    spawned = multiprocessing.get_context("spawn")
    others = [spawned.Process(target=_count, args=(kind, place, 50)) for _ in range(2)]
    for other in others:
        other.start()
    _count(kind, place, 50)
    for other in others:
        other.join(60)
    assert (b"150", b"xxx") == (store.get("n"), store.get("done"))


def test_stores_with_one_prefix_share_keys() -> None:
    whole = dist.HashStore()
    first, second = dist.PrefixStore("p", whole), dist.PrefixStore("p", whole)
    first.set("k", "v")
    assert (b"v", b"v", False) == (second.get("k"), whole.get("p/k"), whole.check(["k"]))
    assert first.underlying_store is whole
    assert b"v" == dist.PrefixStore("", dist.PrefixStore("p", whole)).underlying_store.get("k")


def test_a_port_in_use_is_said() -> None:
    taken = dist.TCPStore("localhost", 0, 1, True)
    with pytest.raises(dist.DistNetworkError, match=f"port {taken.port} .*Expected a free port"):
        dist.TCPStore("localhost", taken.port, 1, True)


def test_a_server_that_is_not_there_is_said() -> None:
    with socket.socket() as other:
        other.bind(("localhost", 0))
        port = other.getsockname()[1]
    with pytest.raises(dist.DistNetworkError, match=r"no server answers within 0\.2 s"):
        dist.TCPStore("localhost", port, timeout=SOON)
    with pytest.raises(ValueError, match="from 1 to 65535"):
        dist.TCPStore("localhost", 0)
    with pytest.raises(dist.DistNetworkError, match="1 of 2 processes came"):
        dist.TCPStore("localhost", 0, 2, True, timeout=SOON)


def test_what_is_no_message_is_not_answered() -> None:
    """And the server goes on."""
    store = dist.TCPStore("localhost", 0, 1, True)
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 8, b"\xff" * 64):
        with socket.create_connection(("localhost", store.port), timeout=5) as connection:
            connection.sendall(garbage)
            with contextlib.suppress(OSError):  # the server may have closed it
                connection.shutdown(socket.SHUT_WR)
                assert b"" == connection.recv(1)
    other = dist.TCPStore("localhost", store.port)
    other.set("k", "v")
    assert b"v" == store.get("k")


def test_a_server_that_ended_is_said() -> None:
    store = dist.TCPStore("localhost", 0, 1, True)
    other = dist.TCPStore("localhost", store.port)
    server = store._keeper
    del store
    connection = other._keeper._socket
    connection.shutdown(socket.SHUT_RDWR)
    with pytest.raises(dist.DistNetworkError, match="connection to the server is lost"):
        other.set("k", "v")
    assert server.read("k") is None


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(dist.DistStoreError, match="cannot be opened"):
        dist.FileStore(str(tmp_path / "missing" / "keys"))


def test_processes_meet_by_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, rank, size = next(iter(dist.rendezvous(f"file://{tmp_path}/keys?rank=1&world_size=3")))
    store.set("k", "v")
    assert (1, 3, b"v") == (rank, size, dist.FileStore(str(tmp_path / "keys")).get("k"))
    with socket.socket() as other:
        other.bind(("localhost", 0))
        port = other.getsockname()[1]
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", str(port))
    store, rank, size = next(iter(dist.rendezvous("env://", rank=0, world_size=1)))
    assert (0, 1, port) == (rank, size, store.port)
    with pytest.raises(ValueError, match="expected env://"):
        next(iter(dist.rendezvous("smoke://x", rank=0, world_size=1)))


def test_a_group_is_made_with_a_store() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    assert 1 == dist.get_world_size()
    dist.destroy_process_group()
    with pytest.raises(AssertionError, match="with a store"):
        dist.init_process_group("gloo", store=dist.HashStore())
