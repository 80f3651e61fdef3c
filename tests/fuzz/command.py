"""What random programs of one kind are asked for by hand: to compare many, or to print one."""

import argparse
import os
import tempfile
from collections.abc import Callable


def compare_many(
    document: str | None, compare: Callable[[int, str], str | None], show: Callable[[int], str]
) -> int:
    """The exit status: 1 if there were findings.

    Args:
        document: what `--help` prints.
        compare: what differs in a program, by seed and backend, or None.
        show: a program's text.
    """
    parser = argparse.ArgumentParser(description=document)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--show", type=int)
    options = parser.parse_args()
    os.environ.setdefault("DYNAJIT_CACHE_DIR", tempfile.mkdtemp())
    if options.show is not None:
        print(show(options.show))
        return 0
    found = 0
    for seed in range(options.first, options.first + options.count):
        try:
            told = compare(seed, options.backend)
        except Exception as error:
            told = f"program {seed}: {type(error).__name__}: {error}"
        if told:
            found += 1
            print(told[:500], flush=True)
    print(f"{options.count} programs, {found} findings")
    return 1 if found else 0
