"""Numbers of Python's that data decide in turns of loops: counters, places, flags, in arms."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.end_to_end.loops.test_tested_loops import assert_same as assert_tensors_same
from tests.support.loops import loops_of

V = np.random.default_rng(0).standard_normal(60)
WITH_NAN = np.where(V > 1, np.nan, V)


def counted(v):
    count = 0
    for i in range(len(v)):
        if v[i] > 0:
            count += 1
    return count


def place_of_the_largest(v):
    best, place = v[0] * 1, 0
    for i in range(1, len(v)):
        if v[i] > best:
            best, place = v[i] * 1, i
    return best, place


def flags(v):
    found, last, n = False, -1, 0
    for i in range(len(v)):
        if v[i] > 0.5 and not found:
            found, n = True, n + 1
        elif v[i] < -1:
            last = i
            n -= 2
    return found, last, n


def in_nests(v):
    count = 0
    for i in range(30):
        for j in range(40):
            if v[i] + v[j] > 0:
                count += 1
    return count


def collected_in_nests(v):
    total, each = 0, []
    for i in range(30):
        count = 0
        for j in range(40):
            if v[i] + v[j] > 0:
                count += 1
        each.append(count)
        total += count
    return total, each


def squares(v):
    count, seen = 1, []
    for i in range(len(v)):
        if v[i] > 0:
            count = count + 1
        seen.append(count * count)
    return count, seen, count * count - 1


def turns_and_arms(v):
    turns, above, v = 0, 0, v + 0.0
    while abs(v).max() > 1e-3:
        v = v * 0.7
        if v[0] > 0.01:
            above += 1
        turns += 1
    return v, turns, above


def until_enough(v):
    count = 0
    for i in range(len(v)):
        if v[i] > 0:
            count += 1
        if count >= 5:
            break
    return count, i


def steps(v):
    step, x = 0.5, v[0] * 1
    for _ in range(40):
        step = 0.25 if x > 0.1 else step * 0.5
        x = x - 0.01 * step
    return x, step


def mean_of_those_above(v):
    count, total = 0, v[0] * 0
    for i in range(len(v)):
        if v[i] > 0:
            count += 1
            total = total + v[i] * count
    return total / count, count * total, total - count, count + total, v * count, v / count


def collatz(n):
    n, count = n * 1, 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    return count


def moved_back_and_forth(v):
    place = 30
    for i in range(len(v)):
        if v[i] > 0:
            place = place - 3
        elif v[i] < -1:
            place = 2 * 30 - i
        else:
            place = place + 1
    return place


PROGRAMS = [
    (counted, V), (counted, WITH_NAN), (counted, V - 9), (place_of_the_largest, V),
    (place_of_the_largest, WITH_NAN), (flags, V), (flags, V - 9), (in_nests, V),
    (collected_in_nests, V), (squares, V), (turns_and_arms, V), (turns_and_arms, V * 0),
    (until_enough, V), (until_enough, V - 9), (steps, V), (mean_of_those_above, V),
    (mean_of_those_above, V.astype(np.float32)), (moved_back_and_forth, V),
]  # fmt: skip


def assert_same(expected: Any, found: Any) -> None:
    """Equal in values, classes, dtypes and strides; also in bits, where they are no sums."""
    if isinstance(expected, (np.ndarray, np.generic)):
        assert (type(expected), expected.dtype) == (type(found), found.dtype)
        assert expected.strides == found.strides
        np.testing.assert_allclose(found, expected, rtol=1e-12 if expected.itemsize > 4 else 1e-6)
    elif isinstance(expected, (tuple, list)):
        assert (type(expected), len(expected)) == (type(found), len(found))
        for a, b in zip(expected, found, strict=True):
            assert_same(a, b)
    else:
        assert_tensors_same(expected, found)


@pytest.mark.parametrize(("function", "v"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_numbers_that_arms_change_are_pythons(function, v) -> None:
    """Of arrays, and of tensors; called twice, and in one graph."""
    compiled = dj.compile(function, fullgraph=True)
    expected = function(v)
    assert_same(expected, compiled(v))
    assert_same(expected, compiled(v))
    x = dj.tensor(v)
    expected = function(x)
    compiled = dj.compile(function, fullgraph=True)
    assert_same(expected, compiled(x))
    assert_same(expected, compiled(x))


def test_a_count_of_integers_is_pythons() -> None:
    for n in (1, 2, 27, 97):
        assert_same(collatz(np.int64(n)), dj.compile(collatz)(np.int64(n)))


def doubled(v):
    count = 1
    for i in range(len(v)):
        if v[i] > -9:
            count = count * 2
    return count


def powers(v):
    count, seen = 3, []
    for i in range(len(v)):
        if v[i] > -9:
            count = count + 1000
        seen.append(count * count * count * count * count * count * count)
    return seen


def from_a_large_one(v):
    count = (1 << 62) + 5
    for i in range(len(v)):
        if v[i] > -9:
            count += 1 << 60
    return count


def added_up(v):
    a, b = 0, 1
    for i in range(len(v)):
        if v[i] > -9:
            a, b = b, a + b
    return a, b


@pytest.mark.parametrize("function", [doubled, powers, from_a_large_one, added_up])
def test_ints_have_no_end(function) -> None:
    """Where they may not fit an int64 the graph ends."""
    v = np.concatenate([V, V, V])
    expected = function(v)
    assert expected == dj.compile(function)(v)


def test_a_counter_of_arms_hands_gradients_on() -> None:
    def function(x):
        count, total = 0, x[0] * 0
        for i in range(20):
            if x[i] > 0:
                count += 1
                total = total + x[i] * 2
            else:
                total = total * 0.5 + x[i]
        return total / (count + 1), count

    gradients, counts = [], []
    for call in (function, dj.compile(function, fullgraph=True)):
        x = dj.tensor(V[:20]).requires_grad_()
        value, count = call(x)
        value.backward()
        gradients.append(x.grad.numpy())
        counts.append(count)
    np.testing.assert_allclose(gradients[1], gradients[0])
    assert counts[0] == counts[1] and type(counts[1]) is int


# ---------------------------------------------------------------------------------------------
# numbers that turns ask of tensors


def total_of(x):
    total, peak = 0.0, 0
    for i in range(30):
        x = x * 0.9 + i
        total += x.max().item() * 2
        peak += (x > 5).sum().item()
    return x, total, peak


def in_every_form(x):
    seen = []
    for i in range(30):
        x = x * 0.9 + i
        one = x.max()
        seen.append((one.item(), float(one), float(x[2]), int(x.argmax()), (one > 3).item()))
        seen.append(x[:1].item() - 1)
        seen.append((int(x.argmax().item()), float(one.item()), float(int(x.argmax()))))
        seen.append((int((one > 3).item()), float((one > 3).item())))
    return seen


def stops_early(x):
    before = float("inf")
    for i in range(60):  # noqa: B007
        x = 0.5 * (x + 2 / x)
        error = (x * x - 2).max().item()
        if error < 1e-4:
            break
        before = error
    return x, i, before


def keeps_the_best(x):
    best, where = float("inf"), -1
    for i in range(40):
        x = x * 0.9 + 0.1
        value = (x[0] * (-1) ** i).item()
        if value < best:
            best, where = value, i
    return best, where


def decays(x):
    rate = 0.1
    for _ in range(40):
        x = x - rate * 2 * x
        if x.max().item() < 1:
            rate = rate * 0.5
    return x, rate


def until_small(x):
    error, k = 10.0, 0
    while error > 1e-3:
        x = x * 0.5
        error = float(x.max())
        k += 1
    return x, k, error


def while_an_item_is_large(x):
    x, k = x * 1, 0
    while x.max().item() > 1e-3:
        x = x * 0.5
        k += 1
    return x, k


def stores(x):
    kept, places = np.zeros(30), dj.zeros(30, dtype=dj.int64)
    single = dj.zeros(30)
    for i in range(30):
        x = x * 0.9
        kept[i] = x.max().item()
        single[i] = float(x[1])
        places[i] = x.argmax().item()
    return kept, single, places


def generates(x):
    table = dj.sin(dj.arange(49.0).reshape(7, 7) * x.max().detach())
    token, seen = 0, [0]
    for _ in range(30):
        token = table[token].argmax().item()
        seen.append(token)
    return seen


def asked_by_a_callee(x):
    def size(y):
        return y.max().item()

    total = 0.0
    for _ in range(30):
        x = x * 0.9
        total = total + size(x)
    return total


def of_small_classes(x):
    total = 0
    for i in range(30):
        total += (x * i).to(dj.int8)[0].item() + (x > i).to(dj.uint8)[1].item()
        total += (x[2] > i).item() and 1
    return total


def extremes(x):
    low, high, places = float("inf"), -1e9, 0
    for i in range(40):
        x = x * 0.9 + 0.01 * i
        low = min(low, x.min().item())
        high = max(x.max().item(), high, 0.25)
        places = max(places, int(x.argmax()))
    return low, high, places


def quotients(x):
    total = 0.0
    for _ in range(40):
        x = x * 0.99
        total += x.max().item() / x.min().item()
        total += (x > 0.9).sum().item() / (x > 0.2).sum().item()
    return total


POSITIVE = dj.tensor([0.5, 1.5, 1.25, 0.75, 1.0])
ASKED = [
    total_of, in_every_form, stops_early, keeps_the_best, decays, until_small,
    while_an_item_is_large, stores, generates, asked_by_a_callee, extremes, quotients,
]  # fmt: skip


@pytest.mark.parametrize("function", ASKED)
def test_numbers_that_turns_ask_for_are_computed_by_the_launch(function) -> None:
    """Plain Python's, of its classes; in one graph with a loop in it."""
    expected, compiled = function(POSITIVE), dj.compile(function, fullgraph=True)
    for _ in range(2):
        found = compiled(POSITIVE)
        assert_same_to_rounding(expected, found)
    assert str(dj.explain(function)(POSITIVE)).count("loop") > 0


