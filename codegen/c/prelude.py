"""What a translation unit of C needs of the headers.

Contract: `prelude(text)` gives the pieces (functions, macros, types) of `HEADERS` that `text`
names, and those that these name in turn, in the headers' order: a kernel needs few of the helpers,
and a compiler that reads and drops all of them takes twice as long. A name that is missed is an
error of the compiler (`toolchain.FLAGS`), never another function. The pieces are part of the unit,
so that a cached object depends on its source alone.
"""

import bisect
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from dynajit.core.records import record
from dynajit.ops.table.scalar import OF_LIBRARY, SCALARS

_FOLDER: Final = Path(__file__).parent.parent / "headers"
VECTOR_HEADERS: Final = (
    "vecmath.h", "vecmath_f64.h", "vecmath_f64_inverse.h", "vecmath_f64_power.h",
    "vecmath_special.h",
)  # fmt: skip
HEADERS: Final = (
    "host.h", "indices.h", *VECTOR_HEADERS, "scalar.h", "host_scalar.h", "libm.h",
    "products.h", "process.h", "turns.h", "random_tables.h", "random.h",
)  # fmt: skip
"""Each may use what those before it define, but for macros that it calls at file scope: those are
its own. Every name that they define begins with `PREFIX`."""
PREFIX: Final = "dj_"
"""In small or capital letters."""

_FURTHER: Final = {
    1: ("cbrt", "logb", "nearbyint", "round", "tgamma"),
    2: ("copysign", "fdim", "fmax", "fmin", "hypot", "nextafter", "remainder"),
}
"""Functions of real numbers that no row of `SCALARS` names, but headers or programs do, by the
number of operands."""
_OF_REALS: Final = re.compile(r"\b([a-z]\w*)\{f\}\(")


def _functions(arity: int) -> list[str]:
    """The mathematical library's functions of so many real numbers that units may use."""
    found = set(_FURTHER[arity])
    for row in (SCALARS[name] for name in OF_LIBRARY):
        if row.arity == arity:
            is_helper = row.floating is not None and row.floating.startswith(PREFIX)
            found.update(_OF_REALS.findall((row.cuda if is_helper else row.floating) or ""))
    return sorted(found)


def _mathematics() -> Iterator[tuple[str, str]]:
    """Functions of the mathematical library that units may use, and the declaration of each."""
    for suffix, real in (("", "double"), ("f", "float"), ("l", "long double")):
        for name in _functions(1):
            yield name + suffix, f"{real} {name}{suffix}({real});"
        for name in _functions(2):
            yield name + suffix, f"{real} {name}{suffix}({real}, {real});"
        yield "fma" + suffix, f"{real} fma{suffix}({real}, {real}, {real});"
        yield "frexp" + suffix, f"{real} frexp{suffix}({real}, int *);"
        yield "ldexp" + suffix, f"{real} ldexp{suffix}({real}, int);"
        yield "jn" + suffix, f"{real} jn{suffix}(int, {real});"
        yield "ilogb" + suffix, f"int ilogb{suffix}({real});"
        for integer in ("long", "long long"):
            for name in ("rint", "round"):
                full = "l" * len(integer.split()) + name + suffix
                yield full, f"{integer} {full}({real});"


def _definitions() -> Iterator[tuple[str, str]]:
    """Macros and types of the C library that units may use, and the definition of each."""
    for name in ("isfinite", "isinf", "isnan", "signbit"):
        yield name, f"#define {name}(x) __builtin_{name}(x)"
    yield "INFINITY", "#define INFINITY __builtin_inff()"
    yield "NAN", '#define NAN __builtin_nanf("")'
    for bits in (8, 16, 32, 64):
        for prefix, letter in (("", ""), ("U", "u")):
            integer = f"{letter}int{bits}_t"
            yield integer, f"typedef __{prefix}INT{bits}_TYPE__ {integer};"
            largest = f"{prefix}INT{bits}_MAX"
            yield largest, f"#define {largest} __{largest}__"
        yield f"INT{bits}_MIN", f"#define INT{bits}_MIN (-__INT{bits}_MAX__ - 1)"
    yield "INT64_C", "#define INT64_C(x) ((__INT64_TYPE__)x##LL)"
    yield "UINT64_C", "#define UINT64_C(x) ((__UINT64_TYPE__)x##ULL)"
    yield "uintptr_t", "typedef __UINTPTR_TYPE__ uintptr_t;"
    yield "size_t", "typedef __SIZE_TYPE__ size_t;"
    yield "NULL", "#define NULL ((void *)0)"


