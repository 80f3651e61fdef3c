"""Kernels of whole rows in C: calls of functions in headers/convolution.h, pooling.h, attention.h
and ordering.h. A convolution may have an epilogue (`plan.epilogues`): a function that it calls for
what it has computed.

Contract: the sizes are printed where the function is called, so one graph serves every size; the
functions take care of threads themselves, and their results do not depend on how many there are.
"""

import functools
import math
import re
from collections.abc import Sequence
from typing import Any, Final

from dynajit.codegen.c import masked_groups
from dynajit.codegen.c.prelude import read
from dynajit.codegen.c.rows import EpilogueOver
from dynajit.codegen.c.support import Function, block, function_text, size_parameters, sizes_used
from dynajit.codegen.loops.loop_ir import Buffer, NativeKernel, RowKernel
from dynajit.codegen.plan import epilogues
from dynajit.codegen.plan.native_attention import masks_of, operands_of
from dynajit.codegen.plan.native_ordering import keys_of
from dynajit.codegen.plan.natives import ATTENTION, CONVOLUTIONS, ORDERINGS
from dynajit.core.errors import InternalError
from dynajit.core.types import symint
from dynajit.core.types.dtypes import DType

_SUFFIX: Final = {"float32": "f32", "float64": "f64"}

_CONVOLUTION: Final = """\
#define T {c}
#define DJ_OF(name) name##_{suffix}"""

_CONVOLUTION_END: Final = "#undef T\n#undef DJ_OF"

_WINOGRAD: Final = "convolution_winograd.h"
_PLANES: Final = "convolution_planes.h"
_ATTENTION: Final = """\
#define T {c}
#define DJ_OF(name) name##_{suffix}
#define DJ_EXP dj_exp_{suffix}
#define DJ_LOG dj_log_{suffix}
#define DJ_QUAD {quad}
#define DJ_MASKS {masks}"""

_ATTENTION_END: Final = (
    "#undef T\n#undef DJ_OF\n#undef DJ_EXP\n#undef DJ_LOG\n#undef DJ_QUAD\n#undef DJ_MASKS"
)

_ORDERING: Final = """\
#define T {c}
#define DJ_OF(name) name##_{suffix}
#define DJ_KEY {function}
#define DJ_KEYS {key}
#define DJ_PLACE {place}"""

_ORDERING_END: Final = "#undef T\n#undef DJ_OF\n#undef DJ_KEY\n#undef DJ_KEYS\n#undef DJ_PLACE"


def print_native(kernel: NativeKernel) -> Function:
    """The C function of a row's kernel."""
    epilogue = None if kernel.epilogue is None else _Epilogue(kernel, kernel.epilogue)
    operands = epilogue.operands if epilogue else ()
    writes = [b for b in kernel.writes if b is not None]
    reads = [b for b in (*kernel.reads, *operands) if b is not None and b not in writes]
    reads = list(dict.fromkeys(reads))
    parameters = [f"const {b.dtype.c} *{b.name}" for b in reads]
    parameters += [f"{b.dtype.c} *{b.name}" for b in writes]
    body = [*epilogue.given] if epilogue else []
    body += [f"const {_struct(kernel)} c = {{"]
    body += [f"    .{name} = {_numbers(numbers)}," for name, numbers in kernel.numbers]
    body += ["    .epilogue = &epilogue,"] if epilogue else []
    body += ["};", *_calls(kernel)]
    sizes = sizes_used(body)
    text = function_text(kernel.name, [*parameters, *size_parameters(sizes)], body)
    if epilogue:
        text = f"{epilogue.head};\n{text}\n\n{epilogue.text}"
    return Function(kernel.name, kernel, text, (*reads, *writes), False, sizes)


