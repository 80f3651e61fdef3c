"""Who writes the text of a region, and what that changes: streams, handlers, recorded lists.

Text may be written after the launch only where writing it changes nothing that the captured code
can read: by streams whose `write` is not Python code, by the handlers of `logging`, by `warnings`
itself. Each function guards what it found, or raises the break. A writer that appends to a list
(`warnings.catch_warnings(record=True)`, pytest's handler) names that list: code that reads it
breaks before it does (`Recorder.add_output`).
"""

import logging
import logging.handlers
import sys
import types
import warnings
from _io import _TextIOBase
from dataclasses import field
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.places.sources import Attribute, Source
from dynajit.capture.values.plain_classes import derives_from, namespace, qualified_name
from dynajit.capture.values.users_code import lookup
from dynajit.core.records import record

#: Streams whose `write` is Python code that only passes the text on (Jupyter's).
_KNOWN_STREAMS: Final = {("ipykernel.iostream", "OutStream")}

#: Modules whose handlers and formatters only write ...
_KNOWN_HANDLERS: Final = {"logging", "logging.handlers", "_pytest.logging"}
#: ... but for these, which hand records on to others.
_HANDING_ON: Final = (logging.handlers.BufferingHandler, logging.handlers.QueueHandler)

_REASON: Final = "where text is written"
_WARNINGS: Final = sources.Constant(warnings)


@record
class Touched:
    """A list that grows when text is written.

    Args:
        object: the list.
        source: where it was found.
    """

    object: list[Any] = field(compare=False)
    source: Source


def refuse_output(what: str) -> GraphBreak:
    """The break for text that has to be written at this very point."""
    return GraphBreak(breaks.OUTPUT, what)


def is_stream_class(cls: type) -> bool:
    """True for a class of text streams that only write."""
    if not derives_from(cls, _TextIOBase):
        return False
    if type(lookup(cls, "write")) is types.MethodDescriptorType:
        return True
    return (namespace(cls).get("__module__"), qualified_name(cls)) in _KNOWN_STREAMS


def rely_on_standard_streams(machine: Machine, what: str) -> None:
    """Guard the classes of `sys.stdout` and `sys.stderr`.

    Raises:
        GraphBreak: the captured code itself replaced one, or it is no plain text stream: what
            writing to it does is not known.
    """
    for name in ("stdout", "stderr"):
        if machine.module_write(sys, name) is not None:
            raise refuse_output(f"{what} where sys.{name} was replaced")
        _rely_on_stream(machine, getattr(sys, name), Attribute(sources.Constant(sys), name), what)


def _rely_on_stream(machine: Machine, stream: Any, place: Source, what: str) -> None:
    if stream is not None and not is_stream_class(type(stream)):
        raise refuse_output(f"{what} to an object that is no plain stream")
    machine.recorder.guard(place, Kind.TYPE_IS, type(stream), _REASON)


# -- warnings ------------------------------------------------------------------------------------

#: What `warnings` itself writes with: known from its own module, whatever replaces it later.
_SHOW: Final = getattr(warnings, "_showwarning_orig", None)
_IMPLEMENTATION: Final = "_showwarnmsg_impl"


def rely_on_warnings(machine: Machine) -> tuple[Touched, ...]:
    """Guard how warnings are written; the list that records them, if one does.

    Raises:
        GraphBreak: by a function of the user's.
    """
    rely_on_standard_streams(machine, "warnings.warn()")
    if _SHOW is None or warnings.showwarning is not _SHOW:
        raise refuse_output("warnings.warn() where warnings.showwarning was replaced")
    machine.recorder.guard(Attribute(_WARNINGS, "showwarning"), Kind.IDENTITY, _SHOW, _REASON)
    writer = vars(warnings).get(_IMPLEMENTATION)
    place = Attribute(_WARNINGS, _IMPLEMENTATION)
    if isinstance(writer, types.FunctionType) and writer.__globals__ is _SHOW.__globals__:
        machine.recorder.guard(place, Kind.IDENTITY, writer, _REASON)
        return ()
    recorded = getattr(writer, "__self__", None)
    if type(writer) is not types.BuiltinMethodType or type(recorded) is not list:
        raise refuse_output("warnings.warn() where what writes warnings was replaced")
    machine.recorder.guard(place, Kind.TYPE_IS, types.BuiltinMethodType, _REASON)
    return (Touched(recorded, sources.MethodSelf(place)),)


# -- logging -------------------------------------------------------------------------------------


def rely_on_logger(machine: Machine, logger: logging.Logger, place: Source) -> tuple[Touched, ...]:
    """Guard the handlers and filters that records of `logger` meet; the lists they grow.

    Raises:
        GraphBreak: one of them is the user's own.
    """
    if logging.getLogRecordFactory() is not logging.LogRecord:
        raise refuse_output("logging where the class of records was replaced")
    rely_on_standard_streams(machine, "logging")
    touched: list[Touched] = []
    current: logging.Logger | None = logger
    while current is not None:
        _rely_on_no_filters(machine, current, place)
        held = Attribute(place, "handlers")
        machine.recorder.guard(held, Kind.LENGTH, len(current.handlers), _REASON)
        for i, handler in enumerate(current.handlers):
            touched += _rely_on_handler(machine, handler, sources.Item(held, i))
        machine.recorder.guard(
            Attribute(place, "propagate"), Kind.EQUALS, current.propagate, _REASON
        )
        place = Attribute(place, "parent")
        current = current.parent if current.propagate else None
    return tuple(touched)


def _rely_on_no_filters(machine: Machine, owner: Any, place: Source) -> None:
    if owner.filters:
        raise refuse_output("logging through a filter")
    machine.recorder.guard(Attribute(place, "filters"), Kind.LENGTH, 0, _REASON)


def _rely_on_handler(machine: Machine, handler: logging.Handler, place: Source) -> list[Touched]:
    if type(handler).__module__ not in _KNOWN_HANDLERS or isinstance(handler, _HANDING_ON):
        raise refuse_output(f"logging by a handler of class {type(handler).__qualname__}")
    machine.recorder.guard(place, Kind.TYPE_IS, type(handler), _REASON)
    _rely_on_no_filters(machine, handler, place)
    formatter = handler.formatter
    if formatter is not None and type(formatter).__module__ not in _KNOWN_HANDLERS:
        raise refuse_output(f"logging by a formatter of class {type(formatter).__qualname__}")
    machine.recorder.guard(Attribute(place, "formatter"), Kind.TYPE_IS, type(formatter), _REASON)
    if "stream" in vars(handler):
        _rely_on_stream(machine, vars(handler)["stream"], Attribute(place, "stream"), "logging")
    records = vars(handler).get("records")
    if type(records) is not list:
        return []
    return [Touched(records, Attribute(place, "records"))]
