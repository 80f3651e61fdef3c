"""Methods take sizes by PyTorch's names of arguments, eagerly and in graphs."""

from typing import Any

import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

CALLS = {
    "view": lambda t, x: x.view(size=(2, -1)),
    "view of a dtype": lambda t, x: x.view(dtype=t.int32),
    "repeat": lambda t, x: x.repeat(repeats=(2, 1)),
    "new_zeros": lambda t, x: x.new_zeros(size=(2,)),
    "new_ones": lambda t, x: x.new_ones(size=(2, 0)),
    "sum_to_size": lambda t, x: x.sum_to_size(size=(1,)),
    "resize_": lambda t, x: x.clone().resize_(size=(2,)),
}


@pytest.mark.parametrize("name", CALLS)
def test_sizes_by_name_give_what_pytorch_gives(name: str) -> None:
    call = CALLS[name]
    expected = call(torch, torch.arange(6.0))
    x = dj.arange(6.0)

    for found in (call(dj, x), dj.compile(lambda x: call(dj, x))(x)):
        assert (expected.tolist(), tuple(expected.shape)) == (found.tolist(), tuple(found.shape))
        assert str(expected.dtype).removeprefix("torch.") == str(found.dtype).removeprefix(
            "dynajit."
        )


def test_a_view_that_strides_do_not_allow_is_refused_when_compiled_too() -> None:
    def flat(x: Any) -> Any:
        return x.view(size=(6,)) * 1

    for function in (flat, dj.compile(flat)):
        with pytest.raises(RuntimeError, match="view"):
            function(dj.arange(6.0).reshape(2, 3).t())


@pytest.mark.parametrize("library", [dj, torch], ids=["dynajit", "torch"])
def test_sizes_given_twice_are_refused(library: Any) -> None:
    x = library.arange(6.0)
    for call in (lambda: x.view(2, 3, size=(6,)), lambda: x.repeat(2, repeats=(2,))):
        with pytest.raises(TypeError):
            call()
