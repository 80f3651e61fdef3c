"""Parameters have PyTorch's names and places, so that calls by keyword and by place mean the same.

What PyTorch says is read off its own functions: Python signatures, or the schemas of its operators.
"""

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

PATHS = (
    "", "Tensor", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "optim",
    "optim.lr_scheduler", "optim.swa_utils", "utils.data", "utils.checkpoint", "autograd", "func",
    "amp", "distributions", "linalg", "special", "fft", "distributed", "masked", "nn.parallel",
)  # fmt: skip

#: Parameters that are left out, or have another name: by function, or everywhere.
EVERYWHERE = {
    "size_average": "deprecated form of reduction",
    "reduce": "deprecated form of reduction",
    "inplace": "read by the wrapper of in-place forms",
    "out": "read by the wrapper of out=",
    "layout": "all tensors are strided",
    "cudnn_enabled": "no such switch",
    "cudnn_enable": "no such switch",
    "out_dtype": "GPU only in PyTorch",
    "generator": "not a parameter of PyTorch's Python function",
}
BY_NAME = {
    "Tensor.uniform_": "`from` cannot be a name in Python",
    "Tensor.random_": "`from` cannot be a name in Python",
    "set_num_threads": "by place only in PyTorch",
    "set_rng_state": "one argument",
    "from_numpy": "by place only in PyTorch",
    "from_dlpack": "one argument",
    "compile": "options of torch.compile alone",
    "distributed.init_process_group": "private option",
    "distributed.GradBucket.index": "the schema is that of the function of the same name",
    "distributed.DeviceMesh": "private options",
    "distributed.Store.add": "the schema is that of the function of the same name",
    "distributed.Store.append": "the schema is that of the method of lists",
    "save": "private option",
    "dropout": "`train` in torch.dropout, `training` in functional.dropout",
    "norm": "Tensor.norm and functional norm have other places for dtype",
    "lu_solve": "torch.lu_solve and linalg.lu_solve differ",
    "linalg": "the schemas are those of the older functions of the same name",
    "enable_grad": "used as a decorator by place",
    "autograd.enable_grad": "used as a decorator by place",
    "autograd.gradcheck": "forward mode, batches and layouts are not checked",
    "autograd.gradgradcheck": "forward mode, batches and layouts are not checked",
    "utils.checkpoint.CheckpointFunction.forward": "private",
    "nn.SyncBatchNorm": "`bias` is new",
    "nn.functional.elu_": "private parameters of the operator",
    "nn.functional.fractional_max_pool2d": "the schema is the operator's: random_samples",
    "nn.functional.fractional_max_pool3d": "the schema is the operator's: random_samples",
    "nn.init.uniform": "`from` cannot be a name in Python",
    **dict.fromkeys(
        (f"{owner}{n}split" for owner in ("", "Tensor.") for n in "dhv"),
        "one parameter for `sections` and `indices`, as PyTorch's documentation has it",
    ),
    "distributions.HalfCauchy.icdf": "the parameter is called value, as in the other classes",
    "distributions.HalfNormal.icdf": "the parameter is called value, as in the other classes",
}


