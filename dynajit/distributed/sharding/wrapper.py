"""`FullyShardedDataParallel`: a module around another one, which it shards.

Contract: state dicts have the names of the module inside. Parameters are parts that keep their
names (`use_orig_params=True` in PyTorch); one flat parameter for a module is not offered.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from dynajit.core.errors import ExpectationError, InvalidValueError, UnsupportedError
from dynajit.core.process.process_groups import STATE as GROUPS
from dynajit.distributed.collectives import broadcast
from dynajit.distributed.device_mesh import init_device_mesh
from dynajit.distributed.sharding.calls import STATE, ShardedState, state_of, states_below
from dynajit.distributed.sharding.collecting import collected, sharding_group
from dynajit.distributed.sharding.composable import _abandon, _entered, _leave
from dynajit.distributed.sharding.initial import materialized
from dynajit.distributed.sharding.optimizer_states import (
    loadable_optimizer_state,
    optimizer_state,
)
from dynajit.distributed.sharding.settings import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from dynajit.distributed.sharding.splits import Members
from dynajit.distributed.sharding.states import KIND, watch_state_dicts
from dynajit.distributed.sharding.units import PartOfParameter
from dynajit.distributed.wrapping import Wrapper, wrapped_below
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.module import Module
from dynajit.nn.utils.gradients_and_vectors import clip_grad_norm_

_INSIDE: Final = "_fsdp_wrapped_module"
_PREFIX: Final = _INSIDE + "."

_CONFIGS: Final = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
}


class FullyShardedDataParallel(Wrapper):
    """A module whose parameters are spread over processes.

    Args:
        module: what is wrapped.
        process_group: all processes if None. For hybrid strategies a pair: of processes that shard,
            and of those that have the same part; None: the processes of each machine, and one of
            every machine.
        sharding_strategy: FULL_SHARD (the default) frees parameters between forward and backward,
            SHARD_GRAD_OP keeps them, NO_SHARD shards nothing; HYBRID_SHARD and _HYBRID_SHARD_ZERO2
            do the first two within a group, and average over another one what its processes have
            the same part of.
        cpu_offload: parameters lie on the CPU in any case.
        auto_wrap_policy: which modules below are wrapped by themselves, of `wrapping`.
        backward_prefetch, forward_prefetch, limit_all_gathers, device_id: accepted; what is needed
            next begins to travel early in any case.
        mixed_precision: dtypes.
        ignored_modules, ignored_states: stay whole.
        param_init_fn: gives values to a module that was made on "meta"; by default its
            `reset_parameters`.
        sync_module_states: values of the first process are sent to all before.
        use_orig_params: parameters keep their names in any case.
        device_mesh: a mesh of one dimension in place of `process_group`; of two for hybrid
            strategies, of which the second shards.

    Raises:
        InvalidValueError: there is no group, or they do not fit the strategy.
    """

    _sharded_state: ShardedState
    _inside = _INSIDE

    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Callable[..., Any] | None = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Iterable[Any] | None = None,
        device_mesh: Any = None,
    ) -> None:
        super().__init__()
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        members = _members(process_group, device_mesh, strategy)
        if strategy in _HYBRID:  # those below share the groups
            process_group, device_mesh = (members.group, members.across), None
        group = members.group
        states = list(ignored_states or ())
        left = [*(ignored_modules or ()), *(one for one in states if isinstance(one, Module))]
        modules = frozenset(below for one in left for below in one.modules())
        ignored = {id(p) for one in left for p in one.parameters()}
        ignored |= {id(p) for p in states if isinstance(p, Tensor)}
        if auto_wrap_policy is not None:
            options = {
                "process_group": process_group,
                "device_mesh": device_mesh,
                "sharding_strategy": strategy,
                "mixed_precision": mixed_precision,
                "param_init_fn": param_init_fn,
                "sync_module_states": sync_module_states,
                "ignored_states": [p for p in module.parameters() if id(p) in ignored],
            }
            wrapped_below(
                module,
                auto_wrap_policy,
                lambda below, **more: type(self)(below, **{**options, **more}),
                modules,
                set(ignored),
            )
        precision = mixed_precision or MixedPrecision()
        materialized(module, param_init_fn)
        if sync_module_states:
            for one in (members.across, group):
                if one is not None:
                    _send_first(module, one)
        self._fsdp_wrapped_module = module
        parts = 1 if strategy is ShardingStrategy.NO_SHARD else group.size()
        dtypes = (precision.param_dtype, precision.reduce_dtype or precision.param_dtype)
        units, borrowed = collected(self, members, parts, dtypes, ignored)
        root_cast = precision.param_dtype if precision.cast_root_forward_inputs else None
        cast = precision.param_dtype if precision.cast_forward_inputs else None
        reshards = strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD)
        state = ShardedState(self, units, borrowed, reshards, (cast, root_cast or cast, None))
        vars(self)[STATE] = state
        vars(self)["_strategy"], vars(self)["_group"] = strategy, group
        vars(self)["_is_summoned"] = False
        vars(self)["_configs"] = (StateDictConfig(), OptimStateDictConfig())
        _cast_buffers(module, precision)
        watch_state_dicts(state, StateDictType.FULL_STATE_DICT)
        self._register_state_dict_hook(_without_prefix)
        self.register_load_state_dict_pre_hook(_with_prefix)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The call of the module inside, with whole parameters."""
        call, args, kwargs = _entered(self, args, kwargs)
        assert call is not None
        try:
            result = self._fsdp_wrapped_module(*args, **kwargs)
        except BaseException:
            _abandon(call)
            raise
        return _leave(call, result)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """As of any module; within `summon_full_params` by the names of the module inside."""
        for name, parameter in super().named_parameters(prefix, recurse, remove_duplicate):
            yield (_clean(name) if vars(self)["_is_summoned"] else name), parameter

    @property
    def module(self) -> Any:
        """The module inside."""
        return self._fsdp_wrapped_module

    @property
    def sharding_strategy(self) -> ShardingStrategy:
        """As it was given."""
        return vars(self)["_strategy"]  # type: ignore[no-any-return]

    def check_is_root(self) -> bool:
        """Whether the last call of this module was an outermost one."""
        iteration = self._sharded_state.iteration
        return iteration is not None and iteration.root is self._sharded_state

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> "list[FullyShardedDataParallel]":
        """Wrapped modules among a module and all below; only those in no other, if asked."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        if not root_only:
            return found
        inner = {below for one in found for below in one.modules() if below is not one}
        return [one for one in found if one not in inner]

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block in which backward adds gradients up, whole, in every process."""
        units = [unit for state in states_below(self) for unit in state.units]
        before = [unit.syncs for unit in units]
        for unit in units:
            unit.syncs = False
        try:
            yield
        finally:
            for unit, syncs in zip(units, before, strict=True):
                unit.syncs = syncs

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale gradients so that their norm, over all processes, is at most `max_norm`.

        Returns:
            The norm before.
        """
        return clip_grad_norm_(list(self.parameters()), max_norm, norm_type)

    def apply(self, fn: Callable[[Module], None]) -> "FullyShardedDataParallel":
        """`Module.apply` where parameters are whole; what is written is kept."""
        with self.summon_full_params(self):
            super().apply(fn)
        return self

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """A block in which modules have whole parameters.

        Args:
            recurse: modules below have, too.
            writeback: what is written in the block is kept: each process its part.
            rank0_only: accepted with `writeback=False`; all processes have them.
            offload_to_cpu: accepted.
            with_grads: refused.

        Raises:
            UnsupportedError: `with_grads`.
        """
        if with_grads:
            raise UnsupportedError(
                "summon_full_params(with_grads=True): gradients are parts.  Read .grad of each."
            )
        if rank0_only and writeback:
            raise UnsupportedError(
                "writeback=True and rank0_only=True is not supported: other processes would keep "
                "what they had.  Give writeback=False."
            )
        states = states_below(module) if recurse else [s for s in [state_of(module)] if s]
        units = list(dict.fromkeys(unit for state in states for unit in state.units))
        laid = []
        for unit in units:
            copies = tuple(view.clone() for view in unit.views(unit.gathered()))
            unit.free()
            unit.lay_gathered(copies)
            laid.append(copies)
        wrapped = FullyShardedDataParallel.fsdp_modules(module)
        for one in wrapped:
            vars(one)["_is_summoned"] = True
        try:
            yield
            if writeback:
                for unit, copies in zip(units, laid, strict=True):
                    unit.take_over(copies)
        finally:
            for one in wrapped:
                vars(one)["_is_summoned"] = False
            for unit in units:
                unit.leave()

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:
        """Say what state dicts of all wrapped modules below hold.

        Returns:
            What was said before.
        """
        before = FullyShardedDataParallel.get_state_dict_type(module)
        kind, optimizer_kind = _CONFIGS[state_dict_type]
        configs = (state_dict_config or kind(), optim_state_dict_config or optimizer_kind())
        for one in FullyShardedDataParallel.fsdp_modules(module):
            vars(one)[KIND], vars(one)["_configs"] = state_dict_type, configs
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """What state dicts hold.

        Raises:
            ExpectationError: no module is wrapped.
        """
        found = FullyShardedDataParallel.fsdp_modules(module)
        if not found:
            raise ExpectationError("expected a module with FullyShardedDataParallel in it.")
        return StateDictSettings(vars(found[0])[KIND], *vars(found[0])["_configs"])

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:
        """A block in which state dicts hold something else; see `set_state_dict_type`."""
        before = FullyShardedDataParallel.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            FullyShardedDataParallel.set_state_dict_type(
                module,
                before.state_dict_type,
                before.state_dict_config,
                before.optim_state_dict_config,
            )

    @staticmethod
    def optim_state_dict(
        model: Module, optim: Any, optim_state_dict: Any = None, group: Any = None
    ) -> dict[str, Any]:
        """The state of an optimizer by names of parameters, as `state_dict_type` says.

        Args:
            optim_state_dict: what `optim.state_dict()` gave; asked for if None.
            group: accepted.
        """
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        is_whole = settings.state_dict_type is StateDictType.FULL_STATE_DICT
        found = optimizer_state(model, optim, is_whole, optim_state_dict)
        only = getattr(settings.optim_state_dict_config, "rank0_only", False)
        default = GROUPS.default
        is_first = default is None or default.rank() == 0
        return found if is_first or not only else {}

    @staticmethod
    def optim_state_dict_to_load(
        model: Module,
        optim: Any,
        optim_state_dict: dict[str, Any],
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: Any = None,
    ) -> dict[str, Any]:
        """What `optim.load_state_dict` takes, of what `optim_state_dict` gave.

        Args:
            load_directly: load it, too.
            is_named_optimizer, group: accepted.
        """
        found = loadable_optimizer_state(model, optim, optim_state_dict)
        if load_directly:
            optim.load_state_dict(found)
        return found

    @staticmethod
    def full_optim_state_dict(
        model: Module,
        optim: Any,
        optim_input: Any = None,
        rank0_only: bool = True,
        group: Any = None,
    ) -> dict[str, Any]:
        """`optim_state_dict` of whole tensors by its older name."""
        config = FullOptimStateDictConfig(rank0_only=rank0_only)
        with FullyShardedDataParallel.state_dict_type(
            model, StateDictType.FULL_STATE_DICT, None, config
        ):
            return FullyShardedDataParallel.optim_state_dict(model, optim)


_HYBRID: Final = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)


def _members(given: Any, mesh: Any, strategy: ShardingStrategy) -> Members:
    """Who shards, and who has the same part."""
    name = "FullyShardedDataParallel"
    if strategy not in _HYBRID:
        if isinstance(given, (tuple, list)) or (mesh is not None and mesh.ndim != 1):
            raise InvalidValueError(
                f"{name}(sharding_strategy={strategy.name}): two groups, or a mesh of several "
                "dims, are for HYBRID_SHARD.  Expected one group."
            )
        return Members(sharding_group(given if mesh is None else mesh.get_group(), name))
    if mesh is not None:
        if mesh.ndim != 2:
            raise InvalidValueError(
                f"{name}(sharding_strategy={strategy.name}): got {mesh!r}.  Expected a mesh of two "
                "dims, of which the second shards."
            )
        given = mesh.get_group(1), mesh.get_group(0)
    elif given is None:
        found = init_device_mesh("cpu", _machines())
        given = found.get_group(1), found.get_group(0)
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise InvalidValueError(
            f"{name}(sharding_strategy={strategy.name}): expected two groups: of processes that "
            "shard, and of those that have the same part."
        )
    group, across = (sharding_group(one, name) for one in given)
    return Members(group, across)


def _machines() -> tuple[int, int]:
    """How many machines there are, and processes of each."""
    size = sharding_group(None, "FullyShardedDataParallel").size()
    local = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    return (size // local, local) if local and size % local == 0 else (1, size)


def _clean(name: str) -> str:
    """A parameter's name without those of wrappers."""
    return name.replace(_PREFIX, "")


def _renamed(entries: dict[str, Any], old: str, new: str) -> None:
    for name in [name for name in entries if name.startswith(old)]:
        entries[new + name[len(old) :]] = entries.pop(name)


def _without_prefix(module: Any, saved: dict[str, Any], prefix: str, *rest: Any) -> None:
    _renamed(saved, prefix + _PREFIX, prefix)
    config = vars(module)["_configs"][0]
    if getattr(config, "rank0_only", False) and vars(module)["_group"].rank() != 0:
        for name in [name for name in saved if name.startswith(prefix)]:
            del saved[name]


def _with_prefix(module: Any, entries: dict[str, Any], prefix: str, *rest: Any) -> None:
    _renamed(entries, prefix, prefix + _PREFIX)


def _cast_buffers(module: Module, precision: MixedPrecision) -> None:
    dtype = precision.buffer_dtype
    if dtype is None:
        return
    for below in module.modules():
        for name, buffer in below._buffers.items():
            if buffer is not None and buffer.is_floating_point():
                below._buffers[name] = buffer.to(dtype)


def _send_first(module: Module, group: Any) -> None:
    with no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            if not isinstance(tensor, PartOfParameter):
                broadcast(tensor.data, group=group, group_src=0)
