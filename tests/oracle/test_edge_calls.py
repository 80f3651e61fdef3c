"""Calls at the edges of what functions take give PyTorch's values, dtypes and strides.

One call a line of `CALLS`, by the kind of edge; a few statements have "; " between them, and the
last one is looked at. Each is made eagerly and in a compiled function. Calls that raise stand in
`tests/support/pytorch/bad_calls.py`. Skipped without PyTorch.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any, Final

import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

from tests.oracle.test_error_classes import names_of  # noqa: E402

CALLS: Final[dict[str, str]] = {
    "an index without elements has any shape": """
zeros(3, 5).scatter(0, zeros(0, dtype=L.int64), ones(3, 5))
zeros(3, 5).scatter(0, zeros(0, dtype=L.int64), 2.0)
zeros(4).scatter(0, zeros((0, 4), dtype=L.int64), ones(0, 4))
zeros(3, 5).scatter(1, zeros((1, 0), dtype=L.int64), ones(2, 3), reduce="add")
x = zeros(3, 5); x.scatter_(1, tensor([], dtype=L.int64), tensor([])); x
x = ones(3, 5); x.scatter_add_(0, zeros(0, dtype=L.int64), ones(3, 5)); x
x = ones(3, 5); x.scatter_reduce_(0, zeros(0, dtype=L.int64), ones(3, 5), "amax"); x
ones(3, 5).scatter_reduce(0, tensor([], dtype=L.int64), ones(3, 5), "mean")
x = ones(3, 4, 5); x.index_reduce_(1, zeros(0, dtype=L.int64), ones(3, 0, 5), "amax"); x
zeros(3, 5).gather(0, zeros(0, dtype=L.int64))
""",
    "tensors without elements or dims": """
L.cat([zeros(0), zeros(0)], 1)
L.cat([zeros(0), ones(2, 3)], 1)
L.cat([zeros(0), ones(2, 3), zeros(0)], 0)
L.block_diag()
L.median(zeros(0))
L.nanmedian(zeros(0))
x = zeros(1); x.index_copy_(0, tensor([0]), tensor(5.0)); x
x = zeros(()); x.index_copy_(0, tensor(0), tensor(5.0)); x
zeros(0).data_ptr()
zeros(3)[3:].data_ptr()
zeros(2)[:0].clone().data_ptr()
""",
    "infinite and complex": """
L.gradient(tensor([inf, 1.0, 2.0, inf, 3.0]))
L.gradient(tensor([-inf, -inf, inf, nan, 4.0]))
L.gradient(tensor([[1.0, 2, 4], [5, 7, 9]]), spacing=2.0)
L.gradient(tensor([1.0, 2, 4, 8]), spacing=[tensor([0.0, 1, 3, 4])], edge_order=2)
x = tensor([complex(inf, 0), complex(-inf, 0)]); L.logaddexp(x, x)
L.nan_to_num(tensor([complex(nan, 12), complex(inf, nan), complex(-inf, 2)]), nan=123)
L.nan_to_num(tensor([complex(nan, 12), complex(inf, nan)]), 0.5, 7.0, -7.0)
L.logspace(1j, 2, 3, dtype=L.complex128)
L.logspace(1j, 2, 3).dtype
float(tensor(1 + 0j))
int(tensor(2 + 0j))
""",
    "numbers beside tensors": """
L.add(tensor([True]), tensor([True]), alpha=2)
L.add(tensor([True, False]), tensor([True, True]), alpha=True)
L.add(tensor([1, 2]), tensor([3, 4]), alpha=2)
L.add(tensor([1.5, 2.0]), tensor([3, 4]), alpha=0.5)
L.addcmul(tensor([1, 2]), tensor([1, 2]), tensor([3, 4]), value=1.5)
L.addcmul(tensor([1.0, 2.0]), tensor([1, 2]), tensor([3, 4]), value=1.5)
L.addcdiv(tensor([1, 2]), tensor([1.0, 2.0]), tensor([3, 4]), value=2)
tensor([1, 2, 3]).masked_fill(tensor([True, False, True]), 0.5)
tensor([1, 2**60 + 1, -3]).masked_fill(tensor([True, False, True]), -1.7)
tensor([True, False]).masked_fill(tensor([True, False]), 0.5)
x = tensor([1, 2, 3]); x.masked_fill_(tensor([True, False, True]), 2.9); x
zeros(3, dtype=L.uint8).random_(0, None).shape
zeros(3, dtype=L.int8).random_(-128, None).shape
zeros(3, dtype=L.int64).random_(-2**63, None).shape
L.randperm(255, dtype=L.uint8).sort().values.sum()
""",
    "numbers of Python in a dtype": """
