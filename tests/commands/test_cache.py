"""`cache list|size|clear`: what a cache holds, and nothing else."""

import os
import time
from pathlib import Path

import pytest

import dynajit as dj
from dynajit.codegen.compilers import cache_contents, toolchain
from dynajit.commands import cache, command_line


@pytest.fixture
def folder(tmp_path):
    with dj.config.override(cache_dir=tmp_path / "cache"):
        yield tmp_path / "cache"


def fill(folder, kind, count, size=10):
    (folder / kind).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        path = folder / kind / f"{number:040x}.json"
        path.write_bytes(b"x" * size)
        os.utime(path, (number, number))


def test_a_folder_that_is_not_there_is_empty(folder, capsys) -> None:
    for action in ("list", "size", "clear"):
        assert 0 == command_line.main(["cache", action])
        assert "0 files" in capsys.readouterr().out
    assert not folder.exists()


def test_sizes_are_by_kind_and_in_all(folder, capsys) -> None:
    fill(folder, "kernels", 3, size=1000)
    fill(folder, "graphs", 1, size=500)

    assert 0 == command_line.main(["cache", "size"])

    out = capsys.readouterr().out.splitlines()
    assert ["kernels", "3", "files", "3.0", "kB"] == out[0].split()[:5]
    assert f"{folder}: 4 files, 3.5 kB; kernels are trimmed above 1.1 GB" == out[-1]


def test_the_newest_are_listed_and_all_on_request(folder, capsys) -> None:
    fill(folder, "kernels", cache.LISTED + 5)

    command_line.main(["cache", "list"])
    short = capsys.readouterr().out.splitlines()
    command_line.main(["cache", "list", "--all"])
    whole = capsys.readouterr().out.splitlines()

    assert short[1].endswith(f"{cache.LISTED + 4:040x}.json")
    assert 1 + cache.LISTED + 2 == len(short)
    assert "... and 5 older files (--all shows them)" == short[-2]
    assert 1 + cache.LISTED + 5 + 1 == len(whole)


def test_clear_leaves_what_the_library_did_not_write(folder, tmp_path, capsys) -> None:
    fill(folder, "kernels", 2)
    own = folder / "kernels" / "my_notes.txt"
    own.write_text("mine")
    elsewhere = tmp_path / f"{1:040x}.json"
    elsewhere.write_text("mine")
    (folder / "kernels" / f"{9:040x}.json").symlink_to(elsewhere)
    (folder / "graphs").symlink_to(tmp_path)

    assert 0 == command_line.main(["cache", "clear"])

    assert f"{folder}: 2 files removed, 20 bytes\n" == capsys.readouterr().out
    assert own.exists() and elsewhere.exists()


def test_what_cannot_be_removed_is_said_and_status_1(folder, capsys, monkeypatch) -> None:
    fill(folder, "kernels", 1)

    def refuse(path):
        raise PermissionError(13, "Read-only file system")

    monkeypatch.setattr(cache_contents.Path, "unlink", refuse)

    assert 1 == command_line.main(["cache", "clear"])
    assert "Read-only file system" in capsys.readouterr().err


def whole(folder) -> set[Path]:
    """The files of a cache; none while some are being written or are missing: a kernel has two."""
    found = {path for path in folder.rglob("*") if path.is_file()}
    kernels = [path for path in found if path.parent.name == "kernels"]
    are_written = not any(path.name.startswith(".") for path in kernels)
    return found if kernels and are_written and len(kernels) % 2 == 0 else set()


@pytest.mark.skipif(toolchain.find_compiler() is None, reason="needs a C compiler")
def test_what_compiling_writes_is_all_seen_and_all_cleared(folder) -> None:
    dj.compile(lambda x: (x * 5).sin())(dj.ones(3))
    deadline = time.monotonic() + 60
    while not (there := whole(folder)):  # a kernel runs before all that is kept of it is written
        assert time.monotonic() < deadline
        time.sleep(0.01)

    assert there == {entry.path for entry in cache_contents.entries(folder)}
    assert len(there) == cache_contents.clear(folder).count
    assert not any(path.is_file() for path in folder.rglob("*"))