def assert_same_to_rounding(expected: Any, found: Any) -> None:
    """Equal in classes; floats and elements to single precision."""
    assert type(expected) is type(found)
    if isinstance(expected, (list, tuple)):
        assert len(expected) == len(found)
        for a, b in zip(expected, found, strict=True):
            assert_same_to_rounding(a, b)
    elif isinstance(expected, (dj.Tensor, np.ndarray)):
        assert expected.dtype == found.dtype
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5)
    else:
        assert found == (pytest.approx(expected) if isinstance(expected, float) else expected)


def test_numbers_of_arrays_that_turns_ask_for_are_pythons() -> None:
    def function(x):
        total, places = 0.0, []
        for i in range(30):
            x = np.roll(x, 1) * 0.9
            total += float(x.max()) + x[1].item() + x[:1].item()
            places.append((int(x.argmax()), float(i)))
        return total, places

    x = POSITIVE.numpy().astype(np.float64)
    assert_same_to_rounding(function(x), dj.compile(function, fullgraph=True)(x))


def test_small_integers_and_truths_that_turns_ask_for_add_up() -> None:
    assert dj.compile(of_small_classes)(POSITIVE) == of_small_classes(POSITIVE)


def large(x):
    total, seen = 0, []
    for i in range(30):
        total = total + (x + i).max().item()
        seen.append((x * i).max().item())
    return total, seen


