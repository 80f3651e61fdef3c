"""How exact products of float32 matrices are: as float32, or on a GPU in TF32, with ten bits of
mantissa, on tensor cores.

Contract: the setting is `config.allow_tf32`, which eager and compiled products on a GPU read at
every call; products on the CPU are always as float32. Published by `dynajit`.
"""

import warnings

from dynajit.core.process import config

_LEVELS = ("highest", "high", "medium")
_setting = {"reduced": "high"}


def set_float32_matmul_precision(precision: str) -> None:
    """Say how exact products of float32 matrices must be: "highest" as float32; "high" and "medium"
    may be in TF32 on a GPU.

    A value that is not known has no effect, with a warning.
    """
    if precision not in _LEVELS:
        warnings.warn(
            f"{precision} is not one of {', '.join(map(repr, _LEVELS))}; "
            "set_float32_matmul_precision has no effect.",
            stacklevel=2,
        )
        return
    if precision != "highest":
        _setting["reduced"] = precision
    config.configure(allow_tf32=precision != "highest")


def get_float32_matmul_precision() -> str:
    """What is set; "highest" at first."""
    return _setting["reduced"] if config.current().allow_tf32 else "highest"


__all__ = ["get_float32_matmul_precision", "set_float32_matmul_precision"]
