"""`profile` and `record_function`: what is recorded, when, and of whom."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj
from dynajit.commands import demo
from dynajit.core.errors import ArgumentError
from dynajit.core.process import _recorder
from dynajit.profiler import EventList, profile, record_function, schedule


def names(prof: profile) -> list[str]:
    """Of all events, in the order of their beginning."""
    return [event.name for event in prof.events()]


def by_name(prof: profile, name: str) -> Any:
    """The one event of a name."""
    (found,) = (event for event in prof.events() if event.name == name)
    return found


def training_step(compiled: bool) -> Callable[[], None]:
    """A step of the demo's second model, on a few images."""
    task = demo.TASKS[1]
    model = task.model()
    optimizer = task.optimizer(model.parameters())
    loss_of = dj.compile(demo.loss_of) if compiled else demo.loss_of
    images, targets = dj.randn(4, 8, 8), dj.tensor([1, 2, 3, 4])

    def step() -> None:
        optimizer.zero_grad()
        loss_of(model, images, targets).backward()
        optimizer.step()

    return step


@pytest.mark.parametrize("compiled", [False, True])
def test_self_times_add_up_to_the_time_of_the_block(compiled: bool) -> None:
    """A training step: rows or kernels, nodes of backward, and the Python time between."""
    step = training_step(compiled)
    step()
    with profile() as prof:
        step()

    assert prof.self_cpu_time_total == pytest.approx(prof.elapsed_s * 1e6, rel=1e-6)
    assert all(event.self_cpu_time_total >= -1e-6 for event in prof.events())
    total = sum(row.self_cpu_time_total for row in prof.key_averages())
    assert total == pytest.approx(prof.elapsed_s * 1e6, rel=1e-6)


def test_rows_and_nodes_of_eager_programs_are_events() -> None:
    """The rows of a formula lie in its node."""
    x = dj.randn(3, 4, requires_grad=True)
    with profile() as prof:
        (x * 2).sum().backward()

    assert ["mul", "sum", "SumBackward0", "MulBackward0"] == [
        name for name in names(prof) if name in ("mul", "sum") or name.endswith("Backward0")
    ][:4]
    formula = [event for event in prof.events() if event.name == "mul"][-1]
    assert "MulBackward0" == formula.cpu_parent.name


def test_kernels_of_compiled_functions_lie_in_their_native_call() -> None:
    """By the names that reports give them."""
    compiled = dj.compile(lambda x: (x @ x).relu().sum(), name="f")
    x = dj.randn(20, 20)
    compiled(x)
    kernels = [kernel.name for kernel in dj.explain(lambda x: (x @ x).relu().sum())(x).kernels]
    with profile() as prof:
        compiled(x)
        compiled(x)

    (call, again) = (event for event in prof.events() if event.name.endswith("/call"))
    assert kernels == [event.name.split("/")[1] for event in call.cpu_children]
    assert [e.name for e in call.cpu_children] == [e.name for e in again.cpu_children]


def test_symbolic_sizes_kernels_without_kernels_and_numpy_programs() -> None:
    """Every kind of program is a call."""
    dynamic = dj.compile(lambda x: (x + 1).sum(), dynamic=True)
    by_numpy = dj.compile(lambda x: (x + 1).sum(), backend="numpy")
    for compiled in (dynamic, by_numpy):
        compiled(dj.ones(5))
        with profile() as prof:
            compiled(dj.ones(5))

        assert 1 == sum(name.endswith("/call") for name in names(prof))


def test_a_compilation_is_one_event_and_its_rows_are_none_of_the_program() -> None:
    """What capture and passes call stays out."""
    x = dj.ones(4)

    @dj.compile
    def f(x: Any) -> Any:
        return x.exp() + 1

    with profile() as prof:
        f(x)

    assert ["compile test_a_compilation_is_one_event_and_its_rows_are_none_of_the_program."
            "<locals>.f"] == [n for n in names(prof) if n.startswith("compile")]  # fmt: skip
    assert "exp" not in names(prof)
    assert any(name.endswith("/call") for name in names(prof))


def test_nothing_is_recorded_after_the_block() -> None:
    """Nor kept, and rows run as before."""
    with profile() as prof:
        dj.ones(3).exp()
    count = len(prof.events())
    dj.ones(3).exp()

    assert count == len(prof.events())
    assert not _recorder.is_on()
    assert [] == [event for _, events in _recorder.events() for event in events]


def test_profiles_may_lie_in_each_other() -> None:
    """Each has what began in its own block."""
    x = dj.ones(3)
    with profile() as outer:
        x.exp()
        with profile() as inner:
            x.sin()
        x.cos()

    assert ["sin"] == names(inner)
    assert ["exp", "sin", "cos"] == names(outer)


def test_profiles_that_overlap_have_what_ran_in_their_own_time() -> None:
    """The first one ends within the second."""
    x = dj.ones(3)
    first, second = profile(), profile()
    first.start()
    x.exp()
    second.start()
    x.sin()
    first.stop()
    x.cos()
    second.stop()

    assert ["exp", "sin"] == names(first)
    assert ["sin", "cos"] == names(second)


def test_all_threads_are_recorded() -> None:
    """With their identifiers; events of one are never in those of another."""
    x = dj.ones(3)
    ran: list[int] = []

    def work() -> None:
        ran.append(threading.get_ident())
        with record_function("work"):
            x.exp()

    with profile() as prof, record_function("main"):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    works = [event for event in prof.events() if event.name == "work"]
    assert set(ran) <= {event.thread for event in works} | set(ran)
    assert 4 == len(works) and all(event.cpu_parent is None for event in works)
    assert ["exp"] * 4 == [event.cpu_children[0].name for event in works]


