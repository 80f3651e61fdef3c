"""What eager execution refuses because of elements, compiled code refuses with the same error.

Found by walking the code that raises: every function with a `raise` under a condition on elements
has a case here, or a reason why none is needed, and so has every row that may refuse. A compiled
call may also break there and run eagerly; it must not go on with values that are refused.
"""

import ast
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import dynajit as dj
from dynajit.ops.table.op_table import TABLE, Kind

F = dj.nn.functional
T = dj.tensor
NAN: Final = float("nan")
ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = (
    "dynajit/ops", "dynajit/nn", "dynajit/distributions", "eager", "dynajit/namespaces",
    "dynajit/compat", "dynajit/driver", "dynajit",
)  # fmt: skip

#: Every program as native code, in every way: takes minutes.
EVERY: Final = bool(os.environ.get("DYNAJIT_EVERY_REFUSAL"))

Case = tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]

ONES, EYE, X = dj.ones(3), dj.eye(2), T([0.5, 1.5, 2.5])
I, J = T([0, 2]), T([0, 7])
ROWS = dj.ones(2, 3)
BROKEN = EYE * NAN
ADAPTIVE = dj.nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])


def of_row(name: str, **attributes: Any) -> Callable[..., Any]:
    """A call of a row, whose result is read."""
    return lambda *operands: TABLE[name](*operands, **attributes)


def _powers(x: dj.Tensor, numbers: list[int]) -> dj.Tensor:
    for number in numbers:
        x = x**number
    return x


