"""Checkpoints of several processes as files of one, and back; no process group is needed."""

from typing import Any

from dynajit.distributed.checkpoint.files import FileSystemReader
from dynajit.distributed.checkpoint.saving import read_whole, save
from dynajit.eager.files import serialization


def dcp_to_torch_save(dcp_checkpoint_dir: Any, torch_save_path: Any) -> None:
    """Write whole tensors of a checkpoint, by names that are joined by dots, by `dynajit.save`.

    Raises:
        CheckpointException: it is damaged.
    """
    reader = FileSystemReader(dcp_checkpoint_dir)
    entries = reader.read_metadata().entries
    serialization.save(
        {name: read_whole(name, saved, reader) for name, saved in entries.items()}, torch_save_path
    )


def torch_save_to_dcp(torch_save_path: Any, dcp_checkpoint_dir: Any) -> None:
    """Write what `dynajit.save` wrote as a checkpoint.

    Raises:
        CheckpointException: it cannot be written.
    """
    save(serialization.load(torch_save_path), checkpoint_id=dcp_checkpoint_dir, no_dist=True)


__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]
