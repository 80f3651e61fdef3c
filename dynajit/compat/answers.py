"""What paths of PyTorch answer about what is not here, and calls that they accept.

Contract: functions that look at nothing. `compat.names` gives most of them to modules under other
names; `compat.finder` makes a function of that name of each, so these use no names of this module.
"""

from typing import Any, Final

from dynajit.eager.tensor.tensor import Tensor

ClassOfTensors: Final = type(Tensor)
"""The class of the class of tensors."""


def no() -> bool:
    """Whether this is here: False."""
    return False


def yes() -> bool:
    """Whether this is here: True."""
    return True


def zero() -> int:
    """How many there are: 0."""
    return 0


def one() -> int:
    """How many there are: 1."""
    return 1


def cpu() -> str:
    """The device: "cpu"."""
    return "cpu"


def cpu_capability() -> str:
    """The widest instructions that PyTorch's own kernels would use; generated kernels use what the
    compiler finds."""
    return "DEFAULT"


def nothing() -> None:
    """Accepted: there is nothing to do."""


def no_emulation(including_emulation: bool = True) -> bool:
    """Whether this is here, emulated or not: False."""
    return False


def not_enabled(enabled: bool) -> bool:
    """Accepted: it is off, before and after the call."""
    return False


def not_profiled(profiling_flag: bool) -> bool:
    """Accepted: nothing is profiled, before and after the call."""
    return False


def not_guarded(profiling_flag: bool) -> bool:
    """Accepted: there is no such guard, before and after the call."""
    return False


def no_depth(depth: int) -> int:
    """How often specialised code is made anew: 0, before and after the call."""
    return 0


def accepted_seed(seed: int) -> None:
    """Accepted: there is no generator to seed."""


def accepted_device(device: Any = None) -> None:
    """Accepted: everything is done."""


def accepted_switch(enabled: bool) -> None:
    """Accepted: there is nothing to switch."""


def accepted_event(event: str) -> None:
    """Accepted: nothing is logged."""
