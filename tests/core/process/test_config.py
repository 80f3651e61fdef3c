"""Configuration: read from the environment, replaced for a block, per context."""

import re
import threading
from pathlib import Path

import pytest

from dynajit.core.errors import ArgumentError
from dynajit.core.process import config


def test_an_empty_environment_gives_the_defaults():
    found = config.from_environment({})
    assert (False, frozenset(), None, None, 0) == (
        found.disable, found.log, found.dump, found.compiler, found.num_threads
    )  # fmt: skip
    assert found.cpu == "native"
    assert found.cache_dir == Path.home() / ".cache" / "dynajit"


def test_every_variable_is_read():
    found = config.from_environment(
        {
            "DYNAJIT_DISABLE": "1",
            "DYNAJIT_LOG": "breaks,guards,",
            "DYNAJIT_DUMP": "/tmp/dump",
            "DYNAJIT_CACHE_DIR": "/tmp/cache",
            "DYNAJIT_CC": "clang",
            "CC": "gcc",
            "DYNAJIT_CPU": "x86-64-v3",
            "DYNAJIT_NUM_THREADS": "3",
            "DYNAJIT_STRICT": "true",
            "DYNAJIT_VERIFY_GRAPHS": "ON",
            "DYNAJIT_SANITIZE": "yes",
            "DYNAJIT_LINK_KERNELS": "1",
        }
    )
    assert found.disable
    assert found.strict
    assert found.verify_graphs
    assert found.sanitize
    assert found.link_kernels
    assert found.log == {"breaks", "guards"}
    assert (Path("/tmp/dump"), Path("/tmp/cache")) == (found.dump, found.cache_dir)
    assert ("clang", "x86-64-v3", 3) == (found.compiler, found.cpu, found.num_threads)


def test_the_cache_follows_xdg_and_the_compiler_cc():
    found = config.from_environment({"XDG_CACHE_HOME": "/tmp/x", "CC": "cc"})
    assert (Path("/tmp/x/dynajit"), "cc") == (found.cache_dir, found.compiler)


@pytest.mark.parametrize("text", ["", "0", "no", "off"])
def test_other_words_are_false(text):
    assert not config.from_environment({"DYNAJIT_STRICT": text}).strict


def test_an_override_lasts_for_its_block_even_when_it_raises():
    before = config.current()
    with pytest.raises(KeyError), config.override(num_threads=7) as inside:
        assert config.current() is inside
        with config.override(strict=True):
            assert (7, True) == (config.current().num_threads, config.current().strict)
        raise KeyError
    assert config.current() is before


def test_an_override_is_not_seen_by_other_threads():
    seen = []
    with config.override(num_threads=7):
        thread = threading.Thread(target=lambda: seen.append(config.current().num_threads))
        thread.start()
        thread.join()
    assert seen != [7]


def test_an_unknown_setting_is_refused_with_what_is_near():
    near = "num_thread=...*Did you mean 'num_threads'"
    with pytest.raises(TypeError, match=near), config.override(num_thread=1):
        pass
    with pytest.raises(TypeError, match="Settings are disable, stance"):
        config.configure(zzz=1)
    with pytest.raises(AttributeError, match="Did you mean 'num_threads'"):
        config.num_thread = 1
    with pytest.raises(AttributeError, match="Did you mean 'num_threads'"):
        config.num_thread


@pytest.fixture
def restored():
    before = config.default()
    yield before
    config.configure(**{name: getattr(before, name) for name in config.SETTINGS})


def test_settings_are_attributes_of_the_module(restored):
    config.recompile_limit = 7
    assert (7, 7) == (config.default().recompile_limit, config.recompile_limit)
    with config.override(recompile_limit=9):
        assert 9 == config.recompile_limit
    config.cache_dir, config.dump, config.log = "/tmp/x", "/tmp/y", "breaks, graph_breaks"
    assert (Path("/tmp/x"), Path("/tmp/y")) == (config.cache_dir, config.dump)
    assert {"breaks", "graph_breaks"} == config.log
    assert {*config.SETTINGS} <= set(dir(config))


