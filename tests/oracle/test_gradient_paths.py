"""Which results of which operators have a derivative by which input: PyTorch's, or none in both.

Samples of the operators of PyTorch's table are run with one input that requires gradients at a
time. For every result, backward gives a gradient, gives none, or is refused, as PyTorch's is.
`DIFFERENT` lists what is not so, with reasons; a name without need fails. A function that loses a
path without a word trains nothing, and says nothing.

Skipped without PyTorch, and without `expecttest`, which its tests import.
By default one sample of each operator in `STEPS` is taken; `DYNAJIT_PYTORCH_SAMPLES=100` takes up
to 100 of every operator.
"""

import os
from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's table of operators imports expecttest")

from tests.oracle import test_pytorch_samples as samples  # noqa: E402
from tests.support.pytorch import left_out  # noqa: E402
from tests.support.pytorch.operator_table import op_db  # noqa: E402
from tests.support.pytorch.pytorch_values import Translation, Untranslated, flat  # noqa: E402

MOST_SAMPLES = int(os.environ.get("DYNAJIT_PYTORCH_SAMPLES", "8"))
IS_SHORT = MOST_SAMPLES <= 8

STEPS = frozenset((
    "addr", "bernoulli", "ceil", "cdist", "copysign", "div.floor_rounding", "div.trunc_rounding",
    "floor", "floor_divide", "frac", "grid_sampler_2d", "heaviside", "histogram", "igamma",
    "igammac", "linalg.matrix_power", "max.reduction_no_dim", "median", "nanmedian",
    "nn.functional.grid_sample", "nn.functional.pdist", "quantile", "remainder", "round", "sign",
    "special.zeta", "trunc", "unique", "unique_consecutive", "xlogy",
))  # fmt: skip
"""Operators that change in steps, or whose derivative nobody has."""

_MORE = "there is a derivative here, and none in PyTorch"
_EARLY = "the call is refused, not backward"
_SIZES = "of tensors without elements"
_OF_EDGES = "edges that are given are no results of their own"

DIFFERENT: dict[str, str] = {
    "geqrf": _EARLY,
    "linalg.ldl_factor": _EARLY,
    "linalg.ldl_factor_ex": _EARLY,
    "linalg.ldl_solve": _EARLY,
    "special.airy_ai": _EARLY,
    "nn.functional.embedding": "sparse gradients by frequencies: the call is refused",
    "nn.functional.embedding_bag": "sparse gradients by frequencies: the call is refused",
    "linspace.tensor_overload": _MORE,
    "logspace.tensor_overload": _MORE,
    "native_group_norm": _MORE,
    "scatter": _MORE,
    "linalg.eig": "an imaginary part is refused where it depends on the phase, in PyTorch always",
    "linalg.norm": _SIZES,
    "linalg.norm.subgradients_at_zero": _SIZES,
    "linalg.slogdet": _SIZES,
    "linalg.pinv": "a tensor as tolerance is refused",
    "ormqr": _SIZES,
    "histogram": _OF_EDGES,
    "histogramdd": _OF_EDGES,
    "triangular_solve": "the second result is the matrix",
    **{
        f"special.{name}": _MORE
        for name in (
            "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
            "chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he",
            "laguerre_polynomial_l", "legendre_polynomial_p", "modified_bessel_i0",
            "modified_bessel_i1", "shifted_chebyshev_polynomial_t",
            "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
            "shifted_chebyshev_polynomial_w", "spherical_bessel_j0",
        )
    },
}  # fmt: skip
"""Operators of which a path differs for some sample, and why."""

_quiet = samples._quiet_and_quick  # a fixture of this module, too


def requiring(value: Any, chosen: int, seen: list[Any]) -> Any:
    """The arguments as leaves, of which only the chosen one of the tensors requires gradients."""
    if isinstance(value, torch.Tensor):
        if not value.dtype.is_floating_point and not value.dtype.is_complex:
            return value
        seen.append(value.detach().clone().requires_grad_(len(seen) == chosen))
        return seen[-1]
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        return type(value)(requiring(part, chosen, seen) for part in value)
    if isinstance(value, dict):
        return {name: requiring(part, chosen, seen) for name, part in value.items()}
    return value


def paths(library: Any, results: Any, source: Any) -> list[str]:
    """For each tensor among the results what backward does: "gives", "nothing" or "refuses"."""
    found = []
    for part in flat(results):
        if not isinstance(part, library.Tensor) or not part.requires_grad:
            found.append("nothing")
            continue
        total = part.real.sum() if part.is_complex() else part.sum()
        try:
            (gradient,) = library.autograd.grad(total, source, retain_graph=True, allow_unused=True)
        except (NotImplementedError, RuntimeError):
            found.append("refuses")
            continue
        is_zero = gradient is None or not bool((gradient != 0).any())
        found.append("nothing" if is_zero else "gives")
    return found


def flags(library: Any, results: Any) -> list[bool]:
    """Whether each tensor among the results requires gradients."""
    return [part.requires_grad for part in flat(results) if isinstance(part, library.Tensor)]


def compared(operator: Any, sample: Any, chosen: int) -> str | None:
    """How the paths from one input differ, or None."""
    seen: list[Any] = []
    first, args, kwargs = requiring((sample.input, sample.args, sample.kwargs), chosen, seen)
    if chosen >= len(seen):
        return None
    translation = Translation()
    try:
        ours_first, ours_args, ours_kwargs = translation((first, args, kwargs))
        call: Callable[..., Any] = samples.ours_of(operator, operator.op)
        theirs = samples.theirs_of(operator.op)(first, *args, **kwargs)
    except (Untranslated, RuntimeError, ValueError):
        return None
    expected = paths(torch, theirs, seen[chosen]), flags(torch, theirs)
    source = next((ours for one, ours in translation.tensors if one is seen[chosen]), None)
    if source is None:
        return None
    try:
        results = call(ours_first, *ours_args, **ours_kwargs)
    except NotImplementedError as error:
        return f"refused: {error}"
    actual = paths(dj, results, source), flags(dj, results)
    if expected == actual:
        return None
    return f"by tensor {chosen} of {samples.described(sample)}: {actual} instead of {expected}"


@pytest.mark.parametrize(
    "operator",
    [
        pytest.param(operator, id=operator.full_name)
        for operator in op_db
        if operator.full_name not in left_out.ABSENT
        and torch.float64 in operator.dtypes
        and (operator.full_name in STEPS or not IS_SHORT)
    ],
)
def test_paths_are_pytorchs(operator: Any) -> None:
    taken = samples.samples_of(operator, "float64")
    if IS_SHORT:
        taken = taken[len(taken) // 2 :][:1]
    found = [
        reason
        for sample in taken
        for chosen in range(6)
        if (reason := compared(operator, sample, chosen))
    ]
    if operator.full_name in DIFFERENT:
        assert found or IS_SHORT, f"{operator.full_name} agrees"
    else:
        assert not found, "\n".join(found[:3])
