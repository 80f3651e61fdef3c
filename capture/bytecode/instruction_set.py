"""The canonical instruction set: one table, the same for every Python version.

Each row gives an operation's argument, its stack effect (slots popped and pushed when control falls
through, and, for jumps, when the jump is taken), and what capture has to know of it.
`capture.bytecode.instructions` translates a code object into these operations; the executor has a
handler for each row that does not say why it is not captured; a test checks the effects against
whole functions of the standard library.

Read the effects with the argument `a` of the instruction. Slots named NULL are the empty slots of
the calling convention. Semantics are those of the `dis` module's documentation; what differs is
said in the row.
"""

import enum
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from dynajit.core.records import record

Count: TypeAlias = "int | Callable[[Any], int]"


class Use(enum.Enum):
    """What an instruction does with the result."""

    PUSH = "push it"
    PUSH_METHOD = "push it and the empty slot of a method"
    DROP = "drop it"
    OPERAND = "do the instruction with it as operand"
    NEXT = "push it as the next item, or leave the loop at StopIteration"


@record
class Operation:
    """One row of the table.

    Args:
        name: the canonical name.
        argument: what the instruction's argument is; empty for none.
        popped: slots taken, a number or a function of the argument.
        pushed: slots put.
        on_jump: (popped, pushed) when the jump is taken; None if the operation never jumps.
        falls_through: False if the next instruction is never reached from here.
        note: what a reader of `dis` would not expect.
        awaiting: what one that waits for a frame does with its result; None: it waits for none, or
            that depends on more.
        uncaptured: why the executor has no handler for it; empty: it has one.
        lets_go: False if it lets go of no object.
        can_follow_end: False if no region ends in front of it: a rest finds cells made, and
            functions with everything that belongs to them.
    """

    name: str
    argument: str
    popped: Count
    pushed: Count
    on_jump: tuple[int, int] | None = None
    falls_through: bool = True
    note: str = ""
    awaiting: Use | None = None
    uncaptured: str = ""
    lets_go: bool = True
    can_follow_end: bool = True

    def effect(self, argument: Any, jump: bool = False) -> tuple[int, int]:
        """(popped, pushed) for an instruction with this argument."""
        if jump and self.on_jump is not None:
            return self.on_jump
        popped = self.popped if isinstance(self.popped, int) else self.popped(argument)
        pushed = self.pushed if isinstance(self.pushed, int) else self.pushed(argument)
        return popped, pushed


_CLASS_BODY: Final = "class bodies and module code are not captured"
_ASYNC: Final = "coroutines are not captured"
_TEMPLATES: Final = "template strings are not captured"

