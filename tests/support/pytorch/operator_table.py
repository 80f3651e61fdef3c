"""PyTorch's own table of operators, `op_db`, whose samples come as fast as they are made.

Imports PyTorch and `expecttest`; a test that uses it skips where either is missing.
"""

from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core

__all__ = ["op_db"]


def _no_test() -> None:
    """No `unittest` test asks for samples."""


# For each operator PyTorch reads the source around every frame on the stack, twice, to find the
# `unittest` test that asks for samples: 0.2 s each. It finds none below pytest's functions.
common_utils.extract_test_fn = _no_test
core.extract_test_fn = _no_test
