"""Statements of random programs: simple ones from templates, compound ones around blocks.

Used by `programs.Program`.
"""

import ast
from collections.abc import Callable, Iterator

from tests.fuzz import templates
from tests.fuzz.writing import Scope, Writer

#: Functions that a program gets besides `main`, and how each is written and called.
HELPER_CALLS = {
    "function": [
        "@tensor = {0}($T, $I)", "@tensor = {0}($T, k=$I)", "@tensor = {0}(*($T, $I))",
        "@tensor = {0}(**{{'t': $T, 'k': $I}})", "@tensor = functools.partial({0}, k=$I)($T)",
        "@any = {0}($v, $I)",
    ],
    "method": ["@tensor = $b.{0}($T, $I)", "@any1 = $b.{0}\n@tensor = @any1($T)", "@tensor = Box.{0}($b, $T)"],
    "property": ["@any = $b.{0}", "@list = [$b.{0}, getattr($b, '{0}', 0)]"],
    "generator": [
        "@list = list({0}($T, $I))", "for @any in {0}($T, $I):\n    LOG.append(@any)",
        "for @any in {0}($T, $I):\n    if $C:\n        break", "@list = [v for v in {0}($T)]",
        "@gen1 = {0}($T, $I)\n@any1 = next(@gen1, None)\ntry:\n    @any2 = @gen1.send($I)\nexcept (StopIteration, TypeError) as stop:\n    LOG.append(type(stop).__name__)",
        "@gen1 = {0}($T)\nnext(@gen1, None)\n@gen1.close()", "@gen1 = {0}($T)\nnext(@gen1, None)\ntry:\n    @any1 = @gen1.throw(KeyError($I))\nexcept (KeyError, StopIteration) as error:\n    LOG.append(type(error).__name__)",
        "@gen1 = {0}($T)\nnext(@gen1, None)\n@gen1 = None\nLOG.append('after')",
    ],
    "manager": ["with {0}($T, $I) as @any:\n    LOG.append($I)\n    if $C:\n        raise KeyError('inside')", "with {0}($T, $I) as @any:\n    @tensor = $T"],
    "disabled": ["@tensor = {0}($T, $I)"],
}  # fmt: skip


