"""Counts of floating-point operations: PyTorch's, per module, forward and backward."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.process import config
from dynajit.ops.rows.networks import recurrent
from dynajit.ops.table import dispatch
from dynajit.ops.table.flops import flops_of
from dynajit.ops.table.op_table import TABLE
from dynajit.utils.flop_counter import FlopCounterMode


def counted(function: Callable[[], Any]) -> FlopCounterMode:
    with FlopCounterMode(display=False) as counter:
        function()
    return counter


def per_module(counter: Any) -> dict[str, int]:
    return {name: sum(c.values()) for name, c in counter.get_flop_counts().items() if c}


def theirs(function: Callable[[], Any]) -> Any:
    pytest.importorskip("torch")
    counter = importlib.import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    with counter:
        function()
    return counter


def _mlp(library: Any, backward: bool) -> Callable[[], Any]:
    nn = library.nn
    inner = nn.Sequential(nn.Linear(8, 2, bias=False), nn.Tanh())
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), inner)
    x = library.ones(3, 4)
    return lambda: net(x).sum().backward() if backward else net(x)


def _conv(library: Any, backward: bool) -> Callable[[], Any]:
    nn = library.nn
    net = nn.Sequential(
        nn.Conv2d(4, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(8, 6, 3, stride=2),
        nn.Conv2d(6, 5, (3, 1), dilation=2),
        nn.Flatten(),
        nn.Linear(5 * 7 * 11, 3),
    )
    x = library.ones(2, 4, 10, 10)
    return lambda: net(x).sum().backward() if backward else net(x)


def _attention(library: Any, backward: bool) -> Callable[[], Any]:
    layer = library.nn.MultiheadAttention(8, 2, batch_first=True)
    x = library.ones(2, 5, 8, requires_grad=True)
    return lambda: layer(x, x, x)[0].sum().backward() if backward else layer(x, x, x)


def _products(library: Any, backward: bool) -> Callable[[], Any]:
    a = library.ones(3, 4, requires_grad=True)
    b = library.ones(2, 4, 5, requires_grad=True)
    c = library.ones(2, 3, 5, requires_grad=True)

    def run() -> Any:
        total = (a @ b).sum() + library.baddbmm(c, a.expand(2, 3, 4), b).sum()
        total = total + library.addmm(c[0], a, b[0]).sum() + library.mm(a, b[1]).sum()
        total = total + library.einsum("ij,kjl->kil", a, b).sum()
        return total.backward() if backward else total

    return run


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("program", [_mlp, _conv, _attention, _products])
def test_counts_are_pytorchs(program: Any, backward: bool) -> None:
    """Per module and in total."""
    torch = pytest.importorskip("torch")
    ours, expected = counted(program(dj, backward)), theirs(program(torch, backward))

    assert ours.get_total_flops() > 0
    assert expected.get_total_flops() == ours.get_total_flops()
    assert per_module(expected) == per_module(ours)


def test_grouped_convolutions_count_what_is_computed() -> None:
    """PyTorch's gradient of the weight counts every channel for every group."""
    torch = pytest.importorskip("torch")
    totals = []
    for library in (dj, torch):
        layer = library.nn.Conv2d(6, 12, 3, groups=3)
        x = library.ones(2, 6, 7, 7, requires_grad=True)
        mode = counted if library is dj else theirs
        forward = mode(lambda layer=layer, x=x: layer(x)).get_total_flops()
        both = mode(lambda layer=layer, x=x: layer(x).sum().backward()).get_total_flops()
        totals.append((forward, both))
    (ours, all_ours), (expected, all_expected) = totals

    assert expected == ours == 2 * (2 * 12 * 5 * 5) * (2 * 9)
    assert 3 * ours == all_ours
    assert (1 + 1 + 3) * ours == all_expected


def test_attention_counts_as_its_products() -> None:
    """As PyTorch's where it is computed by rows; masks cost nothing."""
    torch = pytest.importorskip("torch")
    attention = torch.nn.attention
    x = torch.ones(2, 3, 5, 4, requires_grad=True)
    y = dj.ones(2, 3, 5, 4, requires_grad=True)

    def run() -> None:
        with attention.sdpa_kernel(attention.SDPBackend.MATH):
            torch.nn.functional.scaled_dot_product_attention(x, x, x).sum().backward()

    def causal() -> None:
        dj.nn.functional.scaled_dot_product_attention(y, y, y, is_causal=True).sum().backward()

    assert theirs(run).get_total_flops() == counted(causal).get_total_flops()
    with dj.no_grad():
        forward = counted(lambda: dj.nn.functional.scaled_dot_product_attention(y, y, y))
    assert 2 * (2 * 3 * 5 * 5 * 4) * 2 == forward.get_total_flops()


def _by_rows(function: Callable[[], Any]) -> int:
    """Products of the rows `matmul` and `linear` that really ran."""
    found = []
    running = []

    def watch(op: Any, inputs: Any, run: Callable[[], Any]) -> Any:
        if running or op not in (TABLE.matmul, TABLE.linear):
            return run()
        running.append(op)
        result = run()
        running.clear()
        found.append(flops_of(op, inputs, result))
        return result

    with dispatch.watching(watch):
        function()
    return sum(found)


