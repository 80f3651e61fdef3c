"""Exceptions whose classes keep fields in C, groups, tracebacks; `isinstance` by `__class__`."""

import errno
import traceback

import pytest

from tests.support.python.harness import case


class WithNew(OSError):
    def __new__(cls, message, other):
        made = super().__new__(cls, message)
        made.other = other
        return made


class WithInit(OSError):
    def __init__(self, message, bar):
        self.bar = bar
        super().__init__(message)


class InitThenNew(WithInit, WithNew):
    pass


class Alone(OSError):
    def __init__(self):
        pass


class Group(ExceptionGroup):
    def __new__(cls, message, members, unused):
        return super().__new__(cls, message, members)


FIELDS = (
    "errno", "strerror", "filename", "filename2", "msg", "name", "path", "encoding", "object",
    "start", "end", "reason", "lineno", "offset", "text", "bar", "other", "characters_written",
)  # fmt: skip


def shown(error):
    fields = {name: getattr(error, name) for name in FIELDS if hasattr(error, name)}
    return type(error).__name__, error.args, str(error), fields


def outcome(make, *args, **keywords):
    try:
        return shown(make(*args, **keywords))
    except Exception as error:
        return type(error).__name__, str(error)


def classes_derived_from_os_error():
    return (
        outcome(WithNew, "m", "o"), outcome(WithNew, "m", other="o"),
        outcome(WithInit, "m", bar=1), outcome(InitThenNew, "m", 2), outcome(Alone),
        outcome(OSError, errno.EEXIST, "x"), outcome(OSError, 1, "x", "f", 3, "g"),
        outcome(OSError, x=1),
    )  # fmt: skip


def unicode_and_syntax_errors():
    return (
        outcome(UnicodeDecodeError, "utf8", b"abc", 1, 2, "r"),
        outcome(UnicodeEncodeError, "utf8", b"abc", 1, 2, "r"),
        outcome(UnicodeDecodeError.__new__, UnicodeDecodeError),
        outcome(SyntaxError, "m", ("f", 1, 2, "t")), outcome(SyntaxError, "m", ["f", 1, 2, "t"]),
        outcome(SyntaxError, "m", ("f", 1)),
    )  # fmt: skip


def import_error_is_made_again():
    error = ImportError("m", name="n", path="p")
    before = shown(error)
    error.__init__()
    return before, shown(error)


def characters_written():
    found = []
    for count in range(6):
        error = BlockingIOError(*("a", "b", "c", "d", "e")[:count])
        try:
            found.append(error.characters_written)
        except AttributeError as missing:
            found.append(str(missing))
        try:
            del error.characters_written
        except AttributeError as missing:
            found.append(str(missing))
    error = BlockingIOError("a", "b", 3)
    found.append(error.characters_written)
    error.characters_written = 5
    found.append(error.characters_written)
    del error.characters_written
    return found, hasattr(error, "characters_written")


def fields_that_refuse():
    group = ExceptionGroup("m", [ValueError()])
    found = []
    for name, item in (
        ("message", "x"), ("exceptions", ()), ("__suppress_context__", 3), ("__cause__", 3),
        ("__traceback__", 3), ("args", 5),
    ):  # fmt: skip
        try:
            setattr(group, name, item)
        except (AttributeError, TypeError) as error:
            found.append(str(error))
        try:
            delattr(group, name)
        except (AttributeError, TypeError) as error:
            found.append(str(error))
    return found


def group_with_a_constructor_of_its_own():
    group = Group("m", [ValueError(1), KeyError(2)], 5)
    first, rest = group.split(ValueError)
    return group.args[2], type(first).__name__, type(rest).__name__, len(group.exceptions)


def divided(n):
    return 1 / n


def one_traceback():
    try:
        divided(0)
    except ZeroDivisionError as error:
        first, second = error.__traceback__, error.__traceback__
        return first is second, first == second, first.tb_next is second.tb_next
    return None


def traceback_goes_to_another_exception():
    try:
        divided(0)
    except ZeroDivisionError as error:
        trace = error.__traceback__
    other = ValueError().with_traceback(trace)
    return other.__traceback__ is trace, other.__traceback__.tb_next is trace.tb_next


def lines_of_frames():
    try:
        divided(0)
    except ZeroDivisionError as error:
        inner = error.__traceback__.tb_next
    return inner.tb_frame.f_lineno, inner.tb_lineno, inner.tb_frame.f_code.co_varnames


def text_of_a_traceback():
    try:
        divided(0)
    except ZeroDivisionError as error:
        return "".join(traceback.format_exception(error))
    return None


CLAIMS = []


class Claiming:
    @property
    def __class__(self):
        CLAIMS.append("asked")
        return int


class Refusing:
    @property
    def __class__(self):
        raise RuntimeError("no class")


class Hiding:
    @property
    def __class__(self):
        raise AttributeError("hidden")


def is_instance_by_claim():
    thing = Claiming()
    found = isinstance(thing, int), isinstance(thing, Claiming), isinstance(thing, (str, int))
    return found, isinstance(thing, str), isinstance(Hiding(), int), len(CLAIMS)


def is_instance_that_fails():
    return isinstance(Refusing(), int)


INNER = ExceptionGroup("inner", [TypeError(1), ValueError(2)])


def group_of_existing(member):
    made = []
    for cls in (ExceptionGroup, BaseExceptionGroup):
        try:
            group = cls("eg", [member])
        except (TypeError, ValueError) as error:
            made.append(str(error))
        else:
            made.append((type(group), group.exceptions[0] is member, repr(group)))
    return made


def group_of_other_sequences():
    found = []
    for members in ("ab", "", {1: 2}, range(2), 5):
        try:
            ExceptionGroup("eg", members)
        except (TypeError, ValueError) as error:
            found.append((type(error), str(error)))
    return found


def existing_members_are_handled(member):
    handled = []
    try:
        raise ExceptionGroup("eg", [ExceptionGroup("x", [member, TypeError()]), member])
    except* TypeError as error:
        handled.append([error.message, repr(error)])
    except* ValueError as error:
        handled.append([error.exceptions[1] is member, repr(error)])
    return handled


def existing_groups_are_handled():
    handled = []
    try:
        raise ExceptionGroup("eg", [INNER, KeyError(2)])
    except* TypeError as error:
        handled.append(repr(error))
    except* (KeyError, ValueError) as error:
        handled.append(repr(error))
    return handled


def existing_members_go_on(member):
    try:
        raise ExceptionGroup("eg", [member, KeyError(2)])
    except* KeyError:
        pass


CASES = [
    case(classes_derived_from_os_error),
    case(unicode_and_syntax_errors),
    case(import_error_is_made_again),
    case(characters_written),
    case(fields_that_refuse),
    case(group_with_a_constructor_of_its_own),
    case(group_of_existing, ValueError(3), breaks=None),
    case(group_of_existing, KeyboardInterrupt(), breaks=None),
    case(group_of_existing, 5, breaks=None),
    case(group_of_other_sequences, breaks=None),
    case(existing_members_are_handled, ValueError(3), breaks=None),
    case(existing_groups_are_handled, breaks=None),
    case(existing_members_go_on, ValueError(3), breaks=None),
    case(one_traceback),
    case(traceback_goes_to_another_exception),
    case(lines_of_frames, breaks=None),
    case(text_of_a_traceback, breaks=None),
    case(is_instance_by_claim),
    case(is_instance_that_fails),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_exception_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)
