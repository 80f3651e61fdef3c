"""A unit has the helpers it names, and what these need: no more, and nothing is missing."""

import shutil
import subprocess
from pathlib import Path

import pytest

from dynajit.codegen.c import prelude as c_prelude
from dynajit.codegen.compilers import toolchain

pytestmark = pytest.mark.c_only

COMPILER = shutil.which("gcc") or shutil.which("clang")


def defined(text: str) -> set[str]:
    """The names that the pieces in a prelude define."""
    return {name for piece in c_prelude.split(text) for name in piece.defines}


def test_a_text_that_names_nothing_gets_nothing() -> None:
    assert c_prelude.prelude("y[i] = x[i] + 1.0f;") == ""


def test_a_helper_comes_with_what_it_calls_in_the_order_of_the_headers() -> None:
    text = c_prelude.prelude("y = dj_cos_near_f32(x);")
    needed = ["dj_bits_of_float(", "dj_angle_reduced(", "dj_sin_reduced(", "\ndj_cos_near_f32("]
    places = [text.index(name) for name in needed]

    assert places == sorted(places)
    assert "dj_exp" not in text
    assert "dj_gemm" not in text


def test_a_loop_of_many_functions_of_elements_calls_none_of_them(tmp_path: Path) -> None:
    """GCC leaves functions out of a loop that calls some thirteen, which then has no vectors."""
    chain = "x"
    for _ in range(32):
        chain = f"dj_cos_near_f64({chain})"
    loop = f"for (int i = 0; i < n; i++) {{ double x = a[i]; a[i] = {chain}; }}"
    function = f"void f(double *a, int n) {{ {loop} }}"
    source, assembly = tmp_path / "unit.c", tmp_path / "unit.s"
    source.write_text(c_prelude.prelude(function) + "\n" + function)
    compiler = toolchain.find_compiler()
    assert compiler is not None
    command = [compiler.path, *toolchain.flags(compiler), "-S", "-o", str(assembly), str(source)]
    subprocess.run([flag for flag in command if flag != "-shared"], check=True)

    assert "dj_cos_near_f64" not in assembly.read_text()


def test_names_that_macros_paste_are_found() -> None:
    text = c_prelude.prelude("dj_gemm_f64(r, a, 1, 1, b, 1, 1, c, 1, 1, 1, 1);")
    integers = c_prelude.prelude("dj_product_i32(a, 1, 1, b, 1, 1, c, 1, 1, 1, 1);")

    assert "DJ_GEMM(double, f64)" in text
    assert "} dj_runtime;" in text
    assert "float, f32" not in text
    assert "DJ_PRODUCT(int32_t, i32, +, *)" in integers
    assert "dj_min_index(" in integers


def test_what_the_c_library_has_is_declared_where_it_is_named() -> None:
    assert c_prelude.prelude("y = sqrtf(x);") == "float sqrtf(float);"
    assert "double copysign(double, double);" in c_prelude.prelude("y = dj_tanh_f64(x);")
    assert "sqrt" not in c_prelude.prelude("y = dj_floordiv(x, 2);")
    assert c_prelude.prelude("int64_t *p = malloc(8);").splitlines() == [
        "typedef __INT64_TYPE__ int64_t;", "void *malloc(__SIZE_TYPE__);",
    ]  # fmt: skip


@pytest.mark.skipif(COMPILER is None, reason="needs gcc or clang")
def test_declarations_agree_with_the_headers_of_the_c_library(tmp_path: Path) -> None:
    assert COMPILER is not None
    declared = [text for text in c_prelude.STANDARD.values() if not text.startswith("#")]
    limits = {name: text.split(maxsplit=2)[2] for name, text in c_prelude.STANDARD.items()
              if name.endswith(("_MIN", "_MAX"))}  # fmt: skip
    same = [f'_Static_assert({name} == {value}, "");' for name, value in limits.items()]
    headers = [f"#include <{name}.h>" for name in ("math", "stdint", "stdlib", "string")]
    unit = tmp_path / "unit.c"
    unit.write_text("\n".join([*headers, *declared, *same]) + "\n")
    command = [COMPILER, "-std=gnu11", "-Werror", "-fsyntax-only", str(unit)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stderr
    assert len(limits) == 12


def test_conditions_stay_with_what_they_enclose() -> None:
    text = c_prelude.prelude("return DJ_FMA(a, b, c);")

    assert text.count("#if ") == text.count("#endif") == 1
    assert defined(text) == {"DJ_FMA", "DJ_FMA_F64"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("typedef uint16_t dj_half;", {"dj_half"}),
        ("typedef union {\n    int64_t i;\n} dj_scalar;", {"dj_scalar"}),
        ("typedef void (*dj_f)(char *, int *);", {"dj_f"}),
        ("enum { ONE = 1, TWO = (2), THREE };", {"ONE", "TWO", "THREE"}),
        ("static inline float\nf(float x)\n{\n    return g(x) + (x);\n}", {"f"}),
        ("static __attribute__((a, b)) void f(int (*g)(int)) { if (1) { h(); } }", {"f"}),
        ("int f(void); int g(void);", {"f", "g"}),
        ("#define F(a) \\\n    T a##_one(void) { return 0; } \\\n    T a##_two(void);\nF(x)",
         {"F", "x_one", "x_two"}),
    ],
)  # fmt: skip
def test_names_that_a_text_defines_are_known(text: str, names: set[str]) -> None:
    assert defined(text) == names


def test_comments_stay_with_the_piece_below_them() -> None:
    pieces = list(c_prelude.split("/* file */\n\n/* of f */\nint f(void);\n\n/* rest */\n"))

    assert [piece.text for piece in pieces] == ["/* of f */\nint f(void);"]


def test_blocks_of_a_header_have_the_pieces_of_the_whole() -> None:
    for header in c_prelude.HEADERS:
        starts = c_prelude._starts(header)
        pieces = [piece for start in starts for piece in c_prelude._pieces(header, start)]

        assert pieces == list(c_prelude.split(c_prelude.read(header)))
        assert len(starts) > 1


def test_lines_of_helpers_are_known() -> None:
    assert c_prelude.lines_of("dj_bits_of_float") == 6
    assert c_prelude.lines_of("dj_missing") == c_prelude.lines_of("row") == 0


def test_no_name_is_defined_twice_and_all_begin_alike() -> None:
    names = [
        name
        for header in c_prelude.HEADERS
        for name in c_prelude.defined_in((header,))
    ]  # fmt: skip

    assert len(names) == len(set(names)) > 200
    assert {name[:3].lower() for name in names} == {c_prelude.PREFIX}


@pytest.mark.one_python
@pytest.mark.skipif(COMPILER is None, reason="needs gcc or clang")
def test_every_helper_compiles_with_nothing_but_its_prelude(tmp_path: Path) -> None:
    assert COMPILER is not None
    flags = [flag for flag in toolchain.FLAGS if flag.startswith(("-std", "-W"))]
    seen: set[str] = set()
    for name in sorted(c_prelude.defined_in(c_prelude.HEADERS)):
        prelude = c_prelude.prelude(name)
        if prelude in seen:
            continue
        seen.add(prelude)
        unit = tmp_path / "unit.c"
        unit.write_text(f"{prelude}\n")
        command = [COMPILER, *flags, "-fsyntax-only", str(unit)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"{name}: {result.stderr}"
    assert len(seen) > 150


def test_a_missing_helper_is_an_error_of_the_compiler() -> None:
    if COMPILER is None:
        pytest.skip("needs gcc or clang")
    with pytest.raises(toolchain.ToolchainError, match="dj_missing"):
        toolchain.build("int run(void) { return dj_missing(1); }")
