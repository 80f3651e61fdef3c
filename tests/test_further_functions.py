"""Functions of `torch` that few programs call agree with PyTorch."""

import warnings
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import UnsupportedError
from dynajit.namespaces import inplace, late_names

torch = pytest.importorskip("torch")

NUMBERS = np.random.default_rng(0)
X, Y, Z = (NUMBERS.standard_normal((4, 5)) for _ in range(3))
W = NUMBERS.standard_normal((3, 5, 5))
SIGNS = np.array([1.0, -1.0, 1.0, -1.0])
GATES = {gates: NUMBERS.standard_normal((gates * 5, 5)) for gates in (1, 3, 4)}
BIAS = {gates: NUMBERS.standard_normal(gates * 5) for gates in (1, 3, 4)}
DRAWN = ("alpha_dropout", "feature_alpha_dropout", "dropout_", "rrelu_")


def cell(m: Any, name: str, gates: int) -> Any:
    x, h, c = map(m.tensor, (X, Y, Z))
    weights = [m.tensor(GATES[gates])] * 2 + [m.tensor(BIAS[gates])] * 2
    return getattr(m, name)(x, (h, c) if name == "lstm_cell" else h, *weights)


CALLS = {
    "embedding": lambda m: m.embedding(m.tensor(X), m.tensor([[0, 3], [1, 1]]), 3),
    "bilinear": lambda m: m.bilinear(m.tensor(X), m.tensor(Y), m.tensor(W), m.tensor(X[0, :3])),
    "batch_norm": lambda m: m.batch_norm(
        m.tensor(X), m.tensor(X[0]), m.tensor(X[1]), m.tensor(X[2]), m.tensor(X[3] ** 2),
        False, 0.1, 1e-5, True,
    ),
    "batch_norm of training": lambda m: m.batch_norm(
        m.tensor(X), None, None, None, None, True, 0.1, 1e-3, False
    ),
    "instance_norm": lambda m: m.instance_norm(
        m.tensor(W), m.tensor(X[0]), m.tensor(X[1]), None, None, True, 0.1, 1e-5, True
    ),
    **{
        f"kl_div {n}": lambda m, n=n: m.kl_div(m.tensor(X), m.tensor(Y), n, log_target=True)
        for n in range(3)
    },
    "cosine_embedding_loss": lambda m: m.cosine_embedding_loss(
        m.tensor(X), m.tensor(Y), m.tensor(SIGNS), 0.2, 2
    ),
    "hinge_embedding_loss": lambda m: m.hinge_embedding_loss(
        m.tensor(X[:, 0]), m.tensor(SIGNS), 0.5, 1
    ),
    "margin_ranking_loss": lambda m: m.margin_ranking_loss(
        m.tensor(X[:, 0]), m.tensor(X[:, 1]), m.tensor(SIGNS), 0.5, 0
    ),
    "triplet_margin_loss": lambda m: m.triplet_margin_loss(
        *map(m.tensor, (X, Y, Z)), 2.0, swap=True, reduction=2
    ),
    "poisson_nll_loss": lambda m: m.poisson_nll_loss(
        m.tensor(X), m.tensor(Y), True, False, 1e-8, 1
    ),
    "ctc_loss": lambda m: m.ctc_loss(
        m.tensor(W).log_softmax(2), m.tensor([[1, 2]] * 5), m.tensor([3] * 5),
        m.tensor([2] * 5), 0, 2,
    ),
    "binary_cross_entropy_with_logits": lambda m: m.binary_cross_entropy_with_logits(
        m.tensor(X), m.tensor(np.abs(Y) % 1), pos_weight=m.tensor(np.abs(X[0])), reduction=2
    ),
    "rnn_tanh_cell": lambda m: cell(m, "rnn_tanh_cell", 1),
    "rnn_relu_cell": lambda m: cell(m, "rnn_relu_cell", 1),
    "gru_cell": lambda m: cell(m, "gru_cell", 3),
    "lstm_cell": lambda m: m.cat(cell(m, "lstm_cell", 4)),
    "frobenius_norm": lambda m: m.frobenius_norm(m.tensor(W), (0, 1), True),
    "nuclear_norm": lambda m: m.nuclear_norm(m.tensor(X)),
    "nuclear_norm of dims": lambda m: m.nuclear_norm(m.tensor(W), (0, 2)),
    **{
        f"norm_except_dim {d}": lambda m, d=d: m.norm_except_dim(m.tensor(W), 2, d)
        for d in (-1, 0, 1, 2)
    },
    "selu_": lambda m: m.selu_(m.tensor(X)),
    "celu_": lambda m: m.celu_(m.tensor(X), 0.7),
    "threshold_": lambda m: m.threshold_(m.tensor(X), 0.1, 20.0),
    "a loss without reduction": lambda m: m.kl_div(m.tensor(X), m.tensor(Y)),
    "row_stack": lambda m: m.row_stack((m.tensor(X[0]), m.tensor(Y))),
    "range": lambda m: m.range(1, 4),
    "range of a step": lambda m: m.range(0.5, -1.2, -0.25),
    "range of integers": lambda m: m.range(1, 6, 2, dtype=m.int64),
    "frombuffer": lambda m: m.frombuffer(bytearray(range(16)), dtype=m.int16, count=3, offset=2),
    "newaxis": lambda m: m.tensor(X)[:, m.newaxis],
    "cfloat": lambda m: m.tensor(X).cfloat(),
    "cdouble": lambda m: m.tensor(X).cdouble(),
    "cells of a graph": lambda m: m.tensor(X)[m.tensor([m.get_device(m.tensor(X))])],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:torch.range is deprecated", "ignore:at::")
@pytest.mark.parametrize("name", CALLS)
def test_values_are_pytorchs(name: str) -> None:
    expected, found = CALLS[name](torch), CALLS[name](dj)
    assert str(found.dtype).removeprefix("dynajit.") == str(expected.dtype).removeprefix("torch.")
    assert tuple(found.shape) == tuple(expected.shape)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2e-6, atol=1e-9)


