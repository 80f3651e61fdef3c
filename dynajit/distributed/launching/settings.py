"""What a launcher says to each rank, in one variable of the environment.

Contract: `Settings` are written by the launcher (`runtimes.py` sees to it that they arrive) and
read by `rank.py`. A rank that was started by `mpiexec` alone has none.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Final

from dynajit.core.records import record

VARIABLE: Final = "DYNAJIT_LAUNCH"
"""Holds the settings, as JSON."""

LAUNCHED: Final = "DYNAJIT_LAUNCHED"
"""Tells a program who started it: "run" (a launcher), "spawn" (`multiprocessing.spawn`) or "mpi"
(`mpiexec` itself called `rank.py`)."""

STDOUT: Final = 1
STDERR: Final = 2


@record
class Settings:
    """Of one start of all ranks.

    Args:
        kind: what `LAUNCHED` is to say.
        host, port: where the launcher listens; the launcher fills in what is empty.
        token: proves that a rank belongs to this launcher.
        prefix: `[rank] ` stands in front of lines.
        shown: ranks whose output is shown; None: all.
        redirects, tee: rank -> sum of `STDOUT` and `STDERR`: what goes to files alone, and what
            goes to files, too. Ranks are texts, as keys in JSON.
        log_folder: of those files.
        payload: folder with what `spawn` is to call, one file per rank.
        run_id, attempt, max_restarts: as TORCHELASTIC_* say them.
        role: ROLE_NAME.
        master_addr, master_port: for stores.
        grace_s: seconds between SIGTERM and SIGKILL.
    """

    kind: str
    host: str
    port: int
    token: str
    prefix: bool = False
    shown: list[int] | None = None
    redirects: dict[str, int] = dataclasses.field(default_factory=dict)
    tee: dict[str, int] = dataclasses.field(default_factory=dict)
    log_folder: str | None = None
    payload: str | None = None
    run_id: str = "none"
    attempt: int = 0
    role: str = "default"
    max_restarts: int = 0
    master_addr: str = "127.0.0.1"
    master_port: int = 0
    grace_s: float = 3.0

    def text(self) -> str:
        """For the environment."""
        return json.dumps({name: getattr(self, name) for name in _FIELDS})


_FIELDS: Final = tuple(field.name for field in dataclasses.fields(Settings))


def of_environment(environ: Mapping[str, str]) -> Settings | None:
    """The settings that a launcher wrote, or None."""
    text = environ.get(VARIABLE)
    return None if text is None else Settings(**json.loads(text))
