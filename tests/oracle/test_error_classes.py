"""An `except` clause that catches an error of PyTorch catches that of dynajit in the same place.

The calls are those of `bad_calls.py`, of all families of operators and of modules, optimizers,
loaders, files and distributions; and those that PyTorch's own tables of operators and modules hold
ready to be refused. The first built-in class among the bases of PyTorch's error has to be among
those of dynajit's. `UnsupportedError`, of what exists in PyTorch only, is no matter of this test.

Skipped without PyTorch; its tables need `expecttest`. `DYNAJIT_PYTORCH_ERRORS=1` tries every
operator in every dtype that PyTorch has no kernel for, instead of one operator of six, and every
call compiled instead of one of eight.
"""

import copy
import io
import os
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import UnsupportedError

torch = pytest.importorskip("torch")

from tests.support.pytorch.bad_calls import CALLS, OTHER_CLASS, TAKEN  # noqa: E402

TRIES_ALL = os.environ.get("DYNAJIT_PYTORCH_ERRORS") == "1"
OPERATORS_STEP = 1 if TRIES_ALL else 6
COMPILED_STEP = 1 if TRIES_ALL else 8
DTYPES = ("float32", "int64", "bool", "complex64")

#: Families of calls on tensors, which are tried compiled, too.
OF_TENSORS = (
    "indexing", "reductions", "movement", "joining", "elementwise", "in place, out=",
    "matmul, linalg", "nn.functional: layers", "losses",
)  # fmt: skip

#: Errors of PyTorch's own table that are others here, by operator and place.
OTHER_IN_TABLE = {
    ("arange", 6): "a step is compared with 0 before it has the dtype of `out`",
    ("narrow_copy", 1): "a dim is looked for as by `narrow`",
    **{
        (name, i): "numbers are operands here"
        for name in ("hypot", "logaddexp", "nextafter")
        for i in range(3)
    },
}


_SUBTRACTED = "refused as by the subtraction that is part of it"
_LIMITS = "asked for the limits of a complex dtype"

