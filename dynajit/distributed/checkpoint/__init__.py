"""Checkpoints of several processes, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_class, refused_function

_WHY = "dynajit runs in one process; nothing is sharded.  Use dynajit.save and dynajit.load."

FileSystemReader = refused_class("distributed.checkpoint.FileSystemReader", _WHY)
FileSystemWriter = refused_class("distributed.checkpoint.FileSystemWriter", _WHY)
DefaultLoadPlanner = refused_class("distributed.checkpoint.DefaultLoadPlanner", _WHY)
DefaultSavePlanner = refused_class("distributed.checkpoint.DefaultSavePlanner", _WHY)
LoadPlanner = refused_class("distributed.checkpoint.LoadPlanner", _WHY)
Metadata = refused_class("distributed.checkpoint.Metadata", _WHY)
SavePlanner = refused_class("distributed.checkpoint.SavePlanner", _WHY)
StorageReader = refused_class("distributed.checkpoint.StorageReader", _WHY)
StorageWriter = refused_class("distributed.checkpoint.StorageWriter", _WHY)
async_save = refused_function("distributed.checkpoint.async_save", _WHY)
load = refused_function("distributed.checkpoint.load", _WHY)
load_sharded_optimizer_state_dict = refused_function(
    "distributed.checkpoint.load_sharded_optimizer_state_dict", _WHY
)
load_state_dict = refused_function("distributed.checkpoint.load_state_dict", _WHY)
save = refused_function("distributed.checkpoint.save", _WHY)
save_state_dict = refused_function("distributed.checkpoint.save_state_dict", _WHY)

__all__ = [
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "LoadPlanner",
    "Metadata",
    "SavePlanner",
    "StorageReader",
    "StorageWriter",
    "async_save",
    "load",
    "load_sharded_optimizer_state_dict",
    "load_state_dict",
    "save",
    "save_state_dict",
]
