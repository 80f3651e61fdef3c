"""Tangents of every operator of PyTorch's own table, of its gradients, and of its in-place form.

Operators, samples and what is left out are those of `test_pytorch_samples`, in double precision:
what `forward_ad` of both libraries gives is compared where PyTorch has forward mode.
`DYNAJIT_PYTORCH_SAMPLES=100` takes up to 100 samples of each operator and dtype instead of one, and
complex numbers in all tests.
"""

import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import UnsupportedError

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's table of operators imports expecttest")

from tests.oracle import test_pytorch_samples as samples  # noqa: E402
from tests.support.pytorch import left_out  # noqa: E402
from tests.support.pytorch.pytorch_values import (  # noqa: E402
    Translation,
    Untranslated,
    flat,
    from_dynajit,
    function,
    leaves,
    why_not_same,
)

MOST = int(os.environ.get("DYNAJIT_PYTORCH_SAMPLES", "1"))

quiet = samples._quiet_and_quick


def differentiable(having: str = "op") -> Any:
    """The operators with a derivative, of which all that has numbers can be compared."""
    return [
        parameter
        for parameter in samples.table(having=having, without=left_out.ABSENT)
        if parameter.values[0].supports_autograd
        and parameter.id not in left_out.REFUSED
        and parameter.id not in NOT_COMPARED
    ]


#: Tangents of gradients in which PyTorch is wrong: its own gradgradcheck says so, or NaN.
WRONG_THERE = frozenset({"linalg.norm.subgradients_at_zero", "triangular_solve"})
NOT_COMPARED = {
    "cholesky_inverse": "PyTorch is far from exact arithmetic",
    "logcumsumexp": "PyTorch's has errors of 1e-6",
    "nn.functional.max_unpool2d": "one of several elements for one place is kept, which one",
    "native_batch_norm": "the statistics have no derivative in PyTorch, and their own here",
    "nn.functional.rrelu": "draws random numbers",
}


def drawn(like: Any, seed: Any) -> Any:
    generator = torch.Generator().manual_seed(zlib.crc32(str(seed).encode()))
    return torch.randn(like.shape, dtype=like.dtype, generator=generator)


class Side:
    """One library: a call of an operator, with dual arguments.

    Args:
        library: torch or dynajit.
        translate: tensors of PyTorch as those of the library.
    """

    def __init__(self, library: Any, operator: Any, sample: Any) -> None:
        self.library = library
        self.operator = operator
        self.translation = Translation()
        self.is_torch = library is torch
        given = leaves((sample.input, sample.args, sample.kwargs))
        moving = [x for x in _tensors(given) if x.requires_grad]
        arguments = given if self.is_torch else self.translation(given)
        pairs = [(x, x) for x in moving] if self.is_torch else self.translation.tensors
        self.inputs = [ours for theirs, ours in pairs if theirs.requires_grad]
        directions = [
            self.own(drawn(theirs, place))
            for place, (theirs, _) in enumerate((t, o) for t, o in pairs if t.requires_grad)
        ]
        self.arguments, self.directions = arguments, directions

    def own(self, tensor: Any) -> Any:
        """A tensor of PyTorch as one of the library."""
        return tensor if self.is_torch else Translation()(tensor)

    def theirs(self, value: Any) -> Any:
        """A result as one of PyTorch."""
        return value if self.is_torch else from_dynajit(value)

    def duals(self, *, tracked: bool) -> tuple[list[Any], Any]:
        """Dual inputs, and the arguments with them in place."""
        made = []
        for x, v in zip(self.inputs, self.directions, strict=True):
            primal = x.detach().requires_grad_() if tracked else x.detach()
            made.append(self.library.autograd.forward_ad.make_dual(primal, v))
        return made, _replaced(self.arguments, self.inputs, made)

    def called(self, call: Any, arguments: Any) -> list[Any]:
        """The parts of the result."""
        first, args, kwargs = arguments
        process = self.sample_process if self.is_torch else function(self.sample_process)
        wrapped = samples._wrapper(self.operator, self.library)
        return flat(process(wrapped(call, first, *args, **kwargs)))

    sample_process: Any = None


def _tensors(value: Any) -> Iterator[Any]:
    for part in flat(value):
        if isinstance(part, torch.Tensor):
            yield part


def _replaced(value: Any, known: list[Any], by: list[Any]) -> Any:
    for one, other in zip(known, by, strict=True):
        if value is one:
            return other
    if isinstance(value, (torch.Size, dj.Size)):
        return value
    if isinstance(value, (tuple, list)):
        return type(value)(_replaced(part, known, by) for part in value)
    if isinstance(value, dict):
        return {name: _replaced(part, known, by) for name, part in value.items()}
    return value


def is_continuous(library: Any, value: Any) -> bool:
    return isinstance(value, library.Tensor) and (
        value.dtype.is_floating_point or value.dtype.is_complex
    )


def tangents_of(side: Side, values: list[Any]) -> list[Any]:
    """Of every value the tangent, zeros where it has none; None of what cannot have one."""
    found = []
    for value in values:
        if not is_continuous(side.library, value):
            found.append(None)
            continue
        tangent = side.library.autograd.forward_ad.unpack_dual(value).tangent
        zeros = side.library.zeros_like(value.detach())
        found.append(side.theirs((zeros if tangent is None else tangent).detach()))
    return found


def forward(side: Side, call: Any) -> list[Any]:
    with side.library.autograd.forward_ad.dual_level():
        _, arguments = side.duals(tracked=False)
        return tangents_of(side, side.called(call, arguments))


