"""Loops whose turns a function of the same unit runs, in C.

Contract: `print_turns` gives the kernel of a loop: calls of what runs turns (`headers/turns.h`).
`Body` is the function of a turn, and the kernels that it calls; a unit prints each body once, for
all loops that have it.
"""

from collections.abc import Iterable
from typing import Any, Final

from dynajit.codegen.c.support import PARALLEL_WORK, Function, function_text
from dynajit.codegen.c.support import loop as for_loop
from dynajit.codegen.loops.loop_ir import Buffer, Cycle, TurnsKernel
from dynajit.codegen.plan.memory import Layout
from dynajit.core.records import record
from dynajit.core.types.value_types import TensorType, numel
from dynajit.ir.graph import type_of
from dynajit.ir.loops import Listed, Loop, Steps

PARAMETERS: Final = (
    "const void *owner, void **inputs, void **outputs, const dj_scalar *scalars,",
    "char *workspace, const dj_runtime *runtime, int threads, int64_t *status",
)
"""Of the function of a turn."""

LIKELY: Final = 64
"""Turns of a loop of which nobody knows how many it has."""

WORTH_A_TEAM: Final = 4 * PARALLEL_WORK
"""Operations of all turns: what stays in the nearest cache is computed fast."""


@record(eq=False)
class Body:
    """The turns of loops.

    Args:
        name: the C function of a turn.
        functions: its kernels, in running order.
        layout: where their buffers live.
    """

    name: str
    functions: tuple[Function, ...]
    layout: Layout


def print_turns(kernel: TurnsKernel) -> Function:
    """The C function of a loop."""
    turns, loop = kernel.turns, kernel.turns.loop
    asked = (kernel.go,) if isinstance(kernel.go, Buffer) else ()
    reads = [*dict.fromkeys((*asked, *kernel.operands, *kernel.listed))]
    written = [buffer for buffer in kernel.writes if buffer is not None]
    written += [kernel.memory] if kernel.memory is not None else []
    parameters = [f"const {buffer.dtype.c} *{buffer.name}" for buffer in reads]
    parameters += [f"{buffer.dtype.c} *{buffer.name}" for buffer in written]
    memory = "NULL" if kernel.memory is None else f"(char *){kernel.memory.name}"
    count = kernel.writes[turns.handed]
    goes = f"{kernel.go.name}[0]" if isinstance(kernel.go, Buffer) else str(int(kernel.go))
    counts = (
        len(loop.numbers) + len(kernel.numbers), loop.carried, loop.collected, loop.stacked,
        len(kernel.operands), len(kernel.cycles), _test(kernel), int(loop.backwards),
        int(loop.unset),
    )  # fmt: skip
    body = [
        *_array("dj_turn_number", "number", _numbers(kernel)),
        *_array("dj_turn_result", "result", _results(kernel)),
        *_array("dj_turn_cycle", "cycle", map(_cycle, kernel.cycles)),
        *_array("int64_t", "rows", map(str, _row_bytes(loop))),
        *_array("void *const", "operands", [b.name for b in kernel.operands]),
        "const dj_turns all = {",
        f"    {turns.name}, NULL, INT64_C({turns.limit}), {', '.join(map(str, counts))},",
        f"    number, result, cycle, rows, operands, {memory},",
        f"    {'NULL' if count is None else count.name},",
        "};",
        *(_in_chunks(kernel, goes) if turns.chunk else [_at_once(goes)]),
    ]
    text = function_text(kernel.name, parameters, body)
    return Function(kernel.name, kernel, text, (*reads, *written), may_fail=True)


def _at_once(goes: str) -> str:
    return f"dj_run_turns(&all, {goes}, runtime, threads, status);"


