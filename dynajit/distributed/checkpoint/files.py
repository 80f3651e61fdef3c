"""Folders of checkpoints: every process writes one file, the first one the file that names all.

Contract: names of data files are new in each save, and the metadata file is replaced last and at
once: who reads sees the checkpoint before or the one after. Bytes are compared with their CRC.
"""

import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, Final

from dynajit.core.errors import CheckpointException
from dynajit.distributed.checkpoint.metadata import Metadata, Piece

METADATA: Final = ".metadata"
_SUFFIX: Final = ".distcp"


class FileSystemWriter:
    """Writes a checkpoint into a folder, which is made if need be.

    Args:
        path: of the folder.
        single_file_per_rank, thread_count, per_thread_copy_ahead, cache_staged_state_dict:
            accepted.
        sync_files: wait until everything is on the disk.
        overwrite: replace the checkpoint that is there; else that is an error.

    Raises:
        CheckpointException: while it writes.
    """

    def __init__(
        self,
        path: Any,
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
    ) -> None:
        self.path = Path(path)
        self.sync_files = sync_files
        self.overwrite = overwrite

    def check(self) -> None:
        """Nothing, if a checkpoint may be written here."""
        if not self.overwrite and (self.path / METADATA).exists():
            raise CheckpointException(
                f"{self.path}: a checkpoint is there.  Give another folder, or overwrite=True."
            )
        self.path.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, chunks: Iterable[Any]) -> list[tuple[int, int, int]]:
        """Write a data file of these bytes.

        Returns:
            Of each chunk offset, length and CRC.
        """
        places = []
        offset = 0
        with self._opened(name) as file:
            for chunk in chunks:
                file.write(chunk)
                length = memoryview(chunk).nbytes
                places.append((offset, length, zlib.crc32(chunk)))
                offset += length
            self._flush(file)
        self._named(name)
        return places

    def write_metadata(self, metadata: Metadata) -> None:
        """Make what was written the checkpoint, and delete what none refers to."""
        with self._opened(METADATA) as file:
            file.write(metadata.text().encode())
            self._flush(file)
        self._named(METADATA)
        needed = {piece.file for saved in metadata.entries.values() for piece in saved.pieces}
        for path in self.path.glob(f"__*{_SUFFIX}*"):
            if path.name not in needed:
                path.unlink(missing_ok=True)

    def _opened(self, name: str) -> BinaryIO:
        return (self.path / f"{name}.tmp").open("wb")

    def _flush(self, file: BinaryIO) -> None:
        file.flush()
        if self.sync_files:
            os.fsync(file.fileno())

    def _named(self, name: str) -> None:
        (self.path / f"{name}.tmp").replace(self.path / name)


class FileSystemReader:
    """Reads a checkpoint of a folder.

    Args:
        path: of the folder.

    Raises:
        CheckpointException: while it reads.
    """

    def __init__(self, path: Any) -> None:
        self.path = Path(path)

    def read_metadata(self) -> Metadata:
        """What is there."""
        file = self.path / METADATA
        try:
            text = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise CheckpointException(
                f"{self.path}: expected a checkpoint, with a readable file {METADATA!r} "
                f"({error}).  It is missing where save() did not end; use the checkpoint before."
            ) from error
        return Metadata.read(text, str(file))

    def read(self, piece: Piece) -> bytes:
        """The bytes of a piece, which are as they were written."""
        file = self.path / piece.file
        try:
            with file.open("rb") as opened:
                opened.seek(piece.offset)
                found = opened.read(piece.length)
        except OSError as error:
            raise CheckpointException(
                f"{file}: a file of the checkpoint is missing ({error})."
            ) from error
        if len(found) != piece.length or zlib.crc32(found) != piece.crc:
            raise CheckpointException(
                f"{file}: the bytes from {piece.offset} to {piece.offset + piece.length} are not "
                "those that were written.  The file is damaged; use another checkpoint."
            )
        return found


def data_file(rank: int, save: str) -> str:
    """The name of a process's file in one save."""
    return f"__{rank}_{save}{_SUFFIX}"