@pytest.mark.parametrize("dtype", [dj.float32, dj.float16], ids=str)
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    ("layer", "options"),
    [("RNN", {}), ("GRU", {}), ("LSTM", {}), ("LSTM", {"proj_size": 2})],
)
def test_recurrent_layers_count_the_products_of_their_rows(
    monkeypatch: pytest.MonkeyPatch, layer: str, options: Any, is_packed: bool, dtype: Any
) -> None:
    """Which run where array functions, which multiply out of sight, decline."""
    module = getattr(dj.nn, layer)(3, 4, **options).to(dtype)
    x = dj.ones(5, 2, 3, dtype=dtype, requires_grad=True)

    def run() -> None:
        data = dj.nn.utils.rnn.pack_padded_sequence(x, dj.tensor([5, 3])) if is_packed else x
        out = module(data)[0]
        (out.data if is_packed else out).sum().backward()

    found = counted(run).get_total_flops()
    monkeypatch.setattr(recurrent, "_are_plain", lambda arrays: False)
    assert _by_rows(run) == found > 0


def test_compiled_functions_are_counted() -> None:
    """They run as plain Python within the block, and compiled again after it."""
    weight = dj.ones(4, 5, requires_grad=True)
    function = dj.compile(lambda x: (x @ weight).relu().sum())
    function(dj.ones(3, 4))
    before = config.current().stance

    assert (
        2 * (2 * 3 * 4 * 5) == counted(lambda: function(dj.ones(3, 4)).backward()).get_total_flops()
    )
    assert before == config.current().stance


def test_counters_nest_and_end() -> None:
    """The outer one counts all; a counter starts again; after the block nothing is counted."""
    a = dj.ones(3, 3)
    outer = FlopCounterMode(display=False)
    with outer:
        assert outer.get_total_flops() == 0
        _ = a @ a
        with FlopCounterMode(display=False) as inner:
            _ = a @ a
        _ = a @ a
    _ = a @ a

    assert (54, 3 * 54) == (inner.get_total_flops(), outer.get_total_flops())
    with outer:
        _ = a @ a
    assert 54 == outer.get_total_flops()
    with outer, pytest.raises(TypeError, match="already"):
        outer.__enter__()


def test_an_error_ends_the_modules_that_ran() -> None:
    """What follows is counted in its own module; the block's end removes everything."""

    class Fails(dj.nn.Module):
        def forward(self, x: Any) -> Any:
            _ = x @ x
            raise ValueError("on purpose")

    class Tries(dj.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fails = Fails()
            self.linear = dj.nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            with pytest.raises(ValueError):
                self.fails(x)
            return x

    net = Tries()
    x = dj.ones(3, 3)

    def run() -> None:
        net(x)
        _ = x @ x

    assert {"Global": 108, "Tries": 54, "Tries.fails": 54} == per_module(counted(run))
    with pytest.raises(ValueError), FlopCounterMode(display=False):
        net.fails(x)
    assert {"Global": 54} == per_module(counted(lambda: x @ x))


def test_backward_belongs_to_the_modules_of_forward() -> None:
    """Of those that ran within the block; another thread's products are not counted."""
    import threading

    layer = dj.nn.Linear(4, 5)
    out = layer(dj.ones(3, 4))
    assert {"Global": 120} == per_module(counted(lambda: out.sum().backward()))

    def elsewhere() -> None:
        thread = threading.Thread(target=lambda: layer(dj.ones(3, 4)))
        thread.start()
        thread.join()

    assert {} == per_module(counted(elsewhere))


def test_values_and_gradients_stay() -> None:
    """Counting changes nothing that a program computes."""
    layer = dj.nn.Conv2d(2, 4, 3, groups=2)
    x = dj.randn(1, 2, 6, 6, requires_grad=True)
    plain = layer(x)
    (expected,) = dj.autograd.grad(plain.square().sum(), x)
    with FlopCounterMode(display=False):
        out = layer(x)
        (found,) = dj.autograd.grad(out.square().sum(), x)

    np.testing.assert_array_equal(plain.detach().numpy(), out.detach().numpy())
    np.testing.assert_array_equal(expected.numpy(), found.numpy())


def test_empty_operands_count_nothing() -> None:
    """And are no error."""
    assert 0 == counted(lambda: dj.ones(0, 3) @ dj.ones(3, 2)).get_total_flops()


def test_the_table_is_printed(capsys: Any) -> None:
    """Modules to the depth asked for, the whole where no module has everything."""
    net = dj.nn.Sequential(dj.nn.Sequential(dj.nn.Linear(3, 3)))
    x = dj.ones(3, 3)
    with FlopCounterMode(depth=1) as counter:
        net(x)
        _ = x @ x
    lines = capsys.readouterr().out.splitlines()

    assert ["Module", "FLOP", "%", "Total"] == lines[0].split()
    assert ["Global", "108.000", "100.00%"] == lines[2].split()
    assert [["Sequential", "54.000", "50.00%"]] == [
        line.split() for line in lines if "Sequential" in line
    ]
    assert "Sequential.0.0" in counter.get_table(depth=3)
    with FlopCounterMode():
        pass
    assert ["Global", "0", "0%"] == capsys.readouterr().out.splitlines()[-1].split()


def test_old_and_foreign_arguments() -> None:
    """A warning for modules, a refusal for formulas."""
    with pytest.warns(UserWarning, match="mods"):
        FlopCounterMode(dj.nn.Linear(2, 2))
    with pytest.raises(TypeError, match="custom_mapping"):
        FlopCounterMode(custom_mapping={"op": len})