def stored(node: ast.AST) -> Iterator[str]:
    """Names that statements bind in their own function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, (ast.Store, ast.Del)):
            yield child.id
        elif isinstance(child, (ast.MatchAs, ast.MatchStar)) and child.name:
            yield child.name
        elif isinstance(child, ast.MatchMapping) and child.rest:
            yield child.rest
        if isinstance(child, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            yield from (
                inner.target.id for inner in ast.walk(child) if isinstance(inner, ast.NamedExpr)
            )
        elif not isinstance(child, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            yield from stored(child)


class Statements(Writer):
    """Writes statements."""

    def block(self, scope: Scope, indent: str, count: int) -> None:
        """Some statements."""
        for _ in range(max(count, 1)):
            self.statement(scope, indent)

    def statement(self, scope: Scope, indent: str) -> None:
        """One statement of any kind."""
        compound: list[Callable[[Scope, str], None]] = [
            self.branch, self.branch, self.loop, self.while_loop, self.try_block, self.try_block,
            self.with_block, self.inner_function, self.inner_generator, self.generator_loop,
            self.match_block, self.call_helper,
        ]  # fmt: skip
        chance = self.random.random()
        if scope.depth < 3 and chance < 0.35:
            self.random.choice(compound)(scope, indent)
        elif chance < 0.4:
            self.call_helper(scope, indent)
        elif scope.is_generator and chance < 0.6:
            self.yielding(scope, indent)
        elif scope.in_loop and chance < 0.66:
            self.jump(scope, indent)
        else:
            self.choose(scope, indent, self.random.choice(templates.SIMPLE))

    # -- control ---------------------------------------------------------------------------------

    def jump(self, scope: Scope, indent: str) -> None:
        """Out of a loop or of the function."""
        where = ["break", "continue"] if scope.in_loop else []
        where.append("return $I" if scope.is_generator else "return $T")
        self.emit(indent, self.fill(scope, f"if $C:\n    {self.random.choice(where)}"))

    def yielding(self, scope: Scope, indent: str) -> None:
        """Values in and out of a generator."""
        forms = ["yield $T", "@any = yield $I", "yield from countdown(2)", "@any = yield from stepwise($T, 2)",
                 "yield", "LOG.append((yield $T))", "@tensor = ((yield $I) or 1) * $T"]  # fmt: skip
        self.choose(scope, indent, forms)

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
        """The block of a loop."""
        inner = scope.inner()
        inner.in_loop = True
        self.block(inner, indent + "    ", self.random.randint(1, 3))
        if self.random.random() < 0.3:
            self.jump(inner, indent + "    ")
            self.block(inner, indent + "    ", 1)

    def after_loop(self, scope: Scope, indent: str) -> None:
        if self.random.random() < 0.2:
            self.emit(indent, "else:")
            self.block(scope.inner(), indent + "    ", 1)

    def loop(self, scope: Scope, indent: str) -> None:
        name = self.fresh(scope, "int")
        self.emit(indent, f"{name} = 0")
        source = self.random.choice(
            ["range(3)", "range(2)", "(1, 2)", "[0, 3]", f"{self.pick(scope, 'list')}[:0] + [1, 2]",
             "sorted({3, 1})", "reversed([1, 2])", "{1: 2, 4: 3}", "range(x.shape[0])"]
        )  # fmt: skip
        if self.random.random() < 0.3:
            other = self.fresh(scope, "int")
            self.emit(indent, f"{other} = 0")
            self.emit(indent, f"for {other}, {name} in enumerate({source}):")
        else:
            self.emit(indent, f"for {name} in {source}:")
        self.body(scope, indent)
        self.after_loop(scope, indent)

    def while_loop(self, scope: Scope, indent: str) -> None:
        self.count += 1
        name, limit = f"w{self.count}", self.random.randint(1, 3)
        condition = f"{name} < {limit}"
        if self.random.random() < 0.3:
            condition += f" and {self.condition(scope, data=True)}"
        self.emit(indent, f"{name} = 0\nwhile {condition}:\n    {name} += 1")
        self.body(scope, indent)
        self.after_loop(scope, indent)

    def generator_loop(self, scope: Scope, indent: str) -> None:
        head = ["for @int in countdown($w):", "for @int, @any in pairs($T, $w):",
                "for @any in stepwise($T, $w):", "for @any in map(scaled, countdown($w)):"]  # fmt: skip
        self.choose(scope, indent, head)
        self.body(scope, indent)

    def try_block(self, scope: Scope, indent: str) -> None:
        self.emit(indent, "try:")
        inner = scope.inner()
        self.block(inner, indent + "    ", self.random.randint(1, 2))
        if self.random.random() < 0.7:
            self.choose(
                inner,
                indent + "    ",
                ["raise ValueError('v', 1)", "$d['missing']", "1 // $i", "[][0]", "$b.missing", "failing($I)",
                 "if $C:\n    raise KeyError('k')", "raise Noted('n', held=$T)", "@any = $T / [1]"],
            )  # fmt: skip
            if self.random.random() < 0.3:
                self.block(inner, indent + "    ", 1)
        has_finally = self.random.random() < 0.4
        if not has_finally or self.random.random() < 0.7:
            self.handlers(scope, indent)
        if has_finally:
            self.emit(indent, "finally:")
            self.block(scope.inner(), indent + "    ", 1)
            if self.random.random() < 0.15:
                self.jump(scope, indent + "    ")

    def handlers(self, scope: Scope, indent: str) -> None:
        """What follows `try`."""
        classes = ["(ValueError, KeyError)", "Exception", "LookupError", "Noted", "(Noted, ArithmeticError)"]  # fmt: skip
        chosen = self.random.sample(classes, self.random.randint(1, 2))
        if self.random.random() < 0.5 and "Exception" not in chosen:
            chosen.append("Exception")
        for handled in chosen:
            self.emit(indent, f"except {handled} as e:")
            self.emit(indent + "    ", "LOG.append((type(e).__name__, str(e)))")
            self.block(scope.inner(), indent + "    ", 1)
            if self.random.random() < 0.15:
                again = ["raise", "raise RuntimeError('r') from e", "raise RuntimeError('r')"]
                self.emit(indent + "    ", self.random.choice(again))
            if self.random.random() < 0.2:
                self.jump(scope, indent + "    ")
        if self.random.random() < 0.2:
            self.emit(indent, "else:")
            self.block(scope.inner(), indent + "    ", 1)

    def with_block(self, scope: Scope, indent: str) -> None:
        manager = self.random.choice(
            ["dj.no_grad()", "logged('a')", "contextlib.suppress(KeyError)", "contextlib.nullcontext()",
             "logged('b') as m, dj.no_grad()", "Store(q=1) as s", "Failing(eats=True)", "Failing(fails=$c)",
             "dj.enable_grad()"]
        )  # fmt: skip
        self.emit(indent, self.fill(scope, f"with {manager}:"))
        self.block(scope.inner(), indent + "    ", self.random.randint(1, 2))
        if "suppress" in manager or (not manager.startswith("dj.") and self.random.random() < 0.2):
            self.emit(indent + "    ", "{}['gone']")
        if self.random.random() < 0.2:
            self.jump(scope, indent + "    ")

    def match_block(self, scope: Scope, indent: str) -> None:
        subject = ["($i, 'k')", "$d", "$i", "$b", "Item($i, $T)", "Frozen($I)", "[$I, {'z': 1}]", "$l",
                   "$s", "Color($i % 2 + 1)", "{'a': [$T, $I]}", "None if $c else True"]  # fmt: skip
        self.emit(indent, f"match {self.fill(scope, self.random.choice(subject))}:")
        patterns = self.random.sample(templates.PATTERNS, 3)
        for pattern in patterns:
            filled = self.fill(scope.inner(), pattern)
            self.emit(indent + "    ", filled[filled.index("case ") :])
        self.emit(indent + "    ", "case _:")
        self.block(scope.inner(), indent + "        ", 1)

    # -- functions -------------------------------------------------------------------------------

    def inner_block(self, scope: Scope, indent: str, count: int, generator: bool, own: str) -> None:
        """The body of a function in a function; what it binds of outer names is `nonlocal`."""
        inner = scope.inner()
        inner.depth = max(inner.depth, 2)
        inner.in_loop, inner.is_generator = False, generator
        outer = {name for names in inner.names.values() for name in names}
        inner.names["tensor"] = [*inner.names.get("tensor", []), own]
        before, self.lines = self.lines, []
        self.block(inner, "", count)
        if generator:
            self.yielding(inner, "")
        made, self.lines = self.lines, before
        text = "\n".join(made)
        tree = ast.parse("\n".join(["def f():", *("    " + line for line in made)])).body[0]
        bound = sorted(set(stored(tree)) & outer)
        self.emit(indent, "global COUNTER, LOG, SCALE, FACTOR")
        if bound:
            self.emit(indent, f"nonlocal {', '.join(bound)}")
        self.emit(indent, text)

    def inner_function(self, scope: Scope, indent: str) -> None:
        self.count += 1
        name, own = f"inner{self.count}", f"a{self.count}"
        counter = self.fresh(scope, "int")
        self.emit(indent, f"{counter} = 0")
        more = self.random.choice(["", ", *rest", ", b=2", ", *, b=1", ", **more"])
        self.emit(indent, f"def {name}({own}{more}):\n    nonlocal {counter}\n    {counter} += 1")
        rest = scope.inner()
        rest.names["int"].remove(counter)
        self.inner_block(rest, indent + "    ", self.random.randint(1, 2), False, own)
        self.emit(indent, f"    return {own} * {counter} + 1")
        self.emit(indent, self.fill(scope, f"@tensor = {name}($t)"))
        if self.random.random() < 0.3:
            self.emit(
                indent, f"LOG.append({name}.__name__)\n{name}({self.pick(scope, 'tensor')} + 1)"
            )

    def inner_generator(self, scope: Scope, indent: str) -> None:
        self.count += 1
        name, own = f"making{self.count}", f"a{self.count}"
        self.emit(indent, f"def {name}({own}, k=1):")
        self.inner_block(scope, indent + "    ", self.random.randint(1, 3), True, own)
        calls = [call.format(name) for call in HELPER_CALLS["generator"]]
        self.choose(scope, indent, calls)

    def call_helper(self, scope: Scope, indent: str) -> None:
        kind = self.random.choice([*HELPER_CALLS, "function", "function", "generator"])
        name = f"helper{len(self.helpers)}"
        self.helpers.append((name, kind))
        self.choose(scope, indent, [call.format(name) for call in HELPER_CALLS[kind]])
