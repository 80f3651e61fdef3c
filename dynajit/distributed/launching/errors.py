"""`record` and its errors, by the path `torch.distributed.elastic.multiprocessing.errors`.

Contract: the launcher of this package shows the traceback of the rank that failed in any case.
`record` serves launchers and schedulers that read a file instead: the one that
TORCHELASTIC_ERROR_FILE names.
"""

import functools
import json
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

ERROR_FILE: Final = "TORCHELASTIC_ERROR_FILE"
"""Variable with the path of the file."""


def record(fn: Callable[_P, _R], error_handler: Any = None) -> Callable[_P, _R | None]:
    """A decorator of a program's main function: an exception is written to a file, and goes on.

    Args:
        fn: the function.
        error_handler: None, or an object with `initialize()` and `record_exception(error)`, which
            are called instead of writing the file.

    Source of the file's form: PyTorch's error handler; a JSON object with the key `message`, which
    holds `message` and `extraInfo` (`py_callstack`, `timestamp` in seconds).
    """

    @functools.wraps(fn)
    def recorded(*args: _P.args, **kwargs: _P.kwargs) -> _R | None:
        if error_handler is not None:
            error_handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit:
            raise
        except Exception as error:
            if error_handler is not None:
                error_handler.record_exception(error)
            else:
                _write(error)
            raise

    return recorded


def _write(error: Exception) -> None:
    path = os.environ.get(ERROR_FILE)
    if not path:
        return
    information = {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}
    message = {"message": f"{type(error).__name__}: {error}", "extraInfo": information}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps({"message": message}))
