"""Names, expressions and filled templates of a random program.

`Scope` knows which variable holds what kind of value, so most statements succeed. Used by
`statements.Statements`.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

#: What a name holds that is bound in a place that may not be reached, by kind.
START = {
    "tensor": "(x + 0)", "int": "0", "float": "0.5", "list": "[]", "dict": "{}", "str": "'k'",
    "tuple": "()", "box": "Box(1)", "any": "None", "gen": "None", "call": "None",
}  # fmt: skip
DIGITS = "0123456789"


@dataclass
class Scope:
    """What a statement may use: names by kind (mutable)."""

    names: dict[str, list[str]] = field(default_factory=dict)
    depth: int = 0
    in_loop: bool = False
    is_generator: bool = False

    def inner(self) -> "Scope":
        """Names made inside a block are not known behind it."""
        copied = {kind: list(names) for kind, names in self.names.items()}
        return Scope(copied, self.depth + 1, self.in_loop, self.is_generator)


class Writer:
    """Names, expressions and templates of one program (mutable).

    Args:
        seed: number of the program.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.lines: list[str] = []
        self.helpers: list[tuple[str, str]] = []

    # -- parts -----------------------------------------------------------------------------------

    def fresh(self, scope: Scope, kind: str) -> str:
        """A new name of a kind."""
        self.count += 1
        name = f"{kind[0]}{self.count}"
        scope.names.setdefault(kind, []).append(name)
        return name

    def pick(self, scope: Scope, kind: str) -> str:
        """A known name of a kind, or a literal."""
        names = scope.names.get(kind, [])
        if names and self.random.random() < 0.9:
            return self.random.choice(names)
        return {
            "tensor": "(x + 0)",
            "int": str(self.random.randint(-2, 5)),
            "float": self.random.choice(["0.5", "-1.25", "2.0"]),
            "list": "[1, x, 2.5]",
            "dict": "{'a': 1, 'b': x}",
            "str": repr(self.random.choice(["a", "bc", "k"])),
            "tuple": "(1, 2.5, x)",
            "box": "Box(1)",
        }[kind]

    def number(self, scope: Scope) -> str:
        """An int or a float."""
        return self.pick(scope, self.random.choice(["int", "float"]))

    def tensor(self, scope: Scope, depth: int = 0) -> str:
        """A tensor expression of shape (3,)."""
        choice = self.random.randrange(12 if depth < 2 else 2)
        t = lambda: self.tensor(scope, depth + 1)
        p = lambda: self.pick(scope, "tensor")
        if choice < 2:
            return p()
        return [
            lambda: f"({t()} {self.random.choice('+-*')} {t()})",
            lambda: f"({t()} {self.random.choice('+-*')} {self.number(scope)})",
            lambda: f"({self.number(scope)} {self.random.choice('+-*')} {t()})",
            lambda: f"{p()}.{self.random.choice(['tanh', 'sin', 'abs', 'relu', 'neg'])}()",
            lambda: f"({t()} - {p()}.mean())",
            lambda: f"dj.where({p()} > 0, {t()}, {p()})",
            lambda: f"dj.stack([{p()}, {p()}]).sum(dim=0)",
            lambda: f"{p()}.reshape(-1, 1).expand(-1, 2)[:, {self.random.randint(0, 1)}]",
            lambda: f"dj.cat([{p()}[1:], {p()}[:1]])",
            lambda: f"({t()}).clamp(-50, 50)",
        ][choice - 2]()

    def integer(self, scope: Scope) -> str:
        """An int expression."""
        p = lambda: self.pick(scope, "int")
        return self.random.choice(
            [
                p(), f"({p()} {self.random.choice('+-*')} {p()})", f"len({self.pick(scope, 'list')})",
                f"({p()} // {self.random.choice(['2', '3', p()])})", f"({p()} % 3)", "x.shape[0]",
                f"abs({p()})", f"int({self.pick(scope, 'float')})", f"max({p()}, {p()})",
                f"sum(range(({p()}) % 1000))", f"sum(i for i in range(4) if i != {p()})",
                f"({p()} if {self.condition(scope)} else {p()})", f"len({self.pick(scope, 'box')})",
                f"functools.reduce(operator.add, range(3), {p()})",
            ]
        )  # fmt: skip

    def condition(self, scope: Scope, data: bool = False) -> str:
        """A Python condition; with `data` perhaps one on the contents of a tensor."""
        p = lambda: self.pick(scope, "int")
        options = [
            f"{p()} {self.random.choice(['<', '>', '==', '!=', '<=', '>='])} {p()}",
            f"{self.pick(scope, 'float')} > {self.pick(scope, 'float')}",
            f"{self.pick(scope, 'str')} in {self.pick(scope, 'dict')}",
            f"not {p()}", f"{p()} % 2 and {p()} > 0", f"isinstance({self.pick(scope, 'box')}, Child)",
            f"{p()} < {p()} < {p()}", f"{self.pick(scope, 'list')}",
        ]  # fmt: skip
        if data:
            options.append(f"{self.pick(scope, 'tensor')}.sum() > {self.pick(scope, 'float')}")
        return self.random.choice(options)

    # -- templates -------------------------------------------------------------------------------

    def emit(self, indent: str, text: str) -> None:
        """One line or several."""
        self.lines += [indent + line for line in text.split("\n")]

    def fill(self, scope: Scope, template: str) -> str:
        """`$x`: an expression or a known name; `@kind`: a new name, known from here on."""
        parts = {
            "t": lambda: self.pick(scope, "tensor"), "T": lambda: self.tensor(scope, 1),
            "i": lambda: self.pick(scope, "int"), "I": lambda: self.integer(scope),
            "f": lambda: self.pick(scope, "float"), "n": lambda: self.number(scope),
            "l": lambda: self.pick(scope, "list"), "d": lambda: self.pick(scope, "dict"),
            "s": lambda: self.pick(scope, "str"), "b": lambda: self.pick(scope, "box"),
            "p": lambda: self.pick(scope, "tuple"),
            "v": lambda: self.variable(scope, "tensor"), "m": lambda: self.variable(scope, "list"),
            "c": lambda: self.condition(scope), "C": lambda: self.condition(scope, data=True),
            "w": lambda: str(self.random.randint(0, 3)),
        }  # fmt: skip
        text = re.sub(r"\$([a-zA-Z])", lambda found: parts[found[1]](), template)
        names: dict[str, str] = {}

        def name(found: re.Match[str]) -> str:
            key = found[0]
            if key not in names:
                names[key] = self.fresh(scope, found[1])
            return names[key]

        text = re.sub(r"@([a-z]+)\d*", name, text)
        late = [key for key in names if not re.search(rf"^(\w+, )*\**{names[key]}\b", text, re.M)]
        if self.random.random() < 0.1:
            return text  # perhaps it is never bound
        return "".join(f"{names[key]} = {START[key[1:].rstrip(DIGITS)]}\n" for key in late) + text

    def variable(self, scope: Scope, kind: str) -> str:
        """A known name of a kind that can be written to."""
        return self.random.choice(scope.names.get(kind) or ["LOG"])

    def choose(self, scope: Scope, indent: str, templates: Sequence[str]) -> None:
        """Emit one of the templates."""
        self.emit(indent, self.fill(scope, self.random.choice(templates)))
