"""Import statements in captured code find what plain Python finds, whatever happened between calls.

Every form of the statement meets every change of `sys.modules`, of packages and of `__import__`;
results and errors of each call are compared with those of the function as it is.
"""

import builtins
import importlib
import sys
import types

import pytest

import dynajit as dj

NAMES = ("pack", "pack.part", "pack.part.leaf", "other", "other.part")


def module(name, **attributes):
    made = types.ModuleType(name)
    vars(made).update(attributes)
    return made


def install(value):
    """A package, a package in it, and a module in that, with values that tell them apart."""
    leaf = module("pack.part.leaf", value=value * 100)
    part = module("pack.part", value=value * 10, leaf=leaf, __path__=[])
    pack = module("pack", value=value, part=part, __path__=[], scale=lambda x: x * value)
    sys.modules.update({"pack": pack, "pack.part": part, "pack.part.leaf": leaf})


@pytest.fixture(autouse=True)
def modules_of_the_test(monkeypatch):
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(builtins, "__import__", builtins.__import__)
    yield
    for name in NAMES:
        sys.modules.pop(name, None)


OTHER = module("other", value=1000, __path__=[])
OTHERS_PART = module("other.part", value=7)


# -- forms of the statement -----------------------------------------------------------------------


def plain(x):
    import pack

    return x * pack.value


def renamed(x):
    import pack as found

    return x * found.value


def dotted(x):
    import pack.part

    return x * pack.part.value


def dotted_and_renamed(x):
    import pack.part.leaf as found

    return x * found.value


def from_module(x):
    from pack import value

    return x * value


def submodule_from_package(x):
    from pack import part

    return x * part.value


def from_dotted(x):
    from pack.part import leaf

    return x * leaf.value


def function_from_module(x):
    from pack import scale

    return scale(x)


def by_import_module(x):
    return x * importlib.import_module("pack").value


def by_built_in(x):
    return x * __import__("pack").value


def by_look_up(x):
    return x * sys.modules["pack"].value


def not_used(x):
    import pack  # noqa: F401

    return x + 1


def in_a_callee(x):
    def value():
        import pack

        return pack.value

    return x * value()


def with_a_handler(x):
    try:
        from pack import part
    except ImportError:
        return x - 1
    return x * part.value


def after_a_write(x):
    sys.modules["pack"] = OTHER
    import pack

    return x * pack.value


RELATIVE = {"__package__": "pack", "__name__": "pack.here"}
exec(
    """
def relative(x):
    from . import part
    return x * part.value

def relative_from_module(x):
    from .part import value
    return x * value

def relative_from_package(x):
    from .part import leaf
    return x * leaf.value
""",
    RELATIVE,
)

FORMS = [
    plain,
    renamed,
    dotted,
    dotted_and_renamed,
    from_module,
    submodule_from_package,
    from_dotted,
    function_from_module,
    by_import_module,
    by_built_in,
    by_look_up,
    not_used,
    in_a_callee,
    with_a_handler,
    after_a_write,
    *(RELATIVE[name] for name in ("relative", "relative_from_module", "relative_from_package")),
]


# -- what happens between calls -------------------------------------------------------------------


def nothing():
    pass


def another_package():
    install(3)


def another_module_under_the_name():
    sys.modules["pack"] = OTHER


def all_deleted():
    for name in NAMES:
        sys.modules.pop(name, None)


def submodule_deleted():
    sys.modules.pop("pack.part", None)


def none_in_place():
    sys.modules["pack"] = None


def none_in_place_of_the_submodule():
    sys.modules["pack.part"] = None


def attribute_deleted():
    vars(sys.modules["pack"]).pop("part", None)


def no_module_in_place():
    sys.modules["pack"] = types.SimpleNamespace(value=5, part=types.SimpleNamespace(value=6))


def hooked():
    before = builtins.__import__

    def instead(name, *rest, **options):
        return OTHER if name.startswith("pack") else before(name, *rest, **options)

    builtins.__import__ = instead


def package_renamed():
    RELATIVE["__package__"] = "other"
    sys.modules.update({"other": OTHER, "other.part": OTHERS_PART})


CHANGES = [
    nothing,
    another_package,
    another_module_under_the_name,
    all_deleted,
    submodule_deleted,
    none_in_place,
    none_in_place_of_the_submodule,
    attribute_deleted,
    no_module_in_place,
    hooked,
    package_renamed,
]


def outcome(function):
    try:
        return function(dj.ones(1)).tolist()
    except Exception as error:
        return type(error), str(error)


def outcomes(function, change):
    """Of two calls, one after the change, and one when all is as before."""
    pythons = builtins.__import__
    vars(OTHER)["part"] = OTHERS_PART
    all_deleted()
    install(2)
    found = [outcome(function), outcome(function)]
    change()
    try:
        found.append(outcome(function))
    finally:
        builtins.__import__ = pythons
        RELATIVE["__package__"] = "pack"
    all_deleted()
    install(2)
    return [*found, outcome(function)]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_an_import_finds_what_plain_python_finds(form, change, strict_programs):
    assert outcomes(form, change) == outcomes(dj.compile(form), change)


@pytest.mark.parametrize("form", [plain, dotted, from_module, in_a_callee])
def test_modules_that_stay_are_part_of_the_graph(form, strict_programs):
    install(2)
    compiled = dj.compile(form, fullgraph=True)

    expected = form(dj.ones(1)).tolist()

    assert [expected] * 3 == [compiled(dj.ones(1)).tolist() for _ in range(3)]
    assert 2 == compiled.report().hits


def test_an_import_below_a_function_of_the_program_is_the_programs(monkeypatch, strict_programs):
    """A hook sees every import that compiled code makes, in order."""
    install(2)
    seen = []
    pythons = builtins.__import__

    def noting(name, *rest, **options):
        seen.append(name)
        return pythons(name, *rest, **options)

    compiled = dj.compile(plain)
    compiled(dj.ones(1))
    monkeypatch.setattr(builtins, "__import__", noting)
    compiled(dj.ones(1))
    del seen[:]
    compiled(dj.ones(1))

    assert ["pack"] == seen
