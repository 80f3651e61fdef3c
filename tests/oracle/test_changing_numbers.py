"""A number among the arguments of an operator is another one in every call: eager results.

Each operator of PyTorch's table is compiled as a function of one number of a sample, for each place
of one, and called with several: the second one makes it vary, the others meet what was compiled.
Values, dtypes, shapes and the classes of errors are those of eager execution, and after four
versions at the latest no more are made.

Skipped without PyTorch, and without `expecttest`, which its tests import.
`DYNAJIT_PYTORCH_SAMPLES=100` looks at up to 100 samples of each operator, with generated code.
"""

import itertools
import os
import random
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

import dynajit as dj
from dynajit.capture.guards.churn import MOST_VERSIONS

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's table of operators imports expecttest")

from torch.testing._internal.opinfo.core import UnaryUfuncInfo  # noqa: E402

from tests.support.pytorch import left_out  # noqa: E402
from tests.support.pytorch.operator_table import op_db  # noqa: E402
from tests.support.pytorch.pytorch_values import Translation, Untranslated, flat, function, named  # noqa: E402

MOST_SAMPLES: Final = int(os.environ.get("DYNAJIT_PYTORCH_SAMPLES", "0"))

DTYPES: Final = (torch.float32, torch.int64, torch.bool, torch.complex64)

#: Samples of these take seconds to make.
SLOW: Final = {f"nn.functional.max_unpool{n}d.grad" for n in (1, 2, 3)}


def operators() -> list[Any]:
    """Those that may have an argument that is a number, as parameters of a test."""
    return [
        pytest.param(operator, id=operator.full_name)
        for operator in op_db
        if operator.full_name not in {*left_out.ABSENT, *SLOW}
        and not isinstance(operator, UnaryUfuncInfo)
        and any(dtype in operator.dtypes for dtype in DTYPES)
    ]


def calls_of(operator: Any) -> Iterator[tuple[list[Any], dict[str, Any], Any]]:
    """Arguments of a sample, and the place of a number among them; each place once."""
    seed = zlib.crc32(operator.full_name.encode())
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    dtype = next(dtype for dtype in DTYPES if dtype in operator.dtypes)
    met: set[Any] = set()
    for sample in itertools.islice(operator.sample_inputs("cpu", dtype), MOST_SAMPLES or 30):
        arguments = [sample.input, *sample.args]
        for place, value in [*enumerate(arguments), *sample.kwargs.items()]:
            kind = type(value)
            if kind in (int, float) and (MOST_SAMPLES or (place, kind) not in met):
                met.add((place, kind))
                yield arguments, dict(sample.kwargs), place


def others(number: Any) -> list[Any]:
    """Numbers that come in the place of one."""
    if isinstance(number, int):
        return [number, number + 1, number + 3, number - 1, -number, number + 2]
    return [number, number * 1.5 + 0.25, number * 0.5, -number, 0.0, 0.3]


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """The arrays that a call gives, or the class of its error."""
    dj.manual_seed(1)
    try:
        result = call(*arguments)
    except Exception as error:
        return type(error)
    return [leaf.detach() if isinstance(leaf, dj.Tensor) else leaf for leaf in flat(result)]


def why_different(expected: Any, actual: Any) -> str | None:
    if isinstance(expected, type) or isinstance(actual, type):
        return None if expected is actual else f"{expected}, now {actual}"
    for a, b in zip(expected, actual, strict=True):
        if not isinstance(a, dj.Tensor):
            if repr(a) != repr(b):
                return f"{a!r}, now {b!r}"
            continue
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"{a.dtype} {a.shape}, now {b.dtype} {b.shape}"
        first, second = (_array_of(tensor) for tensor in (a, b))
        if not np.allclose(first, second, rtol=1e-4, atol=1e-5, equal_nan=True):
            return f"{first}, now {second}"
    return None


def _array_of(tensor: dj.Tensor) -> np.ndarray:
    dense = tensor if tensor.layout is dj.strided else tensor.to_dense()
    return np.asarray(dense.resolve_conj().resolve_neg().array)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.one_python
@pytest.mark.parametrize("operator", operators())
def test_an_operator_of_a_number_that_changes(operator: Any) -> None:
    called = named(operator.name) or function(operator.op)
    for arguments, keywords, place in calls_of(operator):
        translate = Translation()
        try:
            given, options = [translate(a) for a in arguments], translate(keywords)
        except Untranslated:
            continue

        def call(
            number: Any, given: Any = given, options: Any = options, place: Any = place
        ) -> Any:
            if isinstance(place, str):
                return called(*given, **{**options, place: number})
            return called(*given[:place], number, *given[place + 1 :], **options)

        compiled = dj.compile(call, backend="native" if MOST_SAMPLES else "eager")
        for number in others(keywords[place] if isinstance(place, str) else arguments[place]):
            expected, actual = outcome(call, number), outcome(compiled, number)
            difference = why_different(expected, actual)
            assert difference is None, f"{place!r} = {number!r}: {difference}"
        assert compiled.report().graphs <= 2 * MOST_VERSIONS
