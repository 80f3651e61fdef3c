"""Library functions as programs call them: they take what PyTorch's take, and give the same."""

import copy
import pickle
import warnings
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentError, DeviceError, DTypeError
from dynajit.ops import functions
from dynajit.ops.native._library_call import LibraryFunction, LibraryMethod

torch = pytest.importorskip("torch")

MODULES = ("", "linalg", "fft", "special", "nn.functional")


def module(library: Any, path: str) -> Any:
    return attrgetter(path)(library) if path else library


def published() -> Iterator[tuple[str, str]]:
    for path in MODULES:
        names = functions.__all__ if not path else module(dj, path).__all__
        for name in names:
            if callable(getattr(module(torch, path), name, None)):
                yield path, name


def samples(t: Any) -> dict[str, tuple[Any, ...]]:
    """Arguments that many functions take."""
    make = t.tensor if t is dj else torch.tensor
    rng = np.random.default_rng(7)
    square = rng.random((3, 3)).astype(np.float32) + 0.1
    x = make((square @ square.T + np.eye(3, dtype=np.float32)).tolist())
    first = make([0])
    whole = make([[3, 1, 2], [5, 4, 6], [9, 8, 7]])
    batch = x.unsqueeze(0)
    return {
        "one": (x,), "two": (x, x), "number": (x, 1), "three": (x, x, x), "along": (x, 0, first),
        "list": ([x, x],), "integers": (whole,), "two integers": (whole, whole),
        "condition": (x > 1, x, x), "gathered": (x, 0, make([[0]])), "renorm": (x, 2, 0, 1.0),
        "number first": (1, x), "half": (x, 0.5), "rows": (x[0], x[0]), "matrix, row": (x, x[0]),
        "matrix, rows": (x, x[0], x[0]), "batches": (batch, batch),
        "batches of products": (batch, batch, batch), "sum of batches": (x, batch, batch),
        "rows first": (x[0], x, x[0]), "names": (x, x.tolist()), "sizes": ((2, 3),),
        "filled": ((2, 3), 2.5), "size": (4,), "steps": (0, 1, 4),
        "scattered": (x, 0, whole % 3, x),
    }  # fmt: skip


#: Other numbers each time, or memory that nobody wrote.
WITHOUT_VALUES = {
    "bernoulli", "empty", "empty_like", "multinomial", "normal", "rand", "randint", "randn",
    "randperm", "rand_like", "randn_like",
}  # fmt: skip

#: Left out here, by function: vectors have a sign or phase of their own, or sizes one form lacks.
#: `ihfftn(out=)` over one dim leaves an empty tensor in PyTorch.
OTHER_VALUES = {"qr", "svd", "eig", "eigh", "svdvals", "lu", "ihfftn"}


#: Functions of networks that have PyTorch's own names of arguments only.
WITHOUT_NUMPY_NAMES = {"one_hot"} | {
    name for name in dj.nn.functional.__all__ if name.endswith("_")
}


def arrays(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [array for item in value for array in arrays(item)]
    return [np.asarray(value.detach().resolve_conj().numpy())] if hasattr(value, "detach") else []


def assert_same(expected: Any, actual: Any) -> None:
    left, right = arrays(expected), arrays(actual)
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=3e-4, atol=3e-5)


