"""Pain 14: the cache keeps arguments and models alive, and needs the garbage collector."""

import gc
import weakref
from typing import Any

import dynajit as dj
from dynajit import nn


def test_arguments_results_and_models_die_without_the_collector() -> None:
    class Holder:
        """Takes a weak reference."""

    def function(x: Any, holder: Any, model: Any) -> Any:
        holder.last = model(x * 2).sum()
        return holder.last.item() + 1

    compiled = dj.compile(function)
    gc.collect()
    gc.disable()
    try:
        dead = []
        for _ in range(3):
            x, holder, model = dj.ones(2, 3), Holder(), nn.Linear(3, 3)
            compiled(x, holder, model)
            dead += [weakref.ref(x), weakref.ref(holder), weakref.ref(model.weight)]
            del x, holder, model
        assert [None] * 9 == [reference() for reference in dead]
        function_died = weakref.ref(compiled)
        del compiled
        assert function_died() is None
    finally:
        gc.enable()
