"""Module: registration, walks, state dicts, hooks and copies, as PyTorch has them."""

import copy
import pickle
from collections import OrderedDict
from typing import Any

import pytest

import dynajit as dj
from dynajit import nn


class Small(nn.Module):
    """Two linear layers that share a weight, a buffer, and one that is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("scale", dj.ones(3))
        self.register_buffer("scratch", dj.zeros(2), persistent=False)

    def forward(self, x: Any) -> Any:
        """Both layers."""
        return self.second(self.first(x).relu()) * self.scale


def test_parameters_are_listed_once_in_order() -> None:
    """A tied weight appears under its first name only."""
    names = [name for name, _ in Small().named_parameters()]

    assert ["first.weight", "first.bias", "second.bias"] == names
    both = [name for name, _ in Small().named_parameters(remove_duplicate=False)]
    assert ["first.weight", "first.bias", "second.weight", "second.bias"] == both


def test_state_dict_has_tied_weights_and_persistent_buffers() -> None:
    """Keys as in PyTorch: own buffers first, tied weights under both names."""
    keys = list(Small().state_dict())

    expected = ["scale", "first.weight", "first.bias", "second.weight", "second.bias"]
    assert expected == keys


def test_load_state_dict_copies_into_the_same_tensors() -> None:
    """The parameters stay the objects that an optimiser holds."""
    source, target = Small(), Small()
    weight = target.first.weight
    report = target.load_state_dict(source.state_dict())

    assert weight is target.first.weight
    assert source.first.weight.tolist() == weight.tolist()
    assert "<All keys matched successfully>" == repr(report)


def test_strict_loading_names_what_does_not_fit() -> None:
    """Missing, unexpected and wrongly sized entries are in one error."""
    state = Small().state_dict()
    del state["first.bias"]
    state["extra"] = dj.ones(1)
    state["scale"] = dj.ones(4)
    with pytest.raises(RuntimeError) as caught:
        Small().load_state_dict(state)

    text = str(caught.value)
    assert 'Missing key(s) in state_dict: "first.bias".' in text
    assert 'Unexpected key(s) in state_dict: "extra".' in text
    assert "size mismatch for scale" in text


def test_loading_without_strict_reports_the_keys() -> None:
    """Nothing raises; the names come back."""
    missing, unexpected = Small().load_state_dict({"extra": dj.ones(1)}, strict=False)

    assert ["extra"] == unexpected
    assert list(Small().state_dict()) == missing


def test_assignment_registers_by_kind() -> None:
    """Parameters, modules and buffers go to their tables; a wrong kind is refused."""
    module = nn.Module()
    module.weight = nn.Parameter(dj.ones(2))
    module.child = nn.Identity()
    module.plain = dj.ones(2)

    assert ["weight"] == list(module._parameters)
    assert ["child"] == list(module._modules)
    assert "plain" in module.__dict__
    with pytest.raises(TypeError, match="cannot assign 'Tensor' as parameter 'weight'"):
        module.weight = dj.ones(2)
    module.weight = None
    assert module.weight is None


def test_assignment_before_init_is_refused() -> None:
    """The message says what to call."""

    class Early(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Early()


@pytest.mark.parametrize(("name", "error"), [("a.b", "contain"), ("", "be empty")])
def test_bad_names_are_refused(name: str, error: str) -> None:
    """Dots and the empty name would break state dict keys."""
    with pytest.raises(KeyError, match=error):
        nn.Module().register_buffer(name, dj.ones(1))


def test_missing_attribute_error_names_class_and_attribute() -> None:
    """As for any Python object."""
    with pytest.raises(AttributeError, match="'Small' object has no attribute 'missing'"):
        Small().missing


def test_hooks_run_in_order_and_may_replace() -> None:
    """Pre-hooks see and replace arguments, hooks results; handles remove them."""
    layer = nn.Identity()
    seen: list[str] = []

    def before(module: nn.Module, args: tuple[Any, ...]) -> Any:
        seen.append("before")
        return (args[0] + 1,)

    def after(module: nn.Module, args: tuple[Any, ...], result: Any) -> Any:
        seen.append("after")
        return result * 10

    handles = [layer.register_forward_pre_hook(before), layer.register_forward_hook(after)]

    assert 20.0 == layer(dj.tensor(1.0)).item()
    assert ["before", "after"] == seen
    for handle in handles:
        handle.remove()
    assert 1.0 == layer(dj.tensor(1.0)).item()


def test_hooks_with_keywords_and_prepend() -> None:
    """`with_kwargs` passes the keywords, `prepend` puts a hook first."""
    layer = nn.Linear(2, 2)
    seen: list[Any] = []
    layer.register_forward_hook(lambda m, a, r: seen.append("last"))
    layer.register_forward_hook(
        lambda m, a, k, r: seen.append(sorted(k)), prepend=True, with_kwargs=True
    )
    layer(input=dj.ones(1, 2))

    assert [["input"], "last"] == seen


def test_global_hooks_see_every_module() -> None:
    """Registered once, called for parent and children."""
    seen: list[str] = []
    from dynajit.nn.hooks import register_module_forward_hook

    with register_module_forward_hook(lambda m, a, r: seen.append(type(m).__name__)):
        Small()(dj.ones(1, 3))
    Small()(dj.ones(1, 3))

    assert ["Linear", "Linear", "Small"] == seen


def test_full_backward_hook_gets_both_gradients() -> None:
    """grad_input and grad_output as PyTorch gives them; what it returns replaces grad_input."""
    layer = nn.Linear(2, 1, bias=False)
    seen: list[Any] = []

    def hook(module: nn.Module, grad_input: Any, grad_output: Any) -> Any:
        seen.append((grad_input[0].tolist(), grad_output[0].tolist()))
        return (grad_input[0] * 2,)

    layer.register_full_backward_hook(hook)
    x = dj.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    weight = layer.weight.tolist()

    assert [(weight, [[1.0]])] == seen
    assert [[2 * weight[0][0], 2 * weight[0][1]]] == x.grad.tolist()


def test_state_dict_hooks_run() -> None:
    """Pre- and post-hooks on saving and loading."""
    module = nn.Linear(1, 1)
    seen: list[str] = []
    module.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append("save"))
    module.register_state_dict_post_hook(lambda m, state, prefix, local: state.pop("bias"))
    module.register_load_state_dict_pre_hook(lambda m, *rest: seen.append("load"))
    module.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    state = module.state_dict()

    assert ["weight"] == list(state)
    module.load_state_dict(state)
    assert ["save", "load"] == seen


def test_apply_train_and_requires_grad_reach_everything() -> None:
    """Children before parents in apply."""
    module = Small()
    order: list[str] = []
    module.apply(lambda m: order.append(type(m).__name__))
    module.eval()
    module.requires_grad_(False)

    assert ["Linear", "Linear", "Small"] == order
    assert not any(m.training for m in module.modules())
    assert not any(p.requires_grad for p in module.parameters())


def test_to_changes_floating_dtypes_only() -> None:
    """Integers stay; parameters stay the same objects."""
    module = Small()
    module.register_buffer("count", dj.zeros(1, dtype=dj.int64))
    weight = module.first.weight
    module.double()

    assert dj.float64 is module.first.weight.dtype
    assert weight is module.first.weight
    assert dj.int64 is module.count.dtype
    with pytest.raises(TypeError, match="only accepts floating point"):
        module.to(dj.int32)


def test_deepcopy_and_pickle_keep_values_and_ties() -> None:
    """Copies are independent; weights tied before are tied after."""
    module = Small()
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert module.first.weight.tolist() == copied.first.weight.tolist()
        assert copied.first.weight is not module.first.weight
        assert copied.first.weight is copied.second.weight


def test_get_submodule_parameter_buffer() -> None:
    """Dotted paths; wrong ones say which part is missing."""
    module = Small()

    assert module.first is module.get_submodule("first")
    assert module.first.bias is module.get_parameter("first.bias")
    assert module.scale is module.get_buffer("scale")
    with pytest.raises(AttributeError, match="has no attribute `third`"):
        module.get_submodule("third")
    with pytest.raises(AttributeError, match=r"not an nn\.Parameter"):
        module.get_parameter("scale")


def test_forward_is_required() -> None:
    """The error names the class."""
    with pytest.raises(NotImplementedError, match=r"\[Module\] is missing"):
        nn.Module()(1)


def test_repr_is_pytorchs() -> None:
    """Nested indentation and layer arguments."""
    torch = pytest.importorskip("torch")
    ours = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Dropout(0.2)))
    theirs = torch.nn.Sequential(
        torch.nn.Linear(2, 3), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Dropout(0.2))
    )

    assert repr(theirs) == repr(ours)


def test_sequential_and_lists_behave_like_sequences() -> None:
    """Indices, slices, append, insert, delete, negative indices."""
    layers = nn.Sequential(nn.Identity(), nn.ReLU())
    layers.append(nn.Tanh()).insert(1, nn.Sigmoid())

    assert ["Identity", "Sigmoid", "ReLU", "Tanh"] == [type(m).__name__ for m in layers]
    assert "Tanh" == type(layers[-1]).__name__
    del layers[0]
    assert ["0", "1", "2"] == list(layers._modules)
    listed = nn.ModuleList([nn.ReLU()])
    listed += [nn.Tanh()]
    assert 2 == len(listed[:])
    with pytest.raises(IndexError, match="out of range"):
        listed[5]


def test_dict_containers() -> None:
    """ModuleDict and ParameterDict keep insertion order and register their entries."""
    modules = nn.ModuleDict(OrderedDict(b=nn.ReLU(), a=nn.Linear(1, 1)))
    parameters = nn.ParameterDict({"w": dj.ones(2)})

    assert ["b", "a"] == list(modules.keys())
    assert ["a.weight", "a.bias"] == [name for name, _ in modules.named_parameters()]
    assert isinstance(parameters["w"], nn.Parameter)
    assert ["w"] == [name for name, _ in parameters.named_parameters()]
    assert 3 == len(nn.ParameterList(dj.ones(1) for _ in range(3)))


def test_extra_state_is_saved_and_restored() -> None:
    """Whatever get_extra_state returns comes back through set_extra_state."""

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = 0

        def get_extra_state(self) -> int:
            return self.count

        def set_extra_state(self, state: int) -> None:
            self.count = state

    source, target = Counting(), Counting()
    source.count = 7
    target.load_state_dict(source.state_dict())

    assert 7 == target.count


def test_tables_of_call_hooks_are_made_when_they_are_asked_for() -> None:
    """A module without hooks keeps none; names and contents are those of PyTorch."""
    layer = nn.Linear(2, 2)
    layer(dj.ones(1, 2))
    assert "_call_hooks" not in vars(layer)
    assert layer._forward_hooks is layer._forward_hooks
    handle = layer.register_forward_pre_hook(lambda module, args: (args[0] * 2,), with_kwargs=False)

    assert [handle.id] == list(layer._forward_pre_hooks)
    copied = copy.deepcopy(layer)
    assert [handle.id] == list(copied._forward_pre_hooks)
    handle.remove()
    assert not layer._forward_pre_hooks
    assert [handle.id] == list(copied._forward_pre_hooks)
    copied._forward_pre_hooks = OrderedDict()
    assert copied(dj.ones(1, 2)).tolist() == layer(dj.ones(1, 2)).tolist()


def test_to_empty_keeps_sizes_and_ties_only() -> None:
    """Sizes and dtypes stay, memory is new; modules below are left alone if asked for."""
    model = Small().double()
    held = model.first.weight
    # Aliases of the old memory: what is still alive is not handed out again.
    old_scale, old_weight = model.scale, held.detach()
    assert model.to_empty(device="cpu", recurse=False) is model
    assert old_weight.data_ptr() == held.data_ptr()
    assert old_scale.data_ptr() != model.scale.data_ptr()
    model.to_empty(device=None)

    assert old_weight.data_ptr() != held.data_ptr()
    assert held is model.first.weight is model.second.weight
    assert (dj.float64, (3, 3)) == (held.dtype, tuple(held.shape))
    assert (dj.float64, (3,)) == (model.scale.dtype, tuple(model.scale.shape))
    assert held.requires_grad
    with pytest.raises(TypeError):
        model.to_empty()  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("target", "strict"),
    [
        *(("0", False), ("0", True), ("new", False), ("new", True), ("1.0", True)),
        *(("1.new", False), ("", False), ("2.0", False), ("0.weight", False)),
        *(("0.weight.x", False), ("a..b", False)),
    ],
)
def test_set_submodule_replaces_or_refuses_as_pytorch(target: str, strict: bool) -> None:
    """Names of modules afterwards, or the class of the error, are PyTorch's."""
    torch = pytest.importorskip("torch")

    def outcome(library: Any) -> Any:
        below = library.nn.Sequential(library.nn.ReLU())
        model = library.nn.Sequential(library.nn.Linear(1, 1), below)
        try:
            model.set_submodule(target, library.nn.Tanh(), strict)
        except Exception as error:
            return type(error)
        return [(name, type(module).__name__) for name, module in model.named_modules()]

    assert outcome(torch) == outcome(dj)


