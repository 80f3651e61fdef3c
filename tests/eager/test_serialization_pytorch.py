"""Checkpoints go between PyTorch and here, both ways."""

import io
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import FileFormatError, UnsafeFileError, UnsupportedError
from dynajit.core.types import dtypes

torch = pytest.importorskip("torch")

BOTH = pytest.mark.parametrize("new", [True, False], ids=["zip", "old"])
DTYPES = pytest.mark.parametrize("name", [dtype.name for dtype in dtypes.KNOWN])


def moved(value: Any, source: Any, target: Any, new: bool) -> Any:
    """`value` written by one library and read by the other, as weights only."""
    file = io.BytesIO()
    source.save(value, file, _use_new_zipfile_serialization=new)
    file.seek(0)
    return target.load(file, weights_only=True)


def nest_of(library: Any, name: str) -> dict[str, Any]:
    """Tensors that share memory, empty ones, and plain values."""
    x = library.arange(12).reshape(3, 4).to(getattr(library, name))
    return {
        "x": x,
        "turned": x.T,
        "row": x[1],
        "column": x[1:, 2],
        "one": x[2, 3],
        "wide": x[0].expand(2, 4),
        "empty": library.zeros(0, 3).to(x.dtype),
        "nest": [1, (2.5, None, True), OrderedDict(a={"b": x})],
        "size": x.shape,
        "dtype": x.dtype,
        "device": library.device("cpu"),
        "special": [1 << 70, float("inf"), b"\xff", {1}, 1j, "text"],
    }


def facts(nest: Any) -> Any:
    """What both libraries should agree about."""
    if hasattr(nest, "stride"):
        place = (nest.stride(), nest.storage_offset()) if nest.numel() else ()
        return tuple(nest.shape), str(nest.dtype).split(".")[1], place, nest.tolist()
    if isinstance(nest, dict):
        return [type(nest).__name__, [(key, facts(value)) for key, value in nest.items()]]
    if isinstance(nest, (list, tuple)) and type(nest).__name__ != "Size":
        return [facts(item) for item in nest]
    return type(nest).__name__.lower(), str(nest).replace("torch", "dynajit")


@BOTH
@DTYPES
def test_what_pytorch_wrote_is_read(name: str, new: bool) -> None:
    nest = nest_of(torch, name)
    read = moved(nest, torch, dj, new)

    assert facts(nest) == facts(read)
    read["x"].fill_(1)
    assert 1 == read["one"].item() == read["turned"][3, 2].item() == read["column"][0].item()


@BOTH
@DTYPES
def test_pytorch_reads_what_is_written_here(name: str, new: bool) -> None:
    if not new and dtypes.by_name(name) in dtypes.STORED:
        pytest.skip("PyTorch reads no files of the old form with tensors of this dtype")
    nest = nest_of(dj, name)
    read = moved(nest, dj, torch, new)

    assert facts(nest) == facts(read)
    read["x"].fill_(1)
    assert 1 == read["one"].item() == read["turned"][3, 2].item() == read["column"][0].item()


@BOTH
def test_what_was_read_may_be_written_again(new: bool) -> None:
    nest = nest_of(torch, "bfloat16")
    read = moved(moved(nest, torch, dj, new), dj, torch, not new)

    assert facts(nest) == facts(read)


def network(library: Any) -> Any:
    return library.nn.Sequential(
        library.nn.Conv2d(1, 2, 3), library.nn.Tanh(), library.nn.Flatten(),
        library.nn.Linear(8, 3),
    )  # fmt: skip


def trained(library: Any, kind: str) -> tuple[Any, Any]:
    """A network and its optimizer after a step."""
    module = network(library)
    optimizer = getattr(library.optim, kind)(module.parameters(), lr=0.1)
    module(library.arange(32.0).reshape(2, 1, 4, 4) / 32).sum().backward()
    optimizer.step()
    return module, optimizer


@BOTH
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
@pytest.mark.parametrize("there", [True, False], ids=["from_pytorch", "to_pytorch"])
def test_training_goes_on_in_the_other_library(kind: str, new: bool, there: bool) -> None:
    source, target = (torch, dj) if there else (dj, torch)
    module, optimizer = trained(source, kind)
    checkpoint = {"m": module.state_dict(), "o": optimizer.state_dict(), "epoch": 3}
    read = moved(checkpoint, source, target, new)
    other = network(target)
    other.load_state_dict(read["m"])
    continued = getattr(target.optim, kind)(other.parameters(), lr=0.5)
    continued.load_state_dict(read["o"])

    assert 3 == read["epoch"]
    assert OrderedDict is type(read["m"])
    for library, net, steps in ((source, module, optimizer), (target, other, continued)):
        steps.zero_grad()
        net(library.arange(32.0).reshape(2, 1, 4, 4) / 32).square().sum().backward()
        steps.step()
    for name, value in module.state_dict().items():
        wanted = torch.tensor(value.tolist())
        found = torch.tensor(other.state_dict()[name].tolist())
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@BOTH
def test_parameters_stay_parameters(new: bool) -> None:
    weight = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    weight.tag = [1]
    here = moved(weight, torch, dj, new)
    there = moved(here, dj, torch, new)

    assert (dj.nn.Parameter, False, [1]) == (type(here), here.requires_grad, here.tag)
    assert (torch.nn.Parameter, False, [1]) == (type(there), there.requires_grad, there.tag)


@BOTH
def test_leaves_keep_that_they_require_gradients(new: bool) -> None:
    here = moved([torch.ones(2, requires_grad=True), torch.ones(1)], torch, dj, new)
    there = moved(here, dj, torch, new)

    assert [True, False] == [x.requires_grad for x in here] == [x.requires_grad for x in there]


