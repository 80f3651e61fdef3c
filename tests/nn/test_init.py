"""Initial values that are structures: identities and orthogonal matrices."""

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (6, 2, 3), (2, 3, 2, 2)])
def test_orthogonal_rows_or_columns_have_the_gains_length(shape: tuple[int, ...]) -> None:
    """The shorter of the two sides of the matrix is orthogonal; the same draw for the same seed."""
    dj.manual_seed(0)
    weight = dj.empty(*shape)
    result = dj.nn.init.orthogonal_(weight, gain=1.5)
    matrix = weight.numpy().reshape(shape[0], -1).astype(np.float64)
    product = matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix

    assert result is weight
    np.testing.assert_allclose(product, 2.25 * np.eye(len(product)), atol=1e-5)
    dj.manual_seed(0)
    assert dj.equal(weight, dj.nn.init.orthogonal_(dj.empty(*shape), gain=1.5))


def test_orthogonal_matrices_have_signs_of_both_kinds() -> None:
    """The first entry is not always of one sign."""
    dj.manual_seed(0)
    first = [dj.nn.init.orthogonal_(dj.empty(3, 3))[0, 0].item() > 0 for _ in range(40)]

    assert 8 < sum(first) < 32


@pytest.mark.parametrize("shape", [(4, 4), (2, 5)])
def test_identities_equal_pytorchs(shape: tuple[int, ...]) -> None:
    """Matrices with ones on the diagonal."""
    expected = torch.nn.init.eye_(torch.full(shape, 7.0))

    assert expected.tolist() == dj.nn.init.eye_(dj.full(shape, 7.0)).tolist()


@pytest.mark.parametrize(
    ("shape", "groups"), [((4, 3, 3), 1), ((4, 2, 3, 4), 2), ((3, 5, 1, 2, 3), 1), ((6, 1, 3), 3)]
)
def test_dirac_weights_equal_pytorchs(shape: tuple[int, ...], groups: int) -> None:
    """Per group."""
    expected = torch.nn.init.dirac_(torch.full(shape, 7.0), groups)

    assert expected.tolist() == dj.nn.init.dirac_(dj.full(shape, 7.0), groups).tolist()


REFUSED = {
    "eye": lambda t: t.nn.init.eye_(t.ones(3)),
    "dirac": lambda t: t.nn.init.dirac_(t.ones(3, 3)),
    "groups": lambda t: t.nn.init.dirac_(t.ones(3, 3, 3), 2),
    "orthogonal": lambda t: t.nn.init.orthogonal_(t.ones(3)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_dims_that_do_not_fit_are_refused(name: str) -> None:
    """PyTorch's ValueError."""
    for library in (torch, dj):
        with pytest.raises(ValueError, match=r"dimensions|divisible"):
            REFUSED[name](library)


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 2, 3)])
def test_empty_weights_are_left_alone(shape: tuple[int, ...]) -> None:
    """With PyTorch's warning: a layer without inputs has nothing to draw."""
    for library in (torch, dj):
        for name in ("kaiming_uniform_", "kaiming_normal_"):
            with pytest.warns(UserWarning, match="zero-element"):
                getattr(library.nn.init, name)(library.empty(*shape))
        with pytest.warns(UserWarning, match="zero-element"):
            layer = library.nn.Linear(0, 2)
        assert [[0.0, 0.0]] == layer(library.ones(1, 0)).tolist()


@pytest.mark.parametrize("name", ["linear", "conv2d", "conv_transpose3d", "tanh", "relu", "selu"])
def test_gains_equal_pytorchs(name: str) -> None:
    assert dj.nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
