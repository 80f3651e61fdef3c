"""Bad input: a clear error or a stated fallback, the same in eager and compiled form."""

import functools
import os
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit import nn


@pytest.fixture
def raises_alike(outcome_of: Any) -> Callable[..., tuple[type, str]]:
    """`raises_alike(function, *args)`: plain and compiled raise the same; returns class, text."""

    def check(function: Callable[..., Any], *args: Any) -> tuple[type, str]:
        expected = outcome_of(function, *args)
        assert "error" == expected[0], expected
        compiled = dj.compile(function, backend="numpy")
        for _ in range(2):
            assert expected == outcome_of(compiled, *args)
        return expected[1], expected[2]

    return check


@pytest.fixture
def alike(outcome_of: Any, same: Any) -> Callable[..., Any]:
    """`alike(function, *args)`: plain and compiled return the same; returns it."""

    def check(function: Callable[..., Any], *args: Any) -> Any:
        expected = outcome_of(function, *args)
        compiled = dj.compile(function, backend="numpy")
        for _ in range(2):
            same(expected, outcome_of(compiled, *args), exact=False)
        return expected[1]

    return check


# -- wrong shapes, dtypes, devices -----------------------------------------------------------------

WRONG = {
    "add shapes": lambda: dj.ones(2, 3) + dj.ones(4),
    "matmul shapes": lambda: dj.ones(2, 3) @ dj.ones(4, 5),
    "matmul zero-dim": lambda: dj.ones(2) @ dj.tensor(1.0),
    "matmul dtypes": lambda: dj.ones(2, 2) @ dj.ones(2, 2, dtype=dj.float64),
    "linear": lambda: F.linear(dj.ones(2, 3), dj.ones(5, 4)),
    "cat": lambda: dj.cat([dj.ones(2, 3), dj.ones(2, 4)], dim=0),
    "cat nothing": lambda: dj.cat([]),
    "stack": lambda: dj.stack([dj.ones(2), dj.ones(3)]),
    "reshape": lambda: dj.ones(6).reshape(4, 2),
    "reshape two unknown": lambda: dj.ones(6).reshape(-1, -1),
    "view": lambda: dj.ones(2, 3).view(7),
    "view strides": lambda: dj.ones(2, 3).t().view(6),
    "expand": lambda: dj.ones(3).expand(2, 4),
    "squeeze dim": lambda: dj.ones(3).squeeze(4),
    "sum dim": lambda: dj.ones(3).sum(dim=1),
    "sum dim twice": lambda: dj.ones(3, 2).sum(dim=(0, 0)),
    "amax empty": lambda: dj.ones(0, 3).amax(dim=0),
    "argmax empty": lambda: dj.ones(0).argmax(),
    "permute": lambda: dj.ones(2, 3).permute(0, 0),
    "transpose": lambda: dj.ones(2, 3).transpose(0, 5),
    "index": lambda: dj.ones(3)[5],
    "index dims": lambda: dj.ones(3)[0, 0],
    "index dtype": lambda: dj.ones(3)[dj.tensor([0.5])],
    "index bounds": lambda: dj.ones(3)[dj.tensor([0, 7])],
    "index string": lambda: dj.ones(3)["a"],
    "mask shape": lambda: dj.ones(3)[dj.tensor([True, False])],
    "gather dtype": lambda: dj.ones(3, 3).gather(0, dj.ones(3, 3)),
    "gather bounds": lambda: dj.ones(3).gather(0, dj.tensor([4])),
    "embedding": lambda: F.embedding(dj.tensor([11]), dj.ones(10, 4)),
    "embedding dtype": lambda: F.embedding(dj.tensor([1.0]), dj.ones(10, 4)),
    "cross entropy": lambda: F.cross_entropy(dj.ones(2, 3), dj.tensor([0, 5])),
    "cross entropy batch": lambda: F.cross_entropy(dj.ones(2, 3), dj.tensor([0, 1, 2])),
    "layer norm": lambda: F.layer_norm(dj.ones(2, 3), (4,)),
    "dropout": lambda: F.dropout(dj.ones(3), p=1.5),
    "where": lambda: dj.where(dj.ones(3) > 0, dj.ones(3), dj.ones(4)),
    "where condition": lambda: dj.where(dj.ones(3), 1.0, 2.0),
    "add string": lambda: dj.ones(3) + "a",
    "add None": lambda: dj.ones(3) * None,
    "add list": lambda: dj.ones(3) + [1, 2, 3],  # noqa: RUF005
    "bit and of floats": lambda: dj.ones(3) & dj.ones(3),
    "negative of bool": lambda: -dj.tensor([True]),
    "subtract bools": lambda: dj.tensor([True]) - dj.tensor([False]),
    "integer division": lambda: dj.tensor([1, 2]) // 0,
    "truth": lambda: bool(dj.ones(3)),
    "item": lambda: dj.ones(3).item(),
    "device": lambda: dj.ones(3, device="cuda:99"),
    "device name": lambda: dj.ones(3, device="nowhere"),
    "dtype name": lambda: dj.ones(3, dtype="float32"),
    "no such method": lambda: dj.ones(3).no_such_method(),
    "no such function": lambda: dj.no_such_function(dj.ones(3)),
    "negative size": lambda: dj.ones(-3),
    "arange": lambda: dj.arange(5, 1, 1),
    "requires grad": lambda: dj.ones(3, dtype=dj.int64, requires_grad=True),
    "backward": lambda: dj.ones(3).sum().backward(),
    "backward of many": lambda: (dj.ones(3, requires_grad=True) * 2).backward(),
    "iterate": lambda: list(dj.tensor(1.0)),
    "length": lambda: len(dj.tensor(1.0)),
    "unpack": lambda: [a for a, b in [dj.ones(3)]],
    "module input": lambda: nn.Linear(3, 4)(dj.ones(2, 5)),
    "module argument": lambda: nn.Linear(3, 4)(),
    "module none": lambda: nn.Linear(3, 4)(None),
    "module missing forward": lambda: nn.Module()(dj.ones(3)),
    "numpy of gradient": lambda: dj.ones(3, requires_grad=True).numpy(),
    "in place on leaf": lambda: dj.ones(3, requires_grad=True).add_(1),
    "in place shape": lambda: dj.ones(3).add_(dj.ones(2, 3)),
    "in place dtype": lambda: dj.ones(3, dtype=dj.int64).add_(0.5),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_wrong_operands(raises_alike: Any, name: str) -> None:
    """The same class and text from plain and compiled code; never an internal error."""
    kind, text = raises_alike(WRONG[name])

    assert not issubclass(kind, (AssertionError, dj.errors.InternalError)), text
    assert text


@pytest.mark.parametrize("name", list(WRONG))
def test_wrong_operands_in_the_middle(raises_alike: Any, name: str) -> None:
    """The same after captured work, below a call, with operands from outside."""
    wrong = WRONG[name]

    def function(x: Any) -> Any:
        y = x * 2
        return y + wrong()

    raises_alike(function, dj.ones(3))


def test_wrong_operands_from_arguments(raises_alike: Any) -> None:
    """A compiled version exists and then the shapes do not fit any more."""

    def function(x: Any, y: Any) -> Any:
        return (x * 2) @ y

    compiled = dj.compile(function, backend="numpy")
    compiled(dj.ones(2, 3), dj.ones(3, 2))
    with pytest.raises(RuntimeError) as eager:
        function(dj.ones(2, 3), dj.ones(4, 2))
    with pytest.raises(type(eager.value)) as caught:
        compiled(dj.ones(2, 3), dj.ones(4, 2))

    assert str(eager.value) == str(caught.value)
    assert [[6.0, 6.0]] * 2 == compiled(dj.ones(2, 3), dj.ones(3, 2)).tolist()


def test_errors_point_at_the_users_line() -> None:
    """The traceback of a compiled function has the user's file and line, innermost last."""

    def inner(x: Any) -> Any:
        return x + dj.ones(7)  # the line

    def outer(x: Any) -> Any:
        y = x * 2
        return inner(y)

    with pytest.raises(RuntimeError) as caught:
        dj.compile(outer, backend="numpy")(dj.ones(3))
    lines = [(entry.name, entry.line) for entry in traceback.extract_tb(caught.value.__traceback__)]

    assert ("inner", "return x + dj.ones(7)  # the line") in lines
    assert ("outer", "return inner(y)") in lines


def test_wrong_calls(raises_alike: Any) -> None:
    """Missing, surplus and unknown arguments of the compiled function itself."""

    def function(a: Any, /, b: Any, *, c: Any = 1) -> Any:
        return a + b + c

    compiled = dj.compile(function, backend="numpy")
    x = dj.ones(2)
    for args, kwargs in (
        ((), {}),
        ((x,), {}),
        ((x, x, x), {}),
        ((x, x), {"d": 1}),
        ((x,), {"a": x}),
    ):
        with pytest.raises(TypeError) as expected:
            function(*args, **kwargs)
        with pytest.raises(TypeError) as actual:
            compiled(*args, **kwargs)
        assert str(expected.value) == str(actual.value)


# -- results that are not tensors ------------------------------------------------------------------

RESULTS = {
    "int": lambda x: 3,
    "None": lambda x: None,
    "string": lambda x: "text",
    "nothing": lambda x: x.sum() and None,
    "shape": lambda x: x.shape,
    "mixed": lambda x: (x + 1, 3, None, "text", 2.5, True, ..., b"b", 1 + 2j),
    "nested": lambda x: {"a": [x * 2, (x, {"b": x + 1})], 3: {"c": ()}},
    "number of shape": lambda x: x.shape[0] * 2 + len(x.shape),
    "dtype": lambda x: (x.dtype, x.device, x.ndim),
    "function": lambda x: (len, dj.Tensor, x.sum()),
    "set": lambda x: {1, 2, x.shape[0]},
    "range": lambda x: (range(x.shape[0]), slice(1, 2), x[:1]),
    "empty": lambda x: ([], {}, (), set()),
    "input": lambda x: x,
    "nan": lambda x: (float("nan"), float("inf"), -0.0),
    "bytes and big": lambda x: (bytearray(b"x"), 2**100, frozenset({1}), x * 1),
    "format": lambda x: f"{x.shape[0]:>4}|{x.dtype}",
}


@pytest.mark.parametrize("name", list(RESULTS))
def test_results_of_every_kind(alike: Any, name: str) -> None:
    """Numbers, None, text, nested containers, the input itself."""
    alike(RESULTS[name], dj.ones(2, 3))


def test_one_tensor_returned_twice() -> None:
    """One object stays one object; the input returned is the input."""

    def function(x: Any, y: Any) -> Any:
        z = x * 2
        return z, z, [z], x, y, {"x": x}

    x, y = dj.ones(2), dj.ones(2)
    for call in (function, dj.compile(function, fullgraph=True, backend="numpy")):
        found = call(x, y)
        assert found[0] is found[1] is found[2][0]
        assert found[3] is x
        assert found[3] is found[5]["x"]
        assert found[4] is y


def test_equal_computations_are_two_tensors() -> None:
    """Common subexpressions are computed once, but do not share memory."""

    def function(x: Any) -> Any:
        return x * 2, x * 2, x + 0, x.clone(), dj.zeros(2), dj.zeros(2)

    for backend in ("native", "numpy", "eager"):
        x = dj.ones(2)
        found = dj.compile(function, fullgraph=True, backend=backend)(x)
        for index, tensor in enumerate(found):
            tensor.fill_(index + 10.0)
        assert [[10.0 + i] * 2 for i in range(6)] == [tensor.tolist() for tensor in found]
        assert [1.0, 1.0] == x.tolist()


def test_results_do_not_change_with_the_next_call() -> None:
    """Memory of results is not reused while they live."""
    for backend in ("native", "numpy"):
        compiled = dj.compile(lambda x: (x + 1, x.sum()), backend=backend)
        kept = [compiled(dj.full((64,), float(i))) for i in range(5)]
        assert [i + 1.0 for i in range(5)] == [a[0].item() for a, _ in kept]
        assert [64.0 * i for i in range(5)] == [b.item() for _, b in kept]


def test_constants_made_inside_are_fresh() -> None:
    """A tensor made in the function may be written by the caller."""
    for backend in ("native", "numpy", "eager"):
        compiled = dj.compile(lambda x: (dj.tensor([1.0, 2.0]), x * 1, dj.ones(2)), backend=backend)
        first = compiled(dj.ones(2))
        first[0].zero_()
        first[2].zero_()
        again = compiled(dj.ones(2))
        assert [1.0, 2.0] == again[0].tolist()
        assert [1.0, 1.0] == again[2].tolist()


def test_views_with_incompatible_strides(raises_alike: Any) -> None:
    """`view` of a transposed argument raises, `reshape` copies, contiguous arguments are viewed."""

    def function(x: Any) -> Any:
        return x.view(6)

    kind, text = raises_alike(function, dj.ones(2, 3).t())
    assert issubclass(kind, RuntimeError)
    assert "view" in text

    compiled = dj.compile(function, backend="numpy")
    assert (6,) == tuple(compiled(dj.ones(3, 2)).shape)
    with pytest.raises(RuntimeError):
        compiled(dj.ones(2, 3).t())
    copied = dj.compile(lambda x: x.reshape(6), backend="numpy")
    x = dj.ones(2, 3).t()
    copied(x).zero_()
    assert 6.0 == x.sum().item()


# -- odd arguments and functions -------------------------------------------------------------------


class Odd:
    """Equal to nothing, unhashable."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError("never compare")


class Slotted:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 2


ARGUMENTS = {
    "None": None,
    "string": "text",
    "bytes": b"abc",
    "complex": 1 + 2j,
    "big": 2**80,
    "nan": float("nan"),
    "array": np.ones(3),
    "numpy scalar": np.float32(2),
    "numpy integer": np.int64(3),
    "list": [1, [2, (3,)]],
    "dict": {"a": 1, 2: {"b": None}},
    "set": {1, 2},
    "frozenset": frozenset({1}),
    "range": range(3),
    "slice": slice(1, None),
    "odd": Odd(),
    "slotted": Slotted(),
    "function": len,
    "lambda": lambda v: v * 2,
    "class": int,
    "module": os,
    "partial": functools.partial(max, 1),
    "dtype": dj.float64,
    "iterator": [1, 2],
    "exception": ValueError("x"),
    "ellipsis": ...,
    "bool": True,
    "path": Path("a/b"),
}


@pytest.mark.parametrize("name", list(ARGUMENTS))
def test_arguments_of_every_kind(name: str) -> None:
    """Passed through and returned: the same object; tensors beside it are computed."""

    def function(x: Any, other: Any) -> Any:
        return x * 2, other, [other], type(other).__name__

    argument = ARGUMENTS[name]
    compiled = dj.compile(function, backend="numpy")
    for _ in range(3):
        found = compiled(dj.ones(2), argument)
        assert [2.0, 2.0] == found[0].tolist()
        assert found[1] is argument
        assert found[2][0] is argument
        assert type(argument).__name__ == found[3]


def test_arrays_beside_tensors(alike: Any) -> None:
    """NumPy arrays and scalars as operands, and what NumPy functions do."""
    x = dj.ones(3)
    alike(lambda x, a: x + dj.from_numpy(a), x, np.ones(3, np.float32))
    alike(lambda x, a: x * a, x, np.float32(2))
    alike(lambda x, a: x * int(a) + float(a), x, np.int64(2))
    alike(lambda x: np.add(x.numpy(), 1).tolist(), x)
    alike(lambda x: dj.tensor(np.arange(3)) + x, x)


def test_changing_python_numbers(alike: Any) -> None:
    """int, float, bool, negative zero, NaN, infinity in one function, in turn."""

    def function(x: Any, n: Any) -> Any:
        return x * n, n, n + 1, n == 2, (x if n else -x)

    compiled = dj.compile(function, backend="numpy")
    x = dj.tensor([1.0, -2.0])
    for number in (1, 2, 3, 2.0, 2.5, True, False, 0, -0.0, 0.0, float("inf"), -5, 10**12):
        expected, actual = function(x, number), compiled(x, number)
        assert [str(v) for v in expected] == [str(v) for v in actual], number
        assert [type(v) for v in expected] == [type(v) for v in actual], number


def factorial(x: Any, n: int) -> Any:
    return x if n <= 1 else factorial(x, n - 1) * n


def endless(x: Any, n: int) -> Any:
    return endless(x * 1, n + 1) + 1


def test_recursion(alike: Any) -> None:
    """Bounded recursion is right; endless recursion raises RecursionError and nothing worse."""
    alike(factorial, dj.ones(2), 6)
    alike(factorial, dj.ones(2), 60)
    compiled = dj.compile(endless, backend="numpy")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        with pytest.raises(RecursionError):
            compiled(dj.ones(2), 0)
    finally:
        sys.setrecursionlimit(limit)
    assert [2.0, 2.0] == dj.compile(lambda x: x * 2, backend="numpy")(dj.ones(2)).tolist()


def test_generators_run_as_they_are() -> None:
    """A compiled generator function, async function and generator expression."""

    def numbers(x: Any) -> Iterator[Any]:
        for i in range(3):
            sent = yield x * i
            if sent:
                yield sent

    plain, compiled = numbers(dj.ones(2)), dj.compile(numbers, backend="numpy")(dj.ones(2))
    assert [t.tolist() for t in plain] == [t.tolist() for t in compiled]

    async def later(x: Any) -> Any:
        return x * 2

    coroutine = dj.compile(later, backend="numpy")(dj.ones(2))
    with pytest.raises(StopIteration) as stop:
        coroutine.send(None)
    assert [2.0, 2.0] == stop.value.value.tolist()

    total = dj.compile(lambda x: sum(x * i for i in range(4)), backend="numpy")(dj.ones(2))
    assert [6.0, 6.0] == total.tolist()


@pytest.mark.parametrize("thing", [len, int, 3, "text", dj.Tensor, object(), np.add])
def test_what_cannot_be_compiled(thing: Any) -> None:
    """An error that names what was given and what is accepted."""
    with pytest.raises(dj.errors.ArgumentError, match="Expected a function"):
        dj.compile(thing)


def test_options_that_are_not_known() -> None:
    """Backends, modes, options, dynamic."""

    def function(x: Any) -> Any:
        return x

    for options in (
        {"backend": "inductr"},
        {"backend": 3},
        {"mode": "fastest"},
        {"options": {"a": 1}},
        {"dynamic": "yes"},
    ):
        with pytest.raises(dj.errors.ArgumentError, match="compile"):
            dj.compile(function, **options)
    with pytest.raises(TypeError):
        dj.compile(function, unknown=1)


def test_fullgraph_names_the_line(raises_alike: Any) -> None:
    """The error shows the line, the reason and a hint; nothing of the function has run."""
    seen: list[int] = []

    def function(x: Any) -> Any:
        seen.append(1)
        y = x * 2
        if y.sum() > 0:  # the line
            return y
        return x

    with pytest.raises(dj.errors.GraphBreakError) as caught:
        dj.compile(function, fullgraph=True, backend="numpy")(dj.ones(2))
    text = str(caught.value)

    assert "if y.sum() > 0:  # the line" in text
    assert "Hint:" in text
    assert "test_bad_input.py:" in text
    assert [] == seen


def test_many_versions_warn_once() -> None:
    """Beyond the limit the oldest version goes; results stay right."""
    compiled = dj.compile(lambda x: x * 2, backend="numpy", dynamic=False)
    with dj.config.override(recompile_limit=3), pytest.warns(RuntimeWarning, match="dropped"):
        for n in range(1, 8):
            assert n * 2.0 == compiled(dj.ones(n)).sum().item()
    assert 3 == compiled.report().entries


# -- toolchain and cache, in fresh processes -------------------------------------------------------

PROGRAM = """
import warnings
import dynajit as dj

@dj.compile
def f(x):
    return (x * 2).tanh().sum()

x = dj.ones(8, requires_grad=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    f(x).backward()
    g = dj.compile(lambda x: x.exp() + 1)
    g(x)
    h = dj.explain(g)(x)
expected = dj.ones(8, requires_grad=True)
(expected * 2).tanh().sum().backward()
print("same", dj.allclose(x.grad, expected.grad))
print("cached", all(record.from_cache for record in h.records))
for warning in caught:
    print("warning", warning.category.__name__, warning.message)
"""


def run_program(folder: Path, **environment: str) -> str:
    """Output of PROGRAM in a fresh process with a cache folder of its own."""
    script = folder / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    variables = {**os.environ, "DYNAJIT_CACHE_DIR": str(folder / "cache"), **environment}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, env=variables
    )
    assert 0 == done.returncode, done.stderr
    assert "" == done.stderr
    assert "same True" in done.stdout
    return done.stdout


@pytest.mark.parametrize(
    "environment",
    [{"DYNAJIT_CC": "/nonexistent/cc"}, {"PATH": "", "CC": ""}, {"DYNAJIT_CC": "/bin/false"}],
    ids=["missing", "no PATH", "fails"],
)
def test_without_a_compiler(tmp_path: Path, environment: dict[str, str]) -> None:
    """Warnings that name compiler and remedy, and plain Python or the NumPy backend."""
    printed = run_program(tmp_path, **environment)
    warnings = [line for line in printed.splitlines() if line.startswith("warning CompileWarning")]

    assert warnings
    for line in warnings:
        assert "compiler" in line or "/bin/false" in line
        assert "defect" not in line
    assert "plain Python" in printed or "NumPy backend" in printed


def test_an_unwritable_cache(tmp_path: Path) -> None:
    """One warning; kernels are kept for the process only."""
    (tmp_path / "file").write_text("not a folder")
    printed = run_program(tmp_path, DYNAJIT_CACHE_DIR=str(tmp_path / "file" / "cache"))

    assert 1 == printed.count("warning ConfigurationWarning"), printed
    assert "DYNAJIT_CACHE_DIR" in printed


def test_a_corrupt_cache_file(tmp_path: Path) -> None:
    """Every file of the cache damaged: compiled again, no warning needed, right results."""
    cache = tmp_path / "cache"
    first = run_program(tmp_path)
    assert "warning" not in first
    files = [path for path in cache.rglob("*") if path.is_file()]
    assert files
    for content in (b"", b"garbage" * 100):
        for path in files:
            if path.exists():
                path.chmod(0o644)
                path.write_bytes(content)
        run_program(tmp_path)
    again = run_program(tmp_path)

    assert "cached True" in again
    assert "warning" not in again


def test_a_truncated_library_in_the_cache(tmp_path: Path) -> None:
    """Half a file, as a full disk leaves it."""
    cache = tmp_path / "cache"
    run_program(tmp_path)
    code = [path for path in cache.rglob("*") if path.suffix in (".o", ".so")]
    assert code
    for path in code:
        path.chmod(0o755)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    run_program(tmp_path)


def _branching(word: str) -> int:
    match word:
        case "first":
            found = 1
        case _:
            found = 2
    return found


def _traced_lines() -> list[int]:
    seen = []

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if event == "line" and frame.f_code is _branching.__code__:
            seen.append(frame.f_lineno - frame.f_code.co_firstlineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        _branching("first")
    finally:
        sys.settrace(before)
    return seen


def test_a_tracer_that_the_function_sets_sees_every_line_that_follows() -> None:
    compiled = dj.compile(_traced_lines)
    assert [compiled() for _ in range(2)] == [_traced_lines()] * 2


@pytest.mark.parametrize(
    "mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]
)
def test_the_modes_of_pytorch_are_taken(mode: str) -> None:
    """They are about GPUs: on the CPU the results are the same."""
    compiled = dj.compile(lambda x: x.exp() + 1, mode=mode)

    assert [2.0] == compiled(dj.zeros(1)).tolist()


def test_a_mode_and_options_exclude_each_other() -> None:
    with pytest.raises(dj.errors.ArgumentError, match="either a mode or options"):
        dj.compile(lambda x: x, mode="reduce-overhead", options={"verify": True})


def test_an_index_behind_a_break_in_a_closure_is_refused_at_its_line() -> None:
    """What runs instead of the rest of a closure finds the captured variables."""

    def outer(x: dj.Tensor, y: dj.Tensor) -> dj.Tensor:
        def inner() -> None:
            dj.graph_break()
            y[dj.tensor([0, 1])] = (x - x)[:2]

        inner()
        return y

    compiled = dj.compile(outer)
    for size, error in ((3, None), (1, IndexError), (3, None), (1, IndexError)):
        x, y = dj.ones(size), dj.ones(size)
        if error is None:
            assert [0, 0, 1] == compiled(x, y).tolist()
            continue
        with pytest.raises(error, match="index 1 is out of bounds") as caught:
            compiled(x, y)
        assert "inner" in [entry.frame.code.name for entry in caught.traceback]
        assert [1] == y.tolist()
