"""The names of sharded modules, by PyTorch's inner path.

Contract: enumerations and the records of settings can be made and passed on; the module, its
configurations of state dicts and `fully_shard` raise when they are used.
"""

import enum
from typing import Any, Final

from dynajit.core.records import record
from dynajit.core.refusals import refused_class, refused_function

WHY: Final = "dynajit runs in one process; there are no process groups.  Use the module itself."


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
    _HYBRID_SHARD_ZERO2 = 5


class BackwardPrefetch(enum.Enum):
    """When parameters of the next layer are gathered: names to pass on."""

    BACKWARD_PRE = 1
    BACKWARD_POST = 2


class OptimStateKeyType(enum.Enum):
    """Keys of an optimiser's state dict: names to pass on."""

    PARAM_NAME = 1
    PARAM_ID = 2


@record
class OffloadPolicy:
    """No offloading: a setting to pass on."""


@record
class CPUOffload:
    """Whether parameters lie on the CPU: a setting to pass on."""

    offload_params: bool = False


@record
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters lie on the CPU, pinned or not: a setting to pass on."""

    pin_memory: bool = True


@record
class MixedPrecision:
    """The dtypes of parameters, reductions and buffers: a setting to pass on."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Any = ()


@record
class MixedPrecisionPolicy:
    """The dtypes of parameters, reductions and outputs: a setting to pass on."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


FSDPModule = refused_class("distributed.fsdp.FSDPModule", WHY)
FullOptimStateDictConfig = refused_class("distributed.fsdp.FullOptimStateDictConfig", WHY)
FullStateDictConfig = refused_class("distributed.fsdp.FullStateDictConfig", WHY)
FullyShardedDataParallel = refused_class("distributed.fsdp.FullyShardedDataParallel", WHY)
LocalOptimStateDictConfig = refused_class("distributed.fsdp.LocalOptimStateDictConfig", WHY)
LocalStateDictConfig = refused_class("distributed.fsdp.LocalStateDictConfig", WHY)
OptimStateDictConfig = refused_class("distributed.fsdp.OptimStateDictConfig", WHY)
ShardedOptimStateDictConfig = refused_class("distributed.fsdp.ShardedOptimStateDictConfig", WHY)
ShardedStateDictConfig = refused_class("distributed.fsdp.ShardedStateDictConfig", WHY)
StateDictConfig = refused_class("distributed.fsdp.StateDictConfig", WHY)
StateDictSettings = refused_class("distributed.fsdp.StateDictSettings", WHY)
fully_shard = refused_function("distributed.fsdp.fully_shard", WHY)
register_fsdp_forward_method = refused_function(
    "distributed.fsdp.register_fsdp_forward_method", WHY
)

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "CPUOffloadPolicy",
    "FSDPModule",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "OptimStateDictConfig",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
    "fully_shard",
    "register_fsdp_forward_method",
]
