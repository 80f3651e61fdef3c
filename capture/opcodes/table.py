"""The handler table: one entry per canonical operation, or a stated reason why there is none."""

from typing import Final

from dynajit.capture.machine.machine import Handler
from dynajit.capture.opcodes import (
    control,
    exceptions,
    imports,
    match,
    operators,
    star_calls,
    variables,
)

HANDLERS: Final[dict[str, Handler]] = {
    **variables.HANDLERS,
    **operators.HANDLERS,
    **control.HANDLERS,
    **exceptions.HANDLERS,
    **imports.HANDLERS,
    **match.HANDLERS,
    **star_calls.HANDLERS,
}

_CLASS_BODY = "class bodies and module code are not captured"
_ASYNC = "coroutines are not captured"

#: Operations that break, and why.
UNSUPPORTED: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("LOAD_NAME", "STORE_NAME", "DELETE_NAME", "LOAD_CLASSDEREF", "LOAD_LOCALS",
         "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS", "SETUP_ANNOTATIONS",
         "IMPORT_STAR", "PRINT_EXPR"),
        _CLASS_BODY,
    ),
    **dict.fromkeys(
        ("GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "END_ASYNC_FOR", "BEFORE_ASYNC_WITH",
         "ASYNC_GEN_WRAP"),
        _ASYNC,
    ),
    "BUILD_INTERPOLATION": "template strings are not captured",
    "BUILD_TEMPLATE": "template strings are not captured",
}  # fmt: skip
