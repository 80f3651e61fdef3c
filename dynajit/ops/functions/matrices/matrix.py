"""Library functions of linear algebra, over the row `matmul`.

Contract: the first parameter is the tensor, so each function is a method of `TensorMethods`, too.
Operands of products have one dtype, as in PyTorch. Vectors are reshaped to matrices here.
"""

import functools
import itertools
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dynajit.core.errors import (
    ArgumentError,
    ArgumentRuntimeError,
    ArgumentValueError,
    DTypeError,
    InvalidValueError,
    ShapeError,
)
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import agree, equals, shapes_agree
from dynajit.core.types.tensor_layouts import strided
from dynajit.core.types.value_types import numel
from dynajit.ops.calls.arguments import (
    cast,
    coefficient,
    common_dtype,
    describe_tensor,
    is_integer,
    size,
    unchanged_by,
)
from dynajit.ops.calls.arguments import is_tensor as is_tensor_operand
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.placing import contiguous
from dynajit.ops.calls.public import InPlace, Out, public
from dynajit.ops.functions.elements.elementwise import add, mul
from dynajit.ops.functions.shapes.shape import reshape, transpose, unsqueeze
from dynajit.ops.rows.composites import as_rows
from dynajit.ops.table.dispatch import is_recording
from dynajit.ops.table.op_table import TABLE, Autocast
from dynajit.ops.table.type_rules import normalize_dim

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


@public(also=("linalg.matmul",), out=Out.SAME_DTYPE, method=True, sparse=True)
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def matmul(input: Any, other: Any) -> Any:
    """Matrix product with the rules of `@`.

    Two vectors give a zero-dim tensor; a vector counts as a row on the left and as a column on
    the right; more than two dims are batches, which broadcast.

    Raises:
        ShapeError: inner sizes or batches do not fit, or an operand has no dims.
        DTypeError: dtypes differ.
    """
    if len(input.shape) == 2 and len(other.shape) == 2:  # what `_product` comes to
        return TABLE.matmul(input, other)
    return _product(input, other)


def _product(input: Any, other: Any) -> Any:
    """`matmul` in the dtype of its operands, also under autocast."""
    a, b = tuple(input.shape), tuple(other.shape)
    if not a or not b:
        raise ShapeError(
            f"matmul(a: {describe_tensor(input)}, b: {describe_tensor(other)}): both arguments "
            "to matmul need to be at least 1D."
        )
    if len(a) == 2 and len(b) == 1 and a[1] == b[0] and _is_one_row(input, other):
        return TABLE.linear(other, input, None)
    left = TABLE.reshape(input, shape=(1, a[0])) if len(a) == 1 else input
    right = TABLE.reshape(other, shape=(b[0], 1)) if len(b) == 1 else other
    if len(a) > 2 and len(b) <= 2:
        # One large product instead of many small ones, and a gradient without a batch to sum.
        product = TABLE.matmul(as_rows(TABLE, left), right)
        return TABLE.reshape(product, shape=(*a[:-1], *(b[1:] if len(b) == 2 else ())))
    product = TABLE.matmul(left, right)
    if len(a) > 1 and len(b) > 1:
        return product
    shape = tuple(product.shape)
    rows = () if len(a) == 1 else shape[-2:-1]
    columns = () if len(b) == 1 else shape[-1:]
    return TABLE.reshape(product, shape=(*shape[:-2], *rows, *columns))


def _is_one_row(matrix: Any, vector: Any) -> bool:
    """Whether their product is the row `linear`, a third of the nodes on the tape: graphs have the
    parts of either."""
    is_strided = matrix.layout is strided and vector.layout is strided
    return not is_recording() and is_strided and matrix.dtype is vector.dtype


def _of_rank(name: str, operands: Sequence[tuple[Any, int]]) -> None:
    for i, (x, rank) in enumerate(operands):
        if len(x.shape) != rank:
            raise ShapeError(
                f"{name}: argument {i} must be {rank}-D, but has shape {list(x.shape)}."
            )