tensor([-1, -128, -255], dtype=L.uint8)
tensor([-1, -65535], dtype=L.uint16)
tensor([3.7, 127.0, -0.5, -128.0], dtype=L.int8)
tensor((nan, 0, -2**63, 2**63-1, -2**63-1), dtype=L.bool)
tensor((nan, 0, -2**63, 2**63-1, -2**63-1))
tensor([2**64, -2**70], dtype=L.float64)
tensor(2**64, dtype=L.complex64)
tensor([2**64, 1.5])
tensor([0, 2**63], dtype=L.uint64)
tensor([0, 1j], dtype=L.bool)
""",
    "sizes of tensors": """
type(L.Size([1, 2]) * 2).__name__
type(2 * zeros(1, 2).shape).__name__
zeros(3, 1).shape * 2
type(zeros(()).shape + (1,)).__name__
""",
    "ranges written into tensors": """
L.linspace(0, 3, 6, out=zeros(2, 3))
L.logspace(0, 3, 6, out=zeros(2, 3))
L.arange(6, out=zeros(3, 2).t())
L.linspace(0, 3, 1, out=zeros(()))
L.arange(0, out=zeros(0, 3))
x = L.arange(10).reshape(2, 5)[:, :3]; L.arange(0, 6, out=x); x
x = zeros(3, 4); L.linspace(0, 3, 4, out=x.narrow(1, 1, 2)); x
x = zeros(4, 4); y = x[1:2]; L.linspace(0, 3, 6, out=y); [y, x]
x = zeros(4, 4); y = x[1:2]; L.add(ones(2, 3), 1, out=y); [y, x]
""",
    "views of other sizes": """
x = zeros(4, 4); y = x[1:2]; y.resize_(2, 3); y += 1; [y, x, y.storage_offset()]
x = zeros(4, 4); y = x[:, 1]; y.resize_(3); y += 1; [y, x, y.storage_offset()]
x = zeros(4, 4); y = x.t(); y.resize_(2, 3); y += 1; [y, x, y.storage_offset()]
x = zeros(4, 4); y = x[3:]; y.resize_(0); [y.shape, x, y.storage_offset()]
x = zeros(2, 3, 4, 4); y = x[1:]; y.resize_(1, 4, 3, 4, memory_format=L.channels_last); y.stride()
x = zeros(4); y = x.view(2, 2); z = y[1]; y.resize_(4); z += 1; [x, y]
x = ones(4); x.as_strided_((2, 2), (1, 1)); [x, x.stride()]
x = L.arange(4.0); y = x[1:]; y.as_strided_((2, 2), (1, 1)); [x, y, y.storage_offset()]
x = L.arange(4.0); y = x[1:]; y.as_strided_((2, 2), (1, 1), 0); [x, y, y.storage_offset()]
x = ones(4, requires_grad=True); y = x * 2; y.as_strided_((2,), (1,)); y.sum().backward(); x.grad
L.empty_strided((2, 3), (1, 2))._base is None
""",
    "memory of others": """
L.asarray(bytearray(b"abcdefgh"), dtype=L.float32)
L.asarray(b"abcdefgh")
x = bytearray(b"abcd"); y = L.asarray(x, dtype=L.uint8); y[0] = 0; x
x = ones(2, requires_grad=True); y = L.asarray(x, requires_grad=False); [x.requires_grad, y is x]
x = ones(2, requires_grad=True) * 1; y = L.asarray(x, requires_grad=False); y.requires_grad
x = ones(2, requires_grad=True); y = L.asarray(x, copy=True); [y.requires_grad, y.is_leaf]
L.asarray(ones(2), requires_grad=True).requires_grad
L.asarray(ones(2, 3).t(), dtype=L.float64)
x = np.ones(3); y = L.asarray(x); y[0] = 5; x.tolist()
L.asarray(L.utils.dlpack.to_dlpack(ones(2)))
x = ones(3); y = L.from_dlpack(L.utils.dlpack.to_dlpack(x)); y += 1; x
""",
    "repeated places": """
