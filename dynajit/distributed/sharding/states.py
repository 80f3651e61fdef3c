"""What state dicts of sharded modules hold: whole tensors, or parts that know their places.

Contract: while `state_dict` and `load_state_dict` look at a sharded module, it has what the kind of
state dict asks for in place of parts; hence names, hooks and shared parameters are as always.
Loading takes either kind, as the entries are.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from dynajit.core.errors import ExpectationError
from dynajit.distributed.sharding.calls import ShardedState
from dynajit.distributed.sharding.settings import StateDictType
from dynajit.distributed.sharding.units import Unit
from dynajit.distributed.tensor.dtensor import DTensor
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.creation import empty
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.hooks import add_hook
from dynajit.nn.module import Module
from dynajit.ops.functions.creation.creation import zeros

KIND: Final = "_state_kind"
"""The attribute of a sharded module that has the kind of its state dicts."""


class ShardedTensor(Tensor):
    """This process's part of a tensor, in order of elements; what parts state dicts hold.

    Attributes:
        unit, index: the parameter that it is of, or belongs to.
    """

    unit: Unit
    index: int

    @classmethod
    def of(cls, part: Tensor, unit: Unit, index: int) -> "ShardedTensor":
        """A part, whose memory is shared."""
        made: ShardedTensor = part.detach().as_subclass(cls)
        made.unit, made.index = unit, index
        return made

    @property
    def full_shape(self) -> tuple[int, ...]:
        """Of the whole."""
        return self.unit.entries[self.index].shape

    @property
    def start(self) -> int:
        """Where the part begins in the whole, in elements."""
        return self.unit.span(self.index)[0]

    def detach(self) -> "ShardedTensor":
        """The same memory, without history."""
        return ShardedTensor.of(self.as_subclass(Tensor), self.unit, self.index)

    def clone(self, *args: Any, **kwargs: Any) -> "ShardedTensor":
        """A copy of the part."""
        return ShardedTensor.of(self.to_local().clone(), self.unit, self.index)

    def to_local(self) -> Tensor:
        """The part as a plain tensor."""
        part: Tensor = self.as_subclass(Tensor).detach()
        return part

    def full_tensor(self) -> Tensor:
        """The whole; every process of the group calls this."""
        parts: list[Tensor | None] = [
            zeros(self.unit.span(index)[2], dtype=self.dtype)
            for index in range(len(self.unit.entries))
        ]
        parts[self.index] = self.to_local()
        found = self.unit.joined(parts)[self.index]
        assert found is not None
        return found


@contextlib.contextmanager
def state_dicts_of(model: Module, kind: StateDictType) -> Iterator[None]:
    """A block in which state dicts of a model are of a kind."""
    modules = [module for module in model.modules() if KIND in vars(module)]
    before = [vars(module)[KIND] for module in modules]
    for module in modules:
        vars(module)[KIND] = kind
    try:
        yield
    finally:
        for module, known in zip(modules, before, strict=True):
            vars(module)[KIND] = known


def watch_state_dicts(state: ShardedState, kind: StateDictType) -> None:
    """Let a module's state dicts be of a kind, which `vars(module)[KIND]` may change."""
    vars(state.module).setdefault(KIND, kind)
    watch = _Watch(state)
    module: Any = state.module
    add_hook(module._state_dict_pre_hooks, watch.before_saving)
    module._register_state_dict_hook(watch.after_saving)
    module.register_load_state_dict_pre_hook(watch.before_loading)
    module.register_load_state_dict_post_hook(watch.after_loading)


class _Watch:
    """Hooks of one module. A unit that inner modules look at, too, is theirs until the outermost
    one has ended."""

    def __init__(self, state: ShardedState) -> None:
        self._state = state

    def before_saving(self, module: Any, prefix: str, keep_vars: bool) -> None:
        """The module has what is to be saved."""
        kind = vars(module)[KIND]
        for unit in self._state.needed():
            if unit.shows == 0:
                if kind is StateDictType.FULL_STATE_DICT:
                    copies = [view.clone() for view in unit.views(unit.gathered())]
                    unit.lay(_whole(unit.dressed(index, x)) for index, x in enumerate(copies))
                    unit.free()
                else:
                    unit.lay(_parts(unit))
            unit.shows += 1

    def after_saving(self, module: Any, saved: Any, prefix: str, local: Any) -> None:
        """The module has parts again."""
        for unit in self._state.needed():
            unit.shows -= 1
            if unit.shows == 0:
                unit.lay_parts()

    def before_loading(self, module: Any, entries: Any, prefix: str, *rest: Any) -> None:
        """The module has what entries are copied into."""
        below = [value for key, value in entries.items() if key.startswith(prefix)]
        has_parts = any(isinstance(value, (ShardedTensor, DTensor)) for value in below)
        for unit in self._state.needed():
            if unit.shows == 0 and has_parts:
                _check_places(unit, below)
                unit.lay(_parts(unit))
            elif unit.shows == 0:
                unit.lay(_whole_copies(unit))
            unit.shows += 1

    def after_loading(self, module: Any, keys: Any) -> None:
        """Parts of what was loaded are kept."""
        for unit in self._state.needed():
            unit.shows -= 1
            if unit.shows == 0:
                owners = (entry.owners[0] for entry in unit.entries)
                laid: list[Any] = [owner._parameters[name] for owner, name in owners]
                for index, found in enumerate(laid):
                    _take_over(unit, index, found)
                unit.lay_parts()


def _whole(x: object) -> Any:
    """What all processes have of a tensor together."""
    return x.full_tensor() if isinstance(x, DTensor) else x


def _take_over(unit: Unit, index: int, found: Any) -> None:
    """What a module has after loading: written into the part, if it is not the part itself."""
    leaf = unit.leaves[index]
    if found is leaf or isinstance(found, ShardedTensor):
        return
    if isinstance(found, DTensor) and found.placements == getattr(leaf, "placements", None):
        if leaf.is_meta:  # as load_state_dict(assign=True) gives it
            leaf.data = found.detach()
        else:
            with no_grad():
                leaf.copy_(found)
        return
    unit.write(index, unit.undressed(index, found))


def _parts(unit: Unit) -> Sequence[Any]:
    if unit.split.layouts is not None:
        return unit.leaves
    return [ShardedTensor.of(leaf, unit, index) for index, leaf in enumerate(unit.leaves)]


def _whole_copies(unit: Unit) -> tuple[Tensor, ...]:
    """What a state dict is loaded into: the values now, where not all may be there."""
    if unit.leaves[0].is_meta:
        copies = [empty(entry.shape, dtype=unit.dtype) for entry in unit.entries]
    else:
        with no_grad():
            copies = [view.clone() for view in unit.views(unit.gathered())]
        unit.free()
    return tuple(unit.dressed(index, x) for index, x in enumerate(copies))


def _check_places(unit: Unit, values: list[Any]) -> None:
    for value in values:
        if isinstance(value, ShardedTensor) and value.unit.parts != unit.parts:
            raise ExpectationError(
                f"load_state_dict: parts of {value.unit.parts} processes for a module that is "
                f"sharded over {unit.parts}.  Use distributed.checkpoint, or a full state dict."
            )
