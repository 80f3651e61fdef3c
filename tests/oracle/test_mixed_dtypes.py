"""Operands of several dtypes are refused where PyTorch refuses them; results have its dtypes.

The samples of PyTorch's table of operators, with their tensors in other dtypes: all in one, one at
a time, and of two tensors every pair. Of what PyTorch refuses for want of a kernel of its CPU
("not implemented for 'Half'") nothing is asked. `left_out.MIXED_DTYPES` says what differs, and why.

`DYNAJIT_PYTORCH_SAMPLES=100` looks at up to 100 samples of each operator instead of 6.
"""

import itertools
import os
import random
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's table of operators imports expecttest")

from tests.support.pytorch import left_out  # noqa: E402
from tests.support.pytorch.operator_table import op_db  # noqa: E402
from tests.support.pytorch.pytorch_values import (  # noqa: E402
    Translation,
    Untranslated,
    flat,
    function,
    named,
)

MOST_SAMPLES = int(os.environ.get("DYNAJIT_PYTORCH_SAMPLES", "6"))
MOST_TENSORS = 4

DTYPES = (
    torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64, torch.bfloat16,
)  # fmt: skip

#: Samples of these take seconds to make.
SLOW = {f"nn.functional.max_unpool{n}d.grad" for n in (1, 2, 3)}

Place = tuple[Any, ...]


def operators() -> list[Any]:
    """Those with samples, as parameters of a test."""
    absent = {*left_out.ABSENT, *left_out.REFUSED, *left_out.MIXED_DTYPES, *SLOW}
    return [
        pytest.param(operator, id=operator.full_name)
        for operator in op_db
        if operator.full_name not in absent and any(d in operator.dtypes for d in DTYPES)
    ]


def places_of(value: Any, place: Place = ()) -> Iterator[Place]:
    """Where the tensors are in nested arguments."""
    if isinstance(value, torch.Tensor):
        yield place
    elif isinstance(value, (tuple, list)):
        for number, part in enumerate(value):
            yield from places_of(part, (*place, number))
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from places_of(part, (*place, name))


def converted(value: Any, place: Place, dtype: Any) -> Any:
    """The arguments, with the tensor at a place in a dtype."""
    if not place:
        value = value.detach()
        if value.is_floating_point() and dtype is torch.int64:
            value = value.nan_to_num().clamp(-50, 50)
        return value.to(dtype)
    first, *rest = place
    if isinstance(value, dict):
        return {**value, first: converted(value[first], tuple(rest), dtype)}
    parts = [*value[:first], converted(value[first], tuple(rest), dtype), *value[first + 1 :]]
    return tuple(parts) if isinstance(value, tuple) else parts


def samples_of(operator: Any) -> list[Any]:
    """Those of the first ones that have most tensors, as (input, args, kwargs)."""
    seed = zlib.crc32(operator.full_name.encode())
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    dtype = next(dtype for dtype in DTYPES if dtype in operator.dtypes)
    found = itertools.islice(operator.sample_inputs("cpu", dtype), 3 * MOST_SAMPLES)
    samples = [(sample.input, tuple(sample.args), dict(sample.kwargs)) for sample in found]
    return sorted(samples, key=lambda sample: -len(list(places_of(sample))))[:MOST_SAMPLES]


def choices(places: list[Place]) -> Iterator[dict[Place, Any]]:
    """Which tensors get which dtype."""
    for dtype in DTYPES:
        yield dict.fromkeys(places, dtype)
    if len(places) == 2:
        for pair in itertools.product(DTYPES, DTYPES):
            yield dict(zip(places, pair, strict=True))
    elif len(places) > 2:
        for place, dtype in itertools.product(places, DTYPES):
            yield {place: dtype}


def outcome(call: Callable[[], Any]) -> tuple[list[str], Exception | None]:
    """The dtypes of what is returned, or what is raised."""
    torch.default_generator.manual_seed(1)
    dj.manual_seed(1)
    try:
        found = call()
    except Exception as error:
        return [], error
    return [str(x.dtype).split(".")[-1] for x in flat(found) if hasattr(x, "dtype")], None


def difference(theirs: Any, ours: Any, arguments: Any) -> str | None:
    """How the outcomes differ, or None."""
    try:
        own = Translation()(arguments)
    except Untranslated:
        return None
    expected, refusal = outcome(lambda: theirs(arguments[0], *arguments[1], **arguments[2]))
    actual, error = outcome(lambda: ours(own[0], *own[1], **own[2]))
    if error is not None:
        return None  # there are fewer kernels here
    given = [str(x.dtype) for x in flat([arguments]) if isinstance(x, torch.Tensor)]
    if refusal is not None and "not implemented" not in str(refusal):
        return f"{given}: PyTorch raises {refusal}; the result is {actual}"
    if refusal is None and expected != actual:
        return f"{given}: {actual} instead of {expected}"
    return None


@pytest.mark.parametrize("operator", operators())
def test_what_pytorch_refuses_is_refused_and_results_have_its_dtypes(operator: Any) -> None:
    try:
        ours = named(operator.name) or function(operator.op)
    except Untranslated:
        pytest.skip("not a function of dynajit's")
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples_of(operator):
            places = list(places_of(sample))[:MOST_TENSORS]
            for chosen in choices(places):
                arguments = sample
                for place, dtype in chosen.items():
                    arguments = converted(arguments, place, dtype)
                found.append(difference(operator.op, ours, arguments))

    assert [] == [each for each in found if each is not None]


def test_what_is_left_out_is_in_the_table() -> None:
    assert left_out.MIXED_DTYPES.keys() <= {operator.full_name for operator in op_db}