C_LIBRARY: Final = {
    "abs": "int abs(int);",
    "llabs": "long long llabs(long long);",
    "malloc": "void *malloc(__SIZE_TYPE__);",
    "realloc": "void *realloc(void *, __SIZE_TYPE__);",
    "free": "void free(void *);",
    "memcpy": "void *memcpy(void *, const void *, __SIZE_TYPE__);",
    "memmove": "void *memmove(void *, const void *, __SIZE_TYPE__);",
    "memset": "void *memset(void *, int, __SIZE_TYPE__);",
}
"""Functions of the C library itself that units may use, and the declaration of each."""

STANDARD: Final = {**dict(_mathematics()), **dict(_definitions()), **C_LIBRARY}
"""Declarations in the place of math.h, stdint.h, stdlib.h and string.h, for whose reading GCC takes
6 ms of the 40 that a small kernel costs."""


@record
class Piece:
    """A function, macro or type of a header, or what an `#if` encloses, with its comment.

    Args:
        text: as in the header.
        defines: names that others may use.
        call: of a macro that defines them; None if the text does so itself.
    """

    text: str
    defines: frozenset[str]
    call: "_Call | None" = None

    def names(self) -> frozenset[str]:
        """Every name in it, and in what the macro it calls makes of it."""
        own = _names(_COMMENT.sub(" ", self.text))
        return own | self.call.paste(_names(self.call.macro.body)) if self.call else own


def prelude(text: str) -> str:
    """Declarations and helpers in front of a text of C, which pastes none of their names."""
    wanted: dict[_Place, Piece] = {}
    names = set(_WORD.findall(text))
    rest = list(names)
    while rest:
        place = _home(rest.pop())
        if place is not None and place not in wanted:
            piece = wanted[place] = _piece_at(place)
            fresh = piece.names() - names
            names |= fresh
            rest += fresh
    standard = [text for name, text in STANDARD.items() if name in names]
    pieces = [_in_loops(place, wanted[place].text) for place in sorted(wanted)]
    return "\n\n".join(("\n".join(standard), *pieces))


def _in_loops(place: "_Place", text: str) -> str:
    """A piece as units have it: a function of elements is a part of every loop that calls it. GCC
    12 leaves functions out of a loop that calls 13 of them, which is then no loop over vectors: 16
    cosines in a row took 9.3 microseconds per 1 000 elements each, not 0.9."""
    if HEADERS[place[0]] not in VECTOR_HEADERS:
        return text
    return text.replace("static inline", "static inline __attribute__((always_inline))")


def lines_of(name: str) -> int:
    """Lines of a helper; 0 for any other name."""
    place = _home(name)
    return 0 if place is None else _piece_at(place).text.count("\n") + 1


@functools.cache
def read(header: str) -> str:
    """The text of a file of the folder `headers`."""
    return (_FOLDER / header).read_text()


@functools.cache
def defined_in(headers: tuple[str, ...]) -> frozenset[str]:
    """Every name that some of `HEADERS` define."""
    pieces = (piece for header in headers for piece in split(read(header)))
    return frozenset[str]().union(*(piece.defines for piece in pieces))


_WORD: Final = re.compile(r"\b[A-Za-z_]\w*")

_Place: TypeAlias = tuple[int, int, int]
"""Of a piece: the number of its header, where its block starts there, its number in the block."""


@functools.cache
def _home(name: str) -> _Place | None:
    """The place of the piece that defines a name; None if none does."""
    if name[: len(PREFIX)].lower() != PREFIX:
        return None
    for way in (_naming, _calling, _mentioning):
        for number, header in enumerate(HEADERS):
            for start in way(header, name):
                for order, piece in enumerate(_pieces(header, start)):
                    if name in piece.defines:
                        return number, start, order
    return None


def _piece_at(place: _Place) -> Piece:
    header, start, order = place
    return _pieces(HEADERS[header], start)[order]


# ---------------------------------------------------------------------------------------------
# blocks: what of a header is split alone. Whole headers would take as long as all else that a
# small kernel's text takes, and few of their pieces are needed.


