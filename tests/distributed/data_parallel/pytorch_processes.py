"""What PyTorch's DistributedDataParallel gives for the same programs: processes with Gloo."""

import os
import pickle
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

LIMIT_S = 120


def start(size: int, folder: str) -> list[Any]:
    """Start the processes, which write results into a folder."""
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", "tests.distributed.data_parallel.pytorch_processes"]
    return [
        subprocess.Popen(
            [*command, folder, str(rank), str(size)], cwd=root, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for rank in range(size)
    ]  # fmt: skip


def results(processes: list[Any], folder: str) -> list[dict[str, Any]]:
    """By rank: program -> what it gave, or a traceback."""
    told = [process.communicate(timeout=LIMIT_S)[0] for process in processes]
    paths = [Path(folder, f"pytorch{rank}") for rank in range(len(processes))]
    assert all(path.exists() for path in paths), "\n".join(told)
    return [pickle.loads(path.read_bytes()) for path in paths]


def pytorchs(size: int) -> list[dict[str, Any]]:
    """Results of all programs."""
    with tempfile.TemporaryDirectory() as folder:
        return results(start(size, folder), folder)


def _run(folder: str, rank: int, size: int) -> None:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from tests.distributed.data_parallel.programs import PROGRAMS

    torch.set_num_threads(1)
    store = dist.FileStore(str(Path(folder, "store")), size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    found: dict[str, Any] = {}
    for name, program in PROGRAMS.items():
        try:
            found[name] = program(torch, DistributedDataParallel, rank, size)
        except Exception:
            found[name] = traceback.format_exc()
    Path(folder, f"pytorch{rank}").write_bytes(pickle.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    _run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
