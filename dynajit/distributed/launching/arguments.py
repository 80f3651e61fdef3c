"""The command line of the launcher: `torchrun`'s flags, and what they mean with MPI.

Contract: `parser` names the flags, `Request.of` checks what was said. The flags are PyTorch's
(`torch.distributed.run`); those about several machines are answered by MPI's own means: `mpiexec`
is called once, on one machine, and starts the ranks on all.
"""

import argparse
import os
import shlex
import signal
import socket
from typing import Final

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import InvalidValueError
from dynajit.core.records import record
from dynajit.distributed.launching.runtimes import Placement

MSG_NODES: Final = (
    "--nnodes={nodes}: with MPI one launcher starts the ranks of all machines, and it was not said "
    "which machines.  Expected --hosts=a,b or --hostfile=FILE (passed on to mpiexec), or a job of "
    "Slurm, PBS or LSF, which mpiexec asks by itself.  Run the launcher once, on one machine."
)
MSG_NODE_RANK: Final = (
    "--node-rank={rank}: with MPI one launcher starts the ranks of all machines.  Expected no "
    "launcher on machine {rank}: run it once, on the first machine, with --hosts=a,b and "
    "--nproc-per-node=N."
)
_MANAGERS: Final = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")
"""Variables of resource managers that `mpiexec` knows."""


def parser() -> argparse.ArgumentParser:
    """Of the launcher; flags may be written with `-` or `_`, as in PyTorch."""
    found = argparse.ArgumentParser(
        prog="python -m dynajit.distributed.run",
        description="Start a program on several processes (ranks) by MPI's mpiexec.",
        allow_abbrev=False,
    )
    _add_places(found)
    _add_meeting(found)
    _add_output(found)
    _flag(found, "--module", "-m", action="store_true", help="the program is a module's name")
    _flag(found, "--run-path", action="store_true", help="accepted: scripts run in their rank")
    _flag(found, "--no-python", action="store_true", help="the program is not one of Python")
    found.add_argument("training_script", metavar="program", help="script, module or program")
    found.add_argument("training_script_args", nargs=argparse.REMAINDER, metavar="arguments")
    return found


def _flag(found: argparse._ActionsContainer, *names: str, **options: object) -> None:
    """Add a flag under its names, with underscores, too."""
    every = [*names, *(f"--{name[2:].replace('-', '_')}" for name in names if "-" in name[2:])]
    found.add_argument(*every, **options)  # type: ignore[arg-type]


def _add_places(found: argparse.ArgumentParser) -> None:
    group = found.add_argument_group("where ranks run")
    _flag(group, "--nproc-per-node", "--nproc", default="1", help="a number, auto, cpu or gpu")
    _flag(group, "--nnodes", default=None, help="number of machines; that of --hosts if not given")
    _flag(group, "--node-rank", type=int, default=0, help="0: one launcher serves all machines")
    _flag(group, "--hosts", default=None, help="names of machines, for mpiexec")
    _flag(group, "--hostfile", default=None, help="a file with names of machines, for mpiexec")
    _flag(group, "--mpiexec", default=None, help="path of mpiexec; DYNAJIT_MPIEXEC, or a search")
    _flag(group, "--mpiexec-args", default="", help="further arguments of mpiexec, in one text")


def _add_meeting(found: argparse.ArgumentParser) -> None:
    group = found.add_argument_group("meeting and restarts")
    _flag(group, "--master-addr", default=None, help="MASTER_ADDR; the first machine if not given")
    _flag(group, "--master-port", type=int, default=None, help="MASTER_PORT; a free one")
    _flag(group, "--local-addr", default=None, help="address of this machine for other ones")
    _flag(group, "--rdzv-endpoint", default="", help="HOST[:PORT]: MASTER_ADDR and MASTER_PORT")
    _flag(group, "--rdzv-id", default="none", help="TORCHELASTIC_RUN_ID")
    _flag(group, "--rdzv-backend", default="static", help="accepted: ranks meet by MPI")
    _flag(group, "--rdzv-conf", default="", help="accepted: ranks meet by MPI")
    _flag(group, "--standalone", action="store_true", help="one machine, and a free port")
    _flag(group, "--max-restarts", type=int, default=0, help="start all ranks again N times")
    _flag(group, "--monitor-interval", type=float, default=0.1, help="seconds between looks")
    _flag(group, "--start-method", default="spawn", help="accepted: mpiexec starts processes")
    _flag(
        group,
        "--shutdown-timeout",
        type=float,
        default=3.0,
        help="seconds from SIGTERM until SIGKILL",
    )
    _flag(
        group,
        "--signals-to-handle",
        default="SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        help="signals that are passed on to all ranks",
    )
    _flag(group, "--role", default="default", help="ROLE_NAME")


