"""How modules are sharded, as programs say it: enumerations and records.

Contract: values, by PyTorch's names; the modules beside this one read them.
"""

import enum
from typing import Any

from dynajit.core.records import record


class StateDictType(enum.Enum):
    """What a state dict holds: whole tensors, or this process's parts."""

    FULL_STATE_DICT = 1
    LOCAL_STATE_DICT = 2
    SHARDED_STATE_DICT = 3


class ShardingStrategy(enum.Enum):
    """What is spread over processes: parameters and gradients, gradients, or nothing."""

    FULL_SHARD = 1
    SHARD_GRAD_OP = 2
    NO_SHARD = 3
    HYBRID_SHARD = 4
    _HYBRID_SHARD_ZERO2 = 5


class BackwardPrefetch(enum.Enum):
    """When parameters of the next layer are gathered in backward."""

    BACKWARD_PRE = 1
    BACKWARD_POST = 2


class OptimStateKeyType(enum.Enum):
    """Keys of an optimizer's state dict."""

    PARAM_NAME = 1
    PARAM_ID = 2


@record
class OffloadPolicy:
    """Parameters lie where they are computed with."""


@record
class CPUOffload:
    """Whether parameters lie on the CPU, where they are in any case."""

    offload_params: bool = False


@record
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters lie on the CPU, where they are in any case."""

    pin_memory: bool = True


@record
class MixedPrecision:
    """The dtypes of gathered parameters, of reductions and of buffers; None leaves them."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Any = ()


@record
class MixedPrecisionPolicy:
    """The dtypes of gathered parameters, of reductions and of outputs; None leaves them."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@record
class StateDictConfig:
    """What `state_dict` does with what it gathered.

    Args:
        offload_to_cpu: put it on the CPU.
    """

    offload_to_cpu: bool = False


@record
class FullStateDictConfig(StateDictConfig):
    """Whole tensors.

    Args:
        rank0_only: processes but the first have none.
    """

    rank0_only: bool = False


@record
class LocalStateDictConfig(StateDictConfig):
    """This process's parts."""


@record
class ShardedStateDictConfig(StateDictConfig):
    """This process's parts, which know their places."""

    _use_dtensor: bool = False


@record
class OptimStateDictConfig:
    """What `optim_state_dict` does with what it gathered.

    Args:
        offload_to_cpu: put it on the CPU.
    """

    offload_to_cpu: bool = True


@record
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Whole tensors.

    Args:
        rank0_only: processes but the first have none.
    """

    rank0_only: bool = False


@record
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """This process's parts."""


@record
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """This process's parts, which know their places."""

    _use_dtensor: bool = False


@record
class StateDictSettings:
    """What `set_state_dict_type` was given before."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
