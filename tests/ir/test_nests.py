"""Nests as data: what is refused, what tells them apart, and that only generated code runs them."""

import numpy as np
import pytest

from dynajit.core.errors import BoundsError, InternalError
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir import interpret
from dynajit.ir.graph import Builder
from dynajit.ir.keys import graph_text
from dynajit.ir.nests import NEST, Nest, Register, Step, Turn, all_steps
from dynajit.ir.refusals import may_refuse

LEAVE = (Step("leave"),)
X = Register("x", dtypes.float64)


def adding(number: float) -> Nest:
    """Adds a number to an operand without dims."""
    step = Step("add", X, (X, number), dtypes.float64)
    return Nest(((step, *LEAVE),), ((0, X),), (), (X,))


def graph_of(nest: Nest):
    builder = Builder("nested")
    given = builder.placeholder("x", TensorType((), dtypes.float64))
    return builder.finish([builder.call(NEST, [given], {"nest": nest, "result": 0}).node])


@pytest.mark.parametrize(
    "blocks",
    [
        ((),),
        ((Step("poll", name=1),),),
        ((Step("leave"), Step("leave")),),
        ((Step("goto", name=1),),),
        ((Step("each", X, (3,), name=Turn((Step("refuse"),))), *LEAVE),),
        ((Step("branch", operands=(X,), name=(0, 3)),),),
    ],
)
def test_a_block_ends_with_its_only_jump_which_leads_to_a_block(blocks) -> None:
    nest = Nest(blocks, (), (), (X,))
    with pytest.raises(InternalError):
        nest.check()


def test_all_steps_are_those_of_turns_too() -> None:
    inner = Step("add", X, (X, 1.0), dtypes.float64)
    each = Step("each", Register("i", dtypes.int64), (3,), name=Turn((inner,), X))
    assert [*all_steps((each, *LEAVE))] == [each, inner, *LEAVE]


def test_texts_tell_graphs_with_nests_apart() -> None:
    texts = {graph_text(graph_of(adding(number))) for number in (1, 1.0, 2.0, -0.0, 0.0)}
    assert len(texts) == 5
    assert graph_text(graph_of(adding(2.0))) in texts


def test_the_type_of_a_result_is_that_of_its_register_or_its_array() -> None:
    nest = Nest((LEAVE,), (), (0,), (0, Register("k", dtypes.int32)))
    types = (TensorType((3, 2), dtypes.float32),)
    assert NEST.infer(*types, nest=nest, result=0) == TensorType((3, 2), dtypes.float32)
    assert NEST.infer(*types, nest=nest, result=1) == TensorType((), dtypes.int32)


def test_only_generated_code_runs_a_nest() -> None:
    graph = graph_of(adding(1.0))
    assert may_refuse(graph.calls[0])
    with pytest.raises(BoundsError, match="generated code"):
        interpret.run(graph, (np.array(1.0),))


def test_a_nest_that_asks_for_signals_may_take_long() -> None:
    assert not adding(1.0).is_polled
    assert Nest(((Step("poll", name=4), *LEAVE),), (), (), ()).is_polled
    assert "1 blocks" in repr(adding(1.0))
