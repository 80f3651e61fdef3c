"""Conjugate views and negated ones mean what they mean in PyTorch: sharing, writes, gradients.

Random chains of views end in a write, plain and recorded, eager and compiled; what lies in memory
then, what the views show, and the gradients are PyTorch's. Skipped without PyTorch.
`DYNAJIT_CONJUGATE_CHAINS=5000` tries so many chains instead of 120.
"""

import copy
import os
import pickle
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

CHAINS = int(os.environ.get("DYNAJIT_CONJUGATE_CHAINS", "120"))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def numbers(*sizes: int) -> np.ndarray:
    """Complex numbers whose products are exact."""
    count = int(np.prod(sizes))
    return (np.arange(1, 1 + count) % 7 + 1j * (np.arange(count) % 5 - 2.5)).reshape(sizes)


def shown(x: Any) -> Any:
    """What can be said of a tensor, or of another result."""
    if not hasattr(x, "is_conj"):
        return x
    values = x.detach().resolve_conj().resolve_neg().numpy()
    facts = (x.is_conj(), x.is_neg(), tuple(x.stride()), x.storage_offset(), x._is_view())
    return facts, x._version, np.round(values, 9).tolist()


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, or the kind of its error."""
    try:
        result = call()
    except (RuntimeError, TypeError, ValueError, BufferError) as error:
        kinds = (BufferError, RuntimeError, TypeError, ValueError)
        return next(kind for kind in kinds if isinstance(error, kind))
    return [shown(part) for part in result] if isinstance(result, tuple) else shown(result)


CALLS = """
x.conj() | x.conj().conj() | x.mH | x.H | x.adjoint() | L.conj(x.conj()) | L.adjoint(x) | x._conj()
x._neg_view() | x.conj()._neg_view() | x._neg_view()._neg_view() | x._neg_view().conj().imag
x._neg_view().real | x._neg_view().imag | L.view_as_real(x._neg_view()) | x.real._neg_view()
L.view_as_complex(L.view_as_real(x._neg_view())) | x.conj().real | x.conj().imag | x.real.conj()
x.conj().imag.conj() | x.conj().imag.resolve_conj() | x.conj().imag.resolve_neg()
x.conj().clone() | x.conj().contiguous() | x.mH.contiguous() | x.conj().resolve_conj()
x.conj().resolve_neg() | x.conj().conj_physical() | x.conj().detach() | x.conj().data
x.conj()[0] | x.conj()[:, 1:] | x.conj()[[0, 2]] | x.conj()[..., None] | x.conj()[L.tensor(1)]
x.conj().t() | x.conj().T | x.conj().mT | x.conj().view(9) | x.conj().reshape(9) | x.mH.reshape(9)
x.conj().flatten() | x.conj().ravel() | x.conj().unflatten(0, (3, 1)) | x.conj().view_as(x)
x.conj().expand(2, 3, 3) | x.conj().diagonal() | x.conj().unfold(0, 2, 1) | x.conj().split(2)
x.conj().chunk(2) | x.conj().unbind() | x.conj().narrow(0, 1, 2) | x.mH.as_strided((2,), (2,), 1)
x.conj()[1:].as_strided((2,), (1,)) | x.conj().squeeze() | x.conj().movedim(0, 1) | +x.conj()
x.conj().to(x.dtype) | x.conj().to(x.dtype, copy=True) | x.conj().to(L.complex64) | x.conj().cpu()
x.conj() + 1 | -x.conj() | x.conj().imag.neg() | x.conj() @ x.mH | x.conj().sum(0) | x.conj().abs()
L.view_as_real(x.conj()) | x.conj().view(L.float64) | x.conj().view(x.dtype) | x.conj().numpy()
x.conj().imag.numpy() | x.conj().__array__() | x.conj().__dlpack__() | x.conj().tolist()
x.conj()[1, 1].item() | complex(x.conj()[0, 0]) | x.conj().imag[1].tolist() | repr(x.conj())[:9]
x.conj().is_contiguous() | x.mH.is_contiguous() | x.conj().data_ptr() == x.data_ptr()
x.conj().imag.data_ptr() - x.data_ptr() | x.conj().untyped_storage().data_ptr() == x.data_ptr()
x.conj()._base is x | x.conj()[0].imag._base is x | L.equal(x.conj(), x.mH.mT) | x.real.is_conj()
L.zeros(0, dtype=x.dtype).set_(x.conj()) | L.empty_like(x.conj()).is_conj() | x.real._conj()
L.stack([x.conj(), x]) | L.cat([x.conj(), x.conj()]) | L.where(x.real > 3, x.conj(), x)
L.tensor(x.conj()) | L.as_tensor(x.conj()) | x.conj().new_zeros(2) | L.zeros_like(x.conj().imag)
L.nn.Parameter(x.conj().detach()) | x.conj().imag.requires_grad_() | x.conj().requires_grad_()
x.conj().transpose_(0, 1) | x.conj().squeeze_() | x.conj().unsqueeze_(0) | x.fill_diagonal_(2)
"""


def calls_of(text: str) -> list[str]:
    """The expressions of a list."""
    return [call.strip() for line in text.strip().splitlines() for call in line.split(" | ")]


@pytest.mark.parametrize("expression", calls_of(CALLS))
def test_calls_give_what_pytorchs_give(expression: str) -> None:
    call = eval(f"lambda L, x: {expression}")
    expected, actual = (outcome(lambda L=L: call(L, L.tensor(numbers(3, 3)))) for L in (torch, dj))
    assert expected == actual


WRITES = """
y.add_(1j) | y.mul_(2j) | y.zero_() | y.fill_(1 + 2j) | y[0] = 3j | y[1, :2] = 5 | y += 1 - 1j
y *= x | y.copy_(x) | y.copy_(y.conj()) | y.conj_physical_() | y.neg_() | y.real.add_(1)
y.imag.add_(1) | y.imag[0].zero_() | y.imag.mul_(2) | y.imag = 3 | y.real = 2 | y[[0, 2]] = 1j
y[y.real > 3] = 0 | y.masked_fill_(x.real > 2, 1j) | y.index_add_(0, L.tensor([0]), x[:1])
y.index_put_((L.tensor([1, 1]),), x[0], accumulate=True) | y.t().add_(x) | y.diagonal().zero_()
L.add(x, x, out=y) | L.mul(x, 1j, out=y[0:3]) | y.sqrt_() | y.sub_(x, alpha=2) | y.addmm_(x, x)
y.scatter_(0, L.tensor([[0, 1, 2]]), x[:1].clone()) | x.add_(y) | x[0].copy_(y[1]) | x.mul_(y.mH)
y.imag.copy_(x.real) | y.imag.abs_() | L.exp(x, out=y) | y.view(9)[4:].fill_(1j)
y.as_strided((3,), (1,), 2).zero_() | y.detach().add_(1j) | y.data.add_(1j)
y.unsqueeze(0).add_(x) | y.expand(1, 3, 3).mul_(1j) | y[:, 1].imag.fill_(7)
y.reshape(9)[0].zero_()
"""


def written(expression: str, library: Any, form: str, wrap: Callable[[Any], Any]) -> Any:
    """What lies in memory, and what views made before show, after a write through a view."""
    is_statement = "out=" not in expression and any(
        f" {o} " in expression for o in ("=", "+=", "*=")
    )
    world: dict[str, Any] = {"L": library}
    line = expression if is_statement else f"_ = {expression}"
    exec(f"def call(x, y):\n    {line}\n    return y.real + 0\n", world)
    base = library.tensor(numbers(3, 3))
    view = eval(form, {"x": base})
    try:
        result = wrap(world["call"])(base, view)
    except (RuntimeError, ValueError, TypeError) as error:
        return isinstance(error, RuntimeError)
    return shown(base), shown(view), shown(result)


FORMS = ("x.conj()", "x.mH", "x._neg_view()", "x.conj()._neg_view()")


@pytest.mark.parametrize("expression", calls_of(WRITES))
def test_writes_reach_the_memory_as_in_pytorch(expression: str) -> None:
    for form in FORMS:
        expected = written(expression, torch, form, lambda call: call)
        assert expected == written(expression, dj, form, lambda call: call), form


STEPS: Final = (
    "y.conj()", "y.mH", "y.mT", "y.t()", "y[1:]", "y[:, ::2]", "y.real", "y.imag", "y._neg_view()",
    "y.conj().imag", "y.reshape(-1)", "y[0]", "y.diagonal()", "y.unsqueeze(0)", "y.detach()",
    "y.expand(y.shape)", "y.flip(0)", "y * 2", "y.clone()", "y.contiguous()", "y.transpose(0, -1)",
    "y.resolve_conj()", "y.resolve_neg()",
)  # fmt: skip
ENDS: Final = (
    "y.mul_(2)", "y.add_(1)", "y.zero_()", "y.copy_((z * 1).sum())", "y[0].mul_(3)", "y.neg_()",
    "y.div_(2)",
)  # fmt: skip


def chain(seed: int) -> str:
    """The source of a function: views of a tensor, and writes through them."""
    draw = random.Random(seed)
    lines = ["def f(x, w):", "    a = x * w", "    y = z = a"]
    for _ in range(draw.randint(1, 2)):
        lines += [f"    y = {draw.choice(STEPS)}" for _ in range(draw.randint(1, 4))]
        lines += [f"    {draw.choice(ENDS)}", "    z = y", f"    y = {draw.choice('ay')}"]
    lines.append("    return a, z, y")
    return "\n".join(lines)


def ran(source: str, library: Any, wrap: Callable[[Any], Any], recorded: bool) -> Any:
    """Results of a function and the gradients of its operands, or that it raises."""
    world: dict[str, Any] = {}
    exec(source, world)
    x = library.tensor(numbers(3, 3), requires_grad=recorded)
    w = library.tensor(numbers(3, 3) * (1 - 2j), requires_grad=recorded)
    try:
        results = wrap(world["f"])(x, w)
        if recorded:
            sum(_total(part) for part in results if part.requires_grad).backward()
    except (RuntimeError, IndexError, ValueError, TypeError):
        return "refused"
    found = [(*shown(part)[0][:2], shown(part)[2]) for part in results]
    gradients = [x.grad, w.grad] if recorded else []
    return found + [
        None if g is None else np.round(g.resolve_conj().numpy(), 6).tolist() for g in gradients
    ]


def _total(part: Any) -> Any:
    return (part * part).real.sum() if part.is_complex() else (part * part).sum()


@pytest.mark.parametrize("recorded", [False, True])
def test_chains_of_views_are_written_as_in_pytorch(recorded: bool) -> None:
    for seed in range(CHAINS):
        source = chain(seed)
        expected = ran(source, torch, lambda f: f, recorded)
        assert expected == ran(source, dj, lambda f: f, recorded), f"{seed}\n{source}"


@pytest.mark.parametrize("recorded", [False, True])
def test_compiled_chains_of_views_are_written_as_eager_ones(recorded: bool) -> None:
    for seed in range(CHAINS // 4):
        source = chain(seed)
        expected = ran(source, dj, lambda f: f, recorded)
        compiled = ran(source, dj, lambda f: dj.compile(f, backend="eager"), recorded)
        assert expected == compiled, f"{seed}\n{source}"


@pytest.mark.one_python
def test_kernels_compute_chains_of_views_as_eager_execution() -> None:
    for seed in range(12):
        source = chain(1000 + seed)
        expected = ran(source, dj, lambda f: f, False)
        assert expected == ran(source, dj, dj.compile, False), f"{seed}\n{source}"


def test_compiled_functions_give_views_that_share_memory() -> None:
    def parts(x: Any) -> Any:
        doubled = x * 2
        return x.conj(), x.mH[0], x.conj().imag, doubled.conj(), doubled

    x = dj.tensor(numbers(3, 3))
    conjugate, row, imaginary, other, doubled = dj.compile(parts, fullgraph=True)(x)
    for view in (conjugate, row, imaginary):
        assert x.untyped_storage().data_ptr() == view.untyped_storage().data_ptr()
    assert doubled.data_ptr() == other.data_ptr()
    assert [True, True, False, True] == [y.is_conj() for y in (conjugate, row, imaginary, other)]
    assert imaginary.is_neg()
    x[0, 0] = 1 + 7j
    assert 1 - 7j == conjugate[0, 0].item() == row[0].item()
    assert -7.0 == imaginary[0, 0].item()


def test_compiled_functions_write_through_conjugate_views_that_they_are_given() -> None:
    def write(y: Any) -> Any:
        y.mul_(1j)
        return y + 1

    x, compiled = dj.tensor(numbers(2, 2)), dj.compile(write)
    before = x.clone()
    compiled(x.clone())
    result = compiled(x.conj())
    assert dj.equal(before.conj() * 1j, x.conj())
    assert dj.equal(before.conj() * 1j + 1, result)


def test_copies_and_pickles_keep_the_numbers() -> None:
    x = dj.tensor(numbers(3, 3))
    for view in (x.conj(), x.mH, x.conj().imag):
        for made in (copy.deepcopy(view), pickle.loads(pickle.dumps(view)), copy.copy(view)):
            assert dj.equal(view, made)
    assert copy.copy(x.conj()).data_ptr() == x.data_ptr()


def test_gradients_of_parameters_that_are_conjugate_views_equal_pytorchs() -> None:
    def gradient(library: Any) -> Any:
        weight = library.tensor(numbers(3, 3)).conj().detach().requires_grad_()
        for _ in range(2):
            (weight * weight.mH * 1j).real.sum().backward()
        return shown(weight.grad)[2], weight.grad.is_conj()

    assert gradient(torch) == gradient(dj)


def test_memory_of_a_conjugate_view_is_not_written_by_who_reads_its_array() -> None:
    view = dj.tensor(numbers(2)).conj()
    with pytest.raises(ValueError, match="read-only"):
        view.array[0] = 1
