"""Files of a profile: Chrome's trace format, and stacks for flame graphs.

Contract: what is written is complete, or the file is as it was. A path that ends in `.gz` is
compressed.
Source: "Trace Event Format" (the document of Chrome's trace viewer): complete events, `ph` X, in
microseconds; metadata events, `ph` M, name processes and threads.
"""

import gzip
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from dynajit.core.errors import ArgumentError
from dynajit.profiler.events import FunctionEvent


def chrome_trace(
    events: Iterable[FunctionEvent], metadata: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The trace as what JSON can hold."""
    process = os.getpid()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    events = list(events)
    found: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": "python"}}
    ]
    found += [
        {
            "ph": "M",
            "name": "thread_name",
            "pid": process,
            "tid": thread,
            "args": {"name": names.get(thread, f"thread {thread}")},
        }
        for thread in dict.fromkeys(event.thread for event in events)
    ]
    found += [_complete(event, process) for event in events]
    return {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        **(metadata or {}),
        "traceEvents": found,
    }


def _complete(event: FunctionEvent, process: int) -> dict[str, Any]:
    known: dict[str, Any] = {"Ev Idx": event.id}
    if event.input_shapes:
        known["Input Dims"] = [list(shape) for shape in event.input_shapes]
    if event.cpu_memory_usage:
        known["Bytes"] = event.cpu_memory_usage
    if event.stack:
        known["Call stack"] = "; ".join(event.stack)
    return {
        "ph": "X",
        "cat": event.kind.category,
        "name": event.name,
        "pid": process,
        "tid": event.thread,
        "ts": event.time_range.start,
        "dur": event.time_range.elapsed_us(),
        "args": known,
    }


def write_chrome_trace(
    path: str | os.PathLike[str],
    events: Iterable[FunctionEvent],
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write the trace; `chrome://tracing` and Perfetto open it.

    Raises:
        OSError: the file cannot be written.
    """
    _write(Path(path), json.dumps(chrome_trace(events, metadata)))


def write_stacks(
    path: str | os.PathLike[str], events: Iterable[FunctionEvent], metric: str
) -> None:
    """Write a line per stack, outermost frame first, and its microseconds: what scripts that draw
    flame graphs read.

    Raises:
        ArgumentError: another metric than self times, or no stacks were recorded.
        OSError: the file cannot be written.
    """
    if metric not in ("self_cpu_time_total", "self_cuda_time_total", "self_device_time_total"):
        raise ArgumentError(
            f"export_stacks(metric={metric!r}): expected 'self_cpu_time_total' or "
            "'self_cuda_time_total'."
        )
    totals: dict[str, float] = {}
    for event in events:
        if event.stack:
            line = ";".join(frame.replace(";", ",") for frame in (*event.stack[::-1], event.name))
            totals[line] = totals.get(line, 0.0) + getattr(event, metric)
    if not totals:
        raise ArgumentError(
            "export_stacks(): no stacks were recorded.  Profile with profile(with_stack=True)."
        )
    _write(Path(path), "".join(f"{line} {int(us)}\n" for line, us in totals.items() if us >= 1))


def _write(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        data = text.encode()
        part.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """For `on_trace_ready`: each trace becomes a file of a folder, which is made.

    Args:
        dir_name: the folder.
        worker_name: in the files' names; the host and the process by default.
        use_gzip: compress them.

    Raises:
        OSError: the folder cannot be made (when there is a trace).
    """

    def handle(prof: Any) -> None:
        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        prof.export_chrome_trace(str(folder / name))

    return handle
