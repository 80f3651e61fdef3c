"""Exceptions as objects: raising, catching, chaining, text, state; without a break.

PYTEST_DONT_REWRITE: assertions of the programs under test are those of plain Python.
"""

# The programs under test are spelled as users spell them.

import sys

import pytest

from dynajit import eager
from tests.support.python.harness import case


class Plain(Exception):
    pass


class Coded(Exception):
    def __init__(self, code, *details):
        super().__init__(f"code {code}")
        self.code = code
        self.details = details

    def __str__(self):
        return f"<{self.code}:{self.args[0]}>"


class Quiet(ValueError):
    def __init__(self, value):
        self.value = value


class Shown(KeyError):
    kind = "shown"

    def __repr__(self):
        return "Shown!"

    @property
    def first(self):
        return self.args[0]


class Made(Exception):
    def __new__(cls, *args):
        made = super().__new__(cls, *args)
        made.made = True
        return made


class Not(Exception):
    def __new__(cls):
        return 3


class Bad(Exception):
    def __init__(self):
        return 3


class Odd(Exception):
    def __getattr__(self, name):
        return name + "!"


def raises(error=ValueError, *args):
    raise error(*args)


def caught_by_class(n):
    try:
        raise ValueError("bad", n)
    except (KeyError, ValueError) as error:
        return error.args, str(error), repr(error), type(error).__name__


def text_of_arguments():
    return [str(e) for e in (ValueError(), ValueError(1), ValueError("a"), ValueError("a", 2))]


def representation():
    return [repr(e) for e in (ValueError(), KeyError("k"), Plain("a", 2), Shown(1), Coded(3))]


def key_error_shows_the_key():
    return str(KeyError("k")), str(KeyError("a", "b")), str(KeyError()), f"{KeyError('q')}"


def own_init():
    try:
        raise Coded(7, "x", "y")
    except Coded as error:
        return error.code, error.details, error.args, str(error), error


def init_without_super():
    error = Quiet(5)
    return error.value, error.args, error


def own_new():
    return Made(1, 2).made, Made(1, 2).args, Made("x")


def new_gives_something_else():
    raise Not


def init_returns_something():
    raise Bad


def own_property():
    return Shown("a").first, Shown.kind, Shown("b")


def own_getattr():
    error = Odd("a")
    return error.colour, error.args, error.__cause__


def attributes_set_later():
    error = Plain("a")
    error.extra = [1]
    error.extra.append(2)
    error.args = ["b", "c"]
    return error, error.args, str(error), vars(error), hasattr(error, "other")


def deletes_attribute():
    error = Plain("a")
    error.extra = 1
    del error.extra
    return hasattr(error, "extra"), error


def leaves(n):
    raise Plain("left", n)


def leaves_from_inside(n):
    def inner(n):
        raise Coded(n)

    return inner(n + 1)


def leaves_after_effects(items):
    items.append(1)
    items[0] = "changed"
    raise KeyError("after", items)


def leaves_with_cause(n):
    try:
        raise ValueError(n)
    except ValueError as error:
        raise RuntimeError("wrapped") from error


def leaves_with_context(n):
    try:
        raise ValueError(n)
    except ValueError:
        raise RuntimeError("wrapped")


def leaves_from_none(n):
    try:
        raise ValueError(n)
    except ValueError:
        raise RuntimeError("wrapped") from None


def leaves_twice_wrapped(n):
    try:
        try:
            raise ValueError(n)
        except ValueError as error:
            raise KeyError("k") from error
    except KeyError as error:
        raise RuntimeError("outer") from error


def class_as_cause():
    raise ValueError("a") from KeyError


def reraises_bare(n):
    try:
        raise ValueError(n)
    except ValueError:
        raise


def reraises_by_name(n):
    try:
        raises(ValueError, n)
    except ValueError as error:
        raise error


def reraises_in_function(n):
    def again():
        raise

    try:
        raise ValueError(n)
    except ValueError:
        again()


