"""Object files that this process loads by itself: they compute, or are refused before they run."""

import ctypes
import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dynajit.codegen._runtime import LOADS_OBJECTS, Library
from dynajit.codegen.compilers import openmp

GCC = shutil.which("gcc")
pytestmark = [
    pytest.mark.c_only,
    pytest.mark.skipif(GCC is None, reason="needs gcc"),
    pytest.mark.skipif(not LOADS_OBJECTS, reason="object files of this machine are not read"),
]

SEVEN = "int seven(void) { return 7; }"
TIMES = "int seven(void); int run(void) { return 6 * seven(); }"
ROOT = """\
double cbrt(double);
int run(void) {
    volatile double x = 74088.5;
    return (int)cbrt(x);
}"""
TEAM = """\
int omp_get_num_threads(void);
int run(void) {
    int members = 0;
    #pragma omp parallel num_threads(2)
    {
        #pragma omp single
        members = omp_get_num_threads() * 21;
    }
    return members;
}"""
COPY = """\
void *memcpy(void *, const void *, unsigned long);
int run(void) {
    volatile long size = 4;
    int from = 42, to = 0;
    memcpy(&to, &from, (unsigned long)size);
    return to;
}"""
ADDRESSES = """\
void *memchr(const void *, int, unsigned long);
static int six = 6, numbers[1000];
int seven = 7;
static int *const places[] = {&six, &seven, numbers + 999};
static void *(*volatile search)(const void *, int, unsigned long) = memchr;
int run(void) {
    static const char text[] __attribute__((aligned(64))) = "0123456789";
    const char *found = search(text, '7', sizeof text);
    *places[2] = (int)(found - text);
    return (unsigned long)text % 64 ? 0 : *places[0] * numbers[999];
}"""
VARIABLE = """\
extern char **environ;
int run(void) { return environ && environ[0] ? 42 : 0; }"""
CHOICE = """\
int run(void) {
    volatile int chosen = 5;
    switch (chosen) {
    case 0: return 3; case 1: return 77; case 2: return 4; case 3: return 9; case 4: return 1;
    case 5: return 42; case 6: return 8; case 7: return 12; case 8: return 6; default: return 0;
    }
}"""


@pytest.fixture
def objects(tmp_path: Path):
    """Compiles texts to object files."""

    def compiled(*texts: str, flags: str = "-O2 -fPIC") -> tuple[bytes, ...]:
        files = []
        for number, text in enumerate(texts):
            source, file = tmp_path / f"{number}.c", tmp_path / f"{number}.o"
            source.write_text(text)
            command = [str(GCC), *flags.split(), "-fopenmp", "-c", "-o", str(file), str(source)]
            subprocess.run(command, check=True, capture_output=True)
            files.append(file.read_bytes())
        return tuple(files)

    openmp.load()
    return compiled


def run(library: Library) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int)(library.address("run"))()


@pytest.mark.parametrize("flags", ["-O0 -fPIC", "-O2 -fPIC", "-O2 -fPIC -fno-plt"])
@pytest.mark.parametrize(
    "texts",
    [[SEVEN, TIMES], [TIMES, SEVEN], [ROOT], [TEAM], [COPY], [ADDRESSES], [VARIABLE], [CHOICE]],
    ids=["behind", "before", "libm", "libgomp", "libc", "addresses", "variable", "choice"],
)
def test_what_is_loaded_computes(objects, texts, flags) -> None:
    assert run(Library(objects(*texts, flags=flags))) == 42


def test_functions_outlive_the_files_they_were_in(objects) -> None:
    contents = objects(TIMES, SEVEN)
    library = Library(contents)
    del contents
    gc.collect()

    assert run(library) == 42
    assert ctypes.CFUNCTYPE(ctypes.c_int)(library.address("seven"))() == 7
    with pytest.raises(OSError, match="no function eight"):
        library.address("eight")


def test_variables_are_those_of_one_library(objects) -> None:
    contents = objects("static int count; int run(void) { return ++count; }")
    first, second = Library(contents), Library(contents)

    assert [run(first), run(first), run(second)] == [1, 2, 1]


def protection_at(address: int) -> str | None:
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, protection = line.split()[:2]
        begin, end = (int(each, 16) for each in span.split("-"))
        if begin <= address < end:
            return protection
    return None


WHERE = """\
static int variable;
static const int constant[] = {1, 2, 3};
void *variable_at(void) { return &variable; }
const void *constant_at(void) { return constant; }"""


