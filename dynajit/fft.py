"""`dynajit.fft`: discrete Fourier transforms by PyTorch's path; see
`ops.functions.signals.fourier`."""

import dynajit.ops.functions.signals.fourier
from dynajit.core.process import late
from dynajit.ops.calls.library_calls import publish

__all__ = publish(globals(), "fft")

late.show(__name__)