def _add_output(found: argparse.ArgumentParser) -> None:
    group = found.add_argument_group("output")
    _flag(
        group, "--prefix", action=argparse.BooleanOptionalAction, default=None,
        help="[RANK] in front of lines; the default with several ranks",
    )  # fmt: skip
    _flag(group, "--log-dir", default=None, help="folder of log files")
    streams = "1 stdout, 2 stderr, 3 both, or a list such as 0:3,1:2 (RANK:STREAMS)"
    _flag(group, "-r", "--redirects", default="0", help=f"to files only: {streams}")
    _flag(group, "-t", "--tee", default="0", help=f"to files, too: {streams}")
    _flag(group, "--local-ranks-filter", default="", help="ranks whose output is shown: 0,1")


@record
class Request:
    """What a command line asks for, checked.

    Args:
        placement: how many ranks, and where.
        program: arguments of `rank.py`.
        master_addr, master_port: what ranks are told; None: a free port.
        local_addr: of this machine for ranks on others, or None for its name.
        signals: numbers of those that are passed on.
        role, run_id, max_restarts, poll_s, grace_s, prefix, log_folder: see the flags.
        redirects, tee: rank -> streams; ranks are texts.
        shown: ranks whose output is shown, or None for all.
        mpiexec: path, or None.
    """

    placement: Placement
    program: tuple[str, ...]
    master_addr: str
    master_port: int | None
    local_addr: str | None
    signals: tuple[int, ...]
    role: str
    run_id: str
    max_restarts: int
    poll_s: float
    grace_s: float
    prefix: bool
    log_folder: str | None
    redirects: dict[str, int]
    tee: dict[str, int]
    shown: list[int] | None
    mpiexec: str | None


def request_of(given: argparse.Namespace) -> Request:
    """What was asked for.

    Raises:
        InvalidValueError: a flag's value is not accepted, or MPI has no use for it.
    """
    placement = _placement(given)
    address, port = _meeting(given, placement)
    redirects = _streams("--redirects", given.redirects, placement)
    tee = _streams("--tee", given.tee, placement)
    if (redirects or tee) and given.log_dir is None:
        raise InvalidValueError(
            "--redirects and --tee write log files, and no folder for them was said.  Expected "
            "--log-dir FOLDER."
        )
    if given.max_restarts < 0:
        raise InvalidValueError(f"--max-restarts={given.max_restarts}: expected 0 or more.")
    return Request(
        placement=placement,
        program=_program(given),
        master_addr=address,
        master_port=port,
        local_addr=given.local_addr,
        signals=_signals(given.signals_to_handle),
        role=given.role,
        run_id=given.rdzv_id,
        max_restarts=given.max_restarts,
        poll_s=min(1.0, max(0.01, given.monitor_interval)),
        grace_s=given.shutdown_timeout,
        prefix=placement.size > 1 if given.prefix is None else given.prefix,
        log_folder=None if given.log_dir is None else os.path.abspath(given.log_dir),
        redirects=redirects,
        tee=tee,
        shown=_shown(given.local_ranks_filter, placement),
        mpiexec=given.mpiexec,
    )


def _program(given: argparse.Namespace) -> tuple[str, ...]:
    if given.module and given.no_python:
        raise InvalidValueError("--module and --no-python exclude each other: expected one.")
    before = ["--module"] * given.module + ["--no-python"] * given.no_python
    return (*before, given.training_script, *given.training_script_args)


def _placement(given: argparse.Namespace) -> Placement:
    if given.node_rank:
        raise InvalidValueError(MSG_NODE_RANK.format(rank=given.node_rank))
    hosts = None if given.hosts is None else [host for host in given.hosts.split(",") if host]
    nodes = _nodes(given, None if hosts is None else len(hosts))
    each = _per_machine(given.nproc_per_node)
    if given.standalone and nodes != 1:
        raise InvalidValueError(f"--standalone means one machine, and {nodes} were asked for.")
    return Placement(
        size=nodes * each,
        per_machine=each,
        hosts=None if hosts is None else ",".join(hosts),
        hostfile=given.hostfile,
        extra=tuple(shlex.split(given.mpiexec_args)),
    )