def called(function: Any, args: tuple[Any, ...], **named: Any) -> Any:
    """The result, or None where the call is refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **named)
    except Exception:
        return None


def empty_like(t: Any, result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        return tuple(empty_like(t, item) for item in result)
    name = str(result.dtype).removeprefix("torch.").removeprefix("dynajit.")
    return t.empty(0, dtype=getattr(t, name))


@pytest.mark.parametrize(("path", "name"), list(published()))
def test_out_is_taken_where_pytorch_takes_it(path: str, name: str) -> None:
    theirs, ours = getattr(module(torch, path), name), getattr(module(dj, path), name)
    mine = samples(dj)
    for label, args in samples(torch).items():
        plain = called(theirs, args)
        if plain is None or not arrays(plain) or called(ours, mine[label]) is None:
            continue
        expected = called(theirs, args, out=empty_like(torch, plain))
        if expected is None:
            continue
        out = empty_like(dj, plain)
        found = called(ours, mine[label], out=out)
        assert found is not None, label
        targets = out if isinstance(out, tuple) else (out,)
        results = found if isinstance(found, tuple) else (found,)
        assert all(a is b for a, b in zip(targets, results, strict=True)), label
        assert all(t._version == 1 or t.numel() == 0 for t in targets), label
        if name not in WITHOUT_VALUES | OTHER_VALUES:
            assert_same(expected, found)


@pytest.mark.parametrize(("path", "name"), list(published()))
@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_results_are_cast_into_out_where_pytorch_casts_them(
    path: str, name: str, dtype: str
) -> None:
    if name in WITHOUT_VALUES | {"pow", "chain_matmul"}:
        pytest.skip("random numbers; a constant and a copy, which PyTorch casts")
    theirs, ours = getattr(module(torch, path), name), getattr(module(dj, path), name)
    mine = samples(dj)
    for label, args in samples(torch).items():
        plain = called(theirs, args)
        if not isinstance(plain, torch.Tensor) or called(ours, mine[label]) is None:
            continue
        if called(theirs, args, out=torch.empty(0, dtype=plain.dtype)) is None:
            continue
        expected = called(theirs, args, out=torch.empty(0, dtype=getattr(torch, dtype)))
        found = called(ours, mine[label], out=dj.empty(0, dtype=getattr(dj, dtype)))
        if expected is None:
            # Where PyTorch has no kernel for a dtype, we may have one.
            continue
        assert found is not None, label
        if name not in WITHOUT_VALUES | OTHER_VALUES:
            assert_same(expected, found)


@pytest.mark.parametrize(("path", "name"), list(published()))
def test_numpy_names_are_taken_where_pytorch_takes_them(path: str, name: str) -> None:
    if path == "nn.functional" and name in WITHOUT_NUMPY_NAMES:
        pytest.skip("has PyTorch's own names of arguments only")
    theirs, ours = getattr(module(torch, path), name), getattr(module(dj, path), name)
    mine = samples(dj)
    for label, args in samples(torch).items():
        for known, other in NUMPY_NAMES:
            if called(ours, mine[label], **known) is None:
                continue
            expected = called(theirs, args, **other)
            if expected is not None:
                found = ours(*mine[label], **other)
                if name not in WITHOUT_VALUES | OTHER_VALUES:
                    assert_same(expected, found)
        for names in (("x",), ("a",), ("x1",), ("x1", "x2")):
            rest = args[len(names) :]
            if len(args) != len(names) or rest or called(ours, mine[label]) is None:
                continue
            expected = called(theirs, (), **dict(zip(names, args, strict=True)))
            if expected is not None:
                found = ours(**dict(zip(names, mine[label], strict=True)))
                if name not in WITHOUT_VALUES | OTHER_VALUES:
                    assert_same(expected, found)


NUMPY_NAMES: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"dim": 0}, {"axis": 0}),
    ({"keepdim": True}, {"keepdims": True}),
    ({"dim": 0, "keepdim": True}, {"axis": 0, "keepdims": True}),
)

METHODS = (
    "sum", "mean", "prod", "max", "min", "amax", "amin", "argmax", "argmin", "any", "all", "std",
    "var", "median", "cumsum", "cumprod", "logsumexp", "softmax", "log_softmax", "sort", "argsort",
    "squeeze", "unsqueeze", "unbind", "norm", "nansum", "count_nonzero", "logcumsumexp", "cummax",
    "mode", "quantile", "diff", "aminmax", "size", "nanmean",
)  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_methods_take_numpy_names_where_pytorch_does(name: str) -> None:
    data = [[3.0, 1.0], [2.0, 5.0], [4.0, 0.5]]
    more: tuple[Any, ...] = (0.5,) if name == "quantile" else ()
    for named in ({"axis": 0}, {"axis": 1, "keepdims": True}, {"axis": -1}):
        expected = called(getattr(torch.tensor(data), name), more, **named)
        if expected is not None:
            found = getattr(dj.tensor(data), name)(*more, **named)
            assert_same(expected, found)


def test_in_place_methods_take_numpy_names() -> None:
    for t in (torch, dj):
        x = t.ones(2, 3)
        assert x.cumsum_(axis=1).tolist() == [[1, 2, 3], [1, 2, 3]]
        assert x.index_fill_(axis=0, index=t.tensor([0]), value=7.0)[0].tolist() == [7, 7, 7]


def test_an_argument_is_given_once() -> None:
    for t in (torch, dj):
        with pytest.raises(TypeError):
            t.sum(t.ones(2), dim=0, axis=0)
        with pytest.raises(TypeError):
            t.sum(t.ones(2), 0, axis=0)
        with pytest.raises(TypeError):
            t.exp(t.ones(2), dim=0)


def test_a_factory_gives_what_out_is() -> None:
    for t in (torch, dj):
        for make in (
            lambda t, out: t.zeros(2, 3, out=out),
            lambda t, out: t.full((3,), 2.5, out=out),
            lambda t, out: t.arange(4, out=out),
            lambda t, out: t.eye(2, out=out),
            lambda t, out: t.linspace(0, 1, 5, out=out),
        ):
            for dtype in (t.float32, t.float64, t.int64):
                out = t.ones(4, dtype=dtype)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    assert make(t, out) is out
                assert out.dtype is dtype
    assert dj.full((2,), 2.5, out=dj.ones(2, dtype=dj.int64)).tolist() == [2, 2]


def test_random_numbers_go_into_out() -> None:
    for make in (
        lambda out: dj.rand(6, out=out), lambda out: dj.randn(6, out=out),
        lambda out: dj.randint(0, 9, (6,), out=out), lambda out: dj.randperm(6, out=out),
        lambda out: dj.normal(1.0, 2.0, (6,), out=out),
    ):  # fmt: skip
        dj.manual_seed(3)
        out = dj.zeros(6, dtype=dj.float64)
        make(out)
        assert len(set(out.tolist())) > 2
        first = out.tolist()
        dj.manual_seed(3)
        assert make(dj.zeros(6, dtype=dj.float64)).tolist() == first


def test_a_factory_refuses_another_dtype_or_device_than_that_of_out() -> None:
    for t in (torch, dj):
        with pytest.raises(RuntimeError):
            t.zeros(3, dtype=t.float64, out=t.ones(3))
        with pytest.raises(RuntimeError):
            t.randn(3, out=t.ones(3, requires_grad=True))
    with pytest.raises(DTypeError):
        dj.zeros(3, dtype=dj.float64, out=dj.ones(3))
    with pytest.raises((DeviceError, RuntimeError)):
        dj.zeros(3, device="cuda", out=dj.ones(3))
    assert dj.zeros(3, dtype=dj.float32, device="cpu", out=dj.ones(3)).tolist() == [0, 0, 0]


def test_a_factory_refuses_arguments_that_it_does_not_know() -> None:
    for t in (torch, dj):
        for make in (
            lambda t: t.ones(3, outt=t.ones(3)),
            lambda t: t.zeros_like(t.ones(3), out=t.ones(3)),
            lambda t: t.ones(2).new_zeros(3, out=t.ones(3)),
            lambda t: t.randn_like(t.ones(3), out=t.ones(3)),
            lambda t: t.tril_indices(2, 2, out=t.ones(3)),
            lambda t: t.randperm(3, chunk=1),
        ):
            with pytest.raises(TypeError):
                make(t)


def test_random_floats_have_a_floating_dtype() -> None:
    for t in (torch, dj):
        with pytest.raises((RuntimeError, NotImplementedError)):
            t.randn(3, dtype=t.int64)
        with pytest.raises((RuntimeError, NotImplementedError)):
            t.rand(3, out=t.zeros(3, dtype=t.int64))


OLDER = {
    "add": lambda t, x, m, v: t.add(x, 2, x),
    "x.add": lambda t, x, m, v: x.add(2, x),
    "x.add_": lambda t, x, m, v: x.clone().add_(2, x),
    "sub": lambda t, x, m, v: t.sub(x, 0.5, x),
    "x.sub_": lambda t, x, m, v: x.clone().sub_(0.5, x),
    "addcmul": lambda t, x, m, v: t.addcmul(x, 0.5, x, x),
    "x.addcmul_": lambda t, x, m, v: x.clone().addcmul_(0.5, x, x),
    "x.addcdiv_": lambda t, x, m, v: x.clone().addcdiv_(-0.5, x, x),
    "addcdiv": lambda t, x, m, v: t.addcdiv(x, 2, x, x),
    "addmm": lambda t, x, m, v: t.addmm(0.5, m, 2, m, m),
    "addmm, beta": lambda t, x, m, v: t.addmm(0.5, m, m, m),
    "x.addmm_": lambda t, x, m, v: m.clone().addmm_(0.5, 2, m, m),
    "x.addmm, beta": lambda t, x, m, v: m.addmm(0.5, m, m),
    "addmv": lambda t, x, m, v: t.addmv(0.5, v, 2, m, v),
    "addr": lambda t, x, m, v: t.addr(0.5, m, 2, v, v),
    "x.addr_": lambda t, x, m, v: m.clone().addr_(0.5, 2, v, v),
    "baddbmm": lambda t, x, m, v: t.baddbmm(0.5, m[None], 2, m[None], m[None]),
    "addbmm": lambda t, x, m, v: t.addbmm(0.5, m, 2, m[None], m[None]),
    "add, out": lambda t, x, m, v: t.add(x, 2, x, out=t.empty(0)),
}


@pytest.mark.parametrize("name", OLDER)
def test_older_overloads_warn_and_mean_what_they_meant(name: str) -> None:
    def run(t: Any) -> Any:
        m = t.tensor([[1.0, 2.0], [3.0, -1.0]])
        return OLDER[name](t, t.tensor([1.0, 2.0, 4.0]), m, m[0])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns once per process
        expected = run(torch)
    with pytest.warns(UserWarning, match="deprecated"):
        found = run(dj)
    assert expected.tolist() == found.tolist()


def test_older_overloads_have_gradients() -> None:
    x = dj.tensor([1.0, 2.0], requires_grad=True)
    with pytest.warns(UserWarning):
        dj.add(x, 3, x).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_too_many_arguments_are_refused() -> None:
    for t in (torch, dj):
        for refused in (
            lambda t: t.add(t.ones(2), t.ones(2), t.ones(2)),
            lambda t: t.exp(t.ones(2), 1),
            lambda t: t.addmm(1, 2, 3, t.ones(2, 2), t.ones(2, 2)),
        ):
            with pytest.raises(TypeError):
                refused(t)


def test_functions_are_named_copied_and_pickled_as_functions_are() -> None:
    assert isinstance(dj.absolute, LibraryFunction)
    assert dj.absolute.__name__ == "absolute"
    assert dj.exp.__doc__.startswith("e to the power")
    assert "exp" in repr(dj.exp)
    assert copy.deepcopy(dj.absolute) is dj.absolute
    assert pickle.loads(pickle.dumps(dj.absolute)) is dj.absolute
    assert pickle.loads(pickle.dumps(dj.linalg.inv)) is dj.linalg.inv
    assert isinstance(dj.Tensor.sum, LibraryMethod)
    assert pickle.loads(pickle.dumps(dj.Tensor.sum)) is dj.Tensor.sum
    assert pickle.loads(pickle.dumps(dj.ones(3).sum))().item() == 3.0


def test_a_class_may_hold_a_function() -> None:
    """As PyTorch's, it is not bound to instances."""
    for t in (torch, dj):

        class Layer:
            activation = t.tanh

        assert Layer().activation(t.zeros(1)).tolist() == [0.0]


