"""`python -m dynajit bench SCRIPT`: time what a script compiled, beside plain Python.

Contract: the script runs once; then the first call of each function that it compiled is made
again, with the same arguments, eagerly and compiled in turn, and medians are printed. Functions
that change their arguments change them in every call. Backward is not timed.
"""

import argparse
import functools
import sys
from typing import Final

from dynajit.commands import script
from dynajit.commands.screen import say, seconds, table
from dynajit.core.quoting import on_a_line
from dynajit.driver.watching import Call, Watched, watching
from dynajit.measuring.bench import uncompiled
from dynajit.measuring.timing import interleaved

ABOUT: Final = "time the functions that a script compiled, eagerly and compiled"

ROUND_S: Final = 0.02
"""Seconds of calls in a row: long beside the clock's steps, short beside a machine's drift."""
MOST_ROUNDS: Final = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The script, and how often is timed."""
    script.add_arguments(parser)
    parser.add_argument(
        "--rounds", metavar="N", type=_rounds, default=15, help="rounds of each (default 15)"
    )


def _rounds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_ROUNDS):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 1 to {MOST_ROUNDS}")
    return int(text)


def run(asked: argparse.Namespace) -> int:
    """Run the script, then time what it compiled; the status is the script's."""
    with watching() as found:
        status = script.run(asked.script, script.arguments_of(asked))
    called = [watched for watched in found if watched.call is not None]
    if not called:
        say("dynajit bench: the script called nothing that it compiled.", sys.stderr)
        return status
    rows = [("function", "eager", "compiled", "")]
    rows += [_row(watched, watched.call, asked.rounds) for watched in called if watched.call]
    say("\n" + table(rows))
    return status


def _row(watched: Watched, call: Call, rounds: int) -> tuple[str, str, str, str]:
    name = on_a_line(watched.name)
    try:
        times = measure(watched, call, rounds)
    except Exception as error:  # whatever the user's function raises in a second call
        return name, "", "", f"cannot be called again: {type(error).__name__}: {error}"
    ratio = f"{times['eager'] / times['compiled']:.2f}x"
    return name, seconds(times["eager"]), seconds(times["compiled"]), ratio


def measure(watched: Watched, call: Call, rounds: int) -> dict[str, float]:
    """Median seconds of a call, "eager" and "compiled", in turn."""
    ways = {
        "eager": functools.partial(call.function, *call.args, **call.kwargs),
        "compiled": functools.partial(watched.compiled, *call.args, **call.kwargs),
    }
    return interleaved(ways, rounds=rounds, round_s=ROUND_S, within={"eager": uncompiled})