@public(out=Out.SAME_DTYPE, method=True, sparse=True)
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def mm(input: Any, mat2: Any) -> Any:
    """Product of two matrices."""
    _of_rank("mm", [(input, 2), (mat2, 2)])
    return TABLE.matmul(input, mat2)


@public(out=Out.SAME_DTYPE)
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def spmm(input: Any, mat2: Any) -> Any:
    """Product of two matrices: PyTorch's name for a sparse first one."""
    _of_rank("spmm", [(input, 2), (mat2, 2)])
    return TABLE.matmul(input, mat2)


@public(out=Out.SAME_DTYPE, method=True, sparse=True)
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def bmm(input: Any, mat2: Any) -> Any:
    """Products of two batches of matrices, (b, n, k) and (b, k, m), without broadcasting."""
    _of_rank("bmm", [(input, 3), (mat2, 3)])
    if not agree(input.shape[0], mat2.shape[0]):
        raise ShapeError(f"bmm: expected one batch size, got {input.shape[0]} and {mat2.shape[0]}.")
    return TABLE.matmul(input, mat2)


@public(out=Out.SAME_DTYPE, method=True, sparse=True)
def mv(input: Any, vec: Any) -> Any:
    """Product of a matrix and a vector."""
    _of_rank("mv", [(input, 2), (vec, 1)])
    return _product(input, vec) if input.device is CPU else matmul(input, vec)


@public(out=Out.SAME_DTYPE, method=True)
def dot(input: Any, tensor: Any) -> Any:
    """Sum of the products of two vectors of one length."""
    _of_rank("dot", [(input, 1), (tensor, 1)])
    if not shapes_agree(input.shape, tensor.shape):
        raise ShapeError(
            f"dot: inconsistent tensor size, expected {input.shape[0]} elements, got "
            f"{tensor.shape[0]}."
        )
    return _product(input, tensor)


@public(method=True)
def outer(input: Any, vec2: Any) -> Any:
    """All products of the elements of two vectors, (n, m)."""
    _of_rank("outer", [(input, 1), (vec2, 1)])
    return TABLE.mul(unsqueeze(input, 1), vec2)


