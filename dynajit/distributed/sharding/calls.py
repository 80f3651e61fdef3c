"""Calls of sharded modules: what is gathered before, freed after, and reduced in backward.

Contract: `enter` and `leave` stand around each call; the outermost one begins an `Iteration`, whose
nodes on the tape see to gradients: `_Begin` (one, the oldest, which runs last in backward) waits
for all reductions and hands gradients to the parts; the oldest `_Reduce` of a unit starts its
reduction, since nothing newer can add to it; each time that a unit is gathered, a `_Use` has the
whole parameters as its outputs. What is saved for backward of gathered memory is kept as a
place in its unit, and gathered again when backward asks.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from dynajit.core.errors import AutogradError, ExpectationError
from dynajit.core.records import record
from dynajit.core.types.dtypes import DType
from dynajit.distributed.sharding.transfers import ORDER, Reduction
from dynajit.distributed.sharding.units import MSG_NOT_GATHERED, MSG_WRITTEN, Unit
from dynajit.eager import _tensor
from dynajit.eager.backward import present
from dynajit.eager.backward.function import Function, once_differentiable
from dynajit.eager.modes.grad_mode import enable_grad, is_grad_enabled, no_grad
from dynajit.eager.tape import saved_hooks
from dynajit.eager.tape.node import Node, edges_of
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.module import Module
from dynajit.ops.functions.creation.creation import zeros
from dynajit.utils._pytree import tree_leaves, tree_map

STATE: Final = "_sharded_state"
"""The attribute of a sharded module that has its `SharedState`."""


class ShardedState:
    """What a sharded module has. Mutable: programs change settings.

    Args:
        module: the module.
        units: of its parameters.
        borrowed: other modules' units that share parameters with it.
        reshards: parameters are freed after forward; None: unless it is called outermost.
        casts: dtypes of inputs (of any call, and of an outermost one) and of outputs; None leaves
            them.
    """

    def __init__(
        self,
        module: Module,
        units: Sequence[Unit],
        borrowed: Sequence[Unit],
        reshards: bool | None,
        casts: tuple[DType | None, DType | None, DType | None] = (None, None, None),
    ) -> None:
        self.module = module
        self.units = list(units)
        self.borrowed = list(borrowed)
        self.reshards = reshards
        self.casts = casts
        self.forward_prefetch: list[ShardedState] = []
        self.backward_prefetch: list[ShardedState] = []
        self.order: tuple[ShardedState, ...] = ()
        self.iteration: Iteration | None = None
        for unit in units:
            for entry in unit.entries:
                for owner, name in entry.owners:
                    guard(unit, owner, name)

    def needed(self) -> list[Unit]:
        """All units that its call computes with."""
        return [*self.units, *self.borrowed]


def state_of(module: Module) -> "ShardedState | None":
    """What a module has, if it is sharded."""
    return module.__dict__.get(STATE)


def states_below(module: Module) -> list[ShardedState]:
    """Of a module and all below, outer ones first."""
    found = (state_of(below) for below in module.modules())
    return [state for state in found if state is not None]


_HELD: Final = "_sharded_parameters"
_GUARD: Final = -1
"""The number of the hook that refuses: one for all modules, so that compiled code is, too."""


def guard(unit: Unit, module: Module, name: str) -> None:
    """Let a module refuse to compute with a part."""
    held = vars(module).get(_HELD, ())
    object.__setattr__(module, _HELD, (*held, (unit, name)))
    module._made_call_hooks().forward_pre[_GUARD] = _refuse_parts


def _refuse_parts(module: Module, args: Any) -> None:
    for unit, name in vars(module)[_HELD]:
        if not unit.is_laid() and not _laid_for_backward(unit):
            raise ExpectationError(MSG_NOT_GATHERED.format(module=type(module).__name__, name=name))


def _laid_for_backward(unit: Unit) -> bool:
    """Whether backward computes something again, for which modules have whole parameters now."""
    if not present.is_running() or unit.iteration is None:
        return False
    with enable_grad():
        unit.iteration.lay(unit)
    return True


# -- the tape ----------------------------------------------------------------------------------


class _Begin(Node):
    """Made of all parts, with one scalar for each unit as outputs; in backward, the gradients of
    all parts. Not a `Function`: parts may be DTensors."""

    __slots__ = ("iteration", "output_count")

    def __init__(self, iteration: "Iteration", leaves: Sequence[Tensor], count: int) -> None:
        super().__init__(*edges_of(leaves))
        self.iteration = iteration
        self.output_count = count

    def outputs(self) -> list[Tensor]:
        """The scalars."""
        found = [zeros(()) for _ in range(self.output_count)]
        for place, output in enumerate(found):
            _tensor.attach(output, self, place)
        return found

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        with no_grad():
            return self.iteration.finished_gradients()


class _Reduce(Function):
    """A token of a unit, made of the one before; in backward, when the first is reached, all
    gradients are there, and their reduction starts."""

    @staticmethod
    def forward(
        ctx: Any, iteration: "Iteration", unit: Unit, before: Tensor, is_first: bool
    ) -> Any:
        ctx.iteration, ctx.unit, ctx.is_first = iteration, unit, is_first
        return zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Any) -> Any:
        if ctx.is_first:
            ctx.iteration.reduce(ctx.unit)
        return None, None, gradient, None


class _Use(Function):
    """The whole parameters of a gathered unit; in backward, their gradients are kept by it."""

    @staticmethod
    def forward(ctx: Any, unit: Unit, token: Tensor) -> Any:
        ctx.unit = unit
        ctx.set_materialize_grads(False)
        found = unit.views(unit.gathered())
        frozen = [x for x, leaf in zip(found, unit.leaves, strict=True) if not leaf.requires_grad]
        ctx.mark_non_differentiable(*frozen)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.unit.add_gradients(gradients)
        return None, zeros(())


# -- saved for backward ------------------------------------------------------------------------


@record(eq=False)
class _Place:
    """Where a saved tensor lay in what its unit had gathered."""

    unit: Unit
    stamp: tuple[int, ...]
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any

    def found(self) -> Tensor:
        """The tensor, gathered again if need be."""
        full = self.unit.gathered()
        if self.unit.stamp() != self.stamp:
            raise AutogradError(MSG_WRITTEN.format(names=self.unit.names()))
        array = np.ndarray(self.shape, self.dtype, full.array, self.offset, self.strides)
        return _tensor.wrap(array)


@record(eq=False)
class _Kept:
    """A saved tensor that lies elsewhere, with the version that it had."""

    tensor: Any
    version: int

    def found(self) -> Tensor:
        """The tensor.

        Raises:
            AutogradError: it was written since.
        """
        if self.tensor._version != self.version:
            raise AutogradError(
                "one of the variables needed for gradient computation has been modified by an "
                f"inplace operation: [{self.tensor.dtype} {list(self.tensor.shape)}] is at "
                f"version {self.tensor._version}; expected version {self.version} instead."
            )
        return self.tensor  # type: ignore[no-any-return]


@record(eq=False)
class _Passed:
    """A saved tensor that went through the functions of a block around the module's call."""

    content: Any
    unpack: Callable[[Any], Any]

    def found(self) -> Tensor:
        """What they give back."""
        return self.unpack(self.content)  # type: ignore[no-any-return]


