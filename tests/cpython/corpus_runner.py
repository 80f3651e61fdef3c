"""Runs one of CPython's test files as plain Python and under capture, and judges every test.

Each mode has processes of its own (`corpus_child.py`), on the interpreter that runs this module. A
crash or a hang is a failure of the test that ran; the others go on in a fresh process. Called by
`run.py` and `test_cpython_files.py`.
"""

import collections
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.cpython.corpus import LEFT_OUT

HERE: Final = Path(__file__).parent
VERSION: Final = "{}.{}".format(*sys.version_info)

#: Seconds without any progress after which a process is ended.
PATIENCE_S: Final = 180

#: Fresh processes for one file: more crashes than this end the file.
MAX_STARTS: Final = 30


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one test that plain Python passes.

    Args:
        test: unittest's id.
        kind: "captured" (no break), "breaks", "plain" (not captured, with a reason) or "failed".
        detail: for a failure what differs, else "".
        reasons: break and skip reasons -> how often.
    """

    test: str
    kind: str
    detail: str = ""
    reasons: dict[str, int] = field(default_factory=dict)


def run_child(name: str, mode: str, folder: Path, only: list[str]) -> dict[str, dict[str, Any]]:
    """Run one file in one mode.

    Returns:
        Test id -> what its child reported; status "crashed" or "hung" where the process ended.
    """
    found: dict[str, dict[str, Any]] = {}
    for _ in range(MAX_STARTS):
        report = folder / f"{name}.{mode}.jsonl"
        report.write_text("")
        finished = folder / f"{name}.{mode}.finished"
        finished.write_text("\n".join(found))
        scratch = tempfile.mkdtemp(dir=folder)
        command = [sys.executable, str(HERE / "corpus_child.py"), name, "--mode", mode]
        command += ["--report", str(report), "--leave-out", str(finished)]
        command += ["--only", *only] if only else []
        output = folder / f"{name}.{mode}.out"
        with output.open("wb") as file:
            child = subprocess.Popen(
                command,
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONHASHSEED": "0"},
            )
            ended = wait(child, report)
        begun, is_complete = read(report, found)
        if is_complete:
            break
        text = output.read_text(errors="replace")[-3000:]
        if begun is None:
            found[f"test.{name}"] = {"status": ended, "problem": text}
            break
        found[begun] = {"status": ended, "problem": text}
    return found


def wait(child: subprocess.Popen[bytes], report: Path) -> str:
    """Until the process ends or makes no progress; "crashed" or "hung"."""
    size, since = -1, time.monotonic()
    while child.poll() is None:
        now = report.stat().st_size
        if now != size:
            size, since = now, time.monotonic()
        elif time.monotonic() - since > PATIENCE_S:
            child.kill()
            child.wait()
            return "hung"
        time.sleep(0.05)
    return "crashed"


def read(report: Path, found: dict[str, dict[str, Any]]) -> tuple[str | None, bool]:
    """Enter what a child reported; (the test that had begun, True at the end of the file)."""
    begun = None
    for line in report.read_text().splitlines():
        record = json.loads(line)
        if "begins" in record:
            begun = record["begins"]
        elif "test" in record:
            found[record.pop("test")] = record
            begun = None
        else:
            return None, True
    return begun, False


def judge(test: str, record: dict[str, Any] | None) -> Verdict:
    """The verdict on a test that passes as plain Python."""
    if record is None:
        return Verdict(test, "failed", "it did not run")
    reasons = collections.Counter(record.get("breaks", {}))
    reasons.update({f"skip: {text}": n for text, n in record.get("skips", {}).items()})
    if record["status"] in ("crashed", "hung"):
        return Verdict(test, "failed", f"{record['status']}\n{record['problem']}", dict(reasons))
    if "internal" in record:
        return Verdict(test, "failed", f"internal error\n{record['internal']}", dict(reasons))
    if record["status"] != "passed":
        detail = record.get("problem") or record["status"]
        return Verdict(test, "failed", detail, dict(reasons))
    if not record["regions"]:
        return Verdict(test, "plain", "", dict(reasons))
    return Verdict(test, "breaks" if reasons else "captured", "", dict(reasons))


def run_file(name: str, modes: list[str], only: list[str]) -> dict[str, list[Verdict]]:
    """Mode -> verdicts on the tests of a file that pass as plain Python."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        plain = run_child(name, "plain", Path(folder), only)
        passed = [
            test
            for test, record in plain.items()
            if record["status"] == "passed" and test not in LEFT_OUT
        ]
        if any(record["status"] == "crashed" for record in plain.values()) and not passed:
            raise RuntimeError(f"{name} does not start: {plain}")
        found = {}
        for mode in modes:
            records = run_child(name, mode, Path(folder), only)
            found[mode] = [judge(test, records.get(test)) for test in passed]
    return found


def totals(verdicts: list[Verdict]) -> dict[str, Any]:
    """Counts by kind, and the ids of the failures."""
    counts = collections.Counter(verdict.kind for verdict in verdicts)
    return {
        "tests": len(verdicts),
        "captured": counts["captured"],
        "breaks": counts["breaks"],
        "plain": counts["plain"],
        "failed": sorted(verdict.test for verdict in verdicts if verdict.kind == "failed"),
    }
