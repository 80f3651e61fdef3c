"""How what goes into a module, or comes out, is placed; its parameters stay as they are."""

from typing import Any

from dynajit.core.errors import ExpectationError, InvalidValueError
from dynajit.distributed.device_mesh import DeviceMesh
from dynajit.distributed.tensor.dtensor import DTensor
from dynajit.distributed.tensor.parallel.styles import ParallelStyle, as_placed
from dynajit.distributed.tensor.placements import Placement
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.module import Module

Layouts = Placement | tuple[Placement | None, ...] | None


def _listed(layouts: Any) -> tuple[Placement | None, ...] | None:
    return (layouts,) if isinstance(layouts, Placement) else layouts


def _check_counts(given: Any, wanted: Any, names: tuple[str, str]) -> None:
    if given is None:
        return
    if wanted is None:
        raise ExpectationError(f"{names[1]} should not be None where {names[0]} are given!")
    if len(given) != len(wanted):
        raise ExpectationError(f"{names[0]} and {names[1]} should have same length!")


class PrepareModuleInput(ParallelStyle):
    """Places what goes into a module. Immutable but for `src_data_rank`.

    Args:
        input_layouts: of positional arguments how they lie; None for one that is left as it is, or
            for none at all.
        desired_input_layouts: how they are to lie.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same of named arguments.
        use_local_output: whether the module gets this process's parts, or DTensors.

    Raises:
        ExpectationError: layouts are missing, or other ones in number than those that are desired.
    """

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        super().__init__()
        self.input_layouts = _listed(input_layouts)
        self.desired_input_layouts = _listed(desired_input_layouts)
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        self.with_kwargs = input_kwarg_layouts is not None
        _check_counts(
            self.input_layouts,
            self.desired_input_layouts,
            ("input_layouts", "desired_input_layouts"),
        )
        if self.with_kwargs:
            _check_counts(
                self.input_kwarg_layouts,
                self.desired_input_kwarg_layouts,
                ("input_kwarg_layouts", "desired_input_kwarg_layouts"),
            )

    def _one(self, value: Any, mesh: DeviceMesh, given: Any, wanted: Any) -> Any:
        if given is None:
            return value
        if not isinstance(value, Tensor):
            raise ExpectationError(f"expecting input to be a torch.Tensor!  Got {value!r}.")
        placed = as_placed(value, mesh, given, given if wanted is None else wanted)
        return placed.to_local() if self.use_local_output else placed

    def _positional(self, inputs: tuple[Any, ...], mesh: DeviceMesh) -> tuple[Any, ...]:
        if self.input_layouts is None:
            return inputs
        if len(inputs) != len(self.input_layouts):
            raise InvalidValueError("module inputs and input_layouts should have same length!")
        assert self.desired_input_layouts is not None
        return tuple(
            self._one(value, mesh, given, wanted)
            for value, given, wanted in zip(
                inputs, self.input_layouts, self.desired_input_layouts, strict=True
            )
        )

    def _named(self, named: dict[str, Any], mesh: DeviceMesh) -> dict[str, Any]:
        return {
            name: self._one(
                value,
                mesh,
                self.input_kwarg_layouts.get(name),
                self.desired_input_kwarg_layouts.get(name),
            )
            for name, value in named.items()
        }

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        if self.with_kwargs:
            module.register_forward_pre_hook(
                lambda inner, inputs, named: (
                    self._positional(inputs, device_mesh),
                    self._named(named, device_mesh),
                ),
                with_kwargs=True,
            )
        else:
            module.register_forward_pre_hook(
                lambda inner, inputs: self._positional(inputs, device_mesh)
            )
        return module

    def __repr__(self) -> str:
        return (
            f"PrepareModuleInput(input_layouts={self.input_layouts}, desired_input_layouts="
            f"{self.desired_input_layouts}, input_kwarg_layouts={self.input_kwarg_layouts}, "
            f"desired_input_kwarg_layouts={self.desired_input_kwarg_layouts}, "
            f"use_local_output={self.use_local_output})"
        )


class PrepareModuleOutput(ParallelStyle):
    """Places what comes out of a module. Immutable but for `src_data_rank`.

    Args:
        output_layouts: how results lie; None for one that is left as it is.
        desired_output_layouts: how they are to lie.
        use_local_output: whether this process's parts come out, or DTensors.

    Raises:
        ExpectationError: there are other numbers of both.
    """

    def __init__(
        self,
        *,
        output_layouts: Placement | tuple[Placement | None, ...],
        desired_output_layouts: Placement | tuple[Placement, ...],
        use_local_output: bool = True,
    ) -> None:
        super().__init__()
        self.output_layouts = _listed(output_layouts) or ()
        self.desired_output_layouts = _listed(desired_output_layouts) or ()
        self.use_local_output = use_local_output
        _check_counts(
            self.output_layouts,
            self.desired_output_layouts,
            ("output_layouts", "desired_output_layouts"),
        )

    def _placed(self, outputs: Any, mesh: DeviceMesh) -> Any:
        listed = outputs if isinstance(outputs, tuple) else (outputs,)
        if len(listed) != len(self.output_layouts):
            raise InvalidValueError("module outputs and output_layouts should have same length!")
        found = tuple(
            self._one(value, mesh, given, wanted)
            for value, given, wanted in zip(
                listed, self.output_layouts, self.desired_output_layouts, strict=True
            )
        )
        return found if isinstance(outputs, tuple) else found[0]

    def _one(self, value: Any, mesh: DeviceMesh, given: Any, wanted: Any) -> Any:
        if given is None:
            return value
        placed: DTensor = as_placed(value, mesh, given, given if wanted is None else wanted)
        return placed.to_local() if self.use_local_output else placed

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        module.register_forward_hook(
            lambda inner, inputs, outputs: self._placed(outputs, device_mesh)
        )
        return module

    def __repr__(self) -> str:
        return (
            f"PrepareModuleOutput(output_layouts={self.output_layouts}, desired_output_layouts="
            f"{self.desired_output_layouts}, use_local_output={self.use_local_output})"
        )


class PrepareModuleInputOutput(ParallelStyle):
    """Places what goes into a module, and what comes out: `PrepareModuleInput` and
    `PrepareModuleOutput` at once. Immutable but for `src_data_rank`.

    Args:
        use_local_input: whether the module gets this process's parts, or DTensors.
        use_local_output: whether this process's parts come out.

    Raises: as of both, whose other arguments it takes.
    """

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Placement | tuple[Placement | None, ...],
        desired_output_layouts: Placement | tuple[Placement, ...],
        use_local_output: bool = True,
    ) -> None:
        super().__init__()
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        self.prepare_module_output._apply(module, device_mesh)
        return module

    def __repr__(self) -> str:
        return (
            f"PrepareModuleInputOutput({self.prepare_module_input!r}, "
            f"{self.prepare_module_output!r})"
        )


__all__ = ["PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput"]
