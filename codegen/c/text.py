"""Loop kernels as C11 with OpenMP: one translation unit per graph, kernels plus the driver `run`.

Contract: chunks and lanes depend on sizes only, so the bits of a result do not depend on the number
of threads or on the width of vector registers; small kernels never start a team. Sums run in
`LANES` independent lanes, per block of at most `BLOCK` elements. The CUDA printer reads the same
kernels.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from dynajit.codegen.c import columns as c_columns
from dynajit.codegen.c import natives as c_natives
from dynajit.codegen.c import nests as c_nests
from dynajit.codegen.c import panels as c_panels
from dynajit.codegen.c import prelude as c_prelude
from dynajit.codegen.c import products as c_products
from dynajit.codegen.c import rows as c_rows
from dynajit.codegen.c import scans as c_scans
from dynajit.codegen.c import scatter as c_scatter
from dynajit.codegen.c import sizes as c_sizes
from dynajit.codegen.c import turns as c_turns
from dynajit.codegen.c.expressions import INDENT
from dynajit.codegen.c.support import KERNEL, Function, block
from dynajit.codegen.c.turns import Body
from dynajit.codegen.loops.loop_ir import (
    Buffer,
    ColumnKernel,
    Kernel,
    MatmulKernel,
    NativeKernel,
    NestKernel,
    PanelKernel,
    RowKernel,
    ScanKernel,
    ScatterKernel,
    TurnsKernel,
)
from dynajit.codegen.plan.memory import Layout
from dynajit.core.quoting import in_c_comment
from dynajit.core.records import record
from dynajit.core.types import symint
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir.graph import Graph
from dynajit.ir.node import Node


def print_kernel(kernel: Kernel) -> Function:
    """The C function of a kernel."""
    if isinstance(kernel, RowKernel):
        return c_rows.print_rows(kernel)
    if isinstance(kernel, ColumnKernel):
        return c_columns.print_columns(kernel)
    if isinstance(kernel, ScanKernel):
        return c_scans.print_scan(kernel)
    if isinstance(kernel, ScatterKernel):
        return c_scatter.print_scatter(kernel)
    if isinstance(kernel, NativeKernel):
        return c_natives.print_native(kernel)
    if isinstance(kernel, NestKernel):
        return c_nests.print_nest(kernel)
    if isinstance(kernel, TurnsKernel):
        return c_turns.print_turns(kernel)
    if isinstance(kernel, PanelKernel):
        return c_panels.print_panels(kernel)
    return c_products.print_matmul(kernel)


def may_have_epilogue(kernel: MatmulKernel | NativeKernel) -> bool:
    """Whether a kernel can be printed with an epilogue: see `plan.epilogues`."""
    return isinstance(kernel, NativeKernel) or c_products.may_have_epilogue(kernel)


def print_unit(
    name: str,
    functions: Sequence[Function],
    layout: Layout,
    graph: Graph,
    arrays: Mapping[Node, TensorType] = MappingProxyType({}),
    bodies: Sequence[Body] = (),
) -> str:
    """The translation unit: what it needs of the headers, kernels, turns of loops, driver.

    Args:
        name: of the graph, for the first comment.
        functions: in running order.
        layout: where each buffer lives.
        graph: what is computed, for its symbolic sizes.
        arrays: see `codegen.c.sizes.print_measure`.
        bodies: what kernels of loops call.
    """
    every = [*(f for body in bodies for f in body.functions), *functions]
    parts = c_natives.helpers([f.kernel for f in every if isinstance(f.kernel, NativeKernel)])
    symbols = c_sizes.symbols_of(graph)
    if symbols:
        parts.append(THREAD_NUMBER)
    calls = _shared(every)
    end = [c_sizes.print_measure(symbols, graph, layout, arrays)] if symbols else []
    if layout.guarded or any(body.layout.guarded for body in bodies):
        parts.append(SANITIZER)
    end.append(_driver(functions, calls, layout, _sizes_of_run(graph, symbols)))
    definitions = [text for body in bodies for text in _turn(body, calls)]
    parts += _in_parts([*definitions, *_definitions(functions, calls)], end)
    text = "\n\n".join(parts)
    head = [f"/* {in_c_comment(name)} */", *[NO_VECTORS_OF_SCALARS] * _rounds_doubles(text)]
    return "\n\n".join((*head, c_prelude.prelude(text), text)) + "\n"


NO_VECTORS_OF_SCALARS = """\
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize ("no-tree-slp-vectorize")
#endif"""
"""GCC 12 drops both conversions of `(double)(float)x` where it puts such numbers into one vector
(four of them, on AVX): `b[i] = i < 1 ? (double)(float)a[0] : (double)(float)a[1]` for four i has
values that were never rounded. Loops over lanes keep theirs."""

