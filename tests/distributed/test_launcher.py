"""Programs on several ranks: real starts of two and four, with `mpi4py` alone in the scripts.

`DYNAJIT_LAUNCHER_KILLS=50` kills a process at a random moment in so many starts.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.launching import Start, launched, needs_mpi, processes_of

pytestmark = needs_mpi

KILLS = int(os.environ.get("DYNAJIT_LAUNCHER_KILLS", "1"))

PLACES = """
import json, os, sys
from mpi4py import MPI
names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK TORCHELASTIC_RUN_ID"
mine = {name: os.environ[name] for name in [*names.split(), "DYNAJIT_LAUNCHED"]}
mine["mpi"] = [MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size]
mine["meeting"] = os.environ["MASTER_ADDR"] + ":" + os.environ["MASTER_PORT"]
every = MPI.COMM_WORLD.gather(mine)
if MPI.COMM_WORLD.rank == 0:
    print(json.dumps(every))
"""

# One rank does something, the others wait for a message from it that never comes.
ONE_ENDS = """
import os, sys
from mpi4py import MPI
comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 1:
    {what}
else:
    comm.recv(source=1)
"""


def test_ranks_know_their_places(tmp_path: Path) -> None:
    """MPI and the environment say the same; lines carry the rank."""
    done = launched(tmp_path, PLACES, "--nproc-per-node=4", "--rdzv-id", "job 7")

    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.startswith("[0] ")
    every = json.loads(done.stdout.removeprefix("[0] "))
    (meeting,) = {mine.pop("meeting") for mine in every}
    assert meeting.startswith("127.0.0.1:")
    assert [
        {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "4",
            "LOCAL_WORLD_SIZE": "4",
            "GROUP_RANK": "0",
            "TORCHELASTIC_RUN_ID": "job 7",
            "DYNAJIT_LAUNCHED": "run",
            "mpi": [rank, 4],
        }
        for rank in range(4)
    ] == every


def test_the_runtime_alone_may_start_ranks(tmp_path: Path) -> None:
    """`mpiexec -n 2 python -m dynajit.distributed.launching.rank script.py`, without a launcher."""
    from dynajit.distributed.launching.numbers import without_ranks
    from dynajit.distributed.launching.runtimes import Placement, found

    script = tmp_path / "program.py"
    script.write_text(
        "import os, sys\nfrom mpi4py import MPI\n"
        "line = f'{MPI.COMM_WORLD.rank} {MPI.COMM_WORLD.size} {os.environ[\"DYNAJIT_LAUNCHED\"]}'\n"
        "os.write(1, line.encode() + b'\\n')\n"
        "MPI.COMM_WORLD.Barrier()\n"
        "if os.environ['RANK'] == '1': raise ValueError('said once')"
    )
    runtime = found("a test")
    program = [sys.executable, "-m", "dynajit.distributed.launching.rank", str(script)]
    done = subprocess.run(
        runtime.command(Placement(2, 2), [], program),
        env=runtime.environment(without_ranks(os.environ)),
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip

    assert {"0 2 mpi", "1 2 mpi"} <= set(done.stdout.splitlines())
    assert "ValueError: said once" in done.stderr
    assert done.returncode


def test_a_script_runs_as_python_runs_it(tmp_path: Path) -> None:
    """Arguments, the path, and the main module that pickles and threads look for."""
    text = (
        "import pickle, sys, threading\n"
        "class Local: pass\n"
        "main = sys.modules['__main__']\n"
        "print(sys.argv, sys.path[0], __name__, __file__, __spec__, main.Local is Local)\n"
        "print(pickle.loads(pickle.dumps(Local())).__class__ is Local)\n"
        "threading.Timer(0.01, lambda: print('later', Local.__name__)).start()\n"
    )
    arguments = ("--lr", "1", "--nproc", "x")
    done = launched(tmp_path, text, "--nproc=1", arguments=arguments)
    plain = subprocess.run(
        [sys.executable, tmp_path / "program.py", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )

    assert ("", plain.stdout) == (done.stderr, done.stdout)


def test_modules_and_other_programs_run(tmp_path: Path) -> None:
    """`-m package.module` as Python's, `--no-python` anything."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "part.py").write_text("import sys; print(__name__, __spec__.name, sys.argv[1:])")
    done = Start(tmp_path, "", "--nproc=1", "-m", program=("package.part", "-x")).done()
    assert ("__main__ package.part ['-x']\n", "") == (done.stdout, done.stderr)

    text = "echo $RANK; touch at_$RANK; while [ ! -e at_0 ]; do :; done; exit $((RANK * 5))"
    shell = ("/bin/sh", "-c", text)
    done = Start(tmp_path, "", "--nproc=2", "--no-python", program=shell).done()
    assert ["[0] 0", "[1] 1"] == sorted(done.stdout.splitlines())
    assert 5 == done.returncode
    assert "ended with exit code 5" in done.stderr


