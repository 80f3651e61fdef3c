"""`GradScaler`: losses are scaled up so that float16 gradients do not vanish.

Contract: the numbers, stages, errors and state dicts of PyTorch's class. Gradients are written in
place; a step whose gradients are not all finite is left out, and the next scale is smaller. In a
graph nothing waits for what was found: the step is taken, and undone where it is to be left out.

Source: P. Micikevicius et al., "Mixed Precision Training", arXiv:1710.03740, section 3.2.
"""

import enum
import warnings
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import AutogradError, ExpectationError, InvalidValueError
from dynajit.core.types import dtypes
from dynajit.core.types.device import Device
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops import functions
from dynajit.ops.functions.creation.creation import full
from dynajit.ops.table.dispatch import is_recording


class OptState(enum.Enum):
    """What has happened to an optimizer's gradients since the last `update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _any_of(flags: Iterable[Tensor]) -> Tensor:
    """Whether one of several numbers in tensors is not 0."""
    together: Tensor = functions.stack(list(flags)).any()
    return together


def _can_be_undone(optimizer: Any) -> bool:
    """Whether a graph can take a step and choose afterwards, instead of asking before."""
    asked = getattr(optimizer, "_can_step_unless", None)
    return asked is not None and bool(asked())


def _fresh_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scale losses, unscale gradients, leave out steps that are not finite.

    Mutable: the scale grows and shrinks with what `step` finds.

    Args:
        device: "cpu" or "cuda", which warns and switches the scaler off where there is no GPU.
        init_scale: the first scale.
        growth_factor: the scale is multiplied by it after `growth_interval` finite steps in a row.
        backoff_factor: the scale is multiplied by it after a step that was left out.
        growth_interval: see there.
        enabled: False: `step` calls the optimizer's, and everything else does nothing.

    Raises:
        ExpectationError: a growth factor of at most 1, or a backoff factor of at least 1.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not gpu.is_available():
            warnings.warn(
                "cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=2,
            )
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise ExpectationError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise ExpectationError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale: Tensor | None = None  # made by the first `scale`
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_fresh_state)

    # -- scaling --------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """A tensor, or each of an iterable of tensors, times the scale.

        Raises:
            InvalidValueError: something else is among them.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._present_scale(outputs.device).to(outputs.device)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)([self.scale(output) for output in outputs])
        if isinstance(outputs, Iterable):
            return map(self.scale, outputs)
        raise InvalidValueError("outputs must be a Tensor or an iterable of Tensors")

    def _present_scale(self, device: Device) -> Tensor:
        """The scale, which is made on the device of the first tensor that is scaled."""
        if self._scale is None:
            if self._growth_tracker is not None:
                raise ExpectationError("_growth_tracker initialized before _scale")
            self._scale = full((), self._init_scale, dtype=dtypes.float32, device=device)
            self._growth_tracker = full(
                (), self._init_growth_tracker, dtype=dtypes.int32, device=device
            )
        return self._scale

    def _require_scale(self, function: str) -> tuple[Tensor, Tensor]:
        for name, value in (("_scale", self._scale), ("_growth_tracker", self._growth_tracker)):
            if value is None:
                raise ExpectationError(
                    f"Attempted {function} but {name} is None.  This may indicate your script did "
                    "not use scaler.scale(loss or outputs) earlier in the iteration."
                )
        assert self._scale is not None and self._growth_tracker is not None
        return self._scale, self._growth_tracker

    # -- gradients ------------------------------------------------------------------------

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, once before its step.

        Raises:
            ExpectationError: nothing was scaled.
            AutogradError: they are unscaled already, or the step was made.
            InvalidValueError: a gradient is float16: parameters shall be float32.
        """
        if not self._enabled:
            return
        scale, _ = self._require_scale("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise AutogradError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise AutogradError("unscale_() is being called after step().")
        inverse = scale.double().reciprocal().float()
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse)
        state["stage"] = OptState.UNSCALED

    @no_grad()
    def _unscale_grads_(self, optimizer: Any, inverse: Tensor) -> dict[Any, Tensor]:
        """Multiply the gradients in place; device -> 1 if one of them was not finite, else 0."""
        gradients = [
            parameter.grad
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        if any(gradient.dtype is dtypes.float16 for gradient in gradients):
            raise InvalidValueError("Attempting to unscale FP16 gradients.")
        flags: dict[Device, list[Tensor]] = {}
        for gradient in gradients:
            part = gradient.to_local() if hasattr(gradient, "to_local") else gradient
            flags.setdefault(gradient.device, []).append(part.isfinite().all())
            gradient.mul_(inverse.to(gradient.device))
        found = {
            device: functions.stack(finite).all().logical_not().to(dtypes.float32)
            for device, finite in flags.items()
        }
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if hasattr(type(parameter), "found_anywhere"):  # a part: others have the others
                    parameter.found_anywhere(found)
                    return found
        return found

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(*args, **kwargs)` with unscaled gradients, if all of them are finite.

        Returns:
            What the optimizer's step returned; None where it was left out.

        Raises:
            AutogradError: a closure is given, or the step was made since the last `update`.
            ExpectationError: nothing was scaled, or there is no gradient.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise AutogradError("Closure use is not currently supported if GradScaler is enabled.")
        self._require_scale("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise AutogradError("step() has already been called since the last update().")
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        found = state["found_inf_per_device"]
        if not found:
            raise ExpectationError("No inf checks were recorded for this optimizer.")
        if is_recording() and not args and not kwargs and _can_be_undone(optimizer):
            result = optimizer._step_unless(_any_of(found.values()))
        else:
            is_finite = not any(value.item() for value in found.values())
            result = optimizer.step(*args, **kwargs) if is_finite else None
        state["stage"] = OptState.STEPPED
        return result

    # -- the scale ------------------------------------------------------------------------

    def update(self, new_scale: Any = None) -> None:
        """Choose the next scale, after the steps of all optimizers.

        Args:
            new_scale: the next scale, a float or a tensor of one element; None: by what was found.

        Raises:
            ExpectationError: nothing was scaled or checked, or `new_scale` is of another kind.
        """
        if not self._enabled:
            return
        scale, tracker = self._require_scale("update")
        if new_scale is None:
            self._adapt(scale, tracker)
        elif isinstance(new_scale, float):
            scale.fill_(new_scale)
        else:
            is_number = new_scale.device.type == self._device and new_scale.numel() == 1
            if not is_number or new_scale.requires_grad:
                raise ExpectationError(
                    "new_scale should be a float or a 1-element float tensor with "
                    "requires_grad=False."
                )
            scale.copy_(new_scale)
        self._per_optimizer_states = defaultdict(_fresh_state)

    @no_grad()
    def _adapt(self, scale: Tensor, tracker: Tensor) -> None:
        """Choose by what was found, without asking for it: in float64, as PyTorch does."""
        flags = [
            value.to(scale.device)
            for state in self._per_optimizer_states.values()
            for value in state["found_inf_per_device"].values()
        ]
        if not flags:
            raise ExpectationError("No inf checks were recorded prior to update.")
        found, steps = _any_of(flags), tracker + 1
        is_due = steps == self._growth_interval
        smaller = (scale.double() * self._backoff_factor).float()
        larger = (scale.double() * self._growth_factor).float()
        grown = functions.where(is_due & larger.isfinite(), larger, scale)
        scale.copy_(functions.where(found, smaller, grown))
        tracker.copy_(steps.masked_fill(found | is_due, 0))

    def get_scale(self) -> float:
        """The scale, or 1.0 where the scaler is off."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by after enough finite steps."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Choose what the scale is multiplied by after enough finite steps."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after a step that was left out."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Choose what the scale is multiplied by after a step that was left out."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """How many finite steps in a row make the scale grow."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Choose how many finite steps in a row make the scale grow."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else int(tracker.item())

    def is_enabled(self) -> bool:
        """Whether the scaler does anything."""
        return self._enabled

    # -- state ----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Scale, factors, interval and the number of finite steps in a row; {} where it is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned.

        Raises:
            AutogradError: it is empty, as that of a scaler that was off.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise AutogradError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if not self._enabled:
            return state
        if self._per_optimizer_states:
            raise ExpectationError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at "
                "the end after scaler.update()."
            )
        state["_init_scale"] = self.get_scale()
        state["_init_growth_tracker"] = self._get_growth_tracker()
        state["_scale"] = state["_growth_tracker"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
