"""The exceptions of dynajit, all in one tree.

Every class also derives from the built-in class that PyTorch raises in the same place, so code
written for PyTorch catches what it expects. Where PyTorch raises another class than the kind of
fault mostly has, there is a class below that kind: it is named after both, and is raised in these
places only (`ShapeValueError` is a ShapeError that `except ValueError` catches). A message says, in
this order: what was asked, what is wrong, what would be accepted, what to do, and where (the user's
file and line).

::

    DynajitError (Exception)
    |-- ShapeError      (RuntimeError)  sizes do not fit an operation
    |   |-- ShapeValueError             ... (ValueError, too)
    |   |-- ShapeIndexError             ... (IndexError, too)
    |   `-- ShapeTypeError              ... (TypeError, too)
    |-- DTypeError      (RuntimeError)  a dtype is not accepted, or operands disagree
    |   |-- DTypeNotImplementedError    an operation has no kernel for it (NotImplementedError, too)
    |   |-- DTypeTypeError              ... (TypeError, too)
    |   |-- DTypeValueError             ... (ValueError, too)
    |   `-- DTypeIndexError             ... (IndexError, too)
    |-- DeviceError     (RuntimeError)  operands on different devices, or no such device
    |   `-- NoGpuError                  no GPU can be used (an UnsupportedError, too)
    |-- OutOfMemoryError(RuntimeError)  there is no memory of that size
    |-- ArgumentError   (TypeError)     an argument has the wrong kind or is missing
    |   |-- ArgumentRuntimeError        ... (RuntimeError, too)
    |   |-- ArgumentValueError          ... (ValueError, too)
    |   |-- ArgumentIndexError          ... (IndexError, too)
    |   `-- ArgumentNotImplementedError ... (NotImplementedError, too)
    |-- InvalidValueError (ValueError) an argument's value or size is not accepted
    |   |-- InvalidValueRuntimeError    ... (RuntimeError, too)
    |   `-- InvalidValueTypeError       ... (TypeError, too)
    |-- ExpectationError(AssertionError) arguments break what PyTorch asserts of them
    |-- BoundsError     (IndexError)    an index or a dimension is out of range
    |   `-- BoundsRuntimeError          ... (RuntimeError, too)
    |-- DivisionError   (RuntimeError, ZeroDivisionError) integers divided by zero
    |-- LinAlgError     (RuntimeError)  a matrix is singular, or a method did not converge
    |-- AutogradError   (RuntimeError)  backward twice, saved tensor changed, no graph
    |   |-- AutogradAssertionError      ... (AssertionError, too)
    |   `-- AutogradValueError          ... (ValueError, too)
    |-- OperatorError   (RuntimeError)  a custom operator is defined or called wrongly
    |   `-- NoKernelError               no kernel for these tensors (NotImplementedError, too)
    |-- UnsupportedError(NotImplementedError) exists in PyTorch, not (yet) here
    |   |-- NoDerivativeError         backward needs a derivative that nobody has
    |   `-- LibraryError              a library compiled for PyTorch (OSError, too)
    |-- FileFormatError (RuntimeError)  a saved file is damaged or of another kind
    |   |-- CheckpointException         a checkpoint of several processes, named as in PyTorch
    |   |-- EmptyFileError  (EOFError)  there is nothing to read
    |   `-- UnsafeFileError (UnpicklingError)  it asks for more than weights
    |-- NoFolderError   (RuntimeError, FileNotFoundError)  there is none to write a file into
    |-- UnknownNameError(AttributeError) a module has no such name
    |-- CaptureError    (RuntimeError)  compile was asked for something it cannot do
    |   |-- GraphBreakError             fullgraph=True met a graph break
    |   |-- RecompileError              the stance forbids to compile a new version
    |   |-- DynamicSizeError            mark_dynamic on a size that the code fixes
    |   `-- BackendError                a backend of the program's own broke its contract
    |-- LaunchFailed                    a launch refuses its values: the plain function goes on
    |-- DistError       (RuntimeError)  processes of a group do not come together
    |   |-- DistBackendError            the engine failed, or did not finish in time
    |   |-- DistNetworkError            a process cannot be reached
    |   `-- DistStoreError              a store has no such key, or not in time
    |-- UnknownKeyError (KeyError)      nothing has this name
    |-- CodegenError    (RuntimeError)  no kernel could be made
    |   |-- ToolchainError              the C or CUDA compiler is missing or failed
    |   |   `-- CompilerTimeoutError    it did not finish in time
    |   `-- CacheError                  the kernel cache cannot be used
    `-- InternalError   (AssertionError) a broken invariant of dynajit itself: please report
        `-- VerificationError            `verify=True` found a kernel that computes wrongly

Warnings about what works, but not as it could::

    DynajitWarning (RuntimeWarning)
    |-- CompileWarning                  something runs as plain Python, or is compiled too often
    |-- PrecisionWarning                `verify=True` met values that are far from float64
    `-- ConfigurationWarning            a setting, a folder or a file does not count
"""

