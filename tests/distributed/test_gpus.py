"""Tensors on GPUs between processes, on stand-ins: by NCCL, and over the host."""

import ast
from pathlib import Path

import pytest

from tests.support.ranks import run_program

ROOT = Path(__file__).parents[2]

PROGRAM = """
import os
import sys
import dynajit as dj
import dynajit.distributed as dist
dist.init_process_group(os.environ['BACKEND'])
rank, size = dist.get_rank(), dist.get_world_size()

def own(dtype=dj.float32):
    return (dj.arange(4, device="cuda") + 4 * rank).to(dtype)

found = {}
for dtype in (dj.float32, dj.bfloat16, dj.int64, dj.complex64, dj.bool):
    x = own(dtype)
    dist.all_reduce(x)
    assert x.device.type == "cuda"
    found[f"all_reduce {dtype}"] = x.to(dj.complex64 if dtype.is_complex else dj.float64).tolist()
x = own()
dist.all_reduce(x.reshape(2, 2).t(), dist.ReduceOp.AVG)
found["mean"] = x.tolist()
x = own()
dist.reduce(x, 1, dist.ReduceOp.MAX)
found["reduce"] = x.tolist()
x = own()
dist.broadcast(x, 1)
found["broadcast"] = x.tolist()
outputs = [dj.zeros(4, device="cuda") for _ in range(size)]
dist.all_gather(outputs, own(), async_op=True).wait()
found["all_gather"] = [output.tolist() for output in outputs]
outputs = [dj.zeros(4, device="cuda") for _ in range(size)]
dist.gather(own(), outputs if rank == 0 else None, 0)
found["gather"] = [output.tolist() for output in outputs]
x = dj.zeros(4, device="cuda")
dist.scatter(x, [own(), own() * 10] if rank == 1 else None, 1)
found["scatter"] = x.tolist()
x = dj.zeros(2, device="cuda")
dist.reduce_scatter_tensor(x, own())
found["reduce_scatter"] = x.tolist()
dist.reduce_scatter_tensor(x.to(dj.int32), own(dj.int32), dist.ReduceOp.BOR)
x = dj.zeros(4, device="cuda")
dist.all_to_all_single(x, own())
found["all_to_all"] = x.tolist()
x = own()
(dist.send(x, 1) if rank == 0 else dist.recv(x, 0))
found["message"] = x.tolist()
host = dj.ones(2)
dist.all_reduce(host)
found["host"] = host.tolist()
dist.barrier()
calls = sys.modules["cupy.cuda.nccl"].calls if "cupy.cuda.nccl" in sys.modules else []
with open(f"{os.environ['RESULTS']}/{rank}", "w") as file:
    file.write(repr((found, calls)))
dist.destroy_process_group()
"""


@pytest.mark.parametrize("backend", ["nccl", "cpu:gloo,cuda:nccl", "gloo"])
def test_tensors_on_gpus_arrive(backend: str, tmp_path: Path) -> None:
    """NCCL is called for what it has."""
    folders = f"{ROOT / 'tests' / 'stand_in'}:{ROOT}"
    environment = {"BACKEND": backend, "RESULTS": str(tmp_path), "DYNAJIT_STAND_IN": "1"}
    ended = run_program(PROGRAM, 2, PYTHONPATH=folders, **environment)
    assert 0 == ended.returncode, ended.stderr
    for rank in range(2):
        found, calls = ast.literal_eval((tmp_path / str(rank)).read_text())
        total = [4.0, 6.0, 8.0, 10.0]
        first, second = [0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]
        for name in ("float32", "bfloat16", "int64", "complex64"):
            assert total == found.pop(f"all_reduce dynajit.{name}")
        assert [1.0] * 4 == found.pop("all_reduce dynajit.bool")
        assert {
            "mean": [2.0, 3.0, 4.0, 5.0],
            "reduce": second if rank == 1 else first,
            "broadcast": second,
            "all_gather": [first, second],
            "gather": [first, second] if rank == 0 else [[0.0] * 4] * 2,
            "scatter": second if rank == 0 else [40.0, 50.0, 60.0, 70.0],
            "reduce_scatter": total[2 * rank : 2 * rank + 2],
            "all_to_all": [*first[2 * rank : 2 * rank + 2], *second[2 * rank : 2 * rank + 2]],
            "message": first,
            "host": [2.0, 2.0],
        } == found
        names = {"allReduce", "reduce", "broadcast", "allGather", "reduceScatter", "send", "recv"}
        assert (set() if backend == "gloo" else names) == set(calls)


@pytest.mark.usefixtures("no_gpu")
def test_nccl_without_a_gpu_is_refused() -> None:
    ended = run_program(
        "import dynajit.distributed as dist\n"
        "try:\n    dist.init_process_group('nccl')\n"
        "except NotImplementedError as error:\n    print(error, dist.is_nccl_available())\n",
        2,
    )
    assert 2 == ended.stdout.count("Use the backend 'gloo'"), ended
    assert 2 == ended.stdout.count("False")
