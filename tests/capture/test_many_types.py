"""Loops over objects of very many classes are left to plain Python soon; of few, they are not."""

import gc
import weakref

import dynajit as dj
from dynajit.capture import _capture
from dynajit.capture.entry import cache

MANY = [type(f"Class{i}", (), {})() for i in range(200)]
FEW = [MANY[i % 5] for i in range(200)]


def counted(objects):
    found = 0
    for item in objects:
        dj.graph_break()
        if isinstance(item, (dict, list)) or type(item).__name__ == "Class3":
            found += 1
    return found


def rests():
    """What was compiled for what follows a break, of all functions that live."""
    found = [o for o in gc.get_objects() if type(o) is _capture.CompiledFunction and o.is_rest]
    return {id(o): o for o in found}


def rests_of_a_call(objects):
    """Those of `counted`, called with some objects by a new compiled function."""
    before = rests()  # kept: what is made next gets no id of one that ended meanwhile
    compiled = dj.compile(counted, backend="numpy")
    assert compiled(objects) == counted(objects)
    return [cache.cache_of(rest) for key, rest in rests().items() if key not in before]


def test_a_loop_that_meets_a_new_class_in_every_turn_stops_compiling():
    made = rests_of_a_call(MANY)
    assert max(rest.compile_count for rest in made) <= cache.VERSIONS_OF_A_REST


def test_a_loop_that_meets_few_classes_stays_compiled():
    made = rests_of_a_call(FEW)
    assert max(rest.compile_count for rest in made) == 5
    assert not any(cache.MSG_RARE in rest.skips for rest in made)


class Ending:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("end")


def test_objects_that_end_among_very_many_others():
    log = []

    def function(objects):
        found = 0
        for item in objects:
            if type(item) is Ending:
                found += 1
        return found

    compiled = dj.compile(function, backend="numpy")
    objects = [Ending(log), *(object() for _ in range(6_000)), Ending(log)]
    assert compiled(objects) == 2
    assert compiled.disabled
    reference = weakref.ref(objects[0])
    del objects
    assert log == ["end", "end"]
    assert reference() is None