class _Epilogue:
    """The function that a convolution calls for what it has computed, and what it is given.

    Attributes:
        operands: the buffers that it uses.
        head: its declaration.
        text: its definition.
        given: lines that make its argument.
    """

    def __init__(self, kernel: NativeKernel, row: RowKernel) -> None:
        width = epilogues.planes_of(kernel)[1]
        over = EpilogueOver(row, ("at", "at + 1"), "start", "count", width)
        self.operands = over.operands
        name = f"{kernel.name}_epilogue"
        part = "int64_t at, int64_t start, int64_t count"
        self.head = f"static void {name}(const dj_epilogue *given, {part})"
        sizes = sizes_used(over.lines)
        body = ["const dj_scalar *scalars = given->scalars;", "(void)scalars;"]
        for number, buffer in enumerate(over.operands):
            c = buffer.dtype.c if buffer is over.operands[-1] else f"const {buffer.dtype.c}"
            body.append(f"{c} *restrict {buffer.name} = ({c} *)given->operands[{number}];")
        body += [f"const int64_t {size} = given->sizes[{k}];" for k, size in enumerate(sizes)]
        self.text = "\n".join(block(self.head, [*body, *masked_groups.guarded(over.lines)]))
        names = ", ".join(buffer.name for buffer in over.operands)
        self.given = [
            f"const void *const operands[] = {{{names}}};",
            f"const int64_t sizes[] = {{{', '.join((*sizes, '0'))}}};",
            f"const dj_epilogue epilogue = {{{name}, operands, sizes, scalars}};",
        ]


def _struct(kernel: NativeKernel) -> str:
    if kernel.row in ATTENTION:
        return "dj_attention"
    if kernel.row in ORDERINGS:
        return "dj_order"
    return "dj_convolution" if kernel.row in CONVOLUTIONS else "dj_pool"


def _numbers(numbers: Sequence[Any]) -> str:
    texts = [number_text(number) for number in numbers]
    return texts[0] if len(texts) == 1 else f"{{{', '.join(texts)}}}"


def number_text(number: Any) -> str:
    """A size, stride or option in C or CUDA."""
    return _float(number) if isinstance(number, float) else symint.c(number)


def _float(number: float) -> str:
    if math.isnan(number):
        return "NAN"
    return repr(number) if math.isfinite(number) else ("-" * (number < 0)) + "INFINITY"


@functools.cache
def _constant(header: str, name: str) -> int:
    """A number that a header defines."""
    found = re.search(rf"{name} = (\d+)", read(header))
    assert found is not None
    return int(found[1])


def may_be_winograd(kernel: NativeKernel) -> bool:
    """True for a convolution that is computed by Winograd's form where its sizes suit."""
    if kernel.row not in CONVOLUTIONS[:2] or _suffix(kernel) != "f32":
        return False
    numbers = dict(kernel.numbers)
    depth, *window = numbers["size"]
    if window != [3, 3] or any(step != 1 for step in numbers["stride"]):
        return False
    sources, results = (numbers[name][0] for name in ("channels", "outputs"))
    if kernel.row == CONVOLUTIONS[1]:
        sources, results = results, sources
    return not any(
        isinstance(count, int) and count < _constant(_WINOGRAD, "DJ_WINOGRAD_CHANNELS")
        for count in (depth * sources, results)
    )


def may_be_planes(kernel: NativeKernel) -> bool:
    """True for a convolution of groups of one channel."""
    if kernel.row not in CONVOLUTIONS[:2]:
        return False
    name = "channels" if kernel.row == CONVOLUTIONS[0] else "outputs"
    return bool(dict(kernel.numbers)[name][0] == 1)


def _calls(kernel: NativeKernel) -> tuple[str, ...]:
    """The call of a kernel's function; in front of it that of a form for some sizes, which may
    answer that it is not for these."""
    function, given = _call(kernel)
    operands = ", ".join(("&c", *given, "threads"))
    status = ", status" if kernel.row in (*CONVOLUTIONS, *ATTENTION, *ORDERINGS) else ""
    call = f"dj_{function}_{_suffix(kernel)}({operands}{status});"
    if may_be_winograd(kernel):
        return (f"if (!*runtime->is_direct && dj_winograd_correlate({operands})) return;", call)
    if not may_be_planes(kernel):
        return (call,)
    planes = f"dj_correlate_planes_{_suffix(kernel)}({operands})"
    if _are_planes(kernel):
        return (f"if (!{planes}) status[0] = 3;",)
    return (f"if ({planes}) return;", call)