def plus_product(input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """beta * input + alpha * product, in the shape and the dtype of the product.

    Raises:
        DTypeError: input has another dtype.
        ShapeError: input does not broadcast to the product.
    """
    alpha, beta = coefficient(alpha, product.dtype), coefficient(beta, product.dtype)
    scaled = product if alpha == 1 else cast(mul(product, alpha), product.dtype)
    if beta == 0:
        return unchanged_by(scaled, input)
    base = input if beta == 1 else cast(mul(input, beta), input.dtype)
    if input.dtype is not product.dtype:
        raise DTypeError(
            f"expected input of dtype {product.dtype.name} to add to a product, got "
            f"{input.dtype.name}.  Cast one with .to(dtype)."
        )
    result = contiguous(add(base, scaled))
    if not shapes_agree(result.shape, product.shape):
        raise ShapeError(
            f"input {list(input.shape)} does not broadcast to the product {list(product.shape)}."
        )
    return result


@public(out=Out.SAME_DTYPE, in_place=InPlace.METHOD, method=True)
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (mat1 @ mat2); with beta 0 input is not read."""
    return plus_product(input, mm(mat1, mat2), beta, alpha)


@public(out=Out.SAME_DTYPE, in_place=InPlace.BOTH, method=True)
@autocast(cuda=Autocast.LOWER)
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (mat @ vec)."""
    return plus_product(input, mv(mat, vec), beta, alpha)


@public(out=Out.SAME_DTYPE, in_place=InPlace.METHOD, method=True)
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (batch1 @ batch2), batched."""
    return plus_product(input, bmm(batch1, batch2), beta, alpha)


def _alike_along(x: "TensorMethods", dims: Sequence[int], other: Any, others: Sequence[int]) -> Any:
    """x, summed along those of `dims` that meet a dim of size 1."""
    if len(dims) != len(others):
        raise ShapeError(
            f"tensordot: {len(dims)} dims of a meet {len(others)} of b.  Expected as many."
        )
    longer = []
    for d, e in zip(dims, others, strict=True):
        if agree(x.shape[d], other.shape[e]) or equals(x.shape[d], 1):
            continue
        if not equals(other.shape[e], 1):
            raise ShapeError(
                f"tensordot: dims that meet have the sizes {x.shape[d]} and {other.shape[e]}.  "
                "Expected equal sizes, or 1."
            )
        longer.append(d)
    return cast(TABLE.sum(x, dim=tuple(sorted(longer)), keepdim=True), x.dtype) if longer else x


@public(out=Out.SAME_DTYPE, numpy_names=False)
@autocast(cuda=Autocast.WIDEST)
def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """Products summed over the last `dims` dims of a and the first of b, or over listed dims.

    A listed dim of size 1 is as long as the one that it meets.

    Raises:
        ShapeError: two dims that meet have other sizes, or there are not so many.
        ArgumentRuntimeError: `dims` is no number of dims and no pair of lists.
    """
    if not is_integer(dims) and not (isinstance(dims, (tuple, list)) and len(dims) == 2):
        raise ArgumentRuntimeError(
            f"tensordot(dims={dims!r}): expected a number of dims, or two lists of dims."
        )
    if is_integer(dims):
        dims = size(dims, "tensordot")
        if not 0 <= dims <= min(len(a.shape), len(b.shape)):
            raise ShapeError(
                f"tensordot: dims={dims} of tensors with {len(a.shape)} and {len(b.shape)} dims.  "
                "Expected 0 or more, and no more than each has."
            )
        left = list(range(len(a.shape) - dims, len(a.shape)))
        right = list(range(dims))
    else:
        left = [normalize_dim(d, len(a.shape), "tensordot") for d in dims[0]]
        right = [normalize_dim(d, len(b.shape), "tensordot") for d in dims[1]]
    a, b = _alike_along(a, left, b, right), _alike_along(b, right, a, left)
    free_a = [d for d in range(len(a.shape)) if d not in left]
    free_b = [d for d in range(len(b.shape)) if d not in right]
    inner = numel(tuple(a.shape[d] for d in left))
    rows = tuple(a.shape[d] for d in free_a)
    columns = tuple(b.shape[d] for d in free_b)
    matrix_a = reshape(TABLE.permute(a, dims=(*free_a, *left)), (numel(rows), inner))
    matrix_b = reshape(TABLE.permute(b, dims=(*right, *free_b)), (inner, numel(columns)))
    return reshape(mm(matrix_a, matrix_b), (*rows, *columns))


# ---------------------------------------------------------------------------------------------
# einsum


@public(out=Out.ABSENT, numpy_names=False)
def einsum(equation: Any, *operands: Any) -> Any:
    """Sums of products of elements, by subscripts such as "bij,bjk->bik".

    Instead of an equation, each operand may be followed by a list of its subscripts (0 to 51, or
    `...`), and the last of them by that of the result: `einsum(a, [0, 1], b, [1, 2], [0, 2])`.

    Repeated subscripts take a diagonal; "..." stands for dims that broadcast; without "->" the
    result has the subscripts that occur once, in alphabetical order. Operands are contracted from
    left to right, each step one matrix product. Sums of bools and integers are int64, as by `sum`;
    products of them have their dtype.

    Raises:
        ArgumentError: the equation is malformed or does not fit the operands.
        ShapeError: a subscript has two sizes.
        InvalidValueError: a number in a list of subscripts is not in [0, 52).
    """
    if not isinstance(equation, str):
        equation, operands = _as_equation((equation, *operands))
    given = (
        list(operands[0])
        if len(operands) == 1 and not is_tensor_operand(operands[0])
        else (list(operands))
    )
    ranks = tuple(len(x.shape) for x in given)
    if not isinstance(equation, str):
        raise ArgumentError(f"einsum: the equation is {equation!r}.  Expected a text.")
    terms, output = _parse_equation(equation.replace(" ", ""), ranks)
    pairs = [_take_diagonals(x, term) for x, term in zip(given, terms, strict=True)]
    _check_sizes(equation, pairs)
    result, labels = pairs[0]
    for i, (x, term) in enumerate(pairs[1:], 2):
        later = set(output).union(*(labels_ for _, labels_ in pairs[i:]))
        result, labels = _contract(result, labels, x, term, later)
    result, labels = _sum_out(result, labels, set(output))
    missing = [label for label in output if label not in labels]
    if missing:
        raise ArgumentRuntimeError(
            f"einsum({equation!r}): {missing[0]!r} of the output is in no input."
        )
    return TABLE.permute(result, dims=tuple(labels.index(label) for label in output))


def _as_equation(given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """An equation and operands, of operands with lists of subscripts."""
    pairs = len(given) // 2 * 2
    terms = ",".join(_letters(labels) for labels in given[1:pairs:2])
    output = f"->{_letters(given[-1])}" if len(given) % 2 else ""
    return terms + output, given[:pairs:2]


def _letters(labels: Any) -> str:
    found = []
    for label in labels:
        number = label if label is Ellipsis else size(label, "einsum")
        if number is not Ellipsis and not 0 <= number < len(string.ascii_letters):
            raise InvalidValueError(
                f"einsum(): subscript {number} in subscript list is not within the valid range "
                "[0, 52)."
            )
        # Capital letters first: in the result, where it is not given, numbers are in order.
        found.append("..." if number is Ellipsis else _LETTERS[number])
    return "".join(found)


_LETTERS: Final = string.ascii_uppercase + string.ascii_lowercase


@functools.lru_cache(maxsize=1024)
def _parse_equation(equation: str, ranks: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """Subscripts per operand and of the result; dims of "..." get upper-case digits' labels."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise (ArgumentRuntimeError if ranks else ArgumentValueError)(
            f"einsum({equation!r}): {len(terms)} terms for {len(ranks)} operands."
        )
    for character in equation.replace("->", "").replace("...", "").replace(",", ""):
        if not character.isalpha():
            raise ArgumentRuntimeError(
                f"einsum({equation!r}): invalid subscript {character!r}.  Expected letters."
            )
    if any(term.count("...") > 1 for term in terms):
        raise ArgumentRuntimeError(f"einsum({equation!r}): a term has two ellipses.")
    widths = [rank - len(t.replace("...", "")) for t, rank in zip(terms, ranks, strict=True)]
    for term, width, rank in zip(terms, widths, ranks, strict=True):
        if width < 0 or (width > 0 and "..." not in term):
            raise ArgumentRuntimeError(
                f"einsum({equation!r}): the term {term!r} does not fit an operand with "
                f"{rank} dimensions."
            )
    widest = max((w for t, w in zip(terms, widths, strict=True) if "..." in t), default=0)
    # Private-use characters: they sort after letters and cannot be written by a user.
    batch = "".join(chr(0xE000 + i) for i in range(widest))
    full = tuple(t.replace("...", batch[widest - w :]) for t, w in zip(terms, widths, strict=True))
    if arrow:
        return full, right.replace("...", batch)
    joined = "".join(full)
    once = sorted(c for c in set(joined) if joined.count(c) == 1 and c not in batch)
    return full, batch + "".join(once)