def test_set_submodule_takes_modules_only() -> None:
    """Anything else is a ValueError."""
    with pytest.raises(ValueError, match=r"not an nn\.Module"):
        Small().set_submodule("first", dj.ones(1))  # type: ignore[arg-type]


def test_modules_may_repeat() -> None:
    """A module that stands at two places comes twice with remove_duplicate=False."""
    layer = nn.ReLU()
    model = nn.Sequential(layer, layer)

    assert [model, layer] == list(model.modules())
    assert [model, layer, layer] == list(model.modules(remove_duplicate=False))


def test_older_backward_hooks_are_refused_by_name() -> None:
    """What they would see depends on the operations within; the error names the other method."""
    with pytest.raises(NotImplementedError, match="register_full_backward_hook"):
        nn.Linear(1, 1).register_backward_hook(print)


def test_sequential_extends_by_its_own_name() -> None:
    """The parameter is called `sequential`; a list's `modules`."""
    model = nn.Sequential(nn.ReLU()).extend(sequential=[nn.Tanh()])
    listed = nn.ModuleList().extend(modules=model)

    assert ["ReLU", "Tanh"] == [type(layer).__name__ for layer in model]
    assert list(model) == list(listed)


@pytest.mark.parametrize("name", ["min_value", "max_value"])
def test_older_names_of_hardtanhs_ends_warn(name: str) -> None:
    """They win over the newer ones, as in PyTorch."""
    torch = pytest.importorskip("torch")
    made = []
    for library in (torch, dj):
        with pytest.warns(FutureWarning, match=name):
            made.append(library.nn.Hardtanh(-0.5, 0.5, **{name: 0.25 if "max" in name else -2}))

    assert repr(made[0]) == repr(made[1])
    with pytest.warns(FutureWarning), pytest.raises(AssertionError):
        nn.Hardtanh(max_value=-1)


