"""How one layer is spread over processes: by columns, by rows, or only what goes through it.

Contract: a style is applied to a module once, by `parallelize_module`: parameters become DTensors,
and hooks of the module place what goes in and comes out. Sources: Shoeybi et al. (2019) for columns
and rows, Korthikanti et al. (2022) for sequences.
"""

from abc import ABC, abstractmethod
from typing import Any

from dynajit.core.errors import InvalidValueError, UnsupportedError
from dynajit.distributed.device_mesh import DeviceMesh
from dynajit.distributed.tensor.dtensor import DTensor
from dynajit.distributed.tensor.modules import distribute_module, shard_parameter
from dynajit.distributed.tensor.placements import Placement, Replicate, Shard
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.layers.embedding import Embedding
from dynajit.nn.layers.linear import Linear
from dynajit.nn.module import Module


class ParallelStyle(ABC):
    """How a module is spread over the processes of a mesh. Mutable: `parallelize_module` says whose
    values count.

    Attributes:
        src_data_rank: of `distribute_tensor`.
    """

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        """Spread a module, in place."""


def as_placed(value: Any, mesh: DeviceMesh, given: Placement, wanted: Placement) -> DTensor:
    """What goes into a module, or comes out, as it is wanted.

    Args:
        value: a DTensor, or what this process has of one that lies as `given`.
    """
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, [given])
    found: DTensor = value.redistribute(placements=[wanted])
    return found


class _OfLayers(ParallelStyle):
    """A style of `Linear` and `Embedding`. Immutable but for `src_data_rank`.

    Args:
        input_layouts: how what goes in lies, if it is plain.
        output_layouts: how what comes out is to lie.
        use_local_output: whether this process's part comes out, or a DTensor.
    """

    _name: str
    _input: Placement
    _output: Placement

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__()
        self.input_layouts = (input_layouts or self._input,)
        self.output_layouts = (output_layouts or self._output,)
        self.use_local_output = use_local_output

    def _wanted(self, module: Module) -> Placement:
        """How what goes in has to lie."""
        raise NotImplementedError

    def _split(self, name: str, module: Module) -> Placement:
        """How a parameter lies."""
        raise NotImplementedError

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        if not isinstance(module, (Linear, Embedding)):
            raise UnsupportedError(
                f"{self._name} currently only support nn.Linear and nn.Embedding!  Got "
                f"{type(module).__name__}."
            )
        wanted = self._wanted(module)

        def partition(name: str, inner: Module, mesh: DeviceMesh) -> None:
            for parameter in list(inner._parameters):
                placements = [self._split(parameter, inner)]
                shard_parameter(inner, parameter, mesh, placements, self.src_data_rank)

        def before(inner: Module, inputs: Any, mesh: DeviceMesh) -> Any:
            first = as_placed(inputs[0], mesh, self.input_layouts[0], wanted)
            return (first, *inputs[1:])

        def after(inner: Module, output: Any, mesh: DeviceMesh) -> Any:
            placed = output.redistribute(placements=self.output_layouts)
            return placed.to_local() if self.use_local_output else placed

        return distribute_module(module, device_mesh, partition, before, after)

    def __repr__(self) -> str:
        return (
            f"{self._name}(input_layouts={self.input_layouts}, output_layouts="
            f"{self.output_layouts}, use_local_output={self.use_local_output})"
        )


class ColwiseParallel(_OfLayers):
    """Every process computes some of the features that come out, from all that go in.

    Of `Linear` and `Embedding`; arguments as of the module's styles: `input_layouts` (by default
    `Replicate()`), `output_layouts` (`Shard(-1)`), `use_local_output`.

    Raises:
        UnsupportedError: it is applied to another module.
    """

    _name = "ColwiseParallel"
    _input = Replicate()
    _output = Shard(-1)

    def _wanted(self, module: Module) -> Placement:
        return Replicate()

    def _split(self, name: str, module: Module) -> Placement:
        return Shard(0) if isinstance(module, Linear) else Shard(1)


class RowwiseParallel(_OfLayers):
    """Every process computes with some of the features that go in, or with some rows of a table;
    what they compute is added.

    Of `Linear` and `Embedding`: `input_layouts` (by default `Shard(-1)`), `output_layouts`
    (`Replicate()`), `use_local_output`.

    Raises:
        UnsupportedError: it is applied to another module.
    """

    _name = "RowwiseParallel"
    _input = Shard(-1)
    _output = Replicate()

    def _wanted(self, module: Module) -> Placement:
        return Shard(-1) if isinstance(module, Linear) else Replicate()

    def _split(self, name: str, module: Module) -> Placement:
        if isinstance(module, Linear):
            return Shard(1) if name == "weight" else Replicate()
        return Shard(0)


class SequenceParallel(ParallelStyle):
    """Every process computes a part of a sequence, with all parameters: of `LayerNorm`, `RMSNorm`,
    `Dropout` and their like. Immutable but for `src_data_rank`.

    Args:
        sequence_dim: of what goes in.
        use_local_output: whether this process's part comes out, or a DTensor.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        super().__init__()
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        (split,) = self.sequence_sharding

        def partition(name: str, inner: Module, mesh: DeviceMesh) -> None:
            for parameter in list(inner._parameters):
                shard_parameter(inner, parameter, mesh, [Replicate()], self.src_data_rank)

        def before(inner: Module, inputs: Any, mesh: DeviceMesh) -> Any:
            if not isinstance(inputs[0], Tensor):
                raise InvalidValueError(
                    f"expecting input of {inner} to be a torch.Tensor or DTensor, but got "
                    f"{inputs[0]}"
                )
            return (as_placed(inputs[0], mesh, split, split), *inputs[1:])

        def after(inner: Module, output: Any, mesh: DeviceMesh) -> Any:
            return output.to_local() if self.use_local_output else output

        return distribute_module(module, device_mesh, partition, before, after)

    def __repr__(self) -> str:
        return (
            f"SequenceParallel(sequence_dim={self.sequence_sharding[0].dim}, "
            f"use_local_output={self.use_local_output})"
        )


__all__ = ["ColwiseParallel", "ParallelStyle", "RowwiseParallel", "SequenceParallel"]
