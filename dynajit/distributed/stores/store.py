"""Keys and values that processes share, by PyTorch's names.

Contract: a value is text or bytes and is read as bytes; `get` and `wait` wait for keys that are not
there yet. Stores of other processes see what one sets as soon as the call returns.
"""

import weakref
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from dynajit.core.errors import DistNetworkError, DistStoreError, InvalidValueError
from dynajit.distributed.stores.files import FileKeeper
from dynajit.distributed.stores.keepers import Keeper, MemoryKeeper, PrefixedKeeper
from dynajit.distributed.stores.network import NetworkKeeper, Server

DEFAULT_TIMEOUT: Final = timedelta(seconds=300)
"""How long a key is waited for where nothing else is said. Source: PyTorch."""


class Store:
    """Keys with values: the base of stores. Mutable.

    Args:
        keeper: has the keys.
        timeout: how long keys are waited for.
    """

    def __init__(self, keeper: Keeper, timeout: timedelta = DEFAULT_TIMEOUT) -> None:
        self._keeper = keeper
        self._timeout = timeout

    @property
    def timeout(self) -> timedelta:
        """How long keys are waited for."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Say how long keys are waited for."""
        self._timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Give a key a value."""
        self._keeper.write(key, _as_bytes(value))

    def get(self, key: str) -> bytes:
        """The value of a key, waited for.

        Raises:
            DistStoreError: it was not there in time.
        """
        while True:
            found = self._keeper.read(key)
            if found is not None:
                return found
            self.wait([key])

    def add(self, key: str, amount: int) -> int:
        """Add to the number that a key has, 0 if it has none, and give the sum.

        Raises:
            DistStoreError: it has no number.
        """
        return self._keeper.add(key, amount)

    def append(self, key: str, value: str | bytes) -> None:
        """Put bytes behind those that a key has."""
        self._keeper.append(key, _as_bytes(value))

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes
    ) -> bytes:
        """Set a key that has the expected value, or no value where "" is expected.

        Returns:
            What the key has then; `expected_value` where it has nothing.
        """
        return self._keeper.compare_set(key, _as_bytes(expected_value), _as_bytes(desired_value))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are there.

        Raises:
            DistStoreError: they were not in time.
        """
        limit = self._timeout if timeout is None else timeout
        if not self._keeper.await_keys(list(keys), limit.total_seconds()):
            missing = [key for key in keys if not self._keeper.has([key])]
            raise DistStoreError(
                f"wait timeout after {limit.total_seconds() * 1000:.0f}ms, keys: "
                f"{', '.join(missing)}.  Expected another process to set them: it has not come so "
                "far, or has ended.  timeout= gives it more time."
            )

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""
        return self._keeper.has(list(keys))

    def delete_key(self, key: str) -> bool:
        """Forget a key; whether there was one."""
        return self._keeper.delete(key)

    def num_keys(self) -> int:
        """The number of keys."""
        return self._keeper.count()

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of several keys, waited for.

        Raises: as of `get`.
        """
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Iterable[str | bytes]) -> None:
        """Give several keys values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Whether `append`, `multi_get` and `multi_set` are here: True."""
        return True


class HashStore(Store):
    """Keys in memory, for the threads of one process."""

    def __init__(self) -> None:
        super().__init__(MemoryKeeper())


class FileStore(Store):
    """Keys in a file that processes share, by locks of their file system.

    Args:
        file_name: its path. Programs give another one to each run, or remove it before: keys stay.
        world_size: accepted.

    Raises:
        DistStoreError: it cannot be written.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        self._path = str(file_name)
        super().__init__(FileKeeper(self._path))

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._path


class TCPStore(Store):
    """Keys that one process serves to others over a network that is theirs alone.

    Args:
        host_name, port: where processes reach the one that serves; it may give 0 for a free port.
        world_size: how many processes there are, if the one that serves waits for them.
        is_master: this process serves.
        timeout: how long processes, and keys, are waited for.
        wait_for_workers: whether the process that serves waits for `world_size` processes, itself
            among them.
        multi_tenant, master_listen_fd, use_libuv: accepted.

    Raises:
        DistNetworkError: the port is in use, no process serves, or others did not come in time.
        InvalidValueError: the port is none.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        if not 0 <= port < 65536 or (port == 0 and not is_master):
            raise InvalidValueError(
                f"TCPStore(port={port}): expected a port from {0 if is_master else 1} to 65535."
            )
        self._host = host_name
        self._port = port
        limit = timeout.total_seconds()
        if not is_master:
            keeper = NetworkKeeper(host_name, port, limit)
            keeper.join()
            super().__init__(keeper, timeout)
            return
        server = Server(host_name, port)
        weakref.finalize(self, server.close)
        self._port = server.server_address[1]
        super().__init__(server.keeper, timeout)
        server.keeper.join()
        wanted = world_size if world_size is not None and wait_for_workers else 1
        if not server.keeper.await_joined(wanted, limit):
            raise DistNetworkError(
                f"TCPStore({host_name!r}, {self._port}): {server.keeper.joined} of {wanted} "
                f"processes came within {limit:g} s.  Expected all.  Start the others, or give "
                "wait_for_workers=False."
            )

    @property
    def host(self) -> str:
        """Where the process is that serves."""
        return self._host

    @property
    def port(self) -> int:
        """The port that it serves."""
        return self._port


class PrefixStore(Store):
    """The keys of another store that start with a prefix.

    Args:
        prefix: put in front of keys, with "/".
        store: has the keys.
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__(PrefixedKeeper(f"{prefix}/", store._keeper), store.timeout)
        self._store = store

    @property
    def underlying_store(self) -> Store:
        """The other store."""
        return self._store


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
