"""Within `vmap`, a write that all samples would share is refused before it happens."""

from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import UnsupportedError
from dynajit.eager import _tensor
from dynajit.eager.modes.write_limits import check_write, limited


def set_first(shared: Any, sample: Any) -> None:
    shared[0] = sample[0]


def set_where(shared: Any, sample: Any) -> None:
    shared[dj.tensor([0, 2])] = sample[:2]


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda shared, sample: shared.add_(sample),
    "copy_": lambda shared, sample: shared.copy_(sample),
    "of a view": lambda shared, sample: shared[1:].mul_(sample[1:]),
    "setitem": set_first,
    "setitem by numbers": set_where,
    "index_add_": lambda shared, sample: shared.index_add_(0, dj.tensor([0]), sample[:1]),
    "out": lambda shared, sample: dj.add(sample, 1, out=shared),
    "zero_": lambda shared, sample: shared.zero_(),
    "random numbers": lambda shared, sample: shared.normal_(),
    "another shape": lambda shared, sample: shared.unsqueeze_(0),
    "another size": lambda shared, sample: shared.resize_(4),
    "init": lambda shared, sample: dj.nn.init.constant_(shared, 2.0),
}


@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize("name", WRITES)
def test_a_tensor_that_all_samples_share_is_left_as_it_was(name: str, is_recorded: bool) -> None:
    shared, samples = dj.tensor([1.0, 2.0, 3.0]), dj.arange(6.0).reshape(2, 3)

    def mapped(sample: Any) -> Any:
        WRITES[name](shared, sample)
        return shared + sample

    with dj.set_grad_enabled(is_recorded), pytest.raises(UnsupportedError, match="all samples"):
        dj.vmap(mapped, randomness="different")(samples)
    assert [1.0, 2.0, 3.0] == shared.tolist()
    assert 0 == shared._version
    assert [2.0, 3.0, 4.0] == shared.add_(1).tolist()  # afterwards it may be written


def test_a_compiled_function_writes_no_shared_tensor_either() -> None:
    shared, samples = dj.zeros(3), dj.arange(6.0).reshape(2, 3)
    compiled = dj.compile(lambda sample: shared.add_(sample) * 2)
    compiled(samples[0])
    compiled(samples[1])
    assert [3.0, 5.0, 7.0] == shared.tolist()

    with pytest.raises(UnsupportedError, match="all samples"):
        dj.vmap(compiled)(samples)
    assert [3.0, 5.0, 7.0] == shared.tolist()
    assert [6.0, 12.0, 18.0] == compiled(dj.tensor([0.0, 1.0, 2.0])).tolist()


def test_an_operator_writes_no_shared_tensor_either() -> None:
    @dj.library.custom_op("write_limits::fill", mutates_args=("x",))
    def fill(x: dj.Tensor, value: float) -> None:
        x.fill_(value)

    shared, samples = dj.zeros(3), dj.arange(6.0).reshape(2, 3)

    def mapped(sample: Any) -> Any:
        fill(shared, 2.0)
        return shared + sample

    with pytest.raises(UnsupportedError, match="all samples"):
        dj.vmap(mapped)(samples)
    assert [0.0, 0.0, 0.0] == shared.tolist()


def test_samples_and_tensors_of_their_own_may_be_written() -> None:
    samples = dj.arange(6.0).reshape(2, 3)

    def mapped(sample: Any) -> Any:
        sample.mul_(2)
        own = sample + 1
        own.add_(sample)
        own[0] = 5
        return own

    assert [[5.0, 5.0, 9.0], [5.0, 17.0, 21.0]] == dj.vmap(mapped)(samples).tolist()
    assert [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]] == samples.tolist()


def test_the_inner_of_two_maps_may_not_write_what_the_outer_made() -> None:
    samples = dj.arange(6.0).reshape(2, 3)

    def adding(sample: Any, inner_dims: Any) -> Any:
        sums = dj.zeros(3)
        return dj.vmap(lambda part, total: total.add_(part), in_dims=inner_dims)(sample, sums)

    assert samples.tolist() == dj.vmap(lambda x: adding(x, (0, 0)))(samples).tolist()
    with pytest.raises(UnsupportedError, match="all samples"):
        dj.vmap(lambda x: adding(x, (0, None)))(samples)


def test_limits_end_with_their_block() -> None:
    x = dj.zeros(2)
    with limited([]):
        assert _tensor.are_writes_checked()
        with limited([x]), pytest.raises(UnsupportedError, match="fill_"):
            check_write(x, "fill_")  # the outer block was not given it
        check_write(dj.zeros(2), "fill_")
    assert not _tensor.are_writes_checked()
    check_write(x, "fill_")
