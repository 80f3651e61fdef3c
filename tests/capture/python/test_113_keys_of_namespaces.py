"""Namespaces with keys that are no strings: looking a name up may run their `__eq__`."""

import builtins

import pytest

SOURCE = """
def f(x):
    return helper(x) + offset, abs(-3)

def g(x):
    global counter
    counter = 1
    del counter
    return x + offset
"""


class Key:
    """Compares like a text, and counts how often it is asked."""

    asked = 0

    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        Key.asked += 1
        return other == self.name


def namespace(**keys):
    """Globals of the two functions; some names are keys of the class above."""
    found = {"helper": lambda x: x * 2, "offset": 3, "__builtins__": dict(vars(builtins))}
    exec(SOURCE, found)
    for name, value in keys.items():
        found.pop(name, None)
        found[Key(name)] = value
    return found


def seen(function, x):
    """The result of two calls, and how often a key was asked."""
    before = Key.asked
    results = [function(x), function(x)]
    return results, Key.asked - before


@pytest.mark.parametrize("name", ["f", "g"])
@pytest.mark.parametrize("key", ["offset", "counter", "abs", "other"])
def test_keys_of_globals_are_asked_as_in_plain_python(compiler, check_same, x, name, key):
    expected, asked = seen(namespace(**{key: abs if key == "abs" else 4})[name], x)
    made = namespace(**{key: abs if key == "abs" else 4})
    found, compiled_asked = seen(compiler.compile(made[name]), x)
    check_same(expected, found)
    assert bool(asked) == bool(compiled_asked)


def test_keys_of_builtins_are_asked_as_in_plain_python(compiler, check_same, x):
    made = namespace()
    own = made["__builtins__"]
    del own["abs"]
    own[Key("abs")] = lambda value: value + 10
    exec(SOURCE, made)
    expected, asked = seen(made["f"], x)
    found, compiled_asked = seen(compiler.compile(made["f"]), x)
    check_same(expected, found)
    assert asked and compiled_asked
