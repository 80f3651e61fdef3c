"""Transforms of functions by PyTorch's path: `func.grad`, `func.vjp`, `func.functional_call`.

Contract: as `torch.func`: functions of nests of tensors; transforms nest, and results have a
history only where something else than the transform's own inputs requires gradients. `jvp` and
`jacfwd` compute forward, each at a level of its own (`eager.modes.forward_levels`). `vmap` is that
of `dynajit.namespaces.mapped`. Compiled functions capture all of them.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from dynajit.autograd.products import Linear, jacobian_of, reverse
from dynajit.capture.control import disable
from dynajit.capture.library import forward_mode
from dynajit.capture.library.table import replaces
from dynajit.core.errors import ArgumentError, ArgumentValueError, InvalidValueError
from dynajit.core.process import late
from dynajit.core.pytree import flatten, tree_map, unflatten
from dynajit.eager.backward.reach import has_other_leaves
from dynajit.eager.modes import forward_levels
from dynajit.eager.modes.grad_mode import enable_grad, is_grad_enabled
from dynajit.eager.operations import duals
from dynajit.eager.samples.sample_tensor import leaf, open_level
from dynajit.eager.tensor.tensor import Tensor
from dynajit.namespaces.mapped import vmap
from dynajit.nn.layers.batch_normalization import _BatchNorm
from dynajit.nn.utils.stateless import called_with
from dynajit.ops import functions
from dynajit.ops.table.dispatch import is_recording


def _tracked(leaves: Sequence[Any], what: str) -> list[Tensor]:
    """The leaves as inputs of a transform: views of those with a history, else new leaves."""
    for given in leaves:
        if not isinstance(given, Tensor):
            raise ArgumentValueError(f"{what}: expected tensors, got {type(given).__name__}")
    level = open_level()
    if level:
        return [x.view_as(x) if x.requires_grad else leaf(x, level) for x in leaves]
    return [x.view_as(x) if x.requires_grad else _cut(x).requires_grad_() for x in leaves]


def _cut(tensor: Tensor) -> Tensor:
    """The tensor without its history; tangents of transforms around this one stay."""
    if forward_levels.opened():
        found: Tensor = duals.without_history(tensor)
        return found
    cut: Tensor = tensor.detach()
    return cut


def _is_watched(outer: bool, outputs: Sequence[Any], tracked: Sequence[Tensor]) -> bool:
    """Whether gradients are recorded around the transform, and would reach something there."""
    tensors = [y for y in outputs if isinstance(y, Tensor)]
    return outer and has_other_leaves(tensors, [x for x in tracked if x.is_leaf])


def _without_history(tree: Any, watched: bool) -> Any:
    if watched:
        return tree
    return tree_map(lambda x: _cut(x) if isinstance(x, Tensor) else x, tree)


def _split(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return result


def _tensors_of(output: Any, name: str) -> tuple[list[Tensor], Any]:
    leaves, structure = flatten(output)
    if not leaves or not all(isinstance(leaf, Tensor) for leaf in leaves):
        raise RuntimeError(
            f"{name}: Expected f to be a function that has non-empty output of Tensors"
        )
    return leaves, structure


def _require_real(leaves: Sequence[Any], name: str, what: str) -> None:
    """Jacobians are matrices of real derivatives.

    Raises:
        RuntimeError: a tensor is complex.
    """
    for place, x in enumerate(leaves):
        if isinstance(x, Tensor) and x.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {what}s to be real but received complex tensor at flattened "
                f"{what} idx: {place}.  Take the Jacobian by view_as_real(x)."
            )


def _positions(argnums: int | tuple[int, ...], count: int) -> tuple[int, ...]:
    if isinstance(argnums, int) and 0 <= argnums < count:
        return (argnums,)
    if not isinstance(argnums, (int, tuple, list)):
        raise RuntimeError(f"argnums must be an int or a tuple of them, got {argnums!r}")
    chosen = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not all(isinstance(number, int) for number in chosen):
        raise RuntimeError(f"argnums must be an int or a tuple of them, got {argnums!r}")
    if not chosen:
        raise RuntimeError("argnums must be non-empty")
    for number in chosen:
        if not -count <= number < count:
            raise RuntimeError(f"Got argnum={number}, but only {count} positional inputs")
    places = tuple(number % count for number in chosen)
    if len(set(places)) != len(places):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return places


def _chosen(args: tuple[Any, ...], argnums: int | tuple[int, ...]) -> Any:
    places = _positions(argnums, len(args))
    return args[places[0]] if isinstance(argnums, int) else tuple(args[i] for i in places)


def _replaced(args: tuple[Any, ...], argnums: int | tuple[int, ...], value: Any) -> list[Any]:
    places = _positions(argnums, len(args))
    given = [value] if isinstance(argnums, int) else value
    replaced = list(args)
    for place, item in zip(places, given, strict=True):
        replaced[place] = item
    return replaced


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the gradient of `func`, and its value.

    Args:
        func: returns one number as a tensor; with `has_aux` a pair of it and anything.
        argnums: which positional arguments the gradient is of; nests of tensors.

    Returns:
        Of a function: (gradient, value), with `has_aux` (gradient, (value, aux)).

    Raises:
        RuntimeError: `func` returns something else.
    """

    def transformed(*args: Any, **kwargs: Any) -> Any:
        outer = is_grad_enabled()
        leaves, structure = flatten(_chosen(args, argnums))
        with enable_grad():
            tracked = _tracked(leaves, "grad")
            replaced = _replaced(args, argnums, unflatten(list(tracked), structure))
            output, aux = _split(func(*replaced, **kwargs), has_aux, "grad")
            if not isinstance(output, Tensor):
                raise RuntimeError(
                    f"Expected f(*args) to return a tensor, got {type(output).__name__}"
                )
            if output.ndim:
                raise RuntimeError(
                    "Expected f(*args) to return a scalar tensor, got tensor with "
                    f"{output.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
                )
            watched = _is_watched(outer, [output, *flatten(aux)[0]], tracked)
            found = reverse([output], tracked, [functions.ones_like(output)], watched, watched)
        gradient = unflatten([_without_history(g, watched) for g in found], structure)
        value = _without_history(output, watched)
        return gradient, ((value, _without_history(aux, watched)) if has_aux else value)

    return transformed


