"""Values that are others in every call: a few versions, then the place is left to Python."""

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

import dynajit as dj
from dynajit.capture import breaks
from dynajit.core.process import config

CALLS: Final = 100
#: Versions for single values, the one with a break, and what runs after it.
MOST_COMPILES: Final = 8

TABLE: Final = {f"k{i}": float(i) for i in range(CALLS)}


@dataclass
class Settings:
    """Made anew for every call."""

    name: str
    size: int = 3


class Thing:
    """Equal to itself alone."""


def named(number: int) -> Any:
    thing = Thing()
    thing.name = f"n{number}"  # type: ignore[attr-defined]
    thing.table = {f"n{number}": number}  # type: ignore[attr-defined]
    return thing


def keyed(number: int) -> Any:
    thing = Thing()
    return thing, {thing: number}


FORMS: Final[dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]]] = {
    "length of a text": (lambda x, s: x * len(s), lambda i: (f"s{i}",)),
    "text as a key": (lambda x, s: x * TABLE[s], lambda i: (f"k{i}",)),
    "text in the middle": (
        lambda x, s: (x * 2).sin() * (2 if s.endswith("0") else 3) + 1, lambda i: (f"s{i}",)),
    "text that is returned": (lambda x, s: (x * 2, f"step {s}"), lambda i: (str(i),)),
    "number in a text": (lambda x, i: (x * 2, f"step {i}"), lambda i: (i,)),
    "bytes": (lambda x, s: x * len(s), lambda i: (bytes(i),)),
    "attribute": (lambda x, c: x * c.size + len(c.name), lambda i: (Settings(f"n{i}", i),)),
    "attribute as a key": (lambda x, o: x * o.table[o.name], lambda i: (named(i),)),
    "object as a key": (lambda x, o: x * o[1][o[0]], lambda i: (keyed(i),)),
    "length of a list": (lambda x, items: x + len(items), lambda i: (list(range(i)),)),
    "sum of a list": (lambda x, items: x + sum(items), lambda i: (list(range(i)),)),
    "keys of a dict": (
        lambda x, d: x + sum(d.values()), lambda i: ({f"a{j}": j for j in range(i)},)),
    "number of arguments": (lambda x, *rest: x + sum(rest), lambda i: tuple(range(i))),
    "set": (lambda x, s: x * (3 in s), lambda i: (set(range(i % 9)),)),
    "int as a key": (lambda x, n: x * {k: 2 * k for k in range(CALLS)}[n], lambda i: (i,)),
    "complex number": (lambda x, n: x * abs(n), lambda i: (complex(i, 1),)),
    "function": (lambda x, f: f(x), lambda i: (lambda y: y * i,)),
    "partial": (lambda x, f: f(x), lambda i: (functools.partial(dj.mul, other=i),)),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_what_changes_in_every_call_costs_few_versions(
    name: str, compile_count: Callable[[], int]
) -> None:
    function, arguments = FORMS[name]
    compiled = dj.compile(function)
    for i in range(CALLS):
        x, given = dj.tensor([0.5, -1.25, 2.0]), arguments(i)
        assert repr(function(x, *given)) == repr(compiled(x, *given)), i

    assert compile_count() <= MOST_COMPILES


def test_the_report_says_what_was_left_to_python() -> None:
    compiled = dj.compile(lambda x, name: x * len(name))
    for i in range(10):
        compiled(dj.ones(2), "a" * i)

    (record,) = compiled.report().breaks
    assert f"{breaks.CHANGES.explanation}: name" in str(record)


def test_versions_that_were_made_are_still_used() -> None:
    compiled = dj.compile(lambda x, name: x * len(name))
    names = ["a" * i for i in range(10)]
    for name in names:
        compiled(dj.ones(2), name)
    before = compiled.report()
    for name in names:
        assert [float(len(name))] * 2 == compiled(dj.ones(2), name).tolist()
    after = compiled.report()

    assert before.recompile_count == after.recompile_count and before.graphs == after.graphs
    assert [part.hits + len(names) for part in before.parts] == [p.hits for p in after.parts]
    assert sum(part.hits for part in after.parts) == after.hits


def test_a_whole_graph_that_was_asked_for_stays_whole() -> None:
    """`fullgraph=True` is a promise: there, each value has its version, up to a limit."""
    compiled = dj.compile(lambda x, name: x * len(name), fullgraph=True)
    with config.override(recompile_limit=12):
        for i in range(12):
            assert [float(i)] * 2 == compiled(dj.ones(2), "a" * i).tolist()
        with pytest.warns(RuntimeWarning, match="runs as plain Python where no version fits.*name"):
            for i in range(12, 30):
                assert [float(i)] * 2 == compiled(dj.ones(2), "a" * i).tolist()

    assert 12 == compiled.report().graphs


def test_what_was_left_to_python_is_forgotten_with_the_versions() -> None:
    function = dj.compile(lambda x, name: x * len(name))
    for i in range(10):
        function(dj.ones(2), "a" * i)
    dj.reset()
    function(dj.ones(2), "new")

    assert 0 == len(function.report().breaks)


def test_sizes_that_the_code_forces_are_left_to_python_in_the_end(
    compiled_names: list[str],
) -> None:
    def function(x: Any, y: Any) -> Any:
        return x.sum() + sum(part * 2 for part in y.unbind(0))

    compiled = dj.compile(function)
    for i in range(2, 60):
        x, y = dj.ones(3), dj.arange(i).float()
        assert function(x, y).item() == compiled(x, y).item()

    own = [name for name in compiled_names if name.startswith(function.__qualname__)]
    assert len(own) <= 10, compiled_names


class Config:
    scale = 1.5


def test_a_report_names_the_guard_that_really_changed() -> None:
    """The version used last failed for what an older one knows."""
    settings = Config()
    settings.scale = 1.5

    def function(x: Any, flag: bool) -> Any:
        return x * len(str(settings.scale)) if flag else x - len(str(settings.scale))

    compiled = dj.compile(function)
    compiled(dj.ones(2), True)
    compiled(dj.ones(2), False)
    settings.scale = 2.25
    compiled(dj.ones(2), True)

    reasons = [str(entry) for entry in compiled.report().recompiles]
    assert "flag" in reasons[0]
    assert "scale" in reasons[1]


def test_a_place_that_is_gone_is_explained_by_what_led_elsewhere() -> None:
    compiled = dj.compile(lambda x, thing: x * thing.table[thing.name])
    compiled(dj.ones(2), named(1))
    compiled(dj.ones(2), named(2))

    (recompile,) = compiled.report().recompiles
    assert "thing.name" in str(recompile)


def test_modes_of_the_library_have_a_version_each_and_cost_no_break() -> None:
    """Five of them in turn; casts are not left to Python, which would cast, too."""
    modes: tuple[Callable[[], Any], ...] = (
        contextlib.nullcontext, lambda: dj.autocast("cpu", dj.bfloat16),
        lambda: dj.autocast("cpu", dj.float16), dj.no_grad,
        lambda: dj.autocast("cpu", dj.bfloat16, cache_enabled=False),
    )  # fmt: skip
    compiled = dj.compile(lambda x: x @ x + 1)
    x = dj.ones(4, 4)
    for _ in range(3):
        for mode in modes:
            with mode():
                assert compiled(x).dtype is (x @ x + 1).dtype

    report = compiled.report()
    assert (5, 10, 0) == (report.entries, report.hits, len(report.breaks))
    assert {"autocast", "grad mode"} == {found.place for found in report.changing}