def of_another_dtype(x):
    seen, total = [], 0
    for i in range(30):
        one = x[i % 3]
        seen.append(one.item())
        total = total + one.item() * 0
    return seen, total


def truncated(x):
    total = 0
    for _ in range(30):
        x = x * 0.9
        total += int(x.max() * 100)
    return total


def unlike_turns(x):
    total = 0.0
    for i in range(30):
        for _ in range(i % 3):
            x = x * 0.9
        total += x.max().item()
        x = x[: 5 - (i == 15)]
    return x, total


def shown(x):
    text = ""
    for _ in range(30):
        x = x * 0.9
        text += f"{x.max().item():.3f} {x.argmax().item()} "
    return text


def sizes(x):
    total = 0
    for _ in range(30):
        n = int((x > 1).sum())
        total += sum(range(n)) + len(x[:n])
    return total


OTHERS = [
    dj.complex64, dj.complex128, dj.uint16, dj.uint64, dj.float8_e4m3fn, dj.bfloat16, dj.float16,
    dj.int8, dj.uint8, dj.bool,
]  # fmt: skip


@pytest.mark.parametrize(("function", "x"), [
    (large, dj.full((3,), (1 << 62) + 3, dtype=dj.int64)), (truncated, POSITIVE),
    *((of_another_dtype, dj.ones(3).to(dtype)) for dtype in OTHERS),
    (unlike_turns, POSITIVE), (shown, POSITIVE), (sizes, POSITIVE),
])  # fmt: skip
def test_what_the_launch_cannot_compute_of_asked_numbers_is_left_to_python(function, x) -> None:
    """Ints without an end, texts, sizes, and turns that are not alike."""
    compiled = dj.compile(function)
    expected = function(x)
    for _ in range(2):
        assert_same_to_rounding(expected, compiled(x))