import importlib
import pickle
import sys


class DynajitError(Exception):
    """Base class of every error that dynajit raises on purpose."""


class ShapeError(DynajitError, RuntimeError):
    """The sizes of the operands do not fit the operation."""


class ShapeValueError(ShapeError, ValueError):
    """Sizes do not fit, where PyTorch raises ValueError: most checks of layers and losses."""


class ShapeIndexError(ShapeError, IndexError):
    """Sizes do not fit, where PyTorch raises IndexError: mostly indices of other sizes."""


class ShapeTypeError(ShapeError, TypeError):
    """Sizes do not fit, where PyTorch finds no form of the function that takes them."""


class DTypeError(DynajitError, RuntimeError):
    """A dtype is not accepted by the operation, or operands disagree about it."""


class DTypeNotImplementedError(DTypeError, NotImplementedError):
    """An operation is not defined for a dtype: PyTorch has no kernel for it."""


class DTypeTypeError(DTypeError, TypeError):
    """What has no dtype, is none or is cast to none, where PyTorch raises TypeError."""


class DTypeValueError(DTypeError, ValueError):
    """Values that no dtype holds, where PyTorch raises ValueError."""


class DTypeIndexError(DTypeError, IndexError):
    """A dtype that indices do not have, where PyTorch raises IndexError."""


class DeviceError(DynajitError, RuntimeError):
    """Operands live on different devices, or the named device does not exist."""


class OutOfMemoryError(DynajitError, RuntimeError):
    """There is no memory of the size that was asked for; nothing was changed."""


class ArgumentError(DynajitError, TypeError):
    """An argument has the wrong kind, is missing, or is not known."""


class ArgumentRuntimeError(ArgumentError, RuntimeError):
    """An argument is not accepted, where PyTorch raises RuntimeError: checks in its C++."""


class ArgumentValueError(ArgumentError, ValueError):
    """An argument is not accepted, where PyTorch raises ValueError."""


class ArgumentIndexError(ArgumentError, IndexError):
    """What is given is no index, where PyTorch raises IndexError."""


class ArgumentNotImplementedError(ArgumentError, NotImplementedError):
    """A mode is not known, where PyTorch raises NotImplementedError."""


class InvalidValueError(DynajitError, ValueError):
    """An argument of the right type whose value or size is not accepted."""


class InvalidValueRuntimeError(InvalidValueError, RuntimeError):
    """A value is not accepted, where PyTorch raises RuntimeError: checks in its C++."""


class InvalidValueTypeError(InvalidValueError, TypeError):
    """A value is not accepted, where PyTorch raises TypeError."""


class ExpectationError(DynajitError, AssertionError):
    """Arguments do not go together, where PyTorch has an assertion."""


class BoundsError(DynajitError, IndexError):
    """An index or a dimension lies outside its range."""


class BoundsRuntimeError(BoundsError, RuntimeError):
    """A position lies outside its range, where PyTorch raises RuntimeError: `gather`, say."""


