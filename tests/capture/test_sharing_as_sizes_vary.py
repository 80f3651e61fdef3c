"""Whether a result shares memory with an argument does not depend on which version serves the call.

A size can decide whether `reshape`, `flatten` or `contiguous` copies: elements of a transposed
tensor lie row by row if a dim has one element. Random chains of views, a copy that may be none, and
a write: every call of a function compiled once, with sizes that vary, does to its argument and
returns what eager execution does, in values, strides and offsets.

`DYNAJIT_FUZZ_PROGRAMS=50` runs 50 times as many programs.
"""

import os
import random

import pytest

import dynajit as dj

VIEWS = {
    "transpose": lambda x: x.transpose(0, 1),
    "mT": lambda x: x.mT,
    "permute": lambda x: x.permute(*range(x.ndim - 1, -1, -1)),
    "every other row": lambda x: x[::2],
    "every other column": lambda x: x[:, ::2],
    "first row": lambda x: x[0:1],
    "further rows": lambda x: x[1:],
    "first column": lambda x: x[:, :1],
    "select": lambda x: x[:, 0],
    "narrow": lambda x: x.narrow(0, 0, x.shape[0]),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.squeeze(),
    "expand": lambda x: x[:1].expand(x.shape[0], *x.shape[1:]),
    "expand by a dim": lambda x: x.expand(2, *x.shape),
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(0, 1, 1),
    "chunk": lambda x: x.chunk(2)[0],
    "split": lambda x: x.split(1, 1)[0],
    "unbind": lambda x: x.unbind(0)[0],
    "detach": lambda x: x.detach(),
    "movedim": lambda x: x.movedim(-1, 0),
    "unflatten": lambda x: x.unflatten(0, (1, -1)),
    "to": lambda x: x.to(x.dtype),
}
MAY_COPY = {
    "reshape(-1)": lambda x: x.reshape(-1),
    "reshape to itself": lambda x: x.reshape(x.shape),
    "reshape to rows": lambda x: x.reshape(x.shape[0], -1),
    "reshape to sizes in reverse": lambda x: x.reshape(*reversed(x.shape)),
    "reshape_as": lambda x: x.reshape_as(x),
    "flatten": lambda x: x.flatten(),
    "flatten two": lambda x: x.flatten(0, 1),
    "ravel": lambda x: x.ravel(),
    "contiguous": lambda x: x.contiguous(),
    "contiguous, view": lambda x: x.contiguous().view(-1),
    "view": lambda x: x.view(-1),
}
ARGUMENTS = {
    "row by row": lambda a, b: dj.zeros(a, b),
    "transposed": lambda a, b: dj.zeros(b, a).t(),
    "columns apart": lambda a, b: dj.zeros(a, 2 * b)[:, ::2],
    "rows apart": lambda a, b: dj.zeros(2 * a, b)[::2],
    "part of wider rows": lambda a, b: dj.zeros(a, b + 3)[:, :b],
    "with an offset": lambda a, b: dj.zeros(a + 1, b)[1:],
    "expanded": lambda a, b: dj.zeros(1, b).expand(a, b),
    "three dims": lambda a, b: dj.zeros(a, 3, b),
    "three dims in reverse": lambda a, b: dj.zeros(b, 3, a).permute(2, 1, 0),
}
SIZES = ((4, 5), (7, 2), (3, 6), (2, 2), (6, 3), (1, 4), (5, 1))
PROGRAMS = 40 * int(os.environ.get("DYNAJIT_FUZZ_PROGRAMS", "1"))

pytestmark = pytest.mark.usefixtures("strict_programs")


def function_of(steps, end):
    """Views and copies of the argument, then: returned, written to at once, or after a break."""

    def run(x):
        y = x
        for step in steps:
            y = step(y)
        if end == "returned":
            return (y,)
        if end == "written after a break":
            dj.graph_break()
        y.add_(1)
        return x * 1, y * 1

    return run


def outcome(function, argument):
    """The results, what writes to them do to the argument, and how those that share it lie."""
    try:
        results = function(argument)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        return type(error)
    memory = argument.untyped_storage().data_ptr()
    told = []
    for result in results:
        if result.numel() == 0:
            continue
        steps = [step for step, size in zip(result.stride(), result.shape, strict=True) if size > 1]
        shares = result.untyped_storage().data_ptr() == memory
        told.append((steps, shares, result.storage_offset() if shares else 0))
        if result.is_contiguous():
            result.add_(10)
    return told, [result.tolist() for result in results], argument.tolist()


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_results_share_memory_as_in_eager_execution(seed):
    choose = random.Random(seed)
    names = [*choose.choices(list(VIEWS), k=choose.randint(0, 3)), choose.choice(list(MAY_COPY))]
    if choose.random() < 0.3:
        names += [choose.choice(list(VIEWS)), choose.choice(list(MAY_COPY))]
    end = choose.choice(("returned", "written", "written after a break"))
    kind = choose.choice(list(ARGUMENTS))
    function = function_of([{**VIEWS, **MAY_COPY}[name] for name in names], end)
    compiled = dj.compile(function, dynamic=choose.choice((None, None, True)), backend="numpy")

    for sizes in choose.sample(SIZES, 4):
        expected = outcome(function, ARGUMENTS[kind](*sizes))
        actual = outcome(compiled, ARGUMENTS[kind](*sizes))

        assert expected == actual, f"{names}, {end}, {kind}, sizes {sizes}"


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", MAY_COPY)
@pytest.mark.parametrize("kind", ["transposed", "columns apart", "expanded"])
def test_each_copy_that_may_be_none_is_one_in_the_same_calls(kind, name, dynamic):
    function = function_of([VIEWS["transpose"], MAY_COPY[name]], "written")
    compiled = dj.compile(function, dynamic=dynamic, backend="numpy")

    for sizes in SIZES:
        expected = outcome(function, ARGUMENTS[kind](*sizes))

        assert expected == outcome(compiled, ARGUMENTS[kind](*sizes)), f"sizes {sizes}"
