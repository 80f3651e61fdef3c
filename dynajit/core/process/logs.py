"""What the compiler says while it works, through `logging` and, for those who only want to look, on
stderr.

Contract: each channel (`config.CHANNELS`) is the logger `dynajit.<channel>`; what is short is said
at level INFO, what is long at DEBUG. A channel that `Config.log` names (`DYNAJIT_LOG`, `set_logs`)
is printed on stderr, whatever loggers are set to, each line marked with the channel. Texts are made
by the caller, who asks `is_on` first where that takes time.
"""

import logging
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dynajit.core.process import config
from dynajit.core.quoting import on_a_terminal

LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {
        name: logging.DEBUG if name in ("guards", "graph", "kernels") else logging.INFO
        for name in config.CHANNELS
    }
)
"""Of the loggers' records, by channel."""

_LOGGERS: Final = {name: logging.getLogger(f"dynajit.{name}") for name in sorted(config.CHANNELS)}


def is_printed(channel: str) -> bool:
    """Whether the configuration asks for the channel."""
    asked = config.current().log
    return channel in asked or any(config.CHANNEL_ALIASES.get(name) == channel for name in asked)


def is_on(channel: str) -> bool:
    """Whether anybody gets to see what is written to the channel."""
    return is_printed(channel) or _LOGGERS[channel].isEnabledFor(LEVELS[channel])


def write(channel: str, text: str) -> None:
    """Print `text` if the configuration asks for the channel, and give it to the logger."""
    if is_printed(channel):
        for line in on_a_terminal(text).splitlines():
            print(f"dynajit {channel}: {line}", file=sys.stderr)
    _LOGGERS[channel].log(LEVELS[channel], "%s", text, stacklevel=2)
