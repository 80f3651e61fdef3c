"""The exceptions of dynajit, all in one tree.

Every class also derives from the built-in class that PyTorch raises in the same place, so code
written for PyTorch catches what it expects. A message says, in this order: what was asked, what
is wrong, what would be accepted, what to do, and where (the user's file and line).

::

    DynajitError (Exception)
    |-- ShapeError      (RuntimeError)  sizes do not fit an operation
    |-- DTypeError      (RuntimeError)  a dtype is not accepted, or operands disagree
    |-- DeviceError     (RuntimeError)  operands on different devices, or no such device
    |   `-- NoGpuError                  no GPU can be used (an UnsupportedError, too)
    |-- OutOfMemoryError(RuntimeError)  a GPU has no memory of that size
    |-- ArgumentError   (TypeError)     an argument has the wrong kind or is missing
    |-- InvalidValueError (ValueError) an argument's value or size is not accepted
    |-- ExpectationError(AssertionError) arguments break what PyTorch asserts of them
    |-- BoundsError     (IndexError)    an index or a dimension is out of range
    |-- DivisionError   (RuntimeError, ZeroDivisionError) integers divided by zero
    |-- LinAlgError     (RuntimeError)  a matrix is singular, or a method did not converge
    |-- AutogradError   (RuntimeError)  backward twice, saved tensor changed, no graph
    |-- OperatorError   (RuntimeError)  a custom operator is defined or called wrongly
    |   `-- NoKernelError               no kernel for these tensors (NotImplementedError, too)
    |-- UnsupportedError(NotImplementedError) exists in PyTorch, not (yet) here
    |   `-- LibraryError              a library compiled for PyTorch (OSError, too)
    |-- FileFormatError (RuntimeError)  a saved file is damaged or of another kind
    |   `-- UnsafeFileError (UnpicklingError)  it asks for more than weights
    |-- CaptureError    (RuntimeError)  compile was asked for something it cannot do
    |   |-- GraphBreakError             fullgraph=True met a graph break
    |   |-- RecompileError              the stance forbids to compile a new version
    |   `-- DynamicSizeError            mark_dynamic on a size that the code fixes
    |-- LaunchFailed                    a launch refuses its values: the plain function goes on
    |-- CodegenError    (RuntimeError)  no kernel could be made
    |   |-- ToolchainError              the C or CUDA compiler is missing or failed
    |   `-- CacheError                  the kernel cache cannot be used
    `-- InternalError   (AssertionError) a broken invariant of dynajit itself: please report
        `-- VerificationError            `verify=True` found a kernel that computes wrongly
"""

import pickle


class DynajitError(Exception):
    """Base class of every error that dynajit raises on purpose."""


class ShapeError(DynajitError, RuntimeError):
    """The sizes of the operands do not fit the operation."""


class DTypeError(DynajitError, RuntimeError):
    """A dtype is not accepted by the operation, or operands disagree about it."""


class DeviceError(DynajitError, RuntimeError):
    """Operands live on different devices, or the named device does not exist."""


class OutOfMemoryError(DynajitError, RuntimeError):
    """A GPU has no memory of the size that was asked for; nothing was changed."""


class ArgumentError(DynajitError, TypeError):
    """An argument has the wrong kind, is missing, or is not known."""


class InvalidValueError(DynajitError, ValueError):
    """An argument of the right type whose value or size is not accepted."""


class ExpectationError(DynajitError, AssertionError):
    """Arguments do not go together, where PyTorch has an assertion."""


class BoundsError(DynajitError, IndexError):
    """An index or a dimension lies outside its range."""


class DivisionError(DynajitError, RuntimeError, ZeroDivisionError):
    """Integers were divided by zero: PyTorch raises RuntimeError, Python ZeroDivisionError."""


class LinAlgError(DynajitError, RuntimeError):
    """A matrix is singular or not positive-definite, or a method of linear algebra failed."""


class AutogradError(DynajitError, RuntimeError):
    """A derivative was asked for that cannot be given."""


class OperatorError(DynajitError, RuntimeError):
    """A custom operator is defined or called in a way that its schema or its kernels forbid."""


class NoKernelError(OperatorError, NotImplementedError):
    """A custom operator has no kernel for the device of its operands."""


class LaunchFailed(DynajitError):
    """The values that a launch computes with are refused; nothing has happened yet.

    Raised by launches that say `may_fail`, for the code around them: never seen by users.
    """


class UnsupportedError(DynajitError, NotImplementedError):
    """The name exists in PyTorch and is not available here; the message names an alternative."""


class NoDerivativeError(UnsupportedError):
    """Backward needs a derivative that nobody has, in PyTorch neither."""


class LibraryError(UnsupportedError, OSError):
    """A library of operators compiled for PyTorch was asked for."""


class NoGpuError(DeviceError, UnsupportedError):
    """No GPU can be used here; the message says why, and how to mend it."""


class FileFormatError(DynajitError, RuntimeError):
    """A file that should hold saved tensors is damaged or of another kind."""


class UnsafeFileError(FileFormatError, pickle.UnpicklingError):
    """A file of weights asks for code or classes that loading weights does not run."""


class CaptureError(DynajitError, RuntimeError):
    """`compile` was asked for something it cannot do."""


class GraphBreakError(CaptureError):
    """`fullgraph=True` met code that cannot be captured; the message shows the user's line."""


class RecompileError(CaptureError):
    """A compiled function met a call that no version fits, under `fail_on_recompile`."""


class DynamicSizeError(CaptureError):
    """A size was marked dynamic, and the code forces one number on it; the message says where."""


class CodegenError(DynajitError, RuntimeError):
    """No kernel could be generated for a graph."""


class ToolchainError(CodegenError):
    """The C or CUDA compiler is missing, or refused generated code."""


class CacheError(CodegenError):
    """The kernel cache on disk cannot be used."""


class InternalError(DynajitError, AssertionError):
    """An invariant of dynajit itself is broken; the message names the stage that found it."""


class VerificationError(InternalError):
    """A kernel's result differs from that of the rows; the message names kernel, line and file."""
