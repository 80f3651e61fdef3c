"""Random training steps: mutation, aliases, views, hooks, losses, optimizers and breaks mixed.

`body(seed)` gives the statements of `step(x, y)`; the same seed gives the same ones. All tensors are
float64 of one shape, so that most statements succeed; what raises must raise the same compiled.
`compare(seed)` runs it eagerly and compiled, with arguments of several kinds, and returns what
differs, or None. `python tests/fuzz/steps.py --first 0 --count 1000` compares many; `--show N` prints
one, `--shrink N` leaves out the statements that a difference does not need.

What docs/differences.md accepts is no difference: layouts of gradients that `autograd.grad` gives, what
comes after one of the refusals in `REFUSED`, and what is gone when `REPLACED` is applied.
"""

import argparse
import contextlib
import functools
import os
import random
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import dynajit as dj
from tests.training_steps.comparing import differences

#: `$t` is a tensor that is there, `$n` a new one, `$p` a parameter, `$k` a number.
COMPUTED = [
    "$n = ($t * $p).tanh()", "$n = ($t @ M).sigmoid()", "$n = $t + $t * $k", "$n = $t.view(4, 3).view(3, 4)",
    "$n = $t.t().contiguous().t()", "$n = $t.detach()", "$n = $t.detach() * $p", "$n = $t.clone()", "$n = dj.where($t > 0, $t, $p)",
    "with dj.no_grad():\n    $n = $t * $k", "with dj.no_grad():\n    $n = $p\nwith dj.enable_grad():\n    $n = $n.sin()",
    "$n = dj.nn.functional.dropout($t, 0.3)", "$n = $t + dj.randn_like($t) * 0.1", "$n = dj.cat([$t[:1], $t[1:] * $p[1:]])",
    "$n = $t.softmax(-1) * $k", "$n = dj.nn.functional.layer_norm($t, (4,), V[0], V[1])", "$n = $t[[2, 0, 1]]", "$n = $t.expand(2, 3, 4)[1]",
    "$n = $t.mean(0, keepdim=True) + $t", "$n = Doubled.apply($t)", "$n = dj.utils.checkpoint.checkpoint(inner, $t, use_reentrant=False)",
]  # fmt: skip
WRITTEN = [
    "$n = $t * 1\n$n.mul_($k)", "$n = $t * 1\n$n[0].add_($t[1])", "$n = $t * 1\n$n[:, 1] = $t[:, 2]", "$n = $t.clone()\n$n.t()[1].mul_($k)\n$n = $n * $p",
    "x.add_($k)", "y.mul_($k)", "x[1].copy_(y[2])", "BUFFER.add_($t.detach())", "BUFFER.mul_(0.5).add_($t, alpha=$k)", "BUFFER = BUFFER.detach()", "with dj.no_grad():\n    $p.mul_(0.9)",
    "with dj.no_grad():\n    $p[0].add_($k)", "$p.data = $p.data * 0.9", "$p.data.add_($k)", "x.zero_()", "$n = dj.zeros(3, 4)\n$n.copy_($t)", "$n = dj.zeros(2, 3, 4)\n$n[0] = $t\n$n = $n.sum(0)", "$t.tanh_()",
]  # fmt: skip
GRADIENTS = [
    "loss = $t.square().mean()\nloss.backward()", "loss = ($t * $t).sum()\nloss.backward()", "loss = ($t - $t.detach() * $k).square().sum()\nloss.backward(retain_graph=True)\nloss.backward()",
    "$t.backward($t.detach())", "$t.sum().backward(inputs=[W])", "($t.sum() + $t.mean()).backward(retain_graph=True)", "loss = $t.sum()\nloss.backward()\nLOG.append(loss.detach())",
    "g, = dj.autograd.grad($t.sum(), [W], allow_unused=True, retain_graph=True)\nLOG.append(('raw', g))", "g, = dj.autograd.grad($t.square().sum(), [W], create_graph=True, allow_unused=True)\nif g is not None:\n    $n = $t * g.sum()",
    "dj.autograd.grad($t.sum(), [M])", "total = 0\nfor row in $t.unbind(0):\n    total = total + row.sin().sum()\ntotal.backward()", "for part in (0, 1, 2):\n    (W[part] * $t[part]).sum().backward(retain_graph=True)",
    "dj.autograd.backward([$t.sum(), $p.sum()])",
]  # fmt: skip
HOOKS = [
    "$n = $t * $p\n$n.register_hook(lambda g: g * $k)", "$n = $t * $p\n$n.retain_grad()\nKEPT.append($n)", "handle = $p.register_hook(lambda g: g + $k)\n$n = $t * $p\n$n.sum().backward()\nhandle.remove()",
    "$n = $t * $p\n$n.register_hook(lambda g: LOG.append(g.sum()))", "$n = $t * $p\n$n.register_hook(failing)", "$n = $t * $p\n$n.grad_fn.register_hook(lambda a, b: LOG.append(a[0].sum()))",
    "$n = $t * $p\n$n.register_hook(lambda g: LOG.append(1))\n$n.mul_($k)",
]  # fmt: skip
KEPT = [
    "W.grad = None", "if W.grad is not None:\n    W.grad.mul_($k)", "if W.grad is not None:\n    LOG.append(W.grad)", "$n = $t if W.grad is None else W.grad * $t", "M.grad = W.grad", "W.grad = $t.detach()", "V.grad = V.detach() * $k",
    "if W.grad is not None:\n    V.grad = W.grad[:2]", "W.grad = $p.detach()", "LOG.append([p.grad is None for p in PARAMETERS])", "if x.requires_grad:\n    x.grad = None",
]  # fmt: skip
UPDATES = [
    "OPTIMIZER.step()", "OPTIMIZER.step()", "OPTIMIZER.zero_grad()", "OPTIMIZER.zero_grad()", "OPTIMIZER.zero_grad(set_to_none=False)", "dj.nn.utils.clip_grad_norm_(PARAMETERS, 0.5)", "dj.nn.utils.clip_grad_value_(PARAMETERS, 0.1)",
    "LOG.append(dj.nn.utils.clip_grad_norm_(PARAMETERS, 0.5))", "OPTIMIZER.param_groups[0]['lr'] *= 0.9", "SCHEDULE.step()", "OPTIMIZER.step()\nOPTIMIZER.zero_grad()", "OPTIMIZER.zero_grad()\n($t * W).square().sum().backward()\nOPTIMIZER.step()",
]  # fmt: skip
BREAKS = [
    "broken()", "LOG.append(dj.tensor($t.detach().sum().item()))", "if float($t.detach().sum()) > 0:\n    LOG.append('above')", "with dj.no_grad():\n    broken()", "try:\n    $t.sum().backward()\n    broken()\nexcept RuntimeError:\n    LOG.append('refused')",
    "if len(LOG) > 6:\n    raise KeyError('full')", "LOG.append($t._version)", "LOG.append($t.requires_grad)", "LOG.append($t.is_leaf)", "LOG.append($p._version)", "LOG.append($t.grad_fn is None)",
]  # fmt: skip
TABLES = [
    COMPUTED,
    COMPUTED,
    COMPUTED,
    WRITTEN,
    WRITTEN,
    GRADIENTS,
    GRADIENTS,
    HOOKS,
    KEPT,
    UPDATES,
    UPDATES,
    BREAKS,
]

