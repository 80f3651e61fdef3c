"""Temporary folders: gone when the process ends, in whatever way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dynajit.codegen.compilers import temporary

pytestmark = [pytest.mark.c_only, pytest.mark.skipif(os.name != "posix", reason="signals")]


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )


BEGIN = """
import os, signal, sys, time
from dynajit.codegen.compilers import temporary
folder = temporary.lasting_folder("x")
with temporary.temporary_folder() as one:
    assert one.is_dir() and one.stat().st_mode & 0o777 == 0o700
assert not one.exists()
print(folder.parent)
"""


@pytest.mark.parametrize("end", ["", "1 / 0"])
def test_folders_end_with_the_process(tmp_path: Path, end: str) -> None:
    assert str(tmp_path) in run(BEGIN + end, tmp_path).stdout
    assert [] == list(tmp_path.iterdir())


def test_the_next_process_removes_what_killed_ones_left(tmp_path: Path) -> None:
    code = BEGIN + (
        "for end in (lambda: os._exit(0), lambda: os.kill(os.getpid(), signal.SIGKILL),\n"
        "            lambda: os.kill(os.getpid(), signal.SIGTERM)):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        temporary.lasting_folder('x')\n"
        "        end()\n"
        "    os.waitpid(child, 0)\n"
        "for left in folder.parent.parent.iterdir():\n"
        "    os.utime(left, (0, 0))\n"
        "assert len([*folder.parent.parent.iterdir()]) == 4\n"
    )
    done = run(code, tmp_path)

    assert (0, "") == (done.returncode, done.stderr)
    assert [] == list(tmp_path.iterdir())


def test_folders_of_others_stay(tmp_path: Path) -> None:
    """Those of processes that live, that are new, that are no folders or not ours alone."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    living = subprocess.Popen(
        [sys.executable, "-c", BEGIN + "sys.stdout.flush()\ninput()"],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert living.stdout is not None
    locked = Path(living.stdout.readline().strip())
    os.utime(locked, (0, 0))
    new, shared, other = (
        tmp_path / name
        for name in ("dynajit-of-a-process-new", "dynajit-of-a-process-shared", "dynajit-x")
    )
    for folder in (new, shared, other):
        folder.mkdir(mode=0o700)
    shared.chmod(0o755)
    (tmp_path / "dynajit-of-a-process-link").symlink_to(other)
    for folder in (shared, other):
        os.utime(folder, (0, 0))
    run(BEGIN, tmp_path)

    expected = {locked, new, shared, other, tmp_path / "dynajit-of-a-process-link"}
    assert expected == set(tmp_path.iterdir())
    living.communicate("\n", timeout=60)
    assert not locked.exists()


def test_a_forked_child_leaves_its_parents_folders(tmp_path: Path) -> None:
    code = BEGIN + (
        "child = os.fork()\n"
        "if not child:\n"
        "    with temporary.temporary_folder() as own:\n"
        "        assert own.parent != folder.parent\n"
        "    sys.exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert folder.is_dir()\n"
    )
    done = run(code, tmp_path)

    assert (0, "") == (done.returncode, done.stderr)
    assert [] == list(tmp_path.iterdir())


def test_a_folder_that_was_tidied_up_is_made_again(tmp_path: Path) -> None:
    code = BEGIN + (
        "import shutil\nshutil.rmtree(folder.parent)\n"
        "with temporary.temporary_folder() as one:\n    assert one.is_dir()\n"
    )
    done = run(code, tmp_path)

    assert (0, "") == (done.returncode, done.stderr)
    assert [] == list(tmp_path.iterdir())


def test_a_block_ends_its_folder_when_it_raises() -> None:
    with pytest.raises(KeyError), temporary.temporary_folder() as folder:
        (folder / "file").write_text("")
        raise KeyError

    assert not folder.exists()


def test_a_child_needs_no_lock_that_another_thread_of_its_parent_held(tmp_path: Path) -> None:
    """`tempfile` locks what it finds out at its first use; nobody releases that in a child."""
    code = (
        "import os, tempfile\n"
        "from dynajit.codegen.compilers import temporary\n"
        "tempfile._once_lock.acquire()  # by a thread that the child has not\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    with temporary.temporary_folder() as one:\n        os._exit(not one.is_dir())\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    done = run(code, tmp_path)

    assert (0, "") == (done.returncode, done.stderr)
