"""Inference mode, and tensors by the ways that PyTorch programs convert them."""

import pytest

import dynajit as dj
from dynajit import eager
from dynajit.capture.entry import cache
from tests.support.python.harness import case

LEAF = eager.tensor([1.0, 2.0, 3.0], requires_grad=True)


def in_a_block(x):
    before = dj.is_inference_mode_enabled()
    with eager.inference_mode():
        y = x * LEAF
        inside = dj.is_inference_mode_enabled(), eager.is_grad_enabled(), y.requires_grad
    return y + 1, before, inside, dj.is_inference_mode_enabled(), (x * LEAF).requires_grad


def turned_off_within(x):
    with eager.inference_mode(), eager.inference_mode(False):
        y = x * LEAF
        return y.requires_grad, dj.is_inference_mode_enabled()


@eager.inference_mode()
def decorated(x):
    return (x * LEAF).requires_grad, dj.is_inference_mode_enabled()


def calls_decorated(x):
    return decorated(x), dj.is_inference_mode_enabled(), x + 1


def left_by_an_exception(x):
    try:
        with eager.inference_mode():
            raise KeyError(1)
    except KeyError:
        return dj.is_inference_mode_enabled(), eager.is_grad_enabled(), x * 2


def by_type(x):
    return x.type(dj.float64), x.type("torch.LongTensor"), x.type(), x.type(dtype=dj.float16)


def by_type_of_another(x):
    return x.type(LEAF.dtype), x.type(x.dtype) is x, x.int().type(dj.FloatTensor)


def to_the_cpu(x):
    return x.cpu() is x, x.cpu() * 2, x.pin_memory() is x


def as_tensors(x):
    same = dj.as_tensor(x) is x, dj.as_tensor(x, dtype=x.dtype) is x
    return same, dj.as_tensor(x, dtype=dj.int64), dj.as_tensor([1, 2]), dj.as_tensor(2.5) * x


CAPTURED = [
    case(function, LEAF.detach())
    for function in (
        in_a_block, turned_off_within, calls_decorated, left_by_an_exception, by_type,
        by_type_of_another, to_the_cpu, as_tensors,
    )
]  # fmt: skip


@pytest.mark.parametrize("case", CAPTURED, ids=str)
def test_is_as_in_plain_python_without_a_break(case, assert_captured):
    case.check(assert_captured)


def break_in_inference_mode(x):
    with eager.inference_mode():
        y = x * LEAF
        dj.graph_break()
        inside = dj.is_inference_mode_enabled(), (y * LEAF).requires_grad
    return inside, dj.is_inference_mode_enabled(), y


@pytest.mark.parametrize("case", [case(break_in_inference_mode, LEAF.detach(), breaks=1)], ids=str)
def test_the_mode_lasts_over_a_break(case, assert_captured):
    case.check(assert_captured)


def test_the_mode_at_entry_is_guarded(compiler):
    compiled = compiler.compile(lambda x: (x + 1, dj.is_inference_mode_enabled()))
    x = LEAF.detach()
    for _ in range(3):
        assert not compiled(x)[1]
        with eager.inference_mode():
            assert compiled(x)[1]
    assert 2 == cache.cache_of(compiled).compile_count


def test_a_type_that_is_none_is_refused_as_in_plain_python(compiler):
    compiled = compiler.compile(lambda x: x.type("torch.TextTensor"))
    with pytest.raises(ValueError, match="TextTensor"):
        compiled(LEAF.detach())


def test_where_a_tensor_was_made_is_noticed():
    def asked(x):
        return (x + 1 if x.is_inference() else x - 1), (x * 2).is_inference()

    compiled = dj.compile(asked, fullgraph=True)
    with dj.inference_mode():
        made = dj.ones(2)
    for x in (made, dj.ones(2), made):
        assert repr(asked(x)) == repr(compiled(x))


def test_the_default_dtype_is_that_of_the_call():
    def asked(x):
        return x.to(dj.get_default_dtype()), dj.get_default_dtype()

    compiled = dj.compile(asked, fullgraph=True)
    try:
        for dtype in (dj.float32, dj.float64, dj.float32):
            dj.set_default_dtype(dtype)
            assert repr(asked(dj.ones(2))) == repr(compiled(dj.ones(2)))
    finally:
        dj.set_default_dtype(dj.float32)
