"""Pain 23: a cache in /tmp, shared by users, growing, racing."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import dynajit as dj
compiled = dj.compile(lambda x: (x + 1).exp() * 2)
assert [2.0] == compiled(dj.full((1,), -1.0)).tolist()
print(dj.config.current().cache_dir)
"""


def test_the_cache_follows_xdg_and_survives_a_race(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("DYNAJIT_CACHE_DIR", None)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    printed = {process.communicate()[0].strip() for process in running}
    assert [0, 0, 0] == [process.returncode for process in running]
    assert {str(tmp_path / "cache" / "dynajit")} == printed
    assert any((tmp_path / "cache" / "dynajit").iterdir())


def test_a_folder_that_cannot_be_written_does_not_stop_the_program(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    environment = {**os.environ, "DYNAJIT_CACHE_DIR": str(blocked / "below")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
