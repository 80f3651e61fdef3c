"""`DYNAJIT_LOG` and `set_logs`: what is said while functions are compiled, by channels.

Channels: `summary` (one line after a function's first call), `breaks` (also `graph_breaks`),
`guards`, `recompiles`, `graph`, `kernels`, `perf`. Each is a logger, too: see
`dynajit.core.process.logs`.
"""

from typing import TYPE_CHECKING

from dynajit.core.errors import ArgumentError
from dynajit.core.process import config
from dynajit.core.process.late import Late
from dynajit.core.process.logs import is_on, write

if TYPE_CHECKING:
    from dynajit.capture.entry.session import Compilation
    from dynajit.capture.region import region as regions
else:
    regions = Late("dynajit.capture.region.region")

CHANNELS = config.CHANNELS


def channels() -> frozenset[str]:
    """The channels that are on.

    Raises:
        ArgumentError: the configuration names a channel that does not exist.
    """
    return _checked("DYNAJIT_LOG", config.current().log)


def set_logs(*names: str, **switches: bool) -> None:
    """Choose the channels printed from now on, in the whole process; none: silence.

    Args:
        names: channels to print.
        switches: the same spelled `graph_breaks=True`; False leaves a channel out.

    Raises:
        ArgumentError: there is no such channel.
    """
    switched = (name for name, is_on in switches.items() if is_on)
    _checked("set_logs", frozenset(switches))
    config.configure(log=_checked("set_logs", frozenset((*names, *switched))))


def _checked(asker: str, names: frozenset[str]) -> frozenset[str]:
    wanted = frozenset(config.CHANNEL_ALIASES.get(name, name) for name in names)
    if not wanted <= CHANNELS:
        raise ArgumentError(
            f"{asker}: unknown channels {sorted(wanted - CHANNELS)}.  Expected some of "
            f"{', '.join(sorted(CHANNELS))}.{config.near_channels(wanted - CHANNELS)}"
        )
    return wanted


def log_compilation(name: str, compilation: "Compilation") -> None:
    """Say what the channels want to know of one compilation.

    Raises:
        ArgumentError: as `channels`.
    """
    if not channels() and not any(map(is_on, CHANNELS)):
        return
    region = compilation.region
    if not isinstance(region, regions.Region):
        write("breaks", f"{name} runs as plain Python: {region.reason}")
        return
    for record in region.breaks:
        write("breaks", f"{region.name}: {record}")
    if is_on("guards"):
        guards = (str(guard.expression()) for guard in region.guards)
        write("guards", "\n".join([f"{region.name}:", *guards]))
    if region.graph.calls and is_on("graph"):
        write("graph", str(region.graph))
    launched = getattr(compilation.launch, "record", None)
    if launched is not None:
        for kernel in launched.kernels:
            write("kernels", f"// {kernel.name}\n{kernel.source}")
        stages = {**compilation.stages, **launched.stages}
        stages.pop("backend", None)
        times = ", ".join(f"{name} {value:.1f}" for name, value in stages.items())
        write("perf", f"{region.name}: milliseconds: {times}")
