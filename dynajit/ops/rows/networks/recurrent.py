"""One direction of one recurrent layer, over all steps, and its derivative, as composite rows.

Contract: `gates` holds what each step adds to its product with the hidden state: input times
weight plus biases, for all steps, (T, B, G), or packed (N, G) with `batch_sizes`: step t has its
first `batch_sizes[t]` sequences only, one step after the other. A mode names the cell; its operands
after `gates` and `weight` (G, hidden) are

- "LSTM": hidden (B, P), cell (B, H) and, where P is a projection of H, its matrix (P, H); G = 4H
  in the order input, forget, cell, output;
- "GRU": hidden (B, H) and the bias (H) of the new gate's product; G = 3H in the order reset,
  update, new;
- "RNN_TANH", "RNN_RELU": hidden (B, H); G = H.

The result is the state after each step, for the LSTM the hidden state and the cell side by side.
The derivative computes the gates of all steps again, in one product, and saves only the states.
With `keeps`, an LSTM without a projection and a GRU give 4H further columns (`_activations`), which
the derivative reads instead: it then takes no `gates` (`ir.passes.keep_gates`).
A graph unrolls up to `MOST_STEPS` steps; more of them, or a symbolic number, are one call of the
loop that eager execution has: that of `ops.native._recurrent`, or where this CPU has no products
for it, NumPy's step by step.
Every function here is written once, for rows and for arrays: `_ARRAYS` has the rows they use.

Source: S. Hochreiter and J. Schmidhuber (1997); K. Cho et al., arXiv:1406.1078.
"""

import math
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np

from dynajit.core.arrays import products
from dynajit.core.errors import DTypeError, InternalError
from dynajit.core.types.value_types import Size, TensorType, ValueType
from dynajit.ops.native import _recurrent, _vecmath
from dynajit.ops.rows.array_forms import is_plain
from dynajit.ops.rows.composites import as_rows
from dynajit.ops.rows.linear_algebra import transposed
from dynajit.ops.table import sample_rules
from dynajit.ops.table.families import composite, describe, require_tensor
from dynajit.ops.table.op_table import TABLE

# ---------------------------------------------------------------------------------------------
# the rows that cells are written with, on arrays


class _Arrays:
    """Rows as array functions: the same names and attributes.

    Movements that are not named here are what their rows do with arrays. `cat` leaves its result in
    the order in memory that its operands have.
    """

    cat = staticmethod(lambda *tensors, dim: np.concatenate(tensors, axis=dim))
    matmul = staticmethod(products.matmul)
    tanh = staticmethod(_vecmath.tanh)

    def __getattr__(self, name: str) -> Any:
        function = partial(getattr(TABLE, name).rule.array, np)
        setattr(self, name, function)
        return function

    @staticmethod
    def sigmoid(x: np.ndarray) -> Any:
        result = _vecmath.exp(-x)
        result += 1
        return np.reciprocal(result, out=result)

    @staticmethod
    def relu(x: np.ndarray) -> Any:
        return np.maximum(x, 0)

    @staticmethod
    def gt(x: np.ndarray, other: Any) -> Any:
        return x > other

    @staticmethod
    def where(condition: Any, x: Any, other: Any) -> Any:
        return np.where(condition, x, np.asarray(other, x.dtype))


_ARRAYS: Final = _Arrays()


# ---------------------------------------------------------------------------------------------
# parts


def _along(ops: Any, x: Any, dim: int, first: Size, last: Size) -> Any:
    """x[first:last] along `dim`."""
    shape = tuple(x.shape)
    start = tuple(first if d == dim else 0 for d in range(len(shape)))
    stop = tuple(last if d == dim else size for d, size in enumerate(shape))
    return ops.slice(x, start=start, stop=stop, step=(1,) * len(shape))


def columns(ops: Any, x: Any, first: Size, last: Size) -> Any:
    """x[..., first:last]."""
    return _along(ops, x, len(x.shape) - 1, first, last)


def _pieces(ops: Any, x: Any, count: int) -> list[Any]:
    """x in equal parts along the last dim."""
    size = x.shape[-1] // count
    return [columns(ops, x, k * size, (k + 1) * size) for k in range(count)]


def _joined(ops: Any, parts: Sequence[Any], dim: int) -> Any:
    return parts[0] if len(parts) == 1 else ops.cat(*parts, dim=dim)


