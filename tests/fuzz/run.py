"""`python tests/fuzz/run.py --first 0 --count 1000`: compare many programs, print what differs.

Each difference is printed with the number of its program; `--show N` prints a program, `--shrink N`
makes it as small as it gets. Programs run in child processes, so that a crash is one finding and
not the end; after each batch nothing of its programs may be alive.
"""

import argparse
import gc
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

BATCH = 50
#: Seconds that one program may take; a busy machine is allowed for.
TIMEOUT_S = 120


def checked(seed: int, backend: str, forced: bool) -> str | None:
    """What is wrong with one program, an error of the compiler included."""
    import dynajit as dj
    from tests.fuzz.differential import compare  # after the fork, in the child only

    try:
        return compare(seed, backend, forced)
    except Exception:
        return f"program {seed}: {traceback.format_exc(limit=-3)}"
    finally:
        dj.reset()


def work(first: int, count: int, backend: str, forced: bool, sender) -> None:
    """Compare programs; send (seed, difference or None) for each, and what was left behind."""
    import dynajit as dj
    from tests.fuzz.leaks import grown, live

    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda unraisable: None
    with dj.config.override(strict=True):
        checked(0, backend, forced)
        before = live()
        for seed in range(first, first + count):
            sender.send((seed, "started"))
            sender.send((seed, checked(seed, backend, forced)))
        if grown(before):
            for seed in range(first, first + count):
                before = live()
                checked(seed, backend, forced)
                if left := grown(before):
                    sender.send((first + count - 1, f"program {seed}: left behind: {left}"))
    gc.collect()
    sender.send(None)


def run_batch(first: int, count: int, backend: str, forced: bool) -> list[str]:
    """Findings of one batch, a crash or a hang included."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("spawn").Process(
        target=work, args=(first, count, backend, forced, sender)
    )
    child.start()
    sender.close()
    findings, current = [], first - 1
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        if not receiver.poll(max(deadline - time.monotonic(), 0)):
            child.kill()
            findings.append(f"program {current}: hangs")
            break
        try:
            message = receiver.recv()
        except EOFError:
            if current < first:
                raise RuntimeError(f"programs from {first} on: nothing could be started") from None
            findings.append(f"program {current}: the process died")
            break
        if message is None:
            child.join()
            return findings
        deadline = time.monotonic() + TIMEOUT_S
        current, found = message
        if found not in (None, "started"):
            findings.append(found)
    child.join()
    rest = first + count - current - 1
    return findings + (run_batch(current + 1, rest, backend, forced) if rest > 0 else [])


def shrunk(seed: int, backend: str, forced: bool) -> str:
    """A small program that shows what program `seed` shows."""
    import dynajit as dj
    from tests.fuzz.preamble import HEADER
    from tests.fuzz.programs import body
    from tests.fuzz.shrink import attempt, shrink

    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda unraisable: None
    with dj.config.override(strict=True):
        found = attempt(HEADER + "\n\n" + body(seed), seed, backend, forced)
        if found is None:
            return f"program {seed} shows no difference"
        small = shrink(body(seed), seed, found, backend, forced)
        return f"{small}\n\n# {attempt(HEADER + chr(10) * 2 + small, seed, backend, forced)}"


def main() -> int:
    """Command line; the exit status is 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--forced", action="store_true", help="break at every statement")
    parser.add_argument("--show", type=int, help="print the program of this number")
    parser.add_argument("--shrink", type=int, help="print a smaller program that differs, too")
    options = parser.parse_args()
    os.environ.setdefault("DYNAJIT_CACHE_DIR", tempfile.mkdtemp())
    if options.show is not None:
        from tests.fuzz.programs import body

        print(body(options.show))
        return 0
    if options.shrink is not None:
        print(shrunk(options.shrink, options.backend, options.forced))
        return 0
    found = 0
    end = options.first + options.count
    for first in range(options.first, end, BATCH):
        count = min(BATCH, end - first)
        for finding in run_batch(first, count, options.backend, options.forced):
            found += 1
            print(finding, flush=True)
        done = first + count - options.first
        print(f"{done} of {options.count}: {found} findings", file=sys.stderr, flush=True)
    print(f"{options.count} programs, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