def bare_raise_without_any():
    raise


def bare_raise_after_handler():
    try:
        raise ValueError
    except ValueError:
        pass
    raise


def cause_and_context():
    try:
        try:
            raise ValueError("inner")
        except ValueError as inner:
            raise KeyError("outer") from inner
    except KeyError as outer:
        return (
            outer.__cause__ is outer.__context__,
            outer.__suppress_context__,
            str(outer.__cause__),
            outer,
        )


def context_without_cause():
    try:
        try:
            1 / 0
        except ZeroDivisionError:
            {}["k"]
    except KeyError as error:
        return error.__context__, error.__cause__, error.__suppress_context__


def no_context():
    try:
        raise ValueError
    except ValueError as error:
        return error.__context__, error.__cause__


def context_of_handled_is_gone():
    try:
        raise ValueError("first")
    except ValueError:
        pass
    try:
        raise KeyError("second")
    except KeyError as error:
        return error.__context__


def sets_cause():
    error = ValueError("a")
    error.__cause__ = KeyError("b")
    error.__context__ = TypeError("c")
    return error.__suppress_context__, error


def sets_wrong_cause():
    ValueError().__cause__ = 3


def context_cycle_is_cut():
    try:
        raise ValueError("a")
    except ValueError as a:
        try:
            raise KeyError("b")
        except KeyError:
            try:
                raise a
            except ValueError as again:
                return again, again.__context__, again.__context__.__context__


def notes():
    error = ValueError("a")
    error.add_note("one")
    error.add_note("two")
    return error.__notes__, error, hasattr(ValueError(), "__notes__")


def wrong_note():
    ValueError().add_note(3)


def leaves_with_note():
    try:
        raise Plain("a")
    except Plain as error:
        error.add_note("seen")
        raise


def name_is_unbound_after_handler():
    try:
        raise ValueError
    except ValueError:
        pass
    return error


def stored_exception(items):
    try:
        raise ValueError("kept")
    except ValueError as error:
        items.append(error)
    return items[0].args


def returned_exception():
    try:
        raises(Plain, "r")
    except Plain as error:
        return error


def not_raised_exception():
    return ValueError("never raised")


def same_object_twice():
    error = ValueError("a")
    return [error, error]


def traceback_lines():
    try:
        raises()
    except ValueError as error:
        tb = error.__traceback__
        return tb is None, tb.tb_lineno, tb.tb_next.tb_lineno, tb.tb_next.tb_next, bool(tb)


def with_traceback():
    error = ValueError("a").with_traceback(None)
    return error, error.__traceback__


def traceback_removed():
    try:
        raise ValueError("a")
    except ValueError as error:
        error.__traceback__ = None
        return error


def finally_runs(log):
    try:
        log.append("try")
        raise ValueError("x")
    finally:
        log.append("finally")


def finally_returns(log):
    try:
        raise ValueError("x")
    finally:
        log.append("finally")
        return 5


def finally_replaces():
    try:
        raise ValueError("x")
    finally:
        raise KeyError("y")


def nested_finally(log):
    for i in range(3):
        try:
            try:
                if i == 1:
                    continue
                if i == 2:
                    break
                log.append(i)
            finally:
                log.append("inner")
        finally:
            log.append("outer")
    return log


def else_branch(n):
    try:
        value = 10 // n
    except ZeroDivisionError:
        return "zero"
    else:
        value += 1
    finally:
        n = 0
    return value, n


def return_in_try_with_finally(log):
    def inner():
        try:
            return log.append("value")
        finally:
            log.append("finally")

    inner()
    return log


def not_caught_goes_on():
    try:
        try:
            raise KeyError("k")
        except ValueError:
            return "wrong"
    except LookupError as error:
        return "lookup", error.args


def raised_in_handler():
    try:
        try:
            raise KeyError("k")
        except KeyError:
            raise ValueError("v")
    except ValueError as error:
        return str(error), repr(error.__context__)


