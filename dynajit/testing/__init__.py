"""What tests of programs use: comparison within tolerances, and tensors to test with."""

from dynajit.core.process import late
from dynajit.testing.comparison import assert_allclose, assert_close
from dynajit.testing.samples import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

late.show(__name__)
