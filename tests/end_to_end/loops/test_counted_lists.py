"""What turns append and write out until a tensor ends the loop: one loop, plain Python's lists."""

import contextlib
import io
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.capture.execution import tested_loops
from tests.support.loops import loops_of

X = dj.arange(6.0) + 1
ARRAY = np.arange(6.0) + 1


class Holder:
    """A list that existed before."""

    def __init__(self) -> None:
        self.seen: list[Any] = [1, "two"]


def errors(x, least):
    x, seen = x * 1.0, []
    error = x.sum()
    while error > least:
        x = x * 0.7
        error = x.sum()
        seen.append(error)
    return x, seen


def made_in_front(x, least):
    x, path = x * 1.0, []
    while x.sum() > least:
        path.append(x)
        x = x * 0.7
    return x, path


def numbers(x, least):
    seen = []
    for i in range(500):
        x = x * 0.7
        error = x.sum()
        seen.append((i, error.item(), i * 0.5, "text", x))
        if error < least:
            break
    return x, seen, i


def with_others(x, least):
    first = x + 1
    seen = [first, "start"]
    y = x * 1.0
    while y.sum() > least:
        y = y * 0.7
        seen.append(y)
        seen.append(first)
    seen.append(y)
    seen += ["end", first]
    return seen, y, first


def delayed(x, least):
    a = b = None
    a, b = x * 1.0, x * 2.0
    path = []
    while a.sum() > least:
        b = a
        a = a * 0.7
        path.append(a)
    return path, a, b


def delayed_in_front(x, least):
    a, b = x * 1.0, x * 2.0
    path = []
    while a.sum() > least:
        path.append(a)
        b = a
        a = a * 0.7
    return path, a, b


def two_lists(x, least):
    x = x * 1.0
    old, new = [], []
    while x.sum() > least:
        old.append(x)
        x = x * 0.7
        new.append((x, x.sum()))
    return old, new, x


def attribute(x, least):
    holder = Holder()
    x = x * 1.0
    while x.sum() > least:
        x = x * 0.7
        holder.seen.append(x.sum().item())
    return holder.seen, x


def one_list_under_two_names(x, least):
    seen: list[Any] = []
    other = {"seen": seen}
    x = x * 1.0
    while x.sum() > least:
        x = x * 0.7
        other["seen"].append(x)
    return other, seen, seen is other["seen"]


def read_behind(x, least):
    x, seen = x * 1.0, []
    while x.sum() > least:
        x = x * 0.7
        seen.append(x)
    if not seen:
        return x
    return dj.stack(seen), len(seen), seen[-1], seen[0] is seen[-1], x is seen[-1]


def read_in_turns(x, least):
    x, seen = x * 1.0, [x.sum() + 1]
    while seen[-1] > least:
        x = x * 0.7
        seen.append(x.sum())
    return seen, len(seen)


def twice(x, least):
    x, seen = x * 1.0, []
    while x.sum() > least:
        x = x * 0.7
        seen.append(x)
    y = x + 3
    while y.sum() > least:
        y = y * 0.5
        seen.append(y)
    return seen, x, y


def changed_behind(x, least):
    x, seen = x * 1.0, []
    while x.sum() > least:
        x = x * 0.7
        seen.append(x)
    x.add_(1)
    return seen, x


def some_turns(x, least):
    x, seen, steps = x * 1.0, [], 0
    while x.sum() > least:
        x = x * 0.7
        steps += 1
        if steps % 2:
            seen.append(x)
    return seen, x, steps


def within_another(x, least):
    seen = []
    for k in range(12):
        y = x + k
        while y.sum() > least:
            y = y * 0.5
            seen.append(y.sum())
    return seen


def structures(x, least):
    x, seen = x * 1.0, []
    while x.sum() > least:
        x = x * 0.7
        seen.append({"x": x, "rows": [x.sum()]})
    return seen, x


def of_arrays(a, least):
    a, seen = a * 1.0, []
    while a.sum() > least:
        a = a * 0.7
        seen.append((a, a.max(), float(a[0])))
    return a, seen


def printed(x, least):
    for i in range(500):
        x = x * 0.7
        error = x.sum()
        print(f"{i}: {error.item():.3f}", x)
        if error < least:
            print("over")
            break
    return x


def printed_at_times(x, least):
    x, step = x * 1.0, 0
    while x.sum() > least:
        x = x * 0.7
        step += 1
        if step % 3 == 0:
            print("step", step, x[0].item())
    print(step)
    return x


def counts_a_list(x, least, seen):
    x = x * 1.0
    while x.sum() > least:
        seen.append(len(seen))
        x = x * 0.7
    return x


def asks_whether_a_list_is_empty(x, least, seen):
    x = x * 1.0
    while x.sum() > least:
        seen.append("further" if seen else "first")
        x = x * 0.7
    return x


def counts_a_list_in_later_turns(x, least, seen):
    for i in range(40):
        if i > 5:
            seen.append(len(seen))
        x = x * least
    return x


def counts_another_list(x, least, seen):
    x, other = x * 1.0, seen.copy()
    while x.sum() > least:
        seen.append(len(other))
        x = x * 0.7
    return x


def flat(value: Any) -> list[Any]:
    """What containers hold."""
    if isinstance(value, dict):
        return flat([*value.items()])
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


