"""Calls of other processes, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_class, refused_function

_WHY = "dynajit runs in one process; there is nobody to call.  Call the function."

RRef = refused_class("distributed.rpc.RRef", _WHY)
TensorPipeRpcBackendOptions = refused_class("distributed.rpc.TensorPipeRpcBackendOptions", _WHY)
get_worker_info = refused_function("distributed.rpc.get_worker_info", _WHY)
init_rpc = refused_function("distributed.rpc.init_rpc", _WHY)
remote = refused_function("distributed.rpc.remote", _WHY)
rpc_async = refused_function("distributed.rpc.rpc_async", _WHY)
rpc_sync = refused_function("distributed.rpc.rpc_sync", _WHY)
shutdown = refused_function("distributed.rpc.shutdown", _WHY)
WorkerInfo = refused_class("distributed.rpc.WorkerInfo", _WHY)


def is_available() -> bool:
    """Whether other processes can be called: False."""
    return False


__all__ = [
    "RRef",
    "TensorPipeRpcBackendOptions",
    "WorkerInfo",
    "get_worker_info",
    "init_rpc",
    "is_available",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]