#: "file: function" or the name of a row -> a program, arguments that it takes, and that it refuses.
CASES: Final[dict[str, Case]] = {
    # -- rows
    "index_select": (of_row("index_select", dim=0), (X, I), (X, J)),
    "gather": (of_row("gather", dim=0), (X, I), (X, J)),
    "index": (of_row("index", dims=(0,)), (X, I.reshape(1, -1)), (X, J.reshape(1, -1))),
    "index_add": (of_row("index_add", dim=0), (X, I, X[:2]), (X, J, X[:2])),
    "index_put": (of_row("index_put", dims=(0,)), (X, I.reshape(1, -1), X[:2]),
                  (X, J.reshape(1, -1), X[:2])),
    "index_accumulate": (of_row("index_accumulate", dims=(0,)), (X, I.reshape(1, -1), X[:2]),
                         (X, J.reshape(1, -1), X[:2])),
    "scatter": (of_row("scatter", dim=0), (X, I, X[:2]), (X, J, X[:2])),
    "scatter_add": (of_row("scatter_add", dim=0), (X, I, X[:2]), (X, J, X[:2])),
    "scatter_reduce": (of_row("scatter_reduce", dim=0, mode="amax"), (X, I, X[:2]),
                       (X, J, X[:2])),
    "floor_divide": (of_row("floor_divide"), (I, T([1, 2])), (I, T([1, 0]))),
    "floored_quotient": (of_row("floored_quotient"), (I, T([1, 2])), (I, T([1, 0]))),
    "remainder": (of_row("remainder"), (I, T([1, 2])), (I, T([1, 0]))),
    "fmod": (of_row("fmod"), (I, T([1, 2])), (I, T([1, 0]))),
    "cholesky": (of_row("cholesky"), (EYE,), (-EYE,)),
    "linear_solve": (of_row("linear_solve"), (EYE, EYE), (0 * EYE, EYE)),
    "inverse": (of_row("inverse"), (EYE,), (0 * EYE,)),
    "pseudo_inverse": (lambda x: dj.linalg.pinv(x), (EYE,), (BROKEN,)),
    "cofactors": (of_row("cofactors"), (EYE,), (BROKEN,)),
    "singular_values": (lambda x: dj.linalg.svd(x).S, (EYE,), (BROKEN,)),
    "general_eigen": (lambda x: dj.linalg.eigvals(x), (EYE,), (BROKEN,)),
    # -- composites of them
    "embedding": (lambda w, i: F.embedding(i, w), (ROWS, T([0, 1])), (ROWS, J)),
    "nll_loss": (lambda x, i: F.nll_loss(x, i), (ROWS, I), (ROWS, J)),
    "cross_entropy": (lambda x, i: F.cross_entropy(x, i), (ROWS, I), (ROWS, J)),
    # -- the same, where generated code would not look at the indices
    "a uniform table": (lambda i: dj.ones(3)[i], (I,), (J,)),
    "a uniform table for gather": (lambda i: dj.zeros(3).gather(0, i), (I,), (J,)),
    "a uniform table for embedding": (lambda i: F.embedding(i, dj.ones(3, 2)), (I,), (J,)),
    "one element": (lambda x, i: x[i], (T([1.0]), T([0, 0])), (T([1.0]), J)),
    "an expanded element": (lambda x, i: x.expand(3, 2)[i], (T(1.0), I), (T(1.0), J)),
    "a tensor without dims": (lambda x, i: x.gather(0, i), (T(1.0), T(0)), (T(1.0), T(5))),
    "a write without dims": (lambda x, i: x.scatter(0, i, 2.0), (T(1.0), T(0)), (T(1.0), T(5))),
    "a product with zero": (lambda x, i: x[i] * 0, (T([4, 5, 6]), I), (T([4, 5, 6]), J)),
    "known probabilities": (lambda i: F.nll_loss(dj.ones(2, 3), i), (I,), (J,)),
    "a part of the result": (lambda x, i: x[i][:1] + 1, (X, I), (X, J)),
    "an element of the result": (lambda x, i: x[i][0], (X, I), (X, J)),
    "a part of a quotient": (lambda x, i: (x // i)[:1] + 1, (I, T([1, 2])), (I, T([1, 0]))),
    "an index of an index": (lambda x, i, j: x[i][j], (X, I, T([0])), (X, J, T([0]))),
    "a result that is overwritten": (lambda x, i: x[i].fill_(3.0), (X, I), (X, J)),
    "a result of which the size is read": (lambda x, i: dj.zeros(x[i].shape[0]), (X, I), (X, J)),
    "a result without elements": (
        lambda x, i: x[:, :0][i], (ROWS, T([0, 1])), (ROWS, J)),
    "a write without elements": (
        lambda x, i: x[:, :0].index_add(0, i, x[:, :0]), (ROWS, T([0, 1])), (ROWS, J)),
    "an arm that is not chosen": (lambda x, i: dj.where(x > 9, x // i, x),
                                  (I, T([1, 2])), (I, T([1, 0]))),
    # -- library functions
    "dynajit/ops/functions/arrangement/arrangement.py: tensor_split": (
        lambda x, i: dj.tensor_split(x, i), (X, T([1, 2])), (X, T([[1, 2]]))),
    "dynajit/ops/functions/creation/creation.py: _check_distribution": (
        lambda p: dj.multinomial(p, 1), (X,), (X - 1,)),
    "multinomial of zeros": (lambda p: dj.multinomial(p, 1, True), (X,), (X * 0,)),
    "dynajit/ops/functions/networks/embedding.py: _check_offsets": (
        lambda i, o, w: F.embedding_bag(i, w, o), (I, T([0, 1]), dj.ones(3, 2)),
        (I, T([1, 1]), dj.ones(3, 2))),
    "the last offset": (
        lambda i, o, w: F.embedding_bag(i, w, o), (I, T([0, 1]), dj.ones(3, 2)),
        (I, T([0, 3]), dj.ones(3, 2))),
    "dynajit/ops/functions/networks/margin_losses.py: gaussian_nll_loss": (
        lambda a, b, v: F.gaussian_nll_loss(a, b, v), (X, ONES, X), (X, ONES, -X)),
    "no classes": (
        lambda i: F.one_hot(i), (I,), (T([], dtype=dj.int64),)),
    "dynajit/ops/functions/networks/nn.py: _check_classes": (lambda i: F.one_hot(i, 3), (I,), (J,)),
    "dynajit/ops/functions/networks/quantization.py: fake_quantize_per_channel_affine": (
        lambda x, points: dj.fake_quantize_per_channel_affine(x, dj.ones(3), points, 0, -8, 7),
        (X, T([0, 7, -8], dtype=dj.int32)), (X, T([0, 8, 0], dtype=dj.int32))),
    "a negative power": (lambda x, n: x**n, (I, 2), (I, -2)),
    "a negative power in turns of a loop": (_powers, (I, [1] * 12), (I, [1] * 11 + [-1])),
    "a negative class": (lambda i: F.one_hot(i, 3), (I,), (-I,)),
    "dynajit/ops/functions/matrices/reported_failures.py: inv_ex": (
        lambda x: dj.linalg.inv_ex(x, check_errors=True), (EYE,), (0 * EYE,)),
    "dynajit/ops/functions/matrices/reported_failures.py: cholesky_ex": (
        lambda x: dj.linalg.cholesky_ex(x, check_errors=True), (EYE,), (-EYE,)),
    "dynajit/ops/functions/matrices/reported_failures.py: solve_ex": (
        lambda x: dj.linalg.solve_ex(x, x, check_errors=True), (EYE,), (0 * EYE,)),
    "dynajit/ops/functions/matrices/reported_failures.py: lu_factor_ex": (
        lambda x: dj.linalg.lu_factor_ex(x, check_errors=True), (EYE,), (0 * EYE,)),
    "dynajit/ops/functions/arrangement/scatter.py: masked_scatter": (
        lambda x, s: x.masked_scatter(x > 0, s), (-X, X[:0]), (X, X[:0])),
    "a source with too few elements": (
        lambda x: x.masked_scatter(x > 0, dj.ones(2)), (X - 1,), (X,)),
    "dynajit/ops/functions/arrangement/search.py: bincount": (
        lambda i: dj.bincount(i), (I,), (-I,)),
    "dynajit/ops/functions/arrangement/search.py: _range": (
        lambda x: dj.histc(x, 3), (X,), (X * NAN,)),
    "edges": (
        lambda x: dj.histogram(x, 3), (X,), (X * NAN,)),
    "dynajit/ops/functions/matrices/linalg.py: given_permutation": (
        lambda x, p: dj.lu_unpack(x, p)[0], (EYE, T([2, 2], dtype=dj.int32)),
        (EYE, T([1, 7], dtype=dj.int32))),
    "a pivot that is no row": (
        lambda x, p: dj.lu_unpack(x, p)[0], (EYE, T([1, 2], dtype=dj.int32)),
        (EYE, T([0, 2], dtype=dj.int32))),
    "dynajit/ops/functions/arrangement/segment.py: _check": (
        lambda x, n: dj.segment_reduce(x, "sum", lengths=n), (X, T([1, 2])), (X, T([1, 3]))),
    "dynajit/ops/functions/shapes/shape.py: _counts_to_positions": (
        lambda x, n: x.repeat_interleave(n), (X, T([1, 2, 0])), (X, T([1, -2, 0]))),
    "dynajit/ops/functions/shapes/shape.py: _positions_of_counts": (
        lambda x, n: x.repeat_interleave(n, output_size=3), (X, T([1, 2, 0])), (X, T([1, 3, 0]))),
    "counts with a sum": (
        lambda x, n: x.repeat_interleave(n, output_size=3), (X, T([1, 2, 0])), (X, T([5, -2, 0]))),
    "dynajit/ops/functions/arrangement/statistics.py: _observation_weights": (
        lambda x, w: dj.cov(x, fweights=w), (ROWS, T([1, 2, 1])), (ROWS, T([1, -2, 1]))),
    "dynajit/ops/rows/symmetric_factors.py: ldl_factor_ex": (
        lambda x: dj.linalg.ldl_factor_ex(x, check_errors=True), (EYE,), (0 * EYE,)),
    "dynajit/nn/ctc.py: _check": (
        lambda t: F.ctc_loss(dj.zeros(5, 1, 3), t, T([5]), T([2])), (T([[1, 2]]),), (T([[1, 9]]),)),
    "dynajit/nn/ctc.py: _lengths": (
        lambda n: F.ctc_loss(dj.zeros(5, 1, 3), T([[1, 2]]), T([5]), n), (T([2]),), (T([-2]),)),
    "dynajit/nn/sequences.py: _check_lengths": (
        lambda x, n: dj.nn.utils.rnn.pack_padded_sequence(x, n)[0],
        (dj.ones(3, 2, 1), T([3, 2])), (dj.ones(3, 2, 1), T([3, -2]))),
    "dynajit/nn/utils/gradients_and_vectors.py: get_total_norm": (
        lambda x: dj.nn.utils.get_total_norm([x], error_if_nonfinite=True), (X,), (X * NAN,)),
    "a bool tensor that must hold": (
        lambda x: dj._check_tensor_all(x > 0), (X,), (-X,)),
    "a step of 0": (lambda x: dj.arange(0.0, 3.0, x), (T(1.0),), (T(0.0),)),
    "dynajit/ops/functions/signals/spectrogram.py: _signal": (
        lambda x, w: dj.istft(x, 4, 2, window=w), (dj.ones(3, 3, dtype=dj.complex64), dj.ones(4)),
        (dj.ones(3, 3, dtype=dj.complex64), dj.zeros(4))),
    "dynajit/nn/layers/adaptive.py: forward": (
        lambda x, i: ADAPTIVE(x, i).loss, (dj.ones(2, 4), I), (dj.ones(2, 4), J)),
    "dynajit/nn/ctc.py: ctc_loss": (
        lambda n: F.ctc_loss(dj.zeros(5, 1, 3), T([[1, 2]]), n, T([2])), (T([5]),), (T([6]),)),
    "dynajit/nn/ctc.py: _padded": (
        lambda n: F.ctc_loss(dj.zeros(5, 1, 3), T([[1, 2]]), T([5]), n), (T([2]),), (T([3]),)),
    "dynajit/distributions/binomial.py: _only_count": (
        lambda n: dj.distributions.Binomial(n, X / 3).entropy(), (T([2.0, 2.0, 2.0]),),
        (T([2.0, 1.0, 2.0]),)),
    "dynajit/distributions/kl.py: _binomial_binomial": (
        lambda n: dj.distributions.kl_divergence(
            dj.distributions.Binomial(n, X / 3), dj.distributions.Binomial(T(2.0), X / 3)),
        (T(2.0),), (T(1.0),)),
    "dynajit/namespaces/masked.py: median": (
        lambda x, m: dj.masked.median(x, 0, mask=m), (I, I > 0), (I, I > 9)),
    "eager/sparse/functions.py: _check_bounds": (
        lambda i: dj.sparse_coo_tensor(i.reshape(1, 2), X[:2], (3,)).to_dense(), (I,), (J,)),
    "eager/tensor/count_draws.py: poisson": (lambda x: dj.poisson(x), (X,), (-X,)),
    "eager/tensor/count_draws.py: binomial": (lambda x: dj.binomial(X, x), (X / 3,), (X,)),
}  # fmt: skip

_OF_OBJECTS: Final = "asks what the array is, not what it holds"
_RUNS_EAGERLY: Final = "of a call that is never captured"
_DISTRIBUTIONS: Final = "tests/distributions/test_compiled_checks.py"

#: What the walk finds and has no case here, and why.
LEFT_OUT: Final = {
    "symmetric_eigen": "no matrix is known for which the method does not converge",
    "dynajit/ops/rows/rounding.py: _refuse_zero": "rows that divide call it",
    "dynajit/distributions/continuous_bernoulli.py: _refuse_what_is_no_probability": _DISTRIBUTIONS,
    "dynajit/distributions/distribution.py: _check_parameters": _DISTRIBUTIONS,
    "dynajit/distributions/distribution.py: _validate_sample": _DISTRIBUTIONS,
    "dynajit/distributions/geometric.py: _refuse_impossible_success": _DISTRIBUTIONS,
    "dynajit/distributions/uniform.py: __init__": _DISTRIBUTIONS,
    "dynajit/distributions/wishart.py: _check_freedom": _DISTRIBUTIONS,
    "dynajit/ops/functions/arrays/masked.py: _require_some": "of arrays: NumPy refuses them",
    "dynajit/ops/functions/arrays/shapes.py: value_for_element": "of arrays: NumPy refuses it",
    "dynajit/ops/functions/arrays/places.py: _within": "of arrays: NumPy refuses them",
    "dynajit/ops/functions/arrays/statistics.py: average": "of arrays: NumPy refuses them",
    "dynajit/ops/functions/arrays/statistics.py: digitize": "bins that fall are left to NumPy",
    "eager/tape/anomaly.py: check": "of backward, in eager execution",
    "eager/tape/node.py: unpack": "of backward, in eager execution",
    "eager/files/reading.py: _storage": _RUNS_EAGERLY,
    "eager/operations/duals.py: _windowed": _RUNS_EAGERLY,
    "eager/tensor/convert.py: _whole": "of Python's data, which is not a tensor",
    "eager/backward/gradcheck.py: _check": _RUNS_EAGERLY,
    "eager/operations/writes/refusals.py: check_writable": _OF_OBJECTS,
    "eager/operations/writes/assignment.py: set_item": _OF_OBJECTS,
    "eager/operations/writes/assignment.py: _set_advanced": _OF_OBJECTS,
    "eager/operations/writes/history.py: apply": _OF_OBJECTS,
    "eager/operations/writes/commit.py: array_for": _OF_OBJECTS,
    "eager/operations/writes/refusals.py: refuse_partial_overlap": _OF_OBJECTS,
    "eager/operations/layout.py: view": _OF_OBJECTS,
    "eager/operations/outputs.py: _check_resized_view": _OF_OBJECTS,
    "eager/modes/random.py: set_state": _RUNS_EAGERLY,
    "eager/tensor/tensor.py: numpy": _OF_OBJECTS,
    "eager/tensor/tensor.py: __cuda_array_interface__": _OF_OBJECTS,
    "eager/tensor/tensor.py: __deepcopy__": _OF_OBJECTS,
}


# ---------------------------------------------------------------------------------------------
# the walk

#: Calls that say something of elements.
ASKING: Final = {"holds", "occurs", "are_met", "as_numpy", "item", "tolist"}

#: What is asked of a tensor's elements, and of other things by the same name.
MEASURING: Final = {"all", "any", "min", "max"}

#: Attributes of tensors that are the elements.
HELD: Final = {"array", "_memory"}

#: What a file has that asks.
WORDS: Final = (*(f"{name}(" for name in ASKING | MEASURING), ".array", "._memory")

#: Attributes of arrays that say nothing of elements.
OF_ARRAYS: Final = {"shape", "size", "ndim", "dtype", "strides", "flags", "itemsize", "nbytes"}


def asks_elements(node: ast.AST, known: set[str]) -> bool:
    """True if an expression depends on elements of a tensor.

    Args:
        known: names of values that do.
    """
    if isinstance(node, ast.Attribute) and node.attr in OF_ARRAYS:
        return False
    if isinstance(node, ast.Name):
        return node.id in known
    if isinstance(node, ast.Attribute) and node.attr in HELD:
        return True
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in ASKING | MEASURING:
            return True
        if isinstance(function, ast.Name) and function.id in ASKING:
            return True
    return any(asks_elements(child, known) for child in ast.iter_child_nodes(node))


def refuses_elements(function: ast.FunctionDef) -> bool:
    """True if a function raises under a condition on elements."""
    inner = list(ast.walk(function))
    if not any(isinstance(node, ast.Raise) for node in inner):
        return False
    known: set[str] = set()
    for node in inner:
        if isinstance(node, ast.Assign) and asks_elements(node.value, known):
            names = (n for target in node.targets for n in ast.walk(target))
            known |= {n.id for n in names if isinstance(n, ast.Name)}
    return any(
        isinstance(node, ast.If)
        and any(isinstance(part, ast.Raise) for step in node.body for part in ast.walk(step))
        and asks_elements(node.test, known)
        for node in inner
    )


def refusing_functions() -> Iterator[str]:
    for folder in FOLDERS:
        files = (
            (ROOT / folder).glob("*.py") if folder == "dynajit" else (ROOT / folder).rglob("*.py")
        )
        for file in sorted(files):
            text = file.read_text()
            if not any(word in text for word in WORDS):
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef) and refuses_elements(node):
                    yield f"{file.relative_to(ROOT).as_posix()}: {node.name}"


def refusing_rows() -> Iterator[str]:
    for op in TABLE:
        indexes = op.kind is Kind.MOVEMENT and {"index", "indices"} & set(op.inputs)
        divides = op.kind is Kind.POINTWISE and op.rule.divides
        refuses = op.kind is Kind.EXTERN and op.rule.refuses
        if indexes or divides or refuses or op.kind is Kind.SCATTER:
            yield op.name


def test_every_function_that_refuses_elements_has_a_case() -> None:
    found = set(refusing_functions())
    known = {name for name in {**CASES, **LEFT_OUT} if ": " in name}

    assert set() == found - known
    assert set() == known - found


def test_every_row_that_may_refuse_has_a_case() -> None:
    assert set() == set(refusing_rows()) - CASES.keys() - LEFT_OUT.keys()


#: Functions that do something else where operations are recorded, and what: no check is left out.
RECORDING: Final = {
    "dynajit/autograd/products.py: _rows_of": "a mapped call is part of the graph",
    "dynajit/func.py: jacfwd": "a Jacobian by rows, not by columns",
    "dynajit/func.py: transformed": "what `jacfwd` returns",
    "dynajit/amp/grad_scaler.py: step": "what is found is chosen by, not asked for",
    "dynajit/distributions/constraints.py: are_met": "a factorization checks in place of its steps",
    "dynajit/distributions/wishart.py: _check_freedom": "a warning",
    "dynajit/ops/functions/matrices/norm.py: cond": "a singular matrix is refused, and runs again",
    "dynajit/ops/functions/matrices/matrix.py: _is_one_row": "a row or its parts, both checked",
    "dynajit/ops/calls/arguments.py: category_of": "a number that is known at run time",
    "dynajit/ops/calls/arguments.py: is_number": "a number that is known at run time",
    "dynajit/ops/calls/arguments.py: known_number": "a number as a tensor",
    "dynajit/ops/calls/contents.py: holds": "what records checks",
    "dynajit/ops/calls/contents.py: occurs": "what records checks",
    "dynajit/ops/functions/creation/creation.py: _finish": "a refusal",
    "dynajit/ops/functions/creation/creation.py: reserve": "a refusal",
    "dynajit/ops/functions/arrangement/subscript.py: is_known_number": "a number as a tensor",
    "dynajit/utils/checkpoint.py: checkpoint": "backward is planned ahead",
    "dynajit/utils/flop_counter.py: _watch": "what is counted",
}


def test_no_function_leaves_out_a_check_where_operations_are_recorded() -> None:
    found = set()
    for file in sorted((ROOT / "dynajit").rglob("*.py")):
        text = file.read_text()
        if "is_recording()" not in text or file.name == "dispatch.py":
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and "is_recording()" in ast.unparse(node):
                found.add(f"{file.relative_to(ROOT).as_posix()}: {node.name}")

    assert set(RECORDING) == found


# ---------------------------------------------------------------------------------------------
# the calls


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """The error of a call, or that there is none."""
    dj.manual_seed(0)
    try:
        function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def assert_as_eager(function: Callable[..., Any], case: Case, **options: Any) -> None:
    """A compiled program refuses in its first call, and after one that was good."""
    _, good, bad = case
    expected = outcome(function, bad)
    assert "no error" == outcome(function, good)
    assert "no error" != expected

    compiled = dj.compile(function, **options)

    assert [expected, "no error", expected] == [outcome(compiled, a) for a in (bad, good, bad)]


SOME_OF_CONSTANTS: Final = ("gather", "index_put", "floor_divide", "nll_loss", "a uniform table")


def backend(name: str) -> str:
    """Generated code is what rows are about; what library functions ask is captured for any."""
    return "numpy" if ": " in name and not EVERY else "native"


@pytest.mark.filterwarnings("ignore:.*runs on the NumPy backend")
@pytest.mark.parametrize("name", CASES)
def test_compiled_calls_refuse_what_eager_ones_refuse(name: str) -> None:
    assert_as_eager(CASES[name][0], CASES[name], backend=backend(name))


@pytest.mark.filterwarnings("ignore:.*runs on the NumPy backend")
@pytest.mark.parametrize("name", CASES)
def test_results_that_nobody_reads_are_refused_for_sizes_that_vary(name: str) -> None:
    function = CASES[name][0]

    def dropped(*arguments: Any) -> Any:
        function(*arguments)
        return arguments[0] + 1

    assert_as_eager(dropped, CASES[name], dynamic=True, backend=backend(name))


@pytest.mark.filterwarnings("ignore:.*runs on the NumPy backend")
@pytest.mark.parametrize("name", CASES)
def test_constants_are_refused(name: str) -> None:
    function, good, bad = CASES[name]
    if not EVERY and ": " not in name and name not in SOME_OF_CONSTANTS:
        pytest.skip("of rows, some")
    expected = outcome(function, bad)

    assert expected == outcome(dj.compile(lambda: function(*bad), backend=backend(name)), ())
    assert "no error" == outcome(dj.compile(lambda: function(*good), backend=backend(name)), ())
