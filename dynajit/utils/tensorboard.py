"""`SummaryWriter` by PyTorch's path: curves, histograms, texts and images for TensorBoard.

Contract: files are written by the `tensorboard` package, which is loaded when the first writer is
made; what it cannot draw without more of PyTorch (graphs, embeddings, videos, ...) is refused by
name.

Source: formats of events as tensorboard's own plugins read them.
"""

import datetime
import io
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from dynajit.core.errors import ArgumentError, ShapeError
from dynajit.core.process.optional import load
from dynajit.core.refusals import refused_function
from dynajit.eager._tensor import TensorBase

_WHY = "this writer draws scalars, histograms, texts and images."
_HISTOGRAM_STEPS: Final = 1.1
"""Ratio of neighbouring edges of TensorBoard's default bins, which begin at 1e-12."""


class SummaryWriter:
    """Appends to a file of events in a folder.

    Args:
        log_dir: the folder; by default one in `runs`, named by time, machine and `comment`.
        comment: end of the default name.
        purge_step: events of this step and later ones of earlier files are not shown.
        max_queue, flush_secs: how many events, and how long, wait to be written.
        filename_suffix: of the file.

    Raises:
        UnsupportedError: the package `tensorboard` is not installed.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self._protos = _module("compat.proto.event_pb2"), _module("compat.proto.summary_pb2")
        self._writers: dict[str, Any] = {}
        self._writer(self.log_dir)

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One point of a curve.

        Args:
            tag: name of the curve.
            scalar_value: a number, or a tensor or array of one element.
            global_step, walltime: where the point lies; now for None.
            new_style, double_precision: accepted; values are float32.

        Raises:
            ShapeError: there is not one element.
        """
        self._add(self.log_dir, tag, {"simple_value": _number(scalar_value)}, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """One point of each of several curves in one picture; each has a folder of its own."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")
            self._add(folder, main_tag, {"simple_value": _number(value)}, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How values are spread.

        Args:
            values: a tensor or array.
            bins: edges, or a name or number that `numpy.histogram` takes; "tensorflow" for edges
                that grow from 0 by a tenth.
            max_bins: accepted for edges that are chosen by NumPy: neighbours are joined.

        Raises:
            ShapeError: there are no values.
        """
        histogram = _histogram(_array(values), bins, max_bins, self._protos[1])
        self._add(self.log_dir, tag, {"histo": histogram}, global_step, walltime)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """A text, in Markdown."""
        tensors = _module("compat.proto.tensor_pb2")
        shapes, types = (
            _module("compat.proto.tensor_shape_pb2"),
            _module("compat.proto.types_pb2"),
        )
        plugin = self._protos[1].SummaryMetadata.PluginData(plugin_name="text")
        size = shapes.TensorShapeProto.Dim(size=1)
        tensor = tensors.TensorProto(
            dtype=types.DT_STRING,
            string_val=[text_string.encode("utf-8")],
            tensor_shape=shapes.TensorShapeProto(dim=[size]),
        )
        metadata = self._protos[1].SummaryMetadata(plugin_data=plugin)
        content = {"tensor": tensor, "metadata": metadata}
        self._add(self.log_dir, f"{tag}/text_summary", content, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """A picture.

        Args:
            img_tensor: uint8 in [0, 255], or floating in [0, 1].
            dataformats: what the dims are: height H, width W, and perhaps channels C, of which
                there are 1, 3 or 4.

        Raises:
            ShapeError: the dims do not go together.
            UnsupportedError: the package Pillow is not installed.
        """
        pixels = _pixels(_array(img_tensor), dataformats)
        image = load("PIL.Image", needed_for="add_image", install="pillow").fromarray(pixels)
        file = io.BytesIO()
        image.save(file, format="PNG")
        picture = self._protos[1].Summary.Image(
            height=pixels.shape[0],
            width=pixels.shape[1],
            colorspace=1 if pixels.ndim == 2 else pixels.shape[2],
            encoded_image_string=file.getvalue(),
        )
        self._add(self.log_dir, tag, {"image": picture}, global_step, walltime)

    add_audio = refused_function("SummaryWriter.add_audio", _WHY)
    add_custom_scalars = refused_function("SummaryWriter.add_custom_scalars", _WHY)
    add_embedding = refused_function("SummaryWriter.add_embedding", _WHY)
    add_figure = refused_function("SummaryWriter.add_figure", _WHY)
    add_graph = refused_function("SummaryWriter.add_graph", _WHY)
    add_hparams = refused_function("SummaryWriter.add_hparams", _WHY)
    add_images = refused_function("SummaryWriter.add_images", _WHY)
    add_mesh = refused_function("SummaryWriter.add_mesh", _WHY)
    add_pr_curve = refused_function("SummaryWriter.add_pr_curve", _WHY)
    add_video = refused_function("SummaryWriter.add_video", _WHY)

    def flush(self) -> None:
        """Write what waits."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Write what waits, and close the files; a later event opens new ones."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def __enter__(self) -> "SummaryWriter":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _writer(self, folder: str) -> Any:
        if folder not in self._writers:
            Path(folder).mkdir(parents=True, exist_ok=True)
            kind = _module("summary.writer.event_file_writer").EventFileWriter
            self._writers[folder] = kind(
                folder, self.max_queue, self.flush_secs, self.filename_suffix
            )
            if self.purge_step is not None:
                self._write(folder, {"file_version": "brain.Event:2"}, self.purge_step, None)
                log = self._protos[0].SessionLog
                start = {"session_log": log(status=log.START)}
                self._write(folder, start, self.purge_step, None)
        return self._writers[folder]

    def _add(
        self, folder: str, tag: str, content: dict[str, Any], step: Any, walltime: float | None
    ) -> None:
        summary = self._protos[1].Summary
        value = summary.Value(tag=tag.lstrip("/"), **content)
        self._write(folder, {"summary": summary(value=[value])}, step, walltime)

    def _write(
        self, folder: str, content: dict[str, Any], step: Any, walltime: float | None
    ) -> None:
        event = self._protos[0].Event(
            wall_time=time.time() if walltime is None else walltime, **content
        )
        if step is not None:
            event.step = int(step)
        self._writer(folder).add_event(event)


def _module(name: str) -> Any:
    return load(f"tensorboard.{name}", needed_for="SummaryWriter", install="tensorboard")


def _array(values: Any) -> np.ndarray:
    if isinstance(values, TensorBase):
        values = values.detach().cpu().float() if values.dtype.itemsize == 2 else values
        return np.asarray(values.detach().cpu().numpy())
    return np.asarray(values)


def _number(value: Any) -> float:
    array = _array(value)
    if array.size != 1:
        raise ShapeError(f"add_scalar: scalar should be 0D, got shape {array.shape}")
    if array.dtype.kind not in "biuf":
        raise ArgumentError(f"add_scalar: expected a number, got {type(value).__name__}")
    return float(array.reshape(()))


def _default_edges() -> np.ndarray:
    positive = 1e-12 * _HISTOGRAM_STEPS ** np.arange(774)  # up to 1e20
    return np.concatenate([-positive[::-1], [0.0], positive])


def _histogram(values: np.ndarray, bins: Any, most: int | None, protos: Any) -> Any:
    values = values.astype(np.float64).reshape(-1)
    if not values.size:
        raise ShapeError("add_histogram: the input has no element.")
    edges: Any = _default_edges() if isinstance(bins, str) and bins == "tensorflow" else bins
    counts, limits = np.histogram(values, bins=edges)
    if most is not None and len(counts) > most:
        width = len(counts) // most + (len(counts) % most != 0)
        counts = np.add.reduceat(counts, np.arange(0, len(counts), width))
        limits = np.append(limits[:-1:width], limits[-1])
    (filled,) = np.nonzero(counts)
    if not filled.size:
        raise ShapeError("add_histogram: no value lies within the bins.")
    first, last = filled[0], filled[-1]
    # An empty bin on either side, where there is one, ends the curve at 0.
    start = max(first - 1, 0)
    return protos.HistogramProto(
        min=values.min(),
        max=values.max(),
        num=len(values),
        sum=values.sum(),
        sum_squares=values @ values,
        bucket_limit=limits[start + 1 : last + 2].tolist(),
        bucket=counts[start : last + 1].tolist(),
    )


def _pixels(array: np.ndarray, dataformats: str) -> np.ndarray:
    names = dataformats.upper()
    if array.ndim != len(names) or set(names) not in ({"H", "W"}, {"C", "H", "W"}):
        raise ShapeError(
            f"add_image(dataformats={dataformats!r}): got shape {array.shape}.  Expected one dim "
            "for each of the letters H, W and perhaps C."
        )
    ordered = array.transpose([names.index(name) for name in "HWC" if name in names])
    if ordered.ndim == 3 and ordered.shape[2] == 1:
        ordered = ordered[:, :, 0]
    elif ordered.ndim == 3 and ordered.shape[2] not in (3, 4):
        raise ShapeError(f"add_image: {ordered.shape[2]} channels.  Expected 1, 3 or 4.")
    if ordered.dtype == np.uint8:
        return np.ascontiguousarray(ordered)
    return (ordered.astype(np.float32) * 255).clip(0, 255).astype(np.uint8)


__all__ = ["SummaryWriter"]