#: Operators that refuse dtypes with another class than PyTorch's, by operator and dtype.
OTHER_DTYPE_ERRORS = {
    **{
        (name, "bool"): _SUBTRACTED
        for name in (
            "_softmax_backward_data", "cross", "linalg.cross", "linalg.householder_product",
            "nn.functional.huber_loss", "nn.functional.mse_loss", "nn.functional.multi_margin_loss",
            "nn.functional.multilabel_margin_loss", "nn.functional.smooth_l1_loss",
            "nn.functional.softshrink", "ormqr",
        )
    },
    ("nn.functional.mse_loss", "int64"): "refused as by the mean that is part of it",
    ("nn.functional.multi_head_attention_forward", "bool"): "refused as dtypes that do not meet",
    ("masked.amin", "complex64"): _LIMITS,
    ("masked.argmin", "complex64"): _LIMITS,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet_and_quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without warnings; seeds are those of the CPU alone, which takes a hundredth of the time.

    PyTorch's distributions check: a call of `torch.compile` turns that off for the process.
    """
    monkeypatch.setattr(torch, "manual_seed", torch.default_generator.manual_seed)
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def names_of(library: Any) -> dict[str, Any]:
    """What a call may name: the library as `L`, and short names."""

    def parameter() -> Any:
        return library.nn.Parameter(library.ones(2))

    short = {name: getattr(library, name) for name in ("eye", "full", "ones", "tensor", "zeros")}
    return {
        **short, "L": library, "F": library.nn.functional, "nn": library.nn, "np": np, "io": io,
        "copy": copy, "pickle": pickle, "data": library.utils.data, "parameter": parameter,
        "distributions": library.distributions, "schedulers": library.optim.lr_scheduler,
        "sgd": lambda: library.optim.SGD([parameter()], lr=0.1),
    }  # fmt: skip


def counted(*shape: int, dtype: Any = None, requires_grad: bool = False) -> Any:
    """Takes the place of `ones`: of equal elements a compiler knows the result beforehand."""
    values = dj.arange(1.0, 1.0 + np.prod(shape, dtype=int)).reshape(shape).to(dtype=dtype).clone()
    return values.requires_grad_(requires_grad)


def program(call: str, library: Any, **others: Any) -> Callable[[], Any]:
    """A function that makes the call; `others` stand for names in it."""
    namespace = names_of(library) | others
    lines = call.split("; ")
    exec("def bad_call():\n " + "\n ".join(lines), namespace)
    return namespace["bad_call"]


def calls_of(text: str) -> list[str]:
    return text.strip().splitlines()


def error_of(call: Callable[[], Any]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


def builtin_class(error: Exception) -> type:
    """The first built-in class among those of an error."""
    return next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")


def why_not_caught(theirs: Exception | None, ours: Exception | None) -> str | None:
    """How the class of dynajit's error differs from PyTorch's."""
    assert theirs is not None, "PyTorch takes the call"
    if ours is None:
        return f"no error instead of {theirs!r}"
    if isinstance(ours, (UnsupportedError, builtin_class(theirs))):
        return None
    return f"{ours!r} instead of {theirs!r}"


def difference(call: str) -> str | None:
    """How what a call raises differs."""
    return why_not_caught(error_of(program(call, torch)), error_of(program(call, dj)))


@pytest.mark.parametrize("family", CALLS)
def test_a_bad_call_raises_pytorchs_class(family: str) -> None:
    reasons = {
        call: difference(call) for call in calls_of(CALLS[family]) if call not in OTHER_CLASS
    }
    assert [] == [f"{call}: {reason}" for call, reason in reasons.items() if reason]


def test_more_than_a_thousand_calls_are_compared() -> None:
    calls = [call for text in CALLS.values() for call in calls_of(text)]
    assert len(calls) > 1000
    assert set(OTHER_CLASS) <= set(calls)


def test_calls_that_are_listed_with_another_class_differ() -> None:
    assert [] == [call for call in OTHER_CLASS if difference(call) is None]


def test_calls_that_are_taken_here_raise_nothing_or_pytorchs_class() -> None:
    for call in calls_of(TAKEN):
        theirs, ours = error_of(program(call, torch)), error_of(program(call, dj))
        assert theirs is not None, call
        assert ours is None or why_not_caught(theirs, ours) is None, call


# -- compiled --------------------------------------------------------------------------------------


def compiled_sample() -> list[str]:
    calls = [call for family in OF_TENSORS for call in calls_of(CALLS[family])]
    return calls[::COMPILED_STEP]


def test_a_compiled_bad_call_raises_what_the_plain_one_raises() -> None:
    for call in compiled_sample():
        plain = error_of(program(call, dj, ones=counted))
        compiled = error_of(dj.compile(program(call, dj, ones=counted)))
        assert type(plain) is type(compiled), f"{call}: {compiled!r} instead of {plain!r}"
        assert re.sub("0x[0-9a-f]+", "", str(plain)) == re.sub("0x[0-9a-f]+", "", str(compiled)), (
            call
        )


HANDLERS = """
def caught(x, index):
    try:
        {call}
    except ZeroDivisionError:
        return x + 1
    except {kind}:
        return x + 2
    except Exception:
        return x + 3
    return x + 4
"""


@pytest.mark.parametrize("kind", ["IndexError", "RuntimeError", "ValueError", "TypeError"])
@pytest.mark.parametrize(
    "call",
    [
        "x.gather(0, index)", "x.index_select(0, index)", "x[index]", "x.scatter(0, index, 1.0)",
        "x.sum(1)", "x.view(2)", "L.einsum('i->j', x)", "x[::-1]", "L.arange(5, 0)",
        "F.cross_entropy(x[None], index)", "x.int() & x", "L.cat([])", "L.tensor([[1], [1, 2]])",
    ],
)  # fmt: skip
def test_captured_code_chooses_the_handler_that_plain_code_chooses(call: str, kind: str) -> None:
    chosen = {}
    for library in (torch, dj):
        namespace = names_of(library)
        exec(HANDLERS.format(call=call, kind=kind), namespace)
        function = namespace["caught"]
        for name, run in (("plain", function), ("compiled", dj.compile(function))):
            if library is dj or name == "plain":
                given = library.zeros(3), library.tensor([7])
                chosen[library, name] = [float(run(*given)[0]) for _ in range(2)]
    assert chosen[dj, "plain"] == chosen[dj, "compiled"]
    if chosen[torch, "plain"] == [2.0, 2.0]:
        assert chosen[dj, "plain"] == [2.0, 2.0]


# -- what is said ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("F.embedding(tensor([1, 5]), ones(3, 2))",
         ("embedding(input: int64[2], weight: float32[3, 2])", "index 5", "[0, 2]")),
        ("F.embedding_bag(tensor([5]), ones(3, 2), tensor([0]))",
         ("embedding_bag(input: int64[1], weight: float32[3, 2])", "index 5", "[0, 2]")),
        ("F.cross_entropy(ones(2, 3), tensor([0, 5]))",
         ("cross_entropy(input: float32[2, 3], target: int64[2])", "index 5", "[0, 2]")),
        ("F.nll_loss(ones(2, 3), tensor([0, -1]))",
         ("nll_loss(input: float32[2, 3], target: int64[2])", "index -1", "[0, 2]")),
        ("L.gather(ones(3), 0, tensor([7]))",
         ("gather(x: float32[3], index: int64[1], dim=0)", "index 7", "[0, 2]")),
        ("ones(3).scatter(0, tensor([7]), 1.0)",
         ("scatter(x: float32[3], index: int64[1], dim=0)", "index 7", "[0, 2]")),
        ("ones(3).index_select(0, tensor([-4]))",
         ("index_select(x: float32[3], index: int64[1], dim=0)", "index -4", "[0, 2]")),
        ("ones(3).view(2)", ("view(x: float32[3], shape=[2])",)),
        ("ones(3).view(-1, -1)", ("view(shape=[-1, -1])",)),
        ("ones(3).reshape(2)", ("reshape(x: float32[3], shape=[2])",)),
        ("x = ones(3, requires_grad=True); x += 1", ("+=: a leaf",)),
        ("x = ones(3, requires_grad=True); x.add_(1)", ("add_: a leaf",)),
        ("x = ones(3); x *= ones(2, 3)", ("*=: output with shape [3]",)),
        ("x = ones(3, dtype=L.int64); x /= 2", ("/=: result type float32",)),
    ],
)  # fmt: skip
def test_a_message_names_the_call_the_tensors_and_the_index(call: str, words: Any) -> None:
    written = program(call, dj, ones=counted)
    for run in (written, dj.compile(written)):
        said = str(error_of(run))
        assert [] == [word for word in words if word not in said], said


# -- PyTorch's own tables --------------------------------------------------------------------------


def table() -> list[Any]:
    """PyTorch's operators."""
    pytest.importorskip("expecttest", reason="PyTorch's table of operators imports expecttest")
    from tests.support.pytorch.operator_table import op_db

    return list(op_db)


def compared(operator: Any, sample: Any) -> tuple[Any, Any]:
    """The errors of PyTorch and dynajit for arguments of an operator. Raises `Untranslated`."""
    from tests.oracle.test_pytorch_samples import ours_of, theirs_of
    from tests.support.pytorch.pytorch_values import Translation, Untranslated

    theirs = theirs_of(operator.op)
    expected = error_of(lambda: theirs(sample.input, *sample.args, **sample.kwargs))
    try:
        first, args, kwargs = Translation()((sample.input, sample.args, sample.kwargs))
    except dj.core.errors.DynajitError as error:  # tensors whose memory dynajit does not make
        raise Untranslated(str(error)) from error
    ours = ours_of(operator, operator.op)
    return expected, error_of(lambda: ours(first, *args, **kwargs))


def test_what_pytorchs_table_of_operators_refuses_raises_pytorchs_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Arguments that are taken here are a matter of `test_pytorch_samples.py`."""
    operators = table()
    from tests.support.pytorch import left_out
    from tests.support.pytorch.pytorch_values import Untranslated

    count, reasons = 0, {}
    for operator in operators:
        if operator.error_inputs_func is None or operator.full_name in left_out.ABSENT:
            continue
        for place, wrong in enumerate(operator.error_inputs("cpu")):
            try:
                theirs, ours = compared(operator, wrong.sample_input)
            except Untranslated:
                continue
            if theirs is not None and ours is not None:
                count += 1
                reasons[operator.full_name, place] = why_not_caught(theirs, ours)
    differing = {key: reason for key, reason in reasons.items() if reason}
    assert OTHER_IN_TABLE.keys() == differing.keys(), differing
    assert count > 400


def _with_dtype(value: Any, before: Any, dtype: Any) -> Any:
    """Tensors of one dtype in nested sequences as those of another."""
    if isinstance(value, torch.Tensor):
        return value.detach().to(dtype) if value.dtype is before else value
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        return type(value)(_with_dtype(part, before, dtype) for part in value)
    if isinstance(value, dict):
        return {name: _with_dtype(part, before, dtype) for name, part in value.items()}
    return value


def test_a_dtype_that_pytorch_has_no_kernel_for_raises_pytorchs_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dtypes that are taken here are no matter of this test."""
    operators = table()
    from tests.support.pytorch import left_out
    from tests.support.pytorch.pytorch_values import Untranslated

    count, reasons = 0, {}
    for operator in operators[::OPERATORS_STEP]:
        if operator.op is None or operator.full_name in left_out.ABSENT | {
            "native_batch_norm": "refused as by `var`"
        }:
            continue
        accepted = [name for name in DTYPES if getattr(torch, name) in operator.dtypes]
        if not accepted:
            continue
        before = getattr(torch, accepted[0])
        sample = next(iter(operator.sample_inputs("cpu", before)))
        for name in set(DTYPES) - set(accepted):
            changed = copy.copy(sample)
            changed.input, changed.args, changed.kwargs = _with_dtype(
                (sample.input, sample.args, sample.kwargs), before, getattr(torch, name)
            )
            try:
                theirs, ours = compared(operator, changed)
            except Untranslated:
                continue
            if theirs is not None and ours is not None:
                count += 1
                reasons[operator.full_name, name] = why_not_caught(theirs, ours)
    differing = {key: reason for key, reason in reasons.items() if reason}
    assert OTHER_DTYPE_ERRORS.keys() & reasons.keys() == differing.keys(), differing
    assert count > 50


#: Errors of PyTorch's modules that dynajit may not raise, by module and place.
TAKEN_BY_MODULES = {
    ("nn.CrossEntropyLoss", 3): "a weight of another length",
    ("nn.NLLLoss", 0): "a weight of another floating dtype is cast",
}


def test_what_pytorchs_table_of_modules_refuses_raises_pytorchs_class() -> None:
    pytest.importorskip("expecttest", reason="PyTorch's table of modules imports expecttest")
    from torch.testing._internal.common_modules import ModuleErrorEnum, module_db

    from tests.support.pytorch.pytorch_values import Translation

    count, differing = 0, {}
    for module in module_db:
        ours = getattr(dj.nn, module.module_cls.__name__, None)
        if module.module_error_inputs_func is None or ours is None:
            continue
        wrongs = module.module_error_inputs_func(module, "cpu", torch.float32, False, True)
        for place, wrong in enumerate(wrongs):

            def run(kind: Any, translated: Any, wrong: Any = wrong) -> Any:
                given = wrong.module_error_input
                args, kwargs = given.constructor_input.args, given.constructor_input.kwargs
                made = kind(*translated(args), **translated(kwargs))
                if wrong.error_on is ModuleErrorEnum.FORWARD_ERROR:
                    args, kwargs = given.forward_input.args, given.forward_input.kwargs
                    made(*translated(args), **translated(kwargs))

            theirs = error_of(lambda: run(module.module_cls, lambda value: value))  # noqa: B023
            found = error_of(lambda: run(ours, Translation()))  # noqa: B023
            count += 1
            reason = why_not_caught(theirs, found)
            if reason:
                differing[module.name, place] = reason
    assert differing.keys() <= TAKEN_BY_MODULES.keys(), differing
    assert count > 70
