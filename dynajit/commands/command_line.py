"""The command line: which commands there are, and what their errors look like.

Contract: `main(arguments)` runs one command and returns the exit status: 0, 1 where the command
could not do what was asked, 2 for arguments that are not understood. Whatever the library refuses
is one sentence on stderr.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn, Protocol

from dynajit.commands import bench, cache, demo, doctor, explain
from dynajit.commands.screen import say
from dynajit.compat import version
from dynajit.core.errors import DynajitError

INTERRUPTED: Final = 130
"""Exit status after Ctrl-C: 128 and the signal's number, as shells have it."""
NOT_UNDERSTOOD: Final = 2


class Command(Protocol):
    """What a module of this room offers."""

    @property
    def ABOUT(self) -> str:
        """What it does, in a line."""

    def add_arguments(self, parser: argparse.ArgumentParser, /) -> None:
        """Describe the arguments."""

    def run(self, asked: argparse.Namespace, /) -> int:
        """Do it; returns the exit status."""


COMMANDS: Final[dict[str, Command]] = {
    "demo": demo,
    "doctor": doctor,
    "explain": explain,
    "bench": bench,
    "cache": cache,
}


class _Parser(argparse.ArgumentParser):
    """Its errors say where help is."""

    def error(self, message: str) -> NoReturn:
        self.exit(NOT_UNDERSTOOD, f"{self.prog}: {message}.  Try: {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: of the command line, without the program's name; those of the process for None.
            What follows `--` is a script's own.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    own, behind = _split(given)
    try:
        asked = _parser().parse_args(own)
        asked.behind = behind
        if behind and not hasattr(asked, "script"):
            raise SystemExit(_refuse(asked.command))
    except SystemExit as end:
        return int(end.code or 0)
    try:
        return COMMANDS[asked.command].run(asked)
    except DynajitError as error:
        say(f"dynajit {asked.command}: {error}", sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and those of a script."""
    if "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def _refuse(command: str) -> int:
    say(f"dynajit {command}: nothing is expected behind `--`: it runs no script.", sys.stderr)
    return NOT_UNDERSTOOD


def _parser() -> argparse.ArgumentParser:
    called = os.path.basename(sys.argv[0]) if sys.argv else ""
    name = "dynajit" if called.startswith("dynajit") else "python -m dynajit"
    parser = _Parser(prog=name, description="Eager tensors, and a compiler for ordinary Python.")
    parser.add_argument("--version", action="version", version=f"dynajit {version.dynajit}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command, module in COMMANDS.items():
        module.add_arguments(
            commands.add_parser(command, help=module.ABOUT, description=f"{module.ABOUT}.")
        )
    return parser