def test_nothing_can_be_written_that_runs_and_nothing_is_left(objects) -> None:
    library = Library(objects(WHERE))
    places = [library.address("variable_at")]
    for name in ("constant_at", "variable_at"):
        places.append(ctypes.CFUNCTYPE(ctypes.c_void_p)(library.address(name))())

    assert [protection_at(place) for place in places] == ["r-xp", "r--p", "rw-p"]
    del library
    assert [protection_at(place) for place in places] == [None] * 3


@pytest.mark.parametrize(
    ("texts", "flags", "reason"),
    [
        (["int away(void); int run(void) { return away(); }"], "", "in this process.*: away"),
        (["__thread int own; int run(void) { return own; }"], "", "unknown kind of (section|name)"),
        ([SEVEN, SEVEN], "", "two definitions: seven"),
        (["static int x; int run(void) { return x; } __attribute__((constructor))"
          " static void begin(void) { x = 1; }"], "", r"kind of section: \.init_array"),
        (["static void *chosen(void) { return 0; }"
          " int run(void) __attribute__((ifunc(\"chosen\")));"], "", "unknown kind of name: run"),
        (["static int x[9]; int run(int at) { return x[at]++; }"], "-fno-pic", "kind of reference"),
        (["int run; int at[1 << 29];"], "", r"unknown size: \.bss"),
        (["int x; int run(void) { return x; }"], "-fcommon -O0", "unknown kind of name: x"),
    ],
    ids=["unknown", "thread", "twice", "constructor", "resolver", "absolute", "large", "common"],
)  # fmt: skip
def test_what_is_not_known_is_refused_with_a_reason(objects, texts, flags, reason) -> None:
    with pytest.raises(OSError, match=f"^an object file cannot be loaded: .*({reason})"):
        Library(objects(*texts, flags=f"-O2 -fPIC {flags}"))


def test_what_is_no_object_file_of_this_machine_is_refused(objects, tmp_path) -> None:
    (content,) = objects(SEVEN)
    shared = tmp_path / "seven.so"
    subprocess.run([str(GCC), "-shared", "-o", shared, tmp_path / "0.o"], check=True)
    other = bytearray(content)
    other[18] = 183  # of ARM

    for given in (b"", b"no object", bytes(other), shared.read_bytes(), content[:-1]):
        with pytest.raises(OSError, match=r"cannot be loaded: (it is no object|its sections are)"):
            Library((given,))
    with pytest.raises(TypeError, match="Expected bytes"):
        Library(("text",))  # type: ignore[arg-type]


FUZZ = """
import random, sys
from pathlib import Path
from dynajit.codegen.compilers import openmp
from dynajit.codegen._runtime import Library

openmp.load()
draw = random.Random(int(sys.argv[1]))
loaded = refused = 0
for path in sys.argv[2:]:
    content = Path(path).read_bytes()
    for _ in range(1500):
        changed = bytearray(content)
        for _ in range(draw.choice((1, 1, 2, 8))):
            at = draw.randrange(len(content)) if draw.random() < 0.7 else draw.randrange(64)
            changed[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
        if draw.random() < 0.1:
            del changed[draw.randrange(len(changed)):]
        try:
            Library((bytes(changed),))
            loaded += 1
        except OSError:
            refused += 1
print(loaded > 100, refused > 100)
"""


@pytest.mark.parametrize("seed", range(3))
def test_damaged_files_are_refused_or_loaded_but_never_break_the_process(
    objects, tmp_path, seed
) -> None:
    texts = (ADDRESSES, TEAM, CHOICE, WHERE)
    objects(*texts)
    files = [str(tmp_path / f"{number}.o") for number in range(len(texts))]
    command = [sys.executable, "-c", FUZZ, str(seed), *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)

    assert (done.returncode, done.stdout, done.stderr) == (0, "True True\n", "")


def test_a_library_may_be_a_shared_object(objects, tmp_path) -> None:
    objects(TIMES, SEVEN)
    shared = tmp_path / "both.so"
    subprocess.run([str(GCC), "-shared", "-o", shared, *tmp_path.glob("*.o")], check=True)

    for path in (shared, str(shared)):
        assert run(Library(path)) == 42
    with pytest.raises(OSError, match=r"missing\.so"):
        Library(tmp_path / "missing.so")
    with pytest.raises(TypeError):
        Library(3)  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_runs_what_its_parent_loaded(objects) -> None:
    library = Library(objects(TIMES, SEVEN))
    child = os.fork()
    if child == 0:
        os._exit(run(library))

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
