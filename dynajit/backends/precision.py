"""How exact products of float32 matrices are: always as float32, whatever a program asks for.

Contract: the setting is kept and given back. Published by `dynajit`.
"""

import warnings

_LEVELS = ("highest", "high", "medium")
_setting = {"level": "highest"}


def set_float32_matmul_precision(precision: str) -> None:
    """Allow products of float32 matrices to be less exact; none are.

    A value that is not known has no effect, with a warning.
    """
    if precision not in _LEVELS:
        warnings.warn(
            f"{precision} is not one of {', '.join(map(repr, _LEVELS))}; "
            "set_float32_matmul_precision has no effect.",
            stacklevel=2,
        )
        return
    _setting["level"] = precision


def get_float32_matmul_precision() -> str:
    """What was set last; "highest" at first."""
    return _setting["level"]


__all__ = ["get_float32_matmul_precision", "set_float32_matmul_precision"]