def catching_no_class():
    try:
        1 / 0
    except 3:
        pass


def raising_no_exception():
    raise 3


def raising_no_exception_class():
    raise int


def wrong_cause():
    raise ValueError from 3


def keyword_for_exception():
    ValueError(a=1)


def assertion(n):
    assert n > 2, f"too small: {n}"
    return n


def assertion_without_text(n):
    assert n > 2
    return n


def system_exit(n):
    sys.exit(n)


def exit_code():
    return SystemExit().code, SystemExit(3).code, SystemExit(1, 2).code


def stop_iteration():
    return StopIteration(3).value, StopIteration().value, StopIteration(1, 2).args


def handled_now():
    before = sys.exc_info()
    try:
        raise ValueError("a")
    except ValueError as error:
        kind, value, _ = sys.exc_info()
        return before, kind, value is error


def os_error():
    error = OSError(2, "no such", "name")
    return type(error), error.errno, error.strerror, error.filename, str(error), error.args, error


def import_error():
    error = ImportError("text", name="n")
    return error.name, error.path, error.msg, str(error), error


def named_errors():
    return NameError("a", name="b").name, AttributeError("a", name="b", obj=3).obj


def unicode_error():
    error = UnicodeDecodeError("utf8", b"abc", 1, 2, "why")
    return error.start, error.reason, str(error), error


def division(a, b):
    return a / b


def division_is_caught(a, b):
    try:
        return a // b, a % b
    except ZeroDivisionError as error:
        return str(error)


def missing_key(d):
    return d["missing"]


def missing_index(items):
    return items[7]


def missing_attribute(n):
    return n.missing


def missing_attribute_caught(n):
    try:
        return n.missing
    except AttributeError as error:
        return str(error), error.name, error.obj == n


def missing_global():
    return not_defined_anywhere


def missing_global_caught():
    try:
        return not_defined_anywhere
    except NameError as error:
        return str(error), error.name


def unbound_local(n):
    if n:
        value = 1
    return value


def unbound_cell():
    def inner():
        return later

    found = inner()
    later = 1
    return found, later


def deleted_local():
    value = 1
    del value
    return value


def deleted_twice():
    value = 1
    del value
    del value


def not_callable(n):
    return n()


def wrong_operands(a, b):
    return a + b


def wrong_comparison(a, b):
    return a < b


def wrong_subscript(a, b):
    return a[b]


def wrong_unpacking(items):
    a, b = items
    return a, b


def wrong_star_unpacking(items):
    a, b, *c = items
    return a, b, c


def wrong_len(n):
    return len(n)


def wrong_iteration(n):
    return list(n)


def wrong_conversion(text):
    return int(text)


def f_two(a, b=1, *, c=2):
    return a, b, c


def f_positional_only(a, /, b):
    return a, b


def missing_argument():
    return f_two()


def too_many_arguments():
    return f_two(1, 2, 3)


def unexpected_keyword():
    return f_two(1, z=3)


def argument_twice():
    return f_two(1, a=3)


def positional_only_by_keyword():
    return f_positional_only(a=1, b=2)


def binding_error_is_caught():
    try:
        f_positional_only()
    except TypeError as error:
        return str(error)


def group():
    group = ExceptionGroup("many", [ValueError(1), KeyError("k")])
    return group, str(group), group.message, len(group.exceptions)


def group_handlers(log):
    try:
        raise ExceptionGroup("many", [ValueError(1), KeyError("k"), TypeError("t")])
    except* ValueError as part:
        log.append(("value", [str(e) for e in part.exceptions]))
    except* (KeyError, TypeError) as part:
        log.append(("other", len(part.exceptions)))
    return log


def group_rest_leaves():
    try:
        raise ExceptionGroup("many", [ValueError(1), KeyError("k")])
    except* ValueError:
        pass