L.repeat_interleave(tensor([1, 2, 3]))
L.repeat_interleave(tensor([0, 2, 0, 3]), output_size=5)
L.repeat_interleave(repeats=tensor([1, 2], dtype=L.int32))
L.repeat_interleave(tensor([], dtype=L.int64))
L.take_along_dim(ones(3, 3), tensor([1], dtype=L.int32))
L.randperm(256, dtype=L.uint8).sort().values[-1]
""",
    "matrices without an inverse, without elements, and tolerances": """
L.linalg.cond(zeros(2, 2), 1)
L.linalg.cond(zeros(2, 2), "fro")
L.linalg.cond(zeros(2, 2), "nuc")
L.linalg.cond(tensor([[1.0, 0], [0, 0]]), "nuc")
L.linalg.cond(zeros(0, 0), "nuc")
L.linalg.cond(tensor([[1.0, 2], [3, 5]]), "nuc")
L.linalg.cond(tensor([[[1.0, 2], [2, 4]], [[1, 0], [0, 2]]]), 1)
L.linalg.cond(zeros(2, 0, 0))
L.linalg.cond(eye(2, dtype=L.complex64), "fro")
L.linalg.matrix_rank(eye(3), atol=tensor(0.5))
L.linalg.matrix_rank(eye(3), tol=tensor([0.5, 2.0]))
L.linalg.matrix_rank(eye(3).expand(2, 3, 3), rtol=tensor([0.5, 2.0]), hermitian=True)
L.linalg.matrix_rank(eye(3), atol=tensor(0.0))
""",
    "batches without samples": """
m = nn.BatchNorm1d(3); m(zeros(0, 3, requires_grad=True)).sum().backward(); m.weight.grad
m = nn.BatchNorm2d(3); m(zeros(0, 3, 2, 2, requires_grad=True)).sum().backward(); m.bias.grad
m = nn.BatchNorm2d(3); m(zeros(0, 3, 2, 2)).shape
F.pad(zeros(0, 3, 4), (1, 1), mode="reflect")
F.pad(zeros(0, 3, 4), (1, 1), mode="replicate")
F.cosine_similarity(ones(2, dtype=L.int8), ones(2), dim=-1)
""",
    "expanded tensors take one number": """
x = zeros(3); y = x.expand(2, 3); y.fill_(1.0); [x, y]
x = ones(3); y = x.expand(2, 3); y.zero_(); [x, y]
x = zeros(3).expand(2, 3); nn.init.ones_(x); x
x = zeros(2, 0).expand(3, 2, 0); x.fill_(1.0); x.shape
""",
    "floats of 16 bits": """
F.hardshrink(tensor([0.5, -0.5, 0.30078125, -0.30078125, 0.1, 0.0], dtype=L.bfloat16), 0.3)
F.hardshrink(tensor([0.5, -0.5, 0.5001, 0.25], dtype=L.float16), 0.5)
F.softshrink(tensor([0.5, -0.5, 0.30078125, -0.3, 0.1], dtype=L.bfloat16), 0.3)
F.softshrink(tensor([0.5, -0.5, 0.3, -0.3, 0.1], dtype=L.float16), 0.3)
L.ldexp(tensor([1.5, 2.0], dtype=L.float16), tensor([2, 3]))
L.ldexp(tensor([1.5, 2.0], dtype=L.bfloat16), tensor([2, -3]))
L.ldexp(tensor([1.5, 2.0], dtype=L.float16), tensor([2.0, 3.0]))
L.ldexp(tensor([1, 2]), tensor([2, 3]))
F.threshold(tensor([0.3, 7.3, -0.3], dtype=L.bfloat16), 0.3, 0.1)
""",
    "numbers beside floats of 16 bits": """
