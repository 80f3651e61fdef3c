"""What is compiled while somebody watches: gathered, bounded, and no longer than that."""

import threading

import dynajit as dj
from dynajit.driver import watching


def test_the_first_call_is_kept_as_it_was_made() -> None:
    with watching.watching() as found:

        @dj.compile
        def function(a, /, b, *more, c=1, **rest):
            return a + b + c

        function(dj.ones(2), 3, 4, 5, c=6, d=7)
        function(dj.ones(3), 3)

    (watched,) = found
    call = watched.call
    assert ("function", 2) == (watched.name[-8:], len(watched.compilations))
    assert [(2,), 3, 4, 5] == [tuple(call.args[0].shape), *call.args[1:]]
    assert {"c": 6, "d": 7} == call.kwargs


def test_rests_and_callees_are_gathered_with_their_function() -> None:
    def below(x):
        dj.graph_break()
        return x * 2

    with watching.watching() as found:
        dj.compile(lambda x: below(x).sum())(dj.ones(2))

    (watched,) = found
    assert 1 < len(watched.compilations)


def test_other_threads_are_watched_and_nobody_afterwards() -> None:
    def work():
        dj.compile(lambda x: x + 1)(dj.ones(2))

    with watching.watching() as found:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    work()

    assert 1 == len(found)
    assert watching.begun() is None


def test_what_is_kept_has_a_bound(monkeypatch) -> None:
    monkeypatch.setattr(watching, "MOST_KEPT", 2)
    with watching.watching() as found:
        compiled = dj.compile(lambda x: x + 1, dynamic=False)
        for size in range(2, 6):
            compiled(dj.ones(size))

    assert (2, 2) == (len(found[0].compilations), found[0].left_out)