_EDGE: Final = re.compile(r"\n(?:[ \t]*#[ \t]*(?:(?P<opens>if)|(?P<closes>endif))|(?=\n\S))")


@functools.cache
def _starts(header: str) -> tuple[int, ...]:
    """Where blocks begin: behind blank lines outside of conditions, at what is not indented."""
    starts, conditions = [0], 0
    for edge in _EDGE.finditer(read(header)):
        if edge["opens"] or edge["closes"]:
            conditions += 1 if edge["opens"] else -1
        elif not conditions:
            starts.append(edge.end() + 1)
    return tuple(starts)


def _block(header: str, start: int) -> str:
    starts = _starts(header)
    after = bisect.bisect(starts, start)
    return read(header)[start : starts[after] if after < len(starts) else None]


@functools.cache
def _pieces(header: str, start: int) -> tuple[Piece, ...]:
    return tuple(split(_block(header, start), functools.partial(_macro_of, header)))


def _macro_of(header: str, name: str) -> "_Macro":
    """A macro of a header, which other blocks than its own call."""
    found = re.search(rf"^#define {name}\((?:\\\n|[^\n])*", read(header), re.MULTILINE)
    macro = found and _read_macro(_COMMENT.sub(" ", found[0]))
    if macro is None:
        raise KeyError(name)
    return macro


def _naming(header: str, name: str) -> Iterator[int]:
    """Starts of blocks that may define a name where a line is not indented: nearly all do."""
    text = read(header)
    for place in _places(text, name):
        if text[text.rfind("\n", 0, place) + 1] not in " \t/*":
            yield _start_of(header, place)


def _calling(header: str, name: str) -> Iterator[int]:
    """Starts of blocks that call macros at file scope, which may paste a name."""
    del name
    return iter(_calls(header))


@functools.cache
def _calls(header: str) -> tuple[int, ...]:
    calls = _FILE_SCOPE_CALL.finditer(read(header))
    return tuple(dict.fromkeys(_start_of(header, call.start()) for call in calls))


_FILE_SCOPE_CALL: Final = re.compile(r"^[A-Z][A-Z0-9_]*\s*\(", re.MULTILINE)


def _mentioning(header: str, name: str) -> Iterator[int]:
    """Starts of all blocks with a name, which may be that of an enumerator."""
    for place in _places(read(header), name):
        yield _start_of(header, place)


def _places(text: str, name: str) -> Iterator[int]:
    place = text.find(name)
    while place >= 0:
        yield place
        place = text.find(name, place + 1)


def _start_of(header: str, place: int) -> int:
    starts = _starts(header)
    return starts[bisect.bisect(starts, place) - 1]


# ---------------------------------------------------------------------------------------------
# reading a header


@record
class _Macro:
    """A macro with parameters, and what it stands for, with `_PASTE` in the place of ##."""

    parameters: tuple[str, ...]
    body: str


@record
class _Call:
    """A call of a macro at file scope."""

    macro: _Macro
    arguments: tuple[str, ...]

    def paste(self, names: frozenset[str]) -> frozenset[str]:
        """Names of the macro's body as this call makes them."""
        given = dict(zip(self.macro.parameters, self.arguments, strict=True))
        return frozenset(
            "".join(given.get(part, part) for part in name.split(_PASTE)) for name in names
        )


_PASTE: Final = "__paste__"
"""What a macro pastes is one name so, and the macro is read once for all its calls."""

_MARK: Final = re.compile(
    r"(?P<comment>/\*.*?\*/)|(?P<directive>^[ \t]*#(?:\\\n|[^\n])*)|(?P<body>\{\n.*?^\})"
    r"|[()\[\]{};]",
    re.DOTALL | re.MULTILINE,
)
"""A body of several lines is one mark: where its brace opens, only the last one closes in the first
column."""
_BLANK: Final = re.compile(r"(?:\s+|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)*")
_BEGINS: Final = re.compile(r"(?:typedef|struct|union|enum)\b|(?P<call>[A-Z][A-Z0-9_]*\s*\()")
_DEFINE: Final = re.compile(r"\s*#\s*define\s+(\w+)(\(([^)]*)\))?(.*)", re.DOTALL)
_CALL: Final = re.compile(r"([A-Z][A-Z0-9_]*)\s*\((.*)\)\s*", re.DOTALL)
_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_CALLED: Final = re.compile(r"(\w+)\s*\(")


