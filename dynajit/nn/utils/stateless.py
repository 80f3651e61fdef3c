"""Calls of a module with other parameters and buffers than its own.

Contract: the module is as before when the call has ended, however it ends; buffers that the call
assigned anew are put into the given dict.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from dynajit.nn.module import Module

_MISSING: Final = object()


def _names(module: Module) -> dict[str, Any]:
    """All names of parameters and buffers, shared ones by each of their names."""
    found: dict[str, Any] = dict(module.named_parameters(remove_duplicate=False))
    found.update(module.named_buffers(remove_duplicate=False))
    return found


def _untied(module: Module, given: dict[str, Any]) -> dict[str, Any]:
    """`given`, with a value for every name of a shared tensor of which one name is given."""
    by_tensor: dict[int, list[str]] = {}
    for name, tensor in _names(module).items():
        by_tensor.setdefault(id(tensor), []).append(name)
    complete = dict(given)
    for names in by_tensor.values():
        known = [name for name in names if name in given]
        if not known or len(names) == 1:
            continue
        if any(given[name] is not given[known[0]] for name in known):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(known)}, which are tied. "
                "Consider using tie_weights=False"
            )
        complete.update(dict.fromkeys(names, given[known[0]]))
    return complete


def _check(module: Module, given: dict[str, Any]) -> None:
    own = _names(module)
    missing = [name for name in own if name not in given]
    unexpected = [name for name in given if name not in own]
    problems = []
    if unexpected:
        problems.append("Unexpected key(s): " + ", ".join(map(repr, unexpected)) + ".")
    if missing:
        problems.append("Missing key(s): " + ", ".join(map(repr, missing)) + ".")
    if problems:
        raise RuntimeError(
            f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(problems)
        )


def _exchange(module: Module, name: str, value: Any) -> Any:
    """Put a value where the module looks up a name; returns what was there."""
    path, _, last = name.rpartition(".")
    owner = module.get_submodule(path)
    tables: tuple[dict[str, Any], ...] = (owner._parameters, owner._buffers)
    for table in tables:
        if last in table:
            before, table[last] = table[last], value
            return before
    before = owner.__dict__.get(last, _MISSING)
    if value is _MISSING:
        object.__delattr__(owner, last)
    else:
        object.__setattr__(owner, last, value)
    return before


@contextmanager
def _exchanged(module: Module, given: dict[str, Any], tie_weights: bool) -> Iterator[None]:
    values = _untied(module, given) if tie_weights else given
    before: dict[str, Any] = {}
    try:
        for name, value in values.items():
            before[name] = _exchange(module, name, value)
        yield
    finally:
        for name, value in before.items():
            after = _exchange(module, name, value)
            if name in given:
                given[name] = after


@contextmanager
def _reparametrize_module(
    module: Module,
    parameters_and_buffers: dict[str, Any],
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:
    """A block in which the module has other parameters and buffers; PyTorch's private name.

    Args:
        tie_weights, strict: as of `func.functional_call`.
        stack_weights: changes nothing.
    """
    given = parameters_and_buffers
    if strict:
        _check(module, _untied(module, given) if tie_weights else given)
    with _exchanged(module, given, tie_weights):
        yield


def called_with(
    module: Any,
    given: dict[str, Any],
    args: Any,
    kwargs: dict[str, Any] | None,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """See `func.functional_call`."""
    if strict:
        _check(module, _untied(module, given) if tie_weights else given)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _exchanged(module, given, tie_weights):
        return module(*args, **(kwargs or {}))


def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`func.functional_call` by its older name, which is deprecated."""
    warnings.warn(
        "This API is deprecated: use dynajit.func.functional_call.", FutureWarning, stacklevel=2
    )
    return called_with(module, parameters_and_buffers, args, kwargs, tie_weights, strict)


__all__ = ["functional_call"]
