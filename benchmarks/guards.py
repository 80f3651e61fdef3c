"""Cost of a compiled call beyond the call itself, with regions that do nothing.

Run: `python -m benchmarks guards`. Variants are measured interleaved in one process;
each figure is the best of several rounds, in nanoseconds per call. "plain" calls the replacement
directly, "added" is what the entry object and its guards cost on top.
"""

import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import dynajit as dj
from dynajit import nn
from dynajit.capture import _capture
from dynajit.capture.entry import cache
from dynajit.capture.guards.facts import TensorFacts
from dynajit.capture.guards.guards import Guard
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.tree import compile_guards
from dynajit.capture.places.sources import (
    Attribute,
    ClassAttribute,
    Function,
    Global,
    Key,
    Local,
    Source,
)
from dynajit.core.process.optional import load
from dynajit.eager import Tensor

ROUNDS = 15
TARGET_TWO_TENSORS_NS = 150
TARGET_MODULE_NS = 400


@dataclass(frozen=True)
class Variant:
    """One compiled call and the plain call it is compared with."""

    name: str
    compiled: Callable[[], Any]
    plain: Callable[[], Any]
    calls: int


class Layer:
    """A module as guards see it: parameters and sub-modules in registries."""

    def __init__(self, parameters: dict[str, Tensor], modules: "dict[str, Layer]"):
        self._parameters = parameters
        self._modules = modules
        self.training = True
        self.step = 0

    def forward(self) -> None:
        """Does nothing."""


def tensor(*shape: int) -> Tensor:
    """A float32 tensor of zeros."""
    return Tensor(np.zeros(shape, np.float32))


def tensor_variant(count: int, calls: int) -> Variant:
    """A function of `count` tensor arguments with a full guard on each."""
    names = ", ".join(f"x{i}" for i in range(count))
    scope: dict[str, Any] = {"args": [tensor(4, 3, 2) for _ in range(count)]}
    exec(f"def original({names}): pass\ndef replacement({names}): pass", scope)
    facts = TensorFacts.of(scope["args"][0])
    guards = [Guard(Local(f"x{i}", i), Kind.TENSOR, facts) for i in range(count)]
    scope["compiled"] = _capture.CompiledFunction(scope["original"], lambda *_: None)
    scope["compiled"].add_entry(compile_guards(guards).evaluator, scope["replacement"])
    for i, value in enumerate(scope["args"]):
        scope[f"x{i}"] = value
    compiled = eval(f"lambda: compiled({names})", scope)
    plain = eval(f"lambda: replacement({names})", scope)
    return Variant(f"{count} tensor arguments", compiled, plain, calls)


def module_guards(layer: Layer, source: Source) -> list[Guard]:
    """What running the layer relies on."""
    guards = [
        Guard(source, Kind.TYPE_IS, Layer),
        Guard(Attribute(source, "training"), Kind.EQUALS, True),
        Guard(ClassAttribute(source, "forward"), Kind.IDENTITY, Layer.forward),
    ]
    for name, value in layer._parameters.items():
        place = Key(Attribute(source, "_parameters"), name)
        guards.append(Guard(place, Kind.TENSOR, TensorFacts.of(value)))
    for name, module in layer._modules.items():
        guards += module_guards(module, Key(Attribute(source, "_modules"), name))
    return guards


def module_variant(name: str, calls: int, before: str = "pass") -> Variant:
    """A method of a module with 50 layers of two parameters each; `before` runs ahead of it."""
    layers = {str(i): Layer({"weight": tensor(3, 3), "bias": tensor(3)}, {}) for i in range(50)}
    root = Layer({}, layers)
    scope: dict[str, Any] = {"root": root, "tensor": tensor}
    exec(f"def original(self): pass\ndef replacement(self): pass\n"
         f"def run():\n    {before}\n    return compiled(root)\n"
         f"def plain():\n    {before}\n    return replacement(root)\n", scope)  # fmt: skip
    scope["compiled"] = _capture.CompiledFunction(scope["original"], lambda *_: None)
    guards = module_guards(root, Local("self", 0))
    scope["compiled"].add_entry(compile_guards(guards).evaluator, scope["replacement"])
    return Variant(name, scope["run"], scope["plain"], calls)


