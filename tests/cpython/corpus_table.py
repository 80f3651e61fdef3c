"""The page docs/python_coverage.md, from the results of every version. Called by `run.py`."""

import json
from pathlib import Path
from typing import Any, Final

from tests.cpython.corpus import FILES

TEXT: Final = """# CPython's own tests under capture

Written by `python tests/cpython/run.py --update` on each version; not by hand.

Every test method of these files, which come with the interpreter, is passed through the compiler
and run, in a mode in which a defect of the compiler itself is a failure. A test counts if plain
Python passes it. *Passed* means the same as plain Python, with as many graph breaks as it takes;
*no break* means that the whole test method, with everything that it calls, was captured as one
region. In the mode *methods* the test method, `setUp` and `tearDown` are compiled and what they
call is inlined or, at a break, runs as it is; in the mode *callees* every function of the test file
that runs below a break is compiled as well. Files without a measurement are named below each table
and are in no total.
"""

MODES: Final = {"tests": "methods", "callees": "callees"}


def write_table(results: Path, page: Path) -> None:
    """Write the page from `results/<version>.json`."""
    versions = {path.stem: json.loads(path.read_text()) for path in results.glob("*.json")}
    versions = dict(sorted(versions.items(), key=lambda item: [int(n) for n in item[0].split(".")]))
    parts = [TEXT, "## Totals\n", *_totals(versions)]
    for version, files in versions.items():
        parts += [f"\n## Python {version}\n", *_files(files), *_unmeasured(files)]
    page.write_text("\n".join(parts) + "\n")


def _totals(versions: dict[str, Any]) -> list[str]:
    lines = ["| version | mode | tests | passed | share | no break | failures |",
             "|---|---|---:|---:|---:|---:|---:|"]  # fmt: skip
    for version, files in versions.items():
        for mode, name in MODES.items():
            counts = [modes[mode] for modes in files.values() if mode in modes]
            if not counts:
                continue
            tests = sum(count["tests"] for count in counts)
            failed = sum(len(count["failed"]) for count in counts)
            whole = sum(count["captured"] for count in counts)
            lines.append(
                f"| {version} | {name} | {tests} | {tests - failed} "
                f"| {_share(tests - failed, tests)} | {_share(whole, tests)} | {failed} |"
            )
    return lines


def _files(files: dict[str, Any]) -> list[str]:
    modes = [mode for mode in MODES if any(mode in found for found in files.values())]
    heads = "".join(f" {MODES[mode]}: failures |" for mode in modes)
    lines = [
        f"| file | tests | passed | no break |{heads}",
        "|---|---:|---:|---:|" + "---:|" * len(modes),
    ]
    for name, found in files.items():
        first = found[modes[0]]
        if not first["tests"]:
            continue
        counts = "".join(
            f" {len(found[mode]['failed']) if mode in found else ''} |" for mode in modes
        )
        passed = first["tests"] - len(first["failed"])
        lines.append(f"| {name} | {first['tests']} | {passed} | {first['captured']} |{counts}")
    return lines


def _unmeasured(files: dict[str, Any]) -> list[str]:
    missing = [name for name in FILES if name not in files]
    if not missing:
        return []
    return [f"\nNot measured on this version, or not part of it: {', '.join(missing)}."]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"