OPTIMIZERS = [
    "SGD(P, lr=0.05)", "SGD(P, lr=0.05, momentum=0.9, nesterov=True)", "SGD(P, lr=0.05, momentum=0.9, dampening=0.1, weight_decay=0.01, maximize=True)", "Adam(P, lr=0.01)", "Adam(P, lr=0.01, amsgrad=True, weight_decay=0.1)", "AdamW(P, lr=0.01)",
    "AdamW([{'params': P[:1], 'lr': 0.1}, {'params': P[1:]}], lr=0.01, maximize=True)", "RMSprop(P, lr=0.01, centered=True, momentum=0.5)", "Adagrad(P, lr=0.05, lr_decay=0.01)", "Adadelta(P)", "Adamax(P, lr=0.01)", "NAdam(P, lr=0.01)", "RAdam(P, lr=0.01)", "ASGD(P, lr=0.01)", "Rprop(P, lr=0.01)", "Adafactor(P, lr=0.01)", "Adam(P, lr=dj.tensor(0.01), capturable=False)",
]  # fmt: skip

HEADER = """
LOG, KEPT = [], []

class Doubled(dj.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * 2

    @staticmethod
    def backward(ctx, g):
        t, = ctx.saved_tensors
        return g * 2 + t * 0

def inner(t):
    return (t * W).tanh() * t

def inner_of(t, w):
    return (t * w).tanh() * t

def failing(g):
    if len(LOG) % 3 == 2:
        raise ValueError('hook')
    return g * 2

@dj.disable
def broken():
    LOG.append('broken')

M, W, V = (dj.randn(*shape, requires_grad=True) for shape in ((4, 4), (3, 4), (2, 4)))
PARAMETERS = P = [W, M, V]
BUFFER = dj.zeros(3, 4)
"""