class DivisionError(DynajitError, RuntimeError, ZeroDivisionError):
    """Integers were divided by zero: PyTorch raises RuntimeError, Python ZeroDivisionError."""


class LinAlgError(DynajitError, RuntimeError):
    """A matrix is singular or not positive-definite, or a method of linear algebra failed."""


class AutogradError(DynajitError, RuntimeError):
    """A derivative was asked for that cannot be given."""


class AutogradAssertionError(AutogradError, AssertionError):
    """A derivative cannot be given, where PyTorch raises AssertionError."""


class AutogradValueError(AutogradError, ValueError):
    """A derivative cannot be given, where PyTorch raises ValueError."""


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


class CheckpointException(FileFormatError):
    """A checkpoint of several processes cannot be written or read. Named as in PyTorch."""


class EmptyFileError(FileFormatError, EOFError):
    """A file that should hold saved tensors has nothing where it is read from."""


class NoFolderError(DynajitError, RuntimeError, FileNotFoundError):
    """A file is to be written into a folder that does not exist."""


class UnsafeFileError(FileFormatError, pickle.UnpicklingError):
    """A file of weights asks for code or classes that loading weights does not run."""


class UnknownNameError(DynajitError, AttributeError):
    """A module has no such name. What is near is looked for when the text is asked for: programs
    that only probe for names do not pay for it. Mutable: `module` is set after it is made, as an
    `__init__` of Python's would double what a probe costs.

    Without `obj`, for which Python would print a suggestion of its own beside this one.
    """

    module = ""

    def __str__(self) -> str:
        message = super().__str__()
        if not self.module:
            return message
        difflib = importlib.import_module("difflib")  # takes 4 ms to load
        near = difflib.get_close_matches(str(self.name), dir(sys.modules[self.module]), 1)
        return f"{message}.  Did you mean {near[0]!r}?" if near else message

    def __reduce__(self) -> "tuple[type, tuple[str]]":
        return type(self), (str(self),)


class CaptureError(DynajitError, RuntimeError):
    """`compile` was asked for something it cannot do."""


class GraphBreakError(CaptureError):
    """`fullgraph=True` met code that cannot be captured; the message shows the user's line."""


class RecompileError(CaptureError):
    """A compiled function met a call that no version fits, under `fail_on_recompile`."""


class DynamicSizeError(CaptureError):
    """A size was marked dynamic, and the code forces one number on it; the message says where."""


class BackendError(CaptureError):
    """A backend that the program gave to `compile` raised, or what it made breaks its contract."""


class UnknownKeyError(DynajitError, KeyError):
    """Nothing has this name, where PyTorch raises KeyError."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class DistError(DynajitError, RuntimeError):
    """Processes of a group do not come together."""


class DistBackendError(DistError):
    """The engine of a group failed, or did not finish in time."""


class DistNetworkError(DistError):
    """A process cannot be reached."""


class DistStoreError(DistError):
    """A store has no such key, or not in time."""


class CodegenError(DynajitError, RuntimeError):
    """No kernel could be generated for a graph."""


class ToolchainError(CodegenError):
    """The C or CUDA compiler is missing, or refused generated code."""


class CompilerTimeoutError(ToolchainError):
    """The C compiler did not finish in time."""


class CacheError(CodegenError):
    """The kernel cache on disk cannot be used."""


class InternalError(DynajitError, AssertionError):
    """An invariant of dynajit itself is broken; the message names the stage that found it."""


class VerificationError(InternalError):
    """A kernel's result differs from that of the rows; the message names kernel, line and file."""


class DynajitWarning(RuntimeWarning):
    """Something works, but not as it could."""


class CompileWarning(DynajitWarning):
    """A compiled function, or a part of it, runs as plain Python or by NumPy, or is compiled again
    and again; the message says why, and what to do."""


class PrecisionWarning(DynajitWarning):
    """`verify=True` met an operation whose values are far from what float64 gives."""


class ConfigurationWarning(DynajitWarning):
    """A setting, a folder or a file is not what it should be, and does not count."""