def test_rms_norm_starts_again() -> None:
    """`reset_parameters` makes the weight one; the input's name is x."""
    layer = nn.RMSNorm(3)
    layer.weight.data.fill_(2)
    layer.reset_parameters()

    assert [1.0, 1.0, 1.0] == layer.weight.tolist()
    assert (1, 3) == tuple(layer(x=dj.ones(1, 3)).shape)
    nn.RMSNorm(3, elementwise_affine=False).reset_parameters()


def _dict_steps(library: Any) -> list[Any]:
    made = library.nn.ParameterDict({"b": library.ones(2), "a": library.zeros(1), "c": 5})
    seen: list[Any] = [list(made), list(reversed(made)), repr(made), len(made), "c" in made]
    seen += [made.get("c"), made.get("x"), made.get("x", 1), made.setdefault("b", 0).tolist()]
    seen.append(made.setdefault("d", library.ones(3)).requires_grad)
    copied = made.copy()
    seen += [copied["a"] is made["a"], list(copied), made.pop("c"), made.popitem()[0], list(made)]
    seen += [list(made.fromkeys(["z", "y"], 7).items()), list(copied | made), list(made)]
    made |= library.nn.ParameterDict([("q", library.ones(1))])
    seen += [list(made), [name for name, _ in made.named_parameters()], list(made.state_dict())]
    copied.clear()
    seen += [len(copied), list(copied.parameters()), hasattr(copied, "a")]
    return seen