WRONG = [
    ("recompile_limit", 0), ("recompile_limit", True), ("recompile_limit", 2.0),
    ("num_threads", -1), ("num_threads", 4097), ("strict", 1), ("strict", "yes"),
    ("stance", "lazy"), ("dynamic", 1), ("log", "brekas"), ("log", 3), ("cpu", "-fplugin=x"),
    ("compiler", ""), ("cache_dir", None), ("cache_dir", ""), ("dump", 3), ("cuda_driver", None),
    ("disabled_passes", ["no_such_pass"]), ("cache_size_bytes", -1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_value_that_a_setting_does_not_take_is_refused(name, value, restored):
    accepted = re.escape(config.SETTINGS[name].kind.accepts)
    with pytest.raises(ArgumentError, match=f"config.{name} = .*: expected {accepted}"):
        config.configure(**{name: value})
    assert restored is config.default()


def test_every_default_is_a_value_that_its_setting_takes():
    for name, known in config.SETTINGS.items():
        assert known.default == known.checked(known.default), name
        assert known.about and not known.about.endswith("."), name


def test_the_first_variable_that_is_set_counts():
    both = {"DYNAJIT_NUM_THREADS": "3", "OMP_NUM_THREADS": "2"}
    assert 3 == config.from_environment(both).num_threads
    assert 2 == config.from_environment(both | {"DYNAJIT_NUM_THREADS": " "}).num_threads
    assert 0 == config.from_environment(both | {"DYNAJIT_NUM_THREADS": "0"}).num_threads


def test_openmps_number_may_be_a_list_for_nested_teams():
    assert 4 == config.from_environment({"OMP_NUM_THREADS": "4,2"}).num_threads


def test_a_misspelt_variable_is_warned_of_and_others_are_not():
    with pytest.warns(RuntimeWarning, match="DYNAJIT_LOGS is not known.  Did you mean DYNAJIT_LOG"):
        config.from_environment({"DYNAJIT_LOGS": "breaks"})
    config.from_environment({"DYNAJIT_FUZZ_PROGRAMS": "3", "SOMETHING": "1"})
    assert {"DYNAJIT_MY_OWN": ""} == config.misspelt({"DYNAJIT_MY_OWN": "", "DYNAJIT_LOG": ""})


def test_every_variable_that_the_source_names_is_in_the_table():
    root = Path(__file__).parents[3]
    named = {
        name
        for folder in ("dynajit", "eager", "capture", "codegen")
        for path in (root / folder).rglob("*.py")
        for name in re.findall(r"[\"'](DYNAJIT_[A-Z_]+)[\"']", path.read_text())
    }
    assert {name for name in config.VARIABLES if name.startswith("DYNAJIT_")} == named - {
        "DYNAJIT_"
    }


def test_configure_changes_the_default_and_the_override_in_force():
    seen = []
    before = config.configure(num_threads=5)
    try:
        with config.override(strict=True):
            config.configure(num_threads=6)
            assert (6, True) == (config.current().num_threads, config.current().strict)
            thread = threading.Thread(target=lambda: seen.append(config.current()))
            thread.start()
            thread.join()
        assert (6, before.strict) == (seen[0].num_threads, seen[0].strict)
    finally:
        config.configure(num_threads=before.num_threads)


def test_a_listener_hears_of_the_default_at_once_and_later():
    heard = []
    config.on_default(heard.append)
    try:
        before = config.configure(recompile_limit=3)
        config.configure(recompile_limit=before.recompile_limit)
        limits = [found.recompile_limit for found in heard]
        assert [before.recompile_limit, 3, before.recompile_limit] == limits
    finally:
        config._listeners.remove(heard.append)


def test_disable_and_force_eager_are_eager():
    assert not config.Config().is_eager
    assert config.Config(disable=True).is_eager
    assert config.Config(stance="force_eager").is_eager
    assert not config.Config(stance="fail_on_recompile").is_eager


@pytest.mark.parametrize("text", ["abc", "-1", "3.5", "1e3", "99999999999999999999", "٣", "4097"])
def test_a_number_of_threads_that_is_none_is_ignored_with_a_warning(text):
    with pytest.warns(RuntimeWarning, match="DYNAJIT_NUM_THREADS=.*from 0 .* to 4096") as met:
        found = config.from_environment({"DYNAJIT_NUM_THREADS": text})
    assert (1, 0) == (len(met), found.num_threads)


def test_blanks_around_values_do_not_count():
    found = config.from_environment(
        {
            "DYNAJIT_NUM_THREADS": " 2 ",
            "DYNAJIT_STRICT": " 1",
            "DYNAJIT_LOG": "breaks, graph_breaks",
        }
    )
    assert (2, True) == (found.num_threads, found.strict)
    assert {"breaks", "graph_breaks"} == found.log


FLAGS = ["DISABLE", "STRICT", "VERIFY_GRAPHS", "SANITIZE", "LINK_KERNELS"]


@pytest.mark.parametrize("name", [f"DYNAJIT_{flag}" for flag in FLAGS])
@pytest.mark.parametrize("text", ["maybe", "2", "\x1b[2J", "\udc80"])
def test_a_switch_that_is_none_is_off_with_a_warning(name, text):
    with pytest.warns(RuntimeWarning, match=f"{name}=.*1, true, yes, on.*0, false") as met:
        found = config.from_environment({name: text})
    assert 1 == len(met)
    assert config.from_environment({}) == found


def test_unknown_channels_are_left_out_with_a_warning():
    with pytest.warns(RuntimeWarning, match="DYNAJIT_LOG=.*breaks, graph, guards") as met:
        found = config.from_environment({"DYNAJIT_LOG": "breaks,bogus,../x"})
    assert (1, {"breaks"}) == (len(met), found.log)


@pytest.mark.parametrize("text", ["a b", "-fplugin=x", "native;", "\udc80"])
def test_a_cpu_that_is_no_name_is_ignored_with_a_warning(text):
    with pytest.warns(RuntimeWarning, match="DYNAJIT_CPU=.*-march"):
        assert "native" == config.from_environment({"DYNAJIT_CPU": text}).cpu


def test_a_user_without_a_home_has_a_cache(monkeypatch, tmp_path):
    def refuse():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", refuse)
    found = config.from_environment({"TMPDIR": str(tmp_path)})
    assert tmp_path == found.cache_dir.parent
    assert Path("/x/dynajit") == config.from_environment({"XDG_CACHE_HOME": "/x"}).cache_dir