PLAIN = {
    "typename of a tensor": lambda m: m.typename(m.zeros(1)),
    "typename of a number": lambda m: m.typename(3),
    "typename of a class": lambda m: m.typename(np.ndarray),
    "sym_int": lambda m: m.sym_int(2.7),
    "sym_float": lambda m: m.sym_float(3),
    "sym_max": lambda m: (m.sym_max(2, 3.0), m.sym_max(4, 3.0), m.sym_max(4, 3)),
    "sym_min": lambda m: (m.sym_min(2, 3.0), m.sym_min(4, 3.0), m.sym_min(4, 3)),
    "sym_not": lambda m: m.sym_not(False),
    "sym_sum": lambda m: m.sym_sum([1, 2, 3]),
    "sym_ite": lambda m: m.sym_ite(True, 1, 2),
    "no number is symbolic": lambda m: [
        isinstance(n, kind) for n in (1, 1.0, True) for kind in (m.SymInt, m.SymFloat, m.SymBool)
    ],
    "places": lambda m: (m.zeros(1).is_cpu, m.zeros(1).get_device(), m.get_device(m.zeros(1))),
    "distributed": lambda m: m.is_distributed(m.zeros(1)),
}


@pytest.mark.parametrize("name", PLAIN)
def test_answers_are_pytorchs(name: str) -> None:
    assert repr(PLAIN[name](dj)) == repr(PLAIN[name](torch))


REFUSED = {
    "range away": (lambda m: m.range(1, 4, -1), (RuntimeError, ValueError)),
    "range of no step": (lambda m: m.range(1, 4, 0), (RuntimeError, ValueError)),
    "empty buffer": (lambda m: m.frombuffer(b"", dtype=m.int8), ValueError),
    "offset": (lambda m: m.frombuffer(bytearray(4), dtype=m.int8, offset=4), ValueError),
    "half an element": (lambda m: m.frombuffer(bytearray(5), dtype=m.int16), ValueError),
    "too many": (lambda m: m.frombuffer(bytearray(4), dtype=m.int16, count=3), ValueError),
    "threads": (lambda m: m.set_num_interop_threads(0), (RuntimeError, ValueError)),
    "ite": (lambda m: m.sym_ite(True, 1, 2.0), (TypeError, AssertionError)),
}


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name: str) -> None:
    call, errors = REFUSED[name]
    for m in (torch, dj):
        with pytest.raises(errors):
            call(m)


def test_a_number_that_is_no_reduction_is_refused() -> None:
    with pytest.raises(ValueError, match="reduction=3"):
        dj.kl_div(dj.ones(2), dj.ones(2), 3)


def test_a_tensor_of_a_buffer_is_the_buffer() -> None:
    memory = bytearray(4)
    dj.frombuffer(memory, dtype=dj.uint8).fill_(7)
    assert memory == b"\7\7\7\7"


def test_range_warns_at_the_users_line() -> None:
    with pytest.warns(UserWarning, match="deprecated") as caught:
        dj.range(3)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", ["alpha_dropout", "feature_alpha_dropout", "dropout_"])
def test_dropouts_are_those_of_nn(name: str, train: bool) -> None:
    kin = {"dropout_": dj.nn.functional.dropout}.get(name) or getattr(dj.nn.functional, name)
    dj.manual_seed(3)
    found = getattr(dj, name)(dj.tensor(W), 0.5, train)
    dj.manual_seed(3)
    assert found.tolist() == kin(dj.tensor(W), 0.5, train).tolist()