def test_parameter_dicts_do_what_pytorchs_do() -> None:
    """Order, text, defaults, copies and removals."""
    torch = pytest.importorskip("torch")

    assert _dict_steps(torch) == _dict_steps(dj)


def _list_steps(library: Any) -> list[Any]:
    inner = library.nn.ParameterList([library.zeros(3)])
    made = library.nn.ParameterList([library.ones(2), inner, 5, None])
    text = repr(made).replace("dynajit.", "torch.")
    seen: list[Any] = [text, len(made), [name for name, _ in made.named_parameters()]]
    seen += [list(made.state_dict()), len(made[1:3]), made[-2], made[1] is inner, made[3]]
    made += (library.zeros(1),)
    made[0] = library.ones(4)
    made[2] = "text"
    seen += [made[4].requires_grad, made[0].shape[0], type(made[4]) is library.nn.Parameter]
    seen += [[name for name, _ in made.named_parameters()], [type(x).__name__ for x in made]]
    return seen


def test_parameter_lists_do_what_pytorchs_do() -> None:
    """Of any values, lists of parameters among them."""
    torch = pytest.importorskip("torch")

    assert _list_steps(torch) == _list_steps(dj)


@pytest.mark.parametrize(
    "act",
    [
        lambda made, library: made.extend(library.ones(2)),
        lambda made, library: made.extend(5),
        lambda made, library: made[3],
        lambda made, library: made(1),
        lambda made, library: library.nn.ParameterList(library.ones(2)),
    ],
)
def test_parameter_lists_refuse_as_pytorchs(act: Any) -> None:
    torch = pytest.importorskip("torch")

    def outcome(library: Any) -> Any:
        with pytest.raises(Exception) as refused:
            act(library.nn.ParameterList([library.ones(1)]), library)
        return refused.type

    assert issubclass(outcome(dj), outcome(torch))