def _hooks_of(units: Sequence[Unit]) -> saved_hooks.Hooks:
    """Functions for saved tensors while a call goes on, around those that are there."""
    outer = saved_hooks.current()

    def place_of(saved: Any) -> _Place | None:
        array = saved._held
        for unit in units:
            offset = unit.holds(array)
            if offset is not None:
                return _Place(unit, unit.stamp(), offset, array.shape, array.strides, array.dtype)
        return None

    def pack(saved: Any) -> _Place | _Kept | _Passed:
        place = place_of(saved)
        if place is not None:
            return place
        if outer is not None:
            return _Passed(outer[0](saved), outer[1])
        return _Kept(saved, saved._version)

    hooks = saved_hooks.HooksOfOwner((pack, _found))
    hooks.place_of = place_of
    return hooks


def _found(packed: _Place | _Kept | _Passed) -> Tensor:
    return packed.found()


# -- calls -------------------------------------------------------------------------------------


class Iteration:
    """One outermost call of sharded modules, and its backward. Mutable: it goes on.

    Args:
        root: the module that was called.
    """

    def __init__(self, root: ShardedState) -> None:
        self.root = root
        self.states = states_below(root.module)
        self.units = list(dict.fromkeys(u for state in self.states for u in state.needed()))
        self.order: list[ShardedState] = []
        self._trained: list[Unit] = []
        self._befores: dict[Unit, Tensor] = {}
        self._reductions: dict[Unit, Reduction] = {}
        self._last: Reduction | None = None
        for unit in self.units:
            unit.token, unit.iteration = None, self
            if unit.reshards:
                unit.leave()
        if is_grad_enabled():
            self._begin()

    def _begin(self) -> None:
        self._trained = [unit for unit in self.units if unit.is_trained()]
        if not self._trained:
            return
        leaves = [leaf for unit in self._trained for leaf in unit.leaves]
        befores = _Begin(self, leaves, len(self._trained)).outputs()
        self._befores = dict(zip(self._trained, befores, strict=True))

    def lay(self, unit: Unit) -> None:
        """Let modules have a unit's whole parameters, with their history where one is kept."""
        if is_grad_enabled() and unit.is_trained() and unit in self._befores:
            before = unit.token
            is_first = before is None
            unit.token = _Reduce.apply(
                self, unit, self._befores[unit] if before is None else before, is_first
            )
            unit.lay_gathered(_Use.apply(unit, unit.token))
        else:
            unit.lay_gathered(unit.views(unit.gathered()))

    def prefetch(self, state: ShardedState, step: int) -> None:
        """Start to gather what is needed next, as the last call went."""
        given = state.forward_prefetch if step > 0 else state.backward_prefetch
        order = self.root.order if step > 0 else tuple(self.order)
        if not given and state in order:
            place = order.index(state) + step
            given = [order[place]] if 0 <= place < len(order) else []
        for other in given:
            for unit in other.needed():
                unit.start_gathering()

    def before_backward(self, state: ShardedState, gradient: Tensor) -> None:
        """Gradients of a call's results are here: its parameters are needed again."""
        for unit in state.needed():
            unit.start_gathering()
        self.prefetch(state, -1)
        for unit in state.needed():
            if not unit.is_laid():
                with enable_grad():
                    self.lay(unit)

    def reduce(self, unit: Unit) -> None:
        """All gradients of a unit are here: let them travel, and free the parameters."""
        if unit.syncs:
            if self._last is not None:
                self._last.wait()  # at most one travels, so that buffers are few
            started = unit.started_reduction()
            if started is not None:
                self._reductions[unit] = self._last = started
        if unit.reshards:
            unit.leave()

    def check_order(self) -> None:
        """Nothing, if all processes gathered the same units in the same order.

        Raises:
            DistBackendError: they did not.
        """
        for group in dict.fromkeys(unit.group for unit in self.units):
            ORDER.check(group)

    def finished_gradients(self) -> list[Tensor | None]:
        """Of all parts, in order."""
        reductions, self._reductions, self._last = self._reductions, {}, None
        self.check_order()
        found: list[Tensor | None] = []
        for unit in self._trained:
            reduction = reductions.get(unit)
            if reduction is None:
                found += [None] * len(unit.leaves)
            else:
                given = unit.gradients_of_leaves(reduction)
                found += [
                    g if leaf.requires_grad else None
                    for g, leaf in zip(given, unit.leaves, strict=True)
                ]
        for unit in self.units:
            if unit.reshards:
                unit.leave()
        return found


