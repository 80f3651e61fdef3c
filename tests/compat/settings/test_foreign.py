"""Settings by PyTorch's names: they act on ours, or warn; `patch` puts them back."""

import importlib
import warnings

import pytest

import dynajit as dj
from dynajit.compat.settings import foreign
from dynajit.core.process import config

dynamo = importlib.import_module("dynajit._dynamo.config")
inductor = importlib.import_module("dynajit._inductor.config")


@pytest.fixture(autouse=True)
def _as_before():
    """Settings, and what was warned of, are as they were."""
    before = config.default()
    yield
    config.configure(**{name: getattr(before, name) for name in config.SETTINGS})
    for group in (dynamo, inductor, inductor.cpp, inductor.triton):
        kept, told = group._facts[2:]
        kept.clear()
        told.clear()


def groups():
    for module in (dynamo, inductor):
        _, rows, *_ = module._facts
        yield module, rows
        yield from ((row, row._facts[1]) for row in rows.values() if isinstance(row, foreign.Group))


ACTING = [
    (dynamo, "recompile_limit", 3, "recompile_limit", 3),
    (dynamo, "cache_size_limit", 4, "recompile_limit", 4),
    (dynamo, "suppress_errors", False, "strict", True),
    (dynamo, "disable", True, "disable", True),
    (dynamo, "automatic_dynamic_shapes", False, "dynamic", False),
    (dynamo, "dynamic_shapes", False, "dynamic", False),
    (dynamo, "assume_static_by_default", False, "dynamic", True),
    (dynamo, "error_on_recompile", True, "stance", "fail_on_recompile"),
    (inductor.cpp, "threads", 3, "num_threads", 3),
    (inductor.cpp, "threads", -1, "num_threads", 0),
]


@pytest.mark.parametrize(("module", "name", "value", "ours", "expected"), ACTING)
def test_a_setting_that_we_have_is_that_setting(module, name, value, ours, expected) -> None:
    with config.override():  # whatever the test-suite overrides
        setattr(module, name, value)

        assert (expected, value) == (getattr(config.current(), ours), getattr(module, name))


def test_every_row_that_acts_is_tried() -> None:
    acting = {
        (group._facts[0], name)
        for group, rows in groups()
        for name, row in rows.items()
        if isinstance(row, foreign.Acting)
    }
    assert acting == {(module._facts[0], name) for module, name, *_ in ACTING}


def test_the_others_warn_once_and_say_what_there_is_instead() -> None:
    for group, rows in groups():
        for name, row in rows.items():
            if not isinstance(row, foreign.Telling):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                for like in row.like:
                    setattr(group, name, like)
            with pytest.warns(RuntimeWarning, match=f"{name} = 'odd' has no effect: .*\\."):
                setattr(group, name, "odd")
            setattr(group, name, "odd")
            assert "odd" == getattr(group, name)


def test_the_limit_of_recompiles_that_was_set_is_the_one_of_the_warning() -> None:
    dynamo.recompile_limit = 2
    with config.override(recompile_limit=dynamo.recompile_limit):
        compiled = dj.compile(lambda x: x + 1, dynamic=False)
        said = "was compiled 2 times .* raise dynajit.config.recompile_limit"
        with pytest.warns(RuntimeWarning, match=said):
            for size in range(2, 6):
                compiled(dj.ones(size))


def test_a_name_without_a_row_is_kept_with_a_warning_and_unknown_before() -> None:
    with pytest.raises(AttributeError, match=r"recompile_limt'.*Did you mean 'recomp"):
        dynamo.recompile_limt
    with pytest.raises(AttributeError, match="has no setting 'thread'"):
        inductor.cpp.thread
    with pytest.warns(RuntimeWarning, match="dynajit has no such setting"):
        dynamo.made_up = 1
    assert 1 == dynamo.made_up


def test_patch_sets_for_a_block_or_a_function_in_every_form() -> None:
    before = dynamo.recompile_limit
    for block in (
        dynamo.patch(recompile_limit=5),
        dynamo.patch({"recompile_limit": 5}),
        dynamo.patch("recompile_limit", 5),
    ):
        with block:
            assert 5 == dynamo.recompile_limit
        assert before == dynamo.recompile_limit

    @dynamo.patch(recompile_limit=6)
    def inside():
        return dynamo.recompile_limit

    assert (6, before) == (inside(), dynamo.recompile_limit)
    with inductor.patch({"cpp.threads": 2, "triton.unique_kernel_names": False}):
        assert (2, False) == (inductor.cpp.threads, inductor.triton.unique_kernel_names)


def test_they_can_be_looked_through() -> None:
    assert {"recompile_limit", "patch"} <= set(dir(dynamo))
    assert "threads" in dir(inductor.cpp)
    assert dj._dynamo.config is dynamo and dj._inductor.config is inductor