def _beside(ops: Any, *parts: Any) -> Any:
    """Values side by side in the last dim."""
    return _joined(ops, parts, len(parts[0].shape) - 1)


class _Times(NamedTuple):
    """The steps of a sequence: how many, in which order, and with how many sequences each.

    Args:
        steps: how many.
        batch_sizes: sequences per step, falling; None where all steps have all.
        starts: row at which each step starts, and the number of rows; None as above.
        is_reversed: whether the last step comes first.
    """

    steps: Size
    batch_sizes: tuple[int, ...] | None
    starts: tuple[int, ...] | None
    is_reversed: bool

    @property
    def order(self) -> tuple[int, ...]:
        """The steps as they follow each other; their number is known."""
        order = tuple(range(int(self.steps)))
        return order[::-1] if self.is_reversed else order

    def at(self, ops: Any, x: Any, t: int) -> Any:
        """What x, one row per step and sequence, has for step t."""
        if self.starts is None:
            return ops.select(x, dim=0, index=t)
        return _along(ops, x, 0, self.starts[t], self.starts[t + 1])

    def together(self, ops: Any, found: Sequence[Any]) -> Any:
        """The reverse of `at`: values for each step (others may follow) as one."""
        if self.starts is not None:
            return _joined(ops, found, 0)
        wide = [ops.reshape(x, shape=(1, *x.shape)) for x in found]
        return _joined(ops, wide, 0)

    def present(self, ops: Any, state: Any, t: int) -> Any:
        """The part of a state that step t has."""
        if self.batch_sizes is None or self.batch_sizes[t] == state.shape[0]:
            return state
        return _along(ops, state, 0, 0, self.batch_sizes[t])

    def updated(self, ops: Any, state: Any, new: Any) -> Any:
        """A state whose first sequences have a new one."""
        if self.batch_sizes is None or new.shape[0] == state.shape[0]:
            return new
        return ops.cat(new, _along(ops, state, 0, new.shape[0], state.shape[0]), dim=0)

    def before(self, ops: Any, states: Any, initial: Any) -> Any:
        """The state before each step, from those after each."""
        steps = self.steps
        if self.starts is None:
            first = ops.reshape(initial, shape=(1, *initial.shape))
            if isinstance(steps, int) and steps == 1:
                return first
            if not self.is_reversed:
                return ops.cat(first, _along(ops, states, 0, 0, steps - 1), dim=0)
            return ops.cat(_along(ops, states, 0, 1, steps), first, dim=0)
        state, found = initial, {}
        for t in self.order:
            found[t] = self.present(ops, state, t)
            state = self.updated(ops, state, self.at(ops, states, t))
        return self.together(ops, [found[t] for t in range(len(found))])


def times_of(gates: Any, batch_sizes: tuple[int, ...] | None, is_reversed: bool) -> _Times:
    """The steps of `gates`."""
    steps = gates.shape[0] if batch_sizes is None else len(batch_sizes)
    starts = None if batch_sizes is None else (0, *accumulate(batch_sizes))
    return _Times(steps, batch_sizes, starts, is_reversed)


# ---------------------------------------------------------------------------------------------
# cells: a step, and what backward multiplies with


def lstm_step(ops: Any, gates: Any, cell: Any) -> tuple[Any, Any]:
    """(hidden before a projection, cell) from the four sums (B, 4H) and the cell (B, H)."""
    i, f, n, o = _pieces(ops, gates, 4)
    cell = ops.sigmoid(f) * cell + ops.sigmoid(i) * ops.tanh(n)
    return ops.sigmoid(o) * ops.tanh(cell), cell


def gru_step(ops: Any, gates: Any, product: Any, bias: Any, hidden: Any) -> Any:
    """The new hidden state (B, H) from what the input gives (B, 3H) and the hidden state gives."""
    r, z, n = _pieces(ops, gates, 3)
    own_r, own_z, own_n = _pieces(ops, product, 3)
    update = ops.sigmoid(z + own_z)
    new = ops.tanh(n + ops.sigmoid(r + own_r) * (own_n + bias))
    return new + update * (hidden - new)


