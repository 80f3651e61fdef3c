"""Parts of the launcher that start nothing: flags, runtimes, places, output, waits, `record`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dynajit.core.errors import InvalidValueError, UnsupportedError
from dynajit.distributed import run
from dynajit.distributed.launching import output, runtimes
from dynajit.distributed.launching.arguments import Request, request_of
from dynajit.distributed.launching.errors import record
from dynajit.distributed.launching.numbers import Place, of_environment, variables, without_ranks
from dynajit.distributed.launching.runtimes import Placement, Runtime
from dynajit.distributed.launching.settings import VARIABLE, Settings
from dynajit.distributed.launching.settings import of_environment as settings_of
from tests.support.launching import needs_mpi


def _asked(*flags: str) -> Request:
    return request_of(run.parse_args([*flags, "script.py", "--lr", "1"]))


def test_flags_are_torchruns() -> None:
    """With `-` and `_`; what follows the program belongs to it."""
    for flags in (
        ("--nproc-per-node=3", "--master-addr=a", "--master-port=7", "--max-restarts=2"),
        ("--nproc_per_node", "3", "--master_addr", "a", "--master_port", "7", "--max_restarts=2"),
        ("--nproc=3", "--rdzv-backend=c10d", "--rdzv-endpoint=a:7", "--max-restarts", "2"),
    ):
        asked = _asked(*flags)
        assert (Placement(3, 3), 2) == (asked.placement, asked.max_restarts)
        assert ("a", 7) == (asked.master_addr, asked.master_port)
        assert ("script.py", "--lr", "1") == asked.program
    assert ("--module", "script.py", "--lr", "1") == _asked("-m").program
    assert os.cpu_count() == _asked("--nproc=cpu").placement.size
    assert ("localhost", None) == (
        _asked("--standalone").master_addr,
        _asked("--standalone").master_port,
    )


def test_every_flag_of_pytorch_is_known() -> None:
    """In both spellings, but for those that change inner parts of PyTorch's launcher."""
    torch_run = pytest.importorskip("torch.distributed.run")
    ours = {name for action in run.get_args_parser()._actions for name in action.option_strings}
    theirs = {
        name for action in torch_run.get_args_parser()._actions for name in action.option_strings
    }

    assert LEFT_OUT == {name.replace("_", "-") for name in theirs - ours}


LEFT_OUT = {
    "--duplicate-stderr-filters",
    "--duplicate-stdout-filters",
    "--event-log-handler",
    "--logs-specs",
    "--numa-binding",
    "--virtual-local-rank",
}
"""Flags of PyTorch's launcher that are not here: mpiexec binds processes (`--mpiexec-args`)."""


