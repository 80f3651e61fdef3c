"""Which of CPython's own test files run under capture, and which of them in every test run.

The files come from the interpreter's installed `test` package. Read by `run.py` and
`test_cpython_files.py`.
"""

import importlib.util
from typing import Final

#: In learning order: syntax, functions, control flow, exceptions, classes, built-in types, library.
FILES: Final = (
    "test_grammar", "test_scope", "test_global", "test_named_expressions", "test_augassign",
    "test_binop", "test_compare", "test_bool", "test_unpack", "test_unpack_ex", "test_extcall",
    "test_call", "test_keywordonlyarg", "test_positional_only_arg", "test_funcattrs",
    "test_decorators", "test_syntax", "test_opcodes", "test_string_literals", "test_fstring",
    "test_type_params", "test_contains", "test_pow", "test_listcomps", "test_setcomps",
    "test_dictcomps", "test_genexps", "test_generators", "test_generator_stop", "test_yield_from",
    "test_iter", "test_enumerate", "test_patma", "test_with", "test_contextlib",
    "test_exceptions", "test_raise", "test_baseexception", "test_exception_group",
    "test_except_star", "test_exception_hierarchy", "test_exception_variations", "test_class",
    "test_descr", "test_descrtut", "test_dynamicclassattribute", "test_super", "test_property",
    "test_isinstance", "test_metaclass", "test_subclassinit", "test_genericclass", "test_abc",
    "test_types", "test_typechecks", "test_richcmp", "test_hash", "test_builtin", "test_int",
    "test_int_literal", "test_long", "test_float", "test_complex", "test_numeric_tower",
    "test_list", "test_tuple", "test_dict", "test_dictviews", "test_set", "test_bytes",
    "test_str", "test_unicode", "test_string", "test_userstring", "test_slice", "test_range",
    "test_index", "test_format", "test_sort", "test_structseq", "test_enum", "test_dataclasses",
    "test_copy", "test_copyreg", "test_itertools", "test_functools", "test_operator",
    "test_math", "test_cmath", "test_collections", "test_deque", "test_defaultdict",
    "test_ordered_dict", "test_userdict", "test_userlist", "test_heapq", "test_bisect",
    "test_weakref", "test_weakset", "test_textwrap", "test_reprlib", "test_pprint",
    "test_graphlib", "test_typing", "test_print", "test_keyword",
)  # fmt: skip

#: What continuous integration runs on every version: a few seconds each, every family of syntax.
FAST: Final = (
    "test_scope", "test_augassign", "test_compare", "test_keywordonlyarg", "test_decorators",
    "test_dictcomps", "test_exception_variations", "test_property",
)  # fmt: skip

#: Tests whose outcome is chance: they depend on time, on addresses or on the machine.
LEFT_OUT: Final[frozenset[str]] = frozenset()


def available(names: tuple[str, ...] = FILES) -> list[str]:
    """Those of `names` that this interpreter has, each once."""
    return [
        name
        for name in dict.fromkeys(names)
        if importlib.util.find_spec(f"test.{name}") is not None
    ]