def _step(
    ops: Any, mode: str, gates: Any, weight: Any, state: Sequence[Any], extra: Sequence[Any]
) -> tuple[Any, ...]:
    """The state after a step; `weight` is transposed already."""
    product = ops.matmul(state[0], weight)
    if mode == "GRU":
        return (gru_step(ops, gates, product, extra[0], state[0]),)
    if mode == "LSTM":
        hidden, cell = lstm_step(ops, gates + product, state[1])
        return (ops.matmul(hidden, extra[0]) if extra else hidden), cell
    return (ops.tanh(gates + product) if mode == "RNN_TANH" else ops.relu(gates + product),)


def _states(
    ops: Any, mode: str, operands: Sequence[Any], batch_sizes: Any, is_reversed: bool, keeps: bool
) -> Any:
    gates, weight, *others = operands
    times = times_of(gates, batch_sizes, is_reversed)
    count = 2 if mode == "LSTM" else 1
    state, extra = tuple(others[:count]), others[count:]
    if mode == "LSTM" and extra:
        extra = [transposed(ops, extra[0])]
    matrix = transposed(ops, weight)
    found = {}
    for t in times.order:
        now = tuple(times.present(ops, s, t) for s in state)
        new = _step(ops, mode, times.at(ops, gates, t), matrix, now, extra)
        found[t] = _beside(ops, *new)
        state = tuple(times.updated(ops, s, n) for s, n in zip(state, new, strict=True))
    states = times.together(ops, [found[t] for t in range(len(found))])
    return (
        _beside(ops, states, *_activations(ops, mode, times, states, operands)) if keeps else states
    )


#: Values of each cell that `_activations` gives.
_KEPT: Final = 4


def _activations(
    ops: Any, mode: str, times: _Times, out: Any, operands: Sequence[Any]
) -> Sequence[Any]:
    """What the derivative reads of all steps: the gates; of a GRU also the new one's product."""
    gates, weight, hidden, *others = operands
    if mode == "LSTM":
        i, f, n, o = _pieces(ops, lstm_sums(ops, times, out, gates, weight, hidden), 4)
        return ops.sigmoid(i), ops.sigmoid(f), ops.tanh(n), ops.sigmoid(o)
    r, z, n = _pieces(ops, gates, 3)
    own_r, own_z, own_n = _pieces(ops, _product(ops, times.before(ops, out, hidden), weight), 3)
    own_n = own_n + others[0]
    r, z = ops.sigmoid(r + own_r), ops.sigmoid(z + own_z)
    return r, z, ops.tanh(n + r * own_n), own_n


class _Backward(NamedTuple):
    """What one step's slopes are computed from; all values have the step's rows.

    Args:
        from_hidden, from_cell: factors of the gradient of the hidden state and of the cell.
        keeps: factor with which the state's gradient reaches the state before; None where it
            does so through the product only.
    """

    from_hidden: tuple[Any, ...]
    from_cell: tuple[Any, ...] = ()
    keeps: Any = None


def _lstm_factors(
    ops: Any, times: _Times, out: Any, activations: Sequence[Any], hidden: Any, cell: Any
) -> _Backward:
    width = hidden.shape[-1]
    cells = columns(ops, out, width, width + cell.shape[-1])
    i, f, n, o = activations
    t = ops.tanh(cells)
    before = times.before(ops, cells, cell)
    return _Backward(
        (o * (1 - t * t), t * o * (1 - o)),
        (n * i * (1 - i), before * f * (1 - f), i * (1 - n * n)),
        f,
    )


def lstm_sums(ops: Any, times: _Times, out: Any, gates: Any, weight: Any, hidden: Any) -> Any:
    """The four sums of every step, from the states after each."""
    before = times.before(ops, columns(ops, out, 0, hidden.shape[-1]), hidden)
    return gates + _product(ops, before, weight)


def _product(ops: Any, x: Any, weight: Any) -> Any:
    """x @ weight.T, as one product of matrices."""
    product = ops.matmul(as_rows(ops, x), transposed(ops, weight))
    return ops.reshape(product, shape=(*x.shape[:-1], weight.shape[0]))


def _gru_factors(
    ops: Any, times: _Times, out: Any, activations: Sequence[Any], hidden: Any
) -> _Backward:
    before = times.before(ops, out, hidden)
    r, z, n, own_n = activations
    of_new = (1 - z) * (1 - n * n)
    from_hidden = (of_new * own_n * r * (1 - r), (before - n) * z * (1 - z), of_new, of_new * r)
    return _Backward(from_hidden, (), z)


