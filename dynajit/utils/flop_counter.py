"""`FlopCounterMode`: how many floating-point operations a program's products are, per module.

Contract: within the block every product of eager tensors of this thread is counted, forward and
backward, two operations per multiplication and addition: products of matrices, linear layers,
convolutions and their gradients, attention, recurrent layers. Compiled functions run as plain
Python there, and are counted; the backward of a compiled call made before the block is not. What a
node of the tape computes in backward belongs to the modules that were running when it was made.

PyTorch's numbers, except where those are not what is computed: its gradient of a grouped
convolution's weight counts all input channels for every group, and its CPU attention and recurrent
layers count as nothing.
"""

import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from dynajit.core.errors import ArgumentError
from dynajit.core.process import config
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.hooks import register_module_forward_hook, register_module_forward_pre_hook
from dynajit.nn.module import Module
from dynajit.ops.table import dispatch
from dynajit.ops.table.flops import flops_of, is_product

_WHOLE: Final = "Global"
_UNITS: Final = ("", "K", "M", "B", "T")


class FlopCounterMode:
    """Counts the floating-point operations of the block; mutable.

    Args:
        mods: has no effect, and a warning: modules are found by themselves.
        depth: how deep in the tree of modules the table goes; None: to its leaves.
        display: print the table at the end of the block.
        custom_mapping: has to be empty: there are no kernels but this library's.

    Raises:
        ArgumentError: there are formulas in `custom_mapping`; or the counter is entered twice.
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int | None = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        if mods is not None:
            warnings.warn(
                "FlopCounterMode(mods=...): modules are found by themselves.", stacklevel=2
            )
        if custom_mapping:
            raise ArgumentError(
                "FlopCounterMode(custom_mapping=...): formulas of your own are not taken.  Leave "
                "it out; all products of this library are counted."
            )
        self.depth = depth
        self.display = display
        self.flop_counts: dict[str, dict[str, int]] = {}
        self._modules = _RunningModules()
        self._open: ExitStack | None = None
        self._thread = 0
        self._is_inside = False

    def get_total_flops(self) -> int:
        """Operations of the whole block."""
        return sum(self.flop_counts.get(_WHOLE, {}).values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Operations by module, then by row; "Global" has all. A module is named by the class of
        the outermost one and the path to it, as in "Net.layers.0"."""
        return {module: dict(counts) for module, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as lines of text: modules down to `depth` (None: that of the counter)."""
        deepest = self.depth if depth is None else depth
        total = self.get_total_flops()
        names = sorted(name for name in self.flop_counts if name != _WHOLE)
        if not any(sum(self.flop_counts[name].values()) == total for name in names):
            names.insert(0, _WHOLE)
        rows = [("Module", "FLOP", "% Total")]
        for name in names:
            level = name.count(".")
            if deepest is not None and level >= deepest:
                continue
            counts = self.flop_counts.get(name, {})
            rows.append(_row(" " * level + name, sum(counts.values()), total))
            rows += [_row(f"{' ' * level} - {row}", n, total) for row, n in counts.items()]
        return aligned(rows)

    def __enter__(self) -> "FlopCounterMode":
        if self._open is not None:
            raise ArgumentError(
                "FlopCounterMode: this counter is counting already.  Nest another one."
            )
        self.flop_counts = {}
        self._thread = threading.get_ident()
        with ExitStack() as stack:
            stack.enter_context(config.override(stance="force_eager"))
            stack.enter_context(self._modules.followed())
            stack.enter_context(dispatch.watching(self._watch))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        assert self._open is not None
        self._open.close()
        self._open = None
        if self.display:
            print(self.get_table())

    def _watch(self, op: Any, inputs: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        if threading.get_ident() != self._thread or dispatch.is_recording() or not is_product(op):
            return run()
        if self._is_inside:
            return self._modules.attributed(run())
        self._is_inside = True
        try:
            result = run()
        finally:
            self._is_inside = False
        if not isinstance(result, Tensor):
            return result
        for name in self._modules.now:
            counts = self.flop_counts.setdefault(name, {})
            counts[op.name] = counts.get(op.name, 0) + flops_of(op, inputs, result)
        return self._modules.attributed(result)


class _RunningModules:
    """The names of the modules that run, in forward or in backward; mutable."""

    def __init__(self) -> None:
        self.now: frozenset[str] = frozenset((_WHOLE,))
        self._thread = 0
        self._before: list[tuple[int, frozenset[str]]] = []
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._hooks: ExitStack | None = None

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Modules are seen within the block."""
        with ExitStack() as hooks:
            self._hooks, self._thread = hooks, threading.get_ident()
            hooks.enter_context(register_module_forward_pre_hook(self._begin))
            hooks.enter_context(register_module_forward_hook(self._end))
            try:
                yield
            finally:
                self._hooks = None
                self._before.clear()
                self.now = frozenset((_WHOLE,))

    def attributed(self, result: Any) -> Any:
        """`result`; what its node computes in backward belongs to the modules of now."""
        node = result.grad_fn if isinstance(result, Tensor) else None
        if node is not None and self._hooks is not None and len(self.now) > 1:
            keep = self._hooks.enter_context
            modules, key = self.now, id(node)  # the node itself would keep itself alive
            keep(node.register_prehook(lambda _: self._push(key, modules)))
            keep(node.register_hook(lambda *_: self._pop(key)))
        return result

    def _begin(self, module: Module, args: Any) -> None:
        if threading.get_ident() == self._thread:
            self._push(id(module), self.now | {self._name_of(module)})

    def _end(self, module: Module, args: Any, output: Any) -> None:
        if threading.get_ident() == self._thread:
            self._pop(id(module))

    def _push(self, key: int, modules: frozenset[str]) -> None:
        self._before.append((key, self.now))
        self.now = modules

    def _pop(self, key: int) -> None:
        """What was running before `key` began; what began later has ended by an exception."""
        while self._before:
            ended, self.now = self._before.pop()
            if ended == key:
                return

    def _name_of(self, module: Module) -> str:
        name = self._names.get(module)
        if name is None:
            name = self._names[module] = type(module).__name__
            for path, inner in module.named_modules():
                self._names.setdefault(inner, f"{name}.{path}")
        return name


def _row(name: str, count: int, total: int) -> tuple[str, str, str]:
    unit = max(0, min(len(_UNITS) - 1, (len(str(total)) - 2) // 3))
    share = f"{count / total:.2%}" if total else "0%"
    return name, f"{count / 1000**unit:.3f}{_UNITS[unit]}" if total else "0", share


def aligned(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows with a line below the first; the first column on the left, others on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    head, *rest = [
        "  ".join((row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:]))) for row in rows
    ]
    return "\n".join([head, "  ".join("-" * width for width in widths), *rest])


__all__ = ["FlopCounterMode"]
