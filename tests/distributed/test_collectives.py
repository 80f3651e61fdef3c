"""Every collective, by reduction, dtype, layout and group: what NumPy and PyTorch's Gloo give."""

import importlib
import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
from tests.support.ranks import Raised, on_ranks

pytestmark = pytest.mark.one_python

FLOATS = "float16 bfloat16 float32 float64"
DTYPES = f"{FLOATS} int8 uint8 int16 int32 int64 bool complex64 complex128".split()
OPERATIONS = ["SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG"]
LAYOUTS = ["plain", "transposed", "stepped", "expanded", "conjugate", "empty"]
SHAPE = (4, 6)
"""Of tensors that are split: into 2 and into 4."""


def values_of(rank: int, shape: tuple[int, ...] = SHAPE) -> Any:
    """Small integers of a process: no dtype rounds their sums and products."""
    return np.random.default_rng(rank).integers(0, 4, shape).astype(np.float64)


def is_defined(op: str, dtype: str) -> bool:
    """Whether a reduction of a dtype is not refused."""
    if dtype.startswith("complex"):
        return op in ("SUM", "AVG")
    is_floating = dtype in FLOATS.split()
    return not (op.startswith("B") and is_floating) and (op != "AVG" or is_floating)


def joined(parts: Any, op: str, dtype: str) -> Any:
    """What NumPy makes of the values of all processes, the first dim of `parts`."""
    if dtype == "bool":
        parts = parts.astype(bool)
        by_truth = {"SUM": "any", "MAX": "any", "BOR": "any", "BXOR": None}
        name = by_truth.get(op, "all")
        return np.logical_xor.reduce(parts) if name is None else getattr(parts, name)(0)
    if op.startswith("B"):
        ufunc = {"BAND": np.bitwise_and, "BOR": np.bitwise_or, "BXOR": np.bitwise_xor}[op]
        return ufunc.reduce(parts.astype(np.int64))
    names = {"SUM": "sum", "PRODUCT": "prod", "MIN": "min", "MAX": "max", "AVG": "mean"}
    return getattr(parts, names[op])(0)


def read(tensor: Any, library: Any) -> Any:
    wide = library.complex128 if tensor.dtype.is_complex else library.float64
    return tensor.to(wide).resolve_conj().numpy().copy()


