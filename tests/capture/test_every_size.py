"""Functions, layers and layouts over sizes that vary: two versions, no break, the results of eager
execution and of PyTorch.

Every line of `tests/support/sizes/calls.py` is compiled once and called with batches and sequences
of several sizes. The first version has known sizes, the second one symbolic ones.

`DYNAJIT_EVERY_SIZE=1` tries every line over five sizes, with gradients and with kernels, instead of
over three sizes, with the gradients of every eighth line, and by NumPy; every one is compared
with PyTorch then, instead of the last one.
"""

import os
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.support.sizes import calls

torch = pytest.importorskip("torch")

#: What sizes do to operators does not depend on the Python that runs them.
pytestmark = pytest.mark.one_python

IS_LONG = bool(os.environ.get("DYNAJIT_EVERY_SIZE"))
SIZES = calls.SIZES if IS_LONG else calls.SIZES[:3]
BACKEND = "native" if IS_LONG else "numpy"

RANDOM = re.compile(
    r"rand|bernoulli|normal\(|multinomial|[dD]ropout(\dd)?\(|gumbel|rrelu|RReLU|Fractional|empty"
    r"|dropout=0.5"
)
"""Calls whose numbers are not PyTorch's."""

ELSEWHERE = (
    "L.unravel_index(cls, x.shape)",
    "L.nn.MultiheadAttention(4, 2, batch_first=True)",
)
"""Calls whose results lie in other places than PyTorch's: not as parts of one tensor, and row by
row."""

UNDEFINED = ("L.linalg.qr(m)", "L.linalg.householder_product(w, w[:, 0])", "bicubic")
"""Calls whose gradients are large, and so are their rounding errors."""

Arguments = list[np.ndarray]


def function_of(text: str, library: Any) -> Callable[..., Any]:
    """The function of its operands, in the order of `OPERANDS`."""
    names = ", ".join(operands_of(text))
    world = {"L": library, "F": library.nn.functional}
    function: Callable[..., Any] = eval(f"lambda {names}: {text}", world)
    return function


def operands_of(text: str) -> list[str]:
    """The operands that a line names."""
    return [name for name in calls.OPERANDS if re.search(rf"(?<![\w.]){name}\b(?!=)", text)]


def layers_of(text: str) -> tuple[Any, Any, Any]:
    """A layer of dynajit, another one, and PyTorch's, with the same weights."""
    torch.manual_seed(1)
    theirs = eval(text, {"L": torch})
    ours = [eval(text, {"L": dj}) for _ in range(2)]
    for layer in ours:
        layer.load_state_dict(
            {name: dj.tensor(value.numpy().copy()) for name, value in theirs.state_dict().items()}
        )
    return ours[0], ours[1], theirs


def outcome(call: Any, library: Any, arrays: Arguments, with_gradients: bool) -> list[Any]:
    """The tensors and numbers of the result, and the gradients of the operands."""
    library.manual_seed(3)
    operands = [library.from_numpy(array.copy()) for array in arrays]
    for operand in operands:
        operand.requires_grad_(with_gradients and operand.is_floating_point())
    found = list(leaves(call(*operands)))
    ends = [each for each in found if getattr(each, "requires_grad", False)]
    if not ends:
        return found
    total = sum(((each.abs() if each.is_complex() else each) * 1.5).sum() for each in ends)
    total.backward()
    return [*found, *(operand.grad for operand in operands)]


def leaves(value: Any) -> Iterator[Any]:
    """What nested tuples and lists hold."""
    if not isinstance(value, (tuple, list)):
        yield value
        return
    for part in value:
        yield from leaves(part)


def assert_same(expected: Any, actual: Any, strides: bool, tolerance: float) -> None:
    """Equal numbers; tensors of equal types, and elements in the same places."""
    assert (expected is None) == (actual is None)
    if not hasattr(expected, "detach"):
        assert expected == actual
        return
    one, other = (each.detach().resolve_conj() for each in (expected, actual))
    assert str(one.dtype).rpartition(".")[2] == str(other.dtype).rpartition(".")[2]
    np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=tolerance, atol=tolerance)
    if strides and expected.numel() > 1:
        assert steps(expected) == steps(actual)


