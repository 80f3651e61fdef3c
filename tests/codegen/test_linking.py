"""Shared objects made by the linker alone: the same results, and no guesses at what is needed."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dynajit.codegen import linking

GCC = shutil.which("gcc")
pytestmark = [
    pytest.mark.c_only,
    pytest.mark.skipif(GCC is None, reason="needs gcc"),
    pytest.mark.skipif(linking._linker() is None, reason="needs GNU's linker and C library"),
]


def link(objects: list[Path], target: Path) -> bool:
    return linking.link(objects, target, 60.0, os.environ)


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


@pytest.fixture
def objects(tmp_path: Path):
    """Compiles texts to object files."""

    def compiled(*texts: str) -> list[Path]:
        files = []
        for number, text in enumerate(texts):
            source, file = tmp_path / f"{number}.c", tmp_path / f"{number}.o"
            source.write_text(text)
            command = [str(GCC), "-O1", "-fPIC", "-fopenmp", "-c", "-o", str(file), str(source)]
            subprocess.run(command, check=True)
            files.append(file)
        return files

    return compiled


@pytest.mark.parametrize(
    "texts", [[SEVEN, TIMES], [ROOT], [TEAM], [COPY]], ids=["two", "libm", "libgomp", "libc"]
)
def test_what_is_linked_computes(objects, tmp_path, texts) -> None:
    target = tmp_path / "linked.so"

    assert link(objects(*texts), target)
    assert ctypes.CDLL(str(target)).run() == 42


def test_only_the_libraries_that_are_needed_are_named(objects, tmp_path) -> None:
    needed = {}
    for name, text in (("none", SEVEN), ("libm", ROOT), ("libgomp", TEAM)):
        target = tmp_path / f"{name}.so"
        link(objects(text), target)
        shown = subprocess.run(["readelf", "-d", target], capture_output=True, text=True)
        needed[name] = [line.split("[")[1].rstrip("]")
                        for line in shown.stdout.splitlines() if "(NEEDED)" in line]  # fmt: skip

    assert needed == {"none": [], "libm": ["libm.so.6"], "libgomp": ["libgomp.so.1"]}


@pytest.mark.parametrize(
    "text",
    ["int elsewhere(void); int run(void) { return elsewhere(); }",
     "__int128 run(__int128 a, __int128 b) { return a / b; }"],
    ids=["unknown", "libgcc"],
)  # fmt: skip
def test_names_of_other_libraries_are_left_to_the_driver(objects, tmp_path, text) -> None:
    target = tmp_path / "linked.so"

    assert not link(objects(text), target)
    assert not target.exists()


def test_two_definitions_of_a_name_are_left_to_the_driver(objects, tmp_path) -> None:
    """It has the words for what is wrong."""
    assert not link(objects(SEVEN, SEVEN), tmp_path / "linked.so")


def test_nothing_is_linked_without_a_linker(objects, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(linking, "_linker", lambda: None)

    assert not link(objects(SEVEN), tmp_path / "linked.so")


def test_names_are_read_as_binutils_reads_them(objects) -> None:
    for text in (SEVEN, TIMES, ROOT, TEAM, COPY):
        (file,) = objects(text)
        shown = subprocess.run(["nm", "-u", file], capture_output=True, text=True, check=True)
        expected = {line.split()[-1] for line in shown.stdout.splitlines()}

        assert linking._undefined([file.read_bytes()]) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="the linker of Linux")
def test_libraries_are_those_of_this_process() -> None:
    loaded = Path("/proc/self/maps").read_text()
    linking.prepare()

    assert str(Path(linking._file_of("libm.so.6") or "none").resolve()) in loaded
    assert linking._file_of("libnothing.so.9") is None