def _nodes(given: argparse.Namespace, known: int | None) -> int:
    text = given.nnodes
    if text is None:
        return known or _lines_of(given.hostfile)
    least, _, most = str(text).partition(":")
    if not least.isdigit() or most not in ("", least) or int(least) < 1:
        raise InvalidValueError(
            f"--nnodes={text}: with MPI the number of machines is fixed.  Expected one number, "
            "1 or more."
        )
    nodes = int(least)
    if known is not None and nodes != known:
        raise InvalidValueError(f"--nnodes={nodes}: --hosts names {known}.  Expected {known}.")
    is_managed = any(name in os.environ for name in _MANAGERS)
    if nodes > 1 and known is None and given.hostfile is None and not is_managed:
        raise InvalidValueError(MSG_NODES.format(nodes=nodes))
    return nodes


def _lines_of(hostfile: str | None) -> int:
    """The number of machines in a file: one a line."""
    if hostfile is None:
        return 1
    try:
        with open(hostfile) as file:
            entries = [line.partition("#")[0].partition(":")[0].split() for line in file]
    except OSError as error:
        raise InvalidValueError(f"--hostfile={hostfile} cannot be read: {error}") from error
    return max(1, len({entry[0] for entry in entries if entry}))


def _per_machine(text: str) -> int:
    gpus = gpu.device_count() if text in ("auto", "gpu") else 0
    if gpus:
        return gpus
    if text == "gpu":
        raise InvalidValueError("--nproc-per-node=gpu: there is no GPU to use.  Expected cpu.")
    if text in ("auto", "cpu"):
        return os.cpu_count() or 1
    if text.isdigit() and int(text) > 0:
        return int(text)
    raise InvalidValueError(
        f"--nproc-per-node={text}: expected a number of 1 or more, auto, cpu or gpu."
    )


def _meeting(given: argparse.Namespace, placement: Placement) -> tuple[str, int | None]:
    """MASTER_ADDR and MASTER_PORT."""
    if given.standalone:
        return "localhost", None
    host, _, port = given.rdzv_endpoint.rpartition(":")
    if given.rdzv_endpoint and not port.isdigit():
        host, port = given.rdzv_endpoint, ""
    address = given.master_addr or host
    if not address:
        first = placement.hosts.split(",")[0].split(":")[0] if placement.hosts else ""
        address = "127.0.0.1" if placement.is_local else first or socket.gethostname()
    if given.master_port is not None:
        return address, given.master_port
    return address, int(port) or None if port else None


def _signals(text: str) -> tuple[int, ...]:
    """Numbers of signals."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = signal.Signals.__members__
    unknown = [name for name in names if name not in known or name in ("SIGKILL", "SIGSTOP")]
    if unknown:
        raise InvalidValueError(
            f"--signals-to-handle={text}: {unknown[0]} cannot be handled.  Expected names such as "
            "SIGTERM,SIGUSR1."
        )
    return tuple(int(known[name]) for name in names)


def _streams(flag: str, text: str, placement: Placement) -> dict[str, int]:
    """Rank -> streams, of "3" or "0:1,1:3"."""
    try:
        if ":" not in text:
            number = int(text)
            found = {str(rank): number for rank in range(placement.size)} if number else {}
        else:
            pairs = (part.split(":") for part in text.split(","))
            found = {str(int(rank)): int(number) for rank, number in pairs}
    except ValueError:
        found = {"0": -1}
    if not all(0 <= number <= 3 for number in found.values()):
        raise InvalidValueError(
            f"{flag}={text}: expected 0 (none), 1 (stdout), 2 (stderr), 3 (both), or such numbers "
            "for ranks: 0:1,1:3."
        )
    return found


def _shown(text: str, placement: Placement) -> list[int] | None:
    """Ranks to show: those of each machine that have one of the given local ranks."""
    if not text:
        return None
    if not all(part.strip().isdigit() for part in text.split(",")):
        raise InvalidValueError(
            f"--local-ranks-filter={text}: expected numbers with commas, such as 0,1."
        )
    local = {int(part) for part in text.split(",")}
    return [rank for rank in range(placement.size) if rank % placement.per_machine in local]