def _factors(
    ops: Any, mode: str, times: _Times, out: Any, kept: Any, operands: Sequence[Any]
) -> _Backward:
    """Args: kept: the columns of `_activations`; None: they are computed again."""
    if mode == "RNN_TANH":
        return _Backward((1 - out * out,))
    if mode == "RNN_RELU":
        return _Backward((ops.where(ops.gt(out, 0), out * 0 + 1, 0.0),))
    if kept is None:
        activations = _activations(ops, mode, times, out, operands)
    else:
        activations = _pieces(ops, kept, _KEPT)
    _, _, hidden, *others = operands
    if mode == "LSTM":
        return _lstm_factors(ops, times, out, activations, hidden, others[0])
    return _gru_factors(ops, times, out, activations, hidden)


def through_weight(ops: Any, mode: str, slopes: Any, size: Size) -> Any:
    """The part of slopes that the product with the hidden state gets: its `size` columns."""
    if mode != "GRU":
        return columns(ops, slopes, 0, size)
    own = size // 3
    return _beside(ops, columns(ops, slopes, 0, 2 * own), columns(ops, slopes, size, size + own))


def _slopes(
    ops: Any, mode: str, g: Any, out: Any, operands: Sequence[Any], batch_sizes: Any,
    is_reversed: bool, keeps: bool,
) -> Any:  # fmt: skip
    kept = None
    if keeps:
        out, kept, operands = _parted(ops, mode, out, operands)
    gates, weight, hidden, *others = operands
    times = times_of(gates, batch_sizes, is_reversed)
    factors = _factors(ops, mode, times, out, kept, operands)
    width = hidden.shape[-1]
    state = [hidden * 0, *((others[0] * 0,) if mode == "LSTM" else ())]
    projection = others[1] if mode == "LSTM" and len(others) > 1 else None
    found = {}
    for t in reversed(times.order):
        here = _Backward(*(_at_step(ops, times, part, t) for part in factors))
        given = times.at(ops, g, t)
        grown = times.present(ops, state[0], t) + columns(ops, given, 0, width)
        if mode == "LSTM":
            cell = columns(ops, given, width, width + others[0].shape[-1])
            cell = times.present(ops, state[1], t) + cell
            parts, cell = _lstm_slopes(ops, here, grown, cell, projection)
            state[1] = times.updated(ops, state[1], cell)
        else:
            parts = [grown * factor for factor in here.from_hidden]
        found[t] = _beside(ops, *parts)
        before = ops.matmul(through_weight(ops, mode, found[t], gates.shape[-1]), weight)
        if mode == "GRU":
            before = before + grown * here.keeps
        state[0] = times.updated(ops, state[0], before)
    ends = _beside(ops, *state)
    rest = slopes_width(mode, weight, hidden, others) - ends.shape[-1]
    if not (isinstance(rest, int) and rest == 0):
        ends = ops.pad(ends, before=(0, 0), after=(0, rest), value=0)
    return times.together(ops, [*(found[t] for t in range(len(found))), ends])


def _parted(
    ops: Any, mode: str, out: Any, operands: Sequence[Any]
) -> tuple[Any, Any, Sequence[Any]]:
    """The states, what is kept beside them, and operands with columns of that for the gates."""
    weight, hidden, *others = operands
    states = states_width(mode, hidden, others)
    gates = columns(ops, out, states, states + weight.shape[0])
    kept = columns(ops, out, states, out.shape[-1])
    return columns(ops, out, 0, states), kept, (gates, *operands)


def _at_step(ops: Any, times: _Times, part: Any, t: int) -> Any:
    if isinstance(part, tuple):
        return tuple(times.at(ops, x, t) for x in part)
    return None if part is None else times.at(ops, part, t)


def _lstm_slopes(
    ops: Any, here: _Backward, hidden: Any, cell: Any, projection: Any
) -> tuple[list[Any], Any]:
    """Slopes of a step's four sums (and of what was projected), and of the cell before it."""
    unprojected = hidden if projection is None else ops.matmul(hidden, projection)
    of_cell, of_output = here.from_hidden
    cell = cell + unprojected * of_cell
    parts = [cell * factor for factor in here.from_cell]
    parts.append(unprojected * of_output)
    if projection is not None:
        parts.append(hidden)
    return parts, cell * here.keeps