#: Statements whose effect on what is computed again is accepted, and others without it; a refusal that
#: the program catches is seen.
REPLACED = [
    (r"checkpoint\(inner, (\w+),", r"checkpoint(inner_of, \1.clone(), W.clone(),"),
    (r"W\.data = W\.data \* (.*)", r"with dj.no_grad():\n    W.mul_(\1)"),
    (r"W\.data\.add_\((.*)\)", r"with dj.no_grad():\n    W.add_(\1)"),
    ("except RuntimeError:", "except KeyError:"),
]

#: Errors of compiled calls, and whether eager execution goes on there: of what eager execution does
#: before it raises, or after it has not, nothing is to be seen.
REFUSED = [
    ("computes it again from its inputs (create_graph)", True),
    ("saved by CompiledBackward is at version", True),
    ("backward through the graph a second time", False),
]

#: What x and y are in one call.
HOW = ("apart", "one", "views", "leaves", "results", "apart", "leaves", "frozen")


def body(seed: int) -> list[str]:
    """The statements of program number `seed`."""
    chosen = random.Random(seed)
    names, lines = ["x", "y"], []

    def add(text: str) -> None:
        while "$t" in text:
            text = text.replace("$t", chosen.choice(names[-4:]), 1)
        parameters = ["W"] if ".data" in text else ["W", "W", "V[:1]", "M[:3]"]
        text = text.replace("$p", chosen.choice(parameters))
        text = text.replace("$k", chosen.choice(["0.5", "-1.5", "2.0"]))
        if "$n" in text:
            names.append(f"t{len(names)}")
            text = text.replace("$n", names[-1])
        lines.append(text)

    for _ in range(chosen.randint(4, 11)):
        table = chosen.choice(TABLES)
        if table in (GRADIENTS, HOOKS) and chosen.random() < 0.9:
            add("$n = ($t * W).tanh()")
            add(chosen.choice(table).replace("$t", names[-1]))
        else:
            add(chosen.choice(table))
        if table is GRADIENTS and chosen.random() < 0.9:
            lines.extend(f"{name} = {name}.detach()" for name in names[2:][-4:])
    return [*lines, f"return {', '.join(names[-3:])}"]


def source(lines: list[str], seed: int) -> str:
    """The module of a program with these statements."""
    chosen = random.Random(seed + 1)
    made = [
        f"OPTIMIZER = dj.optim.{chosen.choice(OPTIMIZERS)}",
        "SCHEDULE = dj.optim.lr_scheduler.ExponentialLR(OPTIMIZER, 0.9)",
    ]
    inner = ["    " + line for text in lines for line in text.split("\n")]
    return "\n".join([HEADER, *made, "def step(x, y):", "    global BUFFER", *inner]) + "\n"


def arguments(how: str, i: int) -> tuple[Any, Any]:
    generator = dj.Generator().manual_seed(i)
    base = dj.randn(6, 4, generator=generator)
    if how == "one":
        x = base[:3].clone()
        return x, x
    if how == "views":
        return base[:3], base[2:5]
    x, y = base[:3].clone(), base[3:].clone()
    if how in ("leaves", "results"):
        x.requires_grad_()
    return (x * 1, y * x) if how == "results" else (x, y)


def run(
    lines: list[str], seed: int, wrap: Callable[[Any], Any], errors: list[str] | None = None
) -> list[Any]:
    """What each call shows, and leaves; `errors` gets the text of its error, or an empty one."""
    dj.manual_seed(seed)
    dj.set_grad_enabled(True)
    space: dict[str, Any] = {"dj": dj, "__name__": f"program_{seed}"}
    exec(compile(source(lines, seed), f"<step {seed}>", "exec"), space)
    step = wrap(space["step"])
    chosen, seen = random.Random(seed + 2), []
    for i in range(5):
        how = chosen.choice(HOW)
        space["M"].requires_grad_(how != "frozen")
        x, y = arguments(how, 100 * seed + i)
        text = ""
        try:
            found = step(x, y)
        except Exception as error:
            found, text = [c.__name__ for c in type(error).__mro__], str(error)
        if errors is not None:
            errors.append(text)
        seen.append(state(space, found, x, y))
        space["KEPT"].clear()
        space["BUFFER"] = space["BUFFER"].detach()
        del found, x, y
    return seen


