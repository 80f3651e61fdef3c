"""Grad modes: context managers, decorators, threads."""

import threading

import pytest

from dynajit.core.errors import ArgumentError
from dynajit.eager.modes.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)


def test_gradients_are_on_at_first() -> None:
    assert is_grad_enabled()


def test_no_grad_ends_with_the_block_even_after_an_error() -> None:
    with pytest.raises(KeyError), no_grad():
        assert not is_grad_enabled()
        raise KeyError

    assert is_grad_enabled()


def test_blocks_nest() -> None:
    seen = []
    with no_grad():
        with enable_grad():
            seen.append(is_grad_enabled())
        seen.append(is_grad_enabled())

    assert [True, False] == seen


def test_one_manager_may_be_entered_twice() -> None:
    manager = no_grad()
    with manager, manager:
        pass

    assert is_grad_enabled()


@pytest.mark.parametrize("decorate", [no_grad, no_grad(), inference_mode, inference_mode()])
def test_decorators_hold_during_the_call(decorate: object) -> None:
    @decorate
    def inside(x: int) -> tuple[int, bool]:
        return x, is_grad_enabled()

    assert ((3, False), "inside") == (inside(3), inside.__name__)
    assert is_grad_enabled()


def test_a_decorated_recursive_function_restores_the_mode() -> None:
    @no_grad()
    def down(n: int) -> bool:
        return is_grad_enabled() if n == 0 else down(n - 1)

    assert (False, True) == (down(5), is_grad_enabled())


def test_a_decorated_generator_is_in_the_mode_only_while_it_runs() -> None:
    @no_grad()
    def numbers():
        received = yield is_grad_enabled()
        yield received, is_grad_enabled()

    generator = numbers()
    first = next(generator)
    between = is_grad_enabled()

    assert (False, True, ("sent", False)) == (first, between, generator.send("sent"))
    generator.close()


def test_set_grad_enabled_works_at_once() -> None:
    set_grad_enabled(False)
    seen = is_grad_enabled()
    set_grad_enabled(True)

    assert (False, True) == (seen, is_grad_enabled())


def test_set_grad_enabled_as_a_block_restores() -> None:
    with set_grad_enabled(False):
        assert not is_grad_enabled()

    assert is_grad_enabled()


def test_set_grad_enabled_as_a_decorator_leaves_the_mode_alone() -> None:
    @set_grad_enabled(False)
    def inside() -> bool:
        return is_grad_enabled()

    assert (True, False) == (is_grad_enabled(), inside())


def test_inference_mode_is_visible() -> None:
    with inference_mode():
        inside = is_inference_mode_enabled(), is_grad_enabled()

    assert ((True, False), False) == (inside, is_inference_mode_enabled())


def test_inference_mode_refuses_a_wrong_argument() -> None:
    with pytest.raises(ArgumentError, match="expected a bool"):
        inference_mode(mode=3)


def test_threads_have_their_own_mode() -> None:
    seen = []
    with no_grad():
        thread = threading.Thread(target=lambda: seen.append(is_grad_enabled()))
        thread.start()
        thread.join()

    assert [True] == seen


def test_many_threads_do_not_disturb_each_other() -> None:
    wrong = []

    def work(flag: bool) -> None:
        for _ in range(2000):
            with set_grad_enabled(flag):
                if is_grad_enabled() is not flag:
                    wrong.append(flag)

    threads = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == wrong
