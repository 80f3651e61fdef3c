"""Schemas with layouts, memory formats, generators, and `Tensor!`, against PyTorch's."""

import uuid
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import OperatorError
from dynajit.library import libraries
from dynajit.library.schema import parse

torch = pytest.importorskip("torch")

OPTIONS = (
    "(Tensor x, *, Layout? l=None, Generator? g=None, MemoryFormat? m=None, ScalarType? d=None, "
    "Device? e=None, bool? p=None) -> Tensor"
)


def test_a_schema_is_written_as_it_was_read() -> None:
    for text in (OPTIONS, "(Tensor x, Stream s) -> Tensor", "(Tensor x, Layout l) -> Tensor"):
        assert f"f{text}" == str(parse(f"f{text}"))


def test_a_lone_exclamation_mark_is_an_alias_of_its_own() -> None:
    schema = parse("f(Tensor! out, Tensor![] more, Tensor(a!) named, Tensor? x) -> ()")
    assert [True, True, True, False] == [a.is_written for a in schema.arguments]
    assert 3 == len({a.alias for a in schema.arguments if a.is_written})
    assert schema == parse(str(schema))
    assert schema.is_mutable


def made(library: Any, schema: str, kernel: Any) -> Any:
    """A new operator."""
    space = f"s{uuid.uuid4().hex}"
    library.library.define(f"{space}::f", schema)
    library.library.impl(f"{space}::f", "CPU", kernel)
    return getattr(library.ops, space).f


def test_options_reach_the_kernel_in_both_libraries() -> None:
    for library in (torch, dj):
        seen: list[Any] = []

        def kernel(x: Any, *, seen: list[Any] = seen, **options: Any) -> Any:
            seen.append([*options.values()])
            return x + 1

        call = made(library, OPTIONS, kernel)
        generator = library.Generator()
        given = [library.strided, generator, library.preserve_format, library.float32,
                 library.device("cpu"), True]  # fmt: skip
        assert 2 == call(library.ones(1), **dict(zip("lgmdep", given, strict=True))).item()
        call(library.ones(1))
        assert given[:1] + given[2:] == seen[0][:1] + seen[0][2:]
        assert {None} >= {*seen[1]}
        with pytest.raises(RuntimeError, match="Generator"):
            call(library.ones(1), g=1)


def test_what_is_written_is_seen_by_the_caller() -> None:
    def kernel(out: Any, x: Any) -> None:
        out.copy_(x * 2)

    for library in (torch, dj):
        call = made(library, "(Tensor! out, Tensor x) -> ()", kernel)
        out = library.zeros(2)
        call(out, library.tensor([1.0, 2.0]))
        assert [2, 4] == out.tolist()


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(OperatorError, match="MemoryFormat"):
        parse("f(Tensor x, Nothing n) -> Tensor")


def test_a_fake_waits_for_an_operator_of_a_library_that_was_not_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(libraries, "NOT_LOADED", [])
    with pytest.raises(RuntimeError, match="does not exist"):
        dj.library.register_fake("nowhere::f", lambda x: x)
    monkeypatch.setattr(libraries, "NOT_LOADED", ["operators.so"])
    space = f"s{uuid.uuid4().hex}"

    @dj.library.register_fake(f"{space}::f")
    def fake(x: dj.Tensor) -> dj.Tensor:
        return dj.empty_like(x)

    dj.library.define(f"{space}::f", "(Tensor x) -> Tensor")
    dj.library.impl(f"{space}::f", "CPU", lambda x: x + 1)
    call = getattr(dj.ops, space).f
    compiled = dj.compile(lambda x: call(x) * 2, fullgraph=True)
    assert [4, 4] == compiled(dj.ones(2)).tolist()