def _take_diagonals(x: "TensorMethods", term: str) -> tuple[Any, str]:
    """x with one dim per subscript: a subscript that occurs twice is a diagonal."""
    while len(set(term)) < len(term):
        label = next(c for c in term if term.count(c) > 1)
        first, second = [i for i, c in enumerate(term) if c == label][:2]
        if not agree(x.shape[first], x.shape[second]):
            raise ShapeError(
                f"einsum: subscript {label!r} is repeated for dims of sizes {x.shape[first]} and "
                f"{x.shape[second]}."
            )
        x = TABLE.diagonal(x, offset=0, dim1=first, dim2=second)
        term = "".join(c for i, c in enumerate(term) if i not in (first, second)) + label
    return x, term


def _check_sizes(equation: str, pairs: list[tuple[Any, str]]) -> None:
    sizes: dict[str, Any] = {}
    for x, term in pairs:
        for label, n in zip(term, x.shape, strict=True):
            known = sizes.setdefault(label, n)
            if known == 1:
                sizes[label] = n
            elif not (isinstance(n, int) and n == 1) and not agree(n, known):
                raise ShapeError(
                    f"einsum({equation!r}): subscript {label!r} has size {n} but was {known} "
                    "before."
                )


def _is_one(n: Any) -> bool:
    return isinstance(n, int) and n == 1


