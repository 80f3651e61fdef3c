"""Names of types that TorchScript programs import from here: those of `typing`."""

from typing import Any, Dict, Final, List, NamedTuple, Optional, Tuple, Type, Union  # noqa: UP035

__all__ = ["Any", "Dict", "Final", "List", "NamedTuple", "Optional", "Tuple", "Type", "Union"]
