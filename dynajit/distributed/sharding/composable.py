"""`fully_shard`: a module becomes a sharded one in place, and keeps its names.

Contract: the module's class becomes one that derives from `FSDPModule` and from the class before.
Its parameters are DTensors outside of calls, split along their first dim, which optimizers step and
state dicts have.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from dynajit.capture.control import disable
from dynajit.core.errors import ArgumentError, InvalidValueError, UnsupportedError
from dynajit.distributed.sharding.calls import (
    STATE,
    Call,
    ShardedState,
    entered,
    state_of,
    states_below,
)
from dynajit.distributed.sharding.collecting import collected
from dynajit.distributed.sharding.initial import keep_resetting
from dynajit.distributed.sharding.settings import MixedPrecisionPolicy, OffloadPolicy, StateDictType
from dynajit.distributed.sharding.spreading import Spreading
from dynajit.distributed.sharding.states import watch_state_dicts
from dynajit.nn.module import Module
from dynajit.utils._pytree import tree_leaves

# A compiled function that meets a sharded module breaks there: gathering is the processes' own.
_entered = disable(entered)
_leave = disable(Call.leave)
_abandon = disable(Call.abandon)


class UnshardHandle:
    """What `unshard(async_op=True)` gives. Immutable."""

    def __init__(self, module: "FSDPModule") -> None:
        self._module = module

    def wait(self) -> None:
        """Return when the parameters are whole."""
        self._module.unshard()


class FSDPModule:
    """What sharded modules are, beside what they were."""

    __slots__ = ()

    def _call_forward(self, *args: Any, **kwargs: Any) -> Any:
        call, args, kwargs = _entered(self, args, kwargs)  # type: ignore[arg-type]
        if call is None:
            return super()._call_forward(*args, **kwargs)  # type: ignore[misc]
        try:
            result = super()._call_forward(*args, **kwargs)  # type: ignore[misc]
        except BaseException:
            _abandon(call)
            raise
        return _leave(call, result)

    def _states(self, recurse: bool = True) -> list[ShardedState]:
        assert isinstance(self, Module)
        if recurse:
            return states_below(self)
        state = state_of(self)
        return [] if state is None else [state]

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Let this module have whole parameters, to be read, until `reshard` or its next call.

        Args:
            async_op: only start; the handle waits.
        """
        (state,) = self._states(recurse=False)
        for unit in state.units:
            unit.start_gathering()
        if async_op:
            return UnshardHandle(self)
        for unit in state.units:
            unit.lay_gathered(unit.views(unit.gathered().clone()))
        return None

    def reshard(self) -> None:
        """Let this module have parts, and free what was gathered; writes to it are lost."""
        for state in self._states(recurse=False):
            for unit in state.units:
                unit.leave()

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Whether backward reduces gradients; else they add up, whole, in every process."""
        for state in self._states(recurse):
            for unit in state.units:
                unit.syncs = requires_gradient_sync

    set_requires_all_reduce = set_requires_gradient_sync

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Accepted: every backward waits for its reductions."""

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether parameters are freed between forward and backward."""
        for state in self._states(recurse):
            state.reshards = reshard_after_forward

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Whether parameters are freed after backward; if not, they must not be written until
        they are."""
        for state in self._states(recurse):
            for unit in state.units:
                unit.reshards = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules: Iterable["FSDPModule"]) -> None:
        """Which modules' parameters begin to travel when this one is called."""
        (state,) = self._states(recurse=False)
        state.forward_prefetch = _states_of(modules)

    def set_modules_to_backward_prefetch(self, modules: Iterable["FSDPModule"]) -> None:
        """Which modules' parameters begin to travel when backward comes to this one."""
        (state,) = self._states(recurse=False)
        state.backward_prefetch = _states_of(modules)


def _states_of(modules: Iterable[Any]) -> list[ShardedState]:
    found = [state_of(module) for module in modules]
    if None in found:
        raise InvalidValueError("set_modules_to_..._prefetch: expected sharded modules.")
    return [state for state in found if state is not None]


