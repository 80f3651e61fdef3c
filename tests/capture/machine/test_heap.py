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


class Items:
    """Contents of a list that allocates a member for each of some names."""

    before = items = behind = ()
    count = 0

    def __init__(self, heap, names, members=None):
        self.heap, self.names, self.most = heap, names, len(names)
        self.members = {} if members is None else members

    def make(self):
        for name in self.names:
            if name not in self.members:
                self.members[name] = self.heap.allocate(name)
        return tuple(self.members[name] for name in self.names)

    def item(self, position):
        name = self.names[position]
        if name not in self.members:
            self.members[name] = self.heap.allocate(name)
        return self.members[name]

    def mark(self):
        return len(self.members)

    def forget(self, mark):
        for name in list(self.members)[mark:]:
            del self.members[name]


def test_what_is_left_unread_is_made_when_it_is_asked_for():
    """With ids of when it was left; asking is no write."""
    heap = Heap()
    made = heap.allocate(())
    contents = Items(heap, "ab")
    heap.leave_unread(made, contents)
    mark = heap.mark()
    later = heap.allocate("later")
    assert heap.has(made) and heap.unread(made) is contents
    first, second = heap[made]
    assert [heap[first], heap[second]] == ["a", "b"]
    assert first < later and second < later
    assert heap.unread(made) is None
    assert heap.written_since(mark) == {}
    assert not heap.is_made_since(mark, first)
    assert heap.is_made_since(0, first)
    heap.restore(mark)
    assert heap.unread(made) is contents and not heap.has(first)
    assert [heap[member] for member in heap[made]] == ["a", "b"]


def test_what_was_asked_for_before_a_mark_stays_after_it_is_restored():
    """And keeps its id, whatever is asked for after it."""
    heap = Heap()
    made = heap.allocate(())
    heap.leave_unread(made, Items(heap, "abc"))
    second = heap.read_item(made, 1)
    mark = heap.mark()
    assert heap[made][1] == second
    heap.restore(mark)
    first = heap.read_item(made, 0)
    assert heap[second] == "b" and heap[first] == "a" and first != second
    heap.restore(mark)
    assert heap[made][1] == second and len(set(heap[made])) == 3


def test_restore_drops_what_was_left_unread_and_what_it_has_made():
    heap = Heap()
    made = heap.allocate(("old",))
    mark = heap.mark()
    heap.leave_unread(made, Items(heap, "ab"))
    members = heap[made]
    heap.restore(mark)
    assert heap[made] == ("old",)
    assert not any(map(heap.has, members))
    heap.leave_unread(made, Items(heap, "ab"))
    heap.restore(mark)
    assert heap[made] == ("old",) and heap.unread(made) is None


def test_what_grows_unread_allocates_the_same_objects():
    heap = Heap()
    made = heap.allocate(())
    first = Items(heap, "ab")
    heap.leave_unread(made, first)
    mark = heap.mark()
    heap.leave_unread(made, Items(heap, "ab", first.members))
    members = heap[made]
    heap.restore(mark)
    assert heap.unread(made) is first
    assert heap[made] == members


def test_a_write_after_what_was_left_unread_is_undone_to_its_contents():
    heap = Heap()
    made = heap.allocate(())
    heap.leave_unread(made, Items(heap, "a"))
    mark = heap.mark()
    heap.write(made, ("new",))
    assert [heap[member] for member in heap.written_since(mark)[made]] == ["a"]
    heap.restore(mark)
    assert [heap[member] for member in heap[made]] == ["a"]


def test_a_list_that_is_left_unread_has_changed_without_being_read():
    heap = Heap()
    existing = heap.adopt(())
    contents = Items(heap, "a")
    heap.leave_unread(existing, contents)
    assert heap.is_changed(existing) and list(heap.changed()) == [existing]
    assert heap.unread(existing) is contents
    heap.settle(existing, ("settled",))
    assert heap[existing] == ("settled",) and contents.members == {}


def test_reads_note_what_was_unread():
    heap = Heap()
    made = heap.allocate(())
    heap.leave_unread(made, Items(heap, "a"))
    with heap.reads() as asked:
        heap[made]
    assert made in asked
    assert heap.unread(made) is None and heap.has(heap[made][0])
