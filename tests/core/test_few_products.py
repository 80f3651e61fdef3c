"""Products of few rows or columns: the bits of PyTorch's MKL on CPUs of AMD."""

import itertools

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.arrays import _products
from dynajit.core.arrays.products import matmul, matmul_onto

torch = pytest.importorskip("torch")

random = np.random.default_rng(6)

pytestmark = pytest.mark.skipif(
    not (_products.ROUNDS_TERMS_OF_FEW and "avx512" in _products.addresses())
    or not torch.backends.mkl.is_available(),
    reason="the order of MKL's sums is known for CPUs of AMD with AVX-512",
)

INNER = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 31, 37, 64, 100, 255, 385, 1000)
FEW = (
    *(
        (2, 2),
        (2, 40),
        (3, 7),
        (3, 64),
        (3, 101),
        (4, 10),
        (7, 11),
        (8, 5),
        (9, 6),
        (16, 2),
        (33, 3),
    ),
    *((64, 10), (100, 7), (130, 9), (300, 11), (5, 8), (21, 4)),
)
VECTORS = tuple(
    shape for size in (2, 3, 4, 5, 6, 7, 10, 33, 100) for shape in ((1, size), (size, 1))
)
TURNS = tuple(itertools.product((False, True), repeat=2))


@pytest.fixture(autouse=True)
def one_thread():
    """Sums of MKL depend on the threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def threads():
    before = dj.get_num_threads()
    yield dj.set_num_threads
    dj.set_num_threads(before)


def drawn(*shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def laid_out(rows: int, columns: int, is_turned: bool, shift: int = 0) -> np.ndarray:
    """A matrix that lies in rows, or in columns, so many floats behind a multiple of 64 bytes."""
    size = rows * columns
    memory = np.empty(size + 32, np.float32)
    start = -(memory.ctypes.data // 4) % 16 + shift
    flat = memory[start : start + size]
    flat[...] = drawn(size)
    return flat.reshape(columns, rows).T if is_turned else flat.reshape(rows, columns)


def assert_same_bits(expected, actual) -> None:
    assert actual.shape == tuple(expected.shape)
    assert (expected.numpy() == actual).all()


@pytest.mark.parametrize("turned", TURNS)
@pytest.mark.parametrize("shapes", [FEW, VECTORS], ids=["matrices", "vectors"])
def test_bits_are_pytorchs(shapes, turned) -> None:
    for (n, m), k in itertools.product(shapes, INNER):
        a, b = laid_out(n, k, turned[0]), laid_out(k, m, turned[1])

        assert_same_bits(torch.mm(torch.from_numpy(a), torch.from_numpy(b)), matmul(a, b))


@pytest.mark.parametrize("turned", TURNS)
def test_matrices_may_begin_at_any_float(turned) -> None:
    for n, m in ((9, 10), (3, 18), (64, 3)):
        for k, left, right in itertools.product((13, 37, 64), range(5), range(5)):
            a, b = laid_out(n, k, turned[0], left), laid_out(k, m, turned[1], right)

            assert_same_bits(torch.mm(torch.from_numpy(a), torch.from_numpy(b)), matmul(a, b))


def test_vectors_may_begin_at_any_float() -> None:
    for size, k, left, right in itertools.product((3, 6, 33), (13, 64), range(4), range(4)):
        a, b = laid_out(size, k, False, left), laid_out(k, 1, True, right)

        assert_same_bits(torch.mm(torch.from_numpy(a), torch.from_numpy(b)), matmul(a, b))


@pytest.mark.parametrize("turned", TURNS[:3])
def test_sums_go_on_from_a_bias_as_in_pytorch(turned) -> None:
    """Of two matrices that both lie in columns the bias comes last in PyTorch."""
    for (n, m), k in itertools.product((*FEW, *VECTORS, (12, 40), (64, 100)), INNER):
        a, b, bias = laid_out(n, k, turned[0]), laid_out(k, m, turned[1]), drawn(m)
        expected = torch.addmm(*map(torch.from_numpy, (bias, a, b)))

        assert_same_bits(expected, matmul_onto(bias, a, b))


@pytest.mark.parametrize("turned", TURNS)
@pytest.mark.parametrize("count", [1, 2, 7])
def test_stacks_have_the_bits_of_pytorchs(turned, count) -> None:
    for n, k, m in [(2, 3, 4), (4, 4, 4), (7, 7, 8), (8, 16, 8), (3, 64, 64), (64, 100, 10)]:
        a = drawn(count, k, n).swapaxes(1, 2) if turned[0] else drawn(count, n, k)
        b = drawn(count, m, k).swapaxes(1, 2) if turned[1] else drawn(count, k, m)

        assert_same_bits(torch.bmm(torch.from_numpy(a), torch.from_numpy(b)), matmul(a, b))


@pytest.mark.parametrize("shape", [(1, 5, 7), (3, 5, 7), (2, 3, 1, 7), (4, 6, 300)])
def test_stacks_of_rows_are_one_product(shape) -> None:
    a, b = drawn(*shape), drawn(9, shape[-1]).T

    assert_same_bits(torch.from_numpy(a) @ torch.from_numpy(b), matmul(a, b))


@pytest.mark.parametrize(
    ("n", "k", "m"),
    [(6001, 100, 10), (70001, 64, 1), (3, 700, 2100), (1, 700, 7001), (6001, 99, 9)],
)
@pytest.mark.parametrize("turned", TURNS)
def test_bits_do_not_depend_on_threads(threads, n, k, m, turned) -> None:
    a, b = laid_out(n, k, turned[0]), laid_out(k, m, turned[1])
    found = []
    for count in (1, 2, 3, 5):
        threads(count)
        found.append(matmul(a, b))

    assert all((other == found[0]).all() for other in found[1:])


@pytest.mark.parametrize("turned", TURNS)
def test_compiled_products_have_the_same_bits(turned) -> None:
    shapes = [(32, 4, 8), (32, 4, 3), (9, 8, 8), (9, 8, 6), (64, 20, 9), (3, 50, 64), (2, 300, 20)]
    for n, k, m in [*shapes, (64, 100, 10), (130, 7, 7), (600, 64, 11), (16, 300, 30)]:
        a, b = drawn(*((k, n) if turned[0] else (n, k))), drawn(*((m, k) if turned[1] else (k, m)))

        def product(a, b):
            return (a.t() if turned[0] else a) @ (b.t() if turned[1] else b)

        tensors = dj.from_numpy(a), dj.from_numpy(b)
        found = dj.compile(product, fullgraph=True)(*tensors)
        np.testing.assert_array_equal(product(*tensors).numpy(), found.numpy())


def test_a_layer_and_its_gradients_have_the_bits_of_pytorchs() -> None:
    for batch, inputs, outputs in [
        (32, 4, 1),
        (64, 1000, 100),
        (64, 100, 10),
        (7, 13, 3),
        (2, 5, 9),
    ]:
        x, weight, bias = drawn(batch, inputs), drawn(outputs, inputs), drawn(outputs)
        slope = drawn(batch, outputs)
        found = []
        for lib in (torch, dj):
            tensors = [lib.from_numpy(v.copy()).requires_grad_(True) for v in (x, weight, bias)]
            y = lib.nn.functional.linear(*tensors)
            y.backward(lib.from_numpy(slope))
            found.append([y.detach().numpy(), *(t.grad.numpy() for t in tensors)])

        for expected, actual in zip(*found, strict=True):
            np.testing.assert_array_equal(expected, actual)


def test_training_has_the_losses_of_pytorch() -> None:
    """Step by step, eager and compiled: nothing grows from rounding."""
    x, y = drawn(64, 300), drawn(64, 10)

    def losses(lib, wrap, state):
        torch_like = lib.nn
        model = torch_like.Sequential(
            torch_like.Linear(300, 100), torch_like.ReLU(), torch_like.Linear(100, 10)
        )
        model.load_state_dict({name: lib.from_numpy(v.copy()) for name, v in state.items()})
        optimizer = lib.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
        run, found = wrap(model), []
        for _ in range(40):
            loss = torch_like.functional.mse_loss(
                run(lib.from_numpy(x)), lib.from_numpy(y), reduction="sum"
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    state = {"0.weight": drawn(100, 300) / 20, "0.bias": drawn(100) / 20}
    state |= {"2.weight": drawn(10, 100) / 10, "2.bias": drawn(10) / 10}
    expected = losses(torch, lambda model: model, state)

    assert expected == losses(dj, lambda model: model, state)
    assert expected == losses(dj, dj.compile, state)
