"""Small programs that once went wrong have PyTorch's outcome, eagerly and compiled.

Each stands for a kind of fault, which another test walks. A program gets the library and a function
that is `compile` or the identity; its result, or the class of what it raises, is compared. Programs
of `AS_EAGER` are compared with the library's own eager execution.
"""

import copy
import importlib
import io
import math
import pickle
import warnings

import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

AS_PYTORCH, AS_EAGER = [], []


def as_pytorch(program):
    AS_PYTORCH.append(program)
    return program


def as_eager(program):
    AS_EAGER.append(program)
    return program


# -- indexing, views, memory ----------------------------------------------------------------------


@as_pytorch
def integers_choose_before_index_tensors_when_assigned(lib, compiled):
    image, places = lib.zeros(1, 3, 4, 5), lib.tensor([3, 0, 2])
    image[0, :, places, places] = lib.arange(9.0).view(3, 3)
    image[0, :, [0, 3]] += 1
    return image.tolist()


@as_pytorch
def a_number_in_a_tensor_chooses_a_view(lib, compiled):
    rows = lib.zeros(4, 3)
    for place in lib.tensor([0, 3]):
        rows[place].add_(1)
    rows[:, lib.tensor(2)].mul_(5)
    rows[rows.sum(1).argmax()].sub_(7)
    return rows.tolist()


@as_pytorch
def a_strided_view_of_a_recorded_tensor_is_written_through(lib, compiled):
    leaf = lib.ones(6, requires_grad=True)
    scaled = leaf * 2
    scaled.as_strided((3,), (2,)).mul_(3)
    scaled.sum().backward()
    return scaled.tolist(), leaf.grad.tolist()


@as_pytorch
def results_that_are_new_do_not_share(lib, compiled):
    lane, column, image = lib.zeros(4), lib.arange(8.0).view(4, 2)[:, 1], lib.zeros(1, 4, 3, 3)
    lane.roll(4).add_(1)
    column.ravel().add_(1)
    lib.nn.functional.pixel_shuffle(image, 1).add_(1)
    lane.sum_to_size(4)
    return lane.tolist(), column.tolist(), image.sum().item()


@as_pytorch
def results_keep_the_layout_of_their_operands(lib, compiled):
    image = lib.rand(2, 3, 5, 4).to(memory_format=lib.channels_last)
    wide = lib.ones(5, dtype=lib.int16).expand(2, 5)
    results = (
        image.clone(),
        lib.zeros_like(image),
        lib.nn.Conv2d(3, 6, 3)(image),
        lib.nn.functional.max_pool2d(image, 2),
        wide.double(),
        wide / 3,
        wide > 0,
    )
    return [result.stride() for result in results]


@as_pytorch
def attention_keeps_the_layout_of_its_query(lib, compiled):
    heads = lib.rand(2, 5, 12).view(2, 5, 3, 4).transpose(1, 2)
    found = lib.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    return found.transpose(1, 2).view(2, 5, 12).shape[-1]


@as_pytorch
def windows_know_where_they_begin(lib, compiled):
    return lib.arange(12.0)[4:].unfold(0, 3, 2).storage_offset()


@as_pytorch
def bits_are_read_as_elements_of_another_size(lib, compiled):
    whole = lib.arange(3, dtype=lib.int64)
    return whole.view(lib.int16).tolist(), lib.ones(3).view(lib.uint8).shape[0]


