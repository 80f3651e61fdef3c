"""`save` and `load`: state dicts of several processes, to folders and from them.

Contract: names of nested entries are joined by dots. Whole tensors and other objects are taken to
be equal in all processes, and one of them writes each; of a `ShardedTensor` and of a `DTensor`
every process writes its part, and reads what it needs, whoever wrote that. What fails in one
process fails in all.
"""

import copy
import functools
import io
import math
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import numpy as np

from dynajit.core.errors import CheckpointException
from dynajit.core.process.process_groups import STATE
from dynajit.core.types import dtypes
from dynajit.distributed.checkpoint.files import FileSystemReader, FileSystemWriter, data_file
from dynajit.distributed.checkpoint.metadata import Metadata, Piece, Saved
from dynajit.distributed.groups import ProcessGroup, group_of
from dynajit.distributed.objects import gathered, sent_by
from dynajit.distributed.sharding.states import ShardedTensor
from dynajit.distributed.tensor.dtensor import DTensor
from dynajit.distributed.tensor.placements import Partial, Replicate
from dynajit.eager import _tensor
from dynajit.eager.files import serialization
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor

_T = TypeVar("_T")

Block = tuple[tuple[int, int], ...]
"""Of each dim where elements begin, and how many they are."""


def flattened(tree: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Entries of nested dicts and lists, by names that are joined by dots."""
    if isinstance(tree, dict) and tree:
        items = list(tree.items())
    elif isinstance(tree, (list, tuple)) and tree and _holds_tensors(tree):
        items = list(enumerate(tree))
    else:
        yield name, tree
        return
    for key, value in items:
        yield from flattened(value, f"{name}.{key}" if name else str(key))


def _holds_tensors(items: Any) -> bool:
    return any(isinstance(one, (Tensor, dict)) for one in items)


def _put(tree: Any, name: str, value: Any) -> bool:
    """Replace an entry by its name in nested dicts."""
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        text = str(key)
        if text == name:
            tree[key] = value
            return True
        below = tree[key]
        is_below = isinstance(below, (dict, list)) and name.startswith(text + ".")
        if is_below and _put(below, name[len(text) + 1 :], value):
            return True
    return False


def _given_states(state_dict: dict[str, Any]) -> dict[str, Any]:
    """The state dicts of what has one."""
    return {
        key: value.state_dict() if _is_stateful(value) else value
        for key, value in state_dict.items()
    }


def _is_stateful(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


# -- processes ---------------------------------------------------------------------------------


def _group(given: Any, no_dist: bool) -> ProcessGroup | None:
    if no_dist or STATE.default is None:
        return None
    return group_of(given)


def _agreed(group: ProcessGroup | None, do: Callable[[], _T]) -> _T:
    """What a function gives; if it raises in one process, all raise.

    Raises:
        CheckpointException: by rank, what went wrong.
    """
    found: Any = None
    text = None
    try:
        found = do()
    except Exception as error:
        if group is None:
            raise
        text = f"{type(error).__name__}: {error}"
    if group is not None:
        texts = gathered(group, text)
        wrong = {rank: one for rank, one in enumerate(texts) if one is not None}
        if wrong:
            shown = "; ".join(f"rank {rank}: {one}" for rank, one in wrong.items())
            raise CheckpointException(f"checkpoint: {shown}")
    return found  # type: ignore[no-any-return]


# -- writing -----------------------------------------------------------------------------------


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: FileSystemWriter | None = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> Metadata:
    """Write a checkpoint; every process of the group calls this with the same names.

    Args:
        state_dict: nested dicts; values that have `state_dict()` are asked for it.
        checkpoint_id: the folder, which all processes see.
        storage_writer: in place of it.
        planner: accepted if None.
        process_group: all processes if None.
        no_dist: this process alone.

    Raises:
        CheckpointException: a process could not write; the checkpoint before is as it was.
    """
    if planner is not None:
        raise CheckpointException("save(planner=...): plans are not here.  Leave it out.")
    writer = storage_writer or FileSystemWriter(_folder(checkpoint_id, "save"))
    _BACKGROUND.finish()
    return _saved(state_dict, writer, _group(process_group, no_dist))


def _saved(
    state_dict: dict[str, Any], writer: FileSystemWriter, group: ProcessGroup | None
) -> Metadata:
    _agreed(group, writer.check)
    rank, size = (0, 1) if group is None else (group.rank(), group.size())
    token = uuid.uuid4().hex[:12]
    if group is not None:
        token = sent_by(group, token if rank == 0 else None, 0)
    entries = _agreed(group, lambda: _written(_given_states(state_dict), writer, rank, size, token))
    parts = [entries] if group is None else gathered(group, entries)
    metadata = _agreed(group, lambda: _joined(parts))
    _agreed(group, lambda: writer.write_metadata(metadata) if rank == 0 else None)
    return metadata


def _folder(checkpoint_id: Any, name: str) -> Any:
    if checkpoint_id is None:
        raise CheckpointException(f"{name}: give checkpoint_id, the folder of the checkpoint.")
    return checkpoint_id


def _written(
    states: dict[str, Any], writer: FileSystemWriter, rank: int, size: int, token: str
) -> dict[str, Saved]:
    """The entries, with the pieces that this process wrote."""
    file = data_file(rank, token)
    found: dict[str, Saved] = {}
    own: list[tuple[str, int, int, Block, Any]] = []
    for number, (name, value) in enumerate(flattened(states)):
        if name in found:
            raise CheckpointException(f"save: two entries are called {name!r}.")
        dtype = value.dtype.name if isinstance(value, Tensor) else None
        if isinstance(value, ShardedTensor):
            shape = value.full_shape
            if value.numel():
                own.append((name, value.start, value.numel(), (), _bytes(value.to_local())))
        elif isinstance(value, DTensor):
            shape = tuple(value.shape)
            block = _own_block(name, value)
            if block is not None:
                part = value.to_local()
                own.append((name, 0, part.numel(), block, _bytes(part)))
        elif isinstance(value, Tensor):
            shape = tuple(value.shape)
            if number % size == rank:
                own.append((name, 0, value.numel(), (), _bytes(value)))
        else:
            shape = ()
            if number % size == rank:
                own.append((name, 0, 1, (), _packed(value)))
        found[name] = Saved(dtype, shape, ())
    places = writer.write(file, (chunk for *_, chunk in own)) if own else []
    for (name, start, count, block, _), (offset, length, crc) in zip(own, places, strict=True):
        piece = Piece(file, offset, length, start, count, crc, block)
        found[name] = Saved(found[name].dtype, found[name].shape, (piece,))
    return found


def _own_block(name: str, value: DTensor) -> Block | None:
    """Where a DTensor's part lies; None where another process writes the same, or it is empty.

    Raises:
        CheckpointException: processes have parts of a sum.
    """
    if any(isinstance(placement, Partial) for placement in value.placements):
        raise CheckpointException(
            f"save: the entry {name!r} is placed {value.placements}.  Redistribute it to Shard or "
            "Replicate."
        )
    places = zip(value.placements, value._layout.coordinate(), strict=True)
    is_copy = any(place > 0 and isinstance(placement, Replicate) for placement, place in places)
    return None if is_copy or not value.to_local().numel() else value._layout.spans()


def _bytes(tensor: Tensor) -> Any:
    array = np.ascontiguousarray(tensor.detach().cpu().resolve_conj().resolve_neg().array)
    return array.reshape(-1).view(np.uint8)


def _packed(value: Any) -> bytes:
    file = io.BytesIO()
    serialization.save(value, file)
    return file.getvalue()


def _joined(parts: list[dict[str, Saved]]) -> Metadata:
    """The pieces of all processes.

    Raises:
        CheckpointException: the processes have different entries, or a part of one is missing.
    """
    names = list(parts[0])
    for rank, part in enumerate(parts):
        if list(part) != names:
            other = sorted(set(names) ^ set(part)) or "in another order"
            raise CheckpointException(
                f"save: rank {rank} has other entries than rank 0 ({other}).  Expected the same."
            )
    entries = {}
    for name in names:
        pieces = tuple(piece for part in parts for piece in part[name].pieces)
        saved = Saved(parts[0][name].dtype, parts[0][name].shape, pieces)
        _check_whole(name, saved)
        entries[name] = saved
    return Metadata(entries, len(parts))


def _check_whole(name: str, saved: Saved) -> None:
    count = int(np.prod(saved.shape, dtype=np.int64))
    reached = 0
    if any(piece.block for piece in saved.pieces):
        found = {piece.block: piece.count for piece in saved.pieces}
        if sum(found.values()) != count:
            raise CheckpointException(
                f"the entry {name!r} has {count} elements, and blocks of {sum(found.values())}."
            )
        return
    for piece in sorted(saved.pieces, key=lambda one: one.start):
        if piece.start > reached:
            break
        reached = max(reached, piece.start + piece.count)
    if reached < count:
        raise CheckpointException(
            f"the entry {name!r} has {count} elements, and pieces up to element {reached} alone."
        )


class _Background:
    """The thread that writes checkpoints, one after the other. Mutable: knows the last one."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "dynajit-checkpoint")
        self._last: Future[Metadata] | None = None

    def finish(self) -> None:
        """Wait until what was given is on disk, or has failed: its future says so."""
        if self._last is not None:
            wait([self._last])

    def start(self, save: Callable[[], Metadata]) -> "Future[Metadata]":
        """Have the thread write."""
        self._last = self._thread.submit(save)
        return self._last


_BACKGROUND = _Background()


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: FileSystemWriter | None = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> "Future[Metadata]":
    """`save` of copies of what is there now, by another thread; the future ends when it is on disk,
    or with the error.

    The save before is waited for: there is one set of copies. Processes tell each other what they
    write on a channel of its own, so the program's collectives go on meanwhile. Arguments are those
    of `save`.

    Raises:
        CheckpointException: `planner` is given, or no folder.
    """
    if planner is not None:
        raise CheckpointException("async_save(planner=...): plans are not here.  Leave it out.")
    writer = storage_writer or FileSystemWriter(_folder(checkpoint_id, "async_save"))
    group = _group(process_group, no_dist)
    _BACKGROUND.finish()
    copies = _copied(_given_states(state_dict))
    beside = group if group is None or group.size() == 1 else group.beside()
    return _BACKGROUND.start(functools.partial(_saved, copies, writer, beside))


def _copied(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _copied(value) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)([_copied(value) for value in tree])
    return tree.detach().clone() if isinstance(tree, Tensor) else copy.deepcopy(tree)


# -- reading -----------------------------------------------------------------------------------


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_reader: FileSystemReader | None = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Read a checkpoint into the tensors of a state dict, in place; any number of processes.

    Args:
        state_dict: nested dicts with the names that are wanted; what is no tensor is replaced, and
            values that have `load_state_dict` are given what was read.
        checkpoint_id: the folder.
        storage_reader: in place of it.
        planner: accepted if None.
        process_group: all processes if None.
        no_dist: this process alone.

    Raises:
        CheckpointException: it is damaged, or an entry is missing or has another shape. Nothing
            was written then.
    """
    if planner is not None:
        raise CheckpointException("load(planner=...): plans are not here.  Leave it out.")
    reader = storage_reader or FileSystemReader(_folder(checkpoint_id, "load"))
    group = _group(process_group, no_dist)
    states = _given_states(state_dict)
    found = _agreed(group, lambda: _read(states, reader))
    with no_grad():
        for name, target, value in found:
            if isinstance(target, DTensor):
                target._local.copy_(value)
                _tensor.bump_version(target)
            elif isinstance(target, Tensor):
                plain = target.to_local() if isinstance(target, ShardedTensor) else target.detach()
                plain.copy_(value)
            elif not _put(states, name, value):
                raise CheckpointException(f"load: {name!r} cannot be replaced.")
    for key, value in state_dict.items():
        if _is_stateful(value):
            value.load_state_dict(states[key])
        elif not isinstance(value, (Tensor, dict)):
            state_dict[key] = states[key]


def _read(states: dict[str, Any], reader: FileSystemReader) -> list[tuple[str, Any, Any]]:
    """Name, target and value of every entry."""
    metadata = reader.read_metadata()
    targets = list(flattened(states))
    missing = [name for name, _ in targets if name not in metadata.entries]
    if missing:
        raise CheckpointException(
            f"{reader.path}: the checkpoint has no {', '.join(map(repr, missing[:5]))}"
            f"{' ...' if len(missing) > 5 else ''}.  It has "
            f"{', '.join(map(repr, list(metadata.entries)[:5]))} ..."
        )
    return [(name, x, _value(name, x, metadata.entries[name], reader)) for name, x in targets]


def _value(name: str, target: Any, saved: Saved, reader: FileSystemReader) -> Any:
    if not isinstance(target, Tensor):
        if saved.dtype is not None:
            return read_whole(name, saved, reader)
        return serialization.load(io.BytesIO(reader.read(saved.pieces[0])))
    if saved.dtype is None:
        raise CheckpointException(f"{name!r} is no tensor in the checkpoint.  Expected one.")
    shape = target.full_shape if isinstance(target, ShardedTensor) else tuple(target.shape)
    if shape != saved.shape:
        raise CheckpointException(
            f"{name!r} has the shape {saved.shape} in the checkpoint.  Expected {shape}."
        )
    if isinstance(target, DTensor):
        return _tensor.wrap(_block(name, saved, reader, target._layout.spans()))
    start = target.start if isinstance(target, ShardedTensor) else 0
    flat = _elements(name, saved, reader, start, target.numel())
    return _tensor.wrap(flat.reshape(tuple(target.shape)))


def read_whole(name: str, saved: Saved, reader: FileSystemReader) -> Any:
    """A tensor of a checkpoint, or another object."""
    if saved.dtype is None:
        return serialization.load(io.BytesIO(reader.read(saved.pieces[0])))
    count = int(np.prod(saved.shape, dtype=np.int64))
    return _tensor.wrap(_elements(name, saved, reader, 0, count).reshape(saved.shape))


def _elements(name: str, saved: Saved, reader: FileSystemReader, start: int, count: int) -> Any:
    """A run of a tensor's elements, from whatever pieces have them."""
    assert saved.dtype is not None
    if any(piece.block for piece in saved.pieces):
        whole = _block(name, saved, reader, tuple((0, size) for size in saved.shape))
        return whole.reshape(-1)[start : start + count].copy()
    _check_whole(name, saved)
    dtype = dtypes.by_name(saved.dtype).numpy
    found = np.empty(count, dtype)
    for piece in saved.pieces:
        first, last = max(piece.start, start), min(piece.start + piece.count, start + count)
        if first < last:
            values = np.frombuffer(reader.read(piece), dtype)
            found[first - start : last - start] = values[first - piece.start : last - piece.start]
    return found


def _block(name: str, saved: Saved, reader: FileSystemReader, wanted: Block) -> Any:
    """A block of a tensor's elements, from whatever pieces have them."""
    assert saved.dtype is not None
    if not any(piece.block for piece in saved.pieces):
        inner = math.prod(saved.shape[1:])
        if all((0, size) == span for size, span in zip(saved.shape[1:], wanted[1:], strict=True)):
            first, rows = wanted[0] if wanted else (0, 1)
            flat = _elements(name, saved, reader, first * inner, rows * inner)
        else:
            flat = _elements(name, saved, reader, 0, math.prod(saved.shape)).reshape(saved.shape)
            flat = flat[tuple(slice(first, first + length) for first, length in wanted)].copy()
        return flat.reshape([length for _, length in wanted])
    _check_whole(name, saved)
    dtype = dtypes.by_name(saved.dtype).numpy
    found = np.empty([length for _, length in wanted], dtype)
    for piece in saved.pieces:
        common = [
            (max(first, start), min(first + length, start + size))
            for (first, length), (start, size) in zip(piece.block, wanted, strict=True)
        ]
        if all(first < last for first, last in common):
            values = np.frombuffer(reader.read(piece), dtype)
            values = values.reshape([length for _, length in piece.block])
            here = zip(common, piece.block, wanted, strict=True)
            places = [
                (slice(a - start, b - start), slice(a - first, b - first))
                for (a, b), (first, _), (start, _) in here
            ]
            found[tuple(to for to, _ in places)] = values[tuple(of for _, of in places)]
    return found


def save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: FileSystemWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: Any = None,
) -> Metadata:
    """`save` by its older name."""
    return save(
        state_dict,
        storage_writer=storage_writer,
        process_group=process_group,
        no_dist=no_dist,
        planner=planner,
    )


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: FileSystemReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: Any = None,
) -> None:
    """`load` by its older name."""
    load(
        state_dict,
        storage_reader=storage_reader,
        process_group=process_group,
        no_dist=no_dist,
        planner=planner,
    )
