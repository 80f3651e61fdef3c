"""`vmap`: a function of one sample, applied to a batch of them.

Contract: as `torch.vmap`, by calling the function once, on tensors that hold all samples and look
like one (`eager.samples`). What PyTorch refuses in mapped functions because it has no single sample
(`item()`, conditions on values) works here: the function is then called once per sample, and what
it returns is stacked; that is remembered for its code. A write to a tensor that all samples share
is refused. `dynajit.func` publishes it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

from dynajit.capture.control import disable
from dynajit.core.errors import BoundsError, InvalidValueError
from dynajit.core.pytree import Structure, flatten, unflatten
from dynajit.core.records import record
from dynajit.core.types.memory_format import contiguous_format
from dynajit.core.types.tensor_layouts import strided
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.modes.random import default_generator
from dynajit.eager.modes.write_limits import limited
from dynajit.eager.samples.draws import drawing
from dynajit.eager.samples.sample_tensor import (
    Level,
    SampleTensor,
    SingleSampleNeeded,
    bottom,
    in_front,
    made,
)
from dynajit.eager.samples import sample_writes  # noqa: F401 - methods of SampleTensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops import functions

RANDOMNESS: Final = ("error", "different", "same")

#: Code of functions that asked for single samples, and how many of them are remembered.
_single: Final[dict[tuple[CodeType, ...], None]] = {}
_MOST: Final = 256


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


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that applies `func` to every sample of its arguments.

    Args:
        func: takes single samples, returns a tensor or a nest of them.
        in_dims: which dim of a positional argument holds the samples: a number for all of them, or
            a nest that fits the arguments, or their outer parts; None: every sample gets all of
            it. So it is with keyword arguments.
        out_dims: where results have the dim of samples: a number, or a nest that fits what `func`
            returns; None: `func` returns what does not depend on the sample, once.
        randomness: "different" random numbers for each sample, the "same" for all, or an "error".
        chunk_size: has no effect: all samples are computed at once.

    Returns:
        a function of whole batches; its results have the gradients of `func`'s.

    Raises:
        ValueError: dims that do not fit what they stand for, different numbers of samples,
            results that are no tensors.
        RuntimeError: `func` draws random numbers under "error", or writes to a tensor that is no
            sample and that it did not make; another `randomness`.
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. "
            f"Got {randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise InvalidValueError(
            f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})"
        )

    @disable
    def mapped(*args: Any, **kwargs: Any) -> Any:
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

    return mapped


def _call_of(
    func: Callable[..., Any],
    in_dims: Any,
    out_dims: Any,
    randomness: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> _Call:
    leaves, structure, dims = _inputs(in_dims, args, kwargs)
    count = _number_of_samples(leaves, dims)
    return _Call(func, leaves, structure, dims, count, out_dims, randomness)


def _codes_of(func: Any, depth: int = 4) -> tuple[CodeType, ...]:
    """The code of a function, and of the functions that it was made with; empty if none is known."""
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
        places = _out_dims(call.out_dims, result, found)
        taken = [x._storage for x in level.arguments]
        whole = [
            _of_first(x, level) if d is None else _whole(x, d, level, taken)
            for x, d in zip(found, places, strict=True)
        ]
    return unflatten(whole, nest)


def _moved(x: Any, source: int, target: int) -> Any:
    return x if source == target else x.movedim(source, target)


def _of_first(x: Any, level: Level) -> Any:
    """What is not joined, of the first sample."""
    if not isinstance(x, SampleTensor) or x._level is not level:
        return x
    return x._batch[0] if x._flag else x._batch


def _whole(x: Any, dim: int, level: Level, taken: list[Any]) -> Any:
    """A result of all samples, which shares its memory with nothing."""
    _require_place(x, dim, x.ndim + 1 if isinstance(x, Tensor) else 0)
    if isinstance(x, SampleTensor) and x._level is level:
        found, is_dense = in_front(x), x._flag
    else:
        found, is_dense = functions.stack([x]).expand(level.count, *x.shape), False
    storage = bottom(found)._storage
    if not is_dense or any(storage is other for other in taken):
        found = found.clone(memory_format=contiguous_format)
    taken.append(bottom(found)._storage)
    return _moved(found, 0, dim % found.ndim)


def _one_by_one(call: _Call) -> Any:
    """A call of the function for every sample."""
    mapped_over = [bottom(x) for x in call.mapped_over()]
    results = []
    for sample in _drawing(_samples(call), call.randomness):
        with limited(mapped_over):
            results.append(call.run(sample))
    return _joined(results, call.out_dims)


def _inputs(
    in_dims: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Any], Structure, list[Any]]:
    """Leaves of the arguments, their nest, and the dim of each leaf."""
    if not isinstance(in_dims, (int, tuple, list)):
        raise InvalidValueError(
            f"vmap: expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise InvalidValueError("vmap: got no inputs.  Give the function at least one tensor.")
    wanted = tuple(in_dims) if isinstance(in_dims, list) else in_dims
    dims = [*_spread(wanted, args, "in_dims", "inputs"), *_spread(None, kwargs, "", "")]
    leaves, structure = flatten((args, kwargs))
    return leaves, structure, [_checked(d, x) for d, x in zip(dims, leaves, strict=True)]


def _spread(dims: Any, tree: Any, name: str, what: str) -> Iterator[Any]:
    """The dim of each leaf of a nest: one number stands for all that lies below."""
    if dims is None or isinstance(dims, int):
        yield from [dims] * len(flatten(tree)[0])
        return
    places, parts = _places(dims), _places(tree)
    if places is None or places != parts or isinstance(dims, dict) != isinstance(tree, dict):
        raise InvalidValueError(
            f"vmap: {name} is not compatible with the structure of the {what}: {name} has "
            f"{dims!r} where the {what} have {type(tree).__name__}."
        )
    for place in places:
        yield from _spread(dims[place], tree[place], name, what)


def _places(tree: Any) -> list[Any] | None:
    """Keys or positions of the parts of a nest; None for a leaf."""
    if isinstance(tree, dict):
        return list(tree)
    return list(range(len(tree))) if isinstance(tree, (tuple, list)) else None


def _checked(dim: Any, leaf: Any) -> int | None:
    """The dim of a leaf, counted from the front.

    Raises:
        ValueError: it has none.
    """
    if dim is None:
        return None
    if not isinstance(leaf, Tensor):
        raise InvalidValueError(
            f"vmap: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot "
            "vmap over non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -leaf.ndim <= dim < leaf.ndim:
        raise InvalidValueError(
            f"vmap: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
            f"{leaf.ndim} so expected in_dim to satisfy -{leaf.ndim} <= in_dim < {leaf.ndim}."
        )
    return int(dim) % leaf.ndim


def _number_of_samples(leaves: list[Any], dims: list[Any]) -> int:
    sizes = [x.shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None]
    if not sizes:
        raise InvalidValueError("vmap: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        raise InvalidValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return int(sizes[0])


def _samples(call: _Call) -> Iterator[list[Any]]:
    for i in range(call.count):
        yield [
            x if d is None else x.select(d, i) for x, d in zip(call.leaves, call.dims, strict=True)
        ]


def _drawing(calls: Iterator[list[Any]], randomness: str) -> Iterator[list[Any]]:
    """The samples; the generator between them is as `randomness` says."""
    before = default_generator.get_state()
    for number, sample in enumerate(calls):
        if number and randomness == "same":
            default_generator.set_state(before)
        yield sample
        if randomness == "error" and not default_generator.get_state().equal(before):
            default_generator.set_state(before)
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use "
                "the 'same' or 'different' randomness flags on vmap or perform the randomness "
                "operation out of vmap"
            )


def _joined(results: list[Any], out_dims: Any) -> Any:
    """What the function returned for each sample, stacked."""
    flat = [flatten(result) for result in results]
    leaves, structure = flat[0]
    dims = _out_dims(out_dims, results[0], leaves)
    if any(other != structure for _, other in flat):
        raise InvalidValueError("vmap: the function returns different nests for different samples.")
    joined = [
        leaf if dim is None else _stacked([each[place] for each, _ in flat], dim)
        for place, (leaf, dim) in enumerate(zip(leaves, dims, strict=True))
    ]
    return unflatten(joined, structure)


def _out_dims(out_dims: Any, result: Any, leaves: list[Any]) -> list[Any]:
    wanted = out_dims
    if isinstance(wanted, (tuple, list)) and len(wanted) == 1 and isinstance(result, Tensor):
        (wanted,) = wanted
    return list(_spread(wanted, result, "out_dims", "outputs"))


def _stacked(values: list[Any], dim: int) -> Any:
    for value in values:
        _require_place(value, dim, value.ndim + 1 if isinstance(value, Tensor) else 0)
    return functions.stack(values, dim=dim)


def _require_place(value: Any, dim: int, rank: int) -> None:
    """Refuse a result that is no tensor, or has no such dim.

    Raises:
        ValueError, IndexError: it is so.
    """
    if not isinstance(value, Tensor):
        raise InvalidValueError(
            f"vmap: the function must only return Tensors, got type {type(value)}. Did you "
            "mean to set out_dims= to None for output?"
        )
    if not -rank <= dim < rank:
        raise BoundsError(f"vmap: out_dim={dim} is out of range for an output of rank {rank}.")


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
        places = _out_dims(call.out_dims, whole, found)
        parts = [x if d is None else x.narrow(d, 0, 0) for x, d in zip(found, places, strict=True)]
    return unflatten(parts, nest)


__all__ = ["vmap"]