def grad(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the gradient of `func`; with `has_aux` (gradient, aux).

    Args, raises: as of `grad_and_value`.
    """
    both = grad_and_value(func, argnums, has_aux)

    def transformed(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return transformed


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `func`, and a function that multiplies vectors by its Jacobian.

    Returns:
        (output, vjp_fn), with `has_aux` (output, vjp_fn, aux). `vjp_fn` takes a nest like the
        output and returns a tuple of nests like the primals; it may be called often.

    Raises:
        RuntimeError: `func` returns no tensors; `vjp_fn` is given another nest.
    """
    outer = is_grad_enabled()
    leaves, structure = flatten(primals)
    with enable_grad():
        tracked = _tracked(leaves, "vjp")
        output, aux = _split(func(*unflatten(list(tracked), structure)), has_aux, "vjp")
        outputs, out_structure = _tensors_of(output, "vjp")
    watched = _is_watched(outer, outputs, tracked)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        vectors, given = flatten(cotangents)
        if given != out_structure:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                "outputs to the function."
            )
        recorded = is_grad_enabled() if create_graph is None else create_graph
        recorded = recorded and (watched or any(v.requires_grad for v in vectors))
        with enable_grad():
            found = reverse(outputs, tracked, vectors, recorded, True)
        return unflatten([_without_history(g, recorded) for g in found], structure)

    result = _without_history(output, watched)
    return (result, vjp_fn, _without_history(aux, watched)) if has_aux else (result, vjp_fn)


@disable
def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """The value of `func`, and its Jacobian times the tangents, which are computed along with it.

    Returns:
        (output, tangent), nests of one structure; with `has_aux` (output, tangent, aux).

    Raises:
        RuntimeError: primals and tangents are no tuples of one structure, shapes and dtypes; with
            `strict` an output does not depend on the primals.
    """
    if not isinstance(primals, tuple) or not primals:
        raise RuntimeError("jvp: Expected primals to be a non-empty tuple.")
    leaves, structure = flatten(primals)
    vectors, given = flatten(tangents)
    if given != structure:
        raise RuntimeError("jvp: Expected primals and tangents to have the same python structure.")
    for x, v in zip(leaves, vectors, strict=True):
        _check_tangent(x, v)
    with forward_levels.opening() as level:
        moved = [duals.make_dual(level, x, v) for x, v in zip(leaves, vectors, strict=True)]
        output, aux = _split(func(*unflatten(moved, structure)), has_aux, "jvp")
        outputs, out_structure = _tensors_of(output, "jvp")
        found = [_tangent_at(level, y, strict) for y in outputs]
    tangent = unflatten(found, out_structure)
    return (output, tangent, aux) if has_aux else (output, tangent)


replaces(jvp)(forward_mode.jvp)
replaces(_cut)(forward_mode.without_history)


def _check_tangent(x: object, v: object) -> None:
    if not isinstance(x, Tensor) or not isinstance(v, Tensor):
        wrong = v if isinstance(x, Tensor) else x
        raise ArgumentValueError(f"jvp: expected tensors, got {type(wrong).__name__}")
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        raise InvalidValueError(
            f"jvp: Expected primal to be floating point or complex, but got: {x.dtype}"
        )
    if tuple(x.shape) != tuple(v.shape) or x.dtype is not v.dtype:
        raise RuntimeError(
            f"jvp: a tangent of shape {tuple(v.shape)}, {v.dtype} does not fit its primal of "
            f"shape {tuple(x.shape)}, {x.dtype}."
        )


