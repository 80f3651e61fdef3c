"""native_* functions and copies of views are PyTorch's."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj

RANDOM = np.random.default_rng(0)
INPUT = RANDOM.standard_normal((2, 4, 6))
WEIGHT, BIAS = RANDOM.standard_normal(4), RANDOM.standard_normal(4)


def arrays(found: Any) -> list[Any]:
    parts = found if isinstance(found, (tuple, list)) else (found,)
    return [(tuple(p.shape), str(p.dtype).rpartition(".")[2], p) for p in parts]


def numbers(tensor: Any) -> Any:
    tensor = tensor.detach()
    return tensor.numpy() if tensor.dtype.is_complex or "bool" in str(tensor.dtype) else (
        tensor.double().numpy()
    )  # fmt: skip


def compare(call: Any, tolerance: float = 1e-6) -> None:
    torch = pytest.importorskip("torch")
    for (shape, kind, one), (other_shape, other_kind, other) in zip(
        arrays(call(torch)), arrays(call(dj)), strict=True
    ):
        assert (shape, kind) == (other_shape, other_kind)
        np.testing.assert_allclose(numbers(other), numbers(one), rtol=tolerance, atol=tolerance)


def normalized(m: Any, dtype: str, name: str) -> Any:
    kind = getattr(m, dtype)
    x, w, b = (m.tensor(array).to(kind) for array in (INPUT, WEIGHT, BIAS))
    if name == "layer":
        return m.native_layer_norm(x, [6], m.ones(6, dtype=kind), None, 1e-5)
    if name == "group":
        return m.native_group_norm(x, w, b, 2, 4, 6, 2, 1e-5)
    running = m.zeros(4, dtype=kind), m.ones(4, dtype=kind)
    found = m.native_batch_norm(x, w, b, *running, name == "batch", 0.1, 1e-5)
    return (*found, *running)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["layer", "group", "batch", "batch in evaluation"])
def test_normalizations_give_their_statistics(name: str, dtype: str) -> None:
    """And write running ones."""
    tolerance = {"float16": 4e-3, "bfloat16": 3e-2}.get(dtype, 1e-5)
    compare(lambda m: normalized(m, dtype, name), tolerance)


def test_gradients_of_a_group_norm_are_those_of_all_results() -> None:
    """Compiled in one graph."""
    torch = pytest.importorskip("torch")

    def program(m: Any, x: Any) -> Any:
        return m.native_group_norm(x, None, None, 2, 4, 6, 2, 1e-5)

    found = []
    for m in (torch, dj):
        x = m.tensor(INPUT, requires_grad=True)
        result, mean, deviation = program(m, x)
        ((result**3).sum() + (mean**2).sum() + deviation.sum()).backward()
        found.append(x.grad.numpy())
    np.testing.assert_allclose(found[1], found[0], atol=1e-9)
    compiled = dj.compile(lambda x: program(dj, x), fullgraph=True)
    for one, other in zip(compiled(dj.tensor(INPUT)), program(dj, dj.tensor(INPUT)), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-12)


def test_gradients_of_a_layer_norm_are_those_of_its_result_alone() -> None:
    """PyTorch ignores those of the statistics."""
    x = dj.tensor(INPUT, requires_grad=True)
    assert [True, False, False] == [
        part.requires_grad for part in dj.native_layer_norm(x, [6], None, None, 1e-5)
    ]


def test_dropout_gives_its_mask() -> None:
    """The same for eager and compiled calls."""
    x = dj.arange(1.0, 2001.0)
    compiled = dj.compile(lambda x: dj.native_dropout(x, 0.25, True), fullgraph=True)
    found = []
    for function in (lambda x: dj.native_dropout(x, 0.25, True), compiled):
        dj.manual_seed(3)
        result, mask = function(x)
        assert dj.bool is mask.dtype
        np.testing.assert_allclose(result.numpy(), (x * mask / 0.75).numpy(), rtol=1e-6)
        found.append(mask.numpy())
    np.testing.assert_array_equal(*found)
    assert 0.75 == pytest.approx(found[0].mean(), abs=0.05)
    for p, train in ((0.5, False), (1.0, True), (0.0, True)):
        compare(lambda m, p=p, train=train: m.native_dropout(m.ones(3), p, train))
    with pytest.raises(ValueError, match="between 0 and 1"):
        dj.native_dropout(x, 2.0, True)


COPIES = {
    "alias_copy": (), "as_strided_copy": ((2, 2), (1, 2), 1), "detach_copy": (),
    "diagonal_copy": (1, 1, 2), "expand_copy": ((3, 2, 4, 6),), "permute_copy": ((2, 0, 1),),
    "select_copy": (1, 2), "slice_copy": (2, 1, 5, 2), "split_copy": (4, 2),
    "split_with_sizes_copy": ([1, 5], 2), "squeeze_copy": (), "transpose_copy": (0, 2),
    "unbind_copy": (1,), "unfold_copy": (2, 3, 2), "unsqueeze_copy": (1,), "view_copy": ((8, 6),),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_views(name: str) -> None:
    """They share no memory, and have a derivative."""
    compare(lambda m: getattr(m, name)(m.tensor(INPUT), *COPIES[name]))
    base = dj.tensor(INPUT)
    found = getattr(dj, name)(base, *COPIES[name])
    parts = found if isinstance(found, tuple) else (found,)
    before = [part.tolist() for part in parts]
    base.zero_()
    assert before == [part.tolist() for part in parts]
    if name == "detach_copy":
        return
    leaf = dj.tensor(INPUT, requires_grad=True)
    found = getattr(dj, name)(leaf, *COPIES[name])
    dj.cat([part.reshape(-1) for part in (found if isinstance(found, tuple) else (found,))]
           ).sum().backward()  # fmt: skip
    assert leaf.grad is not None


def test_copies_of_other_views() -> None:
    """Of matrices, complex numbers, other dtypes."""
    compare(lambda m: m.t_copy(m.tensor(INPUT[0])))
    compare(lambda m: m.view_as_complex_copy(m.tensor(INPUT[..., :2])))
    compare(lambda m: m.view_as_real_copy(m.tensor(INPUT + 1j)))
    compare(lambda m: m.view_copy(m.tensor(INPUT), m.int64))
    compare(lambda m: m.squeeze_copy(m.ones(1, 2, 1), 0))
    compare(lambda m: m.squeeze_copy(m.ones(1, 2, 1), (0, 2)))
    compare(lambda m: m.slice_copy(m.tensor(INPUT), -1, None, -2))
    compiled = dj.compile(lambda x: dj.transpose_copy(x, 0, 1) * 2, fullgraph=True)
    assert [[2.0], [2.0]] == compiled(dj.ones(1, 2)).tolist()
