"""Numbers of the turns of a loop: exact for every turn, or none."""

import pytest

from dynajit.capture.breaks import GraphBreak
from dynajit.capture.places.sources import Turn
from dynajit.capture.tensors.turns import (
    Turns,
    Varies,
    blocks_after,
    blocks_before,
    is_of_a_turn,
    numbers_of,
)
from dynajit.capture.values.symbolic import Scalar, constant
from dynajit.core.types import symint
from dynajit.core.types.device import CPU
from dynajit.ir.loops import Listed, Steps

COUNTER = Scalar(0, Turn(1, ""))


def _call(name, *operands):
    parts = tuple(x if isinstance(x, Scalar) else constant(x) for x in operands)
    return Scalar(0.0 if name == "/" else 0, None, (name, parts))


def test_sums_and_multiples_of_the_counter_are_steps() -> None:
    """However many turns there are."""
    wanted = [COUNTER, _call("+", _call("*", COUNTER, 3), 2), _call("-", 10, COUNTER)]
    numbers, _ = numbers_of(range(5, 10**9, 2), {}, wanted)
    assert numbers == [Steps(5, 2), Steps(17, 6), Steps(5, -2)]


def test_other_formulas_are_listed() -> None:
    """As Python computes them."""
    numbers, _ = numbers_of(range(4), {}, [_call("/", COUNTER, 10), _call("%", COUNTER, 2)])
    assert numbers == [Listed((0.0, 0.1, 0.2, 0.3)), Listed((0, 1, 0, 1))]


def test_variables_go_on_from_turn_to_turn() -> None:
    """In steps, or one by one, with what they hold after the last turn."""
    k, t = Scalar(1, Turn(1, "k")), Scalar(0.0, Turn(1, "t"))
    after = Scalar(0.0, None, ("+", (t, constant(0.1))))
    carried = {"k": (1, _call("+", k, 2)), "t": (0.0, after)}
    numbers, ends = numbers_of(range(3), carried, [k, t])
    assert numbers == [Steps(1, 2), Listed((0.0, 0.1, 0.2))]
    assert ends == {"k": 7, "t": 0.1 + 0.1 + 0.1}


@pytest.mark.parametrize(
    ("counter", "wanted"),
    [
        (range(3), _call("//", 6, COUNTER)),
        (range(3), _call("*", COUNTER, 1 << 62)),
        (range(10**7), _call("%", COUNTER, 2)),
    ],
)
def test_what_raises_or_overflows_or_takes_too_long_is_refused(counter, wanted) -> None:
    """The loop is unrolled."""
    with pytest.raises(Varies):
        numbers_of(counter, {}, [wanted])


def test_what_is_computed_of_a_turn_s_number_is_of_a_turn() -> None:
    """And nothing else is."""
    assert is_of_a_turn(_call("+", COUNTER, 1))
    assert not is_of_a_turn(Scalar(1)) and not is_of_a_turn(constant(1))


def _turns(reserved) -> Turns:
    found = Turns(1, lambda name, kind: pytest.fail("nothing is taken"), 0)
    found.reserved = reserved
    return found


def test_blocks_of_random_numbers_go_on_from_turn_to_turn() -> None:
    """From those that were reserved in front of the loop."""
    turns = _turns({CPU: 7})
    drawn = blocks_after(turns, {CPU: 5})
    of_sizes, of_turn = blocks_before(turns, CPU)
    numbers, ends = numbers_of(range(10, 2, -2), drawn, [of_turn])
    assert of_sizes == 0
    assert numbers == [Steps(7, 5)]
    assert [*ends.values()] == [7 + 5 * 4]


def test_blocks_that_sizes_decide_about_are_the_same_in_all_turns() -> None:
    """In front of the loop; those of a turn are known, or the loop is refused."""
    first = symint.symbol("n") * 3
    turns = _turns({CPU: first})
    of_sizes, of_turn = blocks_before(turns, CPU)
    numbers, _ = numbers_of(range(4), blocks_after(turns, {CPU: 5}), [of_turn])
    assert of_sizes is first and numbers == [Steps(0, 5)]
    with pytest.raises(GraphBreak):
        blocks_after(turns, {CPU: symint.symbol("n")})


def test_turns_of_which_there_may_be_any_number_draw_nothing() -> None:
    """Nobody knows where draws behind the loop begin."""
    with pytest.raises(GraphBreak):
        blocks_before(_turns(None), CPU)
