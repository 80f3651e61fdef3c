"""Messages between launcher, supervisors and programs: JSON, one per line, over sockets.

Contract: a message is a dict of texts, numbers, lists and None whose `"what"` says its kind; the
kinds stand below. Nothing is unpickled.
"""

import json
import socket
from typing import Any, Final

Message = dict[str, Any]

# From a rank to the launcher.
HELLO: Final = "hello"
"""The first one: `token`, `rank`, `pid` of the program, `host`."""
FINISHED: Final = "finished"
"""The program came to its end; the process may still wait in `MPI_Finalize`."""
FAILED: Final = "failed"
"""The program raised or called `sys.exit`: `time`, `code`, `text` (the traceback), `error`."""
WAITING: Final = "waiting"
"""The program waits for other ranks: `place`, a text, or None when it goes on."""
ENDED: Final = "ended"
"""The process has ended: `code`, negative for a signal."""

# From the launcher to a rank.
SIGNAL: Final = "signal"
"""Send `number` to the program."""
STOP: Final = "stop"
"""End the program: SIGTERM, and SIGKILL `grace_s` later."""
WATCH: Final = "watch"
"""A rank has ended: say where the program waits."""
LEAVE: Final = "leave"
"""All programs have ended; so may the supervisor."""


class Link:
    """One end of a connection. Mutable: keeps the beginning of a line.

    Args:
        connection: a stream socket.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._rest = b""

    def fileno(self) -> int:
        """For selectors."""
        return self.connection.fileno()

    def send(self, what: str, **values: Any) -> None:
        """Send a message; nothing happens if the other end is gone."""
        try:
            self.connection.sendall(json.dumps({"what": what, **values}).encode() + b"\n")
        except OSError:
            return

    def receive(self) -> list[Message] | None:
        """Whole messages that have come, waiting for more bytes.

        None: the other end is gone, or does not speak this language.
        """
        try:
            data = self.connection.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        try:
            messages = [json.loads(line) for line in lines]
        except ValueError:
            return None
        are_messages = all(isinstance(message, dict) and "what" in message for message in messages)
        return messages if are_messages else None

    def close(self) -> None:
        """Close the socket."""
        self.connection.close()