def _sum_out(x: "TensorMethods", term: str, needed: set[str]) -> tuple[Any, str]:
    dims = tuple(i for i, label in enumerate(term) if label not in needed)
    if not dims:
        return x, term
    total = TABLE.sum(x, dim=dims, keepdim=False)
    return total, "".join(label for label in term if label in needed)


def _contract(a: Any, term_a: str, b: Any, term_b: str, later: set[str]) -> tuple[Any, str]:
    """a and b multiplied, summed over the labels that no later operand or the output needs."""
    a, term_a = _sum_out(a, term_a, later | set(term_b))
    b, term_b = _sum_out(b, term_b, later | set(term_a))
    if max(a.dtype.category, b.dtype.category) <= Category.INTEGER:
        common = common_dtype([a, b])  # what was summed out of one of them is int64
        a, b = cast(a, common), cast(b, common)
    sizes_a = dict(zip(term_a, a.shape, strict=True))
    sizes_b = dict(zip(term_b, b.shape, strict=True))
    both = [label for label in term_a if label in sizes_b]
    is_summed = any(label not in later for label in both)
    if not is_summed or any(_is_one(sizes_a[label]) != _is_one(sizes_b[label]) for label in both):
        return _multiply_broadcast(a, term_a, b, term_b, later)
    batch = [label for label in both if label in later]
    inner = [label for label in both if label not in later]
    rows = [label for label in term_a if label not in sizes_b]
    columns = [label for label in term_b if label not in sizes_a]
    shape_of = {**sizes_b, **sizes_a}

    def group(labels: list[str]) -> Any:
        return numel(tuple(shape_of[label] for label in labels))

    def arranged(x: "TensorMethods", term: str, *groups: list[str]) -> Any:
        order = tuple(term.index(label) for label in itertools.chain(batch, *groups))
        shape = (*(shape_of[label] for label in batch), *(group(g) for g in groups))
        return TABLE.reshape(TABLE.permute(x, dims=order), shape=shape)

    product = matmul(arranged(a, term_a, rows, inner), arranged(b, term_b, inner, columns))
    labels = "".join((*batch, *rows, *columns))
    return TABLE.reshape(product, shape=tuple(shape_of[label] for label in labels)), labels


def _multiply_broadcast(
    a: Any, term_a: str, b: Any, term_b: str, later: set[str]
) -> tuple[Any, str]:
    """The general form for labels of size 1 in one operand: multiply elementwise, then sum."""
    labels = term_a + "".join(label for label in term_b if label not in term_a)

    def aligned(x: "TensorMethods", term: str) -> Any:
        order = tuple(term.index(label) for label in labels if label in term)
        sizes = dict(zip(term, x.shape, strict=True))
        return TABLE.reshape(
            TABLE.permute(x, dims=order), shape=tuple(sizes.get(label, 1) for label in labels)
        )

    return _sum_out(TABLE.mul(aligned(a, term_a), aligned(b, term_b)), labels, later)


def matrix_transpose(input: Any) -> Any:
    """The last two dims swapped; a zero-dim tensor stays."""
    if not input.shape:
        return input
    if len(input.shape) < 2:
        raise ShapeError(
            f"mT is only supported on matrices or batches of matrices, got {len(input.shape)}-D."
        )
    return transpose(input, -2, -1)
