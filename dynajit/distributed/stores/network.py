"""Keys that one process serves to others over TCP.

Contract: a message is fields, each its length in 8 bytes and its bytes: the name of an operation
and what it takes, or "ok" or "error" and what it gives. Messages are taken apart and never run;
whoever reaches the port can read and change keys, so it belongs in a network of one's own.
"""

import os
import socket
import socketserver
import struct
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Final

from dynajit.core.errors import DistNetworkError, DistStoreError
from dynajit.distributed.stores.keepers import MemoryKeeper

_LENGTH: Final = struct.Struct("!Q")

#: Bytes of a field, above which a message is not one of ours.
_LARGEST: Final = 1 << 32
_MOST_FIELDS: Final = 1 << 20

#: Seconds between two attempts to reach a server that may not have started.
_INTERVAL: Final = 0.05


class CountingKeeper(MemoryKeeper):
    """Keys in memory, and how many processes have joined. Mutable."""

    def __init__(self) -> None:
        super().__init__()
        self._joined = 0

    def join(self) -> None:
        """Count a process."""
        with self._condition:
            self._joined += 1
            self._condition.notify_all()

    def await_joined(self, count: int, limit: float) -> bool:
        """Whether so many processes have joined within some seconds."""
        with self._condition:
            return self._condition.wait_for(lambda: self._joined >= count, timeout=limit)

    @property
    def joined(self) -> int:
        """How many processes have joined."""
        return self._joined


def _truth(value: bool) -> bytes:
    return b"1" if value else b""


def _read(keeper: CountingKeeper, fields: Sequence[bytes]) -> list[bytes]:
    found = keeper.read(fields[0].decode())
    return [] if found is None else [found]


def _write(keeper: CountingKeeper, fields: Sequence[bytes]) -> list[bytes]:
    keeper.write(fields[0].decode(), fields[1])
    return []


def _append(keeper: CountingKeeper, fields: Sequence[bytes]) -> list[bytes]:
    keeper.append(fields[0].decode(), fields[1])
    return []


def _join(keeper: CountingKeeper, fields: Sequence[bytes]) -> list[bytes]:
    keeper.join()
    return []


_OPERATIONS: Final[dict[bytes, Callable[[CountingKeeper, Sequence[bytes]], list[bytes]]]] = {
    b"join": _join,
    b"read": _read,
    b"write": _write,
    b"append": _append,
    b"add": lambda keeper, f: [b"%d" % keeper.add(f[0].decode(), int(f[1]))],
    b"compare_set": lambda keeper, f: [keeper.compare_set(f[0].decode(), f[1], f[2])],
    b"delete": lambda keeper, f: [_truth(keeper.delete(f[0].decode()))],
    b"count": lambda keeper, f: [b"%d" % keeper.count()],
    b"has": lambda keeper, f: [_truth(keeper.has([key.decode() for key in f]))],
    b"await": lambda keeper, f: [
        _truth(keeper.await_keys([key.decode() for key in f[1:]], float(f[0])))
    ],
}


class _Handler(socketserver.BaseRequestHandler):
    """Answers one process, in a thread of its own."""

    def handle(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert isinstance(self.server, Server)
        while True:
            try:
                name, *fields = _received(self.request)
            except (OSError, ValueError):  # the process ended, or sends something else
                return
            try:
                answer = [b"ok", *_OPERATIONS[name](self.server.keeper, fields)]
            except DistStoreError as error:
                answer = [b"error", str(error).encode()]
            except (KeyError, IndexError, ValueError):  # no message of ours
                return
            try:
                _send(self.request, answer)
            except OSError:
                return


class Server(socketserver.ThreadingTCPServer):
    """Serves the keys of this process until it is closed.

    Args:
        host: where others reach this process; "localhost" is reached by this machine alone.
        port: 0 for one that is free.

    Raises:
        DistNetworkError: the port is in use, or this process may not have it.
    """

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int) -> None:
        self.keeper = CountingKeeper()
        address = host if host in ("localhost", "127.0.0.1") else ""
        try:
            super().__init__((address, port), _Handler)
        except OSError as error:
            raise DistNetworkError(
                f"TCPStore({host!r}, {port}): the server socket cannot listen on port {port} "
                f"({error.strerror}).  Expected a free port.  Another program, or an earlier run "
                "of this one, has it: give another port, or 0 for any that is free."
            ) from error
        threading.Thread(
            target=self.serve_forever, args=(0.1,), name="dynajit-store", daemon=True
        ).start()

    def close(self) -> None:
        """Stop serving."""
        self.shutdown()
        self.server_close()


