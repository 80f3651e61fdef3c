"""Sequences of different lengths: padded to one length, or packed without padding.

Contract: as `torch.nn.utils.rnn`. A packed sequence holds the first step of all sequences, then the
second of those that have one, and so on; its sequences are sorted by length, the longest first.
Lengths and batch sizes are read as numbers, so a graph breaks where they are computed. Recurrent
layers take packed sequences (`nn.layers.recurrent`).
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynajit.core.errors import ArgumentError, DeviceError, InvalidValueError, ShapeError
from dynajit.core.process import late
from dynajit.core.types import dtypes
from dynajit.eager.tensor.creation import as_tensor, from_numpy
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions import cat, full, stack


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """Sequences without padding; made by `pack_padded_sequence` and `pack_sequence`.

    Args:
        data: (N, *), N the sum of all lengths; or a tuple of data and batch_sizes.
        batch_sizes: (T,) int64, the number of sequences that have each step.
        sorted_indices: position that each sequence, the longest first, had in the batch; None
            where they were sorted.
        unsorted_indices: the reverse permutation.
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> "PackedSequence":
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise ArgumentError(
                    "PackedSequence: expected data and batch_sizes, or a tuple of the two."
                )
            data, batch_sizes = data
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> "PackedSequence":
        """The sequence with its data moved or converted; itself where there is nothing to do.

        The permutations go where the data is; the batch sizes stay on the CPU.
        """
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        orders = (
            None if order is None else order.to(data.device)
            for order in (self.sorted_indices, self.unsorted_indices)
        )
        return type(self)(data, self.batch_sizes, *orders)

    def pin_memory(self) -> "PackedSequence":
        """The sequence in host memory that GPUs copy from fast."""
        orders = (
            None if order is None else order.pin_memory()
            for order in (self.sorted_indices, self.unsorted_indices)
        )
        return type(self)(self.data.pin_memory(), self.batch_sizes, *orders)

    def cpu(self, *args: Any, **kwargs: Any) -> "PackedSequence":
        """The data on the CPU."""
        return self.to("cpu", *args, **kwargs)

    def cuda(self, *args: Any, **kwargs: Any) -> "PackedSequence":
        """The data on a GPU."""
        return self.to("cuda", *args, **kwargs)

    def double(self) -> "PackedSequence":
        """The data in float64."""
        return self.to(dtypes.float64)

    def float(self) -> "PackedSequence":
        """The data in float32."""
        return self.to(dtypes.float32)

    def half(self) -> "PackedSequence":
        """The data in float16."""
        return self.to(dtypes.float16)

    def long(self) -> "PackedSequence":
        """The data in int64."""
        return self.to(dtypes.int64)

    def int(self) -> "PackedSequence":
        """The data in int32."""
        return self.to(dtypes.int32)

    def short(self) -> "PackedSequence":
        """The data in int16."""
        return self.to(dtypes.int16)

    def char(self) -> "PackedSequence":
        """The data in int8."""
        return self.to(dtypes.int8)

    def byte(self) -> "PackedSequence":
        """The data in uint8."""
        return self.to(dtypes.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data is in pinned memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes a permutation of n positions, (n,) int64; None for None."""
    if permutation is None:
        return None
    return from_numpy(np.argsort(permutation.cpu().numpy())).to(permutation.device)


def _check_lengths(lengths: np.ndarray, batch: int, longest: int) -> None:
    if lengths.ndim != 1 or len(lengths) != batch:
        raise ShapeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.size} "
            f"(batch_size={batch})"
        )
    if (lengths <= 0).any():
        raise ShapeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if (np.diff(lengths) > 0).any():
        raise ShapeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
            "You can pass `enforce_sorted=False` to have the sequences sorted."
        )
    if lengths[0] > longest:
        raise ShapeError(
            f"Expected lengths of at most {longest}, the length of the padded input, but got "
            f"{lengths[0]}"
        )


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """A padded batch without its padding.

    Args:
        input: (T, B, *), or (B, T, *) with `batch_first`.
        lengths: length of each sequence, at least 1: integers or a tensor (B,) on the CPU.
        enforce_sorted: refuse lengths that do not fall; else the sequences are sorted.

    Raises:
        ShapeError: lengths do not fit the input, or are not sorted.
        DeviceError: lengths are on a GPU.
    """
    if input.dim() < 2 or input.numel() == 0:
        raise ShapeError("Cannot pack empty tensors.")
    sizes = as_tensor(lengths)
    if sizes.is_cuda:
        raise DeviceError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got one on {sizes.device}.  "
            "Call .cpu() on it."
        )
    counts = np.asarray(sizes.numpy()).astype(np.int64)
    batch, longest = input.shape[:2] if batch_first else (input.shape[1], input.shape[0])
    order = None
    if not enforce_sorted and counts.ndim == 1:
        order = np.argsort(-counts, kind="stable")
        counts = counts[order]
    _check_lengths(counts, batch, longest)
    sizes = (counts[None, :] > np.arange(counts[0])[:, None]).sum(1)
    place = np.concatenate([np.arange(size) for size in sizes])
    time = np.repeat(np.arange(len(sizes)), sizes)
    place = place if order is None else order[place]
    rows = place * longest + time if batch_first else time * batch + place
    flat = input.reshape(batch * longest, *input.shape[2:])
    data = flat.index_select(0, from_numpy(rows).to(input.device))
    sorted_indices = None if order is None else from_numpy(order).to(input.device)
    return PackedSequence(data, from_numpy(sizes), sorted_indices)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The reverse of `pack_padded_sequence`: the padded batch and the lengths.

    Args:
        total_length: length to pad to; None is that of the longest sequence.

    Returns:
        (T, B, *), or (B, T, *) with `batch_first`, and (B,) int64, both in the batch's order.

    Raises:
        InvalidValueError: total_length is less than the longest sequence.
    """
    sizes = sequence.batch_sizes.numpy()
    steps = len(sizes)
    if total_length is not None and total_length < steps:
        raise InvalidValueError(
            "Expected total_length to be at least the length of the longest sequence in input, "
            f"but got total_length={total_length} and max sequence length being {steps}"
        )
    batch, data = int(sizes[0]), sequence.data
    time = np.arange(steps if total_length is None else total_length)[:, None]
    lengths = (sizes[:, None] > np.arange(batch)).sum(0)
    starts = np.concatenate([[0], np.cumsum(sizes)])[np.minimum(time, steps)]
    # What no sequence has is one row of padding behind the data.
    rows = np.where(time < lengths, starts + np.arange(batch), len(data))
    if sequence.unsorted_indices is not None:
        order = sequence.unsorted_indices.cpu().numpy()
        rows, lengths = rows[:, order], lengths[order]
    rows = rows.T if batch_first else rows
    padding = full((1, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    chosen = from_numpy(np.ascontiguousarray(rows).reshape(-1)).to(data.device)
    padded = cat([data, padding]).index_select(0, chosen)
    return padded.reshape(*rows.shape, *data.shape[1:]), from_numpy(lengths)


def pad_sequence(
    sequences: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences (L, *) of different lengths as one batch, (T, B, *) or (B, T, *).

    Args:
        sequences: tensors that differ in their first size only.
        padding_side: "right" or "left".

    Raises:
        ArgumentError: `sequences` is no iterable of tensors, or empty.
        ShapeError: other sizes differ.
    """
    if padding_side not in ("left", "right"):
        raise ShapeError(f"Expected padding_side to be 'left' or 'right', but got {padding_side}.")
    if not isinstance(sequences, Iterable):
        raise ShapeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences).__name__}"
        )
    items = sequences.unbind(0) if isinstance(sequences, Tensor) else list(sequences)
    if not items:
        raise ShapeError("received an empty list of sequences")
    longest = max([item.shape[0] for item in items])
    padded = [_padded(item, longest, padding_value, padding_side) for item in items]
    return stack(padded, 0 if batch_first else 1)


def _padded(item: Tensor, length: int, value: float, side: str) -> Tensor:
    missing = length - item.shape[0]
    if missing == 0:
        return item
    padding = full((missing, *item.shape[1:]), value, dtype=item.dtype, device=item.device)
    return cat([item, padding] if side == "right" else [padding, item])


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The sequences (L, *) of a padded batch, (T, B, *) or (B, T, *), with lengths (B,)."""
    batch = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [sequence[:length] for sequence, length in zip(batch, lengths.tolist(), strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences (L, *) of different lengths, packed; see `pack_padded_sequence`."""
    lengths = [len(sequence) for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The reverse of `pack_sequence`: the sequences (L, *), in their own order."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), True)


__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

late.show(__name__)
