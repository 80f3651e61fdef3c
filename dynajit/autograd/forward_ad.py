"""Forward mode by PyTorch's path: dual tensors, which are values with a direction they move in.

Contract: as `torch.autograd.forward_ad`: within a `dual_level` operations on tensors from
`make_dual` give tensors whose tangents `unpack_dual` tells; with the level the tangents end. One
level can be open at a time; `dynajit.func.jvp` nests. Levels belong to a thread. Compiled functions
run as plain Python within a level.
"""

from types import TracebackType
from typing import Any, NamedTuple

from dynajit.capture.control import disable
from dynajit.core.errors import ArgumentValueError, AutogradError, InvalidValueError
from dynajit.core.process import late
from dynajit.eager._tensor import TensorBase
from dynajit.eager.modes import forward_levels
from dynajit.eager.modes.forward_levels import Level
from dynajit.eager.modes.grad_mode import _decorated
from dynajit.eager.operations import duals
from dynajit.eager.tensor.tensor import Tensor


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` gives.

    Args:
        primal: the values.
        tangent: of the same shape; None where there is none.
    """

    primal: Tensor
    tangent: Tensor | None


@disable
def enter_dual_level() -> int:
    """Open a level.

    Returns:
        its number.

    Raises:
        RuntimeError: one is open.
    """
    if forward_levels.opened():
        raise AutogradError(
            "Nested forward mode AD is not supported at the moment.  Nest dynajit.func.jvp."
        )
    return forward_levels.enter().number


@disable
def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level, and forget its tangents.

    Args:
        level: its number; None: the innermost.

    Raises:
        RuntimeError: another one is the innermost, or none is open.
    """
    opened = forward_levels.opened()
    if not opened or (level is not None and level != opened[-1].number):
        raise AutogradError(forward_levels.MSG_NOT_LAST)
    forward_levels.leave(opened[-1])


def _level(number: int | None) -> Level | None:
    opened = forward_levels.opened()
    if number is None:
        return opened[-1] if opened else None
    return opened[number] if 0 <= number < len(opened) else None


def _check_continuous(tensor: Any, what: str) -> None:
    if not isinstance(tensor, TensorBase):
        raise ArgumentValueError(f"make_dual: expected a {what}, got {type(tensor).__name__}.")
    if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
        raise InvalidValueError(
            f"Expected {what} to be floating point or complex, but got: {tensor.dtype}"
        )


@disable
def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Tensor:
    """A tensor with the values of `tensor`, in its memory, that moves by `tangent`.

    It is a view that gradients flow back through. The tangent is kept as it is where it lies in
    memory as the tensor does, else copied.

    Raises:
        RuntimeError: no level is open; the tangent has another size or dtype, or is dual itself.
        ValueError: one of both is neither floating nor complex.
    """
    opened = _level(level)
    if opened is None:
        raise AutogradError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    _check_continuous(tensor, "primal")
    _check_continuous(tangent, "tangent")
    made: Tensor = duals.make_dual(opened, tensor, tangent)
    return made


@disable
def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The values of a tensor, as a view without a tangent, and its tangent or None."""
    opened = _level(level)
    if opened is None:
        return UnpackedDualTensor(tensor, None)
    tangent = duals.tangent_of(opened, tensor) if opened in forward_levels.acting() else None
    return UnpackedDualTensor(duals.primal_of(opened, tensor), tangent)


class dual_level:
    """A level that is open in a block, or while a decorated function runs."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        exit_dual_level()

    def __call__(self, function: Any) -> Any:
        """Decorate `function` (also a generator function)."""
        return _decorated(dual_level, function)  # type: ignore[arg-type]  # a manager, too


@disable
def _is_fwd_grad_enabled() -> bool:
    """Whether operations of this thread follow tangents."""
    return forward_levels.is_enabled()


class _set_fwd_grad_enabled:
    """Whether operations follow the tangents of the levels that are open: at once, and until the
    end of the block if used with `with`.

    Args:
        mode: True to follow.
    """

    def __init__(self, mode: bool) -> None:
        self.before = _switch(bool(mode))

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _switch_back(self.before)


@disable
def _switch(mode: bool) -> Any:
    return forward_levels.set_enabled(mode)


@disable
def _switch_back(before: Any) -> None:
    forward_levels.restore(before)


__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

_absent = late.publish(__name__)


def __getattr__(name: str) -> Any:
    if name == "_current_level":  # -1: none is open
        return len(forward_levels.opened()) - 1
    return _absent(name)


late.show(__name__)