_ROWS: Final = (
    # ---------------------------------------------------------------- constants and variables
    Operation("LOAD_CONST", "the object", 0, 1, lets_go=False),
    Operation("LOAD_FAST", "name", 0, 1, note="raises UnboundLocalError where unbound",
              lets_go=False),
    Operation("LOAD_FAST_AND_CLEAR", "name", 0, 1,
              note="pushes NULL where unbound; the local is unbound afterwards (comprehensions)"),
    Operation("STORE_FAST", "name", 1, 0, note="storing NULL unbinds (end of a comprehension)"),
    Operation("DELETE_FAST", "name", 0, 0),
    Operation("MAKE_CELL", "name", 0, 0, note="the local of that name becomes the cell's content",
              lets_go=False, can_follow_end=False),
    Operation("LOAD_CELL_AND_CLEAR", "name", 0, 1,
              note="pushes the cell itself, or NULL; its place is empty afterwards"),
    Operation("STORE_CELL", "name", 1, 0, note="puts a cell in place; NULL empties the place"),
    Operation("LOAD_CLOSURE", "name", 0, 1, note="pushes the cell itself", lets_go=False),
    Operation("LOAD_DEREF", "name", 0, 1, lets_go=False),
    Operation("STORE_DEREF", "name", 1, 0),
    Operation("DELETE_DEREF", "name", 0, 0),
    Operation("LOAD_GLOBAL", "name", 0, 1, lets_go=False),
    Operation("STORE_GLOBAL", "name", 1, 0),
    Operation("DELETE_GLOBAL", "name", 0, 0),
    Operation("LOAD_NAME", "name", 0, 1, uncaptured=_CLASS_BODY),
    Operation("STORE_NAME", "name", 1, 0, uncaptured=_CLASS_BODY),
    Operation("DELETE_NAME", "name", 0, 0, uncaptured=_CLASS_BODY),
    Operation("LOAD_CLASSDEREF", "name", 0, 1, uncaptured=_CLASS_BODY),
    Operation("LOAD_LOCALS", "", 0, 1, uncaptured=_CLASS_BODY),
    Operation("LOAD_FROM_DICT_OR_DEREF", "name", 1, 1, uncaptured=_CLASS_BODY),
    Operation("LOAD_FROM_DICT_OR_GLOBALS", "name", 1, 1, uncaptured=_CLASS_BODY),
    Operation("LOAD_COMMON_CONSTANT", "the object", 0, 1, note="AssertionError, all, any, ...",
              lets_go=False),
    Operation("LOAD_BUILD_CLASS", "", 0, 1, lets_go=False),
    Operation("SETUP_ANNOTATIONS", "", 0, 0, uncaptured=_CLASS_BODY),
    # -------------------------------------------------------------------------- stack shuffling
    Operation("PUSH_NULL", "", 0, 1, lets_go=False),
    Operation("POP_TOP", "", 1, 0),
    Operation("COPY", "depth, 1 = top", 0, 1, lets_go=False),
    Operation("SWAP", "depth, 2 = below top", 0, 0, lets_go=False),
    # -------------------------------------------------------------------------------- operators
    Operation("UNARY_NEGATIVE", "", 1, 1, awaiting=Use.PUSH),
    Operation("UNARY_POSITIVE", "", 1, 1, awaiting=Use.PUSH),
    Operation("UNARY_INVERT", "", 1, 1, awaiting=Use.PUSH),
    Operation("UNARY_NOT", "", 1, 1, awaiting=Use.OPERAND),
    Operation("TO_BOOL", "", 1, 1, note="3.13 only: bool(x) before a jump or `not`",
              awaiting=Use.OPERAND),
    Operation("BINARY_OP", "symbol, such as '+' or '+='", 2, 1, awaiting=Use.PUSH),
    Operation("COMPARE_OP", "symbol, such as '<'", 2, 1, awaiting=Use.PUSH),
    Operation("IS_OP", "True for `is not`", 2, 1),
    Operation("CONTAINS_OP", "True for `not in`", 2, 1),
    Operation("BINARY_SUBSCR", "", 2, 1, awaiting=Use.PUSH),
    Operation("STORE_SUBSCR", "", 3, 0, note="value, container, key", awaiting=Use.DROP),
    Operation("DELETE_SUBSCR", "", 2, 0, note="container, key", awaiting=Use.DROP),
    # ------------------------------------------------------------------------------- attributes
    Operation("LOAD_ATTR", "name", 1, 1, awaiting=Use.PUSH),
    Operation("LOAD_METHOD", "name", 1, 2,
              note="3.11, 3.12: pushes NULL, attribute; 3.13: attribute, NULL",
              awaiting=Use.PUSH_METHOD),
    Operation("STORE_ATTR", "name", 2, 0, note="value, object", awaiting=Use.DROP),
    Operation("DELETE_ATTR", "name", 1, 0, awaiting=Use.DROP),
    Operation("LOAD_SUPER_ATTR", "name", 3, 1, note="super, class, self", awaiting=Use.PUSH),
    Operation("LOAD_SUPER_METHOD", "name", 3, 2, note="as LOAD_METHOD on super(class, self)",
              awaiting=Use.PUSH_METHOD),
    Operation("LOAD_SPECIAL", "name", 1, 2,
              note="3.14 only: the method of the class and, where it is bound already, NULL"),
    # --------------------------------------------------------------------------------- building
    Operation("BUILD_TUPLE", "count", lambda a: a, 1),
    Operation("BUILD_LIST", "count", lambda a: a, 1),
    Operation("BUILD_SET", "count", lambda a: a, 1),
    Operation("BUILD_MAP", "count of pairs", lambda a: 2 * a, 1),
    Operation("BUILD_CONST_KEY_MAP", "count of values", lambda a: a + 1, 1,
              note="values, then the tuple of keys"),
    Operation("BUILD_STRING", "count", lambda a: a, 1),
    Operation("BUILD_SLICE", "2 or 3", lambda a: a, 1),
    Operation("LIST_APPEND", "depth of the list after popping", 1, 0),
    Operation("SET_ADD", "depth of the set after popping", 1, 0),
    Operation("MAP_ADD", "depth of the dict after popping", 2, 0, note="key, value"),
    Operation("LIST_EXTEND", "depth of the list after popping", 1, 0),
    Operation("SET_UPDATE", "depth of the set after popping", 1, 0),
    Operation("DICT_UPDATE", "depth of the dict after popping", 1, 0),
    Operation("DICT_MERGE", "depth of the dict after popping", 1, 0,
              note="**kwargs: a repeated key is a TypeError"),
    Operation("LIST_TO_TUPLE", "", 1, 1),
    Operation("UNPACK_SEQUENCE", "count", 1, lambda a: a, note="first item on top"),
    Operation("UNPACK_EX", "(count before, count after)", 1, lambda a: a[0] + 1 + a[1]),
    Operation("CONVERT_VALUE", "'str', 'repr' or 'ascii'", 1, 1, awaiting=Use.PUSH),
    Operation("FORMAT_VALUE", "True if a format spec is on top", lambda a: 2 if a else 1, 1,
              awaiting=Use.PUSH),
    Operation("BUILD_INTERPOLATION", "(conversion or None, True if a format spec is on top)",
              lambda a: 3 if a[1] else 2, 1, note="3.14 only: value, its text, spec",
              uncaptured=_TEMPLATES),
    Operation("BUILD_TEMPLATE", "", 2, 1, note="3.14 only: strings, interpolations",
              uncaptured=_TEMPLATES),
    # ------------------------------------------------------------------------ functions and calls
    Operation("CALL", "(argument count, keyword names)", lambda a: a[0] + 2, 1,
              note="below the arguments two slots a, b: a NULL: call b; b NULL: call a; else a(b)",
              awaiting=Use.PUSH),
    Operation("CALL_FUNCTION_EX", "True with a keyword dict", lambda a: 4 if a else 3, 1,
              note="two slots as for CALL, then the argument tuple, then the dict",
              awaiting=Use.PUSH),
    Operation("MAKE_FUNCTION", "", 1, 1, note="code", can_follow_end=False),
    Operation("SET_FUNCTION_ATTRIBUTE",
              "'defaults', 'keyword_defaults', 'annotations', 'annotate' or 'closure'", 2, 1,
              note="value, function; leaves the function", can_follow_end=False),
    Operation("CALL_INTRINSIC_1", "name as in opcode docs", 1, 1),
    Operation("CALL_INTRINSIC_2", "name as in opcode docs", 2, 1),
    Operation("RETURN_VALUE", "", 1, 0, falls_through=False),
    # -------------------------------------------------------------------------------------- jumps
    Operation("JUMP", "target", 0, 0, on_jump=(0, 0), falls_through=False, lets_go=False),
    Operation("POP_JUMP_IF_TRUE", "target", 1, 0, on_jump=(1, 0), awaiting=Use.OPERAND),
    Operation("POP_JUMP_IF_FALSE", "target", 1, 0, on_jump=(1, 0), awaiting=Use.OPERAND),
    Operation("POP_JUMP_IF_NONE", "target", 1, 0, on_jump=(1, 0)),
    Operation("POP_JUMP_IF_NOT_NONE", "target", 1, 0, on_jump=(1, 0)),
    Operation("JUMP_IF_TRUE_OR_POP", "target", 1, 0, on_jump=(0, 0)),
    Operation("JUMP_IF_FALSE_OR_POP", "target", 1, 0, on_jump=(0, 0)),
    Operation("GET_ITER", "", 1, 1, awaiting=Use.PUSH),
    Operation("FOR_ITER", "target when exhausted", 1, 2, on_jump=(1, 0),
              note="exhausted: the iterator is gone at the target", awaiting=Use.NEXT),
    # ----------------------------------------------------------------------------------- matching
    Operation("GET_LEN", "", 1, 2),
    Operation("MATCH_MAPPING", "", 1, 2),
    Operation("MATCH_SEQUENCE", "", 1, 2),
    Operation("MATCH_KEYS", "", 2, 3),
    Operation("MATCH_CLASS", "count of positional patterns", 3, 1),
    # -------------------------------------------------------------------- exceptions and contexts
    Operation("RAISE_VARARGS", "count", lambda a: a, 0, falls_through=False),
    Operation("RERAISE", "0, or depth of the saved position", 1, 0, falls_through=False),
    Operation("PUSH_EXC_INFO", "", 1, 2, note="exception -> previous exception, exception"),
    Operation("POP_EXCEPT", "", 1, 0),
    Operation("CHECK_EXC_MATCH", "", 2, 2),
    Operation("CHECK_EG_MATCH", "", 2, 2),
    Operation("BEFORE_WITH", "", 1, 2, note="context manager -> exit method, entered value",
              awaiting=Use.PUSH),
    Operation("WITH_EXCEPT_START", "True if the exit method has two slots, as for CALL",
              lambda a: 5 if a else 4, lambda a: 6 if a else 5, note="two slots: 3.14",
              awaiting=Use.PUSH),
    # ------------------------------------------------------------------------------------ imports
    Operation("IMPORT_NAME", "name", 2, 1, note="level, from-list"),
    Operation("IMPORT_FROM", "name", 1, 2),
    Operation("IMPORT_STAR", "", 1, 0, uncaptured=_CLASS_BODY),
    Operation("PRINT_EXPR", "", 1, 0, uncaptured=_CLASS_BODY),
    # --------------------------------------------------------------------- generators, coroutines
    Operation("RETURN_GENERATOR", "", 0, 1, note="pushes what the first `next` sends: None"),
    Operation("YIELD_VALUE", "", 1, 1, note="pushes what is sent"),
    Operation("SEND", "target when finished", 2, 2, on_jump=(2, 2),
              note="receiver, value -> receiver, yielded or returned value"),
    Operation("END_SEND", "", 2, 1, note="receiver, value -> value"),
    Operation("GET_YIELD_FROM_ITER", "", 1, 1),
    Operation("CLEANUP_THROW", "", 3, 2),
    Operation("GET_AWAITABLE", "0, 1 or 2", 1, 1, uncaptured=_ASYNC),
    Operation("GET_AITER", "", 1, 1, uncaptured=_ASYNC),
    Operation("GET_ANEXT", "", 1, 2, uncaptured=_ASYNC),
    Operation("END_ASYNC_FOR", "", 2, 0, uncaptured=_ASYNC),
    Operation("BEFORE_ASYNC_WITH", "", 1, 2, uncaptured=_ASYNC),
    Operation("ASYNC_GEN_WRAP", "", 1, 1, uncaptured=_ASYNC),
)  # fmt: skip

#: The instruction set by name.
OPERATIONS: Final[dict[str, Operation]] = {row.name: row for row in _ROWS}

#: Operations that may continue at another instruction; their argument is its index.
JUMPS: Final = frozenset(row.name for row in _ROWS if row.on_jump is not None)

#: Opcodes of the supported versions that leave no canonical instruction, and why.
DROPPED: Final[dict[str, str]] = {
    "CACHE": "space for the interpreter's inline caches",
    "EXTENDED_ARG": "high bits of the next argument",
    "NOP": "does nothing",
    "RESUME": "a place for signals and tracing",
    "COPY_FREE_VARS": "frame setup: free variables are cells of the function",
    "PRECALL": "3.11: first half of CALL",
    "KW_NAMES": "3.11, 3.12: keyword names of the CALL that follows",
    "END_FOR": "never executed by FOR_ITER, which jumps behind it",
    "NOT_TAKEN": "3.14: a place for tracing, behind conditional jumps",
}
