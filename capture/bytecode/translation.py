"""One bytecode instruction of any supported Python as canonical operations.

The only reader that knows opcodes of particular versions; calls, which take several bytecode
instructions, are put together in `capture.bytecode.instructions`, the only caller.
"""

import dis
from collections.abc import Callable
from types import CodeType
from typing import Any, Final, TypeAlias

from bytecode.instr import BinaryOp, Intrinsic1Op, Intrinsic2Op

from dynajit.capture.bytecode.instruction_set import JUMPS, OPERATIONS
from dynajit.capture.bytecode.versions import IS_311, IS_313, IS_314
from dynajit.core.errors import InternalError

Pairs: TypeAlias = tuple[tuple[str, Any], ...]
Translate: TypeAlias = Callable[[Any, CodeType], Pairs]

_COMPARISON_BOOL: Final = 16  # 3.13: this bit of COMPARE_OP asks for an exact bool
_CONVERSIONS: Final = {1: "str", 2: "repr", 3: "ascii"}
_FUNCTION_ATTRIBUTES: Final = {
    1: "defaults", 2: "keyword_defaults", 4: "annotations", 8: "closure", 16: "annotate",
}  # fmt: skip
_COMMON_CONSTANTS: Final = (AssertionError, NotImplementedError, tuple, all, any)
#: What LOAD_SPECIAL loads, by argument.
SPECIAL_METHODS: Final = ("__enter__", "__exit__", "__aenter__", "__aexit__")
#: Instructions on slots of locals: (operation on a plain local, on the place of a cell).
_LOCALS: Final = {
    "LOAD_FAST": ("LOAD_FAST", "LOAD_CLOSURE"),
    "LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_CLOSURE"),
    "LOAD_FAST_CHECK": ("LOAD_FAST", "LOAD_CLOSURE"),
    "LOAD_FAST_AND_CLEAR": ("LOAD_FAST_AND_CLEAR", "LOAD_CELL_AND_CLEAR"),
    "STORE_FAST": ("STORE_FAST", "STORE_CELL"),
}
_BINARY_SYMBOLS: Final = {
    "ADD": "+", "AND": "&", "FLOOR_DIVIDE": "//", "LSHIFT": "<<", "MATRIX_MULTIPLY": "@",
    "MULTIPLY": "*", "REMAINDER": "%", "OR": "|", "POWER": "**", "RSHIFT": ">>",
    "SUBTRACT": "-", "TRUE_DIVIDE": "/", "XOR": "^",
}  # fmt: skip
_INTRINSICS: Final = {
    "ASYNC_GEN_WRAP": "ASYNC_GEN_WRAP",
    "UNARY_POSITIVE": "UNARY_POSITIVE",
    "LIST_TO_TUPLE": "LIST_TO_TUPLE",
}
#: Bytecode instructions without an argument, or whose argument `dis` already gives as wanted.
_SAME_WITHOUT_ARGUMENT: Final = frozenset(
    row.name for row in OPERATIONS.values() if not row.argument
)
_SAME_WITH_NUMBER: Final = frozenset(
    {"COPY", "SWAP", "BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_MAP", "BUILD_CONST_KEY_MAP",
     "BUILD_STRING", "BUILD_SLICE", "LIST_APPEND", "SET_ADD", "MAP_ADD", "LIST_EXTEND",
     "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE", "UNPACK_SEQUENCE", "MATCH_CLASS",
     "RAISE_VARARGS", "RERAISE", "GET_AWAITABLE"}
)  # fmt: skip
_SAME_WITH_VALUE: Final = frozenset(
    {"LOAD_CONST", "DELETE_FAST", "MAKE_CELL", "LOAD_CLOSURE", "LOAD_DEREF", "STORE_DEREF",
     "DELETE_DEREF", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "STORE_NAME", "DELETE_NAME",
     "LOAD_CLASSDEREF",
     "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS", "STORE_ATTR", "DELETE_ATTR",
     "IMPORT_NAME", "IMPORT_FROM"}
)  # fmt: skip


def _binary_symbol(argument: int) -> str:
    name = BinaryOp(argument).name
    if name.startswith("INPLACE_"):
        return _BINARY_SYMBOLS[name.removeprefix("INPLACE_")] + "="
    return _BINARY_SYMBOLS[name]


