"""`doctor` on machines that lack something: each a line that says what to do."""

import pytest

import dynajit as dj
from dynajit.codegen.compilers import toolchain
from dynajit.commands import command_line, doctor


def test_without_a_compiler_it_says_what_to_install(monkeypatch, capsys) -> None:
    monkeypatch.setattr(toolchain, "find_compiler", lambda: None)

    assert 1 == command_line.main(["doctor"])
    assert "install gcc or clang, or set DYNAJIT_CC" in capsys.readouterr().out


def test_a_home_that_cannot_be_written_is_named(monkeypatch, capsys, tmp_path) -> None:
    elsewhere = doctor.tempfile.TemporaryFile

    def refuse(dir=None):
        if dir == tmp_path:
            raise OSError(30, "Read-only file system")
        return elsewhere(dir=dir)

    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    with dj.config.override(cache_dir=tmp_path / "read_only" / "cache"):
        assert 1 == command_line.main(["doctor"])

    cache = f"{tmp_path}/read_only/cache"
    expected = f"--  cache      {cache} cannot be written (Read-only file system): set DYNAJIT_"
    assert expected in capsys.readouterr().out


def test_variables_that_are_set_are_named_and_misspelt_ones_too(monkeypatch, capsys) -> None:
    monkeypatch.setenv("DYNAJIT_DUMP", "/tmp/dumped")
    monkeypatch.setenv("DYNAJIT_DUMPS", "/tmp/dumped")
    command_line.main(["doctor"])

    out = capsys.readouterr().out
    assert "ok  DYNAJIT_DUMP /tmp/dumped: config.dump, folder that receives" in out
    assert "--  DYNAJIT_DUMPS nothing reads this variable; did you mean DYNAJIT_DUMP?" in out


@pytest.mark.skipif(toolchain.find_compiler() is None, reason="needs a C compiler")
def test_a_machine_with_all_that_is_needed_is_status_0(capsys, tmp_path) -> None:
    with dj.config.override(cache_dir=tmp_path):
        assert 0 == command_line.main(["doctor"])
    assert "ok  cache" in capsys.readouterr().out