@as_pytorch
def older_programs_compare_storages(lib, compiled):
    whole = lib.arange(6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return whole.storage().data_ptr() == whole[3:].storage().data_ptr()


@as_pytorch
def sizes_that_vary_do_not_decide_what_is_written(lib, compiled):
    def write(x):
        flat = x.t().reshape(-1)
        flat.add_(1)
        return x * 1

    run = compiled(write)
    return [run(lib.ones(*sizes).t()).tolist() for sizes in ((4, 5), (7, 2), (3, 6))]


# -- checks of contents ---------------------------------------------------------------------------


@as_eager
def a_label_beyond_the_classes(lib, compiled):
    return compiled(lambda i: lib.nn.functional.one_hot(i, 4))(lib.tensor([1, 9])).tolist()


@as_eager
def a_place_beyond_a_uniform_table(lib, compiled):
    return compiled(lambda i: lib.full((4,), 2.0)[i])(lib.tensor([5])).tolist()


@as_eager
def weights_below_zero(lib, compiled):
    return compiled(lambda p: lib.multinomial(p, 1))(lib.tensor([-2.0, 1.0])).tolist()


@as_eager
def a_source_that_is_too_short(lib, compiled):
    fill = compiled(lambda x: x.masked_scatter(x > -1, lib.ones(3)))
    return fill(lib.zeros(5)).tolist()


@as_eager
def a_scale_below_zero(lib, compiled):
    distributions = importlib.import_module(lib.__name__ + ".distributions")
    score = compiled(lambda s: distributions.Normal(0.0, s).log_prob(lib.tensor(0.5)))
    return score(lib.tensor(-2.0)).tolist()


@as_pytorch
def probabilities_outside_of_their_range(lib, compiled):
    entropy = lib.nn.functional.binary_cross_entropy
    return compiled(lambda p: entropy(p, lib.tensor([1.0])))(lib.tensor([1.5])).item()


@as_pytorch
def draws_by_a_probability_above_one(lib, compiled):
    return compiled(lambda p: lib.bernoulli(p))(lib.tensor([1.5])).item()


# -- derivatives ----------------------------------------------------------------------------------


@as_pytorch
def gradients_go_to_nan_and_to_ties(lib, compiled):
    found = []
    for values, reduce in (
        ([2.0, math.nan, 0.0], lambda x: x.max()),
        ([2.0, math.nan, 0.0], lambda x: x.amin()),
        ([1.0, 1.0, 1.0], lambda x: x.median()),
        ([1.0, 1.0, 0.0], lambda x: x.max()),
    ):
        leaf = lib.tensor(values, requires_grad=True)
        compiled(reduce)(leaf).backward()
        found.append(leaf.grad.tolist())
    return found


@as_pytorch
def rounded_quotients_have_a_derivative(lib, compiled):
    leaf = lib.ones(3, requires_grad=True)
    lib.div(leaf, 3, rounding_mode="trunc").sum().backward()
    return leaf.grad.tolist()


@as_pytorch
def backward_hooks_leave_inputs_alone(lib, compiled):
    class Masked(lib.nn.Module):
        def forward(self, x, mask):
            return x * mask, mask.requires_grad

    layer = Masked()
    calls = []
    layer.register_full_backward_hook(lambda *received: calls.append(len(received)))
    result, required = layer(lib.ones(2, requires_grad=True), lib.ones(2))
    result.sum().backward()
    return required, calls


@as_pytorch
def differences_come_in_the_order_of_the_dims(lib, compiled):
    table = lib.arange(20.0).view(4, 5)
    return [part.tolist() for part in lib.gradient(table, spacing=(3.0, 1.0), dim=(1, 0))]


# -- files, copies, errors ------------------------------------------------------------------------


@as_pytorch
def conjugates_in_a_file_are_conjugates(lib, compiled):
    file = io.BytesIO()
    torch.save([torch.tensor([3 - 1j]).conj(), torch.tensor([3 - 1j]).conj().imag], file)
    file.seek(0)
    return [tensor.tolist() for tensor in lib.load(file)]


@as_pytorch
def layers_are_pickled_with_their_functions(lib, compiled):
    layer = lib.nn.TransformerDecoderLayer(4, 2, activation="gelu")
    return type(pickle.loads(pickle.dumps(layer))).__name__


@as_pytorch
def copies_of_recorded_tensors_require_gradients(lib, compiled):
    return copy.copy(lib.ones(3, requires_grad=True) * 3).requires_grad


def caught(kind, call):
    try:
        call()
    except kind:
        return True
    except Exception as error:
        return type(error).__name__
    return False


@as_pytorch
def programs_catch_what_they_expect(lib, compiled):
    functional = lib.nn.functional
    return [
        caught(RuntimeError, lambda: lib.gather(lib.ones(4), 0, lib.tensor([9]))),
        caught(ValueError, lambda: lib.tensor([[1, 2], [3]])),
        caught(ValueError, lambda: lib.arange(5)[::-2]),
        caught(IndexError, lambda: lib.ones(4)[0.5]),
        caught(RuntimeError, lambda: lib.einsum("ij->k", lib.ones(2, 2))),
        caught(TypeError, lambda: lib.tensor("text")),
        caught(RuntimeError, lambda: lib.tensor(object())),
        caught(ValueError, lambda: functional.cross_entropy(lib.ones(3, 4), lib.tensor([0]))),
        caught(RuntimeError, lambda: lib.ones(2, 3).amin(0, out=lib.zeros(7, dtype=lib.int8))),
    ]


def outcome(program, lib, compiled):
    try:
        return program(lib, compiled)
    except Exception as error:
        return error


def agree(expected, actual):
    """Equal results, or errors of which ours is of PyTorch's class, too."""
    if not isinstance(expected, Exception):
        return repr(expected) == repr(actual)
    classes = [kind for kind in type(expected).__mro__ if kind.__module__ == "builtins"]
    return isinstance(actual, classes[0])


FORMS = pytest.mark.parametrize("compiled", [lambda f: f, dj.compile], ids=["eager", "compiled"])


@FORMS
@pytest.mark.parametrize("program", AS_PYTORCH, ids=lambda program: program.__name__)
def test_a_program_has_pytorchs_outcome(program, compiled, strict_programs):
    expected = outcome(program, torch, lambda f: f)
    actual = outcome(program, dj, compiled)

    assert agree(expected, actual), f"expected {expected!r}, got {actual!r}"


@pytest.mark.parametrize("program", AS_EAGER, ids=lambda program: program.__name__)
def test_a_compiled_program_refuses_what_eager_execution_refuses(program, strict_programs):
    expected = outcome(program, dj, lambda f: f)

    assert isinstance(expected, Exception)
    assert agree(expected, outcome(program, dj, dj.compile))