class Block(nn.Module):
    """A block of a transformer without its attention: two norms, four linear layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.mix = nn.Sequential(nn.Linear(width, width), nn.Linear(width, width))
        self.after = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 2 * width)
        self.narrow = nn.Linear(2 * width, width)

    def forward(self, x: Any) -> Any:
        """Shape: as x."""
        x = x + self.mix(self.before(x))
        return x + self.narrow(self.widen(self.after(x)))


class Flexible(nn.Module):
    """Takes whatever it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(3, 3) for _ in range(50)))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Shape: as the first argument."""
        return self.layers(args[0])


def different_layers(count: int) -> list[nn.Module]:
    """Layers of as many classes, each with a forward of its own."""
    source = "class Layer(nn.Linear):\n    def forward(self, x): return super().forward(x)\n"
    layers = []
    for _ in range(count):
        scope: dict[str, Any] = {"nn": nn, "__name__": __name__}
        exec(source, scope)
        layers.append(scope["Layer"](3, 3))
    return layers


def network_variant(name: str, network: nn.Module, calls: int) -> Variant:
    """What a compiled network guards, in front of a function that does nothing."""
    compiled = dj.compile(network, backend="numpy")
    x = dj.ones(2, 3)
    for _ in range(3):
        compiled(x)
    found = compiled._own_call.__func__
    (entry,) = cache.cache_of(found).entries(found)

    def replacement(self: Any, *args: Any, **kwargs: Any) -> None:
        """Does nothing."""

    function = _capture.CompiledFunction(found.__wrapped__, lambda *_: None)
    function.add_entry(entry.guards.evaluator, replacement)
    scope = {"function": function, "replacement": replacement, "module": compiled, "x": x}
    call = eval("lambda: function(module, x)", scope)
    plain = eval("lambda: replacement(module, x)", scope)
    call()
    assert function.hits
    return Variant(f"{name}, {len(list(network.parameters()))} parameters", call, plain, calls)


def network_variants() -> list[Variant]:
    """Networks of the library's own modules."""
    linear = nn.Sequential(*(nn.Linear(3, 3) for _ in range(50)))
    different = nn.Sequential(*different_layers(50))
    blocks = nn.Sequential(*(nn.Sequential(Block(3), nn.Identity()) for _ in range(8)))
    return [
        network_variant("50 Linear", linear, 4000),
        network_variant("50 classes of layers", different, 4000),
        network_variant("8 nested blocks", blocks, 4000),
        network_variant("forward(*args, **kwargs)", Flexible(), 4000),
    ]


def global_variant(calls: int) -> Variant:
    """A function that reads two globals and one tensor, while another global keeps changing."""
    scope: dict[str, Any] = {"x": tensor(2, 2), "scale": 2.0, "helper": len, "step": 0}
    source = (
        "def original(x): pass\ndef replacement(x): pass\n"
        "def run():\n    global step\n    step += 1\n    return compiled(x)\n"
        "def plain():\n    global step\n    step += 1\n    return replacement(x)\n"
    )
    exec(source, scope)
    guards = [
        Guard(Local("x", 0), Kind.TENSOR, TensorFacts.of(scope["x"])),
        Guard(Global("scale"), Kind.EQUALS, 2.0),
        Guard(Global("helper", Function()), Kind.IDENTITY, len),
    ]
    scope["compiled"] = _capture.CompiledFunction(scope["original"], lambda *_: None)
    scope["compiled"].add_entry(compile_guards(guards).evaluator, scope["replacement"])
    return Variant("2 globals, a third changes every call", scope["run"], scope["plain"], calls)


def variants() -> list[Variant]:
    """Everything that is measured."""
    return [
        tensor_variant(1, 20000),
        tensor_variant(2, 20000),
        tensor_variant(10, 10000),
        tensor_variant(100, 2000),
        global_variant(10000),
        module_variant("module of 100 parameters, unchanged", 4000),
        *network_variants(),
        module_variant("... a counter of the root changes", 2000, "root.step += 1"),
        module_variant("... a parameter is replaced every call", 500,
                       "root._modules['7']._parameters['bias'] = tensor(3)"),
    ]  # fmt: skip


def torch_variants() -> list[Variant]:
    """The same for torch.compile: its compiled call against its eager one, graphs run op by op."""
    torch = load("torch", needed_for="--compare torch", install="torch")
    x, y = torch.ones(2, 3), torch.ones(2, 3)
    network = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(50)))
    add = torch.compile(torch.add, backend="eager")
    module = torch.compile(network, backend="eager")
    return [
        Variant("torch.compile: x + y", lambda: add(x, y), lambda: torch.add(x, y), 5000),
        Variant("torch.compile: 50 Linear", lambda: module(x), lambda: network(x), 300),
    ]


def nanoseconds(call: Callable[[], Any], calls: int) -> float:
    """Time of one call in one round."""
    return timeit.timeit(call, number=calls) / calls * 1e9


def measure(chosen: list[Variant]) -> dict[str, dict[str, float]]:
    """Best round of every variant, the rounds interleaved."""
    best: dict[str, dict[str, float]] = {}
    for _ in range(ROUNDS):
        for variant in chosen:
            row = best.setdefault(variant.name, {"compiled": float("inf"), "plain": float("inf")})
            row["compiled"] = min(row["compiled"], nanoseconds(variant.compiled, variant.calls))
            row["plain"] = min(row["plain"], nanoseconds(variant.plain, variant.calls))
    for row in best.values():
        row["added"] = row["compiled"] - row["plain"]
    return best


def main(compare: Sequence[str] = ()) -> None:
    """Measure and print a table.

    Args:
        compare: "torch" adds what torch.compile's guards and dispatch cost.
    """
    chosen = variants() + (torch_variants() if "torch" in compare else [])
    results = measure(chosen)
    print(f"{'ns per call':42}{'plain':>10}{'compiled':>10}{'added':>10}")
    for name, row in results.items():
        print(f"{name:42}{row['plain']:10.0f}{row['compiled']:10.0f}{row['added']:10.0f}")
    print(f"targets: 2 tensors < {TARGET_TWO_TENSORS_NS} ns, module < {TARGET_MODULE_NS} ns added")