_CLASSES: Final[dict[type, type]] = {}
"""The classes of modules that were sharded -> what they became."""


def fully_shard(
    module: Any,
    *,
    mesh: Any = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Any], Any] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Any] | None = None,
) -> Any:
    """Shard a module's parameters over processes, in place: inner modules first, then outer ones.

    Outside of calls its parameters are DTensors, of which every process has some rows
    (`Shard(0)`); those that are DTensors already, as tensor parallelism makes them, are split
    further. Within calls, modules compute with whole parameters.

    Args:
        module: a module, or a list of modules that are gathered together.
        mesh: a mesh of one dimension, or a group; all processes if None. Of two dimensions: hybrid
            sharding, over the second, of what is averaged over the first.
        reshard_after_forward: whether parameters are freed between forward and backward (ZeRO 3) or
            kept (ZeRO 2); None: unless the module is called outermost. A number, which divides the
            number of processes that shard: so many neighbours keep the parameters between them
            until backward, which gathers them from those.
        shard_placement_fn: accepted if it names no dimension but the first.
        mp_policy: dtypes.
        offload_policy: parameters lie on the CPU in any case.
        ignored_params: stay whole.

    Returns:
        The module or modules.

    Raises:
        InvalidValueError: there is no group, the mesh has more dimensions, the number does not
            divide, a parameter has no dimension, or lies on a mesh of other processes.
        ExpectationError: a module was sharded before.
    """
    modules: Sequence[Module] = module if isinstance(module, (list, tuple)) else [module]
    if not modules or not all(isinstance(one, Module) for one in modules):
        raise ArgumentError(
            f"fully_shard({type(module).__name__}): expected a module or a list of modules."
        )
    if shard_placement_fn is not None:
        _check_placements(modules, shard_placement_fn)
    policy = mp_policy or MixedPrecisionPolicy()
    spreading = Spreading.over(mesh, reshard_after_forward)
    ignored = {id(parameter) for parameter in ignored_params or ()}
    reshards = reshard_after_forward
    if reshards is not None and not isinstance(reshards, bool):
        reshards = reshards != 1
    cast = policy.param_dtype if policy.cast_forward_inputs else None
    dtypes = (policy.param_dtype, policy.reduce_dtype)
    for one in modules:
        units, borrowed = collected(
            one,
            spreading.members,
            spreading.members.group.size(),
            dtypes,
            ignored,
            spreading.layout_of,
        )
        state = ShardedState(one, units, borrowed, reshards, (cast, cast, policy.output_dtype))
        vars(one)[STATE] = state
        keep_resetting(units)
        watch_state_dicts(state, StateDictType.SHARDED_STATE_DICT)
        _become_sharded(one)
    return module


def _become_sharded(module: Module) -> None:
    before = type(module)
    if before not in _CLASSES:
        name = f"FSDP{before.__name__}"
        members = {"__slots__": (), "__module__": before.__module__}
        _CLASSES[before] = type(name, (FSDPModule, before), members)
    object.__setattr__(module, "__class__", _CLASSES[before])


def _check_placements(modules: Sequence[Module], place: Callable[[Any], Any]) -> None:
    for parameter in tree_leaves([list(module.parameters()) for module in modules]):
        found = place(parameter)
        if found is not None and getattr(found, "dim", 0) != 0:
            raise UnsupportedError(
                f"fully_shard(shard_placement_fn=...): {found!r} was asked for.  Parameters are "
                "split along their first dim: expected None or Shard(0)."
            )


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Let a method gather parameters as the call of a sharded module does.

    Args:
        module: nothing is done if it is not sharded.
        method_name: of the method.

    Raises:
        InvalidValueError: there is no such method.
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise InvalidValueError(f"{type(module)} does not have a method {method_name}")
    method = getattr(module, method_name)
    sharded: Any = module

    def called(*args: Any, **kwargs: Any) -> Any:
        call, args, kwargs = _entered(sharded, args, kwargs)
        assert call is not None
        try:
            result = method(*args, **kwargs)
        except BaseException:
            _abandon(call)
            raise
        return _leave(call, result)

    object.__setattr__(module, method_name, called)
