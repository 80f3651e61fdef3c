"""Class statements in captured functions: they break, and what is around them is as it was.

PYTEST_DONT_REWRITE: assertions of the programs under test are those of plain Python.
"""

# The programs under test are spelled as users spell them.

import pytest

import dynajit
from tests.support.python.harness import case

MADE = []


class Registering:
    def __init_subclass__(cls, tag=None, **rest):
        super().__init_subclass__(**rest)
        MADE.append((cls.__name__, tag))


class Named:
    def __set_name__(self, owner, name):
        MADE.append((owner.__name__, name))


class Final(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.called = True
        return made


class WithMeta(metaclass=Final):
    def __init__(self, n):
        self.n = n


class Finalized:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("gone")


class Mine:
    count = 0

    @classmethod
    def more(cls):
        cls.count += 1
        return cls.count


def plain(n):
    class Local:
        value = n

        def get(self):
            return self.value + n

    return Local().get()


def inherits(n):
    class Base:
        def who(self):
            return "base"

    class Child(Base):
        def who(self):
            return super().who() + str(n)

    return Child().who()


def hooks(n):
    class Local(Registering, tag=n):
        field = Named()

    return MADE[-2:], Local.__name__


def body_has_effects(log):
    class Local:
        log.append("body")
        squares = [i * i for i in range(3)]

    return Local.squares


def body_raises(log):
    log.append(1)

    class Local:
        raise ValueError("body")


def caught_around(log):
    try:

        class Local:
            log.append(undefined_name)
    except NameError as error:
        return str(error)


def new_class_each_time():
    def make():
        class Local:
            pass

        return Local

    return make() is make(), make().__qualname__


def exception_class(n):
    class Local(Exception):
        def __init__(self, code):
            super().__init__(code)
            self.code = code

    try:
        raise Local(n)
    except Local as error:
        return error.code


def made_by_type(n):
    Local = type("Local", (), {"n": n, "get": lambda self: self.n})
    return Local().get()


def with_metaclass(n):
    made = WithMeta(n)
    return made.n, made.called


def finalizer(log):
    thing = Finalized(log)
    log.append("made")
    del thing
    log.append("after")
    return log


def class_attribute_written():
    before = Mine.count
    Mine.more()
    Mine.more()
    return before, Mine.count


def around(log):
    before = sum(log) * 2
    log.append(before)

    class Local:
        pass

    log.append(len(log))
    return before + len(log)


CASES = [
    case(plain, 3, breaks=None), case(inherits, 3, breaks=None), case(hooks, 3, breaks=None),
    case(body_has_effects, [], breaks=None), case(body_raises, [], breaks=None),
    case(caught_around, [], breaks=None), case(new_class_each_time, breaks=None),
    case(exception_class, 3, breaks=None), case(made_by_type, 3, breaks=None),
    case(with_metaclass, 3, breaks=None), case(finalizer, [], breaks=None),
    case(class_attribute_written, breaks=None), case(around, [1, 2], breaks=None),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def test_the_code_around_a_class_statement_is_captured(x, compiler):
    def function(x):
        y = x + 1

        class Local:
            factor = 3

        return (y * Local.factor).sum()

    result = compiler.compile(function)(x)
    assert float(function(x)) == float(result)
    assert 2 == len(compiler.graphs)
    assert ["class_definition"] == [record.reason.name for record in compiler.breaks]


def test_a_class_statement_in_every_call_does_not_recompile_without_end(x, compiler):
    """The class is another one in each call: two versions, then the rest is plain Python."""

    def function(x):
        class Scale:
            def __init__(self, factor):
                self.factor = factor

            def of(self, value):
                return value * self.factor

        made = Scale(2)
        dynajit.graph_break()
        return made.of(x)

    compiled = compiler.compile(function)
    for _ in range(20):
        assert (x * 2).tolist() == compiled(x).tolist()
    assert 5 >= len(compiler.regions)


def test_classes_of_other_statements_have_versions_of_their_own(x, compiler):
    def make(number):
        if number == 0:

            class Local:
                def of(self, value):
                    return value + 0.0
        elif number == 1:

            class Local1:
                def of(self, value):
                    return value + 1.0

            Local = Local1
        else:

            class Local2:
                def of(self, value):
                    return value + 2.0

            Local = Local2
        return Local()

    objects = [make(number) for number in range(3)]
    compiled = compiler.compile(lambda made, x: made.of(x))
    for _ in range(3):
        for number, made in enumerate(objects):
            assert (x + float(number)).tolist() == compiled(made, x).tolist()
    assert 3 == len(compiler.regions)