def test_the_first_traceback_is_the_one_that_is_shown(tmp_path: Path) -> None:
    """What other ranks raise because of it is counted, not shown."""
    text = (
        "import atexit, os, pathlib\n"
        "from mpi4py import MPI\n"
        "if MPI.COMM_WORLD.rank == 2:\n"
        "    atexit.register(pathlib.Path('cause').touch)\n"
        "    raise ValueError('the cause')\n"
        "while not os.path.exists('cause'): pass\n"
        "raise RuntimeError('what follows')\n"
    )
    done = launched(tmp_path, text, "--nproc=3")

    assert 1 == done.returncode
    assert "rank 2 (process " in done.stderr
    assert "raised ValueError" in done.stderr
    assert 1 == done.stderr.count("Traceback (most recent call last)")
    assert 'program.py", line 5, in <module>' in done.stderr
    assert "launching" not in done.stderr
    assert "what follows" not in done.stderr


@pytest.mark.parametrize(
    ("what", "status", "said"),
    [
        ("sys.exit(3)", 3, "called sys.exit(3)"),
        ("os.kill(os.getpid(), 9)", 137, "was killed by SIGKILL"),
        ("sys.exit(0)", 1, "comm.recv(source=1)"),
    ],
)
def test_the_end_of_one_rank_ends_all(tmp_path: Path, what: str, status: int, said: str) -> None:
    """Whatever the others wait for; the message names the rank."""
    done = launched(tmp_path, ONE_ENDS.format(what=what), "--nproc=2")

    assert status == done.returncode
    assert "rank 1 (process " in done.stderr
    assert said in done.stderr
    assert "BAD TERMINATION" not in done.stdout + done.stderr


def test_ranks_may_end_at_different_times(tmp_path: Path) -> None:
    """An early end alone is none too early: the other rank computes."""
    text = (
        "import os, pathlib\nfrom mpi4py import MPI\n"
        "comm = MPI.COMM_WORLD\n"
        "if comm.rank == 1: pathlib.Path('ended').touch()\n"
        "else:\n"
        "    while not os.path.exists('ended'): pass\n"
        "    print(sum(i for i in range(10**6)))\n"
    )
    done = launched(tmp_path, text, "--nproc=2", "--no-prefix")

    assert (0, "499999500000\n", "") == (done.returncode, done.stdout, done.stderr)


WAITS = """
import os, pathlib, signal, sys, time
rank = os.environ["RANK"]
def end(number, frame):
    pathlib.Path(f"got_{rank}").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
pathlib.Path(f"runs_{rank}").touch()
while True:
    time.sleep(0.01)
"""


def test_signals_are_passed_on(tmp_path: Path) -> None:
    """Programs may save what they have; the launcher ends as a signal ends a program."""
    start = Start(tmp_path, WAITS, "--nproc=2")
    start.wait_for(tmp_path / "runs_0", tmp_path / "runs_1")
    start.process.send_signal(signal.SIGTERM)
    done = start.done()

    assert 128 + signal.SIGTERM == done.returncode
    assert "ended by SIGTERM" in done.stderr
    assert (tmp_path / "got_0").exists() and (tmp_path / "got_1").exists()
    assert [] == start.left()


