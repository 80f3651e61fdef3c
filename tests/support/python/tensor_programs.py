"""Random programs of views, in-place writes and reads on a few tensors, as source text.

`program(seed)` gives the text of a function `f(a, b, c)` and a factory of arguments. Statements
that eager execution refuses (shapes, overlapping memory, leaves) end the program with an error,
which the compiled function has to raise, too, after the same writes.
"""

import random

import numpy as np

from dynajit import eager
from dynajit.ops import functions as F
from tests.support.python.tensor_effects import Arguments

VIEWS = (
    "{t}[0]", "{t}[1:]", "{t}[:, 1:3]", "{t}[::2]", "{t}[:, 0]", "{t}[-1:]", "{t}.t()",
    "{t}.transpose(0, 1)", "{t}.reshape(-1)", "{t}.view(-1)", "{t}.unsqueeze(0)", "{t}[None, 1]",
    "{t}.diagonal()", "{t}.diagonal(1)", "{t}.detach()", "{t}.data", "{t}.expand(2, *{t}.shape)",
    "{t}[...]", "{t}.squeeze()", "{t}.flatten()", "{t}.unfold(0, 2, 2)", "{t}.contiguous()",
    "{t}.chunk(2)[1]", "{t}.split(1)[0]", "{t}.permute(1, 0)", "{t}.select(1, 1)",
    "{t}.narrow(0, 1, 1)", "{t}.view_as({t})", "{t}.T", "{t}.expand_as({t})",
)  # fmt: skip
VALUES = (
    "{t} * 2", "{t} + {u}", "{t}.sum()", "{t}.clone()", "{u}.mean(dim=0)", "{t}.exp() * 0.01",
    "{t} - {t}.mean()", "F.where({t} > 0, {t}, {t} * 0.5)", "({t} * {t}).sum(dim=-1, keepdim=True)",
    "{t}.sin()", "{t}.abs().sqrt()", "{t}.to({t}.dtype)", "{t}.reshape(-1)[:2]", "{t}.flip(0)",
    "{t}.sum(dim=0)", "{u}[0]",
)  # fmt: skip
WRITES = (
    "{t}.add_({n})", "{t}.mul_({n})", "{t}.add_({u})", "{t}.mul_({u})", "{t}.copy_({u})",
    "{t}.zero_()", "{t}.fill_({n})", "{t}.sub_({e})", "{t} += {e}", "{t} *= {n}", "{t} -= {u}",
    "{t}[0] = {n}", "{t}[1:] = {e}", "{t}[:, 1:] += {n}", "{t}[{t} > 0] = {n}", "{t}[0] = {u}",
    "{t}[I] = {n}", "{t}[:, 0] *= {n}", "{t}[J, I] = {n}", "{t}.clamp_(-2, 2)", "{t}.neg_()",
    "{t}.masked_fill_({t} < 0, {n})", "{t}.t().add_({n})", "{t}.view(-1)[:3].mul_({n})",
    "{t}.reshape(-1).add_({n})", "{t}.relu_()", "{t}.copy_({e})", "{t}.diagonal().fill_({n})",
    "{t}[...] = {e}", "{t}.detach().mul_({n})", "{t}.data.add_({n})", "{t}.sin_()",
    "{t}.index_fill_(0, I, {n})", "{t}.lerp_({u}, 0.5)", "{t}[1] = {t}[0]", "{t}[1:] = {t}[:-1]",
)  # fmt: skip


def text_of(rng, length):
    """The source of `f(a, b, c)`."""
    names = ["a", "b", "c"]
    lines = ["def f(a, b, c):"]
    indent = "    "
    for number in range(length):
        fill = {
            "t": rng.choice(names),
            "u": rng.choice(names),
            "n": rng.choice(["2", "-1", "0.5", "1.5"]),
        }
        fill["e"] = rng.choice(VALUES).format(**{**fill, "t": rng.choice(names)})
        kind = rng.random()
        if kind < 0.06:
            lines.append(f"{indent}with eager.no_grad():")
            lines.append(f"{indent}    " + rng.choice(WRITES).format(**fill))
        elif kind < 0.36:
            name = f"v{number}"
            lines.append(f"{indent}{name} = " + rng.choice(VIEWS).format(**fill))
            names.append(name)
        elif kind < 0.56:
            name = f"w{number}"
            lines.append(f"{indent}{name} = " + rng.choice(VALUES).format(**fill))
            names.append(name)
        else:
            lines.append(indent + rng.choice(WRITES).format(**fill))
    chosen = rng.sample(names, rng.randint(1, len(names)))
    lines.append(f"{indent}return [{', '.join(chosen)}]")
    return "\n".join(lines)


def array_of(rng, shape):
    return np.array([rng.randint(-6, 6) / 2 for _ in range(int(np.prod(shape)))], np.float32)


def arguments_of(seed):
    """Three tensors of shape (3, 3) or so; some share memory, some have a history."""
    rng = random.Random(seed)
    kinds = [rng.choice(["plain", "plain", "leaf", "history", "permuted"]) for _ in range(3)]
    shared = rng.random() < 0.25
    leaves, made = [], []
    for kind in kinds:
        shape = rng.choice([(3, 3), (3, 3), (2, 3), (4, 3)])
        tensor = eager.tensor(array_of(rng, shape).reshape(shape))
        if kind == "permuted":
            tensor = eager.tensor(array_of(rng, (3, 3)).reshape(3, 3)).t()
        if kind in ("leaf", "history"):
            leaves.append(tensor.requires_grad_())
        made.append(tensor * 1.5 if kind == "history" else tensor)
    if shared:
        first = made[0]
        other = rng.choice([first, first.detach(), first[:2], first[1:], first.t()])
        made[rng.choice([1, 2])] = other
    return Arguments(made, leaves)


def program(seed, length=7):
    """(source text, function, factory of arguments)."""
    rng = random.Random(seed)
    text = text_of(rng, rng.randint(2, length))
    namespace = {
        "eager": eager,
        "F": F,
        "I": eager.tensor(np.array([1, 0])),
        "J": eager.tensor(np.array([0, 1])),
    }
    exec(compile(text, f"<program {seed}>", "exec"), namespace)
    return text, namespace["f"], lambda: arguments_of(seed)
