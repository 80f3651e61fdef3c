"""What a collective costs beside mpi4py alone: arrays of 1 KB to 64 MB, on several processes.

`python -m benchmarks collectives` starts the processes itself. All take turns in one job, so that
the machine's speed is the same for both; the slowest process counts. Contestants must agree first.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dynajit as dj
import dynajit.distributed as dist
from dynajit.core.process import optional
from dynajit.measuring.timing import row

SIZES_BYTES = [1 << power for power in range(10, 27, 2)]
ROUNDS = 21
ROUND_BYTES = 1 << 24
"""What is sent in a round of one contestant, about; at most 400 calls."""


def main(compare: Sequence[str] = (), processes: Sequence[int] = (2,)) -> None:
    """Start jobs of so many processes, whose first one prints."""
    beside = Path(sys.executable).with_name("mpiexec")
    starter = str(beside) if beside.exists() else shutil.which("mpiexec")
    if starter is None:
        print("mpiexec is not installed: pip install 'dynajit[mpi]'")
        return
    for count in processes:
        print(f"{count} processes, beside mpi4py")
        command = [starter, "-n", str(count), sys.executable, "-m", "benchmarks.collectives"]
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def contestants(size_bytes: int, mpi: Any) -> dict[str, dict[str, Callable[[], object]]]:
    """Calls by collective and contestant; each writes zeros over zeros, which stay. All use the
    same memory: where its pages lie makes a fifth of the time of 16 MB."""
    count, ranks = size_bytes // 4, dist.get_world_size()
    array, array_part = np.zeros(count, np.float32), np.zeros(count // ranks, np.float32)
    tensor, part = dj.from_numpy(array), dj.from_numpy(array_part)
    world = mpi.COMM_WORLD
    return {
        "all_reduce": {
            "mpi4py": lambda: world.Allreduce(mpi.IN_PLACE, array),
            "dynajit": lambda: dist.all_reduce(tensor),
        },
        "reduce_scatter": {
            "mpi4py": lambda: world.Reduce_scatter_block(array, array_part),
            "dynajit": lambda: dist.reduce_scatter_tensor(part, tensor),
        },
    }


def _agree(mpi: Any) -> None:
    values = np.arange(8, dtype=np.float32) + dist.get_rank()
    tensor = dj.tensor(values)
    dist.all_reduce(tensor)
    total = np.empty_like(values)
    mpi.COMM_WORLD.Allreduce(values, total)
    assert tensor.tolist() == total.tolist()


def _times(calls: dict[str, Callable[[], object]], repeats: int, mpi: Any) -> dict[str, float]:
    """Seconds per call of the slowest process, the lower quartile of rounds: what else runs on the
    machine only adds, and adds much where processes wait for each other."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()
            mpi.COMM_WORLD.Barrier()
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            elapsed = (time.perf_counter() - start) / repeats
            samples[name].append(mpi.COMM_WORLD.allreduce(elapsed, mpi.MAX))
    return {name: statistics.quantiles(found)[0] for name, found in samples.items()}


def _run() -> None:
    dist.init_process_group("mpi")
    mpi = optional.load("mpi4py.MPI", needed_for="the benchmark", install="dynajit[mpi]")
    _agree(mpi)
    for size_bytes in SIZES_BYTES:
        repeats = max(1, min(400, ROUND_BYTES // size_bytes))
        for name, calls in contestants(size_bytes, mpi).items():
            times = _times(calls, repeats, mpi)
            if dist.get_rank() == 0:
                print(row(f"{name} {size_bytes >> 10} KB", times, "mpi4py"), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    _run()