def split(text: str, macro_of: Callable[[str], _Macro] | None = None) -> Iterator[Piece]:
    """The pieces of a header, in order.

    Args:
        text: of the header; comments without a line of code right below them are left out.
        macro_of: gives macros that the text calls and does not define, or raises KeyError.
    """
    macros = _Macros(macro_of)
    start = 0
    for end in _ends(text):
        item, start = text[start:end].strip(), end
        while (comment := _COMMENT.match(item)) and item[comment.end() :].startswith("\n\n"):
            item = item[comment.end() :].lstrip()
        if not re.match(r"#\s*include\b", item):
            yield _piece(item, macros)


class _Macros(dict[str, _Macro]):
    """The macros of a text that is read, by name."""

    def __init__(self, others: Callable[[str], _Macro] | None) -> None:
        super().__init__()
        self._others = others

    def __missing__(self, name: str) -> _Macro:
        if self._others is None:
            raise KeyError(name)
        return self._others(name)


def _ends(text: str) -> Iterator[int]:
    """Where each item of a text at file scope ends."""
    start = depth = conditions = 0
    for mark in _MARK.finditer(text):
        if mark.lastgroup == "comment":
            continue
        if mark.lastgroup == "directive":
            if conditions or _BLANK.fullmatch(text, start, mark.start()):
                conditions += _nesting(mark[0])
                if not conditions:
                    start = mark.end()
                    yield start
        elif not conditions:
            last = mark[0][-1]
            depth += 0 if mark["body"] else (last in "([{") - (last in ")]}")
            if depth == 0 and _closes(last, text, start):
                start = mark.end()
                yield start


def _nesting(directive: str) -> int:
    """1 where conditions begin, -1 where they end."""
    word = re.sub(r"[\s#]", " ", directive).split()[0]
    return word.startswith("if") - (word == "endif")


def _closes(mark: str, text: str, start: int) -> bool:
    """Whether a mark outside of parentheses ends the item that starts there."""
    if mark == ";":
        return True
    blank = _BLANK.match(text, start)
    begins = _BEGINS.match(text, blank.end() if blank else start)
    if mark == "}":
        return begins is None
    return mark == ")" and begins is not None and begins["call"] is not None


def _piece(item: str, macros: dict[str, _Macro]) -> Piece:
    code = _COMMENT.sub(" ", item).strip()
    if re.match(r"#\s*if", code):
        inner = re.sub(r"^\s*#\s*(?:if|el|endif)(?:\\\n|[^\n])*", "", code, flags=re.MULTILINE)
        return Piece(item, _defined(inner))
    if define := _DEFINE.match(code):
        macro = _read_macro(code)
        if macro is not None:
            macros[define[1]] = macro
        return Piece(item, frozenset({define[1]}))
    if found := _CALL.fullmatch(code):
        arguments = tuple(argument.strip() for argument in found[2].split(","))
        call = _Call(macros[found[1]], arguments)
        return Piece(item, call.paste(_defined(call.macro.body)), call)
    return Piece(item, frozenset(_declared(code)))


def _read_macro(code: str) -> _Macro | None:
    """What a definition of a macro with parameters says; None of one without."""
    define = _DEFINE.match(code)
    if define is None or define[2] is None:
        return None
    parameters = tuple(word.strip() for word in define[3].split(","))
    pasted = define[4].replace("\\\n", "\n").split("##")
    return _Macro(parameters, _PASTE.join(part.strip() for part in pasted))


@functools.cache
def _defined(text: str) -> frozenset[str]:
    """Every name that a text defines without calls of macros at file scope."""
    return frozenset[str]().union(*(piece.defines for piece in split(text)))


@functools.cache
def _names(code: str) -> frozenset[str]:
    return frozenset(_WORD.findall(code))


def _declared(code: str) -> list[str]:
    """The name that a function or type declares; those that an enumeration declares."""
    if code.startswith("enum"):
        return re.findall(r"[{,]\s*(\w+)", code)
    if code.startswith("typedef"):
        pointer = re.match(r"typedef [\w *]+\(\*(\w+)\)", code)
        return [pointer[1]] if pointer else re.findall(r"(\w+)\s*;$", code)
    names = (found[1] for found in _CALLED.finditer(code))
    return [next(name for name in names if name != "__attribute__")]