def parameters(function: Any) -> list[str] | None:
    """Names in order; None where Python does not know them or more are taken by **."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return None
    found = list(signature.parameters.values())
    if any(p.kind is p.VAR_POSITIONAL or p.kind is p.VAR_KEYWORD for p in found):
        return None
    return [p.name for p in found]


def forms(function: Any, name: str) -> list[list[str]]:
    """The lists of parameters that PyTorch takes."""
    own = parameters(function)
    if own is not None:
        return [own]
    if inspect.isclass(function):
        return []
    try:
        schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    except RuntimeError:
        return []
    lists = [
        [a.name for a in s.arguments] for s in schemas if not any(a.is_out for a in s.arguments)
    ]
    return [names for names in lists if names and names[0] in ("self", "input")]


def pairs(path: str) -> Iterator[tuple[str, Any, Any]]:
    theirs, ours = torch, dj
    for part in filter(None, path.split(".")):
        theirs, ours = getattr(theirs, part), getattr(ours, part)
    for name in dir(theirs):
        there, here = getattr(theirs, name), getattr(ours, name, None)
        if name.startswith("_") or not callable(there) or not callable(here):
            continue
        label = f"{path}.{name}".lstrip(".")
        if getattr(there, "__module__", "").startswith("torch") or not inspect.isclass(there):
            yield label, there, here
        if inspect.isclass(there) and inspect.isclass(here) and path:
            for method in vars(there):
                if not method.startswith("_") and callable(getattr(here, method, None)):
                    yield f"{label}.{method}", getattr(there, method), getattr(here, method)


def is_known(label: str) -> bool:
    return label in BY_NAME or label.split(".")[0] in BY_NAME


def plain(names: list[str]) -> list[str]:
    return ["input" if n == "self" else n for n in names if n not in EVERYWHERE]


@pytest.mark.parametrize("path", PATHS)
def test_every_parameter_of_pytorch_is_known(path: str) -> None:
    unknown = {}
    for label, there, here in pairs(path):
        ours = parameters(here)
        lists = forms(there, label.rpartition(".")[2])
        if ours is None or not lists or is_known(label):
            continue
        left = [set(plain(theirs)) - set(plain(ours)) - {"input"} for theirs in lists]
        if all(left):
            unknown[label] = sorted(left[0])
    assert unknown == {}


#: Where the places differ on purpose.
PLACES = {
    "softmax": "`_stacklevel` of functional.softmax comes third; a dtype there is taken for one",
    "log_softmax": "as softmax",
    "lu": "the matrix is called A",
    "Tensor.lu": "the matrix is called A",
    "matrix_exp": "the matrix is called A",
    "lu_solve": "the right-hand side is called b, as in PyTorch's documentation",
    "tensor_split": "one parameter for `sections` and `indices`, as in PyTorch's documentation",
    "one_hot": "the input is called tensor, as in PyTorch's documentation",
    "triangular_solve": "the right-hand side is called b, as in PyTorch's documentation",
}


@pytest.mark.parametrize("path", PATHS)
def test_parameters_stand_in_pytorchs_places(path: str) -> None:
    moved = {}
    for label, there, here in pairs(path):
        name = label.rpartition(".")[2]
        ours = parameters(here)
        if ours is None or is_known(label) or name in PLACES:
            continue
        lists = [plain(by_place(there) or names) for names in forms(there, name)]
        known = plain(ours)
        if lists and all(known[: len(theirs)] != theirs for theirs in lists):
            moved[label] = (lists[0], known)
    assert moved == {}


def by_place(function: Any) -> list[str] | None:
    """The names of the parameters that can be given by place; None where Python knows none."""
    if parameters(function) is None:
        return None
    found = inspect.signature(function).parameters.values()
    return [p.name for p in found if p.kind is not p.KEYWORD_ONLY]


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_a_dtype_in_the_third_place_is_taken(name: str) -> None:
    x = [1.0, 2.0]
    assert getattr(torch, name)(torch.tensor(x), 0, torch.float64).dtype is torch.float64
    assert getattr(dj, name)(dj.tensor(x), 0, dj.float64).dtype is dj.float64
    assert getattr(dj.tensor(x), name)(0, dj.float64).dtype is dj.float64
    assert getattr(dj.nn.functional, name)(dj.tensor(x), 0, 3, dj.float64).dtype is dj.float64


CALLS = {
    "split": lambda m: m.arange(6).split(split_size=[2, 4], dim=0)[1],
    "max": lambda m: m.max(m.tensor([1.0, 4.0]), other=m.tensor([2.0, 3.0])),
    "min": lambda m: m.tensor([1.0, 4.0]).min(other=m.tensor([2.0, 3.0])),
    "swapaxes": lambda m: m.swapaxes(m.arange(6).view(2, 3), axis0=0, axis1=1),
    "swapaxes_": lambda m: m.arange(6).view(2, 3).swapaxes_(axis0=0, axis1=1),
    "unflatten": lambda m: m.arange(6).unflatten(dim=0, sizes=(2, 3)),
    "inverse": lambda m: m.inverse(input=m.tensor([[2.0, 1.0], [1.0, 3.0]])),
    "det": lambda m: m.det(input=m.tensor([[2.0, 1.0], [1.0, 3.0]])),
    "matrix_power": lambda m: m.matrix_power(input=m.tensor([[2.0, 1.0], [1.0, 3.0]]), n=3),
    "pinverse": lambda m: m.pinverse(input=m.tensor([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0]])),
    "qr": lambda m: m.qr(m.tensor([[2.0], [1.0]]), some=False)[0].abs(),
    "cholesky_solve": lambda m: m.cholesky_solve(input=m.ones(2, 1), input2=m.eye(2) * 2),
    "fill_diagonal_": lambda m: m.zeros(7, 3).fill_diagonal_(fill_value=5, wrap=True),
    "fill_diagonal_ wide": lambda m: m.zeros(2, 5).fill_diagonal_(5, wrap=True),
    "fill_diagonal_ of three dims": lambda m: m.zeros(3, 3, 3).fill_diagonal_(2),
}


@pytest.mark.filterwarnings("ignore:torch.qr is deprecated")
@pytest.mark.parametrize("name", CALLS)
def test_calls_by_name_give_pytorchs_numbers(name: str) -> None:
    expected, found = CALLS[name](torch), CALLS[name](dj)
    assert tuple(expected.shape) == tuple(found.shape)
    torch.testing.assert_close(torch.from_numpy(found.numpy().copy()), expected)


@pytest.mark.parametrize("shape", [(4,), (2, 3, 3)])
def test_fill_diagonal_refuses_what_pytorch_refuses(shape: tuple[int, ...]) -> None:
    for library in (torch, dj):
        with pytest.raises(RuntimeError):
            library.zeros(*shape).fill_diagonal_(1)


def test_only_inputs_and_allow_unused_stand_in_their_places() -> None:
    """As in code that gives all by place (gradient penalties)."""
    for library in (torch, dj):
        x = library.ones(2, requires_grad=True)
        y = library.ones(2, requires_grad=True)
        found = library.autograd.grad((x * 2).sum(), [x, y], None, True, True, True, True)
        assert found[0].tolist() == [2.0, 2.0]
        assert found[1] is None
        with pytest.warns(FutureWarning):
            library.autograd.grad((x * 2).sum(), x, only_inputs=False)


def test_the_older_name_of_grad_tensors_is_taken_with_a_warning() -> None:
    for library in (torch, dj):
        x = library.ones(2, requires_grad=True)
        with pytest.warns(FutureWarning):
            library.autograd.backward(x * 3, grad_variables=library.ones(2))
        assert x.grad.tolist() == [3.0, 3.0]
        with warnings.catch_warnings(), pytest.raises(RuntimeError):
            warnings.simplefilter("ignore")
            library.autograd.backward(x * 3, library.ones(2), grad_variables=library.ones(2))


def test_gradients_are_clipped_also_where_foreach_is_given() -> None:
    for library in (torch, dj):
        x = library.ones(4, requires_grad=True)
        (x * 3).sum().backward()
        norm = library.nn.utils.clip_grad_norm_([x], 1.0, foreach=False)
        assert float(norm) == 6.0
        library.nn.utils.clip_grad_value_([x], 0.25, foreach=True)
        assert x.grad.tolist() == [0.25] * 4
