"""Channels between processes that tell tests what goes through them."""

from typing import Any


class Counting:
    """A channel that counts what is started, by name."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self.counts: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._channel, name)
        if not callable(found):
            return found

        def counted(*arguments: Any, **keywords: Any) -> Any:
            self.counts[name] = self.counts.get(name, 0) + 1
            return found(*arguments, **keywords)

        return counted