def test_compiled_modules_read_parameter_lists() -> None:
    """By position, one after the other, and lists in lists."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            inner = nn.ParameterList([dj.ones(3), dj.full((3,), 2.0)])
            self.scales = nn.ParameterList([dj.arange(3.0), inner])

        def forward(self, x: Any) -> Any:
            first, others = self.scales
            return x * first + sum(scale * len(others) for scale in others) + self.scales[1][0]

    model, x = Scaled(), dj.randn(3)

    assert dj.allclose(model(x), dj.compile(model, fullgraph=True)(x))


@pytest.mark.parametrize(
    "act",
    [
        lambda made: made.update(5),
        lambda made: made.update([5]),
        lambda made: made.update([("a", 1, 2)]),
        lambda made: made.update([(1, 2)]),
        lambda made: made.pop("x"),
        lambda made: made.popitem(),
        lambda made: made["x"],
        lambda made: made.__delitem__("x"),
        lambda made: made(1),
        lambda made: made.update({"keys": made}),
    ],
)
def test_parameter_dicts_refuse_as_pytorchs(act: Any) -> None:
    """The class of the error is the same."""
    torch = pytest.importorskip("torch")

    def outcome(library: Any) -> Any:
        made = library.nn.ParameterDict()
        try:
            act(made)
        except Exception as error:
            return type(error)
        return list(made)

    assert outcome(torch) == outcome(dj)


def test_compiled_modules_read_parameter_dicts() -> None:
    """Values other than parameters are constants of the graph."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = nn.ParameterDict({"w": dj.arange(3.0), "power": 2})

        def forward(self, x: Any) -> Any:
            return x * self.held["w"] ** self.held.get("power") + sum(
                value.sum() for name, value in self.held.items() if name != "power"
            )

    model = Scaled()
    compiled = dj.compile(model, fullgraph=True)

    assert [3.0, 4.0, 7.0] == compiled(dj.ones(3)).tolist() == model(dj.ones(3)).tolist()
    model.held["power"] = 1
    assert [3.0, 4.0, 5.0] == compiled(dj.ones(3)).tolist()


class Handled(nn.Module):
    """Keeps the handle of its own hook, as layers of programs do."""

    def __init__(self) -> None:
        super().__init__()
        self.handle = self.register_forward_pre_hook(self.doubled)

    def doubled(self, module: nn.Module, args: Any) -> Any:
        """Twice the input."""
        return (args[0] * 2,)

    def forward(self, x: Any) -> Any:
        """The input."""
        return x


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_handles_in_copies_belong_to_the_copies(copied: Any) -> None:
    """Removing one leaves the other module's hook; later handles have other numbers."""
    original = Handled()
    made = copied(original)
    assert [2.0] == made(dj.ones(1)).tolist()
    made.handle.remove()

    assert [1.0] == made(dj.ones(1)).tolist()
    assert [2.0] == original(dj.ones(1)).tolist()
    assert original.register_forward_pre_hook(print).id > original.handle.id


class _Counting(dj.nn.Module):
    """Counts how often a state was loaded into it."""

    def __init__(self):
        super().__init__()
        self.weight = dj.nn.Parameter(dj.ones(2))
        self.count = 0
        self._register_load_state_dict_pre_hook(self._counted)

    def _counted(self, state, prefix, *others):
        self.count += 1


def test_hooks_without_the_module_belong_to_copies():
    """Deep copies and pickled modules call the hooks of their own."""
    module = _Counting()
    for again in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        again.load_state_dict(module.state_dict())
        assert (1, 0) == (again.count, module.count)


def test_classes_of_parameters_take_arguments_of_their_own() -> None:
    class Tagged(dj.nn.Parameter):
        def __new__(cls, data: Any = None, tag: Any = None, requires_grad: bool = True) -> Any:
            made = dj.Tensor._make_subclass(cls, data, requires_grad)
            made.tag = tag
            return made

    made = Tagged(dj.ones(2), tag=3)

    assert (3, True) == (made.tag, made.requires_grad)
    assert isinstance(made, dj.nn.Parameter)