def _in_chunks(kernel: TurnsKernel, goes: str) -> list[str]:
    """The call for single elements, by a team where all turns together are worth one."""
    turns = kernel.turns
    whole = _whole(turns.loop)
    tensors = [node for node in turns.loop.inputs if isinstance(node.type, TensorType)]
    steps = [_step(node, whole) for node in tensors]
    sizes = [_step(node, whole) for node in turns.loop.body.outputs[: turns.handed]]
    elements = whole.numel
    assert isinstance(elements, int)
    count = -(-elements // turns.chunk)
    facts = f"{elements}, {turns.chunk}, {count}, steps, sizes, {kernel.bytes}, {goes}"
    is_large = turns.work * (turns.limit if turns.limit >= 0 else LIKELY) >= WORTH_A_TEAM
    threads = "threads" if is_large else "1"
    call = f"dj_run_chunk(&all, &chunks, c, {threads}, runtime, status);"
    team = "#pragma omp parallel for schedule(static) num_threads(threads)"
    return [
        *_array("int64_t", "steps", map(str, steps)),
        *_array("int64_t", "sizes", map(str, sizes)),
        f"const dj_chunks chunks = {{{facts}}};",
        *[team] * is_large,
        *for_loop("c", "0", str(count), [call]),
    ]


def _whole(loop: Loop) -> TensorType:
    """The type of an operand that turns read element by element."""
    types = [node.type for node in loop.inputs]
    return max((t for t in types if isinstance(t, TensorType)), key=lambda type: type.numel)


def _step(node: Any, whole: TensorType) -> int:
    """Bytes from an element of a value to the next; 0 for what is the same for all elements."""
    type = type_of(node)
    assert isinstance(type, TensorType)
    return type.dtype.itemsize if type.shape == whole.shape else 0


def _array(type: str, name: str, entries: Iterable[str]) -> list[str]:
    """The definition of a constant array, which C wants an entry of."""
    found = [*entries] or ["0" if type.startswith(("int", "void")) else "{0}"]
    return [f"const {type} {name}[] = {{{', '.join(found)}}};"]


def _numbers(kernel: TurnsKernel) -> list[str]:
    waiting = iter(kernel.listed)
    own = [
        f"{{INT64_C({number.start}), INT64_C({number.step}), NULL}}"
        if isinstance(number, Steps)
        else f"{{0, 0, {next(waiting).name}}}"
        for number in kernel.turns.loop.numbers
    ]
    # The bits of a float are those of an int that goes up by nothing.
    return [*own, *(f"{{scalars[{position}].i, 0, NULL}}" for position in kernel.numbers)]


def _bytes(type: Any) -> int:
    assert isinstance(type, TensorType)
    size = numel(type.shape) * type.dtype.itemsize
    assert isinstance(size, int)
    return size


def _results(kernel: TurnsKernel) -> list[str]:
    turns = kernel.turns
    found = []
    for number in range(turns.handed):
        is_output, place = turns.results[number]
        buffer = kernel.writes[number]
        output = turns.loop.body.outputs[number]
        row = _bytes(type_of(output))
        step = _step(output, _whole(turns.loop)) if turns.chunk else 0
        size = turns.chunk * step or row
        to = "NULL" if buffer is None else f"(char *){buffer.name}"
        found.append(f"{{{place if is_output else ~place}, {size}, {row}, {to}}}")
    return found


def _cycle(cycle: Cycle) -> str:
    row, own = (-1 if result is None else result for result in (cycle.row, cycle.own))
    return f"{{{row}, {own}, {cycle.count}, {cycle.place}, {cycle.step}}}"


def _row_bytes(loop: Loop) -> list[int]:
    stacked = loop.inputs[loop.carried : loop.carried + loop.stacked]
    return [_bytes(node.type) for node in stacked]


def _test(kernel: TurnsKernel) -> int:
    """The output that says whether there is another turn; -1: none does."""
    if not kernel.turns.loop.tests:
        return -1
    return kernel.turns.results[kernel.turns.handed][1]


def listed_of(loop: Loop) -> list[Listed]:
    """The numbers of turns that have no steps, in order."""
    return [number for number in loop.numbers if isinstance(number, Listed)]


__all__ = ["PARAMETERS", "Body", "listed_of", "print_turns"]
