"""Random programs behave compiled as they do plainly; `DYNAJIT_FUZZ_PROGRAMS` sets how many."""

import gc
import os

import pytest

import dynajit as dj
from tests.fuzz.comparing import Met, difference
from tests.fuzz.differential import Seen, calls, compare, compare_source, run
from tests.fuzz.leaks import grown, live
from tests.fuzz.preamble import HEADER
from tests.fuzz.programs import write
from tests.fuzz.shrink import shrink

#: The first program, and how many are compared; every FORCED-th is broken at every statement, too.
FIRST = 200_000
COUNT = int(os.environ.get("DYNAJIT_FUZZ_PROGRAMS", "40"))
FORCED = 8
#: Programs of one test.
BATCH = 10


@pytest.fixture(autouse=True)
def _strict():
    """Internal errors are raised, and no state stays behind."""
    with dj.config.override(strict=True):
        yield
    dj.reset()


def compared(seeds, forced=False):
    """What differs, for each program."""
    return [found for seed in seeds if (found := compare(seed, forced=forced)) is not None]


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_programs_are_as_in_plain_python(first):
    assert compared(range(first, min(first + BATCH, FIRST + COUNT))) == []


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH * FORCED))
def test_random_programs_broken_at_every_statement_are_as_in_plain_python(first):
    end = min(first + BATCH * FORCED, FIRST + COUNT)
    assert compared(range(first, end, FORCED), forced=True) == []


def test_a_seed_always_gives_the_same_program():
    assert write(FIRST) == write(FIRST)
    assert write(FIRST) != write(FIRST + 1)


def test_programs_leave_no_tensors_graphs_functions_and_classes_behind():
    def run_all():
        for seed in range(FIRST, FIRST + 6):
            compare(seed)
            dj.reset()
        return live()

    before = run_all()
    run_all()
    assert grown(before) == {}


@pytest.mark.parametrize(
    ("plain", "compiled", "found"),
    [
        ((5, 6), (6, 6), None),
        ((5, 6), (6, 5), "state[0]: 6 expected, found 5"),
        ((6, 6), (5, 6), "state[0]: 6 expected, found 5"),
    ],
)
def test_only_what_plain_python_leaves_to_the_collector_is_compared_after_it_ran(
    monkeypatch, plain, compiled, found
):
    def ended(source, seed, backend, forced=False, collected=False):
        return Seen((), [(plain if backend is None else compiled)[collected]], "")

    monkeypatch.setattr("tests.fuzz.differential.run", ended)
    assert compare_source("", 0) == found


def test_the_longer_name_of_a_compiled_node_may_begin_a_line_of_a_printed_tensor():
    plain, compiled = "tensor([1.], grad_fn=<Abs>)", "tensor([1.],\n       grad_fn=<Compiled>)"
    assert difference(plain, compiled, "", Met()) is None
    assert difference(plain, compiled.replace("1", "2"), "", Met()) is not None


@pytest.mark.parametrize(("collected", "enabled"), [(False, "True\n"), (True, "False\n")])
def test_the_collector_does_not_run_by_itself_where_its_moment_counts(collected, enabled):
    source = HEADER + "\nimport gc\n\ndef main(*passed, **named):\n    print(gc.isenabled())"

    assert run(source, 0, None, collected=collected).printed == enabled * len(calls(0))
    assert gc.isenabled()


def test_a_difference_is_shrunk_to_what_makes_it(monkeypatch):
    def found(source, *_):
        return "state: 1 expected, found 2" if "wrong" in source else None

    lines = [
        "def helper(t):", "    return t", "def main(x):", "    y = 1", "    if y:",
        "        for i in x:", "            wrong = i", "    return y",
    ]  # fmt: skip
    own = "\n".join(lines)
    monkeypatch.setattr("tests.fuzz.shrink.compare_source", found)
    small = shrink(own, 0, found(own), "numpy", False)
    assert small == "def main(x):\n    wrong = i"
