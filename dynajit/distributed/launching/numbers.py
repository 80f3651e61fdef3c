"""Which rank a process is: read off what MPI runtimes put into the environment.

Contract: `of_environment` asks one runtime after the other; `variables` gives what programs for
`torchrun` read. Nothing of MPI is loaded.

Sources: Hydra (MPICH, Intel MPI) sets PMI_RANK, PMI_SIZE, MPI_LOCALRANKID and MPI_LOCALNRANKS;
Open MPI documents OMPI_COMM_WORLD_*; MVAPICH MV2_COMM_WORLD_*; Slurm's `srun` SLURM_*.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from dynajit.core.errors import InvalidValueError
from dynajit.distributed.launching.settings import LAUNCHED, VARIABLE, Settings


class Place(NamedTuple):
    """Of a process among all, and among those of its machine."""

    rank: int
    size: int
    local_rank: int
    local_size: int


class Source(NamedTuple):
    """The variables of one runtime; the local ones may be missing on a single machine."""

    rank: str
    size: str
    local_rank: str
    local_size: str


SOURCES: Final = (
    Source("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    Source(
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    Source(
        "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
        "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE",
    ),
    Source("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE"),
)  # fmt: skip
"""In order: a Hydra that runs within a Slurm job is asked before Slurm."""

_OF_RANKS: Final = re.compile(
    "PMI_|PMIX_(?!MCA_)|PRTE_(?!MCA_)|OMPI_COMM_WORLD_|OMPI_UNIVERSE_|MV2_COMM_WORLD_|HYDI_|HYDRA_|"
    "MPI_LOCALRANKID$|MPI_LOCALNRANKS$"
)
"""What a runtime tells one rank: wrong for ranks that this rank starts."""


def of_environment(environ: Mapping[str, str]) -> Place:
    """The place of this process.

    Raises:
        InvalidValueError: no MPI runtime has started it.
    """
    for source in SOURCES:
        if source.rank in environ and source.size in environ:
            rank, size = int(environ[source.rank]), int(environ[source.size])
            local = _number(environ.get(source.local_rank), rank)
            return Place(rank, size, local, _number(environ.get(source.local_size), size))
    raise InvalidValueError(
        "the environment names no rank.  Expected the variables of an MPI runtime, such as "
        f"{', '.join(source.rank for source in SOURCES)}.  Start this module by mpiexec, or the "
        "program by: python -m dynajit.distributed.run --nproc-per-node N script.py"
    )


def _number(text: str | None, absent: int) -> int:
    """The number that a text begins with: Slurm says "4(x2)" of two nodes with four ranks each."""
    match = re.match(r"\d+", text or "")
    return int(match[0]) if match else absent


def without_ranks(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment for a new `mpiexec`: what an outer one told this rank is left away."""
    return {
        name: value
        for name, value in environ.items()
        if not _OF_RANKS.match(name) and name != VARIABLE
    }


def variables(place: Place, settings: Settings | None) -> dict[str, str]:
    """What a rank's program finds in its environment.

    A machine has an equal number of ranks, one after the other, so that the rank of its group (of
    the machine) is `rank // local_size`. Programs of `spawn` find `LAUNCHED` alone: there the
    caller says rank and size, as in PyTorch.
    """
    kind = "mpi" if settings is None else settings.kind
    if kind == "spawn":
        return {LAUNCHED: kind}
    group = place.rank // max(1, place.local_size)
    found = {
        LAUNCHED: kind,
        "RANK": place.rank,
        "WORLD_SIZE": place.size,
        "LOCAL_RANK": place.local_rank,
        "LOCAL_WORLD_SIZE": place.local_size,
        "GROUP_RANK": group,
        "GROUP_WORLD_SIZE": -(-place.size // max(1, place.local_size)),
        "ROLE_NAME": "default" if settings is None else settings.role,
        "ROLE_RANK": place.rank,
        "ROLE_WORLD_SIZE": place.size,
    }
    if settings is not None:
        found |= {
            "MASTER_ADDR": settings.master_addr,
            "MASTER_PORT": settings.master_port,
            "TORCHELASTIC_RUN_ID": settings.run_id,
            "TORCHELASTIC_RESTART_COUNT": settings.attempt,
            "TORCHELASTIC_MAX_RESTARTS": settings.max_restarts,
        }
    return {name: str(value) for name, value in found.items()}