def test_files_may_be_mapped_by_both(tmp_path: Path) -> None:
    torch.save({"x": torch.arange(5.0)}, tmp_path / "there.pt")
    dj.save({"x": dj.arange(5.0)}, tmp_path / "here.pt")
    mapped = [
        dj.load(tmp_path / "there.pt", mmap=True)["x"].tolist(),
        torch.load(tmp_path / "here.pt", mmap=True)["x"].tolist(),
    ]

    assert [[0, 1, 2, 3, 4]] * 2 == mapped


def test_sparse_tensors_go_both_ways() -> None:
    with torch.sparse.check_sparse_tensor_invariants():
        there = torch.sparse_coo_tensor([[1, 0, 1], [0, 2, 0]], [1.0, 2.0, 3.0], (2, 3))
    here = dj.sparse_coo_tensor([[1, 0, 1], [0, 2, 0]], [1.0, 2.0, 3.0], (2, 3))

    for source, target, x in ((torch, dj, there), (dj, torch, here), (dj, dj, here.coalesce())):
        found = moved(x, source, target, True)
        assert x._indices().tolist() == found._indices().tolist()
        assert x._values().tolist() == found._values().tolist()
        assert x.is_coalesced() == found.is_coalesced()
    with pytest.raises(UnsupportedError, match="sparse parameter"):
        dj.save(dj.nn.Parameter(here), io.BytesIO())


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")  # once per process
def test_what_has_no_equal_here_is_refused_by_name() -> None:
    with pytest.raises(FileFormatError, match="compressed layouts"):
        moved(torch.eye(2).to_sparse_csr(), torch, dj, True)
    with pytest.raises(UnsafeFileError, match=r"torch\.nn\.modules\.linear\.Linear"):
        file = io.BytesIO()
        torch.save(torch.nn.Linear(1, 1), file)
        file.seek(0)
        dj.load(file)
    with pytest.raises(FileFormatError, match=r"torch\.nn\..*LinearCrossEntropyLoss.*no equal"):
        file = io.BytesIO()
        torch.save(torch.nn.LinearCrossEntropyLoss(2, 3), file)
        file.seek(0)
        dj.load(file, weights_only=False)


WHOLE = {
    "a chain": (torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)), (5, 3)),
    "recurrent": (torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True), (5, 2, 3)),
    "attention": (torch.nn.TransformerEncoderLayer(4, 2, 8, 0.0, activation="gelu"), (3, 2, 4)),
    "images": (
        torch.nn.Sequential(
            torch.nn.Conv2d(1, 2, 3, padding="same", padding_mode="reflect"),
            torch.nn.GroupNorm(2, 2),
            torch.nn.Upsample(scale_factor=2),
            torch.nn.PReLU(),
            torch.nn.ConvTranspose2d(2, 1, 2),
            torch.nn.Flatten(),
        ),
        (1, 1, 5, 5),
    ),
}


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_whole_modules_of_layers_compute_what_pytorch_computes(name: str, new: bool) -> None:
    layers, shape = WHOLE[name]
    file = io.BytesIO()
    torch.save(layers, file, _use_new_zipfile_serialization=new)
    file.seek(0)
    found = dj.load(file, weights_only=False)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    expected, actual = layers(torch.from_numpy(x)), found(dj.from_numpy(x))
    if isinstance(expected, tuple):
        expected, actual = expected[0], actual[0]

    np.testing.assert_allclose(expected.detach().numpy(), actual.detach().numpy(), atol=1e-5)
    assert list(layers.state_dict()) == list(found.state_dict())
    assert repr(layers) == repr(found)


def views_with_bits(t: Any) -> dict[str, Any]:
    """Tensors that PyTorch stores as others are, with a note that says what is meant."""
    x = t.tensor([[1 + 2j, 3 - 1j], [0.5j, -2 + 0j]])
    return {
        "x": x,
        "conjugate": x.conj(),
        "turned": x.mH,
        "row": x.conj()[1],
        "parameter": t.nn.Parameter(x.conj()),
        "leaf": x.conj().detach().requires_grad_(),
        "nest": [x.to(t.complex128).conj()],
    }


@BOTH
@pytest.mark.parametrize("source, target", [(torch, dj), (dj, torch)], ids=["read", "written"])
def test_conjugates_and_negated_numbers_stay_what_they_are(
    source: Any, target: Any, new: bool
) -> None:
    found = moved(views_with_bits(source), source, target, new)
    expected = views_with_bits(source)
    *_, (wanted,) = expected.values()
    assert wanted.tolist() == found["nest"][0].tolist()
    for name in list(expected)[:-1]:
        one, other = expected[name], found[name]
        assert (one.tolist(), one.requires_grad) == (other.tolist(), other.requires_grad), name


@BOTH
def test_the_imaginary_parts_of_conjugates_are_read(new: bool) -> None:
    x = torch.tensor([1 + 2j, 3 - 1j]).conj().imag
    assert [-2.0, 1.0] == moved(x, torch, dj, new).tolist()


@pytest.mark.parametrize("weights_only", [True, False])
def test_a_negated_view_is_read_negated(weights_only: bool) -> None:
    file = io.BytesIO()
    torch.save(torch._neg_view(torch.arange(6.0).reshape(2, 3).T), file)
    file.seek(0)
    assert [[0.0, -3.0], [-1.0, -4.0], [-2.0, -5.0]] == (
        dj.load(file, weights_only=weights_only).tolist()
    )
