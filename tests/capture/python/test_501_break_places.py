"""A break anywhere in a statement: loops, handlers, comprehensions, expressions, generators.

Every function is compared with plain Python; counts of compilations say that a loop's body is
compiled once however often it breaks, and that nothing is kept alive by a break.
"""

# The programs under test are spelled as users spell them.

import gc
import sys
import weakref

import pytest

LOG = []


def opaque(value):
    """Breaks; gives its argument."""
    memoryview(b"abc")
    return value


def for_loop(x):
    total = x * 0
    for i in range(4):
        if i == 1:
            continue
        total = total + opaque(i)
        if i == 3:
            break
    else:
        total = total * 100
    return total, i


def while_loop(x):
    n = 0
    while opaque(n) < 3:
        x = x * 2
        n += 1
    else:
        n = -n
    return x, n


def nested_loops(x):
    for i in range(3):
        for j in range(i):
            x = x + opaque(j) * i
            if j:
                break
        else:
            x = x * opaque(2)
    return x


def loop_over_dict_and_zip(x):
    table = {"a": x, "b": x + 1}
    out = {}
    for (key, value), number in zip(table.items(), [1, 2], strict=False):
        out[key] = value * opaque(number)
    return out


def comprehensions(x):
    a = [x * opaque(i) for i in range(3) if opaque(i) != 1]
    b = {opaque(k): x + k for k in range(2)}
    c = {opaque(k) for k in range(3)}
    d = [[opaque(i) + j for j in range(2)] for i in range(2)]
    return a, b, sorted(c), d


def captured_comprehension_variable(x):
    i = "kept"
    functions = [lambda: opaque(i) for i in range(3)]
    y = x + opaque(1)
    return [f() for f in functions], i, y


def conditional_expressions(x):
    a = opaque(x) if opaque(1) else opaque(0)
    b = opaque(0) or opaque("b")
    c = opaque(1) and opaque(0) and opaque("never")
    d = not opaque(0)
    return a + 1, b, c, d, 0 < opaque(1) < opaque(2) != 5


def calls_and_texts(x):
    parts = [*opaque([1]), opaque(2), *opaque((3,))]
    table = {**opaque({"k": 1}), "m": opaque(2)}
    text = f"{opaque(1)!r:>{opaque(4)}}|{opaque('z')}"
    return x * max(*opaque([1, 2]), opaque(3), key=opaque(abs)), parts, table, text


def subscripts_and_unpacking(x):
    items = [1, 2, 3, 4]
    items[opaque(1)] = opaque(9)
    items[opaque(2) :] = opaque([7])
    del items[opaque(0)]
    a, (b, *c) = opaque(1), opaque((2, 3, 4))
    items[opaque(0)] += opaque(5)
    return items, a, b, c, x[opaque(0)], x[:, opaque(1)]


def try_except_else_finally(x):
    log = []
    for i in range(4):
        try:
            y = x / opaque(1)
            if i == 1:
                raise KeyError(opaque("k"))
            if i == 2:
                {}[opaque("missing")]
            if i == 3:
                continue
        except KeyError as error:
            log.append((opaque(str(error)), x * opaque(2)))
        else:
            log.append(y + opaque(1))
        finally:
            log.append(x - opaque(i))
    return log


def raise_again(x):
    try:
        try:
            raise ValueError("first")
        except ValueError:
            y = x * opaque(2)
            LOG.append(y)
            raise
    except ValueError as error:
        return x + 1, str(error), error.__context__


def raise_another(x):
    try:
        try:
            [][opaque(1)]
        except IndexError as error:
            LOG.append(x + opaque(1))
            raise KeyError("second") from error
    except KeyError as error:
        return x + 1, str(error.__cause__), type(error.__context__)


def current_exception(x):
    seen = [sys.exc_info()[0]]
    try:
        raise ValueError(1)
    except ValueError:
        seen.append(sys.exc_info()[0])
        y = x * opaque(3)
        seen.append(sys.exc_info()[0])
        try:
            raise KeyError(2)
        except KeyError:
            opaque(0)
            seen.append(sys.exc_info()[0])
        seen.append(sys.exc_info()[0])
    seen.append(sys.exc_info()[0])
    return y, seen