def states_width(mode: str, hidden: Any, others: Sequence[Any]) -> Any:
    """Columns of the states."""
    return hidden.shape[-1] + (others[0].shape[-1] if mode == "LSTM" else 0)


def slopes_width(mode: str, weight: Any, hidden: Any, others: Sequence[Any]) -> Any:
    """Columns of the slopes: those of the gates, and what a mode adds."""
    if mode == "GRU" or (mode == "LSTM" and len(others) > 1):
        return weight.shape[0] + hidden.shape[-1]
    return weight.shape[0]


# ---------------------------------------------------------------------------------------------
# rows

_NAMES: Final = ("gates", "weight", "hidden", "cell or bias", "projection")


def _checked(operands: Sequence[ValueType | None]) -> list[TensorType]:
    call = describe("recurrent", _NAMES, operands)
    types = [require_tensor(x, call, name) for x, name in zip(operands, _NAMES, strict=False)]
    dtype = types[0].dtype
    if not dtype.is_floating_point or any(type.dtype is not dtype for type in types):
        raise DTypeError(
            f"{call}: input, hidden state and weights need one floating dtype.  Cast with "
            ".to(dtype)."
        )
    return types


def _states_infer(
    *operands: ValueType | None, mode: str, batch_sizes: Any, is_reversed: bool, keeps: bool
) -> TensorType:
    gates, _, hidden, *others = _checked(operands)
    width = states_width(mode, hidden, others) + (_KEPT * hidden.shape[-1] if keeps else 0)
    return gates.with_shape((*gates.shape[:-1], width))


def _slopes_infer(
    g: ValueType | None, out: ValueType | None, *operands: ValueType | None, mode: str,
    batch_sizes: Any, is_reversed: bool, keeps: bool,
) -> TensorType:  # fmt: skip
    gates, weight, hidden, *others = _checked((out, *operands) if keeps else operands)
    width = slopes_width(mode, weight, hidden, others)
    if batch_sizes is None:
        return gates.with_shape((gates.shape[0] + 1, *gates.shape[1:-1], width))
    return gates.with_shape((gates.shape[0] + hidden.shape[0], width))


#: Steps of one call that a graph unrolls.
MOST_STEPS: Final = 16


def _stays(steps: Size, batch_sizes: Any) -> bool:
    if batch_sizes is not None:
        return len(batch_sizes) > MOST_STEPS
    return not isinstance(steps, int) or steps > MOST_STEPS


def _states_stay(
    gates: TensorType, *operands: Any, mode: str, batch_sizes: Any, is_reversed: bool, keeps: bool
) -> bool:
    return _stays(gates.shape[0], batch_sizes)


def _slopes_stay(
    g: TensorType, *operands: Any, mode: str, batch_sizes: Any, is_reversed: bool, keeps: bool
) -> bool:
    return _stays(g.shape[0], batch_sizes)


def _are_plain(arrays: Sequence[Any]) -> bool:
    return all(is_plain(x) and x.dtype is arrays[0].dtype for x in arrays)


def _states_form(
    xp: Any, *operands: Any, mode: str, batch_sizes: Any, is_reversed: bool, keeps: bool
) -> Any:
    if xp is not np or not _are_plain(operands):
        return NotImplemented
    options = mode, batch_sizes, is_reversed, keeps
    found = _recurrent.states(operands, *options, products.thread_count())
    if found is not NotImplemented:
        return found
    return _states(_ARRAYS, mode, operands, batch_sizes, is_reversed, keeps)


def _slopes_form(
    xp: Any, *operands: Any, mode: str, batch_sizes: Any, is_reversed: bool, keeps: bool
) -> Any:
    if xp is not np or not _are_plain(operands):
        return NotImplemented
    options = mode, batch_sizes, is_reversed, keeps
    found = _recurrent.slopes(operands, *options, products.thread_count())
    if found is not NotImplemented:
        return found
    g, out, *others = operands
    return _slopes(_ARRAYS, mode, g, out, others, batch_sizes, is_reversed, keeps)