def steps(tensor: Any) -> list[int]:
    """The strides of the dims in which there is a step."""
    return [s for s, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


def try_sizes(ours: Any, eager: Any, theirs: Any, names: list[str], with_gradients: bool,
              text: str) -> Any:  # fmt: skip
    """The report of a compiled function that was called with operands of several sizes."""
    compiled = dj.compile(ours, backend=BACKEND)
    for batch, sequence in SIZES:
        arrays = [calls.OPERANDS[name](batch, sequence) for name in names]
        expected = outcome(eager, dj, arrays, with_gradients)
        actual = outcome(compiled, dj, arrays, with_gradients)
        assert len(expected) == len(actual)
        for one, other in zip(expected, actual, strict=True):
            assert_same(one, other, True, 2e-4)
        if RANDOM.search(text) or not (IS_LONG or (batch, sequence) == SIZES[-1]):
            continue
        known = outcome(theirs, torch, arrays, with_gradients)
        assert len(known) == len(expected)
        tolerance = 3e-3 if any(part in text for part in UNDEFINED) else 2e-4
        for place, (one, other) in enumerate(zip(known, expected, strict=True)):
            is_result = place < len(known) - len(names) or not with_gradients
            assert_same(one, other, is_result and text not in ELSEWHERE, tolerance)
    return compiled.report()


def lines(*groups: str) -> list[Any]:
    """The lines of groups, and whether gradients are wanted, as parameters."""
    found = [line for group in groups for line in group.strip().splitlines()]
    return [pytest.param(line, IS_LONG or i % 8 == 0, id=line) for i, line in enumerate(found)]


NOT_DIFFERENTIABLE = ("soft_margin_loss", "SoftMarginLoss", "vander")
"""Of which PyTorch has no gradient of a target, or of operands that it writes to."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Without what functions warn of, such as deprecation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    dj.reset()


def assert_two_versions(report: Any) -> None:
    """A static and a symbolic one, and no break."""
    assert () == report.breaks
    assert () == report.skips
    assert report.entries <= 2, str(report)
    assert len(report.recompiles) <= 1, str(report)


@pytest.mark.parametrize(
    ("text", "with_gradients"),
    lines(calls.CREATION, calls.MOVEMENT, calls.REDUCTIONS, calls.ALGEBRA, calls.NETWORKS),
)
def test_functions_of_any_size_have_two_versions(text: str, with_gradients: bool) -> None:
    functions = function_of(text, dj), function_of(text, dj), function_of(text, torch)
    wanted = with_gradients and not any(part in text for part in NOT_DIFFERENTIABLE)
    assert_two_versions(try_sizes(*functions, operands_of(text), wanted, text))


@pytest.mark.parametrize(("line", "with_gradients"), lines(calls.LAYERS))
def test_layers_over_any_size_have_two_versions(line: str, with_gradients: bool) -> None:
    text, operands = (part.strip() for part in line.split("|"))
    wanted = with_gradients and not any(part in text for part in NOT_DIFFERENTIABLE)
    assert_two_versions(try_sizes(*layers_of(text), operands.split(), wanted, text))


@pytest.mark.parametrize(("text", "with_gradients"), lines(calls.BY_COUNT))
def test_as_many_parts_as_a_size_says_are_a_version_per_number(
    text: str, with_gradients: bool
) -> None:
    functions = function_of(text, dj), function_of(text, dj), function_of(text, torch)
    report = try_sizes(*functions, operands_of(text), with_gradients, text)

    assert () == report.breaks
    assert report.entries <= len(SIZES)


@pytest.mark.parametrize("text", calls.BY_CONTENTS.strip().splitlines())
def test_results_as_many_as_elements_say_break(text: str) -> None:
    """For that reason, and for no other."""
    compiled, eager = dj.compile(function_of(text, dj), backend=BACKEND), function_of(text, dj)
    for batch, sequence in SIZES:
        arrays = [calls.OPERANDS[name](batch, sequence) for name in operands_of(text)]
        expected, actual = (outcome(call, dj, arrays, False) for call in (eager, compiled))
        for one, other in zip(expected, actual, strict=True):
            assert_same(one, other, True, 2e-4)

    report = compiled.report()
    assert report.entries <= 2
    assert all("the contents of a tensor" in text for text in report.breaks)
    assert report.breaks


LAYOUTS: dict[str, Callable[[int, int], Any]] = {
    "row by row": lambda b, t: dj.randn(b, t),
    "at an offset": lambda b, t: dj.randn(b + 1, t)[1:],
    "transposed": lambda b, t: dj.randn(t, b).t(),
    "batch in the middle": lambda b, t: dj.randn(4, b, t).permute(1, 2, 0),
    "reversed": lambda b, t: dj.randn(t, 3, b).permute(2, 1, 0),
    "channels last": lambda b, t: dj.randn(b, 3, t, t).to(memory_format=dj.channels_last),
    "heads": lambda b, t: dj.randn(b, t, 2, 4).transpose(1, 2),
    "expanded": lambda b, t: dj.randn(t).expand(b, t),
    "part of a buffer": lambda b, t: dj.randn(16, 16)[:b, :t],
}
USES: dict[str, Callable[[Any], Any]] = {
    "element by element": lambda x: x * 2 + 1,
    "sum": lambda x: x.sum(0),
    "softmax": lambda x: x.softmax(-1),
    "product": lambda x: x @ x.mT,
    "other shape": lambda x: x.reshape(x.shape[0], -1) * 1,
    "turned": lambda x: x.transpose(0, -1),
    "rows again": lambda x: x.contiguous(),
    "parts": lambda x: x[1:, ..., :-1] * 3,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("with_gradients", [False, True])
def test_operands_of_any_size_in_any_order_have_two_versions(
    layout: str, use: str, with_gradients: bool
) -> None:
    """Elements side by side in any order of the dims, or with strides that do not vary."""
    function = USES[use]
    compiled = dj.compile(function, backend=BACKEND)
    for sizes in SIZES:
        operand = LAYOUTS[layout](*sizes)
        one, other = (operand.detach().requires_grad_(with_gradients) for _ in range(2))
        expected, actual = function(one), compiled(other)
        assert_same(expected, actual, True, 2e-4)
        if with_gradients:
            for result in (expected, actual):
                (result * 1.5).sum().backward()
            assert_same(one.grad, other.grad, False, 1e-3)

    assert_two_versions(compiled.report())


SMALL = ((3, 8), (5, 11), (1, 9), (4, 5), (2, 2), (1, 1), (0, 6))
"""Sizes among which are 0 and 1, which vanish and broadcast, and too small ones."""


def told(call: Any, arrays: Arguments) -> Any:
    """The result, or the class of what is raised."""
    try:
        return outcome(call, dj, arrays, False)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize(
    "text",
    [text for i, text in enumerate(
        "".join((calls.CREATION, calls.MOVEMENT, calls.REDUCTIONS, calls.ALGEBRA, calls.NETWORKS,
                 calls.BY_COUNT, calls.BY_CONTENTS)).split("\n"))
     if text and (IS_LONG or i % 10 == 0)],
)  # fmt: skip
def test_sizes_of_0_and_1_do_what_they_do_in_eager_execution(text: str) -> None:
    """Errors included."""
    eager, compiled = function_of(text, dj), dj.compile(function_of(text, dj), backend=BACKEND)
    for batch, sequence in SMALL:
        try:
            arrays = [calls.OPERANDS[name](batch, sequence) for name in operands_of(text)]
        except ValueError:  # there is no such operand
            continue
        expected, actual = told(eager, arrays), told(compiled, arrays)
        if isinstance(expected, type):
            assert expected is actual
            continue
        for one, other in zip(expected, actual, strict=True):
            assert_same(one, other, False, 2e-4)
