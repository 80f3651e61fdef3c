"""`print`, `sys.stdout.write`, logging and `warnings.warn`: recorded, written after the launch.

Handlers of `capture.python.builtins.table`; see there, and `capture.python.text.output`.
"""

import logging
import warnings
from typing import Any, Final

from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import as_python, at_once, is_known, is_same, type_of, unsupported
from dynajit.capture.python.builtins.table import Handler, special
from dynajit.capture.python.text.output import OutputEffect, add_output, is_stream, snapshot
from dynajit.capture.python.text.output_writers import (
    refuse_output,
    rely_on_logger,
    rely_on_standard_streams,
    rely_on_warnings,
)
from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.objects import ObjectValue
from dynajit.capture.values.symbolic import NONE, Constant, Known, Value, constant

# -- print ---------------------------------------------------------------------------------------


@special(print)
def _print(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    rely_on_standard_streams(machine, "print()")
    if not set(keywords) <= {"sep", "end", "file", "flush"}:
        raise refuse_output("print()")
    options = []
    for name, value in keywords.items():
        if name == "file" and not (is_stream(value) or is_same(machine, value, NONE)):
            raise refuse_output("print() to an object that is no plain stream")
        if name in ("sep", "end") and type_of(machine, value) not in (str, type(None)):
            raise unsupported("print", value)
        if name == "flush" and not is_known(value):
            raise unsupported("print", value)
        options.append((name, value))
    shown = []
    for value in args:
        shown.append((yield from snapshot(machine, value)))
    add_output(machine, OutputEffect(print, tuple(shown), tuple(options)))
    return NONE


def stream_method(machine: Machine, receiver: Value, name: str, args: list[Value]) -> Value:
    """`write` and `flush` of an existing text stream."""
    rely_on_standard_streams(machine, f"{name}()")
    if name == "flush" and not args:
        add_output(machine, OutputEffect(_flush, (receiver,)))
        return NONE
    if name == "write" and len(args) == 1 and type_of(machine, args[0]) is str:
        text = as_python(machine, args[0])
        add_output(machine, OutputEffect(_write, (receiver, constant(text))))
        return constant(len(text))
    raise refuse_output(f"{name}()")


def _write(stream: Any, text: str) -> None:
    stream.write(text)


def _flush(stream: Any) -> None:
    stream.flush()


# -- logging -------------------------------------------------------------------------------------


def write_log(
    logger: logging.Logger,
    level: int,
    place: tuple[str, int, str],
    message: Any,
    args: tuple[Any, ...],
    extra: Any,
) -> None:
    """What `logger.log(level, message, *args)` does when it is called at `place`."""
    if not logger.isEnabledFor(level):
        return
    file, line, function = place
    made = logger.makeRecord(
        logger.name, level, file, line, message, args, None, function, extra, None
    )
    logger.handle(made)


def write_root_log(level: int, place: Any, message: Any, args: Any, extra: Any) -> None:
    """What `logging.log(level, message, *args)` does."""
    if not logging.root.handlers:
        logging.basicConfig()
    write_log(logging.root, level, place, message, args, extra)


def _place(machine: Machine) -> Value:
    frame = machine.frames[-1]
    return Known((frame.code.co_filename, frame.location().line, frame.code.co_name))


def _log(
    machine: Machine, level: Value, args: list[Value], keywords: dict[str, Value]
) -> Steps[tuple[Value, ...]]:
    """Level, place, message, arguments, extra, as they are now."""
    if not args or not set(keywords) <= {"extra"}:
        raise refuse_output("logging with an exception, a stack, or a stack level")
    shown = []
    for value in args:
        shown.append((yield from snapshot(machine, value)))
    extra: Value = NONE
    if "extra" in keywords:
        extra = yield from snapshot(machine, keywords["extra"])
    return (level, _place(machine), shown[0], TupleValue(tuple(shown[1:])), extra)


def _of_logger(level: int | None) -> Handler:
    def handle(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
        logger, rest = args[0], args[1:]
        plain = (logging.Logger, logging.RootLogger)
        if not isinstance(logger, ObjectValue) or logger.cls not in plain:
            raise refuse_output("logging by a logger of another class")
        if machine.recorder.existing(logger) is None:
            raise refuse_output("logging by a new logger")
        machine.recorder.use(logger)
        number = rest.pop(0) if level is None and rest else constant(level)
        touched = rely_on_logger(machine, machine.recorder.existing(logger), logger.source)
        parts = yield from _log(machine, number, rest, keywords)
        add_output(machine, OutputEffect(write_log, (logger, *parts), touched=touched))
        return NONE

    return handle


def _of_module(level: int | None) -> Handler:
    def handle(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
        rest = list(args)
        number = rest.pop(0) if level is None and rest else constant(level)
        touched = rely_on_logger(machine, logging.root, sources.Constant(logging.root))
        parts = yield from _log(machine, number, rest, keywords)
        add_output(machine, OutputEffect(write_root_log, parts, touched=touched))
        return NONE

    return handle


LEVELS: Final = {
    "debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING,
    "error": logging.ERROR, "critical": logging.CRITICAL, "log": None,
}  # fmt: skip

for _name, _level in LEVELS.items():
    special(getattr(logging.Logger, _name))(_of_logger(_level))
    special(getattr(logging, _name))(_of_module(_level))


@special(logging.getLogger)
@at_once
def _get_logger(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    name = as_python(machine, args[0]) if args and is_known(args[0]) else None
    known: dict[Any, Any] = logging.root.manager.loggerDict
    found = known.get(name) if args else logging.root
    if keywords or not isinstance(found, logging.Logger):
        raise refuse_output("logging.getLogger() of a new logger")
    return machine.recorder.wrap(found, None)


# -- warnings ------------------------------------------------------------------------------------


def write_warning(
    message: str, category: type[Warning], file: str, line: int, namespace: dict[str, Any]
) -> None:
    """What `warnings.warn(message, category)` does in a function with these globals."""
    registry = namespace.setdefault("__warningregistry__", {})
    module = namespace.get("__name__") or "<string>"
    warnings.warn_explicit(message, category, file, line, module, registry)


def action_of(text: str, category: type[Warning], line: int, module: str) -> str:
    """What the filters say now about a warning."""
    for action, message, kind, name, number in warnings.filters:
        if (
            (message is None or message.match(text))
            and issubclass(category, kind)
            and (name is None or name.match(module))
            and number in (0, line)
        ):
            return action
    default: str = vars(warnings)["defaultaction"]
    return default


@special(warnings.warn)
@at_once
def _warn(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    given = dict(zip(("message", "category", "stacklevel"), args, strict=False)) | keywords
    level = as_python(machine, given["stacklevel"]) if "stacklevel" in given else 1
    message = given.get("message", NONE)
    category = given.get("category", NONE)
    if not isinstance(message, Constant) or not isinstance(message.value, str):
        raise refuse_output("warnings.warn() of an object")
    if not set(given) <= {"message", "category", "stacklevel"}:
        raise refuse_output("warnings.warn() of an object")
    if not isinstance(level, int) or not 1 <= level <= len(machine.frames):
        raise refuse_output("warnings.warn() that names a caller of the compiled function")
    kind = UserWarning if is_same(machine, category, NONE) else as_python(machine, category)
    if not isinstance(kind, type) or not issubclass(kind, Warning):
        raise unsupported("warnings.warn", category)
    frame = machine.frames[-level]
    place = (frame.code.co_filename, frame.location().line, frame.namespace.globals)
    if action_of(message.value, kind, place[1], place[2].get("__name__") or "<string>") == "error":
        raise refuse_output("warnings.warn() where the warning is an error")
    touched = rely_on_warnings(machine)
    values = (message, Known(kind), *(Known(part) for part in place))
    add_output(machine, OutputEffect(write_warning, values, touched=touched))
    return NONE