def test_a_quotient_by_zero_raises_in_the_turn_in_which_python_raises() -> None:
    def function(x, log):
        total = 0.0
        for i in range(40):
            log.append(i)
            total += 1.0 / x.max().item()
            x = x - x if i == 20 else x
        return total

    logs = []
    for call in (function, dj.compile(function)):
        logs.append([])
        with pytest.raises(ZeroDivisionError, match="float division by zero"):
            call(POSITIVE, logs[-1])
    assert logs[0] == logs[1] and len(logs[0]) == 22


@pytest.mark.parametrize("x", [POSITIVE * float("nan"), POSITIVE * 0])
def test_extremes_of_asked_numbers_are_pythons(x) -> None:
    """Which look at NaN in their order."""
    found = dj.compile(extremes, fullgraph=True)(x)
    assert repr(found) == repr(extremes(x))


def test_a_number_that_a_turn_asks_for_passes_no_gradient() -> None:
    def function(x):
        total, value = 0.0, x[0] * 0
        for _ in range(20):
            scale = x.max().item()
            total += scale
            value = value + x[1] * x[1] * scale
        return value, total

    found = []
    for call in (function, dj.compile(function, fullgraph=True)):
        x = POSITIVE.clone().requires_grad_()
        value, total = call(x)
        value.backward()
        found.append((x.grad.numpy(), total))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-5)
    assert found[0][1] == pytest.approx(found[1][1])


def test_a_number_asked_outside_of_loops_ends_the_graph() -> None:
    report = dj.explain(lambda x: (x * 2).max().item() + 1)(POSITIVE)
    assert report.graph_break_count == 1


#: What takes a number beside tensors.
GIVEN = {
    "add": lambda x, y, z, t: dj.add(x, y, alpha=t),
    "add_": lambda x, y, z, t: x.add_(y, alpha=-t),
    "sub": lambda x, y, z, t: dj.sub(x, y, alpha=t),
    "sub_": lambda x, y, z, t: x.sub_(y, alpha=t),
    "mul": lambda x, y, z, t: dj.mul(x, 1 - t) + y.mul(t),
    "mul_": lambda x, y, z, t: x.mul_(1 - t),
    "div_": lambda x, y, z, t: x.div_(1 + t),
    "addcmul_": lambda x, y, z, t: x.addcmul_(y, z, value=t),
    "addcdiv_": lambda x, y, z, t: x.addcdiv_(y, z, value=-t),
    "lerp_": lambda x, y, z, t: x.lerp_(y, t),
    "a quotient": lambda x, y, z, t: x + t / z,
    "a power": lambda x, y, z, t: x + t**z,
}