def canonical(item: dis.Instruction, code: CodeType) -> Pairs:
    """(operation, argument) pairs for one bytecode instruction, calls excepted.

    The argument of a jump is the byte offset of its target.

    Raises:
        InternalError: an opcode this Python should not have.
    """
    name = item.opname
    if name in _TRANSLATIONS:
        return _TRANSLATIONS[name](item, code)
    if name in _SAME_WITHOUT_ARGUMENT:
        return ((name, None),)
    if name in _SAME_WITH_NUMBER:
        return ((name, item.arg),)
    if name in _LOCALS:
        return (_local(name, item.arg or 0, item.argval, code),)
    if name in _SAME_WITH_VALUE:
        return ((name, item.argval),)
    if item.opcode in dis.hasjrel or item.opcode in dis.hasjabs:
        return ((_jump_name(name), item.argval),)
    raise InternalError(f"decode({code.co_qualname}): unknown bytecode operation {name}.")


def _local(operation: str, slot: int, name: str, code: CodeType) -> tuple[str, str]:
    """An instruction on a slot, which is a plain local's or holds the cell of a captured one.

    From 3.12 on a plain local of a comprehension may have the name of a free variable.
    """
    names = code.co_varnames
    is_cell = slot >= len(names) or names[slot] in code.co_cellvars
    return (_LOCALS[operation][is_cell], name)


def _jump_name(name: str) -> str:
    short = name.replace("_FORWARD", "").replace("_BACKWARD", "").replace("_NO_INTERRUPT", "")
    return short if short in JUMPS else name


def _load_global(item: dis.Instruction, code: CodeType) -> Pairs:
    argument = item.arg or 0
    load = ("LOAD_GLOBAL", code.co_names[argument >> 1])
    if not argument & 1:
        return (load,)
    return (load, ("PUSH_NULL", None)) if IS_313 else (("PUSH_NULL", None), load)


def _load_attr(item: dis.Instruction, code: CodeType) -> Pairs:
    argument = item.arg or 0
    if IS_311:
        return (("LOAD_ATTR", code.co_names[argument]),)
    return (("LOAD_METHOD" if argument & 1 else "LOAD_ATTR", code.co_names[argument >> 1]),)


def _load_super_attr(item: dis.Instruction, code: CodeType) -> Pairs:
    argument = item.arg or 0
    name = code.co_names[argument >> 2]
    return (("LOAD_SUPER_METHOD" if argument & 1 else "LOAD_SUPER_ATTR", name),)


def _format_value(item: dis.Instruction, _: CodeType) -> Pairs:
    argument = item.arg or 0
    conversion = _CONVERSIONS.get(argument & 3)
    with_spec = bool(argument & 4)
    if conversion is None:
        return (("FORMAT_VALUE", with_spec),)
    if not with_spec:
        return (("CONVERT_VALUE", conversion), ("FORMAT_VALUE", False))
    return (("SWAP", 2), ("CONVERT_VALUE", conversion), ("SWAP", 2), ("FORMAT_VALUE", True))


def _build_interpolation(item: dis.Instruction, _: CodeType) -> Pairs:
    argument = item.arg or 0
    return (("BUILD_INTERPOLATION", (_CONVERSIONS.get(argument >> 2), bool(argument & 1))),)


def _make_function(item: dis.Instruction, _: CodeType) -> Pairs:
    flags = 0 if IS_313 else item.arg or 0
    attributes = [
        ("SET_FUNCTION_ATTRIBUTE", _FUNCTION_ATTRIBUTES[flag])
        for flag in (8, 4, 2, 1)
        if flags & flag
    ]
    return (("MAKE_FUNCTION", None), *attributes)


def _compare(item: dis.Instruction, _: CodeType) -> Pairs:
    compare = ("COMPARE_OP", item.argval)
    if IS_313 and (item.arg or 0) & _COMPARISON_BOOL:
        return (compare, ("TO_BOOL", None))
    return (compare,)


def _intrinsic_1(item: dis.Instruction, _: CodeType) -> Pairs:
    name = Intrinsic1Op(item.arg or 0).name.removeprefix("INTRINSIC_")
    if name in _INTRINSICS:
        return ((_INTRINSICS[name], None),)
    return (("CALL_INTRINSIC_1", name),)