_DOUBLE = re.compile(r"\bdouble (\w+)\b")
_NARROWED = re.compile(r"\b(\w+) = \(*float\)\(*(\w+)")
_WIDENED = re.compile(r"\(double\)\(*(\w+)")


def _rounds_doubles(text: str) -> bool:
    """Whether a double may become a float, and that a double again."""
    doubles = set(_DOUBLE.findall(text))
    narrowed = {name for name, given in _NARROWED.findall(text) if given in doubles}
    return not narrowed.isdisjoint(_WIDENED.findall(text))


@record
class _Definition:
    """A function of a unit.

    Args:
        name, text: of it; a comment if another one is called in its place.
        weight: lines that a compiler reads for it.
    """

    name: str
    text: str
    weight: int

    @property
    def lines(self) -> int:
        """Lines of its text."""
        return self.text.count("\n") + 1

    @property
    def is_comment(self) -> bool:
        """Whether another function is called in its place."""
        return self.lines == 1


def _definitions(functions: Sequence[Function], calls: Mapping[str, "_Call"]) -> list[_Definition]:
    """The text of every kernel, or the name of the one that is called in its place."""
    found = []
    for function in functions:
        callee = calls[function.name].callee
        text = function.text
        if callee != function.name:
            text = f"/* {function.name} is {callee} on other buffers */"
        elif calls[callee].scalars is not None:
            text = _with_own_scalars(function.text)
        found.append(_Definition(function.name, text, _weight(function, text)))
    return found


def _turn(body: Body, calls: Mapping[str, "_Call"]) -> list[_Definition]:
    """The kernels of a turn, and the function that calls them."""
    head = ",\n".join((f"{KERNEL} {body.name}({c_turns.PARAMETERS[0][:-1]}", c_turns.PARAMETERS[1]))
    lines = [
        f"{head}) {{",
        "    (void)owner, (void)inputs, (void)outputs, (void)scalars;",
        "    (void)workspace, (void)runtime, (void)threads, (void)status;",
        *_guard(body.layout),
        *_calls(body.functions, calls, body.layout, is_stamped=False),
        "}",
    ]
    own = _Definition(body.name, "\n".join(lines), len(lines))
    return [*_definitions(body.functions, calls), own]


PART_LINES = 150
"""Lines of kernels that are worth a process of the compiler: about 60 ms of its time, of which it
takes 15 for whatever it compiles."""
MOST_PARTS = 4

PARTS = """\
/* The kernels may be compiled in parts side by side: DJ_PART is the number of one of them. */
#define DJ_PARTS {count}
#ifdef DJ_PART
#define DJ_IN(part) (DJ_PART == part)
#define DJ_KERNEL __attribute__((noinline, visibility("hidden"))) void
#else
#define DJ_IN(part) 1
#define DJ_KERNEL static __attribute__((noinline)) void
#endif"""


