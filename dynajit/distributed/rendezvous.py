"""Where processes meet: a store, a rank and a world size from one URL.

Contract: "env://" reads MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE; "tcp://host:port" and
"file:///path" say the rank and the number of processes by "?rank=0&world_size=2", or the caller
does.
"""

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from dynajit.core.errors import InvalidValueError
from dynajit.distributed.channels import mpi
from dynajit.distributed.stores.store import DEFAULT_TIMEOUT, FileStore, Store, TCPStore


def rendezvous(
    url: str,
    rank: int = -1,
    world_size: int = -1,
    timeout: timedelta = DEFAULT_TIMEOUT,
    **kwargs: Any,
) -> Iterator[tuple[Store, int, int]]:
    """A store with the rank of this process and the number of all; gives one of them.

    Raises:
        InvalidValueError: nothing says who this process is or where the others are, or the URL is
            of another kind.
        DistNetworkError, DistStoreError: as of the stores.
    """
    size, place = announced(url, world_size, rank)
    parts = urlsplit(url)
    if parts.scheme == "file":
        store: Store = FileStore(parts.netloc + parts.path, size)
        store.set_timeout(timeout)
    elif parts.scheme == "tcp" and parts.hostname and parts.port is not None:
        store = TCPStore(parts.hostname, parts.port, size, place == 0, timeout)
    elif parts.scheme == "env":
        host, port = _of_environment("MASTER_ADDR"), int(_of_environment("MASTER_PORT"))
        store = TCPStore(host, port, size, place == 0, timeout)
    else:
        raise InvalidValueError(
            f"rendezvous({url!r}): expected env://, tcp://HOST:PORT or file:///PATH."
        )
    yield store, place, size


def announced(url: str, size: int, place: int) -> tuple[int, int]:
    """World size and rank, as given, or where they are negative from a URL or the environment.

    Raises:
        InvalidValueError: nothing says them.
    """
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    ask = _from_environment if parts.scheme == "env" else _missing
    place = _number(place, query, "rank", ask, parts.scheme)
    return _number(size, query, "world_size", ask, parts.scheme), place


def has_address(url: str) -> bool:
    """Whether a URL, or the environment for it, says where processes meet."""
    parts = urlsplit(url)
    if parts.scheme == "env":
        return "MASTER_ADDR" in os.environ and "MASTER_PORT" in os.environ
    return parts.scheme == "file" or (parts.scheme == "tcp" and parts.port is not None)


def _number(
    given: int, query: dict[str, str], name: str, ask: Callable[[str, str], str], scheme: str
) -> int:
    if given >= 0:
        return given
    return int(query[name] if name in query else ask(name, scheme))


def _from_environment(name: str, scheme: str) -> str:
    found = os.environ.get(name.upper())
    if found is not None:
        return found
    started = mpi.announced()
    if started is None:
        raise InvalidValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable "
            f"{name.upper()} expected, but not set"
        )
    return str(started[0 if name == "world_size" else 1])


def _missing(name: str, scheme: str) -> str:
    raise InvalidValueError(
        f"Error initializing torch.distributed using {scheme}:// rendezvous: {name} parameter "
        "missing"
    )


def _of_environment(name: str) -> str:
    found = os.environ.get(name)
    if found is None:
        raise InvalidValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable "
            f"{name} expected, but not set"
        )
    return found


__all__ = ["rendezvous"]
