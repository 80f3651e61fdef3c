"""Styles of several modules, by their names."""

import fnmatch
import warnings

from dynajit.core.errors import ArgumentError, InvalidValueError
from dynajit.distributed.device_mesh import DeviceMesh, current_mesh
from dynajit.distributed.tensor.parallel.styles import ParallelStyle
from dynajit.nn.module import Module


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Spread modules over processes, in place.

    Args:
        device_mesh: of one dim: a slice of a larger one, such as `mesh["tp"]`; None: that of the
            `with mesh:` around.
        parallelize_plan: the style of the module, or styles by names of modules within, in which
            "*" stands for any name of one module, and "" for the module itself.
        src_data_rank: whose values count, by its place in the mesh; None: all processes have the
            same.

    Raises:
        ArgumentError: the plan is something else.
        InvalidValueError: the mesh has several dims.
        UnsupportedError: a style has no form for its module.

    A name that no module has is passed over with a warning.
    """
    mesh = device_mesh if device_mesh is not None else current_mesh()
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided, so this parallelize_module call will do nothing.",
            stacklevel=2,
        )
        return module
    if mesh.ndim != 1:
        raise InvalidValueError(
            f"parallelize_module: expected a mesh of one dim, got {mesh!r}.  Slice it, as in "
            'mesh["tp"].'
        )
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise ArgumentError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        for found in _modules_at(module, path):
            parallelize_module(found, mesh, style, src_data_rank=src_data_rank)
    return module


def _modules_at(module: Module, path: str) -> list[Module]:
    """The modules that a path of names means."""
    found = [module]
    for name in path.split(".") if path else ():
        children = [
            child
            for parent in found
            for known, child in parent.named_children()
            if fnmatch.fnmatch(known, name)
        ]
        if not children:
            warnings.warn(
                f"Parallelize plan key '{path}' could not be resolved: no submodule matching token "
                f"'{name}' in module {type(module).__name__}, skipping this plan entry.",
                stacklevel=3,
            )
        found = children
    return found


__all__ = ["parallelize_module"]
