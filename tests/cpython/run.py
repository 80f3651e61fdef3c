"""CPython's own tests under capture: runs them, and writes the table of docs/python_coverage.md.

    python tests/cpython/run.py [FILE ...] [--jobs 2] [--modes tests callees] [--details OUT.json]
    python tests/cpython/run.py --update      results, expected failures and the page are written

Tests that fail as plain Python are left out of the totals. The interpreter is the one that runs
this script: run it once per version.
"""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.cpython.corpus import FILES, available
from tests.cpython.corpus_expected import update_list
from tests.cpython.corpus_runner import HERE, VERSION, Verdict, run_file, totals
from tests.cpython.corpus_table import write_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", default=list(FILES))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--modes", nargs="+", default=["tests", "callees"])
    parser.add_argument("--only", nargs="+", default=[], help="ends of test ids")
    parser.add_argument("--details", type=Path, help="every verdict, as JSON")
    parser.add_argument("--update", action="store_true", help="write results and table")
    options = parser.parse_args()
    names = available(tuple(options.files))
    with ThreadPoolExecutor(options.jobs) as pool:
        started = {name: pool.submit(run_file, name, options.modes, options.only) for name in names}
        found = {}
        for name, future in started.items():
            found[name] = future.result()
            show(name, found[name])
            if options.update:
                update({name: found[name]})
    if options.details:
        details = {
            name: {
                mode: [asdict(verdict) for verdict in verdicts] for mode, verdicts in modes.items()
            }
            for name, modes in found.items()
        }
        options.details.write_text(json.dumps(details))


def update(found: dict[str, dict[str, list[Verdict]]]) -> None:
    """Write the results of this version, its list of expected failures, and the page."""
    path = HERE / "results" / f"{VERSION}.json"
    path.parent.mkdir(exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {}
    failed: dict[str, dict[str, set[str]]] = {}
    for name, modes in found.items():
        for mode, verdicts in modes.items():
            counts = totals(verdicts)
            known.setdefault(name, {})[mode] = counts
            failed.setdefault(name, {})[mode] = set(counts["failed"])
    ordered = {name: known[name] for name in FILES if name in known}
    path.write_text(json.dumps(ordered, indent=1) + "\n")
    update_list(VERSION, failed)
    write_table(HERE / "results", HERE.parent.parent / "docs" / "python_coverage.md")


def show(name: str, found: dict[str, list[Verdict]]) -> None:
    """One line per mode."""
    for mode, verdicts in found.items():
        counts = totals(verdicts)
        print(
            f"{name:28} {mode:8} tests {counts['tests']:4}  captured {counts['captured']:4}  "
            f"breaks {counts['breaks']:4}  plain {counts['plain']:4}  "
            f"failed {len(counts['failed']):4}",
            flush=True,
        )


if __name__ == "__main__":
    main()
