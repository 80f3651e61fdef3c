"""`share_memory_`: writes of one process are seen by the others."""

import copy
import pickle
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import UnsupportedError

METHODS = ("fork", "spawn")
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def train(model: Any, total: Any) -> None:
    """What a worker does: a step, with statistics."""
    optimizer = dj.optim.SGD(model.parameters(), lr=0.5)
    optimizer.zero_grad()
    (model(dj.arange(12.0).reshape(4, 3)) ** 2).sum().backward()
    optimizer.step()
    total.add_(dj.tensor([1, 2], dtype=dj.int16))


def model_of(seed: int) -> Any:
    dj.manual_seed(seed)
    return dj.nn.Sequential(dj.nn.Linear(3, 2), dj.nn.BatchNorm1d(2))


def run(method: str, function: Any, *arguments: Any) -> None:
    process = get_context(method).Process(target=function, args=arguments)
    process.start()
    process.join(60)
    assert process.exitcode == 0


@pytest.mark.parametrize("method", METHODS)
def test_a_shared_model_learns_in_another_process(method: str) -> None:
    expected, shared = model_of(1), model_of(1)
    expected_total, total = dj.zeros(2, dtype=dj.int16), dj.zeros(2, dtype=dj.int16)
    assert shared.share_memory() is shared
    assert total.share_memory_() is total
    assert all(tensor.is_shared() for tensor in (*shared.state_dict().values(), total))
    for key, value in shared.state_dict().items():
        assert value.tolist() == expected.state_dict()[key].tolist()

    for _ in range(2):
        train(expected, expected_total)
        run(method, train, shared, total)
    for key, value in shared.state_dict().items():
        np.testing.assert_allclose(value.numpy(), expected.state_dict()[key].numpy(), rtol=1e-6)
    assert total.tolist() == expected_total.tolist() == [2, 4]


def answer(questions: Any, answers: Any) -> None:
    x = questions.get(timeout=60)
    x.mul_(2)
    y = dj.arange(3.0).share_memory_()
    answers.put((y, x.is_shared(), x.requires_grad, x.stride(), x.name_of_it))
    questions.get(timeout=60)


def test_a_shared_tensor_goes_through_a_queue() -> None:
    context = get_context("spawn")
    questions, answers = context.Queue(), context.Queue()
    process = context.Process(target=answer, args=(questions, answers))
    process.start()
    x = dj.arange(6, dtype=dj.float64).reshape(2, 3).clone().t().clone().share_memory_()
    x.name_of_it = "x"
    questions.put(x)
    y, is_shared, requires_grad, stride, name = answers.get(timeout=60)
    questions.put(None)
    process.join(60)
    assert (is_shared, requires_grad, name) == (True, False, "x")
    assert stride == x.stride()
    assert x.tolist() == [[0.0, 6.0], [2.0, 8.0], [4.0, 10.0]]
    assert y.is_shared()
    assert y.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "complex64"])
def test_a_tensor_stays_as_it_is(shape: Any, dtype: str) -> None:
    x = dj.ones(shape, dtype=getattr(dj, dtype))
    assert not x.is_shared()
    x.share_memory_()
    assert x.is_shared()
    assert (tuple(x.shape), x.dtype) == (shape, getattr(dj, dtype))
    assert x.tolist() == dj.ones(shape, dtype=x.dtype).tolist()
    assert x.share_memory_() is x


def test_views_made_afterwards_are_shared_and_copies_are_not() -> None:
    x = dj.zeros(2, 3).share_memory_()
    assert x[0].is_shared()
    assert x.t().is_shared()
    for copied in (x.clone(), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x + 1):
        assert not copied.is_shared()


def test_a_tensor_with_views_is_refused() -> None:
    x = dj.zeros(4)
    view = x[:2]
    with pytest.raises(UnsupportedError, match="share the tensor's memory"):
        x.share_memory_()
    with pytest.raises(UnsupportedError, match="share the tensor's memory"):
        view.share_memory_()
    assert not x.is_shared()


def test_gradients_reach_a_shared_leaf() -> None:
    x = dj.ones(3, requires_grad=True).share_memory_()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    assert not x.grad.is_shared()
