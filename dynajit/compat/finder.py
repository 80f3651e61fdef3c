"""Makes the modules of `compat.names` when somebody imports them, or asks a package for them.

Contract: `install(library)` puts one finder in front of Python's, once per process. It answers for
three kinds of names and leaves every other import alone:

- a path of `PLACES`: a module is made that holds what its row says;
- a path of `MOVED`: the module that lies elsewhere now, the very same object;
- a path below another name of the library: after `sys.modules["torch"] = dynajit`, a program's
  `import torch.nn.functional` gives `dynajit.nn.functional`. Without it Python would look into
  dynajit's folder and run the file a second time, as a module with classes of its own.

Packages that publish late (`core.process.late`) have what lies below them as attributes.
"""

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from dynajit.compat.names import BELOW, ELSEWHERE, HIDDEN, MOVED, PLACES, Place
from dynajit.core.process import late
from dynajit.core.refusals import refused_class, refused_function

if TYPE_CHECKING:
    from importlib.abc import Loader

_ORIGIN = "dynajit.compat.names"
_FUNCTIONS = [path for path in HIDDEN if "." not in path]
"""Functions of the library itself: below another name of it, they are no modules."""


class Finder:
    """Finds the library's modules that are in no file of their name.

    A finder and loader by its methods: `importlib.abc`, whose classes say so, takes 10 ms to load.

    Args:
        library: the package itself.
    """

    def __init__(self, library: ModuleType) -> None:
        self.library = library
        #: What it is imported as, whatever a program may set its `__name__` to.
        self.own = library.__name__

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for a name of the three kinds, else None.

        Raises:
            ModuleNotFoundError: the library has no such module, asked by another name of it.
        """
        alias, _, rest = fullname.partition(".")
        if alias == self.own:
            if rest in PLACES:
                return ModuleSpec(
                    fullname, cast("Loader", self), origin=_ORIGIN, is_package=rest in BELOW
                )
            return self._same(MOVED[rest], fullname) if rest in MOVED else None
        if not rest or sys.modules.get(alias) is not self.library or rest in _FUNCTIONS:
            return None
        return self._same(rest, fullname)

    def _same(self, rest: str, asked: str) -> ModuleSpec:
        """The spec of a module that is imported by its own name, and is `asked`, too."""
        module = self._imported(f"{self.own}.{rest}", asked)
        for path in HIDDEN:
            package, _, name = path.rpartition(".")
            if package == rest:  # so that its import does not hide the function of its name
                sys.modules.setdefault(f"{asked}.{name}", sys.modules[f"{self.own}.{path}"])
        return ModuleSpec(
            asked, cast("Loader", self), loader_state=module, is_package=hasattr(module, "__path__")
        )

    def _imported(self, name: str, asked: str) -> ModuleType:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise ModuleNotFoundError(
                f"No module named {asked!r}: {self.own} stands for "
                f"{asked.partition('.')[0]!r} here, and has no {name!r}.",
                name=asked,
            ) from None

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        """The metadata of other names of the library, which `importlib.metadata` asks for."""
        wanted = getattr(context, "name", None)
        aliases = [name for name, found in [*sys.modules.items()] if found is self.library]
        for alias in aliases:
            if alias != self.own and wanted in (None, alias):
                yield importlib.import_module("dynajit.compat.distribution").Standing(alias)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The module that exists; None for one to be made."""
        module: ModuleType | None = spec.loader_state
        if module is not None:
            spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Fill a module that was made. One that existed is not run again: the import system has
        replaced its `__spec__`, which is put back."""
        spec = cast("ModuleSpec", module.__spec__)
        if spec.loader_state is not None:
            module.__spec__ = spec.loader_state
            return
        path = spec.name.partition(".")[2]
        _fill(module, PLACES[path], path)


def _fill(module: ModuleType, place: Place, path: str) -> None:
    """Put what a row says into its module."""
    fields = vars(module)
    library = module.__name__.partition(".")[0]
    fields["__doc__"] = place.about
    unlisted = set()
    for source, words in place.exports.items():
        found = importlib.import_module(f"{library}.{source}" if source else library)
        for word in _words(found, words):
            name, _, original = word.strip("()").partition("=")
            if word != word.strip("()"):
                unlisted.add(name)
            fields[name] = getattr(found, original or name)
    for name, value in place.constants.items():
        fields[name] = SimpleNamespace(**value) if isinstance(value, Mapping) else value
    for form, words in place.answers.items():
        for name in words.split():
            fields[name] = _answer(form, name, module)
    called = path if place.called is None else place.called
    for why, words in place.refused.items():
        for name in words.split():
            fields[name] = _refused(f"{called}.{name}".lstrip("."), why, module.__name__)
    unlisted |= {name for name in fields if name.startswith("__")}
    below = BELOW.get(path, ())
    listed = (name for name in fields if name not in unlisted)
    fields["__all__"] = list(dict.fromkeys([*listed, *below]))
    if place.others:
        fields["__getattr__"] = _refusing(path, place.others, module.__name__)
    elif below:
        fields["__getattr__"] = late.publish(module.__name__, ())
        fields["__dir__"] = lambda: late.names_of(module.__name__)


def _words(found: ModuleType, words: str) -> list[str]:
    """What is taken from a module; `*` and `**` as in `names.Place`."""
    if words == "**":
        return list(found.__all__)
    if words != "*":
        return words.split()
    listed = getattr(found, "__all__", None)
    if listed is not None:
        return [name for name in listed if isinstance(vars(found).get(name), type)]
    return [name for name, kind in vars(found).items() if _is_own_class(kind, name, found)]


def _is_own_class(kind: Any, name: str, module: ModuleType) -> bool:
    is_public = isinstance(kind, type) and not name.startswith("_")
    return is_public and kind.__module__ == module.__name__


def _answer(form: str, name: str, module: ModuleType) -> Callable[..., Any]:
    """A function of `compat.answers`, under a name of the module that is made."""
    answers = importlib.import_module("dynajit.compat.answers")
    model: FunctionType = getattr(answers, form)
    function = FunctionType(model.__code__, vars(module), name, model.__defaults__)
    function.__qualname__ = name
    function.__annotations__ = dict(model.__annotations__)
    function.__doc__ = model.__doc__
    return function


def _refused(called: str, why: str, module: str) -> Any:
    """A class where the name begins with a capital, else a function; both raise."""
    is_class = called.rpartition(".")[2][0].isupper()
    return (refused_class if is_class else refused_function)(called, why, module)


def _refusing(path: str, why: str, module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module in which every name is a function that raises."""

    def missing(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return refused_function(f"{path}.{name}", why, module)

    return missing


def install(library: ModuleType) -> None:
    """Let the modules of the table be imported, and those of `library` below its other names."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, cast("Any", Finder(library)))
        late.further(
            {f"{library.__name__}.{path}".rstrip("."): names for path, names in BELOW.items()}
        )


def complete(library: ModuleType) -> None:
    """Enter what importing later would do wrong, at the end of the library's own import.

    A module of the name of a function would take the function's place in its package. Modules that
    are loaded already are known by PyTorch's paths, too, from now on.
    """
    own = library.__name__
    for path in HIDDEN:
        package, _, name = f"{own}.{path}".rpartition(".")
        hiding = getattr(sys.modules[package], name)
        importlib.import_module(f"{own}.{path}")
        setattr(sys.modules[package], name, hiding)
    for path, target in ELSEWHERE.items():
        module = sys.modules.get(f"{own}.{target}")
        if module is not None:
            sys.modules.setdefault(f"{own}.{path}", module)