@pytest.mark.parametrize("dtype", [dj.float32, dj.float64])
@pytest.mark.parametrize("shape", [(5,), (), (40, 3)])
@pytest.mark.parametrize("name", GIVEN)
def test_functions_take_numbers_that_the_launch_computes(name, shape, dtype) -> None:
    """To the last bit, in one loop, for all values."""
    given = GIVEN[name]

    def steps(x, y, z, t, n):
        x = x.clone()
        for _ in range(n):
            x = given(x, y, z, t)
            t = t * 0.9
        return x, t

    dj.manual_seed(0)
    tensors = [dj.rand(*shape, dtype=dtype) + 0.5 for _ in range(3)]
    assert loops_of(steps, *tensors, 0.1, 20) == 1
    compiled = dj.compile(steps, fullgraph=True)
    for first in (0.1, 0.2, 1.7):
        (expected, t), (found, other) = steps(*tensors, first, 20), compiled(*tensors, first, 20)
        assert dj.equal(expected, found)
        assert expected.dtype is found.dtype
        assert (t, type(t)) == (other, float)


def test_an_alpha_that_eager_execution_refuses_is_refused() -> None:
    def steps(x, t, n):
        for _ in range(n):
            x = dj.add(x, x, alpha=t)
            t = t * 0.9
        return x

    for function in (steps, dj.compile(steps)):
        with pytest.raises(RuntimeError, match="alpha"):
            function(dj.arange(4), 0.5, 20)


def test_a_number_in_two_variables_is_handed_on_in_both() -> None:
    def steps(x, t, n):
        last = t
        for _ in range(n):
            x = x * t + last
            t = t * 0.9
            last = t
        return x, t, last

    compiled = dj.compile(steps, fullgraph=True)
    x = dj.rand(4)
    for first in (0.3, 0.7):
        expected, found = steps(x, first, 20), compiled(x, first, 20)
        assert_tensors_same(expected[0], found[0])
        assert expected[1:] == found[1:]


def bounded(x, n):
    """A rate that one arm divides to, and that the other keeps from a division by zero."""
    for i in range(n):
        rate = 1.0 if i == 7 else 1 / (i - 7)
        x = x + rate
    return x, rate


def test_a_number_is_found_for_turns_in_which_python_runs_its_arm() -> None:
    compiled = dj.compile(bounded, fullgraph=True)
    x = dj.rand(4)
    for n in (6, 8, 9, 20, 30):
        expected, found = bounded(x, n), compiled(x, n)
        assert_tensors_same(expected[0], found[0])
        assert expected[1] == found[1]
    assert loops_of(bounded, x, 30) == 1


def test_ints_that_loops_within_turns_add_to_leave_the_outer_loop_whole() -> None:
    def run(x, n):
        steps, total = 0, 5
        for i in range(n):
            for j in range(15):
                x = x * 0.99 + j
                steps += 1
                for _ in range(9):
                    total -= i
                    x = x + total
        return x, steps, total

    compiled = dj.compile(run, fullgraph=True)
    expected, found = run(dj.ones(3), 12), compiled(dj.ones(3), 12)
    assert_tensors_same(expected[0], found[0])
    assert expected[1:] == found[1:]
    assert loops_of(run, dj.ones(3), 12) == loops_of(run, dj.ones(3), 40)


def test_an_int_that_loops_within_turns_double_ends_the_outer_loop() -> None:
    def run(x):
        number = 1
        for _ in range(12):
            for _ in range(15):
                x = x * 0.5 + number % 7
                number *= 2
        return x, number

    expected, found = run(dj.ones(3)), dj.compile(run)(dj.ones(3))
    assert_tensors_same(expected[0], found[0])
    assert expected[1] == found[1] == 2**180


@pytest.mark.parametrize("dtype", [dj.float64, dj.int64, dj.float32, dj.int32])
def test_a_number_that_was_asked_for_stays_when_the_tensor_is_written(dtype: Any) -> None:
    def run(x):
        x, total, last, seen = x.to(dtype) + 0, 0, 0, []
        for _ in range(20):
            last, number = x[3].item(), x[2].item()
            seen.append(number)
            x *= 2
            total += last
            x[2] = total
        return total, last, seen

    x = dj.arange(5)
    assert run(x) == dj.compile(run)(x)


def test_a_truth_that_was_asked_for_stays_when_the_tensor_is_written() -> None:
    def run(x):
        x, count = x > 1, 0
        for i in range(20):
            is_large = bool(x[i % 4])
            x.logical_not_()
            if is_large:
                count += 1
        return count

    assert run(dj.arange(4)) == dj.compile(run)(dj.arange(4))
