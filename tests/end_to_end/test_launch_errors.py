"""An error that a kernel finds: everything before it has happened, nothing after it."""

import contextlib
import io
import traceback

import pytest

import dynajit as dj
from dynajit.core.errors import BoundsError, DivisionError

LOG = []


class Counter:
    calls = 0


def look_up(x, i):
    x.add_(1)
    LOG.append("before")
    Counter.calls += 1
    print("looking up")
    found = x[i]
    LOG.append("after")
    x.mul_(2)
    return found


def in_a_callee(x, i):
    LOG.append("outer")
    return look_up(x, i) + 1


def divide(x, i):
    x.sub_(1)
    LOG.append("before")
    quotient = dj.tensor([6, 6]) // i
    LOG.append("after")
    return quotient


def behind_a_break(x, i):
    x.add_(1)
    LOG.append("before")
    dj.graph_break()
    x.mul_(3)
    LOG.append("between")
    found = dj.nn.functional.embedding(i, x.reshape(3, 1))
    x.zero_()
    return found


def caught(x, i):
    x.add_(1)
    try:
        LOG.append("try")
        x.mul_(2)
        return x[i] + 1
    except IndexError:
        x.neg_()
        return "caught"
    finally:
        LOG.append("finally")


def with_a_cell(x, i):
    steps = []

    def step(by):
        steps.append(by)
        x.add_(by)

    step(1)
    step(2)
    LOG.append(steps)
    found = x[i]
    step(3)
    return found


def drawing(x, i):
    x.copy_(dj.rand(3))
    found = x[i]
    return found + dj.rand(2)


PROGRAMS = {
    "look up": look_up,
    "in a callee": in_a_callee,
    "divide": divide,
    "behind a break": behind_a_break,
    "caught": caught,
    "with a cell": with_a_cell,
    "drawing": drawing,
}


def outcome(function, index):
    """Everything that can be seen after a call."""
    LOG.clear()
    Counter.calls = 0
    dj.manual_seed(3)
    x = dj.tensor([1.0, 2.0, 3.0])
    lines: list = []
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        try:
            found = function(x, dj.tensor(index))
            found = found if isinstance(found, str) else found.tolist()
        except (BoundsError, DivisionError) as error:
            found = type(error), str(error), error.__context__
            own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == __file__]
            lines = [(f.name, f.lineno) for f in own[1:]]
    state = dj.get_rng_state().tolist()
    return found, x.tolist(), x._version, list(LOG), Counter.calls, text.getvalue(), lines, state


@pytest.mark.parametrize("backend", ["native", "numpy"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_state_at_an_error_is_that_of_plain_python(name: str, backend: str) -> None:
    """At first as a hit, then as a miss: an error does not spoil the entry."""
    good, bad = ([1, 2], [0, 3]) if name != "divide" else ([1, 2], [1, 0])
    function = PROGRAMS[name]
    expected = outcome(function, good), outcome(function, bad)
    compiled = dj.compile(function, backend=backend)

    for order in ((0, 1, 0), (1, 0, 1)):
        for which in order:
            assert outcome(compiled, (good, bad)[which]) == expected[which]
        dj.reset()


def test_code_that_begins_with_a_long_jump_can_run_plainly() -> None:
    """Its first instruction has a prefix: a resume function of a long function."""
    lines = [f"    total = total + {number} if total is None else x" for number in range(200)]
    text = "\n".join(["def long(x, i):", "    total = x", "    stop()", *lines, "    return x[i]"])
    namespace = {"stop": dj.graph_break}
    exec(text, namespace)
    compiled = dj.compile(namespace["long"], backend="numpy")

    for _ in range(2):
        with pytest.raises(BoundsError):
            compiled(dj.ones(3), dj.tensor([4]))
        assert compiled(dj.ones(3), dj.tensor([1])).tolist() == [1.0]


def index_read(x, i):
    x[i]
    return x + 1


def index_written(x, i):
    y = x.exp()
    y[i] = y[:2]
    return x + 1


def index_of_a_sum(x, i):
    x.exp().gather(0, i).sum()
    dj.graph_break()
    return x + 1


def index_of_an_embedding(x, i):
    dj.nn.functional.embedding(i, x.reshape(-1, 1))
    return x + 1


def quotient(x, i):
    i // (i - 1)
    return x + 1


def rest_of_a_number(x, i):
    7 % (i - 1)
    return x + 1


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize(
    "function",
    [index_read, index_written, index_of_a_sum, index_of_an_embedding, quotient, rest_of_a_number],
)
@pytest.mark.parametrize("needs_gradient", [False, True])
def test_the_error_of_a_result_that_nobody_reads_is_raised(function, backend, needs_gradient):
    compiled = dj.compile(function, backend=backend)
    x = dj.tensor([1.0, 2.0], requires_grad=needs_gradient)
    for index in ([0, 0], [1, 1], [2, 0], [3, 0], [0, 2]):
        i = dj.tensor(index)
        try:
            expected = function(x, i).tolist()
        except (IndexError, ZeroDivisionError) as error:
            with pytest.raises(type(error)):
                compiled(x, i)
        else:
            assert expected == compiled(x, i).tolist()


@pytest.mark.filterwarnings("ignore:.*runs on the NumPy backend")
@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_the_error_of_a_singular_matrix_can_be_caught(backend):
    def function(x):
        try:
            return dj.linalg.inv(x)
        except RuntimeError:
            return x - 1

    compiled = dj.compile(function, backend=backend)

    for matrix in (dj.eye(2), dj.zeros(2, 2), dj.eye(2) * 2):
        assert function(matrix).tolist() == compiled(matrix).tolist()
