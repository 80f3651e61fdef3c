"""Checkpoints of several processes, by PyTorch's path: each writes what it has, any number reads.

Contract: `save` leaves the checkpoint that was there before as it is, until all of the new one is
on disk; `load` writes nothing before all that it needs was read and is whole.
"""

from dynajit.core.errors import CheckpointException
from dynajit.core.process import late
from dynajit.core.refusals import refused_class
from dynajit.distributed.checkpoint.files import FileSystemReader, FileSystemWriter
from dynajit.distributed.checkpoint.metadata import Metadata
from dynajit.distributed.checkpoint.saving import (
    async_save,
    load,
    load_state_dict,
    save,
    save_state_dict,
)

_NO_PLANS = "every process writes what it has.  Leave the planner out."
_NO_STORAGE = "checkpoints are folders.  Use FileSystemReader and FileSystemWriter."
DefaultLoadPlanner = refused_class("distributed.checkpoint.DefaultLoadPlanner", _NO_PLANS)
DefaultSavePlanner = refused_class("distributed.checkpoint.DefaultSavePlanner", _NO_PLANS)
LoadPlanner = refused_class("distributed.checkpoint.LoadPlanner", _NO_PLANS)
SavePlanner = refused_class("distributed.checkpoint.SavePlanner", _NO_PLANS)
StorageReader = refused_class("distributed.checkpoint.StorageReader", _NO_STORAGE)
StorageWriter = refused_class("distributed.checkpoint.StorageWriter", _NO_STORAGE)

__all__ = [
    "CheckpointException",
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
    "load_state_dict",
    "save",
    "save_state_dict",
]

__getattr__ = late.publish(__name__, modules=("format_utils", "state_dict"))

late.show(__name__)
