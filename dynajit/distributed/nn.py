"""Communication with gradients, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_function

_WHY = "dynajit runs in one process; there are no process groups."

all_gather = refused_function("distributed.nn.all_gather", _WHY)
all_reduce = refused_function("distributed.nn.all_reduce", _WHY)
all_to_all = refused_function("distributed.nn.all_to_all", _WHY)
broadcast = refused_function("distributed.nn.broadcast", _WHY)
gather = refused_function("distributed.nn.gather", _WHY)
reduce = refused_function("distributed.nn.reduce", _WHY)
reduce_scatter = refused_function("distributed.nn.reduce_scatter", _WHY)
scatter = refused_function("distributed.nn.scatter", _WHY)

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]