def group_handler_raises():
    try:
        raise ExceptionGroup("many", [ValueError(1), KeyError("k")])
    except* ValueError:
        raise TypeError("new")


def plain_in_star_handler():
    try:
        raise ValueError(3)
    except* ValueError as group:
        found = group.exceptions[0].args
    return found


def group_methods():
    group = ExceptionGroup("a", [ValueError(1), ExceptionGroup("b", [KeyError(2), ValueError(3)])])
    match, rest = group.split(ValueError)
    return match, rest, group.subgroup(KeyError), group.subgroup(TypeError)


def wrong_group():
    return ExceptionGroup("a", [])


def exception_in_default(d):
    try:
        return d["a"]["b"]
    except KeyError as error:
        return error.args[0]


def exceptions_as_keys():
    a, b = ValueError("a"), ValueError("a")
    table = {a: 1, b: 2}
    return table[a], table[b], a == b, a == a, a in [b], len(table)


def isinstance_of_exceptions():
    error = Shown("a")
    return (
        isinstance(error, KeyError),
        isinstance(error, (ValueError, LookupError)),
        issubclass(Shown, Exception),
        isinstance(error, OSError),
    )


def exception_in_loop(items):
    found = []
    for item in items:
        try:
            found.append(10 // item)
        except ZeroDivisionError as error:
            found.append(str(error))
        except TypeError:
            found.append("type")
    return found


def exception_in_comprehension(items):
    try:
        return [10 // item for item in items]
    except ZeroDivisionError as error:
        return error.args


def exception_in_generator():
    def numbers():
        yield 1
        raise ValueError("inside")

    found = []
    try:
        for n in numbers():
            found.append(n)
    except ValueError as error:
        found.append(str(error))
    return found


def handler_in_generator():
    def numbers():
        try:
            raise ValueError("a")
        except ValueError:
            yield 1
            try:
                raise KeyError("b")
            except KeyError as error:
                yield repr(error.__context__)

    found = []
    for n in numbers():
        try:
            raise TypeError("c")
        except TypeError as error:
            found.append((n, error.__context__))
    return found


def suppressed_loop():
    total = 0
    for n in (3, 0, 1):
        try:
            total += 6 // n
        except ZeroDivisionError:
            continue
        finally:
            total += 100
    return total


CASES = [
    case(caught_by_class, 3), case(text_of_arguments), case(representation),
    case(key_error_shows_the_key), case(own_init), case(init_without_super), case(own_new),
    case(new_gives_something_else), case(init_returns_something), case(own_property),
    case(own_getattr), case(attributes_set_later), case(deletes_attribute), case(leaves, 1),
    case(leaves_from_inside, 1), case(leaves_after_effects, [0]), case(leaves_with_cause, 1),
    case(leaves_with_context, 1), case(leaves_from_none, 1), case(leaves_twice_wrapped, 1),
    case(class_as_cause), case(reraises_bare, 1), case(reraises_by_name, 1),
    case(reraises_in_function, 1), case(bare_raise_without_any), case(bare_raise_after_handler),
    case(cause_and_context), case(context_without_cause), case(no_context),
    case(context_of_handled_is_gone), case(sets_cause), case(sets_wrong_cause),
    case(context_cycle_is_cut), case(notes), case(wrong_note), case(leaves_with_note),
    case(name_is_unbound_after_handler), case(stored_exception, []), case(returned_exception),
    case(not_raised_exception), case(same_object_twice), case(traceback_lines),
    case(with_traceback), case(traceback_removed), case(finally_runs, []),
    case(finally_returns, []), case(finally_replaces), case(nested_finally, []),
    case(else_branch, 0), case(else_branch, 3), case(return_in_try_with_finally, []),
    case(not_caught_goes_on), case(raised_in_handler), case(catching_no_class),
    case(raising_no_exception), case(raising_no_exception_class), case(wrong_cause),
    case(keyword_for_exception), case(assertion, 1), case(assertion, 3),
    case(assertion_without_text, 1), case(system_exit, 3), case(exit_code), case(stop_iteration),
    case(handled_now), case(os_error), case(import_error), case(named_errors),
    case(unicode_error), case(division, 1, 0), case(division, 1.0, 0.0),
    case(division_is_caught, 1, 0), case(division_is_caught, 1.5, 0), case(missing_key, {"a": 1}),
    case(missing_index, [1]), case(missing_index, (1,)), case(missing_index, "a"),
    case(missing_attribute, 3), case(missing_attribute, "a"), case(missing_attribute, [1]),
    case(missing_attribute, None), case(missing_attribute, Plain),
    case(missing_attribute_caught, 3), case(missing_global), case(missing_global_caught),
    case(unbound_local, 0), case(unbound_local, 1), case(unbound_cell), case(deleted_local),
    case(deleted_twice), case(not_callable, 3), case(not_callable, [1]), case(not_callable, None),
    case(wrong_operands, 1, "a"), case(wrong_operands, "a", 1), case(wrong_operands, [1], 1),
    case(wrong_operands, None, 1), case(wrong_operands, {}, 1), case(wrong_comparison, 1, "a"),
    case(wrong_comparison, None, 1), case(wrong_comparison, [1], (1,)),
    case(wrong_subscript, [1], "a"), case(wrong_subscript, (1,), "a"), case(wrong_subscript, 3, 1),
    case(wrong_subscript, None, 1), case(wrong_unpacking, [1]), case(wrong_unpacking, [1, 2, 3]),
    case(wrong_unpacking, 3), case(wrong_star_unpacking, [1]), case(wrong_len, 3),
    case(wrong_iteration, 3), case(wrong_conversion, "a"), case(missing_argument),
    case(too_many_arguments), case(unexpected_keyword), case(argument_twice),
    case(positional_only_by_keyword), case(binding_error_is_caught), case(group),
    case(group_handlers, []), case(group_rest_leaves), case(group_handler_raises),
    case(plain_in_star_handler), case(group_methods), case(wrong_group),
    case(exception_in_default, {"a": {}}), case(exceptions_as_keys),
    case(isinstance_of_exceptions), case(exception_in_loop, [1, 0, 2]),
    case(exception_in_comprehension, [1, 0]), case(exception_in_generator),
    case(handler_in_generator), case(suppressed_loop),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def test_effects_of_tensors_happen_before_the_exception_leaves(x, assert_captured):
    def function(x, log):
        log.append(x + 1)
        try:
            raise KeyError(x * 2)
        finally:
            log.append("done")

    assert_captured(function, x, [])


def test_the_traceback_names_the_lines_of_the_user(compiler):
    def function(x):
        y = x + 1
        return [y, raises(Plain, "deep")]

    with pytest.raises(Plain) as found:
        compiler.compile(function)(eager.tensor([1.0]))
    lines = (
        [(entry.name, entry.line) for entry in found.traceback if entry.path == found.path]
        if (hasattr(found, "path"))
        else [(entry.frame.code.name, entry.lineno + 1) for entry in found.traceback[1:]]
    )
    first = function.__code__.co_firstlineno
    assert [("function", first + 2), ("raises", raises.__code__.co_firstlineno + 1)] == lines


def test_the_context_of_the_caller_is_kept(compiler):
    def function(n):
        raise KeyError(n)

    compiled = compiler.compile(function)
    for _ in range(2):
        try:
            raise ValueError("outer")
        except ValueError as outer:
            with pytest.raises(KeyError) as found:
                compiled(3)
            assert found.value.__context__ is outer


def test_a_caller_that_handles_an_exception_is_noticed(compiler):
    def function(n):
        try:
            raise KeyError(n)
        except KeyError as error:
            return error.__context__

    compiled = compiler.compile(function)
    assert compiled(3) is None
    try:
        raise ValueError("outer")
    except ValueError as outer:
        assert compiled(3) is outer
    assert compiled(3) is None
