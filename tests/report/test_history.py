"""`fn.report()`: what keeps changing, how often, and what to do about it."""

import gc
import threading
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentRuntimeError
from dynajit.report.history import MOST_SHOWN


def powers(x: Any, n: Any) -> Any:
    y = x
    for _ in range(n):  # how often
        y = y * x
    return y


def test_recompiles_are_counted_by_what_changes() -> None:
    compiled = dj.compile(powers, backend="numpy", dynamic=False)
    for n in range(1, 5):
        compiled(dj.ones(2), n)
    compiled(dj.ones(2, dtype=dj.float64), 4)
    report = compiled.report()
    number, dtype = report.changing

    assert ("n", 3) == (number.place, number.count)
    assert ("x", 1) == (dtype.place, dtype.count)
    assert 4 == report.recompile_count == len(report.recompiles)
    assert number.milliseconds > 0
    text = str(report)
    assert "recompiled 3 times for n" in text
    assert "at last to 4" in text
    assert "Pass n as a tensor" in text
    assert "recompiled: " in text
    assert "convert x to one dtype before the call, such as x.to(dj.float32)" in text


@pytest.mark.parametrize(
    ("calls", "advice"),
    [
        (((dj.ones(2), 1), (dj.ones(3), 1)), "dj.mark_dynamic(x, dim)"),
        (((dj.ones(2), 1), (dj.ones(2, requires_grad=True), 1)), "calls with and without"),
        (((dj.ones(2, 2), 1), (dj.ones(2, 2).T, 1)), "x.contiguous()"),
    ],
)
def test_each_kind_of_change_has_its_advice(calls: Any, advice: str) -> None:
    compiled = dj.compile(powers, backend="numpy", dynamic=False)
    for call in calls:
        compiled(*call)

    (changing,) = compiled.report().changing
    assert advice in changing.advice


def test_the_same_place_of_several_parts_is_one_entry() -> None:
    """What is made in front of a break cannot be marked by the caller."""
    compiled = dj.compile(parts, backend="numpy", dynamic=False)
    for size in (1, 2, 3):
        compiled(dj.ones(size))
    found = {changing.place: changing for changing in compiled.report().changing}

    assert 2 == found["x"].count == found["y"].count
    assert "mark_dynamic(x" in found["x"].advice
    assert "remove the break" in found["y"].advice
    assert "from float32[1] to float32[2], ... at last to float32[3]" in str(found["x"])


def test_a_size_that_became_dynamic_needs_nothing() -> None:
    compiled = dj.compile(powers, backend="numpy")
    for size in (2, 3, 4):
        compiled(dj.ones(size), 1)

    (changing,) = compiled.report().changing
    assert changing.advice.startswith("nothing: the size is dynamic")


def parts(x: Any) -> Any:
    y = x * 2
    n = y.sum().item()
    return y + n


def test_the_parts_behind_a_break_count_in_the_hits() -> None:
    compiled = dj.compile(parts, backend="numpy")
    for _ in range(3):
        compiled(dj.ones(2))
    report = compiled.report()

    assert [3, 3] == [part.calls for part in report.parts]
    assert [2, 2] == [part.hits for part in report.parts]
    assert 4 == report.hits
    assert "resumed" in str(report)


def test_recompiles_are_counted_when_their_versions_are_gone() -> None:
    """Versions are dropped, counts are not, and the text stays short."""
    compiled = dj.compile(lambda x: x + 1, backend="numpy", dynamic=False)
    with dj.config.override(recompile_limit=5), pytest.warns(Warning, match="5 times"):
        for size in range(1, 41):
            compiled(dj.ones(size))
    report = compiled.report()

    assert 5 == report.entries == len(report.versions)
    assert 39 == report.recompile_count == report.changing[0].count
    assert 8 > len(str(report).splitlines())
    assert 200 > len(repr(report))


def test_long_lists_are_cut_in_the_text_alone() -> None:
    lines = [f"    x = x + x.sum().item() * {n}" for n in range(MOST_SHOWN + 5)]
    scope: dict[str, Any] = {}
    exec("\n".join(["def many(x):", *lines, "    return x"]), scope)
    compiled = dj.compile(scope["many"], backend="numpy")
    compiled(dj.ones(2))
    report = compiled.report()

    assert MOST_SHOWN + 5 == len(report.breaks)
    assert "and 5 breaks more" in str(report)


def test_a_report_outlives_its_function() -> None:
    """What was made stays; asking anew says what is wrong."""
    compiled = dj.compile(lambda x: x + 1, backend="numpy", name="gone")
    compiled(dj.ones(2))
    ask, report = compiled.report, compiled.report()
    del compiled
    gc.collect()

    assert 1 == report.calls
    with pytest.raises(ArgumentRuntimeError, match=r"gone\.report\(\): .* does not exist any more"):
        ask()


def test_reports_are_made_while_other_threads_call() -> None:
    compiled = dj.compile(powers, backend="numpy", dynamic=False)
    errors: list[BaseException] = []

    def call(first: int) -> None:
        try:
            for n in range(first, first + 5):
                compiled(dj.ones(2), n)
                assert str(compiled.report())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(5 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == errors
    assert 20 == compiled.report().calls


def test_a_compiled_function_shows_a_short_form_in_a_notebook() -> None:
    compiled = dj.compile(powers, backend="numpy")
    compiled(dj.ones(2), 2)

    assert "powers: 1 calls" in compiled._repr_html_()
    assert 100 > len(repr(compiled))


class Masked(dj.nn.Module):
    """Takes arguments by place and by name."""

    def forward(self, x: Any, mask: Any = None, *, scale: Any = 1.0) -> Any:
        return x * mask * scale


def test_arguments_of_a_module_are_called_by_their_names() -> None:
    """In guards, recompiles and graphs: not `args[0]`."""
    model = dj.compile(Masked(), backend="numpy", dynamic=False)
    model(dj.ones(2), dj.ones(2), scale=dj.ones(()))
    model(dj.ones(3), mask=dj.ones(3), scale=dj.ones(()))
    text = str(model.report())
    newest, oldest = model.guards()

    for guards in (newest, oldest):
        joined = "\n".join(guards)
        assert all(f"{name} is Tensor" in joined for name in ("x", "mask", "scale"))
    found = dj.explain(Masked(), backend="numpy")(dj.ones(2), dj.ones(2), scale=dj.ones(()))
    assert {"x", "mask", "scale"} == {node.name for node in found.graphs[0].inputs}
    assert "args[0]" not in text
