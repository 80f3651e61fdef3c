"""Every function that stands for one of NumPy's gives what NumPy gives, or leaves it the call."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dynajit.ops.functions.arrays  # noqa: F401  (fills the table)
from dynajit.eager import Tensor
from dynajit.eager.tensor.creation import tensor_over
from dynajit.ops.functions.arrays.table import (
    FUNCTIONS,
    NEED_ROWS,
    WRITERS,
    LeftToNumPy,
    name_of,
)

DTYPES = (np.bool_, np.int32, np.int64, np.uint8, np.float32, np.float64, np.complex128)

#: Arguments after the array, by function; one tuple per call.
FURTHER: dict[Any, tuple[tuple[Any, ...], ...]] = {
    np.reshape: ((-1,),), np.swapaxes: ((0, -1),), np.moveaxis: ((0, -1),),
    np.expand_dims: ((0,), (-1,)), np.split: ((1,),), np.roll: ((1,), (1, 0)),
    np.pad: ((1,), ((1, 2),)), np.repeat: ((2,), (2, 0)),
    np.tile: ((2,), ((2, 1),), (1,), ((2, 1, 3),)),
    np.take: (([0, 0],), ([0, 0], 0)), np.diff: ((), (1, 0)), np.clip: ((0, 2), (1, None)),
    np.sum: ((), (0,), (-1,)), np.prod: ((), (0,)), np.mean: ((), (0,)), np.var: ((), (0,)),
    np.std: ((), (-1,)), np.max: ((), (0,)), np.min: ((), (-1,)), np.argmax: ((), (0,)),
    np.argmin: ((), (-1,)), np.any: ((), (0,)), np.all: ((), (0,)), np.cumsum: ((), (0,)),
    np.cumprod: ((), (0,)), np.sort: ((), (0,)), np.argsort: ((-1, "stable"),),
    np.count_nonzero: ((0,),), np.full_like: ((2,),), np.linalg.norm: ((), (None, 0)),
    np.percentile: ((30,), ([10, 90.5], 0)), np.quantile: ((0.3,), ([0.1, 1], -1)),
    np.median: ((), (0,)), np.copyto: ((1,),), np.fill_diagonal: ((1,),),
    np.broadcast_to: (((2, 3, 4),),),
    np.lib.stride_tricks.sliding_window_view: ((2, 0), ((2, 3),)),
    np.nan_to_num: ((), (True, 1.0, 2, 3)), np.array_split: ((2,), ([1, 5],), (3, -1)),
    np.delete: ((0,), (-1, 0), ([2, 0], 0)), np.insert: ((1, 7), (0, 2, -1)),
    np.isin: (([1, 2],), ([0.5, 3], False, True)), np.partition: ((3, None), (1, 0)),
    np.argpartition: ((3, None),), np.diagonal: ((), (1,)), np.trace: ((), (-1,)),
    np.diag: ((), (1,), (-2,)), np.diagflat: ((), (1,), (-2,)), np.ediff1d: ((),),
    np.nanmean: ((), (0,)), np.nanmax: ((), (-1,)), np.nanstd: ((), (0,)), np.nanmedian: ((), (0,)),
    np.cov: ((), (None, False), (None, True, True)), np.average: ((), (0,)),
    np.vander: ((), (3,), (2, True)),
}  # fmt: skip

#: Functions that are called with other things than one or two arrays.
SPECIAL = {
    np.where: lambda x: (x > 0, x, 0), np.concatenate: lambda x: ([x, x],),
    np.stack: lambda x: ([x, x],), np.vstack: lambda x: ([x, x],), np.hstack: lambda x: ([x, x],),
    np.column_stack: lambda x: ([x, x],), np.einsum: lambda x: ("ij,kj->ik", x, x),
    np.matmul: lambda x: (x, x.T), np.dot: lambda x: (x, x.T), np.full: lambda x: ((2, 3), 1.5),
    np.zeros: lambda x: ((2, 3),), np.ones: lambda x: (3, np.int32), np.eye: lambda x: (3,),
    np.identity: lambda x: (2,), np.logspace: lambda x: (0, 1, 4),
    np.geomspace: lambda x: (1, 9, 4),
    np.tri: lambda x: (3,), np.fft.fftfreq: lambda x: (7, 0.1), np.fft.rfftfreq: lambda x: (6,),
    np.diag_indices: lambda x: (3,), np.triu_indices: lambda x: (4, 1),
    np.tril_indices: lambda x: (3,),
    np.indices: lambda x: ((2, 3),), np.hanning: lambda x: (5,), np.hamming: lambda x: (5,),
    np.blackman: lambda x: (5,), np.bartlett: lambda x: (5,), np.kaiser: lambda x: (5, 2.5),
    np.searchsorted: lambda x: (np.sort(x), x), np.digitize: lambda x: (x, [-1, 0.5, 7]),
    np.interp: lambda x: (x, [-2.0, 1.0, 5.0], [3.0, -1.0, 2.0]),
    np.correlate: lambda x: (x, x[:3], "same"), np.convolve: lambda x: (x[:2], x),
    np.linalg.solve: lambda x: (_square(x), x[:, 0]),
    np.select: lambda x: ([x > 1, x < 0], [x, x + 1]),
    np.take_along_axis: lambda x: (x, np.zeros(x.shape, int), 0), np.kron: lambda x: (x, x),
    np.cross: lambda x: (x[..., :3], x[..., 1:4]), np.meshgrid: lambda x: (x[0], x[:, 0]),
    np.putmask: lambda x: (x, x > 1, 1),
    np.unravel_index: lambda x: (np.abs(x.astype(int)), (400, 3)),
    np.ravel_multi_index: lambda x: ((x.astype(int), x.astype(int)), (5, 7), "wrap"),
    np.lexsort: lambda x: ((x[0], x[1]) if x.ndim == 2 else (x, x > 1),),
    np.arange: lambda x: (1, 7, 2), np.linspace: lambda x: (0, 1, 5),
}  # fmt: skip

#: Functions of square matrices.
SQUARE = {np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.cholesky, np.linalg.eigh,
          np.linalg.eigvalsh}  # fmt: skip

for _name in ("vecdot", "matvec", "vecmat"):
    if hasattr(np, _name):
        SPECIAL[getattr(np, _name)] = {
            "vecdot": lambda x: (x[0], x[1]), "matvec": lambda x: (x, x[0]),
            "vecmat": lambda x: (x[:, 0], x),
        }[_name]  # fmt: skip

#: What NumPy computes for the graph: capture says how the result lies.
BY_NUMPY = {np.cbrt, np.spacing, np.ldexp, np.bitwise_count, np.left_shift, np.right_shift,
            np.power}  # fmt: skip

#: What is not promised: elements of empty arrays' makers.
SKIPPED = (np.empty, np.empty_like, np.ndarray)


def _elements(dtype: Any) -> np.ndarray:
    if dtype is np.bool_:
        return np.arange(12) % 3 == 0
    if dtype is np.uint8:
        return np.array([0, 1, 2, 3, 100, 255, 7, 0, 9, 200, 3, 3], np.uint8)
    found = np.array([0, 1, -1, 2, 3, -7, 5, 0.5, 12, -3, 4, 4])
    if dtype in (np.int32, np.int64):
        return found.astype(dtype)
    found[-1] = np.nan
    return found.astype(dtype) + (1j * np.arange(12) if dtype is np.complex128 else 0)


def _arrays(dtype: Any) -> Iterator[np.ndarray]:
    flat = _elements(dtype)
    yield flat.copy()
    yield flat.reshape(3, 4).copy()
    yield np.asfortranarray(flat.reshape(3, 4))
    yield flat.reshape(3, 4)[:, ::2]
    yield np.array(flat[3])
    yield np.zeros((0, 3), dtype)


def _square(x: np.ndarray) -> np.ndarray:
    """A positive definite matrix."""
    if x.ndim != 2 or not x.size or x.dtype.kind not in "if":
        return x
    y = np.nan_to_num(x).astype(x.dtype)
    return y @ y.T + np.eye(len(y), dtype=x.dtype)


def _over(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return tensor_over(value)
    return type(value)(map(_over, value)) if isinstance(value, (list, tuple)) else value


def _calls(function: Any, x: np.ndarray) -> Iterator[tuple[Any, ...]]:
    method = getattr(function, "__name__", "") if hasattr(function, "__self__") else ""
    if function in SQUARE:
        yield (_square(x),)
    elif function in SPECIAL:
        try:
            yield SPECIAL[function](x)
        except (IndexError, TypeError):
            return  # the array has no such part
    elif method == "outer":
        yield (x, x)
    elif method == "at":
        yield from (
            (x, index, 1) for index in ([0, 1, 0], [[0], [1]], [5, -1], ([0, 1, 0], [1, 0, 1]))
        )
        yield (x, ([0, 1], [1, 0]), x.ravel()[:2])
    elif isinstance(function, np.ufunc) and function.nin == 2:
        yield (x, x)
        yield (x, x[..., :1] if x.ndim else x)
        yield (x, 2)
        yield (2.5, x)
        yield (x, x.astype(np.float32) if x.dtype.kind != "c" else x)
    elif function in (np.inner, np.vdot, np.outer):
        yield (x, x)
    else:
        yield from ((x, *rest) for rest in FURTHER.get(function, ((),)))


def _plain(result: Any) -> Any:
    return result.array if isinstance(result, Tensor) else result


def _answer(original: Any, args: Any) -> Any:
    """What NumPy gives, or what the first array holds afterwards."""
    if FUNCTIONS[original] not in WRITERS:
        return original(*args)
    first = args[0].copy(order="K")
    original(first, *args[1:])
    return first


def _differ(expected: Any, actual: Any) -> str:
    if isinstance(expected, (list, tuple)):
        return "; ".join(filter(None, map(_differ, expected, actual)))
    expected, found = np.asarray(expected), np.asarray(_plain(actual))
    if expected.dtype != found.dtype or expected.shape != found.shape:
        return f"{expected.dtype}{expected.shape} is {found.dtype}{found.shape}"
    loose = {"f": 1e-5 if expected.itemsize == 4 else 1e-12, "c": 1e-12}.get(expected.dtype.kind, 0)
    if not np.allclose(expected, found, rtol=loose, atol=loose, equal_nan=True):
        return f"{expected} is {found}"
    if expected.size and _steps(expected) != _steps(found):
        return f"strides {expected.strides} are {found.strides}"
    return ""


def _steps(array: np.ndarray) -> list[int]:
    """Strides, but those of dims that have one element."""
    return [s for s, n in zip(array.strides, array.shape, strict=True) if n != 1]


def _succeeds(original: Any, args: Any) -> bool:
    try:
        _answer(original, args)
    except Exception:
        return False
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("original", FUNCTIONS, ids=name_of)
def test_what_stands_for_a_function_gives_what_numpy_gives(original: Any) -> None:
    if original in SKIPPED:
        pytest.skip("elements are not promised")
    answered, wrong = 0, []
    for dtype in DTYPES:
        for x in _arrays(dtype):
            is_odd = FUNCTIONS[original] in NEED_ROWS or original in BY_NUMPY
            if is_odd and not x.flags.c_contiguous:
                continue  # capture leaves it to NumPy
            for args in _calls(original, x):
                try:
                    actual = FUNCTIONS[original](*map(_over, args))
                except Exception as error:
                    # NumPy takes axis 0 of what has no dims.
                    is_left = isinstance(error, (LeftToNumPy, np.exceptions.AxisError))
                    if not is_left and _succeeds(original, args):
                        wrong.append(f"{args[1:]!r:.60} raises {error!r}")
                    continue  # NumPy runs
                answered += 1
                try:
                    expected = _answer(original, args)
                except Exception as error:
                    wrong.append(f"{args} raises {error!r}")
                    continue
                if FUNCTIONS[original] in WRITERS:
                    actual = np.array(_plain(actual), order="C")
                    expected = expected.copy(order="C")
                difference = _differ(expected, actual)
                if difference:
                    kind = f"{x.dtype.name}{x.shape}{'' if x.flags.c_contiguous else ' strided'}"
                    wrong.append(f"{kind} of {args[1:]!r:.60}: {difference:.300}")

    assert answered
    assert [] == wrong
