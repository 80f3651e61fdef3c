"""What the metadata file of a checkpoint says: which entries there are, and where their pieces lie.

Contract: records, and their form as JSON. A tensor's pieces are runs of its elements in order, or
blocks; together they are the whole. Any other object is one piece: a file of `dynajit.save`.
"""

import json
from typing import Any, Final

from dynajit.core.errors import CheckpointException
from dynajit.core.records import record

__all__ = ["Metadata"]

_FORMAT: Final = "dynajit.distributed.checkpoint"
_VERSION: Final = 1


@record
class Piece:
    """Where bytes lie.

    Args:
        file: its name in the folder.
        offset, length: of the bytes.
        start, count: the elements that they are.
        crc: CRC-32 of the bytes.
        block: of each dim where the elements begin, and how many they are, row by row; empty: they
            are a run of the whole tensor's elements.
    """

    file: str
    offset: int
    length: int
    start: int
    count: int
    crc: int
    block: tuple[tuple[int, int], ...] = ()


def _piece(entry: list[Any]) -> Piece:
    """A piece from its form in the file."""
    file, offset, length, start, count, crc, *block = entry
    spans = tuple((first, size) for first, size in block)
    return Piece(file, offset, length, start, count, crc, spans)


@record
class Saved:
    """An entry of a state dict.

    Args:
        dtype: its name; None for what is no tensor.
        shape: of the whole tensor.
        pieces: that are there.
    """

    dtype: str | None
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]


@record
class Metadata:
    """All entries of a checkpoint, by name.

    Args:
        entries: name -> entry.
        processes: how many wrote it.
    """

    entries: dict[str, Saved]
    processes: int

    def text(self) -> str:
        """As JSON."""
        entries = {
            name: {
                "dtype": saved.dtype,
                "shape": saved.shape,
                "pieces": [
                    [p.file, p.offset, p.length, p.start, p.count, p.crc, *p.block]
                    for p in saved.pieces
                ],
            }
            for name, saved in self.entries.items()
        }
        whole = {
            "format": _FORMAT,
            "version": _VERSION,
            "processes": self.processes,
            "entries": entries,
        }
        return json.dumps(whole)

    @staticmethod
    def read(text: str, path: str) -> "Metadata":
        """Of JSON.

        Raises:
            CheckpointException: it is something else, or a part of it.
        """
        try:
            whole: Any = json.loads(text)
            if whole["format"] != _FORMAT or whole["version"] != _VERSION:
                raise ValueError(f"format {whole['format']!r}, version {whole['version']!r}")
            entries = {
                name: Saved(
                    saved["dtype"],
                    tuple(saved["shape"]),
                    tuple(map(_piece, saved["pieces"])),
                )
                for name, saved in whole["entries"].items()
            }
            return Metadata(entries, int(whole["processes"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointException(
                f"{path}: expected the metadata of a checkpoint that dynajit wrote ({error}).  The "
                "file is damaged, or another program's."
            ) from error