def _tangent_at(level: forward_levels.Level, output: Tensor, strict: bool) -> Tensor:
    """The tangent of an output; zeros where it has none."""
    tangent: Tensor | None = duals.tangent_of(level, output)
    if tangent is not None:
        return tangent
    if strict:
        raise RuntimeError("jvp: an output does not depend on the primals (strict=True).")
    zeros: Tensor = functions.zeros_like(output)
    return zeros


def _require_tangents(
    tangents: tuple[Any, ...], leaves: Sequence[Any], structure: Any
) -> list[Any]:
    """The leaves of tangents that fit the primals of `linearize`."""
    vectors, given = flatten(tangents)
    if given != structure:
        raise RuntimeError(
            "linearize: Expected the tangents to have the same python structure as the primals."
        )
    for number, (x, v) in enumerate(zip(leaves, vectors, strict=True)):
        if not isinstance(v, Tensor):
            raise ArgumentError(f"linearize: expected tensors, got {type(v).__name__}")
        if tuple(x.shape) != tuple(v.shape) or x.dtype is not v.dtype:
            raise RuntimeError(
                f"linearize: tangent {number}, of shape {tuple(v.shape)} and {v.dtype}, doesn't "
                f"match its primal, of shape {tuple(x.shape)} and {x.dtype}."
            )
    return vectors


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of `func` at the primals, and a function of tangents that gives its Jacobian there
    times them.

    `func` and one backward run serve all calls of the second result, each of which is one more run.

    Args:
        func: gives a nest of tensors.
        *primals: nests of tensors.

    Returns:
        (output, jvp_fn): `jvp_fn(*tangents)` has the structure of the output.

    Raises:
        RuntimeError: the output has other things than tensors in it, or none; tangents have another
            structure, or other shapes and dtypes, than the primals.
    """
    outer = is_grad_enabled()
    leaves, structure = flatten(primals)
    with enable_grad():
        tracked = _tracked(leaves, "linearize")
        output = func(*unflatten(list(tracked), structure))
        outputs, out_structure = _tensors_of(output, "linearize")
        watched = _is_watched(outer, outputs, tracked)
        product = Linear(outputs, tracked)

    def jvp_fn(*tangents: Any) -> Any:
        vectors = _require_tangents(tangents, leaves, structure)
        with enable_grad():
            is_recorded = watched or _is_watched(is_grad_enabled(), vectors, [])
            found = product(vectors, is_recorded)
        return unflatten([_without_history(t, is_recorded) for t in found], out_structure)

    return _without_history(output, watched), jvp_fn


_REMOVED = ("mutations", "mutations_and_views")


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """A function that gives what `func` gives.

    PyTorch's rewrites writes and views while it runs, for tracers that know neither; here `compile`
    follows both, so that nothing is to be rewritten.

    Args:
        remove: "mutations" or "mutations_and_views"; both have no effect.

    Raises:
        RuntimeError: `remove` is something else.
    """
    if remove not in _REMOVED:
        raise RuntimeError(
            f"functionalize(remove={remove!r}): received invalid argument for remove.  Expected "
            f"one of {', '.join(_REMOVED)}."
        )

    @wraps(func)
    def functional(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return functional


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The tensor: samples under `vmap` are plain tensors."""
    return tensor


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that returns the Jacobian of `func`: nested by its output, then by the arguments.

    Args:
        chunk_size: how many rows are computed at once; None: all.

    Others as of `grad_and_value`. Each Jacobian has the shape (*output.shape, *input.shape).

    Raises:
        InvalidValueError: `chunk_size` is not positive.
        RuntimeError: arguments or outputs are complex.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise InvalidValueError("jacrev: `chunk_size` should be greater than 0.")

    def transformed(*args: Any, **kwargs: Any) -> Any:
        outer = is_grad_enabled()
        leaves, structure = flatten(_chosen(args, argnums))
        _require_real(leaves, "jacrev", "input")
        with enable_grad():
            tracked = _tracked(leaves, "jacrev")
            replaced = _replaced(args, argnums, unflatten(list(tracked), structure))
            output, aux = _split(func(*replaced, **kwargs), has_aux, "jacrev")
            outputs, out_structure = _tensors_of(output, "jacrev")
            _require_real(outputs, "jacrev", "output")
            watched = _is_watched(outer, outputs, tracked)
            found = [
                unflatten(
                    [
                        _without_history(j, watched)
                        for j in jacobian_of(y, tracked, watched, chunk_size)
                    ],
                    structure,
                )
                for y in outputs
            ]
        result = unflatten(found, out_structure)
        return (result, _without_history(aux, watched)) if has_aux else result

    return transformed


