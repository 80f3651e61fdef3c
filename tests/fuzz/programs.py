"""Random Python programs: language features, tensor operations, mutation and breaks mixed.

`write(seed)` gives the source of a module with `main(x, y, n, f, items, table, box)` and what it
needs. The same seed gives the same program on every version. Programs end: loops are bounded.
Which variable holds what kind of value is tracked, so most statements succeed; some raise, which
must then look the same compiled. Used by `differential.py`.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from templates import HEADER, LANGUAGE, PROTOCOLS, TENSORS


@dataclass
class Scope:
    """What a statement may use: names by kind (mutable)."""

    names: dict[str, list[str]] = field(default_factory=dict)
    loops: int = 0
    depth: int = 0
    has_break_target: bool = False

    def inner(self) -> "Scope":
        """Names made inside a block are not known behind it."""
        copied = {kind: list(names) for kind, names in self.names.items()}
        return Scope(copied, self.loops, self.depth + 1, self.has_break_target)


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.lines: list[str] = []
        self.helpers: list[str] = []

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
                f"sum(range({p()}))", f"sum(i for i in range(4) if i != {p()})",
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

    # -- statements ------------------------------------------------------------------------------

    def block(self, scope: Scope, indent: str, count: int) -> None:
        """Some statements."""
        for _ in range(max(count, 1)):
            self.statement(scope, indent)

    def emit(self, indent: str, text: str) -> None:
        """One line or several."""
        self.lines += [indent + line for line in text.split("\n")]

    def statement(self, scope: Scope, indent: str) -> None:
        """One statement of any kind."""
        simple: list[Callable[[Scope, str], None]] = [
            self.assign_tensor, self.assign_tensor, self.assign_number, self.assign_container,
            self.mutate, self.mutate, self.write_tensor, self.call_helper, self.break_graph,
            self.objects, self.text, self.unpack, self.comprehension, self.language,
            self.language, self.protocols, self.tensor_statement,
        ]  # fmt: skip
        compound: list[Callable[[Scope, str], None]] = [
            self.branch, self.loop, self.while_loop, self.try_block, self.with_block,
            self.inner_function, self.generator_loop, self.match_block,
        ]  # fmt: skip
        nested = scope.depth < 3 and self.random.random() < 0.35
        self.random.choice(compound if nested else simple)(scope, indent)

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

        return re.sub(r"@([a-z]+)\d*", name, text)

    def variable(self, scope: Scope, kind: str) -> str:
        """A known name of a kind that can be written to."""
        return self.random.choice(scope.names.get(kind) or ["LOG"])

    def choose(self, scope: Scope, indent: str, templates: list[str]) -> None:
        """Emit one of the templates."""
        self.emit(indent, self.fill(scope, self.random.choice(templates)))

    def assign_tensor(self, scope: Scope, indent: str) -> None:
        self.choose(scope, indent, ["@tensor = $T", "@tensor = $T", "$v = $T"])

    def assign_number(self, scope: Scope, indent: str) -> None:
        self.choose(
            scope,
            indent,
            ["@int = $I", "@float = $f * 0.5 + $n", "@int = $I\n@int += $I", "@float = $n\n@float -= $f",
             "@float = math.sqrt(abs($n) + 1)", "@int = $i if $c else $i"],
        )  # fmt: skip

    def assign_container(self, scope: Scope, indent: str) -> None:
        self.choose(
            scope,
            indent,
            ["@list = [$T, $I, $I]", "@dict = {'a': $T, 'k': $I}", "@tuple = ($T, $I)",
             "@list = $l + [$I]", "@dict = {**$d, 'z': $I}", "@tuple = (*$p, $T)", "@list = $l",
             "@list = list($l)", "@dict = dict($d)", "@list = $l[::-1]", "@list = [$p, $b]"],
        )  # fmt: skip

    def mutate(self, scope: Scope, indent: str) -> None:
        self.choose(
            scope,
            indent,
            [
                "$m.append($T)", "$m.insert(0, $I)", "$m.extend([$I, $I])", "$m[-1:] = [$I]",
                "$m.reverse()", "$m += ($I,)", "$d['k'] = $T", "$d[$I] = $I",
                "$d.setdefault('s', []).append($I)", "$d.pop('z', None)", "$d.update(q=$I)",
                "$b.value = $I", "$b.bump($I)", "$b.doubled = $I", "$b.extra = $T",
                "setattr($b, 'late', $I)", "COUNTER += 1", "LOG.append($I)", "TABLE['k'] = $I",
                "del $m[:1]", "$b.items.append($T)", "$m.pop() if $m else None", "$m[0:0] = $p",
            ],
        )  # fmt: skip

    def write_tensor(self, scope: Scope, indent: str) -> None:
        self.choose(
            scope,
            indent,
            [
                "$v.add_($T)", "$v.mul_(0.5)", "$v[0] = $n", "$v[1:] = ($T)[:2]", "$v += $T",
                "$v[1:].mul_(2)", "$v.copy_($T)", "$v[$v > 1] = 0.0", "$v.clamp_(-9, 9)",
                "@tensor = $v.view(-1)\n@tensor.add_(1)", "@tensor = $v.detach()\n$v.mul_(2)",
            ],
        )  # fmt: skip

    def call_helper(self, scope: Scope, indent: str) -> None:
        name = f"helper{len(self.helpers)}"
        self.helpers.append(name)
        self.choose(
            scope,
            indent,
            [f"@tensor = {name}($T, $I)", f"@tensor = {name}($T, k=$I)", f"@tensor = {name}(*($T, $I))",
             f"@tensor = {name}(**{{'t': $T, 'k': $I}})",
             f"@tensor = functools.partial({name}, k=$I)($T)"],
        )  # fmt: skip

    def break_graph(self, scope: Scope, indent: str) -> None:
        self.choose(
            scope,
            indent,
            [
                "@float = $t.sum().item()", "dj.graph_break()", "print('p', $i)", "LOG.append($t.tolist())",
                "@tensor = outside($t * 2) + 1", "LOG.append([$I, $t.sum().item(), $I])",
                "@float = float($t.max()) + $f", "@tensor = $t * ($i if $t.sum() > 0 else 2)",
                "@list = [$t.mean().item() for q in range($w)]", "@float = $f + $t[0].item() * $n",
                "print($s, $t.sum().item() > 0)",
            ],
        )  # fmt: skip

    def objects(self, scope: Scope, indent: str) -> None:
        self.choose(
            scope,
            indent,
            [
                "@box = Box($I)", "@box = Child($I).bump()", "@box = $b + $I",
                "@int = len($b) + int($b.kind == 'child')", "@list = [$b.kind, $b == Box($I), hasattr($b, 'extra')]",
                "@list = [getattr($b, 'late', $I), $b.doubled]", "@box = Child($I)\n@box.bump(twice=True)",
                "@tensor = $t * $b.value", "@list = [type($b).__name__, isinstance($b, Box)]",
            ],
        )  # fmt: skip

    def text(self, scope: Scope, indent: str) -> None:
        self.choose(
            scope,
            indent,
            [
                "@int1 = $I\n@str = f'{@int1:03d}'", "@str = str($I) + 'k'", "@str = '-'.join(str(v) for v in range($I))",
                "@str = $s.upper()[:3]", "@str = 'k' if $c else 'a'", "@str = f'{COUNTER:.2f}|{COUNTER!r:>5}' + format($f, '.1f')",
                "@str = $s.replace('a', 'b') * 2", "@list = $s.split('k')",
            ],
        )  # fmt: skip

    def unpack(self, scope: Scope, indent: str) -> None:
        self.choose(
            scope,
            indent,
            [
                "@int1, @int2, *@list = $I, $I, $T, 4", "(@int1, @int2), @list = ($I, $I), [$T]",
                "@int1, @int2 = $I, $I\n@int1, @int2 = @int2, @int1",
                "@int1, @list = $I, list(map(lambda q: q + 1, [$I, 2]))",
            ],
        )  # fmt: skip

    def comprehension(self, scope: Scope, indent: str) -> None:
        self.choose(
            scope,
            indent,
            [
                "@list = [$t * q for q in range(3) if q != $i]", "@dict = {str(q): $t + q for q in (1, 2)}",
                "@tensor = sum(($t * q for q in range(1, 3)), x * 0)", "@list = sorted({$i, 1, 2})",
                "@list = [a * b for a, b in zip([1, 2, $i], itertools.count(1))]",
                "@list = [(lambda k=q: k + $i)() for q in range(2)]",
                "@list = list(itertools.chain([$i], itertools.islice(itertools.cycle('ab'), 3)))",
                "@dict = dict(collections.Counter([$i, 1, 1]))",
                "@list = [fn(2) for fn in [lambda z, q=q: z * q for q in range(2)]]",
                "@int = next((q for q in range(5) if q > $i), -1)",
            ],
        )  # fmt: skip

    def language(self, scope: Scope, indent: str) -> None:
        self.choose(scope, indent, LANGUAGE)

    def protocols(self, scope: Scope, indent: str) -> None:
        self.choose(scope, indent, PROTOCOLS)

    def tensor_statement(self, scope: Scope, indent: str) -> None:
        self.choose(scope, indent, TENSORS)

    def branch(self, scope: Scope, indent: str) -> None:
        self.emit(indent, f"if {self.condition(scope, data=True)}:")
        self.block(scope.inner(), indent + "    ", self.random.randint(1, 2))
        if self.random.random() < 0.3:
            self.emit(indent, f"elif {self.condition(scope)}:")
            self.block(scope.inner(), indent + "    ", 1)
        if self.random.random() < 0.5:
            self.emit(indent, "else:")
            self.block(scope.inner(), indent + "    ", self.random.randint(1, 2))

    def body(self, scope: Scope, indent: str) -> None:
        inner = scope.inner()
        inner.loops += 1
        self.block(inner, indent + "    ", self.random.randint(1, 3))
        if self.random.random() < 0.3:
            self.emit(indent + "    ", f"if {self.condition(inner, data=True)}:")
            self.emit(indent + "        ", self.random.choice(["break", "continue"]))
            self.block(inner, indent + "    ", 1)

    def loop(self, scope: Scope, indent: str) -> None:
        name = self.fresh(scope, "int")
        self.emit(indent, f"{name} = 0")
        source = self.random.choice(
            ["range(3)", "range(2)", "(1, 2)", "[0, 3]", f"{self.pick(scope, 'list')}[:0] + [1, 2]"]
        )
        if self.random.random() < 0.3:
            other = self.fresh(scope, "int")
            self.emit(indent, f"{other} = 0")
            self.emit(indent, f"for {other}, {name} in enumerate({source}):")
        else:
            self.emit(indent, f"for {name} in {source}:")
        self.body(scope, indent)
        if self.random.random() < 0.2:
            self.emit(indent, "else:")
            self.block(scope.inner(), indent + "    ", 1)

    def while_loop(self, scope: Scope, indent: str) -> None:
        self.count += 1
        name = f"w{self.count}"
        self.emit(
            indent, f"{name} = 0\nwhile {name} < {self.random.randint(1, 3)}:\n    {name} += 1"
        )
        self.body(scope, indent)

    def try_block(self, scope: Scope, indent: str) -> None:
        self.emit(indent, "try:")
        inner = scope.inner()
        self.block(inner, indent + "    ", 1)
        if self.random.random() < 0.7:
            self.emit(
                indent + "    ",
                self.random.choice(
                    [
                        "raise ValueError('v', 1)", f"{self.pick(scope, 'dict')}['missing']",
                        f"1 // {self.pick(scope, 'int')}", "[][0]", f"{self.pick(scope, 'box')}.missing",
                        f"if {self.condition(inner, data=True)}:\n    raise KeyError('k')",
                    ]
                ),
            )  # fmt: skip
        handlers = self.random.choice(
            [
                "except (ValueError, KeyError) as e:",
                "except Exception as e:",
                "except LookupError as e:",
            ]
        )
        has_finally = self.random.random() < 0.4
        if not has_finally or self.random.random() < 0.7:
            self.emit(indent, handlers)
            self.emit(indent + "    ", "LOG.append((type(e).__name__, str(e)))")
            self.block(scope.inner(), indent + "    ", 1)
            if self.random.random() < 0.15:
                self.emit(
                    indent + "    ", self.random.choice(["raise", "raise RuntimeError('r') from e"])
                )
            if self.random.random() < 0.2:
                self.emit(indent, "else:")
                self.block(scope.inner(), indent + "    ", 1)
        if has_finally:
            self.emit(indent, "finally:")
            self.block(scope.inner(), indent + "    ", 1)

    def with_block(self, scope: Scope, indent: str) -> None:
        manager = self.random.choice(
            ["dj.no_grad()", "logged('a')", "contextlib.suppress(KeyError)", "contextlib.nullcontext()",
             "logged('b') as m, dj.no_grad()"]
        )  # fmt: skip
        self.emit(indent, f"with {manager}:")
        self.block(scope.inner(), indent + "    ", self.random.randint(1, 2))
        if "suppress" in manager:
            self.emit(indent + "    ", "{}['gone']")

    def inner_function(self, scope: Scope, indent: str) -> None:
        self.count += 1
        name, counter = f"inner{self.count}", self.fresh(scope, "int")
        self.emit(indent, f"{counter} = 0")
        parameters = self.random.choice(["a", "a, *rest", "a, b=2", "a, *, b=1", "a, **more"])
        self.emit(indent, f"def {name}({parameters}):\n    nonlocal {counter}\n    {counter} += 1")
        inner = scope.inner()
        inner.names.setdefault("tensor", []).append("a")
        inner.depth = 2
        own = {kind: list(names) for kind, names in inner.names.items()}
        inner.names = {
            kind: [n for n in names if kind in ("tensor", "str") or False]
            for kind, names in own.items()
        }
        self.block_without_rebinding(inner, indent + "    ")
        self.emit(indent, f"    return a * {counter} + 1")
        self.emit(indent, f"{self.fresh(scope, 'tensor')} = {name}({self.pick(scope, 'tensor')})")
        if self.random.random() < 0.3:
            self.emit(
                indent, f"LOG.append({name}.__name__)\n{name}({self.pick(scope, 'tensor')} + 1)"
            )

    def block_without_rebinding(self, scope: Scope, indent: str) -> None:
        """Statements that bind no name of an outer function."""
        text = self.random.choice(
            [
                f"LOG.append({self.pick(scope, 'tensor')})", f"a = a + {self.pick(scope, 'tensor')}",
                "LOG.append(a.sum().item())", "a = a.tanh()", "print('inner')", "items.append(a)",
                "if a.sum() > 0:\n    return a", "box.bump(3)",
            ]
        )  # fmt: skip
        self.emit(indent, text)

    def generator_loop(self, scope: Scope, indent: str) -> None:
        name = self.fresh(scope, "int")
        self.emit(indent, f"{name} = 0\nfor {name} in countdown({self.random.randint(0, 3)}):")
        self.body(scope, indent)

    def match_block(self, scope: Scope, indent: str) -> None:
        subject = self.random.choice(
            [f"({self.pick(scope, 'int')}, 'k')", self.pick(scope, "dict"), self.pick(scope, "int"),
             self.pick(scope, "box")]
        )  # fmt: skip
        name = self.fresh(scope, "int")
        self.emit(indent, f"{name} = 0\nmatch {subject}:")
        for pattern in self.random.sample(
            [f"case (1, str() as s):\n    {name} = 1", f"case {{'k': k}}:\n    {name} = 2",
             f"case 0 | 1 | 2:\n    {name} = 3", f"case Box(value=v) if v:\n    {name} = 4",
             f"case [int(), *_]:\n    {name} = 5"], 3,
        ):  # fmt: skip
            self.emit(indent + "    ", pattern)
        self.emit(indent + "    ", "case _:")
        self.block(scope.inner(), indent + "        ", 1)

    # -- the program -----------------------------------------------------------------------------

    def program(self) -> str:
        """The module's source."""
        known = {
            "tensor": ["x", "y"], "int": ["n"], "float": ["f"], "list": ["items"], "dict": ["table"],
            "box": ["box"],
        }  # fmt: skip
        scope = Scope(known)
        self.block(scope, "    ", self.random.randint(3, 9))
        results = [name for names in scope.names.values() for name in names]
        chosen = self.random.sample(results, min(4, len(results)))
        main = ["def main(x, y, n, f, items, table, box):", "    global COUNTER, LOG", *self.lines]
        main.append(f"    return {', '.join(chosen)}, x")
        helpers = []
        written = 0
        while written < len(self.helpers):
            name = self.helpers[written]
            written += 1
            self.lines = []
            inner = Scope({"tensor": ["t", "x"], "int": ["k"]}, depth=2)
            self.block(inner, "    ", self.random.randint(1, 2))
            head = [f"def {name}(t, k=1):", "    global COUNTER, LOG", "    x = t * 1"]
            helpers.append(
                "\n".join([*head, *self.lines, f"    return {self.pick(inner, 'tensor')} + k"])
            )
            if written > 12:
                break
        for name in self.helpers[written:]:
            helpers.append(f"def {name}(t, k=1):\n    return t + k")
        return HEADER + "\n\n\n".join([*helpers, "\n".join(main)]) + "\n"


def write(seed: int) -> str:
    """The source of program number `seed`."""
    return Writer(seed).program()