class _Current(threading.local):
    """The iteration that goes on in this thread. Mutable."""

    iteration: Iteration | None = None


_current = _Current()


class Call:
    """One call of a sharded module. Mutable: it ends.

    Args:
        state: of the module.
    """

    def __init__(self, state: ShardedState) -> None:
        self._state = state
        self._is_outermost = _current.iteration is None
        self._is_again = present.is_running()
        if _current.iteration is None:
            _current.iteration = self._again() or Iteration(state)
        self._iteration = _current.iteration
        self._is_open = False

    def _again(self) -> Iteration | None:
        """The iteration whose backward computes this call again, if it had another root."""
        known = self._state.iteration
        return known if self._is_again and known and known.root is not self._state else None

    def enter(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments, cast; parameters are gathered."""
        state, iteration = self._state, self._iteration
        args, kwargs = self._cast(args, kwargs)
        needed = state.needed()
        for unit in needed:
            unit.start_gathering()
        if not self._is_again:
            state.iteration = iteration
            if state not in iteration.order:
                iteration.order.append(state)
            iteration.prefetch(state, 1)
        for unit in needed:
            if unit.depth == 0:
                iteration.lay(unit)
            unit.depth += 1
        if is_grad_enabled() and not saved_hooks.is_suspended():
            saved_hooks.enter(_hooks_of(iteration.units))
            self._is_open = True
        return args, kwargs

    def _cast(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        dtype = self._state.casts[1 if self._is_outermost else 0]
        if dtype is None:
            return args, kwargs
        return cast_floating(args, dtype), cast_floating(kwargs, dtype)

    def leave(self, result: Any) -> Any:
        """The results, cast, which tell when their gradients come; parameters are freed."""
        dtype = self._state.casts[2]
        if dtype is not None:
            result = cast_floating(result, dtype)
        self._close()
        if is_grad_enabled():
            told = functools.partial(self._iteration.before_backward, self._state)
            for leaf in tree_leaves(result):
                if isinstance(leaf, Tensor) and leaf.requires_grad:
                    leaf.register_hook(told)
        if self._is_outermost and not self._is_again:
            self._iteration.check_order()
            self._state.order = tuple(self._iteration.order)
        return result

    def _close(self) -> None:
        if self._is_open:
            saved_hooks.leave()
            self._is_open = False
        keeps = self._state.reshards is False or (
            self._state.reshards is None and self._iteration.root is self._state
        )
        for unit in self._state.needed():
            unit.depth = max(unit.depth - 1, 0)
            if unit.depth == 0:
                unit.lay_parts()
                if not is_grad_enabled():
                    unit.free()
                elif not keeps:
                    unit.free_until_backward()
        if self._is_outermost:
            _current.iteration = None

    def abandon(self) -> None:
        """The call raised."""
        self._close()
        if self._is_outermost:
            for unit in self._iteration.units:
                unit.leave()


def cast_floating(tree: Any, dtype: DType) -> Any:
    """Floating-point tensors in a dtype, everything else as it is."""

    def cast(leaf: Any) -> Any:
        is_cast = isinstance(leaf, Tensor) and leaf.is_floating_point()
        return leaf.to(dtype) if is_cast else leaf

    return tree_map(cast, tree)


def entered(module: Module, args: Any, kwargs: Any) -> tuple[Call | None, Any, Any]:
    """A call of a module begins: it, and the arguments; None where the module has no state."""
    state = state_of(module)
    if state is None:
        return None, args, kwargs
    call = Call(state)
    try:
        return call, *call.enter(args, kwargs)
    except BaseException:
        call.abandon()
        raise