def _intrinsic_2(item: dis.Instruction, _: CodeType) -> Pairs:
    return (("CALL_INTRINSIC_2", Intrinsic2Op(item.arg or 0).name.removeprefix("INTRINSIC_")),)


def _pair(first: str, second: str) -> Translate:
    def translate(item: dis.Instruction, code: CodeType) -> Pairs:
        slots = item.arg or 0
        names = item.argval
        return (
            _local(first, slots >> 4, names[0], code), _local(second, slots & 15, names[1], code)
        )  # fmt: skip

    return translate


def _fixed(*rows: tuple[str, Any]) -> Translate:
    return lambda item, code: rows


def _binary_op(item: dis.Instruction, _: CodeType) -> Pairs:
    argument = item.arg or 0
    if BinaryOp(argument).name == "SUBSCR":
        return (("BINARY_SUBSCR", None),)
    return (("BINARY_OP", _binary_symbol(argument)),)


_TRANSLATIONS: Final[dict[str, Translate]] = {
    "LOAD_GLOBAL": _load_global,
    "LOAD_ATTR": _load_attr,
    "LOAD_METHOD": lambda item, code: (("LOAD_METHOD", code.co_names[item.arg]),),
    "LOAD_SUPER_ATTR": _load_super_attr,
    "LOAD_SMALL_INT": lambda item, code: (("LOAD_CONST", item.arg or 0),),
    "LOAD_ASSERTION_ERROR": _fixed(("LOAD_COMMON_CONSTANT", AssertionError)),
    "LOAD_COMMON_CONSTANT": lambda item, code: (
        ("LOAD_COMMON_CONSTANT", _COMMON_CONSTANTS[item.arg]),
    ),
    "LOAD_SPECIAL": lambda item, code: (("LOAD_SPECIAL", SPECIAL_METHODS[item.arg]),),
    "LOAD_FAST_LOAD_FAST": _pair("LOAD_FAST", "LOAD_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": _pair("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": _pair("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": _pair("STORE_FAST", "STORE_FAST"),
    "BINARY_OP": _binary_op,
    "COMPARE_OP": _compare,
    "IS_OP": lambda item, code: (("IS_OP", bool(item.arg)),),
    "CONTAINS_OP": lambda item, code: (("CONTAINS_OP", bool(item.arg)),),
    "BINARY_SLICE": _fixed(("BUILD_SLICE", 2), ("BINARY_SUBSCR", None)),
    "STORE_SLICE": _fixed(("BUILD_SLICE", 2), ("STORE_SUBSCR", None)),
    "UNPACK_EX": lambda item, code: (("UNPACK_EX", (item.arg & 0xFF, item.arg >> 8)),),
    "FORMAT_VALUE": _format_value,
    "CONVERT_VALUE": lambda item, code: (("CONVERT_VALUE", _CONVERSIONS[item.arg]),),
    "FORMAT_SIMPLE": _fixed(("FORMAT_VALUE", False)),
    "FORMAT_WITH_SPEC": _fixed(("FORMAT_VALUE", True)),
    "BUILD_INTERPOLATION": _build_interpolation,
    "RETURN_CONST": lambda item, code: (("LOAD_CONST", item.argval), ("RETURN_VALUE", None)),
    "CALL_FUNCTION_EX": lambda item, code: (("CALL_FUNCTION_EX", IS_314 or bool(item.arg & 1)),),
    "MAKE_FUNCTION": _make_function,
    "SET_FUNCTION_ATTRIBUTE": lambda item, code: (
        ("SET_FUNCTION_ATTRIBUTE", _FUNCTION_ATTRIBUTES[item.arg]),
    ),
    "CALL_INTRINSIC_1": _intrinsic_1,
    "CALL_INTRINSIC_2": _intrinsic_2,
    "WITH_EXCEPT_START": _fixed(("WITH_EXCEPT_START", IS_314)),
    "POP_ITER": _fixed(("POP_TOP", None)),
    "PREP_RERAISE_STAR": _fixed(("CALL_INTRINSIC_2", "PREP_RERAISE_STAR")),
}
