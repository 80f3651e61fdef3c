"""`types.SimpleNamespace`: attributes are read and written in graphs, the rest runs plainly."""

from types import SimpleNamespace

import pytest

from tests.support.python.harness import Compiler, case


def options(**changes):
    return SimpleNamespace(**{"scale": 2, "deep": SimpleNamespace(bias=3), **changes})


def read(box, n):
    return n * box.scale + box.deep.bias


def written(box, n):
    box.scale = n
    box.new = n + 1
    del box.deep
    return box.scale + box.new, hasattr(box, "deep"), box


def missing(box):
    return box.nothing


def asked(box):
    return bool(box), isinstance(box, SimpleNamespace), type(box) is SimpleNamespace, len(vars(box))


def default(box):
    return getattr(box, "nothing", 5), getattr(box, "scale", 5)


def equal(box, other):
    return box == other, box != other


def shown(box):
    return repr(box)


def hashed(box):
    return hash(box)


CASES = [
    case(read, options(), 4),
    case(written, options(), 4),
    case(missing, options()),
    case(asked, options()),
    case(default, options()),
    case(equal, options(), options(), breaks=2),
    case(equal, options(), options(scale=3), breaks=2),
    case(shown, options(), breaks=1),
    case(hashed, options(), breaks=1),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def test_a_changed_attribute_is_seen():
    compiled = Compiler().compile(read)
    box = options()

    assert 11 == compiled(box, 4)
    box.scale = 5
    assert 23 == compiled(box, 4)
    box.deep = SimpleNamespace(bias=0)
    assert 20 == compiled(box, 4)
    assert 15 == compiled(options(scale=3), 4)