def jacfwd(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """A function that returns the Jacobian of `func`, as `jacrev`, column by column; with
    `has_aux` in a graph row by row, as `jacrev`.

    Args:
        randomness: see `vmap`: of calls of `func`, one for each element of the arguments.

    Raises:
        RuntimeError: arguments or outputs are complex.
    """

    def transformed(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten(_chosen(args, argnums))
        _require_real(leaves, "jacfwd", "input")
        if has_aux and is_recording():  # nothing else that `func` gives leaves the mapped function
            return jacrev(func, argnums, has_aux=True)(*args, **kwargs)
        kept: list[Any] = []

        def columns(place: int, direction: Tensor) -> Any:
            """The tangents of outputs, where one leaf moves."""

            def moved(leaf: Tensor) -> Any:
                several = [leaf if i == place else x for i, x in enumerate(leaves)]
                replaced = _replaced(args, argnums, unflatten(several, structure))
                return func(*replaced, **kwargs)

            _, tangent, *aux = jvp(moved, (leaves[place],), (direction,), has_aux=has_aux)
            if has_aux:
                kept[:] = aux
            return tangent

        found = [_by_columns(columns, i, x, randomness) for i, x in enumerate(leaves)]
        parts, out_structures = zip(*found, strict=True)
        _require_real(parts[0], "jacfwd", "output")
        rows = [unflatten(list(row), structure) for row in zip(*parts, strict=True)]
        result = unflatten(rows, out_structures[0])
        return (result, kept[0]) if has_aux else result

    return transformed


def _by_columns(
    columns: Callable[..., Any], place: int, x: Any, randomness: str
) -> tuple[list[Tensor], Any]:
    """The Jacobians of all outputs by one leaf, and the structure of the outputs."""
    if not isinstance(x, Tensor):
        raise ArgumentValueError(f"jacfwd: expected tensors, got {type(x).__name__}")
    count = x.numel()
    if not count:
        tangents, structure = flatten(columns(place, functions.zeros_like(x)))
        return [t.new_zeros((*t.shape, *x.shape)) for t in tangents], structure
    unit = functions.eye(count, dtype=x.dtype, device=x.device).reshape((count, *x.shape))
    found = vmap(lambda v: columns(place, v), randomness=randomness)(unit)
    tangents, structure = flatten(found)
    by_column = [t.movedim(0, -1).reshape((*t.shape[1:], *x.shape)) for t in tangents]
    return by_column, structure


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that returns the Hessian of `func`: the Jacobian, forward, of its Jacobian."""
    return jacfwd(jacrev(func, argnums), argnums)


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers.

    Args:
        parameter_and_buffer_dicts: dotted name -> tensor, or several such dicts.
        args, kwargs: of the call; one argument that is no tuple may stand alone.
        tie_weights: a tensor that is given for one name of a shared one counts for all its names.
        strict: all names are given, and no others.

    Raises:
        ValueError: a name is in two dicts; or names of one shared tensor are given two values.
        RuntimeError: see `strict`.
    """
    if isinstance(parameter_and_buffer_dicts, dict):
        return called_with(module, parameter_and_buffer_dicts, args, kwargs, tie_weights, strict)
    if not isinstance(parameter_and_buffer_dicts, Sequence):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameter_and_buffer_dicts)}"
        )
    together: dict[str, Any] = {}
    for given in parameter_and_buffer_dicts:
        twice = together.keys() & given.keys()
        if twice:
            raise ValueError(f"{sorted(twice)} appeared in multiple dictionaries")
        together.update(given)
    return called_with(module, together, args, kwargs, tie_weights, strict)


def stack_module_state(models: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Parameters and buffers of modules of one class, each stacked: for `vmap` over an ensemble.

    Args:
        models: at least one; all of one class, and all in training mode or none.

    Returns:
        (name -> parameters, name -> buffers), of shape (models, ...): leaves that require gradients
        where all of the models' do.

    Raises:
        RuntimeError: there is none, or they are not alike.
    """
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({bool(model.training) for model in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if not all(type(model) is type(models[0]) for model in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return _stacked(parameters), _stacked(buffers)


def _stacked(dicts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: _stacked_leaf([own[name] for own in dicts], name) for name in dicts[0]}


def _stacked_leaf(tensors: list[Tensor], name: str) -> Tensor:
    kinds = {x.requires_grad for x in tensors}
    if len(kinds) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    together: Tensor = functions.stack(tensors)
    return together.detach().requires_grad_() if kinds == {True} else together


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """`root` itself, whose batch norms keep no running statistics from now on.

    They use those of the batch, so that nothing is written under `vmap` and `grad`.
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = None
            module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False
    return root


__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

late.show(__name__)