def _states_vjp(
    ops: Any, g: Any, inputs: Sequence[Any], out: Any, mode: str, batch_sizes: Any,
    is_reversed: bool, keeps: bool,
) -> list[Any]:  # fmt: skip
    """Gradients of all operands, from the slopes of all steps and what is left at the start."""
    if keeps:
        raise InternalError("what is kept for backward has no derivative")
    options = {"mode": mode, "batch_sizes": batch_sizes, "is_reversed": is_reversed}
    gates, weight, hidden, *others = inputs
    slopes = ops.recurrent_slopes(g, out, *inputs, **options)
    times = times_of(gates, batch_sizes, is_reversed)
    total = slopes.shape[0]
    if batch_sizes is None:
        ends = ops.select(slopes, dim=0, index=times.steps)
        slopes = _along(ops, slopes, 0, 0, times.steps)
    else:
        count = gates.shape[0]
        ends, slopes = _along(ops, slopes, 0, count, total), _along(ops, slopes, 0, 0, count)
    size, width = gates.shape[-1], hidden.shape[-1]
    sent = as_rows(ops, through_weight(ops, mode, slopes, size))
    states = out if mode != "LSTM" else columns(ops, out, 0, width)
    before = as_rows(ops, times.before(ops, states, hidden))
    found = [
        columns(ops, slopes, 0, size),
        ops.matmul(transposed(ops, sent), before),
        columns(ops, ends, 0, width),
    ]
    if mode == "GRU":
        rises = as_rows(ops, columns(ops, slopes, size, size + width))
        found.append(ops.sum(rises, dim=(0,), keepdim=False))
    if mode == "LSTM":
        found.append(columns(ops, ends, width, width + others[0].shape[-1]))
    if mode == "LSTM" and len(others) > 1:
        sums = lstm_sums(ops, times, out, gates, weight, hidden)
        cells = columns(ops, out, width, width + others[0].shape[-1])
        raw = ops.sigmoid(_pieces(ops, sums, 4)[3]) * ops.tanh(cells)
        rises = as_rows(ops, columns(ops, slopes, size, size + width))
        found.append(ops.matmul(transposed(ops, rises), as_rows(ops, raw)))
    return found


_in_sequences = sample_rules.recurrent(_NAMES, shared=("weight", "projection"))
_in_slopes = sample_rules.recurrent(
    ("g", "out", *_NAMES), shared=("weight", "projection"), left_out="gates"
)


def _states_flops(
    out: tuple[int, ...],
    gates: tuple[int, ...],
    weight: tuple[int, ...],
    hidden: tuple[int, ...],
    *others: tuple[int, ...],
) -> int:
    """One product with the hidden state per step, and one with the projection if there is one."""
    projections = others[1:]  # the operands after an LSTM's cell
    sizes = sum(math.prod(matrix) for matrix in (weight, *projections))
    return 2 * math.prod(gates[:-1]) * sizes


def _slopes_flops(
    out: tuple[int, ...], g: tuple[int, ...], states: tuple[int, ...], *operands: tuple[int, ...]
) -> int:
    """The same, and the gates of all steps again where the cell has several and none are kept."""
    # A plain RNN has three operands, too, the last as wide as its states.
    is_kept = len(operands) == 3 and states[-1] > operands[-1][-1]
    gates, weight, hidden, *others = (states, *operands) if is_kept else operands
    again = math.prod(weight) if others and not is_kept else 0
    return _states_flops(out, gates, weight, hidden, *others) + 2 * math.prod(gates[:-1]) * again


@composite(
    infer=_states_infer,
    array=_states_form,
    vjp={"operands": _states_vjp},
    stays=_states_stay,
    flops=_states_flops,
    samples=_in_sequences,
    widens=True,
)
def recurrent_states(
    ops: Any, *operands: Any, mode: str, batch_sizes: Any = None, is_reversed: bool = False,
    keeps: bool = False,
) -> Any:  # fmt: skip
    """The state after each step: (T, B, width), or packed (N, width). See the module."""
    return _states(ops, mode, operands, batch_sizes, is_reversed, keeps)


@composite(
    infer=_slopes_infer,
    array=_slopes_form,
    stays=_slopes_stay,
    flops=_slopes_flops,
    samples=_in_slopes,
    widens=True,
)
def recurrent_slopes(
    ops: Any, *operands: Any, mode: str, batch_sizes: Any = None, is_reversed: bool = False,
    keeps: bool = False,
) -> Any:  # fmt: skip
    """Slopes of the sums of each step, and after the last those of the initial state: its hidden
    state and cell side by side. Operands: the states' gradient, the states, and their operands."""
    g, out, *others = operands
    return _slopes(ops, mode, g, out, others, batch_sizes, is_reversed, keeps)