F32, F64 = "L.ones(3, 3)", "L.ones(3, 3, dtype=L.float64)"
INTEGERS, BOOLS = "L.ones(3, 3, dtype=L.int64)", "L.ones(3, 3, dtype=L.bool)"
COMPLEX, WEIGHT = "L.ones(3, 3, dtype=L.complex64)", "L.ones(3, dtype=L.float64)"
CLASSES = "L.zeros(3, dtype=L.int64)"

REFUSED = (
    f"F.layer_norm({F32}, (3,), {WEIGHT})", f"F.group_norm({F32}, 3, None, {WEIGHT})",
    f"F.batch_norm({F32}, None, None, {WEIGHT}, training=True)",
    f"F.batch_norm({F32}, {WEIGHT}, {WEIGHT})",
    f"F.batch_norm({F32}, {WEIGHT}, {WEIGHT}, training=True)",
    f"F.instance_norm({F32}.reshape(1, 3, 3), weight={WEIGHT})", f"F.prelu({F32}, {WEIGHT})",
    f"L.cdist({F32}, {F64})", f"L.cross({F32}, {F64}, dim=1)", f"L.linalg.cross({INTEGERS}, {F32})",
    f"L.linalg.vecdot({F32}, {F64})", f"L.linalg.vecdot({INTEGERS}, {INTEGERS})",
    f"F.kl_div({INTEGERS}, {F32}, reduction='sum')",
    f"F.kl_div({F32}, {INTEGERS}, reduction='sum')",
    f"F.nll_loss({F32}, {CLASSES}, {WEIGHT})", f"F.cross_entropy({F32}, {CLASSES}, {WEIGHT})",
    f"F.cross_entropy({F32}, {CLASSES}.bool())", f"F.huber_loss({INTEGERS}, {F32})",
    f"F.binary_cross_entropy_with_logits({F32}, {INTEGERS})",
    f"F.soft_margin_loss({INTEGERS}, {F32})", f"F.multilabel_margin_loss({F32}, {BOOLS})",
    f"F.gaussian_nll_loss({F32}, {F32}, {INTEGERS})",
    f"F.bilinear({F32}, {F32}, L.ones(3, 3, 3), {WEIGHT})", f"L.pdist({COMPLEX})",
    f"L.isin({BOOLS}, {BOOLS})", f"L.isin({COMPLEX}, {F32})", f"L.deg2rad({COMPLEX})",
    f"L.isposinf({COMPLEX})", f"L.trapezoid({BOOLS})", f"L.trapezoid({F32}, {BOOLS})",
    f"L.gradient({BOOLS})", f"L.polar({INTEGERS}, {INTEGERS})", f"L.linalg.vander({BOOLS})",
    f"L.normal({F32}, {COMPLEX})", f"L.randint_like({COMPLEX}, 3)",
    f"L.index_fill({F32}, 0, {CLASSES}, L.tensor(1j))", f"L.round({INTEGERS}, decimals=-1)",
    f"F.multi_margin_loss({F32}, {CLASSES}, weight={WEIGHT})",
    f"F.dropout2d({INTEGERS}.reshape(1, 1, 3, 3))",
    f"F.alpha_dropout({INTEGERS}, training=True)",
    f"F.binary_cross_entropy({F32}, {F32}, {COMPLEX})",
    f"L.index_reduce({F32}, 0, {F32}[0], {F32}, 'amax')",
)  # fmt: skip

TAKEN = (
    f"F.huber_loss({F32}, {F64})", f"F.binary_cross_entropy_with_logits({F64}, {F32})",
    f"F.soft_margin_loss({F32}, {F64})", f"F.hinge_embedding_loss({F32}, {F64})",
    f"F.hinge_embedding_loss({INTEGERS}, {F32}, 0.5, reduction='none')",
    f"L.normal({F32}, {F64})", f"L.normal(0.0, {F64})", f"L.ldexp({F32}, {COMPLEX})",
    f"L.xlogy({INTEGERS}, {F32}.bfloat16())", f"L.trapezoid({INTEGERS}, {F32}.bfloat16())",
    f"F.layer_norm({F32}.bfloat16(), (3,), {WEIGHT}.float())",
    f"F.batch_norm({F32}.bfloat16(), None, None, {WEIGHT}.float(), training=True)",
    f"F.binary_cross_entropy({F32}, {F32}, {F64})", f"F.cross_entropy({F32}, {F32}, {WEIGHT})",
    f"L.special.chebyshev_polynomial_t({F32}, {F64}[0, 0])",
    f"F.multilabel_soft_margin_loss({F32}.bfloat16(), {INTEGERS})",
    f"F.threshold({INTEGERS}, 1.5, 20.7)",
)  # fmt: skip


def program(call: str, library: Any) -> Callable[[], Any]:
    space = {"L": library, "F": library.nn.functional}
    exec(f"def call():\n return {call}\n", space)
    return space["call"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("call", REFUSED)
def test_calls_that_pytorch_refuses_are_refused_eager_and_compiled(call: str) -> None:
    for made in (program(call, torch), program(call, dj), dj.compile(program(call, dj))):
        with pytest.raises(RuntimeError):
            made()


@pytest.mark.parametrize("call", TAKEN)
def test_results_have_pytorchs_dtype_eager_and_compiled(call: str) -> None:
    expected = program(call, torch)()
    for made in (program(call, dj), dj.compile(program(call, dj))):
        found = made()
        assert str(expected.dtype) == f"torch.{found.dtype.name}"
        if not call.startswith("L.normal"):
            elements = found.reshape(-1).tolist()
            assert expected.reshape(-1).tolist() == pytest.approx(elements, rel=1e-2)