def _in_parts(definitions: Sequence[_Definition], end: Sequence[str]) -> list[str]:
    """Functions, in parts that take a compiler about as long each if they are many; and the rest.

    Args:
        end: what calls them.
    """
    count = min(sum(each.lines for each in definitions) // PART_LINES, MOST_PARTS)
    if count < 2:
        return [*(each.text for each in definitions), *end]
    kernels = [_in_part(each.text, each.name) for each in definitions]
    texts = [PARTS.format(count=count)]
    texts += [
        _declaration(kernel, each.name)
        for kernel, each in zip(kernels, definitions, strict=True)
        if not each.is_comment
    ]
    for part, numbers in enumerate(_balanced([each.weight for each in definitions], count)):
        own = [kernels[number] for number in numbers]
        own += end if part == count - 1 else []
        texts += [f"#if DJ_IN({part})", *own, "#endif"]
    return texts


def _in_part(kernel: str, name: str) -> str:
    """A kernel that other parts call; functions in front of it are its own."""
    return kernel.replace(f"{KERNEL} {name}(", f"DJ_KERNEL {name}(", 1)


def _declaration(kernel: str, name: str) -> str:
    """The declaration of a kernel of a part."""
    begin = kernel.rfind("\n", 0, kernel.index(f"DJ_KERNEL {name}(")) + 1
    return kernel[begin:].partition(") {\n")[0] + ");"


def _balanced(weights: Sequence[int], count: int) -> list[list[int]]:
    """Numbers of items in so many groups, the heaviest first: an item joins the lightest then."""
    groups: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for item in sorted(range(len(weights)), key=lambda item: -weights[item]):
        lightest = loads.index(min(loads))
        groups[lightest].append(item)
        loads[lightest] += weights[item]
    order = sorted(range(count), key=lambda group: -loads[group])
    return [sorted(groups[group]) for group in order]


def _weight(function: Function, kernel: str) -> int:
    """Lines that a compiler reads for a kernel; those of a helper count at each call.

    Args:
        kernel: what is printed: a line of comment where another function is called in its place.
    """
    if "\n" not in kernel:
        return 0
    lines = kernel.count("\n") + sum(map(c_prelude.lines_of, _WORD.findall(kernel)))
    if isinstance(function.kernel, NativeKernel):
        lines += sum(helper.count("\n") for helper in c_natives.helpers([function.kernel]))
    return lines


@record
class _Call:
    """How a kernel is called.

    Args:
        callee: the first kernel that computes the same.
        scalars: which of the program's numbers the callee's array of numbers has; None for all.
    """

    callee: str
    scalars: tuple[int, ...] | None


def _shared(functions: Sequence[Function]) -> dict[str, _Call]:
    """Name -> which kernel is called in its place, so that equal ones are compiled once.

    Kernels may be equal but for the numbers they read, such as each parameter's learning rate in a
    step of an optimiser: then all of them are given an array of their own numbers.
    """
    groups: dict[str, list[Function]] = {}
    for function in functions:
        groups.setdefault(without_names(function), []).append(function)
    calls = {}
    for group in groups.values():
        numbers = [_scalars_of(function.text) for function in group]
        is_same = all(own == numbers[0] for own in numbers)
        for function, own in zip(group, numbers, strict=True):
            calls[function.name] = _Call(group[0].name, None if is_same else own)
    return calls


_SCALAR = re.compile(r"\bscalars\[(\d+)\]")


def _scalars_of(text: str) -> tuple[int, ...]:
    """The program's numbers that a kernel reads, in order of their first appearance."""
    return tuple(dict.fromkeys(int(number) for number in _SCALAR.findall(text)))


def _with_own_scalars(text: str) -> str:
    """A kernel that reads an array of `_scalars_of` in place of all of the program's numbers."""
    place = {number: at for at, number in enumerate(_scalars_of(text))}
    return _SCALAR.sub(lambda found: f"scalars[{place[int(found[1])]}]", text)


_DECLARED = re.compile(r"\b(?:float|double|u?int\d+_t|dj_half|dj_bfloat) \*?(\w+)")
_DEFINED = re.compile(r"\bvoid (\w+)\(")
_WORD = re.compile(r"\b[A-Za-z_]\w*")


def without_names(function: Function) -> str:
    """The text of a kernel with its own names and the scalars that it reads numbered: equal texts
    compute the same.

    Layers of a model repeat; their kernels differ only in names and are compiled once. Only names
    that the kernel declares are replaced, so types, helpers and constants still tell texts apart.
    """
    own = {*_DEFINED.findall(function.text), *(buffer.name for buffer in function.buffers)}
    own.update(_DECLARED.findall(function.text))
    numbers: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        word = found[0]
        return numbers.setdefault(word, f"@{len(numbers)}") if word in own else word

    return _WORD.sub(number, _with_own_scalars(function.text))


SANITIZER = """\
void __asan_poison_memory_region(const volatile void *, size_t);
void __asan_unpoison_memory_region(const volatile void *, size_t);"""


THREAD_NUMBER = """\
#ifdef _OPENMP
int omp_get_thread_num(void), omp_get_num_threads(void);
#else
#define omp_get_thread_num() 0
#define omp_get_num_threads() 1
#endif"""


def _sizes_of_run(graph: Graph, symbols: Sequence[c_sizes.Symbol]) -> list[str]:
    """Lines that name the symbols, which the runtime stores behind the scalar arguments."""
    if not symbols:
        return []
    scalars = sum(isinstance(node.type, ScalarType) for node in graph.inputs)
    return c_sizes.define_symbols(symbols, f"scalars[{scalars} + ", ".i")


def _driver(
    functions: Sequence[Function], calls: Mapping[str, _Call], layout: Layout, sizes: Sequence[str]
) -> str:
    lines = [
        "int run(void **inputs, void **outputs, void **constants, const void *scalars_,",
        "        char *workspace, const dj_runtime *runtime, int threads, int64_t *status) {",
        "    const dj_scalar *scalars = (const dj_scalar *)scalars_;",
        "    (void)inputs, (void)outputs, (void)constants, (void)scalars;",
        "    (void)workspace, (void)runtime, (void)threads;",
        *sizes,
        *_guard(layout),
    ]
    lines += _calls(functions, calls, layout, is_stamped=True)
    lines += ["    return (int)status[0];", "}"]
    return "\n".join(lines)


def _calls(
    functions: Sequence[Function],
    calls: Mapping[str, _Call],
    layout: Layout,
    *,
    is_stamped: bool,
) -> list[str]:
    """Lines that call kernels one after the other, until one fails; a profile is told of each if
    they are `is_stamped`."""
    lines: list[str] = []
    for number, function in enumerate(functions):
        lines += [INDENT + line for line in _call(function, calls[function.name], layout)]
        if is_stamped:
            lines.append(f"{INDENT}DJ_DONE({number});")
        if function.may_fail:
            lines.append(f"{INDENT}if (status[0]) goto done;")
    if any(function.may_fail for function in functions):
        lines.append("done:;")
    if layout.guarded:
        size = symint.c(layout.workspace_bytes)
        lines.append(f"{INDENT}__asan_unpoison_memory_region(workspace, {size});")
    return lines


def _guard(layout: Layout) -> list[str]:
    """Lines that leave of the workspace only what belongs to buffers."""
    if not layout.guarded:
        return []
    lines = [f"__asan_poison_memory_region(workspace, {symint.c(layout.workspace_bytes)});"]
    lines += [
        f"__asan_unpoison_memory_region(workspace + {symint.c(start)}, {symint.c(size)});"
        for start, size in layout.guarded
    ]
    return [INDENT + line for line in lines]


def _call(function: Function, call: _Call, layout: Layout) -> list[str]:
    """The call of a kernel, by a team if that is decided here and worth it."""
    buffers = [_pointer(buffer, layout) for buffer in function.buffers]
    scalars = "scalars"
    if call.scalars:
        own = ", ".join(f"scalars[{number}]" for number in call.scalars)
        scalars = f"(const dj_scalar[]){{{own}}}"
    alone = function.call(call.callee, buffers, scalars=scalars)
    if not function.team:
        return [alone]
    member, members = "omp_get_thread_num()", "omp_get_num_threads()"
    shared = function.call(call.callee, buffers, member, members, scalars)
    team = ["#pragma omp parallel num_threads(threads)", shared]
    return [*block(f"if ({function.team})", team), *block("else", [alone])]


def _pointer(buffer: Buffer, layout: Layout) -> str:
    kind, position = layout.places[buffer]
    c = buffer.dtype.c
    if kind == "workspace":
        return f"({c} *)(workspace + {symint.c(position)})"
    return f"({c} *){kind}[{position}]"
