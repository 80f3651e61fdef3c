"""`DYNAJIT_LOG`: channels printed to stderr as things happen.

Channels: `breaks` (also `graph_breaks`), `guards`, `recompiles`, `graph`, `kernels`, `perf`.
Called by `dynajit.compile` once per compilation and recompilation; prints nothing by default.
"""

import sys

from dynajit.capture.region import Region
from dynajit.capture.session import Compilation
from dynajit.core import config
from dynajit.core.errors import ArgumentError

CHANNELS = frozenset({"breaks", "guards", "recompiles", "graph", "kernels", "perf"})
ALIASES = {"graph_breaks": "breaks", "graphs": "graph"}


def channels() -> frozenset[str]:
    """The channels that are on.

    Raises:
        ArgumentError: the configuration names a channel that does not exist.
    """
    wanted = frozenset(ALIASES.get(name, name) for name in config.current().log)
    if not wanted <= CHANNELS:
        raise ArgumentError(
            f"DYNAJIT_LOG: unknown channels {sorted(wanted - CHANNELS)}.  Expected some of "
            f"{', '.join(sorted(CHANNELS))}."
        )
    return wanted


def write(channel: str, text: str) -> None:
    """Print `text` if the channel is on, every line marked with the channel's name."""
    if channel not in channels():
        return
    for line in text.splitlines():
        print(f"dynajit {channel}: {line}", file=sys.stderr)


def log_compilation(name: str, compilation: Compilation) -> None:
    """Print what the channels want to know of one compilation."""
    if not config.current().log:
        return
    region = compilation.region
    if not isinstance(region, Region):
        write("breaks", f"{name} runs as plain Python: {region.reason}")
        return
    for record in region.breaks:
        write("breaks", f"{region.name}: {record}")
    write("guards", "\n".join([f"{region.name}:", *(str(g.expression()) for g in region.guards)]))
    if region.graph.calls:
        write("graph", str(region.graph))
    record = getattr(compilation.launch, "record", None)
    if record is not None:
        for kernel in record.kernels:
            write("kernels", f"// {kernel.name}\n{kernel.source}")
        stages = {**compilation.stages, **record.stages}
        stages.pop("backend", None)
        times = ", ".join(f"{name} {value:.1f}" for name, value in stages.items())
        write("perf", f"{region.name}: milliseconds: {times}")
