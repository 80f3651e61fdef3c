"""Forms that older programs use, against PyTorch: values, dtypes, and the class of what is raised.

A program gets the library; what it returns, or raises, must be equal on both sides.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")


def applied(library: Any, function: Callable[..., Any], *data: Any) -> Any:
    x = library.tensor(data[0])
    given = [library.tensor(other) for other in data[1:]]
    name = ("apply_", "map_", "map2_")[len(given)]
    result = getattr(x, name)(*given, function)
    return result is x, x


def applied_to_a_view(library: Any) -> Any:
    order: list[float] = []
    x = library.arange(6.0).view(2, 3)
    x.t().apply_(lambda v: (order.append(v), v + 1)[1])
    return order, x


def parts_assigned(library: Any) -> Any:
    x = library.ones(2, dtype=library.complex64)
    x.real, x.imag = library.tensor([3.0, 4.0]), 5
    y = library.ones(2)
    y.real = 7.0
    return x, y


def part_assigned_with_gradients(library: Any) -> Any:
    part = library.tensor([2.0, 3.0], requires_grad=True)
    whole = library.ones(2, dtype=library.complex64, requires_grad=True)
    x = whole * 1
    x.imag = part
    (x.imag * library.tensor([1.0, 10.0])).sum().backward()
    return part.grad, x.detach()


def with_defaults(library: Any) -> Any:
    class Scaled(library.autograd.Function):
        @staticmethod
        def forward(x: Any, factor: float = 3.0, other: Any = None) -> Any:
            return x * factor

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            _, ctx.factor, ctx.other = inputs

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.factor, None, None

    x = library.ones(2, requires_grad=True)
    (Scaled.apply(x) + Scaled.apply(x, 5.0)).sum().backward()
    return x.grad


def repeated_modules(library: Any) -> Any:
    nn = library.nn
    layers = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    twice, thrice = layers * 2, 3 * layers
    layers *= 2
    return len(twice), twice[0] is twice[2], len(thrice), len(layers), list(layers.state_dict())


def sequential_times(times: Any) -> Callable[[Any], Any]:
    return lambda library: library.nn.Sequential(library.nn.ReLU()) * times


def cosine_loss(*shapes: tuple[int, ...]) -> Callable[[Any], Any]:
    def program(library: Any) -> Any:
        one, other, target = (library.ones(shape) for shape in shapes)
        return library.nn.functional.cosine_embedding_loss(one * 0.5, other, target)

    return program


def adaptive(kind: str, n: int, size: Any) -> Callable[[Any], Any]:
    def program(library: Any) -> Any:
        pool = getattr(library.nn.functional, f"adaptive_{kind}_pool{n}d")
        return pool(library.ones(1, 2, *(4,) * n), size)

    return program


def of_functional(name: str, *args: Any) -> Callable[[Any], Any]:
    def program(library: Any) -> Any:
        given = [library.tensor(a) if isinstance(a, list) else a for a in args]
        return getattr(library.nn.functional, name)(*given)

    return program


MATRIX = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "apply_": lambda m: applied(m, lambda v: v * 2, [0.0, 1.0]),
    "apply_ of integers": lambda m: applied(m, lambda v: v / 2, [0, 1, 2, 3]),
    "apply_ of bools": lambda m: applied(m, lambda v: not v, [True, False]),
    "apply_ of complex numbers": lambda m: applied(m, lambda v: v * 2, [1j]),
    "apply_ that gives text": lambda m: applied(m, lambda v: "a", [0.0]),
    "apply_ of no function": lambda m: applied(m, 3, [0.0]),  # type: ignore[arg-type]
    "apply_ of a leaf": lambda m: m.ones(2, requires_grad=True).apply_(lambda v: v),
    "apply_ of a view": applied_to_a_view,
    "map_": lambda m: applied(m, lambda a, b: a + 3 * b, MATRIX, [1.0, 2.0, 3.0]),
    "map_ of two dtypes": lambda m: applied(m, lambda a, b: a, [1.0], [1]),
    "map_ of too few": lambda m: applied(m, lambda a, b: a, [1.0, 2.0, 3.0], [1.0, 2.0]),
    "map2_": lambda m: applied(m, lambda a, b, c: a + 3 * b + c, [1.0], [2.0], [3.0]),
    "aminmax": lambda m: (m.aminmax(m.arange(4.0)).min, m.arange(4.0).aminmax(dim=0).max),
    "parts": parts_assigned,
    "parts with gradients": part_assigned_with_gradients,
    "imaginary part of real numbers": lambda m: setattr(m.ones(2), "imag", 5.0),
    "part of a leaf": lambda m: setattr(
        m.ones(1, dtype=m.complex64, requires_grad=True), "imag", 1.0
    ),
    "setup_context with defaults": with_defaults,
    "modules times a number": repeated_modules,
    "modules times 0": sequential_times(0),
    "modules times a fraction": sequential_times(1.5),
    "where of uint8": lambda m: m.where(m.tensor([1, 0], dtype=m.uint8), m.ones(2), m.zeros(2)),
    "where of int64": lambda m: m.where(m.tensor([1, 0]), m.ones(2), m.zeros(2)),
    "diff without dims": lambda m: m.tensor(1.0).diff(),
    "diff without dims, 0 times": lambda m: m.diff(m.tensor(1.0), n=0),
    "einsum of lists": lambda m: m.einsum(
        m.tensor(MATRIX), [0, 1], m.tensor(MATRIX), [2, 1], [2, 0]
    ),
    "einsum of lists without a result": lambda m: m.einsum(m.tensor(MATRIX), [30, 2]),
    "einsum of lists with dots": lambda m: m.einsum(m.tensor(MATRIX), [..., 7], [7, ...]),
    "einsum of a list beyond the end": lambda m: m.einsum(m.tensor(MATRIX), [0, 52], [0]),
    "linear with a vector": of_functional("linear", MATRIX, [1.0, 2.0, 3.0]),
    "linear of two vectors": of_functional("linear", [1.0, 2.0], [3.0, 4.0]),
    "linear with a vector and a bias": of_functional("linear", MATRIX, MATRIX[0], [1.0]),
    **{
        f"adaptive {kind} {n} {size}": adaptive(kind, n, size)
        for kind in ("avg", "max")
        for n in (1, 2, 3)
        for size in (0, (0,) + (2,) * (n - 1))
    },
    **{
        f"cosine_embedding_loss {shapes}": cosine_loss(*shapes)
        for shapes in (
            ((3,), (3,), ()), ((2, 3), (3,), (2,)), ((3,), (2, 3), (2,)), ((2, 3), (2, 3), ()),
            ((1, 3), (2, 3), (2,)), ((3,), (3,), (1,)), ((), (), ()),
        )
    },
}  # fmt: skip


def plain(value: Any) -> Any:
    """Tensors as values with their dtype; errors as the built-in classes that programs catch."""
    if isinstance(value, (torch.Tensor, dj.Tensor)):
        detached = value.detach()
        return detached.tolist(), str(value.dtype).rpartition(".")[2], list(value.shape)
    if isinstance(value, (tuple, list)):
        return [plain(part) for part in value]
    return value


def outcome(program: Callable[[Any], Any], library: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(program(library))
        except Exception as error:
            return error


@pytest.mark.parametrize("name", PROGRAMS)
def test_older_forms_do_what_they_do_in_pytorch(name: str) -> None:
    expected, actual = outcome(PROGRAMS[name], torch), outcome(PROGRAMS[name], dj)
    if isinstance(expected, Exception):
        assert isinstance(actual, type(expected)), actual
    else:
        assert expected == actual


UFUNCS: dict[str, Callable[[Any], Any]] = {
    "sqrt": np.sqrt,
    "add": lambda t: np.add(t, np.ones(2)),
    "add from the left": lambda t: np.add(np.ones(2), t),
    "isnan": np.isnan,
    "greater": lambda t: np.greater(t, 1),
    "modf": np.modf,
    "round": np.round,
    "clip": lambda t: np.clip(t, 0, 1),
    "cumsum": np.cumsum,
    "reduce": np.add.reduce,
    "of one element": lambda t: np.sqrt(t[1]),
    "of integers": lambda t: np.sqrt(t.long()),
    "matmul": lambda t: np.matmul(t, t),
}


@pytest.mark.parametrize("name", UFUNCS)
def test_functions_of_numpy_of_a_tensor_give_tensors(name: str) -> None:
    """Of one that requires a gradient they are refused, as `numpy()` is."""
    data = [1.0, 4.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's way of wrapping is deprecated by NumPy
        expected = plain(UFUNCS[name](torch.tensor(data)))
    actual = UFUNCS[name](dj.tensor(data))

    assert expected == plain(actual)
    if name != "of integers":
        with pytest.raises(RuntimeError, match="requires grad"):
            UFUNCS[name](dj.tensor(data, requires_grad=True))


def test_an_array_that_a_function_of_numpy_writes_into_stays_one() -> None:
    out = np.zeros(2, np.float32)
    result = np.add(dj.ones(2), dj.ones(2), out=out)

    assert (np.ndarray, [2.0, 2.0]) == (type(result), out.tolist())


CAPTURED = (
    "apply_", "map_", "parts", "parts with gradients", "setup_context with defaults",
    "where of uint8", "einsum of lists", "linear with a vector", "adaptive avg 2 0", "aminmax",
)  # fmt: skip


@pytest.mark.parametrize("name", CAPTURED)
def test_compiled_they_do_the_same(name: str) -> None:
    compiled = dj.compile(PROGRAMS[name], backend="numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = plain(PROGRAMS[name](dj))
        assert [expected, expected] == [plain(compiled(dj)) for _ in range(2)]


def test_a_compiled_function_of_the_library_takes_what_it_takes_elsewhere() -> None:
    add, total = dj.compile(dj.add, backend="numpy"), dj.compile(dj.sum, backend="numpy")
    out = dj.zeros(2)
    result = add(dj.ones(2), dj.ones(2), out=out)

    assert (True, [2.0, 2.0], "add") == (result is out, out.tolist(), add.__name__)
    assert [4.0, 4.0] == add(dj.ones(2), other=1, alpha=3).tolist()
    assert [3.0, 3.0] == total(dj.ones(2, 3), axis=1).tolist()


def test_a_mask_from_lengths_is_made_in_compiled_code() -> None:
    """`arange` of a tensor without dims."""

    def mask(lengths: Any) -> Any:
        return dj.arange(lengths.max())[None] < lengths[:, None]

    compiled = dj.compile(mask, backend="numpy")
    for lengths in ([1, 3], [2, 2], [4, 0, 1]):
        given = dj.tensor(lengths)
        assert mask(given).tolist() == compiled(given).tolist()
        assert [[j < n for j in range(max(lengths))] for n in lengths] == mask(given).tolist()


@pytest.mark.parametrize("named", [{}, {"recursive": False}, {"reason": "why"}, {"fn": None}])
def test_disable_without_a_function_is_a_decorator(named: dict[str, Any]) -> None:
    @dj.compiler.disable(**named)
    def function(x: Any) -> Any:
        return x + 1

    assert ("function", [2.0]) == (function.__name__, function(dj.ones(1)).tolist())


def test_disable_refuses_what_cannot_be_called() -> None:
    """PyTorch asserts it."""
    with pytest.raises(AssertionError, match="called"):
        dj.compiler.disable(3)


def test_a_compiled_function_is_not_traced() -> None:
    """PyTorch raises a RuntimeError, too."""
    for made in (dj.compile(lambda x: x + 1), dj.compile(dj.nn.ReLU())):
        with pytest.raises(RuntimeError, match="compiled"):
            dj.fx.symbolic_trace(made)


@pytest.mark.parametrize("recursive", [True, False])
def test_what_a_disabled_function_calls_is_captured_unless_it_is_disabled_too(
    recursive: bool,
) -> None:
    def below(x: Any) -> Any:
        return x * (3 if dj.is_compiling() else 2)

    @dj.compiler.disable(recursive=recursive, reason="for the test")
    def outside(x: Any) -> Any:
        return below(x) + (10 if dj.is_compiling() else 20)

    compiled = dj.compile(lambda x: outside(x + 0) + 0, backend="numpy")
    expected = 22.0 if recursive else 23.0
    assert [[expected]] * 3 == [compiled(dj.ones(1)).tolist() for _ in range(3)]
    assert any("for the test" in text for text in compiled.report().breaks)


class Marked(dj.nn.Module):
    """3 where it is compiled, 2 where it is plain Python."""

    def forward(self, x: Any) -> Any:
        return x * (3 if dj.is_compiling() else 2)


def test_a_disabled_module_is_a_second_one_that_runs_plainly_in_compiled_code() -> None:
    module = Marked()
    plainly = dj.compiler.disable(module)
    compiled = dj.compile(lambda x: module(x) + 10 * plainly(x), backend="numpy")

    assert [[23.0]] * 2 == [compiled(dj.ones(1)).tolist() for _ in range(2)]
    assert (True, True) == (isinstance(plainly, Marked), plainly is not module)


def test_a_disabled_class_stays_itself_and_its_instances_run_plainly() -> None:
    @dj.compiler.disable
    class Plain(Marked):
        """As `Marked`."""

    compiled = dj.compile(Plain().forward, backend="numpy")
    calling = dj.compile(lambda layer, x: layer(x) + 0, backend="numpy")

    assert isinstance(Plain, type)
    assert [3.0] == compiled(dj.ones(1)).tolist()  # the method itself is not disabled
    assert [[2.0]] * 2 == [calling(Plain(), dj.ones(1)).tolist() for _ in range(2)]
