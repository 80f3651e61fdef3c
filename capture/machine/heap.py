"""The heap: object id -> frozen contents of every mutable object that capture has seen.

Mutable. Handles (`capture.values.symbolic`) are immutable and carry an id; two handles with one id
are one object. Contents are never changed in place, only replaced, so undoing is replaying a
journal
of old contents backwards: a mark costs nothing, and restoring costs what was written since.

Objects that existed before the captured code have their contents at entry remembered: the writes
to replay after the launch are the difference between those and the contents at the end.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.values.containers import Grown

#: Words of former contents and values that a capture may keep, 200 MB: a container that grows item
#: by item to n items leaves n * n / 2 of them behind.
MOST_KEPT: Final = 25_000_000

#: Words that one entry of a dict takes.
_WEIGHT_OF_AN_ENTRY: Final = 12


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


def _weight(contents: Any) -> int:
    """Memory of contents in words."""
    if isinstance(contents, tuple):
        return len(contents)
    if isinstance(contents, dict):
        return _WEIGHT_OF_AN_ENTRY * len(contents)
    if isinstance(contents, Grown):
        return len(contents.appended)
    return 1


class Unread(Protocol):
    """Contents of a list that are made when somebody asks for them.

    Attributes:
        before, behind: items of their own in front of what turns of a loop have appended, and
            behind it.
        items: what a turn appends.
        count: of turns; None: the launch knows it, and the contents are never made.
    """

    @property
    def before(self) -> tuple[Any, ...]: ...
    @property
    def items(self) -> tuple[Any, ...]: ...
    @property
    def behind(self) -> tuple[Any, ...]: ...
    @property
    def count(self) -> int | None: ...

    @property
    def most(self) -> int:
        """How many objects `make` allocates at most."""

    def make(self) -> Any:
        """The contents. What was allocated by an earlier call is not allocated again.

        Raises:
            GraphBreak: nobody knows them.
        """

    def held(self) -> Any:
        """The contents, or what they are made of, as far as it is there."""

    def mark(self) -> int:
        """A mark for `forget`."""

    def forget(self, mark: int) -> None:
        """What was allocated since is gone."""

    def of_items(self, items: tuple[Any, ...]) -> Any:
        """Contents of other items, of the same form."""

    @property
    def length(self) -> int | None:
        """How many items there are; None: that is not known."""

    def item(self, position: int) -> Any:
        """One of them, from the front."""

    def grown(self, items: tuple[Any, ...]) -> "Unread | None":
        """The contents with more behind them, of as many objects; None: they are to be made."""

    def parts(self) -> list[Any] | None:
        """The contents as values, and rows that nobody has asked for (`capture.tensors.rows.Run`).

        None: they are something else, or many.
        """

    def parts_of(self, item: Any) -> list[Any] | None:
        """Likewise, what a part of what a turn appends is in all turns."""

    def numbers_of(self, item: Any) -> tuple[int | float, ...] | None:
        """What it is where it is a number that turns compute ahead; None: it is no such one."""


class _Ids:
    """Ids that are kept for what contents allocate. Mutable: `next` goes up."""

    __slots__ = ("next",)

    def __init__(self, first: int) -> None:
        self.next = first


class _Left:
    """Contents that nobody has asked for, and the ids that are kept for what they allocate."""

    __slots__ = ("contents", "ids")

    def __init__(self, contents: Unread, ids: _Ids) -> None:
        self.contents, self.ids = contents, ids


class _Reserved:
    """In the journal: ids were kept."""

    __slots__ = ("ids",)

    def __init__(self, ids: range) -> None:
        self.ids = ids


class _Asked:
    """In the journal: somebody has asked for contents, or for an item of them."""

    __slots__ = ("left", "mark", "next")

    def __init__(self, left: _Left) -> None:
        self.left, self.mark, self.next = left, left.contents.mark(), left.ids.next


class _Watched(dict[int, Any]):
    """Contents by id that remember which were asked for."""

    def __init__(self, contents: dict[int, Any]) -> None:
        super().__init__(contents)
        self.asked: set[int] = set()

    def __getitem__(self, identity: int) -> Any:
        self.asked.add(identity)
        return super().__getitem__(identity)


class Heap:
    """Contents by object id, with a journal. See the module's text."""

    def __init__(self) -> None:
        self._contents: dict[int, Any] = {}
        self._entry: dict[int, Any] = {}
        self._journal: list[tuple[int, Any]] = []
        self._unread: dict[int, _Left] = {}
        self._kept = 0
        self._next = 1

    def allocate(self, contents: Any) -> int:
        """The id of a new object, made by the captured code."""
        identity = self._next
        self._next += 1
        self._journal.append((identity, ABSENT))
        self._contents[identity] = contents
        return identity

    def adopt(self, contents: Any) -> int:
        """The id of an object that existed before; `contents` are those at entry."""
        identity = self._next
        self._next += 1
        self._contents[identity] = contents
        self._entry[identity] = contents
        return identity

    def load_entry(
        self,
        identity: int,
        contents: Any,
        revise: Callable[[Any], Any] | None = None,
    ) -> None:
        """Contents at entry of an adopted object, read only now.

        Args:
            identity: the object; unchanged so far, but for what `revise` accounts for.
            contents: what it held at entry.
            revise: present or former contents, written without knowing those at entry -> the same
                with them; None: nothing was written.
        """
        if revise is None:
            self._contents[identity] = contents
            self._entry[identity] = contents
            return

        def full(old: Any) -> Any:
            if isinstance(old, (_Left, _Reserved, _Asked)):
                return old
            return contents if old is self._entry[identity] else revise(old)

        self._journal = [
            (key, full(old) if key == identity and old is not ABSENT else old)
            for key, old in self._journal
        ]
        self._contents[identity] = full(self._contents[identity])
        self._entry[identity] = contents

    def __getitem__(self, identity: int) -> Any:
        try:
            return self._contents[identity]
        except KeyError:
            return self._read(identity)

    def unread(self, identity: int) -> Unread | None:
        """The contents that an object was left with, where nobody has asked for them."""
        found = self._unread.get(identity)
        return None if found is None else found.contents

    def held(self, identity: int) -> Any:
        """What an object holds, also where nobody may ask for it."""
        unread = self.unread(identity)
        return self[identity] if unread is None else unread.held()

    def leave_unread(self, identity: int, contents: Unread) -> None:
        """Replace the contents of an object.

        What they allocate gets ids of now: it counts as made here, whenever it is asked for, and
        asking for it is no write. Where the object was left so before, they allocate the same.
        """
        before = self._unread.get(identity)
        if before is not None:
            self._journal.append((identity, before))
            self._unread[identity] = _Left(contents, before.ids)
            return
        ids = range(self._next, self._next + contents.most)
        self._next = ids.stop
        self._journal.append((identity, self._contents.pop(identity)))
        self._journal.append((identity, _Reserved(ids)))
        self._unread[identity] = _Left(contents, _Ids(ids.start))

    def unread_objects(self) -> list[tuple[int, Unread]]:
        """Ids and contents of objects that nobody has asked for what they were left with."""
        return [(identity, left.contents) for identity, left in self._unread.items()]

    def settle(self, identity: int, contents: Any) -> None:
        """Give an object that was left unread other contents, without making those."""
        self._journal.append((identity, self._unread.pop(identity)))
        self._contents[identity] = contents

    def _read(self, identity: int) -> Any:
        """Make what an object was left with.

        Raises:
            KeyError: there is no such object.
        """
        left = self._unread[identity]
        self._journal.append((identity, _Asked(left)))
        made = self._contents[identity] = self._made(left, left.contents.make)
        del self._unread[identity]
        return made

    def read_item(self, identity: int, position: int) -> Any:
        """One item of an unread list, from its front."""
        left = self._unread[identity]
        self._journal.append((identity, _Asked(left)))
        return self._made(left, lambda: left.contents.item(position))

    def _made(self, left: _Left, make: Callable[[], Any]) -> Any:
        now = self._journal, self._next
        self._journal, self._next = [], left.ids.next
        try:
            return make()
        finally:
            left.ids.next = self._next
            self._journal, self._next = now

    def write(self, identity: int, contents: Any) -> None:
        """Replace the contents of an object.

        Raises:
            GraphBreak: too much would be kept.
        """
        old = self[identity]
        self.keep(_weight(old))
        self._journal.append((identity, old))
        self._contents[identity] = contents

    def keep(self, words: int) -> None:
        """Count what stays in memory while the capture lasts: old contents and long values.

        Raises:
            GraphBreak: it is more than `MOST_KEPT`.
        """
        self._kept += words
        if self._kept > MOST_KEPT:
            raise GraphBreak(breaks.LIMIT, "containers or texts that grow thousands of times")

    def is_adopted(self, identity: int) -> bool:
        """True if the object existed before the captured code."""
        return identity in self._entry

    def has(self, identity: int) -> bool:
        """True if the object was not undone."""
        return identity in self._contents or identity in self._unread

    @property
    def next_id(self) -> int:
        """The id that the next object gets."""
        return self._next

    def mark(self) -> int:
        """A mark for `restore`."""
        return len(self._journal)

    def restore(self, mark: int) -> None:
        """Undo every write and allocation since `mark`."""
        while len(self._journal) > mark:
            identity, old = self._journal.pop()
            if old is ABSENT:
                del self._contents[identity]
            elif isinstance(old, _Reserved):
                self._unread.pop(identity, None)
                for made in old.ids:
                    self._contents.pop(made, None)
            elif isinstance(old, _Left):
                self._contents.pop(identity, None)
                self._unread[identity] = old
            elif isinstance(old, _Asked):
                self._forget(identity, old)
            else:
                self._contents[identity] = old

    def _forget(self, identity: int, asked: _Asked) -> None:
        """An object is left as it was before somebody asked for it."""
        ids = asked.left.ids
        asked.left.contents.forget(asked.mark)
        for made in range(asked.next, ids.next):
            self._contents.pop(made, None)
        ids.next = asked.next
        self._contents.pop(identity, None)
        self._unread[identity] = asked.left

    def contents(self) -> Iterator[Any]:
        """The contents of every object."""
        return iter(self._contents.values())

    def objects(self) -> Iterator[tuple[int, Any]]:
        """Id and contents of every object."""
        return iter(self._contents.items())

    def is_changed(self, identity: int) -> bool:
        """True if an adopted object's contents differ from those at entry."""
        is_read = identity in self._contents
        return not is_read or self._contents[identity] is not self._entry[identity]

    def entry(self, identity: int) -> Any:
        """Contents at entry of an adopted object."""
        return self._entry[identity]

    def has_changed_since(self, mark: int) -> bool:
        """True if an adopted object was written since `mark`, and is not as at entry."""
        written = {identity for identity, _ in self._journal[mark:] if identity in self._entry}
        return any(self.is_changed(identity) for identity in written)

    def written_since(self, mark: int) -> dict[int, Any]:
        """The objects that existed at `mark` and were written since, with what they held then."""
        found: dict[int, Any] = {}
        made: set[int] = set()
        for identity, old in self._journal[mark:]:
            if old is ABSENT:
                made.add(identity)
            elif identity not in made | found.keys() and not isinstance(old, (_Reserved, _Asked)):
                is_left = isinstance(old, _Left)
                found[identity] = self._made(old, old.contents.make) if is_left else old
        return found

    def is_made_since(self, mark: int, identity: int) -> bool:
        """True for an object that the captured code made after `mark`."""
        return any(
            identity in old.ids if isinstance(old, _Reserved) else key == identity and old is ABSENT
            for key, old in self._journal[mark:]
        )

    def is_rewritten(self, identity: int) -> bool:
        """True for an adopted object that is not as at entry."""
        return identity in self._entry and self.is_changed(identity)

    @contextmanager
    def reads(self) -> Iterator[set[int]]:
        """The ids of objects whose contents are asked for in the block."""
        watched = _Watched(self._contents)
        self._contents = watched
        try:
            yield watched.asked
        finally:
            self._contents = dict(watched)

    def changed(self) -> Iterator[int]:
        """Ids of the adopted objects that were written, in order of their first write."""
        seen: set[int] = set()
        for identity, _ in self._journal:
            if identity in seen or identity not in self._entry:
                continue
            seen.add(identity)
            if self.is_changed(identity):
                yield identity