def _are_planes(kernel: NativeKernel) -> bool:
    """True for what needs no other form, unless there is no memory."""
    (outputs,) = dict(kernel.numbers)["outputs"]
    if kernel.row != CONVOLUTIONS[0] or not isinstance(outputs, int):
        return False
    return outputs <= _constant("convolution.h", "DJ_NARROW")


def _call(kernel: NativeKernel) -> tuple[str, list[str]]:
    """The function of a kernel, and what it is given between the sizes and the threads."""

    def names(buffers: Sequence[Buffer | None]) -> list[str]:
        return ["NULL" if buffer is None else buffer.name for buffer in buffers]

    reads, writes = names(kernel.reads), names(kernel.writes)
    match kernel.row:
        case "convolution":
            function, given = "correlate", ["0", *reads, *writes]
        case "convolution_input":
            function, given = "correlate", ["1", *reads, "NULL", *writes]
        case "convolution_weight":
            function, given = "weigh", [*reads, *writes]
        case "max_pool" | "sum_pool" | "place_windows":
            function, given = kernel.row, [*reads, *writes]
        case row if row in ORDERINGS:
            function, given = row, [*reads, *writes]
        case row if row in ATTENTION:
            function = "attention_forward" if len(writes) == 2 else "attention_backward"
            parts = zip(operands_of(row), reads, strict=True)
            operands = ", ".join(f".{part} = {name}" for part, name in parts)
            given = [f"(dj_head_operands_{_suffix(kernel)}){{{operands}}}", *writes]
        case _:
            raise InternalError(f"{kernel.name}: {kernel.row} has no kernel")
    return function, given


def _dtype(kernel: NativeKernel) -> DType:
    first = kernel.reads[0]
    assert first is not None
    return first.dtype


def _suffix(kernel: NativeKernel) -> str:
    dtype = _dtype(kernel)
    return dtype.name if kernel.row in ORDERINGS else _SUFFIX[dtype.name]


def helpers(kernels: Sequence[NativeKernel]) -> list[str]:
    """The texts that the given kernels call, for the dtypes that they have."""
    parts: list[str] = []
    for struct, head, form, tail in (
        ("dj_convolution", "convolution.h", _CONVOLUTION, ("convolution_kernels.h",)),
        ("dj_pool", "pooling.h", "DJ_POOLS({c}, {suffix}, {integer})", ()),
        ("dj_attention", "", _ATTENTION, ("panels.h", "attention.h")),
    ):
        own = [kernel for kernel in kernels if _struct(kernel) == struct]
        found = {_suffix(kernel) for kernel in own}
        if found and head:
            parts.append(read(head))
        for suffix, c, integer, quad in (
            ("f32", "float", "int32_t", 4), ("f64", "double", "int64_t", 2),
        ):  # fmt: skip
            if suffix in found:
                same = [kernel for kernel in own if _suffix(kernel) == suffix]
                masks = 0 if head else masks_of(same)
                texts = {"c": c, "suffix": suffix, "integer": integer}
                parts.append(form.format(**texts, quad=quad, masks=masks))
                parts += map(read, tail)
                if any(map(may_be_planes, same)):
                    parts.append(read(_PLANES))
                if tail:
                    parts.append(_CONVOLUTION_END if head else _ATTENTION_END)
        if any(map(may_be_winograd, own)):
            parts.append(read(_WINOGRAD))
    orders = [kernel for kernel in kernels if kernel.row in ORDERINGS]
    for dtype in dict.fromkeys(map(_dtype, orders)):
        own_keys = keys_of(dtype)
        form = _ORDERING.format(c=dtype.c, suffix=dtype.name, function=own_keys.function,
                                key=own_keys.key, place=own_keys.place)  # fmt: skip
        parts += [form, read("ordering.h"), _ORDERING_END]
    return parts
