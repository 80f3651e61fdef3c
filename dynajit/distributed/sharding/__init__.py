"""Modules whose parameters, gradients and optimizer states are spread over processes."""
from dynajit.distributed.sharding.composable import FSDPModule, fully_shard, register_fsdp_forward_method