x = tensor([0.3, 0.301, 7.3, 256.0], dtype=L.bfloat16); [x == 0.3, x != 0.3, x == 257]
x = tensor([0.3, 0.301, 7.3, 256.0], dtype=L.bfloat16); [x < 0.3, x <= 0.3, x > 0.3, x >= 0.3]
x = tensor([0.3, 0.301, 7.3, 256.0], dtype=L.bfloat16); [x + 0.3, x - 0.3, 0.3 - x, x + 257]
x = tensor([0.3, 0.301, 7.3, 256.0], dtype=L.bfloat16); [x % 0.3, 0.3 % x, x.fmod(0.3)]
x = tensor([0.3, 0.301, 7.3, 256.0], dtype=L.bfloat16); [x * 0.3, x / 0.3, x // 0.3]
x = tensor([0.3, 0.301, 7.3], dtype=L.bfloat16); [x ** 0.3, 0.3 ** x, x ** 2, x ** 3]
x = tensor([0.3, 0.301, 7.3], dtype=L.float16); [x == 0.3, x < 0.3, x + 0.3, x - 0.3, x % 0.3]
x = tensor([0.3, 7.3], dtype=L.bfloat16); [x == tensor(0.3), x % tensor(0.3), x + tensor(0.3)]
x = tensor([0.3, 7.3], dtype=L.bfloat16); x.sub_(0.3); x
x = tensor([0.3, 7.3], dtype=L.bfloat16); x.remainder_(0.3); x
x = tensor([1.7, 3.0], dtype=L.bfloat16, requires_grad=True); (0.3 ** x).sum().backward(); x.grad
""",
    "where results lie": """
zeros(96).resize_as_(by_channels(ones(2, 3, 4, 4)), memory_format=L.preserve_format).stride()
zeros(96).resize_as_(by_channels(ones(2, 3, 4, 4))).stride()
zeros(1, 5, 0, 4, dtype=L.int8).view(L.int16).stride()
zeros(4, 0, dtype=L.int32).view(L.int8).stride()
by_channels(ones(4, 3, 8, 8)).add(ones(4, 3, 8, 8), alpha=3).stride()
by_channels(ones(4, 3, 8, 8)).sub(ones(4, 3, 8, 8), alpha=3).stride()
ones(4, 3, 8, 8).sub(by_channels(ones(4, 3, 8, 8)), alpha=3).stride()
by_channels(ones(4, 3, 8, 8)).addcdiv(ones(4, 3, 8, 8), ones(4, 3, 8, 8), value=3).stride()
ones(4, 3, 8, 8).addcmul(by_channels(ones(4, 3, 8, 8)), ones(4, 3, 8, 8), value=3).stride()
""",
}  # fmt: skip

EVERY = [
    pytest.param(call, id=call) for calls in CALLS.values() for call in calls.strip().splitlines()
]


def program(call: str, library: Any) -> Callable[[], Any]:
    """A function that makes the call, and gives what its last statement does."""

    def by_channels(x: Any) -> Any:
        return x.contiguous(memory_format=library.channels_last)

    namespace = names_of(library) | {"inf": math.inf, "nan": math.nan, "by_channels": by_channels}
    *before, last = call.split("; ")
    exec("\n ".join(["def edge():", *before, f"return {last}"]), namespace)
    return namespace["edge"]


def facts(value: Any) -> Any:
    """What two results must have in common."""
    if isinstance(value, (dj.Tensor, torch.Tensor)):
        dtype = str(value.dtype).rpartition(".")[2]
        wide = value.float() if dtype in ("float16", "bfloat16") else value
        return dtype, tuple(value.stride()), wide.tolist()
    if isinstance(value, (tuple, list)):
        return [facts(each) for each in value]
    return str(value).replace("dynajit.", "torch.")


def agrees(found: Any, wanted: Any) -> bool:
    """Equal, and floats to the last digits but one, NaN and NaN too."""
    if isinstance(wanted, (list, tuple)):
        return len(found) == len(wanted) and all(map(agrees, found, wanted))
    if isinstance(wanted, complex):
        return agrees([found.real, found.imag], [wanted.real, wanted.imag])
    if isinstance(wanted, float):
        both_nan = math.isnan(wanted) and math.isnan(found)
        return both_nan or math.isclose(found, wanted, rel_tol=1e-6)
    return type(found) is type(wanted) and found == wanted


@pytest.mark.parametrize("how", ["eager", "compiled"])
@pytest.mark.parametrize("call", EVERY)
def test_a_call_at_an_edge_gives_what_pytorchs_gives(call: str, how: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = facts(program(call, torch)())
        made = program(call, dj)
        found = facts((dj.compile(made) if how == "compiled" else made)())

    assert agrees(found, wanted), f"{found} instead of {wanted}"
