"""`nn.utils.skip_init` against PyTorch."""

import pytest

import dynajit as dj

torch = pytest.importorskip("torch")


def test_shapes_are_those_of_the_class_and_no_random_number_is_drawn() -> None:
    dj.manual_seed(0)
    expected = dj.rand(2).tolist()
    dj.manual_seed(0)
    layer = dj.nn.utils.skip_init(dj.nn.Linear, 3, 2, bias=False, dtype=dj.float64)

    assert ((2, 3), dj.float64, None) == (layer.weight.shape, layer.weight.dtype, layer.bias)
    assert expected == dj.rand(2).tolist()


@pytest.mark.parametrize("name", ["ReLU", "Linear"])
def test_what_takes_no_device_is_refused(name: str) -> None:
    for library in (dj, torch):
        classes = {"ReLU": library.nn.ReLU, "Linear": int}
        with pytest.raises(RuntimeError, match="Module"):
            library.nn.utils.skip_init(classes[name])
