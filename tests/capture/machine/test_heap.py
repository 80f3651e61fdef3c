"""The heap: contents by id, undo by marks, differences from the entry."""

from hypothesis import given
from hypothesis import strategies as st

from dynajit.capture.machine.heap import Heap


def test_restore_undoes_writes_and_allocations():
    heap = Heap()
    kept = heap.allocate(("a",))
    mark = heap.mark()
    heap.write(kept, ("b",))
    made = heap.allocate(())
    heap.restore(mark)
    assert ("a",) == heap[kept]
    assert made not in dict(enumerate(heap.contents()))
    assert [("a",)] == list(heap.contents())


def test_only_written_objects_that_existed_before_are_changed():
    heap = Heap()
    existing, untouched = heap.adopt(("old",)), heap.adopt(())
    made = heap.allocate(())
    heap.write(made, (1,))
    heap.write(existing, ("new",))
    assert [existing] == list(heap.changed())
    assert heap.is_changed(existing)
    assert not heap.is_changed(untouched)
    assert ("old",) == heap.entry(existing)


def test_contents_read_late_count_as_entry():
    heap = Heap()
    lazily = heap.adopt(None)
    heap.load_entry(lazily, (1, 2))
    assert [] == list(heap.changed())
    heap.write(lazily, (1, 2, 3))
    assert (1, 2) == heap.entry(lazily)


def test_changed_is_in_order_of_the_first_write():
    heap = Heap()
    a, b = heap.adopt(0), heap.adopt(0)
    heap.write(b, 1)
    heap.write(a, 1)
    heap.write(b, 2)
    assert [b, a] == list(heap.changed())


@given(st.lists(st.tuples(st.integers(0, 3), st.integers()), max_size=30), st.integers(0, 30))
def test_restore_gives_exactly_the_state_at_the_mark(writes, cut):
    heap = Heap()
    ids = [heap.adopt(None) for _ in range(4)]
    mark, at_mark = heap.mark(), [None] * 4
    for number, (target, value) in enumerate(writes):
        if number == cut:
            mark, at_mark = heap.mark(), [heap[i] for i in ids]
        heap.write(ids[target], value)
    heap.restore(mark)
    assert at_mark == [heap[i] for i in ids]


def test_objects_that_were_there_are_told_from_those_made_since():
    heap = Heap()
    existing, earlier, untouched = heap.adopt("a"), heap.allocate("b"), heap.allocate("c")
    heap.write(existing, "written before")
    mark = heap.mark()
    made = heap.allocate("d")
    heap.write(made, "e")
    heap.write(earlier, "f")
    heap.write(existing, "g")
    heap.write(existing, "h")
    assert heap.written_since(mark) == {earlier: "b", existing: "written before"}
    assert heap.is_made_since(mark, made)
    assert not any(heap.is_made_since(mark, key) for key in (existing, earlier, untouched))