def state(space: dict[str, Any], found: Any, x: Any, y: Any) -> list[Any]:
    """Copies of all that a user sees after a call."""
    tensors = [x, y, *space["PARAMETERS"], space["BUFFER"], *space["KEPT"]]
    tensors += list(found) if isinstance(found, tuple) else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensors += [t.grad for t in tensors if t.grad is not None]
        grads = [t.grad is None for t in tensors]
    facts = [
        (t.requires_grad, t.is_leaf, t._version, g) for t, g in zip(tensors, grads, strict=True)
    ]
    alike = [[a is b, _shares(a, b)] for k, a in enumerate(tensors) for b in tensors[:k]]
    return [
        found if isinstance(found, list) else "value", [t.detach().clone() for t in tensors], facts,
        alike, copied(space["OPTIMIZER"].state_dict()), copied(space["LOG"]), dj.is_grad_enabled(),
        dj.rand(1),
    ]  # fmt: skip


def _shares(a: Any, b: Any) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, tuple) and value[:1] == ("raw",):
        return None if value[1] is None else value[1].detach().clone().contiguous()
    if isinstance(value, (list, tuple)):
        return [copied(item) for item in value]
    return value.detach().clone() if isinstance(value, dj.Tensor) else value


@contextlib.contextmanager
def settings() -> Iterator[None]:
    """float64, strict, quiet; as before afterwards."""
    before = dj.get_default_dtype()
    with dj.config.override(strict=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dj.set_default_dtype(dj.float64)
        try:
            yield
        finally:
            dj.set_default_dtype(before)
            dj.set_grad_enabled(True)
            dj.reset()


def compare_lines(lines: list[str], seed: int, backend: str = "numpy") -> str | None:
    """The first difference that is not accepted, or None."""
    found = difference_of(lines, seed, backend)
    if found is None:
        return None
    replaced = [functools.reduce(lambda text, r: re.sub(*r, text), REPLACED, t) for t in lines]
    if replaced != lines and difference_of(replaced, seed, backend) is None:
        return None
    return f"program {seed}: {found}"


def difference_of(lines: list[str], seed: int, backend: str) -> str | None:
    """The first difference between the eager and the compiled run of a program, up to a refusal that
    is accepted; or None."""
    plain: list[str] = []
    refused: list[str] = []
    with settings():
        expected = run(lines, seed, lambda step: step, plain)
        actual = run(lines, seed, lambda step: dj.compile(step, backend=backend), refused)
    found = differences(expected, actual, 1e-8)
    if found:
        calls = [i for i, texts in enumerate(zip(plain, refused, strict=True)) if _accepted(*texts)]
        end = min(calls, default=len(expected))
        found = differences(expected[:end], actual[:end], 1e-8)
    return found[0] if found else None


def _accepted(plain: str, refused: str) -> bool:
    """Whether a compiled call may raise this, where eager execution raises `plain`, or nothing."""
    return any(text in refused and (goes_on or plain) for text, goes_on in REFUSED)


def compare(seed: int, backend: str = "numpy") -> str | None:
    return compare_lines(body(seed), seed, backend)


def shrunk(seed: int) -> list[str]:
    """The statements that are needed for a difference."""
    lines = body(seed)
    for i in range(len(lines) - 1, -1, -1):
        less = lines[:i] + lines[i + 1 :]
        try:
            lines = less if compare_lines(less, seed) is not None else lines
        except Exception:
            continue
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--show", type=int)
    parser.add_argument("--shrink", type=int)
    options = parser.parse_args()
    os.environ.setdefault("DYNAJIT_CACHE_DIR", tempfile.mkdtemp())
    if options.show is not None:
        print(source(body(options.show), options.show))
        return 0
    if options.shrink is not None:
        lines = shrunk(options.shrink)
        print(source(lines, options.shrink).split("BUFFER = dj.zeros(3, 4)\n")[1])
        print(compare_lines(lines, options.shrink))
        return 0
    found = 0
    for seed in range(options.first, options.first + options.count):
        try:
            difference = compare(seed, options.backend)
        except Exception as error:
            difference = f"program {seed}: {type(error).__name__}: {error}"
        if difference:
            found += 1
            print(difference[:600], flush=True)
    print(f"{options.count} programs, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