def reductions(name: str = "dynajit") -> Iterator[tuple[tuple[str, ...], Callable[[], Any]]]:
    """Calls with a reduction, by name, reduction and dtype."""
    library, there = importlib.import_module(name), importlib.import_module(f"{name}.distributed")
    rank, size = there.get_rank(), there.get_world_size()

    def called(call: str, op: str, dtype: str) -> Any:
        kind = getattr(there.ReduceOp, op)
        x = library.tensor(values_of(rank)).to(getattr(library, dtype))
        part = library.zeros_like(x[: 4 // size])
        if call == "all_reduce":
            there.all_reduce(x, kind)
            return read(x, library)
        if call == "reduce":
            there.reduce(x, 1, kind)
            return read(x, library) if rank == 1 else None
        if call == "reduce_scatter":
            there.reduce_scatter(part, list(x.chunk(size)), kind)
        else:
            there.reduce_scatter_tensor(part, x, kind)
        return read(part, library)

    for call in ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor"):
        for dtype in DTYPES:
            for op in OPERATIONS:
                if is_defined(op, dtype):
                    yield (call, op, dtype), partial(called, call, op, dtype)


def every_reduction(name: str = "dynajit") -> dict[tuple[str, ...], Any]:
    """Results of `reductions`; text of what the library does not offer."""
    found = {}
    for key, call in reductions(name):
        try:
            found[key] = call()
        except (RuntimeError, ValueError) as error:
            found[key] = str(error)
    return found


def laid(layout: str, rank: int, dtype: Any) -> Any:
    """The values of a process in a tensor that lies in memory in some way."""
    values = dj.tensor(values_of(rank))
    if layout == "empty":
        return values[:0].to(dtype)
    if layout == "conjugate":
        return (values * 1j).conj() if dtype is dj.complex128 else values.to(dtype)
    values = values.to(dtype)
    if layout == "transposed":
        return values.t().contiguous().t()
    if layout == "stepped":
        return dj.stack([values, values + 1], -1)[..., 0]
    return values[:1].expand(4, 6) if layout == "expanded" else values


def movements() -> dict[tuple[str, str, str], Any]:
    """Results of what only moves values, by name, layout and dtype; half of it asynchronous."""
    rank, size = dist.get_rank(), dist.get_world_size()
    found: dict[tuple[str, str, str], Any] = {}

    def done(work: Any) -> None:
        if work is not None:
            assert work.wait()

    for dtype in ("float64", "bfloat16", "bool", "complex128"):
        for turn, layout in enumerate(LAYOUTS):
            later = turn % 2 == 1
            x = laid(layout, rank, getattr(dj, dtype))
            own = x.clone()
            blank = [dj.zeros_like(own) for _ in range(size)]
            results = {}
            if layout != "expanded":  # whose elements share memory: nothing writes them
                sent = laid(layout, rank, getattr(dj, dtype))
                done(dist.broadcast(sent, 1, async_op=later))
                results["broadcast"] = sent
            outputs = [output.clone() for output in blank]
            done(dist.all_gather(outputs, x, async_op=later))
            results["all_gather"] = dj.stack(outputs)
            whole = dj.zeros((size * x.shape[0], 6), dtype=x.dtype)
            done(dist.all_gather_into_tensor(whole, x, async_op=later))
            results["all_gather_into_tensor"] = whole.reshape(size, -1, 6)
            outputs = [output.clone() for output in blank]
            done(dist.gather(x, outputs if rank == 1 else None, 1, async_op=later))
            results["gather"] = dj.stack(outputs)
            part = dj.zeros_like(own.chunk(size)[0])
            done(dist.scatter(part, [*x.chunk(size)] * 1 if rank == 1 and x.numel() else
                              [x] * size if rank == 1 else None, 1, async_op=later))  # fmt: skip
            results["scatter"] = part
            exchanged = dj.zeros_like(own)
            done(dist.all_to_all_single(exchanged, x, async_op=later))
            results["all_to_all_single"] = exchanged
            if x.numel():
                parts = [dj.zeros_like(own.chunk(size)[0]) for _ in range(size)]
                done(dist.all_to_all(parts, [*x.chunk(size)], async_op=later))
                results["all_to_all"] = dj.cat(parts)
            for name, tensor in results.items():
                found[name, layout, dtype] = read(tensor, dj)
            assert read(x, dj).tolist() == read(own, dj).tolist()
    return found


def moved(name: str, layout: str, dtype: str, rank: int, size: int) -> Any:
    """What `movements` must give."""
    inputs = []
    for other in range(size):
        value = values_of(other)
        if layout == "empty":
            value = value[:0]
        elif layout == "expanded":
            value = np.broadcast_to(value[:1], value.shape)
        if dtype == "bool":
            value = value.astype(bool)
        elif layout == "conjugate" and dtype == "complex128":
            value = value * -1j
        inputs.append(value)
    if name == "broadcast":
        return inputs[1]
    if name == "gather":
        return np.stack(inputs) if rank == 1 else np.zeros_like(np.stack(inputs))
    if name.startswith("all_gather"):
        return np.stack(inputs)
    split = [np.array_split(value, size) for value in inputs]
    if name == "scatter":
        return split[1][rank]
    return np.concatenate([parts[rank] for parts in split])


def further() -> dict[str, Any]:
    """0-dim tensors, uneven parts, several tensors at once, factors, groups."""
    rank, size = dist.get_rank(), dist.get_world_size()
    found: dict[str, Any] = {}
    number = dj.tensor(float(rank))
    dist.all_reduce(number)
    found["number"] = number.item()
    numbers = [dj.tensor(0.0) for _ in range(size)]
    dist.all_gather(numbers, dj.tensor(float(rank)))
    found["numbers"] = [value.item() for value in numbers]
    sent = [rank + i for i in range(size)]
    received = [rank + i for i in range(size)]
    output = dj.zeros(sum(received), 2)
    dist.all_to_all_single(output, dj.full((sum(sent), 2), float(rank)), received, sent)
    found["uneven"] = output[:, 0].tolist()
    first, second = dj.ones(2, 3).t(), dj.full((4,), float(rank))
    dist.all_reduce_coalesced([first, second])
    found["coalesced"] = (first.tolist(), second.tolist())
    scaled = dj.ones(2)
    dist.all_reduce(scaled, dist._make_nccl_premul_sum(rank + 1.0))
    found["scaled"] = scaled.tolist()
    members = [size - 1, 0]
    group = dist.new_group(members, sort_ranks=False)
    x = dj.tensor([float(rank)])
    gathered = [dj.zeros(1), dj.zeros(1)]
    dist.all_gather(gathered, x, group=group)
    dist.all_reduce(x, group=group)
    found["group"] = (x.item(), [value.item() for value in gathered], dist.get_rank(group))
    if rank in members:
        y = dj.tensor([float(rank)])
        dist.broadcast(y, 0, group=group)
        found["root"] = y.item()
    z = dj.tensor([float(rank)])
    following = dist.irecv(dj.zeros(1), (rank - 1) % size)
    dist.isend(z, (rank + 1) % size).wait()
    assert following is not None
    following.wait()
    found["message"] = following.result()[0].item()
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, z, (rank + 1) % size, tag=3),
            dist.P2POp(dist.irecv, x, (rank - 1) % size, tag=3),
        ]
    )
    for work in works:
        work.wait()
    found["batch"] = x.item()
    futures = dist.all_reduce(z, async_op=True).get_future().then(lambda f: f.wait()[0] * 2)
    found["future"] = futures.wait().item()
    return found