def test_several_machines_are_mpiexecs_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--hosts` and `--hostfile` say which; a launcher on every machine is refused."""
    for name in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    asked = _asked("--hosts=a,b", "--nproc=4")
    assert (Placement(8, 4, hosts="a,b"), "a") == (asked.placement, asked.master_addr)
    file = tmp_path / "hosts"
    file.write_text("a:2\n# not this\nb\n\n")
    assert 6 == _asked(f"--hostfile={file}", "--nproc=3").placement.size
    with pytest.raises(InvalidValueError, match="--hosts=a,b or --hostfile"):
        _asked("--nnodes=2")
    with pytest.raises(InvalidValueError, match="once, on the first machine"):
        _asked("--nnodes=2", "--node-rank=1")
    with pytest.raises(InvalidValueError, match="fixed"):
        _asked("--nnodes=1:4")
    with pytest.raises(InvalidValueError, match="--hosts names 2"):
        _asked("--nnodes=3", "--hosts=a,b")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    assert Placement(8, 4) == _asked("--nnodes=2", "--nproc=4").placement


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--nproc=0",), "1 or more, auto, cpu or gpu"),
        (("--nproc=many",), "1 or more, auto, cpu or gpu"),
        (("--tee=4", "--log-dir=x"), "3 \\(both\\)"),
        (("--redirects=1",), "--log-dir"),
        (("--local-ranks-filter=a",), "numbers with commas"),
        (("--max-restarts=-1",), "0 or more"),
        (("--signals-to-handle=SIGKILL",), "SIGKILL cannot be handled"),
        (("-m", "--no-python"), "exclude each other"),
        (("--standalone", "--hosts=a,b"), "one machine"),
    ],
)
def test_wrong_flags_are_refused(flags: tuple[str, ...], said: str) -> None:
    """With what would be accepted."""
    with pytest.raises(InvalidValueError, match=said):
        _asked(*flags)


def test_streams_are_for_all_ranks_or_some() -> None:
    """As `torchrun` writes them."""
    asked = _asked("--nproc=2", "--tee=3", "--redirects=1:2", "--log-dir=x")
    assert ({"0": 3, "1": 3}, {"1": 2}) == (asked.tee, asked.redirects)
    assert [1] == _asked("--nproc=2", "--local-ranks-filter=1").shown


def test_runtimes_are_called_in_their_own_way() -> None:
    """Hydra and Open MPI name machines differently; only the latter is told of variables."""
    away = Placement(4, 2, hosts="a,b", extra=("-x",))
    hydra = ["m", "-ppn", "2", "-hosts", "a,b", "-x", "-n", "4", "p"]
    assert hydra == Runtime("m", False).command(away, ["V"], ["p"])
    open_mpi = Runtime("m", True).command(away, ["V"], ["p"])
    assert "a:2,b:2" == open_mpi[open_mpi.index("--host") + 1]
    assert ["-x", "V", "-x", "-n", "4", "p"] == open_mpi[-6:]
    assert ["m", "-n", "4", "p"] == Runtime("m", False).command(Placement(4, 4), [], ["p"])


def test_ranks_load_the_library_of_their_mpiexec(tmp_path: Path) -> None:
    """Unless the program says which one."""
    (tmp_path / "lib").mkdir()
    library = tmp_path / "lib" / "libmpi.so.12"
    library.touch()
    runtime = Runtime(str(tmp_path / "bin" / "mpiexec"), False)
    assert {"MPI4PY_LIBMPI": str(library), "A": "1"} == runtime.environment({"A": "1"})
    assert {"MPI4PY_LIBMPI": "x"} == runtime.environment({"MPI4PY_LIBMPI": "x"})


def test_without_mpi_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both parts of it, and the exit status is 2."""
    monkeypatch.setenv("DYNAJIT_MPIEXEC", "/nowhere/mpiexec")
    assert 2 == run.main(["--nproc=2", "script.py"])
    said = capsys.readouterr().err
    assert "pip install 'dynajit[mpi]' mpich" in said

    monkeypatch.setattr(runtimes.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match="mpi4py is not installed"):
        runtimes.found("a test")


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        (
            {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"},
            Place(3, 4, 1, 2),
        ),
        (
            {"PMI_RANK": "3", "PMI_SIZE": "4", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"},
            Place(3, 4, 3, 4),
        ),
        (
            {
                "OMPI_COMM_WORLD_RANK": "1",
                "OMPI_COMM_WORLD_SIZE": "2",
                "OMPI_COMM_WORLD_LOCAL_RANK": "0",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
            },
            Place(1, 2, 0, 1),
        ),
        (
            {
                "SLURM_PROCID": "5",
                "SLURM_NTASKS": "8",
                "SLURM_LOCALID": "1",
                "SLURM_TASKS_PER_NODE": "4(x2)",
            },
            Place(5, 8, 1, 4),
        ),
    ],
)  # fmt: skip
def test_places_are_read_off_the_environment(environ: dict[str, str], place: Place) -> None:
    """Of Hydra, Open MPI and Slurm; a Hydra within Slurm is meant before Slurm."""
    assert place == of_environment(environ)


def test_an_environment_without_a_rank_is_refused() -> None:
    """With how to start the program."""
    with pytest.raises(InvalidValueError, match=r"dynajit\.distributed\.run"):
        of_environment({"RANK": "0"})


def test_ranks_of_the_second_machine_are_group_one() -> None:
    """Machines have equal numbers of ranks; programs of `spawn` are told none."""
    found = variables(Place(5, 8, 1, 4), None)
    assert ("5", "1", "1", "2") == tuple(
        found[name] for name in ("RANK", "LOCAL_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE")
    )
    spawned = Settings("spawn", "h", 1, "t")
    assert {"DYNAJIT_LAUNCHED": "spawn"} == variables(Place(5, 8, 1, 4), spawned)


def test_an_outer_rank_is_not_passed_on() -> None:
    """A rank may start ranks; settings of the runtime stay."""
    given = {"PMI_RANK": "0", "PMIX_RANK": "0", "MPI_LOCALRANKID": "0", "OMPI_COMM_WORLD_RANK": "1"}
    kept = {"OMPI_MCA_btl": "tcp", "PMIX_MCA_a": "1", "MPI4PY_RC_THREADS": "0", "PATH": "p"}
    assert kept == without_ranks({**given, **kept, VARIABLE: "{}"})


def test_settings_arrive() -> None:
    """Through one variable."""
    settings = Settings("run", "h", 1, "t", shown=[0], tee={"1": 3}, log_folder="x")
    assert settings == settings_of({VARIABLE: settings.text()})
    assert settings_of({}) is None


def test_lines_of_a_rank_are_shown_whole() -> None:
    """With the prefix in front; progress bars write lines, too, and the last one may be open."""
    source, into = os.pipe()
    out, shown = os.pipe()
    pump = output.Pump(1, source, shown, "[2] ", None)
    for text in (b"a", b"b\ncd", b"e\r", b"50%\r\n", b"open"):
        os.write(into, text)
        pump.move()
    os.close(into)
    assert not pump.move()
    assert b"[2] ab\n[2] cde\r[2] 50%\n[2] open\n" == os.read(out, 100)
    for end in (source, out, shown):
        os.close(end)


@needs_mpi
def test_a_wait_in_mpi_is_told_from_other_calls(tmp_path: Path) -> None:
    """The text of the call says whose method it is; nothing of the program is run for that."""
    text = (
        "import sys, threading, time\n"
        "from mpi4py import MPI\n"
        "from dynajit.distributed.launching.stalls import waiting_call\n"
        "class Holder:\n"
        "    comm = MPI.COMM_WORLD\n"
        "def by_attribute(holder, go): holder.comm.recv(source=0, tag=1)\n"
        "def by_method(method, go): method(source=0, tag=1)\n"
        "def computes(value, go):\n"
        "    while not go.is_set(): sum(range(1000))\n"
        "def waits(value, go): go.wait()\n"
        "comm = MPI.COMM_WORLD\n"
        "for function, value in [(by_attribute, Holder()), (by_method, comm.recv), "
        "(computes, comm), (waits, comm)]:\n"
        "    go = threading.Event()\n"
        "    thread = threading.Thread(target=function, args=(value, go))\n"
        "    thread.start()\n"
        "    end = time.monotonic() + 0.3\n"
        "    found = set()\n"
        "    while time.monotonic() < end:\n"
        "        call = waiting_call(sys._current_frames()[thread.ident])\n"
        "        found.add(call and call.place.split(' (')[0])\n"
        "    print(function.__name__, found - {None})\n"
        "    go.set()\n"
        "    if function in (by_attribute, by_method): comm.send(0, dest=0, tag=1)\n"
        "    thread.join()\n"
    )
    script = tmp_path / "program.py"
    script.write_text(text)
    environ = runtimes.found("a test").environment(without_ranks(os.environ))
    done = subprocess.run(
        [sys.executable, script], env=environ, capture_output=True, text=True, check=False
    )

    assert "" == done.stderr
    assert [
        "by_attribute {'holder.comm.recv(source=0, tag=1)'}",
        "by_method {'method(source=0, tag=1)'}",
        "computes set()",
        "waits set()",
    ] == done.stdout.splitlines()


def test_record_writes_the_error_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In PyTorch's form; the exception goes on, and `sys.exit` is no error."""
    path = tmp_path / "folder" / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))

    @record
    def main(code: int) -> int:
        """What the program does."""
        if code:
            sys.exit(code)
        raise ValueError("told")

    with pytest.raises(SystemExit):
        main(3)
    assert not path.exists()
    with pytest.raises(ValueError, match="told"):
        main(0)
    message = json.loads(path.read_text())["message"]
    assert "ValueError: told" == message["message"]
    assert "in main" in message["extraInfo"]["py_callstack"]
    assert ("main", "What the program does.") == (main.__name__, main.__doc__)


def test_record_lies_at_pytorchs_path() -> None:
    """`dynajit.distributed.elastic.multiprocessing.errors`."""
    from dynajit.distributed.elastic.multiprocessing import errors

    assert record is errors.record