def return_in_handler(x):
    try:
        raise ValueError(opaque(1))
    except ValueError:
        return x * opaque(2)
    finally:
        LOG.append(opaque("finally"))


def generator_consumed(x):
    def numbers():
        try:
            yield x
            yield x * opaque(2)
            yield x + 3
        finally:
            LOG.append("closed")

    return [n + opaque(1) for n in numbers()]


def generator_half_consumed(x):
    def numbers():
        y = x * 2
        yield y
        yield y + 1
        yield y + 2

    g = numbers()
    first = next(g)
    second = next(g) * opaque(2)
    return first, second, list(g)


def generator_expression_half_consumed(x):
    g = (x * i for i in range(4))
    first = next(g)
    opaque(0)
    return first, list(g)


def generator_in_loop(x):
    def numbers(n):
        for i in range(n):
            yield x + i

    total = 0
    for value in numbers(3):
        total = total + value * opaque(2)
    return total


def generator_with_finally_abandoned(x):
    def numbers():
        try:
            yield x
            yield x + 1
        finally:
            LOG.append("finally")

    g = numbers()
    first = next(g)
    opaque(0)
    g.close()
    LOG.append("after")
    return first * 2


def yield_from(x):
    def inner():
        yield x
        yield x * 2

    def outside():
        yield from inner()
        yield x * 3

    g = outside()
    first = next(g)
    opaque(0)
    return first, [v + 1 for v in g]


def generator_escapes(x):
    def numbers():
        yield x
        yield x * 2

    g = numbers()
    first = next(g)
    return first + 1, list(map(type, [g])), next(g), list(g)


FUNCTIONS = [
    value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", "") == __name__ and name != "opaque"
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_break_at_this_place_changes_nothing(function, x, assert_captured):
    assert_captured(function, x, graphs=None, breaks=None)


def test_the_body_of_a_loop_is_compiled_once(x, compiler):
    def function(x):
        total, n = x * 0, 0
        for i in range(100):
            total = total + i
            memoryview(b"abc")
            n += 1
            total = total * 1
        return total, n

    total, n = compiler.compile(function)(x)
    assert 100 == n
    assert 4950.0 == float(total[0, 0])
    assert len(compiler.regions) <= 5


def test_a_loop_that_breaks_in_a_callee_is_compiled_once(x, compiler):
    def step(v, i):
        w = v + i
        memoryview(b"abc")
        return w * 1

    def function(x):
        for i in range(100):
            x = step(x, i)
        return x

    result = compiler.compile(function)(x)
    assert 4950.0 == float((result - x)[0, 0])
    assert len(compiler.regions) <= 8


def keeps_nothing(x, token):
    def inner(v, held):
        w = v * 2
        memoryview(b"abc")
        return w + 1, held

    cells = [token]
    try:
        result, held = inner(x, cells[0])
        memoryview(b"abc")
        if held is not token:
            raise ValueError(held)
    except ValueError:
        result = x
    return result


def test_a_break_keeps_no_object_alive(x, compiler):
    class Token:
        pass

    compiled = compiler.compile(keeps_nothing)
    for _ in range(3):
        token = Token()
        reference = weakref.ref(token)
        compiled(x, token)
        compiler.regions.clear()
        del token
        gc.collect()
        assert reference() is None


def test_ten_thousand_breaks_leak_nothing(x, compiler, blocks):
    compiled = compiler.compile(keeps_nothing)
    for _ in range(100):
        compiled(x, None)
    before = blocks()
    for _ in range(10_000):
        compiled(x, None)
    assert blocks() - before < 20


def test_exceptions_across_breaks_leak_nothing(x, compiler, blocks):
    def function(v):
        try:
            memoryview(5)
        except TypeError:
            held = v * 2
            memoryview(b"abc")
            del held
            raise

    compiled = compiler.compile(function)

    def run(count):
        for _ in range(count):
            with pytest.raises(TypeError):
                compiled(x)
        return blocks()

    run(50)
    before = run(10)
    assert run(2000) - before < 20