def test_nothing_is_left_of_a_launcher_that_is_killed(tmp_path: Path) -> None:
    """Supervisors see that it is gone."""
    start = Start(tmp_path, WAITS, "--nproc=2")
    start.wait_for(tmp_path / "runs_0", tmp_path / "runs_1")
    start.process.kill()
    start.done()

    assert [] == start.left()


RESUMES = """
import json, os, pathlib, sys
from mpi4py import MPI
comm = MPI.COMM_WORLD
path = pathlib.Path("checkpoint.json")
state = json.loads(path.read_text()) if path.exists() else {"step": 0, "sum": 0}
state = comm.bcast(state)
restart = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
if comm.rank == 0:
    print("restart", restart, "of", os.environ["TORCHELASTIC_MAX_RESTARTS"], "from", state["step"])
while state["step"] < 6:
    state["sum"] += comm.allreduce(state["step"] * (comm.rank + 1))
    state["step"] += 1
    if comm.rank == 0:
        path.with_suffix(".new").write_text(json.dumps(state))
        path.with_suffix(".new").replace(path)
    comm.Barrier()
    if comm.rank == 1 and (restart, state["step"]) == (0, 2):
        os.kill(os.getpid(), 9)
if comm.rank == 0:
    print("sum", state["sum"])
"""


def test_restarted_programs_resume_from_their_checkpoints(tmp_path: Path) -> None:
    """After a death the sum is that of a run without a fault: 3 (0 + 1 + ... + 5)."""
    done = launched(tmp_path, RESUMES, "--nproc=2", "--max-restarts=3", "--no-prefix")

    lines = ["restart 0 of 3 from 0", "restart 1 of 3 from 2", "sum 45"]
    assert (0, lines) == (done.returncode, done.stdout.splitlines())
    assert 1 == done.stderr.count("was killed by SIGKILL")


def test_output_goes_to_files(tmp_path: Path) -> None:
    """`--redirects` alone, `--tee` too; tracebacks stand there as well. Rank 1 is not shown."""
    text = (
        "import os, pathlib, sys\n"
        "rank = os.environ['RANK']\n"
        "print('out', rank)\n"
        "print('err', file=sys.stderr)\n"
        "pathlib.Path('at_' + rank).touch()\n"
        "while not os.path.exists('at_0'): pass\n"
        "if rank == '1': raise ValueError('kept')\n"
    )
    flags = ("--nproc=2", "--log-dir", "logs", "--redirects=1:2", "--tee=0:1,1:1")
    flags = (*flags, "--local-ranks-filter=0")
    done = launched(tmp_path, text, *flags)

    assert "[0] out 0\n" == done.stdout
    folder = tmp_path / "logs" / "attempt_0"
    assert "out 0\n" == (folder / "0" / "stdout.log").read_text()
    assert "out 1\n" == (folder / "1" / "stdout.log").read_text()
    assert "ValueError: kept" in (folder / "1" / "stderr.log").read_text()
    assert not (folder / "0" / "stderr.log").exists()


@pytest.mark.parametrize("number", range(KILLS))
def test_a_process_that_is_killed_at_a_random_moment_ends_the_job(
    tmp_path: Path, number: int
) -> None:
    """Program or supervisor, in any moment: an error within 10 s, and nothing is left."""
    chosen = random.Random(number)
    text = "from mpi4py import MPI\nwhile True: MPI.COMM_WORLD.allreduce(1)"
    start = Start(tmp_path, text, f"--nproc={chosen.choice((2, 3))}")
    while not (ranks := _ranks_of(start)):
        assert start.process.poll() is None
    time.sleep(chosen.random() * 1.5)
    ranks = _ranks_of(start)
    os.kill(chosen.choice(ranks), signal.SIGKILL)
    killed_s = time.monotonic()
    done = start.done()

    assert time.monotonic() - killed_s < 10
    assert done.returncode
    assert "dynajit.distributed.run: " in done.stderr
    assert [] == start.left()


def _ranks_of(start: Start) -> list[int]:
    found = []
    for pid in processes_of(start.mark):
        try:
            if b"launching.rank" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"-n\0")[0]:
                found.append(pid)
        except OSError:
            continue
    return found