def test_names_that_are_not_interned_are_understood() -> None:
    name = "".join(["a", "x", "is"])
    assert dj.sum(dj.ones(2, 3), **{name: 0}).tolist() == [2.0, 2.0, 2.0]
    assert dj.sum(dj.ones(2, 3), **{"".join(["d", "im"]): 0}).tolist() == [2.0, 2.0, 2.0]


def test_what_is_no_tensor_is_refused_as_out() -> None:
    for t in (torch, dj):
        for out in (3, (t.zeros(3),), "x"):
            with pytest.raises(TypeError):
                t.exp(t.ones(3), out=out)
        with pytest.raises(TypeError):
            t.sort(t.ones(3), out=t.zeros(3))
        assert t.exp(t.zeros(2), out=None).tolist() == [1.0, 1.0]
    with pytest.raises(ArgumentError):
        dj.sort(dj.ones(3), out=(dj.zeros(3),))


def test_functions_without_that_form_do_not_take_out() -> None:
    for t in (torch, dj):
        for name in ("relu", "clone", "isnan", "zeros_like", "flip"):
            with pytest.raises(TypeError):
                getattr(t, name)(t.ones(3), out=t.ones(3))


NO_TENSORS = {
    "xlogy": lambda m: m.xlogy(2, 3),
    "copysign": lambda m: m.copysign(2, 3),
    "clamp_max": lambda m: m.clamp_max(2, 3),
    "max": lambda m: m.max(2, 3),
    "heaviside": lambda m: m.heaviside(m.tensor([1, 2]), 2),
    "igamma": lambda m: m.igamma(2, 3),
    "isclose": lambda m: m.isclose(m.tensor([1, 2]), 2),
    "softmax": lambda m: m.softmax(2, 0),
    "matmul": lambda m: m.matmul(2, other=3),
    "reshape": lambda m: m.reshape(None, (1,)),
    "stack": lambda m: m.stack([1, 2]),
    "cat": lambda m: m.cat([1, 2]),
}


@pytest.mark.parametrize("name", NO_TENSORS)
def test_an_argument_that_is_no_tensor_is_named(name: str) -> None:
    with pytest.raises(TypeError):
        NO_TENSORS[name](torch)
    with pytest.raises(ArgumentError, match=f"{name}.*argument '.*' must be a tensor, not "):
        NO_TENSORS[name](dj)


def test_a_missing_attribute_of_something_else_stays_an_attribute_error() -> None:
    """Also one that functions ask of their operands, as in PyTorch."""

    def distance(x: Any, y: Any) -> Any:
        return object().shape  # type: ignore[attr-defined]

    for library in (torch, dj):
        x = library.ones(2, 3)
        measure = library.nn.functional.triplet_margin_with_distance_loss
        with pytest.raises(AttributeError, match="shape"):
            measure(x, x, x, distance_function=distance)