ARGUMENTS: dict[str, Any] = {
    "addmv_": lambda m: (m.ones(5, 5).double(), m.ones(5).double()),
    "as_strided_": lambda m: ((2,), (2,)),
    "clamp_": lambda m: (0.2, 0.6),
    "clamp_max_": lambda m: (0.3,),
    "clamp_min_": lambda m: (0.3,),
    "clip_": lambda m: (None, 0.4),
    "fill_": lambda m: (2.5,),
    "gcd_": lambda m: (m.tensor([4, 6, 8, 9, 10]),),
    "lcm_": lambda m: (m.tensor([4, 6, 8, 9, 10]),),
    "index_put_": lambda m: ((m.tensor([0, 2]),), m.tensor([1.5, 2.5], dtype=m.float64)),
    "ldexp_": lambda m: (m.tensor([1, 2, 3, 4, 5]),),
    "resize_as_": lambda m: (m.ones(5),),
    "xlogy_": lambda m: (m.full((5,), 0.3, dtype=m.float64),),
}


@pytest.mark.parametrize("name", inplace.NAMES)
def test_a_function_in_place_is_the_method(name: str) -> None:
    rows = np.array([4, 6, 3, 9, 15]) if name in ("gcd_", "lcm_") else np.linspace(0.1, 0.9, 5)
    rows = rows + 1 if name in ("acosh_", "arccosh_") else rows
    x, expected = dj.tensor(rows), torch.tensor(rows)
    arguments = ARGUMENTS.get(name, lambda m: ())
    assert getattr(dj, name)(x, *arguments(dj)) is x
    getattr(torch, name)(expected, *arguments(torch))
    np.testing.assert_allclose(x.numpy(), expected.numpy(), rtol=1e-12)


def test_compiled_functions_call_them_without_a_break() -> None:
    def function(x: Any, w: Any) -> Any:
        y = dj.relu_(x * 2)
        dj.clamp_(y, 0.1, 2.0)
        z = dj.embedding(w, dj.tensor([0, 1]))
        size = dj.sym_max(x.shape[0], 2)
        place = 1 if x.is_cpu and x.get_device() == -1 else 0
        return dj.rnn_tanh_cell(y, z, w, w) * size + place

    x, w = dj.tensor(X[:2]), dj.tensor(W[0])
    compiled = dj.compile(function, fullgraph=True)
    np.testing.assert_allclose(compiled(x, w).numpy(), function(x, w).numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", late_names.QUANTIZED)
def test_what_is_not_there_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedError, match=name):
        getattr(dj, name)(3)


def test_settings_are_kept() -> None:
    assert not dj.set_flush_denormal(True)
    assert not dj.is_warn_always_enabled()
    dj.set_warn_always(True)
    assert dj.is_warn_always_enabled()
    dj.set_warn_always(False)
    before = dj.get_num_interop_threads()
    dj.set_num_interop_threads(before + 1)
    assert dj.get_num_interop_threads() == before + 1
    dj.set_num_interop_threads(before)
    with dj.autograd.detect_anomaly(check_nan=False):
        assert dj.is_anomaly_enabled()
        assert not dj.is_anomaly_check_nan_enabled()
    assert not dj.is_anomaly_enabled()


def test_the_default_class_of_tensors_has_the_default_dtype() -> None:
    try:
        dj.set_default_tensor_type(dj.DoubleTensor)
        assert dj.zeros(1).dtype is dj.float64
    finally:
        dj.set_default_tensor_type("torch.FloatTensor")
    assert dj.zeros(1).dtype is dj.float32
    with pytest.raises(TypeError):
        dj.set_default_tensor_type(dj.LongTensor)
    with pytest.raises(RuntimeError):
        dj.set_default_tensor_type("torch.cuda.FloatTensor")


def test_every_name_is_published() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = (*inplace.NAMES, *late_names.FURTHER)
        assert [] == [name for name in names if not hasattr(dj, name)]
        assert [] == [name for name in names if not hasattr(torch, name)]
        assert set(names) <= set(dir(dj))


def branched(m: Any, pred: Any) -> Any:
    x = m.tensor([1.0, 2.0], requires_grad=True)
    found = m.cond(pred, lambda a, b: (a * 2, b), lambda a, b: (a - 1, b + 1), (x, x.detach()))
    found[0].sum().backward()
    return [part.tolist() for part in found], x.grad.tolist()


@pytest.mark.parametrize("pred", [True, False])
def test_a_branch_is_chosen_as_in_pytorch(pred: bool) -> None:
    x = dj.tensor([1.0, 2.0])
    chosen = torch.cond(
        pred, lambda a: a * 2, lambda a: a - 1, (torch.tensor([1.0, 2.0]),)
    ).tolist()
    assert chosen == dj.cond(pred, lambda a: a * 2, lambda a: a - 1, (x,)).tolist()
    assert branched(dj, pred) == branched(dj, dj.tensor(pred)) == branched(dj, dj.tensor([pred]))
    compiled = dj.compile(lambda p, a: dj.cond(p, lambda a: a * 2, lambda a: a - 1, (a,)))
    assert chosen == compiled(pred, x).tolist() == compiled(dj.tensor(pred), x).tolist()


@pytest.mark.parametrize("sizes", [None, (2,)])
def test_what_is_no_truth_chooses_no_branch(sizes: Any) -> None:
    for library in (dj, torch):
        with pytest.raises(RuntimeError, match="pred"):
            library.cond("a" if sizes is None else library.ones(sizes), abs, abs, ())