def test_an_error_ends_events_and_profile() -> None:
    """The events before it are there."""
    x = dj.ones(3)
    prof = profile()
    with pytest.raises(dj.core.errors.ShapeError), prof, record_function("part"):
        x.exp()
        x @ dj.ones(4)

    assert not _recorder.is_on()
    assert ["part", "exp"] == names(prof)[:2]
    assert by_name(prof, "exp").cpu_parent.name == "part"
    assert by_name(prof, "part").cpu_time_total > 0


def test_a_profile_that_is_stopped_within_a_block_cuts_it() -> None:
    """And the block ends later, without an effect."""
    prof = profile()
    prof.start()
    with record_function("part"):
        prof.stop()

    assert prof.self_cpu_time_total == pytest.approx(prof.elapsed_s * 1e6, rel=1e-6)
    assert ["part"] == names(prof)
    with profile() as after:
        pass
    assert [] == after.events()


def test_record_function_decorates_and_recurses() -> None:
    """Each call is an event in that of its caller."""

    @record_function("down")
    def down(n: int) -> None:
        if n:
            down(n - 1)

    with profile() as prof:
        down(2)

    assert ["down"] * 3 == names(prof)
    (average,) = (row for row in prof.key_averages() if row.key == "down")
    assert 3 == average.count
    assert average.cpu_time_total == pytest.approx(prof.events()[0].cpu_time_total)


def test_record_function_is_captured() -> None:
    """Compiled code runs without it, in one graph."""

    def f(x: Any) -> Any:
        with record_function("part"):
            y = x * 2
        return y + 1

    explanation = dj.explain(f)(dj.ones(3))
    compiled = dj.compile(f, fullgraph=True)

    assert (1, 0) == (explanation.graph_count, explanation.break_count)
    with profile() as prof:
        assert [3.0, 3.0, 3.0] == compiled(dj.ones(3)).tolist()
    assert "part" not in names(prof)


def test_record_function_wants_a_text() -> None:
    """Anything else is refused at once."""
    with pytest.raises(ArgumentError, match=r"record_function\(3\): expected a text"):
        record_function(3)  # type: ignore[arg-type]


def test_sizes_of_operands_are_recorded_where_asked_for() -> None:
    """And keep averages apart."""
    a, b = dj.ones(2, 3), dj.ones(3, 4)
    with profile(record_shapes=True) as prof:
        a @ b
        a @ b
        b.T @ dj.ones(3, 5)

    rows = [row for row in prof.key_averages(group_by_input_shape=True) if row.key == "matmul"]
    assert [(((2, 3), (3, 4)), 2), (((4, 3), (3, 5)), 1)] == [
        (row.input_shapes, row.count) for row in rows
    ]
    assert "[[2, 3], [3, 4]]" in prof.key_averages(group_by_input_shape=True).table()


def test_memory_is_what_was_taken_less_what_was_given_back() -> None:
    """Of arrays, and of the results of compiled programs."""
    x = dj.ones(1000, 100)
    compiled = dj.compile(lambda x: x * 2 + 1, name="f")
    compiled(x)
    with profile(profile_memory=True) as prof:
        with record_function("kept"):
            y = x.exp()
        with record_function("dropped"):
            x.sin()
        with record_function("compiled"):
            z = compiled(x)
        with record_function("given back"):
            del y

    size = 400_000
    assert size == by_name(prof, "exp").cpu_memory_usage
    assert size == by_name(prof, "kept").cpu_memory_usage
    assert 0 == by_name(prof, "dropped").cpu_memory_usage
    assert size == by_name(prof, "compiled").cpu_memory_usage
    assert -size == by_name(prof, "given back").cpu_memory_usage
    assert "390.62 KB" in prof.key_averages().table(sort_by="cpu_memory_usage")
    assert z.shape == x.shape


def test_stacks_show_the_programs_lines_alone() -> None:
    """The innermost first; kernels have those of their call."""
    x = dj.ones(3)

    def inner() -> Any:
        return dj.nn.functional.softmax(x, 0)

    with profile(with_stack=True) as prof:
        inner()

    frames = by_name(prof, "softmax").stack
    assert frames[0].endswith(": inner") and __file__ in frames[0]
    assert not any("dynajit/nn" in frame for frame in frames)
    (row,) = (r for r in prof.key_averages(group_by_stack_n=1) if r.key == "softmax")
    assert frames[:1] == row.stack


def test_steps_are_recorded_as_the_schedule_says() -> None:
    """Each round is given to the handler, with its own steps only."""
    rounds: list[list[str]] = []
    x = dj.ones(3)
    with profile(
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda prof: rounds.append(names(prof)),
    ) as prof:
        for _ in range(10):
            x.exp()
            prof.step()

    assert [
        ["ProfilerStep#2", "exp", "ProfilerStep#3", "exp"],
        ["ProfilerStep#6", "exp", "ProfilerStep#7", "exp"],
    ] == rounds


def test_a_profile_that_is_off_records_nothing() -> None:
    """PyTorch's older switch."""
    with profile(False) as prof:
        dj.ones(3).exp()

    assert 0 == len(prof.events()) and isinstance(prof.events(), EventList)


def test_a_watch_within_a_profile_sees_the_rows_too() -> None:
    """Counting operations and profiling go together."""
    counter = dj.utils.flop_counter.FlopCounterMode(display=False)
    x = dj.ones(4, 4)
    with profile() as prof, counter:
        x @ x

    assert 2 * 4**3 == counter.get_total_flops()
    assert "matmul" in names(prof)
