"""Random Python programs: language features, tensor operations, mutation and breaks mixed.

`write(seed)` gives the source of a module with `main(x, y, n, f, items, table, box)` and what it
needs. The same seed gives the same program on every version. Programs end: loops are bounded.
Which variable holds what kind of value is tracked, so most statements succeed; some raise, which
must then look the same compiled. Used by `differential.py`.
"""

from tests.fuzz.preamble import HEADER
from tests.fuzz.statements import Statements
from tests.fuzz.writing import Scope

#: Helpers with a body of their own; the others are one line, so that programs stay small.
MAX_HELPERS = 8


class Program(Statements):
    """Writes one program."""

    def program(self) -> str:
        """The part of the module that is different in each program."""
        known = {
            "tensor": ["x", "y"], "int": ["n"], "float": ["f"], "list": ["items"], "dict": ["table"],
            "box": ["box"],
        }  # fmt: skip
        scope = Scope(known)
        self.block(scope, "    ", self.random.randint(3, 8))
        results = [name for names in scope.names.values() for name in names]
        chosen = self.random.sample(results, min(4, len(results)))
        main = [
            "def main(x, y, n, f, items, table, box):",
            "    global COUNTER, LOG, SCALE, FACTOR",
        ]
        main += [*self.lines, f"    return {', '.join(chosen)}, x"]
        helpers = []
        for written, (name, kind) in enumerate(self.helpers):  # grows meanwhile
            helpers.append(self.helper(name, kind, is_short=written >= MAX_HELPERS))
        return "\n\n\n".join([*helpers, "\n".join(main)]) + "\n"

    def helper(self, name: str, kind: str, is_short: bool) -> str:
        """A function of the module, bound to where it is called."""
        own = "self" if kind in ("method", "property") else ""
        known = {"tensor": ["t", "x"], "int": ["k"]} | ({"box": ["self"]} if own else {})
        scope = Scope(known, depth=2, is_generator=kind == "generator")
        self.lines = []
        if not is_short:
            self.block(scope, "    ", self.random.randint(1, 2))
        before = {"manager": "@contextlib.contextmanager\n", "disabled": "@dj.disable\n"}
        head = {"method": "(self, t, k=1):", "property": "(self, k=1):"}.get(kind, "(t, k=1):")
        start = "t = dj.ones(3)\n    x = t * k" if kind == "property" else "x = t * 1"
        last = f"return {self.pick(scope, 'tensor')} + k"
        if kind == "generator":
            last = f"yield {self.pick(scope, 'tensor')} + k\n    return k"
        elif kind == "manager":
            last = "try:\n        yield k\n    finally:\n        LOG.append(x)"
        after = {"method": "\n\n\nBox.{0} = {0}", "property": "\n\n\nBox.{0} = property({0})"}
        lines = [f"{before.get(kind, '')}def {name}{head}",
                 "    global COUNTER, LOG, SCALE, FACTOR", f"    {start}", *self.lines, f"    {last}"]  # fmt: skip
        return "\n".join(lines) + after.get(kind, "").format(name)


def body(seed: int) -> str:
    """The part of program number `seed` that is its own."""
    return Program(seed).program()


def write(seed: int) -> str:
    """The source of program number `seed`."""
    return HEADER + "\n\n" + body(seed)