def forward_over_reverse(side: Side, call: Any) -> list[Any]:
    with side.library.autograd.forward_ad.dual_level():
        inputs, arguments = side.duals(tracked=True)
        outputs = [
            y
            for y in side.called(call, arguments)
            if is_continuous(side.library, y) and y.requires_grad
        ]
        weights = [side.own(drawn(side.theirs(y.detach()), -1 - k)) for k, y in enumerate(outputs)]
        if not outputs or not all(y.numel() for y in outputs):
            return []
        # PyTorch's linalg.solve is right with a graph only.
        found = side.library.autograd.grad(
            outputs, inputs, weights, allow_unused=True, create_graph=True
        )
        return [
            None if x is None else tangents_of(side, [g])[0]
            for g, x in zip(found, found, strict=True)
        ]


def is_alike(operator: Any, sample: Any) -> bool:
    """Whether values are PyTorch's, and no random ones."""
    try:
        return samples.compare_call(operator, operator.op, sample) == (None, True)
    except (RuntimeError, TypeError):  # what dynajit refuses is what other tests are about
        return False


def compare(operator: Any, sample: Any, run: Callable[..., list[Any]]) -> str | None:
    theirs, ours = Side(torch, operator, sample), _refusable(lambda: Side(dj, operator, sample))
    for side in (theirs, ours):
        side.sample_process = sample.output_process_fn_grad
    if not theirs.inputs:
        return None
    own = _refusable(lambda: samples.ours_of(operator, operator.op))
    if not is_alike(operator, sample):
        return None  # which is what other tests are about
    try:
        expected = run(theirs, samples.theirs_of(operator.op))
    except NotImplementedError as error:
        raise samples.Refused(f"PyTorch itself: {error}") from error
    actual = _refusable(lambda: run(ours, own))
    return why_not_alike(expected, actual)


def why_not_alike(expected: list[Any], actual: list[Any]) -> str | None:
    if not expected or not (actual or any(map(_size, expected))):
        return None  # who says that there is no derivative, and who that it is 0
    if len(expected) != len(actual):
        return f"{len(actual)} tangents instead of {len(expected)}"
    largest = max((_size(x) for x in expected), default=0.0)
    for place, (one, other) in enumerate(zip(expected, actual, strict=True)):
        if one is None and other is None:
            continue
        zero = torch.zeros_like(one if other is None else other)
        left = zero if one is None else one.resolve_conj().resolve_neg()
        right = zero if other is None else other
        reason = why_not_same(left, right)
        if reason and "values" in reason and not _size(left - right) <= 1e-8 * largest:
            return f"of {place}: {reason}"
    return None


def _size(tensor: Any) -> float:
    """The largest absolute value; what cancels has errors of that size."""
    return 0.0 if tensor is None or not tensor.numel() else float(tensor.abs().max())


def _refusable(call: Callable[[], Any]) -> Any:
    dj.manual_seed(samples.SEED)
    try:
        return call()
    except (UnsupportedError, Untranslated) as error:
        raise samples.Refused(str(error)) from error


def chosen(operator: Any, run: Any) -> Iterator[tuple[str, Any]]:
    is_short = MOST == 1 and run is not forward
    for dtype in samples.WITH_GRADIENTS[:1] if is_short else samples.WITH_GRADIENTS:
        if dtype in samples.dtypes_of(operator):
            for sample in samples.samples_of(operator, dtype, gradients=True, most=MOST):
                yield dtype, sample


def judged(operator: Any, run: Callable[[Any, Any], Any], by: Any = compare) -> None:
    failures = []
    for dtype, sample in chosen(operator, run):
        try:
            reason = by(operator, sample, run)
        except samples.Refused:
            continue
        if reason:
            failures.append(f"{dtype} {samples.described(sample)}: {reason}")
    assert not failures, "\n".join(failures[:3])


@pytest.mark.parametrize("operator", differentiable())
def test_tangents_are_pytorchs(operator: Any) -> None:
    if not operator.supports_forward_ad:
        pytest.skip("PyTorch has no forward mode here")
    judged(operator, forward)


@pytest.mark.parametrize("operator", differentiable())
def test_tangents_of_gradients_are_pytorchs(operator: Any) -> None:
    if not operator.supports_fwgrad_bwgrad or operator.full_name in WRONG_THERE:
        pytest.skip("PyTorch has no forward over reverse here")
    judged(operator, forward_over_reverse)


def forward_in_place(side: Side, call: Any) -> list[Any]:
    """The tangents of what is written, and of a view that was taken before."""
    with side.library.autograd.forward_ad.dual_level():
        _, (first, args, kwargs) = side.duals(tracked=False)
        written = first * 1
        shown = written.reshape(-1)
        call(written, *args, **kwargs)
        return tangents_of(side, [written, shown])


def compare_written(operator: Any, sample: Any, run: Callable[..., list[Any]]) -> str | None:
    theirs, ours = Side(torch, operator, sample), _refusable(lambda: Side(dj, operator, sample))
    if not theirs.inputs or not is_alike(operator, sample):
        return None
    call = samples.theirs_of(operator.inplace_variant)
    try:
        expected = run(theirs, call)
    except RuntimeError as error:
        raise samples.Refused(f"PyTorch itself: {error}") from error
    own = _refusable(lambda: function(operator.inplace_variant))
    return why_not_alike(expected, _refusable(lambda: run(ours, own)))


@pytest.mark.parametrize("operator", differentiable("inplace_variant"))
def test_tangents_of_what_is_written_are_pytorchs(operator: Any) -> None:
    if not operator.supports_forward_ad:
        pytest.skip("PyTorch has no forward mode here")
    judged(operator, forward_in_place, compare_written)
