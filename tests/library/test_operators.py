"""Operators that programs define, against PyTorch: the same program with both libraries."""

# Annotations are those that programs write.
# ruff: noqa: UP006, UP007, UP035, UP045

import itertools
import typing
from collections.abc import Callable, Sequence
from typing import Any, List, Optional, Tuple

import numpy as np
import pytest

import dynajit as dj
from dynajit.library.schema import parse

torch = pytest.importorskip("torch")

_numbers = itertools.count()


def both(program: Callable[[Any, str], Any]) -> None:
    """The program gives the same with either library; it gets the library and a namespace."""
    assert program(torch, f"theirs{next(_numbers)}") == program(dj, f"ours{next(_numbers)}")


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, or the kind of its error."""
    try:
        return call()
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        kinds = (NotImplementedError, RuntimeError, AttributeError, ValueError, TypeError)
        return next(kind for kind in kinds if isinstance(error, kind))


def sine(lib: Any, space: str, **options: Any) -> Any:
    """An operator by NumPy."""

    def sin(x: Any) -> Any:
        return lib.from_numpy(np.sin(x.detach().numpy()))

    return lib.library.custom_op(
        f"{space}::sin", sin, mutates_args=(), schema="(Tensor x) -> Tensor", **options
    )


def test_an_operator_is_a_function_and_found_in_ops() -> None:
    def program(lib: Any, space: str) -> Any:
        sin = sine(lib, space)
        packet = getattr(lib.ops, space).sin
        x = lib.tensor([0.5, -1.0])
        return (
            [f(x).tolist() for f in (sin, packet, packet.default)],
            packet(x=x).tolist(),
            packet.overloads(),
            repr(sin).replace(space, ""),
            repr(packet).replace(space, ""),
            repr(packet.default).replace(space, ""),
            str(packet.default).replace(space, ""),
            packet.default.name().replace(space, ""),
            str(packet.default._schema).replace(space, ""),
            (packet.__name__, packet.default.__name__),
        )

    both(program)


@pytest.mark.parametrize(
    "call",
    [
        lambda lib, space: getattr(lib.ops, space).absent,
        lambda lib, space: lib.ops.no_such_namespace.absent,
        lambda lib, space: hasattr(lib.ops, "another_namespace"),
        lambda lib, space: hasattr(getattr(lib.ops, space), "absent"),
        lambda lib, space: getattr(lib.ops, space).sin.other,
        lambda lib, space: getattr(lib.ops, space).sin(),
        lambda lib, space: getattr(lib.ops, space).sin(lib.ones(2), 1),
        lambda lib, space: getattr(lib.ops, space).sin(lib.ones(2), y=1),
        lambda lib, space: getattr(lib.ops, space).sin(3),
        lambda lib, space: getattr(lib.ops, space).sin([lib.ones(2)]),
        lambda lib, space: getattr(lib.ops, space).sin(None),
        lambda lib, space: lib.library.register_fake(f"{space}::absent", lambda x: x),
        lambda lib, space: lib.library.custom_op("sin", mutates_args=())(_annotated(lib)),
        lambda lib, space: lib.library.custom_op(f"{space}::a", mutates_args="all")(
            _annotated(lib)
        ),
        lambda lib, space: lib.library.custom_op(f"{space}::a", mutates_args=("y",))(
            _annotated(lib)
        ),
        lambda lib, space: lib.library.custom_op(
            f"{space}::a", lambda x: x, mutates_args=(), schema="(Tensor(a!) x) -> Tensor"
        ),
    ],
)
def test_wrong_uses_are_refused_as_pytorch_refuses_them(call: Any) -> None:
    def program(lib: Any, space: str) -> Any:
        sine(lib, space)
        return outcome(lambda: call(lib, space))

    both(program)


def _annotated(lib: Any) -> Any:
    def function(x: Any) -> Any:
        return x

    function.__annotations__ = {"x": lib.Tensor, "return": lib.Tensor}
    return function


def test_libraries_of_compiled_operators_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="custom_op"):
        dj.ops.load_library("library.so")


@pytest.mark.parametrize(
    "result",
    [
        lambda lib, x: x,
        lambda lib, x: x[:1],
        lambda lib, x: x.detach(),
        lambda lib, x: 3,
        lambda lib, x: None,
        lambda lib, x: (x.clone(), x.clone()),
        lambda lib, x: x.clone(),
    ],
)
def test_results_are_new_tensors_of_the_schema(result: Any) -> None:
    def program(lib: Any, space: str) -> Any:
        op = lib.library.custom_op(
            f"{space}::f",
            lambda x: result(lib, x),
            mutates_args=(),
            schema="(Tensor x) -> Tensor",
        )
        return outcome(lambda: op(lib.ones(2)).tolist())

    both(program)


def test_two_results_share_no_memory() -> None:
    def program(lib: Any, space: str) -> Any:
        def twice(x: Any) -> Any:
            y = x.clone()
            return y, y

        op = lib.library.custom_op(
            f"{space}::f", twice, mutates_args=(), schema="(Tensor x) -> (Tensor, Tensor)"
        )
        return outcome(lambda: op(lib.ones(2)))

    both(program)


def test_arguments_are_converted_and_completed() -> None:
    """Tuples to lists, integers to floats, texts to devices; defaults where nothing is given."""

    def program(lib: Any, space: str) -> Any:
        seen: list[Any] = []

        def f(xs: Any, k: Any, o: Any = None, n: Any = 2, d: Any = None, *, kw: Any = 1.0) -> Any:
            seen.append((type(xs), len(xs), k, o is None, n, d is lib.float32, kw, type(kw)))
            return [x * kw for x in xs]

        op = lib.library.custom_op(
            f"{space}::f",
            f,
            mutates_args=(),
            schema="(Tensor[] xs, float[] k, Tensor? o=None, SymInt n=2, ScalarType? d=None, *, "
            "float kw=1.) -> Tensor[]",
        )
        x = lib.ones(2)
        results = [
            op([x], [2.0]),
            op((x, x), (2,), kw=3),
            op((x,), (2,), None, 3, lib.float32),
            op(xs=[x], k=[], n=5),
        ]
        return seen, [[y.tolist() for y in ys] for ys in results]

    both(program)


def test_kernels_are_chosen_by_device() -> None:
    def program(lib: Any, space: str) -> Any:
        op = lib.library.custom_op(
            f"{space}::f",
            lambda x: x + 1,
            mutates_args=(),
            schema="(Tensor x) -> Tensor",
            device_types="cuda",
        )
        found = [outcome(lambda: op(lib.zeros(1)).tolist())]
        op.register_kernel("cpu")(lambda x: x + 2)
        found.append(op(lib.zeros(1)).tolist())
        with op.set_kernel_enabled("cpu", False):
            found.append(op(lib.zeros(1)).tolist())
        found.append(op(lib.zeros(1)).tolist())
        lib.library.register_kernel(f"{space}::f", "cpu", lambda x: x + 3)
        return [*found, op(lib.zeros(1)).tolist()]

    both(program)


def test_a_redefined_operator_replaces_the_first() -> None:
    def program(lib: Any, space: str) -> Any:
        sine(lib, space)
        lib.library.custom_op(
            f"{space}::sin", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor"
        )
        return getattr(lib.ops, space).sin(lib.zeros(1)).tolist()

    both(program)


# -- writes --------------------------------------------------------------------------------------


def doubling(lib: Any, space: str) -> Any:
    def double(x: Any, y: Any) -> None:
        array = x.numpy()
        array *= 2

    return lib.library.custom_op(
        f"{space}::double", double, mutates_args={"x"}, schema="(Tensor(a!) x, Tensor y) -> ()"
    )


def test_writes_are_seen_and_counted() -> None:
    """Once for the written argument, also where NumPy wrote; not for others."""

    def program(lib: Any, space: str) -> Any:
        op = doubling(lib, space)
        base, y = lib.ones(3), lib.ones(3)
        result = op(base[1:], y)
        return result, base.tolist(), base._version, y._version

    both(program)


def test_unknown_writes_count_for_all_tensors() -> None:
    def program(lib: Any, space: str) -> Any:
        def f(x: Any, y: Any) -> None:
            x.numpy()[:] = 5

        f.__annotations__ = {"x": lib.Tensor, "y": lib.Tensor, "return": None}
        op = lib.library.custom_op(f"{space}::f", f, mutates_args="unknown")
        x, y = lib.ones(2), lib.ones(2)
        op(x, y)
        return x.tolist(), x._version, y._version

    both(program)


def test_a_write_spoils_what_backward_needs() -> None:
    def program(lib: Any, space: str) -> Any:
        op = doubling(lib, space)
        x = lib.ones(2, requires_grad=True)
        y = x.exp()
        op(y.detach(), x.detach())
        return outcome(lambda: y.sum().backward())

    both(program)


def test_a_write_to_what_requires_a_gradient_is_refused() -> None:
    """Its gradient would be wrong (PyTorch gives it); without recording the write is done."""
    op = doubling(dj, "writes_with_history")
    leaf = dj.ones(2, requires_grad=True)
    for written in (leaf, leaf * 1):
        with pytest.raises(RuntimeError, match="no derivative of that write"):
            op(written, dj.ones(2))
    with dj.no_grad():
        op(leaf.detach(), dj.ones(2))
    assert [2.0, 2.0] == leaf.tolist()


def test_writing_operators_have_no_derivative() -> None:
    def program(lib: Any, space: str) -> Any:
        op = doubling(lib, space)
        y = lib.ones(2, requires_grad=True)
        x = lib.ones(2)
        op(x, y)
        return outcome(lambda: op.register_autograd(lambda ctx: None)), x.tolist()

    both(program)


# -- derivatives ---------------------------------------------------------------------------------


def test_without_a_derivative_only_backward_fails() -> None:
    def program(lib: Any, space: str) -> Any:
        sin = sine(lib, space)
        x = lib.ones(2, requires_grad=True)
        y = sin(x)
        with lib.no_grad():
            plain = sin(x)
        name = y.grad_fn.name().replace(space, "")
        return (
            y.requires_grad, plain.requires_grad, name, outcome(lambda: y.sum().backward()),
        )  # fmt: skip

    both(program)


def test_first_and_second_derivatives() -> None:
    def program(lib: Any, space: str) -> Any:
        sin = sine(lib, space)
        sin.register_autograd(
            lambda ctx, g: g * ctx.saved_tensors[0].cos(),
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        )
        x = lib.tensor([0.5, -1.0], dtype=lib.float64, requires_grad=True)
        assert lib.autograd.gradcheck(sin, (x,))
        assert lib.autograd.gradgradcheck(sin, (x,))
        (g,) = lib.autograd.grad(sin(x).sum(), x, create_graph=True)
        (h,) = lib.autograd.grad(g.sum(), x)
        return [round(v, 12) for v in (*g.tolist(), *h.tolist())]

    both(program)


def test_context_and_gradients_have_the_structure_of_the_schema() -> None:
    def program(lib: Any, space: str) -> Any:
        seen: list[Any] = []

        def f(xs: Any, n: Any, y: Any, *, scale: Any = 2.0) -> Any:
            return [x * n for x in xs], y * scale, xs[0].argmax()

        def setup_context(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
            seen.append((len(inputs), type(inputs[0]), keyword_only_inputs, type(output)))
            seen.append(type(output[0]))
            ctx.n, ctx.scale = inputs[1], keyword_only_inputs["scale"]

        def backward(ctx: Any, gs: Any, g: Any, none: Any) -> Any:
            seen.append((type(gs), len(gs), ctx.needs_input_grad, none.dtype is lib.int64))
            return [h * ctx.n for h in gs], None, g * ctx.scale

        op = lib.library.custom_op(
            f"{space}::f",
            f,
            mutates_args=(),
            schema="(Tensor[] xs, SymInt n, Tensor y, *, float scale=2.) -> "
            "(Tensor[], Tensor, Tensor)",
        )
        op.register_autograd(backward, setup_context=setup_context)
        a, b, y = (lib.ones(2, requires_grad=flag) for flag in (True, False, True))
        (p, q), r, i = op([a, b], 3, y)
        (p.sum() + (q * 5).sum() + r.sum() + i).backward()
        return seen, a.grad.tolist(), b.grad, y.grad.tolist()

    both(program)


def test_unused_results_give_zeros_or_none() -> None:
    def program(lib: Any, space: str) -> Any:
        seen: list[Any] = []

        def register(op: Any, materialize: bool) -> None:
            def backward(ctx: Any, a: Any, b: Any) -> Any:
                seen.append((a is None, b is None))
                return a

            op.register_autograd(
                backward,
                setup_context=lambda ctx, inputs, output: ctx.set_materialize_grads(materialize),
            )

        x = lib.ones(2, requires_grad=True)
        for number, materialize in enumerate((True, False)):
            op = lib.library.custom_op(
                f"{space}::f{number}",
                lambda x: (x * 1, x * 2),
                mutates_args=(),
                schema="(Tensor x) -> (Tensor, Tensor)",
            )
            register(op, materialize)
            op(x)[0].sum().backward()
        return seen, x.grad.tolist()

    both(program)


def test_too_few_gradients_are_refused() -> None:
    def program(lib: Any, space: str) -> Any:
        op = lib.library.custom_op(
            f"{space}::f",
            lambda x, y: x * y,
            mutates_args=(),
            schema="(Tensor x, Tensor y) -> Tensor",
        )
        op.register_autograd(lambda ctx, g: g)
        x, y = lib.ones(2, requires_grad=True), lib.ones(2, requires_grad=True)
        return outcome(lambda: op(x, y).sum().backward())

    both(program)


# -- Library -------------------------------------------------------------------------------------


def test_a_library_defines_operators_by_schema() -> None:
    def program(lib: Any, space: str) -> Any:
        own = lib.library.Library(space, "DEF")
        found: list[Any] = [repr(own).replace(space, "")]
        found.append(own.define("h(Tensor x, int n=2) -> Tensor"))
        h = getattr(lib.ops, space).h
        found.append(outcome(lambda: h(lib.ones(2))))
        own.impl("h", lambda x, n=2: x * n, "CPU")
        x = lib.ones(2, requires_grad=True)
        found += [h(lib.ones(2), 3).tolist(), h(lib.ones(2)).tolist(), h(x).requires_grad]
        found.append(outcome(lambda: own.define("h(Tensor x, int n=2) -> Tensor")))
        found.append(outcome(lambda: own.define("q(Tensr x) -> Tensor")))
        found.append(outcome(lambda: own.impl("h", lambda x: x, "Nonsense")))
        found.append(outcome(lambda: lib.library.Library(space, "DEF")))
        found.append(outcome(lambda: lib.library.Library(space, "XX")))
        found.append(outcome(lambda: lib.library.Library("prim", "DEF")))
        lib.library.register_autograd(f"{space}::h", lambda ctx, g: (g * 7, None), lib=own)
        h(x).sum().backward()
        return [*found, x.grad.tolist()]

    both(program)


def test_overloads_are_chosen_by_their_schemas() -> None:
    def program(lib: Any, space: str) -> Any:
        own = lib.library.Library(space, "FRAGMENT")
        own.define("p.a(Tensor x) -> Tensor")
        own.define("p.b(Tensor x, Tensor y) -> Tensor")
        own.impl("p.a", lambda x: x + 1, "CPU")
        own.impl("p.b", lambda x, y: x * y, "CPU")
        p = getattr(lib.ops, space).p
        x = lib.ones(2) * 3
        return (
            p.overloads(), p(x).tolist(), p(x, x).tolist(), p.b(x, x).tolist(),
            outcome(lambda: p(3)), outcome(lambda: p.a(x, x)),
        )  # fmt: skip

    both(program)


def test_functions_that_the_tape_sees_through() -> None:
    def program(lib: Any, space: str) -> Any:
        own = lib.library.Library(space, "FRAGMENT")
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        gradients = []
        for key in ("", "CompositeImplicitAutograd", "Autograd"):
            name = f"c{key}"
            own.define(f"{name}(Tensor x) -> Tensor")
            own.impl(name, lambda x: x * x, key)
            (gradient,) = lib.autograd.grad(getattr(getattr(lib.ops, space), name)(x).sum(), x)
            gradients.append(gradient.tolist())
        return gradients

    both(program)


def test_define_and_impl_by_name() -> None:
    def program(lib: Any, space: str) -> Any:
        lib.library.define(f"{space}::d", "(Tensor x) -> Tensor")

        @lib.library.impl(f"{space}::d", "cpu")
        def d(x: Any) -> Any:
            return x - 1

        with pytest.warns(FutureWarning, match="register_fake"):
            lib.library.impl_abstract(f"{space}::d", lambda x: x)
        return (
            getattr(lib.ops, space).d(lib.ones(2)).tolist(),
            outcome(lambda: lib.library.define("d", "(Tensor x) -> Tensor")),
            outcome(lambda: lib.library.define(f"{space}::e", "e(Tensor x) -> Tensor")),
        )

    both(program)


def test_operators_end_with_their_library() -> None:
    def program(lib: Any, space: str) -> Any:
        own = lib.library.Library(space, "DEF")
        own.define("h(Tensor x) -> Tensor")
        own._destroy()
        return hasattr(getattr(lib.ops, space), "h")

    assert program(dj, "ended") is False
    dj.library.Library("ended", "DEF")._destroy()


def test_namespaces_that_are_modules_here_are_refused() -> None:
    with pytest.raises(ValueError, match="Choose another name"):
        sine(dj, "rows")
    with pytest.raises(NotImplementedError, match="namespace of your own"):
        dj.library.define("aten::new_thing", "(Tensor x) -> Tensor")


def test_functions_of_the_library_are_operators_of_aten() -> None:
    def program(lib: Any, space: str) -> Any:
        x = lib.tensor([[1.0, 2.0], [3.0, 4.0]])
        aten = lib.ops.aten
        return (
            aten.mm(x, x).tolist(),
            aten.mm.default(x, x).tolist(),
            aten.add.Tensor(x, x).tolist(),
            repr(aten.mm),
            outcome(lambda: aten.no_such_function),
        )

    both(program)


@pytest.mark.parametrize(
    "name",
    ["get_ctx", "get_kernel", "register_autocast", "register_torch_dispatch", "register_vmap",
     "triton_op", "wrap_triton"],
)  # fmt: skip
def test_what_is_not_here_is_refused_by_name(name: str) -> None:
    with pytest.raises(NotImplementedError, match=name):
        getattr(dj.library, name)()
    assert hasattr(torch.library, name)


def test_vmap_calls_an_operator_per_sample() -> None:
    def program(lib: Any, space: str) -> Any:
        x = lib.tensor([[0.5, 1.0], [2.0, 3.0]])
        return [round(v, 5) for v in lib.vmap(sine(lib, space))(x).flatten().tolist()]

    both(program)


def test_schemas_are_inferred_from_annotations() -> None:
    """For every annotation that PyTorch takes, and those that it refuses."""
    for ours, theirs in zip(_functions(dj), _functions(torch), strict=True):
        found = [
            outcome(lambda: lib.library.infer_schema(f, mutates_args=(), op_name="f"))  # noqa: B023
            for lib, f in ((torch, theirs), (dj, ours))
        ]
        assert found[0] == found[1]
        if isinstance(found[0], str) and "ScalarType x=" not in found[0] and "cpu" not in found[0]:
            assert str(torch._C.parse_schema(found[0])) == str(parse(found[0]))


@pytest.mark.parametrize(
    "text",
    [
        "f() -> ()",
        "f(Tensor x) -> Tensor",
        "f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
        "f(Tensor(a!) x, Tensor[] y, float? s=None, str m='mean', *, int[2] k=[1, 2]) -> ()",
        "f(Tensor?[] x, SymInt[]? n=None, bool b=True, float e=0.5) -> (Tensor a, Tensor[] b)",
        "f(Scalar s=1, ScalarType? d=None, Device? c=None, int[]? i=None) -> (Tensor, int)",
    ],
)
def test_schemas_are_read_and_written(text: str) -> None:
    assert str(torch._C.parse_schema(text)) == str(parse(text))


def _functions(lib: Any) -> list[Any]:
    Tensor = lib.Tensor
    number = typing.Union[int, float, bool]
    parameters = [
        Tensor, Optional[Tensor], Tensor | None, Sequence[Tensor], List[Tensor], list[Tensor],
        List[Optional[Tensor]], Optional[List[Tensor]], int, Optional[int], List[int],
        Optional[List[int]], list[int] | None, Sequence[int], float, List[float], bool, List[bool],
        str, Optional[str], List[str], lib.dtype, Optional[lib.dtype], lib.device, number,
        Optional[lib.device], List[number], dict, Tuple[int, int], tuple, "int", "no_such_name",
        typing.Sequence[Tensor], Any, None,
    ]  # fmt: skip
    results = [
        Tensor, List[Tensor], list[Tensor], Tuple[Tensor, Tensor], tuple[Tensor, int], None, int,
        float, bool, Optional[Tensor], tuple[Tensor, ...], Sequence[Tensor], str, dict, List[int],
    ]  # fmt: skip
    made = [_function({"x": kind, "return": Tensor}) for kind in parameters]
    made += [_function({"x": Tensor, "return": kind}) for kind in results]
    made += [_function({"x": Tensor}), _function({"return": Tensor})]
    for kind, default in (
        (int, 3), (float, 1.5), (bool, True), (str, "a"), (Optional[int], None), (number, 2),
        (lib.dtype, lib.float32), (lib.device, lib.device("cpu")), (List[int], [1]),
    ):  # fmt: skip
        made.append(_function({"x": kind, "return": Tensor}, default))
    return made


def _function(annotations: dict[str, Any], *default: Any) -> Any:
    def function(x: Any) -> Any:
        return x

    function.__annotations__ = annotations
    function.__defaults__ = default
    return function
