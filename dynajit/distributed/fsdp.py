"""Modules whose parameters lie in several processes, by PyTorch's path: refused."""

import enum

from dynajit.core.refusals import refused_class, refused_function

_WHY = "dynajit runs in one process; there are no process groups.  Use the module itself."


class StateDictType(enum.Enum):
    """Kinds of state dicts: names to pass on."""

    FULL_STATE_DICT = 1
    LOCAL_STATE_DICT = 2
    SHARDED_STATE_DICT = 3


class ShardingStrategy(enum.Enum):
    """Ways to spread parameters: names to pass on."""

    FULL_SHARD = 1
    SHARD_GRAD_OP = 2
    NO_SHARD = 3
    HYBRID_SHARD = 4


CPUOffload = refused_class("distributed.fsdp.CPUOffload", _WHY)
FullOptimStateDictConfig = refused_class("distributed.fsdp.FullOptimStateDictConfig", _WHY)
FullStateDictConfig = refused_class("distributed.fsdp.FullStateDictConfig", _WHY)
FullyShardedDataParallel = refused_class("distributed.fsdp.FullyShardedDataParallel", _WHY)
MixedPrecision = refused_class("distributed.fsdp.MixedPrecision", _WHY)
fully_shard = refused_function("distributed.fsdp.fully_shard", _WHY)

__all__ = [
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "MixedPrecision",
    "ShardingStrategy",
    "StateDictType",
    "fully_shard",
]
