"""Calls of mapped functions: what `vmap` does.

Contract: the function is called once, on tensors that hold all samples (`sample_tensor`). Where it
needs a single sample, what it wrote to its samples and drew is taken back, it is called once per
sample, and what it returns is stacked; that is remembered for its code.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

from dynajit.core.errors import InvalidValueError
from dynajit.core.pytree import Structure, flatten, unflatten
from dynajit.core.records import record
from dynajit.core.types.memory_format import contiguous_format
from dynajit.core.types.tensor_layouts import strided
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.modes.random import Generator, default_generator, noted
from dynajit.eager.modes.write_limits import limited
from dynajit.eager.samples import sample_writes  # noqa: F401 - methods of SampleTensor
from dynajit.eager.samples.dims import (
    inputs_of,
    number_of_samples,
    places_of_results,
    with_place,
)
from dynajit.eager.samples.draws import drawing
from dynajit.eager.samples.sample_tensor import (
    Level,
    SampleTensor,
    SingleSampleNeeded,
    bottom,
    in_front,
    made,
)
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions.shapes.index import stack

#: Code of functions that asked for single samples, and how many of them are remembered.
_single: Final[dict[tuple[CodeType, ...], None]] = {}
_MOST: Final = 256

MSG_NOT_JOINED: Final = (
    "vmap: the function can not return a BatchedTensor when out_dim is None: its result differs "
    "between samples.  Say with out_dims where the dim of samples goes."
)


@record
class _Call:
    """One call of a mapped function.

    Args:
        function: of one sample.
        leaves: of the arguments.
        structure: the nest of (positional, named) arguments.
        dims: where each leaf has the samples; None: nowhere.
        count: how many samples there are.
        out_dims, randomness: see `vmap`.
    """

    function: Callable[..., Any]
    leaves: list[Any]
    structure: Structure
    dims: list[int | None]
    count: int
    out_dims: Any
    randomness: str

    def mapped_over(self) -> list[Any]:
        """The tensors that have samples."""
        return [x for x, d in zip(self.leaves, self.dims, strict=True) if d is not None]

    def run(self, leaves: list[Any]) -> Any:
        """What the function gives for other leaves."""
        positional, named = unflatten(leaves, self.structure)
        return self.function(*positional, **named)


def called(
    func: Callable[..., Any],
    in_dims: Any,
    out_dims: Any,
    randomness: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """What a mapped function gives.

    Args:
        func, in_dims, out_dims, randomness: see `vmap`.
        args, kwargs: of the call.
    """
    call = _call_of(func, in_dims, out_dims, randomness, args, kwargs)
    if call.count == 0:
        return _empty(call)
    codes = _codes_of(func)
    is_dense = all(x.layout is strided for x in call.mapped_over())
    if is_dense and codes not in _single:
        level = Level(call.count, call.mapped_over())
        try:
            return _at_once(call, level)
        except SingleSampleNeeded as needed:
            if needed.level is not level:
                raise
        level.undo()
        _remember(codes)
    return _one_by_one(call)


def _call_of(
    func: Callable[..., Any],
    in_dims: Any,
    out_dims: Any,
    randomness: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> _Call:
    leaves, structure, dims = inputs_of(in_dims, args, kwargs)
    count = number_of_samples(leaves, dims)
    return _Call(func, leaves, structure, dims, count, out_dims, randomness)


def _codes_of(func: Any, depth: int = 4) -> tuple[CodeType, ...]:
    """The code of a function, and of functions that it was made with; empty if none is known."""
    if isinstance(func, partial):
        inner = (func.func, *func.args)
        return tuple(code for each in inner for code in _codes_of(each, depth - 1))
    if isinstance(func, MethodType):
        func = func.__func__
    if not isinstance(func, FunctionType) or not depth:
        return ()
    found = [func.__code__]
    for cell in func.__closure__ or ():
        try:
            found += _codes_of(cell.cell_contents, depth - 1)
        except ValueError:  # it is empty yet
            continue
    return tuple(found)


def _remember(codes: tuple[CodeType, ...]) -> None:
    if codes:
        _single[codes] = None
        if len(_single) > _MOST:
            _single.pop(next(iter(_single)), None)


def _at_once(call: _Call, level: Level) -> Any:
    """One call of the function, on all samples."""
    with level.opened(), limited(level.arguments), drawing(level, call.randomness):
        leaves = [
            x if d is None else made(_moved(x, d, 0), level)
            for x, d in zip(call.leaves, call.dims, strict=True)
        ]
        result = call.run(leaves)
        found, nest = flatten(result)
        places = places_of_results(call.out_dims, result, found)
        taken = [x._storage for x in level.arguments]
        whole = [
            _shared(x, level) if d is None else _whole(x, d, level, taken)
            for x, d in zip(found, places, strict=True)
        ]
    return unflatten(whole, nest)


def _moved(x: Tensor, source: int, target: int) -> Any:
    return x if source == target else x.movedim(source, target)


def _shared(x: object, level: Level) -> Any:
    """What is not joined: the same for all samples."""
    if not isinstance(x, SampleTensor) or x._level is not level:
        return x
    if x._flag:
        raise InvalidValueError(MSG_NOT_JOINED)
    return x._batch


def _whole(x: object, dim: int, level: Level, taken: list[Any]) -> Any:
    """A result of all samples, which shares its memory with nothing."""
    x = with_place(x, dim)
    if isinstance(x, SampleTensor) and x._level is level:
        found, is_dense = in_front(x), x._flag
    else:
        found, is_dense = stack([x]).expand(level.count, *x.shape), False
    storage = bottom(found)._storage
    if not is_dense or any(storage is other for other in taken):
        found = found.clone(memory_format=contiguous_format)
    taken.append(bottom(found)._storage)
    return _moved(found, 0, dim % found.ndim)


def _one_by_one(call: _Call) -> Any:
    """A call of the function for every sample."""
    mapped_over = [bottom(x) for x in call.mapped_over()]
    results = []
    with noted() as states:
        states[default_generator] = default_generator.get_state()
        for sample in _samples(call):
            if call.randomness == "same":
                _set_back(states)
            with limited(mapped_over, is_one_sample=True):
                results.append(call.run(sample))
            if call.randomness == "error" and _set_back(states):
                raise RuntimeError(
                    "vmap: called random operation while in randomness error mode. Please either "
                    "use the 'same' or 'different' randomness flags on vmap or perform the "
                    "randomness operation out of vmap"
                )
    return _joined(results, call.out_dims)


def _set_back(states: Mapping[Generator, Any]) -> bool:
    """Give generators the states that they had; whether one of them had moved on."""
    moved = [g for g, state in states.items() if not g.get_state().equal(state)]
    for generator in moved:
        generator.set_state(states[generator])
    return bool(moved)


def _samples(call: _Call) -> Iterator[list[Any]]:
    for i in range(call.count):
        yield [
            x if d is None else x.select(d, i) for x, d in zip(call.leaves, call.dims, strict=True)
        ]


def _joined(results: list[Any], out_dims: Any) -> Any:
    """What the function returned for each sample, stacked."""
    flat = [flatten(result) for result in results]
    leaves, structure = flat[0]
    dims = places_of_results(out_dims, results[0], leaves)
    if any(other != structure for _, other in flat):
        raise InvalidValueError("vmap: the function returns different nests for different samples.")
    joined = [
        _same([each[place] for each, _ in flat])
        if dim is None
        else _stacked([each[place] for each, _ in flat], dim)
        for place, (leaf, dim) in enumerate(zip(leaves, dims, strict=True))
    ]
    return unflatten(joined, structure)


def _same(values: list[Any]) -> Any:
    """What is not joined, of all samples one by one."""
    first = values[0]
    if isinstance(first, Tensor) and not all(first.equal(other) for other in values):
        raise InvalidValueError(MSG_NOT_JOINED)
    return first


def _stacked(values: list[Any], dim: int) -> Any:
    return stack([with_place(value, dim) for value in values], dim=dim)


def _empty(call: _Call) -> Any:
    """The result for no samples: the function tells its shapes for one of zeros."""
    with no_grad():
        sample = [
            x
            if d is None
            else x.new_zeros([size for place, size in enumerate(x.shape) if place != d])
            for x, d in zip(call.leaves, call.dims, strict=True)
        ]
        before = default_generator.get_state()
        whole = _joined([call.run(sample)], call.out_dims)
        default_generator.set_state(before)
        found, nest = flatten(whole)
        places = places_of_results(call.out_dims, whole, found)
        parts = [x if d is None else x.narrow(d, 0, 0) for x, d in zip(found, places, strict=True)]
    return unflatten(parts, nest)
