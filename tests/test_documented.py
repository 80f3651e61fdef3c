"""Every public function, class and method says what it does and which arguments it takes."""

import importlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

import pytest

import dynajit as dj
from dynajit.ops.native._library_call import LibraryFunction
from tests.support.public_modules import PUBLIC_MODULES

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, LibraryFunction)
REFUSED = ("Raises UnsupportedError: ", "Refused: ")

#: What is called with `(*args, **kwargs)`, by name or by name of the method, and why.
ANY_ARGUMENTS = {
    "to": "a dtype, a device or a tensor in the first place",
    "PackedSequence.cpu": "as `to`",
    "PackedSequence.cuda": "as `to`",
    "Identity": "ignores them, as in PyTorch",
    "GRU": "those of RNNBase after its mode, as in PyTorch",
    "LSTM": "those of RNNBase after its mode, as in PyTorch",
    "StackDataset": "data sets in places or by names of the program's own",
    "forward": "of a module that wraps another: those of that one",
    "LazyModuleMixin.initialize_parameters": "those of `forward`",
    "recorded": "those of the operator",
    "UninitializedTensorMixin": "conversions, which take those of Tensor's",
    "set_postfix": "any names",
    "quantized_args": "positions of the program's own",
    "always_wrap_policy": "says yes to all, as in PyTorch",
    "GraphModule": "`__new__` makes a class first; `__init__` tells them",
    "BuildExtension": "those of a command of setuptools, which is not imported for it",
}
_WHATEVER_IS_GIVEN = (
    "Library.fallback", "CustomOpDef.register_vmap", "CustomOpDef.register_torch_dispatch",
    "CustomOpDef.register_autocast", "CustomOpDef.register_effect",
    "create_selective_checkpoint_contexts", "key_averages", "table", "export_chrome_trace",
    "export_stacks", "tensorboard_trace_handler",
)  # fmt: skip
ANY_ARGUMENTS |= dict.fromkeys(_WHATEVER_IS_GIVEN, "refused, or an empty answer")


def takes_anything(function: Any) -> bool:
    """True for a signature that tells nothing: `(*args, **kwargs)`, after the tensor or self."""
    found = inspect.signature(function).parameters.values()
    variable = {p.name for p in found if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    named = [p.name for p in found if p.name not in variable]
    return variable == {"args", "kwargs"} and named in ([], ["self"], ["cls"], ["input"])


def is_refused(function: Any) -> bool:
    """True for what is there only to say why it is not."""
    return (function.__doc__ or "").startswith(REFUSED)


def is_ours(thing: Any) -> bool:
    """True for what is not just Python's own under another name."""
    return str(getattr(thing, "__module__", "")).partition(".")[0] == "dynajit"


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    """(name with that of the class that defines it, method), inherited ones too."""
    for owner in filter(is_ours, cls.__mro__):
        for name in vars(owner):
            method = getattr(owner, name)
            if not name.startswith("_") and isinstance(method, (*FUNCTIONS, types.MethodType)):
                yield f"{owner.__name__}.{name}", method


def public(module: str) -> Iterator[tuple[str, Any]]:
    """(name, function, class or method), of all that `__all__` lists."""
    home = importlib.import_module(module)
    for name in home.__all__:
        thing = getattr(home, name)
        if inspect.isclass(thing) and is_ours(thing):
            yield name, thing
            yield from methods(thing)
        elif isinstance(thing, FUNCTIONS) and not name.startswith("_"):
            yield name, thing


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_everything_public_has_a_docstring(module: str) -> None:
    silent = {
        name for name, thing in public(module) if is_ours(thing) and not inspect.getdoc(thing)
    }

    assert set() == silent


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_everything_public_tells_its_arguments(module: str) -> None:
    vague = []
    for name, thing in public(module):
        if inspect.isclass(thing) and issubclass(thing, (BaseException, str)):
            continue  # Python tells no signature of these
        allowed = {name, name.rpartition(".")[2], name.partition(".")[0]} & ANY_ARGUMENTS.keys()
        if takes_anything(thing) and not allowed and not is_refused(thing):
            vague.append(name)

    assert [] == vague


#: In-place forms whose function has other parameters, or none.
OF_THEIR_OWN = {
    "apply_", "bernoulli_", "exponential_", "map2_", "map_", "resize_", "squeeze_", "swapaxes_",
    "swapdims_", "transpose_", "unsqueeze_", "t_", "detach_", "resize_as_", "normal_",
}  # fmt: skip


def in_place_forms() -> list[str]:
    return sorted(
        name
        for name in dir(dj.Tensor)
        if name[0] != "_" and name[-1] == "_" and callable(getattr(dj.Tensor, name[:-1], None))
    )


@pytest.mark.parametrize("name", sorted(set(in_place_forms()) - OF_THEIR_OWN))
def test_an_in_place_form_takes_what_its_function_takes(name: str) -> None:
    """But for the name of the tensor, which is `self`."""
    form = inspect.signature(getattr(dj.Tensor, name))
    function = inspect.signature(getattr(dj.Tensor, name[:-1]))

    assert "self" == next(iter(form.parameters))
    # Without annotations: functions lose them where a program overrides functions for tensors.
    plain = [p.replace(annotation=p.empty) for p in function.parameters.values()]
    assert plain[1:] == [p.replace(annotation=p.empty) for p in form.parameters.values()][1:]
    assert getattr(dj.Tensor, name).__doc__.startswith("In place: ")


@pytest.mark.parametrize("name", ["relu_", "clamp_", "nan_to_num_", "xlogy_"])
def test_a_function_that_writes_takes_what_the_method_takes(name: str) -> None:
    function = inspect.signature(getattr(dj, name))
    method = inspect.signature(getattr(dj.Tensor, name))

    assert ["input", *list(method.parameters)[1:]] == list(function.parameters)
    assert getattr(dj.Tensor, name).__doc__ == getattr(dj, name).__doc__


@pytest.mark.parametrize("name", ["relu", "dropout", "threshold", "elu", "silu", "leaky_relu"])
def test_inplace_is_a_parameter_of_the_functions_that_take_it(name: str) -> None:
    functional = dj.nn.functional
    function = inspect.signature(getattr(functional, name)).parameters

    assert (list(function)[-1], False) == ("inplace", function["inplace"].default)
    if hasattr(functional, f"{name}_"):
        assert list(function)[:-1] == list(
            inspect.signature(getattr(functional, f"{name}_")).parameters
        )


def test_out_is_a_parameter_where_it_is_taken() -> None:
    assert ["input", "other", "alpha", "out"] == list(inspect.signature(dj.add).parameters)
    assert ["input"] == list(inspect.signature(dj.detach).parameters)
    assert ["other", "alpha"] == list(inspect.signature(dj.zeros(2).add).parameters)


def test_a_signature_of_the_programs_own_stays() -> None:
    """As on a function of Python."""
    own = inspect.Signature()
    try:
        dj.add.__signature__ = own
        assert inspect.signature(dj.add) is own
    finally:
        del dj.add.__signature__
    assert "other" in inspect.signature(dj.add).parameters


def test_foreach_forms_that_write_take_what_the_others_take() -> None:
    parameters = inspect.signature(dj._foreach_add).parameters
    assert parameters == inspect.signature(dj._foreach_add_).parameters
