"""`python -m benchmarks scaling`: the tables of docs/scaling.md, predicted beside measured.

Bytes that are sent are counted in a network namespace of their own (`unshare`, `ip`), where MPI
goes over TCP; where the system does not let this user make one, that table is left out. Bytes that
are held are those of `benchmarks.sharding`. Seconds are the best of some rounds over shared memory.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import sharding
from benchmarks.scaling import costs, ranks

SIZES = (2, 4, 8)
"""Numbers of processes."""

_OVER_TCP = {
    "MPIR_CVAR_NOLOCAL": "1",
    "MPIR_CVAR_CH4_NETMOD": "ofi",
    "FI_PROVIDER": "tcp",
}
"""What has MPICH leave shared memory and use TCP."""

Found = Mapping[int, Mapping[str, float]]
"""Of a job by its number of processes, what `ranks` found."""


def main(compare: Sequence[str] = ()) -> None:
    """Print all tables, in Markdown."""
    del compare
    beside = Path(sys.executable).with_name("mpiexec")
    starter = str(beside) if beside.exists() else shutil.which("mpiexec")
    if starter is None:
        print("mpiexec is not installed: pip install 'dynajit[mpi]'")
        return
    print_held()
    if shutil.which("unshare") and shutil.which("ip"):
        print_sent({size: _job("sent", starter, size, is_isolated=True) for size in SIZES})
    else:
        print("\nbytes that are sent: unshare and ip are not installed")
    print_overlap(_job("overlapped", starter, 2))
    print_seconds({size: _job("timed", starter, size) for size in (1, *SIZES)})


def _job(name: str, starter: str, size: int, is_isolated: bool = False) -> dict[str, float]:
    """What processes found.

    Raises:
        CalledProcessError: the job failed, or there may be no network namespace.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "found"))
        program = [sys.executable, "-m", "benchmarks.scaling.ranks", name, path]
        command = [starter, *(["-iface", "lo"] if is_isolated else []), "-n", str(size), *program]
        if is_isolated:
            script = 'ip link set lo up && exec "$@"'
            command = ["unshare", "--map-root-user", "--net", "sh", "-c", script, "sh", *command]
        variables = {**os.environ, "OMP_NUM_THREADS": "1", **(_OVER_TCP if is_isolated else {})}
        subprocess.run(command, env=variables, check=True)
        found: dict[str, float] = json.loads(Path(path).read_text())
    return found


def parameters() -> int:
    """Of the model that is trained."""
    return sum(parameter.numel() for parameter in sharding.Model().parameters())


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"\n{title}\n\n| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def print_held() -> None:
    """Bytes of a process by stage and number of processes."""
    count = parameters()
    found = {size: sharding.measured(size) for size in (1, *SIZES)}
    rows = []
    for stage in range(4):
        cells = [str(stage)]
        for size, measured in found.items():
            total = sum(measured[stage][name] for name in ("parameters", "gradients", "optimizer"))
            predicted = costs.memory(count, size, stage).total
            cells.append(f"{predicted / 1e6:.2f} / {total / 1e6:.2f}")
        rows.append(cells)
    title = f"Megabytes that a process holds, predicted / measured ({count} parameters)"
    _table(title, ["stage", *map(str, found)], rows)


def _sent_rows() -> list[tuple[str, str, Callable[[int], float]]]:
    """Title, name in what was found, and prediction, of everything that is sent; of collectives
    for each byte of the message."""
    n = parameters() * costs.ELEMENT_BYTES
    activations = ranks.ROWS * ranks.WIDTH * costs.ELEMENT_BYTES
    rows: list[tuple[str, str, Callable[[int], float]]] = []
    for kilobytes in (1, 4096):
        whole = kilobytes << 10
        formulas = {
            "all_reduce": costs.all_reduce_bytes,
            "reduce_scatter": costs.part_bytes,
            "all_gather": costs.part_bytes,
            "all_to_all": costs.part_bytes,
        }
        for name, formula in formulas.items():
            rows.append(
                (
                    f"{name}, {kilobytes} KB, per byte of it",
                    f"{name} {kilobytes} KB",
                    lambda size, f=formula, n=whole: f(n, size) / n,  # type: ignore[misc]
                )
            )
    for stage, of_step in costs.STEP_BYTES.items():
        rows.append(
            (
                f"step, stage {stage}, MB",
                f"stage {stage}",
                lambda size, f=of_step: f(n, size),  # type: ignore[misc]
            )
        )
    rows.append(
        (
            "block, tensor parallel, MB",
            "tensor parallel",
            lambda size: costs.tensor_parallel_bytes(activations, size),
        )
    )
    return rows


def print_sent(found: Found) -> None:
    """Bytes that a process sends."""
    rows = []
    for title, name, predicted in _sent_rows():
        unit = 1e6 if title.endswith("MB") else 1
        cells = [f"{predicted(n) / unit:.3f} / {found[n][name] / unit:.3f}" for n in found]
        rows.append([title, *cells])
    _table("What a process sends, predicted / measured", ["what", *map(str, found)], rows)
    calls = [
        [str(stage), *(f"{found[n][f'calls {stage}']:.0f}" for n in found)] for stage in range(4)
    ]
    _table("Collectives that a step starts", ["stage", *map(str, found)], calls)


def print_overlap(found: Mapping[str, float]) -> None:
    """Seconds of forward and backward over slow links."""
    width = ranks.DEEP_WIDTH
    bucket = (width * width + width) * costs.ELEMENT_BYTES
    forward, backward = found["forward"], found["both"] - found["forward"]
    rows = []
    for link in ranks.LINKS_BYTES_PER_S:
        buckets = [bucket / link] * ranks.DEEP
        seconds = (
            found["both"] + sum(buckets),
            costs.overlapped_seconds(forward, backward, buckets),
            found[f"link {link:g}"],
        )
        rows.append([f"{link / 1e6:.0f} MB/s", *(f"{1e3 * each:.0f}" for each in seconds)])
    title = f"Milliseconds of forward ({forward * 1e3:.0f}) and backward ({backward * 1e3:.0f})"
    _table(title, ["link", "one after the other", "overlapped, predicted", "measured"], rows)


def print_seconds(found: Found) -> None:
    """Seconds of all-reduces and steps. What a machine can do is told by two processes; a step's
    computation by one."""
    two = found[2]
    machine = costs.Machine(two["alpha"], two["beta"], two["gamma"], os.cpu_count() or 1)
    print(
        f"\nalpha {machine.alpha_s * 1e6:.2f} us, 1/beta {1e-9 / machine.beta_s:.1f} GB/s, "
        f"1/gamma {1e-9 / machine.gamma_s:.1f} GB/s, {machine.cores} cores"
    )
    several = [size for size in found if size > 1]
    rows = []
    for n in ranks.SIZES_BYTES:
        cells = [f"all_reduce, {n >> 10} KB, ms"]
        for size in several:
            predicted = costs.all_reduce_seconds(n, size, machine)
            cells.append(f"{1e3 * predicted:.3f} / {1e3 * found[size][f'all_reduce {n}']:.3f}")
        rows.append(cells)
    sent = parameters() * costs.ELEMENT_BYTES
    for stage, of_step in costs.STEP_BYTES.items():
        cells = [f"step, stage {stage}, ms"]
        for size in several:
            turns = machine.turns(size)
            predicted = turns * (found[1]["stage 0"] + of_step(sent, size) * machine.beta_s)
            cells.append(f"{1e3 * predicted:.1f} / {1e3 * found[size][f'stage {stage}']:.1f}")
        rows.append(cells)
    _table("Time, predicted / measured", ["what", *map(str, several)], rows)