class NetworkKeeper:
    """Keys that another process serves. Mutable: it has a connection, one in each process.

    Args:
        host, port: of the server.
        limit: seconds until it must have answered.

    Raises:
        DistNetworkError: it did not.
    """

    def __init__(self, host: str, port: int, limit: float) -> None:
        self._address = (host, port)
        self._limit = limit
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._socket = self._connected()

    def join(self) -> None:
        """Tell the server that this process is there."""
        self._ask(b"join")

    def read(self, key: str) -> bytes | None:
        """As of `Keeper`."""
        found = self._ask(b"read", key.encode())
        return found[0] if found else None

    def write(self, key: str, value: bytes) -> None:
        """As of `Keeper`."""
        self._ask(b"write", key.encode(), value)

    def add(self, key: str, amount: int) -> int:
        """As of `Keeper`."""
        return int(self._ask(b"add", key.encode(), b"%d" % amount)[0])

    def append(self, key: str, value: bytes) -> None:
        """As of `Keeper`."""
        self._ask(b"append", key.encode(), value)

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        """As of `Keeper`."""
        return self._ask(b"compare_set", key.encode(), expected, desired)[0]

    def delete(self, key: str) -> bool:
        """As of `Keeper`."""
        return bool(self._ask(b"delete", key.encode())[0])

    def count(self) -> int:
        """As of `Keeper`."""
        return int(self._ask(b"count")[0])

    def has(self, keys: Sequence[str]) -> bool:
        """As of `Keeper`."""
        return bool(self._ask(b"has", *(key.encode() for key in keys))[0])

    def await_keys(self, keys: Sequence[str], limit: float) -> bool:
        """As of `Keeper`."""
        names = (key.encode() for key in keys)
        return bool(self._ask(b"await", repr(limit).encode(), *names)[0])

    def _connected(self) -> socket.socket:
        end = time.monotonic() + self._limit
        while True:
            try:
                found = socket.create_connection(self._address, timeout=max(self._limit, 1.0))
            except OSError as error:
                if time.monotonic() > end:
                    host, port = self._address
                    raise DistNetworkError(
                        f"TCPStore({host!r}, {port}): no server answers within {self._limit:g} s "
                        f"({error}).  Expected one process with is_master=True that others reach "
                        "by this name and port."
                    ) from error
                time.sleep(_INTERVAL)
                continue
            weakref.finalize(self, found.close)
            found.settimeout(None)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return found

    def _ask(self, *fields: bytes) -> list[bytes]:
        with self._lock:
            if self._process != os.getpid():  # forked: the connection is the parent's
                self._process, self._socket = os.getpid(), self._connected()
            try:
                _send(self._socket, fields)
                status, *found = _received(self._socket)
            except (OSError, ValueError) as error:
                host, port = self._address
                raise DistNetworkError(
                    f"TCPStore({host!r}, {port}): the connection to the server is lost ({error})."
                    "  The process that serves the keys has ended."
                ) from error
        if status != b"ok":
            raise DistStoreError(found[0].decode())
        return found


def _send(connection: socket.socket, fields: Sequence[bytes]) -> None:
    parts = [_LENGTH.pack(len(fields))]
    for field in fields:
        parts += [_LENGTH.pack(len(field)), field]
    connection.sendall(b"".join(parts))


def _received(connection: socket.socket) -> list[bytes]:
    """The fields of a message.

    Raises:
        OSError: the other side has closed the connection.
        ValueError: this is no message.
    """
    count = _length(connection, _MOST_FIELDS)
    if not count:
        raise ValueError("a message without fields")
    return [_bytes(connection, _length(connection, _LARGEST)) for _ in range(count)]


def _length(connection: socket.socket, most: int) -> int:
    (found,) = _LENGTH.unpack(_bytes(connection, _LENGTH.size))
    if found > most:
        raise ValueError(f"a length of {found}")
    return int(found)


def _bytes(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise ConnectionResetError("closed by the other side")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