def versions() -> list[str]:
    """What backward says of a saved tensor that a collective wrote."""
    said = []
    writes = [
        lambda y: dist.all_reduce(y),
        lambda y: dist.all_reduce(y.t()),
        lambda y: dist.broadcast(y, 0),
        lambda y: dist.all_gather_into_tensor(y, dj.ones(4 // dist.get_world_size())),
        lambda y: dist.all_reduce(y, async_op=True).wait(),
    ]
    for write in writes:
        x = dj.ones(2, 2, requires_grad=True)
        y = dj.ones(2, 2) * (dist.get_rank() + 1)
        loss = (x * y).sum()
        write(y)
        if write is writes[2] and dist.get_rank() == 0:
            loss.backward()  # the root is read, and not written
            said.append("modified by an inplace operation")
            continue
        with pytest.raises(RuntimeError) as raised:
            loss.backward()
        said.append(str(raised.value))
    return said


def _run_torch(rank: int, size: int, folder: str) -> None:
    import torch.distributed as there

    store = there.FileStore(f"{folder}/store", size)
    there.init_process_group("gloo", store=store, rank=rank, world_size=size)
    Path(folder, str(rank)).write_bytes(pickle.dumps(every_reduction("torch")))
    there.barrier()
    there.destroy_process_group()


@pytest.fixture(scope="module")
def on_two() -> list[list[Any]]:
    return on_ranks([every_reduction, movements, further, versions], 2)


@pytest.fixture(scope="module")
def on_four() -> list[list[Any]]:
    return on_ranks([every_reduction, movements, further, versions], 4)


@pytest.fixture(params=[2, 4])
def results(request: Any) -> Any:
    """Results by function and rank, of both numbers of processes."""
    found = request.getfixturevalue("on_two" if request.param == 2 else "on_four")
    raised = [result for by_rank in found for result in by_rank if isinstance(result, Raised)]
    assert not raised, raised[0]
    return found


def reduced(key: tuple[str, ...], rank: int, size: int) -> Any:
    """What `every_reduction` must give."""
    call, op, dtype = key
    expected = joined(np.stack([values_of(other) for other in range(size)]), op, dtype)
    if call.startswith("reduce_scatter"):
        return np.array_split(expected, size)[rank]
    return None if call == "reduce" and rank != 1 else expected


def test_reductions_of_every_dtype_are_numpys(results: Any) -> None:
    size = len(results[0])
    for rank, found in enumerate(results[0]):
        assert len(found) == 4 * sum(is_defined(op, dtype) for op in OPERATIONS for dtype in DTYPES)
        for key, value in found.items():
            expected = reduced(key, rank, size)
            assert (value is None) is (expected is None)
            if value is not None:
                rounding = 2**-8 if key[1] == "AVG" and key[2] == "bfloat16" else 1e-3
                np.testing.assert_allclose(value, expected, rtol=rounding, err_msg=str((rank, key)))


def test_values_that_are_moved_are_numpys(results: Any) -> None:
    """From and to tensors that lie in memory in any way."""
    size = len(results[1])
    for rank, found in enumerate(results[1]):
        for key, value in found.items():
            expected = moved(*key, rank, size)
            np.testing.assert_array_equal(value, expected, err_msg=str((rank, key)))


def test_further_forms(results: Any) -> None:
    size = len(results[2])
    last = size - 1
    for rank, found in enumerate(results[2]):
        place = {last: 0, 0: 1}.get(rank, -1)
        assert sum(range(size)) == found["number"]
        assert list(range(size)) == found["numbers"]
        assert [float(r) for r in range(size) for _ in range(r + rank)] == found["uneven"]
        assert ([[float(size)] * 2] * 3, [float(sum(range(size)))] * 4) == found["coalesced"]
        assert [sum(range(1, size + 1))] * 2 == found["scaled"]
        inside = (float(last), [float(last), 0.0], place)
        assert (inside if place >= 0 else (float(rank), [0.0, 0.0], -1)) == found["group"]
        assert (0.0 if place >= 0 else None) == found.get("root")
        assert (rank - 1) % size == found["message"] == found["batch"]
        assert 2.0 * sum(range(size)) == found["future"]


def test_what_a_collective_writes_is_not_used_by_backward(results: Any) -> None:
    for said in results[3]:
        assert 5 == len(said)
        assert all("modified by an inplace operation" in text for text in said)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_reductions_are_those_of_gloo(on_two: list[list[Any]], tmp_path: Path) -> None:
    """Where PyTorch has them."""
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_gloo_available():
        pytest.skip("this PyTorch was built without Gloo")
    spawned = multiprocessing.get_context("spawn")
    started = [
        spawned.Process(target=_run_torch, args=(rank, 2, str(tmp_path))) for rank in range(2)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(100)
    compared = 0
    for rank, ours in enumerate(on_two[0]):
        theirs = pickle.loads((tmp_path / str(rank)).read_bytes())
        for key, value in ours.items():
            expected = theirs[key]
            if isinstance(expected, np.ndarray) and isinstance(value, np.ndarray):
                compared += 1
                np.testing.assert_array_equal(value, expected, err_msg=str((rank, key)))
    assert compared > 200
