"""`python tests/fuzz/run.py --first 0 --count 1000`: compare many programs, print what differs.

Each difference is printed with the program's number; `--show N` prints a program. Programs run in
child processes, so that a crash is one finding and not the end.
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

sys.path.insert(0, str(Path(__file__).resolve().parent))

BATCH = 50
TIMEOUT_S = 300


def work(first: int, count: int, backend: str, forced: bool, sender) -> None:
    """Compare programs; send (seed, difference or None) for each."""
    from differential import compare  # after the fork, in the child only

    import dynajit as dj

    warnings.simplefilter("ignore")
    with dj.config.override(strict=True):
        for seed in range(first, first + count):
            sender.send((seed, "started"))
            try:
                found = compare(seed, backend, forced)
            except Exception:
                found = f"program {seed}: {traceback.format_exc(limit=-3)}"
            sender.send((seed, found))
            dj.reset()
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
    findings, current = [], first
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        if not receiver.poll(max(deadline - time.monotonic(), 0)):
            child.kill()
            findings.append(f"program {current}: hangs")
            break
        try:
            message = receiver.recv()
        except EOFError:
            findings.append(f"program {current}: the process died")
            break
        if message is None:
            child.join()
            return findings
        current, found = message
        if found not in (None, "started"):
            findings.append(found)
    child.join()
    rest = first + count - current - 1
    return findings + (run_batch(current + 1, rest, backend, forced) if rest > 0 else [])


def main() -> int:
    """Command line; the exit status is 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--forced", action="store_true", help="break at every statement")
    parser.add_argument("--show", type=int)
    options = parser.parse_args()
    if options.show is not None:
        from programs import write

        print(write(options.show))
        return 0
    os.environ.setdefault("DYNAJIT_CACHE_DIR", tempfile.mkdtemp())
    found = 0
    end = options.first + options.count
    for first in range(options.first, end, BATCH):
        count = min(BATCH, end - first)
        for finding in run_batch(first, count, options.backend, options.forced):
            found += 1
            print(finding, flush=True)
    print(f"{options.count} programs, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