def assert_alike(found: Any, wanted: Any) -> None:
    """Alike in classes, values, and which of the objects are one."""
    mine, plain = flat(found), flat(wanted)
    assert repr(found).count("(") == repr(wanted).count("(")
    assert [type(leaf) for leaf in mine] == [type(leaf) for leaf in plain]
    for a, b in zip(mine, plain, strict=True):
        if isinstance(a, (dj.Tensor, np.ndarray)):
            assert a.shape == b.shape
            assert a.dtype == b.dtype
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5)
        elif isinstance(a, float):
            assert a == pytest.approx(b, rel=1e-5)
        else:
            assert a == b
    tensors = [n for n, leaf in enumerate(plain) if isinstance(leaf, (dj.Tensor, np.ndarray))]
    mine, plain = [mine[n] for n in tensors], [plain[n] for n in tensors]
    for place, (a, b) in enumerate(zip(mine, plain, strict=True)):
        assert [a is other for other in mine[:place]] == [b is other for other in plain[:place]]
        assert [np.shares_memory(np.asarray(a), np.asarray(c)) for c in mine[:place]] == [
            np.shares_memory(np.asarray(b), np.asarray(c)) for c in plain[:place]
        ]


ONE_LOOP = (
    errors, made_in_front, numbers, with_others, delayed, two_lists, attribute,
    one_list_under_two_names, read_behind, changed_behind,
)  # fmt: skip
OTHERS = (
    delayed_in_front, read_in_turns, twice, some_turns, within_another, structures,
)  # fmt: skip


@pytest.mark.parametrize("function", [*ONE_LOOP, *OTHERS])
@pytest.mark.parametrize("least", [100.0, 20.0, 14.0, 1.0, 1e-4])
def test_lists_are_plain_pythons(function: Any, least: float) -> None:
    """None, one, two, and many turns."""
    compiled = dj.compile(function)
    for _ in range(2):
        assert_alike(compiled(X, least), function(X, least))
    assert_alike(compiled(X + 1, least), function(X + 1, least))


@pytest.mark.parametrize("function", ONE_LOOP)
def test_turns_that_append_until_a_tensor_ends_them_are_a_loop(function: Any) -> None:
    assert loops_of(function, X, 1e-2) == 1


@pytest.mark.parametrize(
    "function",
    [
        counts_a_list, asks_whether_a_list_is_empty, counts_a_list_in_later_turns,
        counts_another_list,
    ],
)  # fmt: skip
@pytest.mark.parametrize("least", [100.0, 1.0])
def test_a_list_of_the_caller_that_turns_ask_about_is_plain_pythons(
    function: Any, least: float
) -> None:
    compiled = dj.compile(function)
    for before in ([], ["a"], []):
        plain, mine = list(before), list(before)
        assert_alike(compiled(X, least, mine), function(X, least, plain))
        assert mine == plain


@pytest.mark.parametrize("least", [100.0, 10.0, 1e-4])
def test_arrays_are_numpys(least: float) -> None:
    compiled = dj.compile(of_arrays)
    assert_alike(compiled(ARRAY, least), of_arrays(ARRAY, least))
    assert_alike(compiled(ARRAY + 1, least), of_arrays(ARRAY + 1, least))


@pytest.mark.parametrize("function", [printed, printed_at_times])
@pytest.mark.parametrize("least", [100.0, 10.0, 1e-4])
def test_turns_write_out_what_plain_python_does(function: Any, least: float) -> None:
    texts = []
    for each in (function, dj.compile(function)):
        with contextlib.redirect_stdout(io.StringIO()) as stream:
            each(X, least)
            each(X + 1, least)
        texts.append(stream.getvalue())
    assert texts[0] == texts[1]


def test_turns_that_write_out_until_a_tensor_ends_them_are_a_loop() -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        assert loops_of(printed, X, 1e-2) == 1


@pytest.mark.parametrize("function", [errors, printed, numbers])
def test_more_turns_than_there_is_room_for_are_run_plainly(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tested_loops, "MOST_KEPT", 2000)
    compiled = dj.compile(function)
    for least in (1.0, 1e-30, 1.0):
        texts, results = [], []
        for each in (function, compiled):
            with contextlib.redirect_stdout(io.StringIO()) as stream:
                results.append(each(X, least))
            texts.append(stream.getvalue())
        assert_alike(results[1], results[0])
        assert texts[0] == texts[1]


def test_losses_with_gradients_keep_them() -> None:
    def losses(w, least):
        seen = []
        loss = (w * w).sum()
        while loss > least:
            w = w * 0.5
            loss = (w * w).sum()
            seen.append(loss)
        return seen

    grads = []
    for each in (losses, dj.compile(losses)):
        w = X.clone().requires_grad_()
        seen = each(w, 1.0)
        sum(seen).backward()
        grads.append((len(seen), w.grad))
    assert grads[0][0] == grads[1][0]
    np.testing.assert_allclose(np.asarray(grads[0][1]), np.asarray(grads[1][1]), rtol=1e-6)


def test_memory_of_a_list_is_that_of_its_items() -> None:
    """Room for many turns is not room that the items keep."""
    seen = dj.compile(errors)(X, 1e-2)[1]
    assert all(np.asarray(item).base is None or np.asarray(item).base.nbytes < 100 for item in seen)
