"""Calls of functions under `functools.lru_cache` or `functools.cache`.

What the function remembers for the arguments of a call is looked up in its cache, which runs no
code of the user's, and is used as the object that the call would return. The entry of the cache is
guarded: one that was evicted, cleared or made anew is noticed. The call itself is made after the
launch, and its result dropped: so it counts, and what is called last is evicted last.

Where nothing is remembered yet, the wrapped function is inlined on trial. If it only computes, from
what the captured code has not changed, it does the same wherever it runs: what the trial brought is
forgotten, and the function is called at once, which fills the cache. Else the frame runs as plain
Python. A function that has forgotten the result whenever the same call is captured again is called
for real. For sizes that vary there is no key: the wrapped function is inlined, if it changes
nothing; such a function is meant to give equal results for equal arguments.
"""

import functools
import gc
import types
import weakref
from typing import Any, Final, NoReturn

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak, SkipFrame
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.exceptions import Raised
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.machine.trial import Trial
from dynajit.capture.places import sources
from dynajit.capture.python.basic import as_python
from dynajit.capture.python.text.output import OutputEffect
from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.objects import ObjectValue
from dynajit.capture.values.symbolic import Constant, Known, Opaque, Scalar, Value
from dynajit.capture.values.users_code import lookup
from dynajit.core.records import record
from dynajit.eager import Size

#: The class of what `functools.lru_cache` makes; it has no public name.
WRAPPER: Final = type(functools.lru_cache(maxsize=None)(lambda: None))

#: How often frames ran as plain Python for a result, by function and key; at most so many keys, and
#: so often for each: frames inside of one that runs plainly may be captured before they are called.
_awaited: Final[weakref.WeakKeyDictionary[Any, dict[Any, int]]] = weakref.WeakKeyDictionary()
MAX_AWAITED: Final = 1000
MAX_RUNS: Final = 8


def remembers(value: Value) -> bool:
    """True for a function under `lru_cache` or `cache` that was made before the captured code."""
    return isinstance(value, (Opaque, Known)) and type(value.object) is WRAPPER


def call_remembered(
    machine: Machine, callee: Any, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """`callee(*args, **keywords)`.

    Raises:
        SkipFrame: nothing is remembered yet.
        GraphBreak: it must be called for real.
    """
    function = callee.object
    if callee.source is not None:
        machine.recorder.guard(callee.source, Kind.IDENTITY, function, "a function that remembers")
    if any(_varies(machine, value) for value in (*args, *keywords.values())):
        return (yield from _call_anew(machine, callee, args, keywords))
    objects = [_hashed_plainly(machine, value) for value in args]
    named = {name: _hashed_plainly(machine, value) for name, value in keywords.items()}
    if any(found is None for found in (*objects, *named.values())):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{_name(function)} of other arguments")
    positional = [found[0] for found in objects if found is not None]
    by_name = {name: found[0] for name, found in named.items() if found is not None}
    kept = _kept_by(function)
    key = _key(positional, by_name, kept.mark, _is_typed(function))
    counting: Any = function
    if key in kept.cache:
        _awaited.get(function, {}).pop(key, None)
    elif machine.trial is not None:
        return (yield from _within_trial(machine, function, key, args, keywords))
    else:
        yield from _try(machine, function, key, args, keywords)
        _call_at_once(function, key, positional, by_name)
        counting, kept = _CountedBefore(function), _kept_by(function)
    if machine.trial is None:
        machine.recorder.add_output(OutputEffect(counting, tuple(args), tuple(keywords.items())))
    return _what_is_remembered(machine, function, kept, key)


def _what_is_remembered(machine: Machine, function: Any, kept: "_Kept", key: Any) -> Value:
    """The object that the function returns, as its cache has it; guarded."""
    place = sources.Key(sources.Constant(kept.cache, f"{_name(function)}.cache"), key)
    machine.recorder.guard(place, Kind.IDENTITY, kept.cache[key], "what a function remembers")
    result: Value = machine.recorder.wrap(kept.result(key), None)
    return result


def _wrapped(machine: Machine, function: Any) -> Value | None:
    """The function whose results are remembered, if it is one of Python."""
    wrapped = vars(function).get("__wrapped__")
    if not isinstance(wrapped, types.FunctionType):
        return None
    place = sources.Attribute(sources.Constant(function), "__wrapped__")
    found: Value = machine.recorder.wrap(wrapped, place)
    return found


def _try(
    machine: Machine, function: Any, key: Any, args: list[Value], keywords: dict[str, Value]
) -> Steps[None]:
    """Inline the wrapped function to see whether it only computes; nothing of it stays.

    Raises:
        SkipFrame: it does more, or what it does cannot be captured.
    """
    wrapped, awaited = _wrapped(machine, function), _awaited.get(function, {})
    if wrapped is None or key in awaited or len(awaited) == MAX_AWAITED:
        _run_once(function, key)
    mark = machine.recorder.mark()
    machine.trial = trial = Trial(functools.partial(_run_once, function, key))
    only_computes = False
    try:
        with machine.heap.reads() as read:
            yield from machine.call(wrapped, args, keywords)
        makes_nodes = machine.recorder.builder.snapshot() != mark.nodes
        read -= set(machine.recorder.output_ids)  # asked for as bookkeeping
        rereads = any(map(machine.heap.is_rewritten, read))
        only_computes = not (makes_nodes or rereads or _has_done_more(machine, mark))
    except Raised:
        pass
    machine.trial = None
    if not only_computes:
        trial.end()
    machine.recorder.restore(mark)


def _within_trial(
    machine: Machine, function: Any, key: Any, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """The same for a call in what is inlined on trial: only what it returns matters."""
    trial = machine.trial
    assert trial is not None
    wrapped, results = _wrapped(machine, function), trial.results
    if wrapped is None:
        trial.end()
    place = (id(function), key)
    if place not in results:
        results[place] = yield from machine.call(wrapped, args, keywords)
    return results[place]


def _has_done_more(machine: Machine, mark: Any) -> bool:
    """True if what ran since `mark` did more than compute a result."""
    draws = machine.recorder.random_blocks is not mark.random_blocks
    return draws or bool(machine.heap.has_changed_since(mark.heap))


def _call_at_once(function: Any, key: Any, args: list[Any], keywords: dict[str, Any]) -> None:
    try:
        function(*args, **keywords)
    except Exception:
        _run_once(function, key)
    kept = _kept_by(function)
    if key not in kept.cache:
        _run_once(function, key)
    _awaited.setdefault(function, {})[key] = 1


class _CountedBefore:
    """Calls a function from the second time on: it was called before the code first ran."""

    __slots__ = ("_function", "_is_counted")

    def __init__(self, function: Any) -> None:
        self._function = function
        self._is_counted = True

    def __call__(self, *args: Any, **keywords: Any) -> None:
        if not self._is_counted:
            self._function(*args, **keywords)
        self._is_counted = False


def _varies(machine: Machine, value: Value) -> bool:
    """True for a size that varies from call to call, and for tuples of such."""
    if isinstance(value, TupleValue):
        return any(_varies(machine, item) for item in value.items)
    return isinstance(value, Scalar) and machine.recorder.sizes.shape_int(value) is not None


def _call_anew(
    machine: Machine, callee: Any, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """The wrapped function itself, for sizes that vary: what it would remember has no key here.

    Raises:
        GraphBreak: it changes something, which it does only once for the same arguments.
    """
    function = callee.object
    wrapped = _wrapped(machine, function)
    if wrapped is None:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{_name(function)} of sizes that vary")
    mark = machine.recorder.mark()
    result = yield from machine.call(wrapped, args, keywords)
    if _has_done_more(machine, mark):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{_name(function)}, which changes something")
    return result


def _name(function: Any) -> str:
    return str(vars(function).get("__qualname__", WRAPPER.__name__))


def _is_typed(function: Any) -> bool:
    """Whether keys of its cache hold the classes of arguments, too."""
    asked = vars(function).get("cache_parameters")
    if not isinstance(asked, types.FunctionType) or asked.__module__ != functools.__name__:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{_name(function)}, made in an unusual way")
    return bool(asked()["typed"])


def _run_once(function: Any, key: Any) -> NoReturn:
    """End the capture: without a trace, or with a break when that has happened too often."""
    awaited = _awaited.setdefault(function, {})
    runs = awaited.get(key, 0)
    if runs == MAX_RUNS or len(awaited) == MAX_AWAITED:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{_name(function)}, which has forgotten the result")
    awaited[key] = runs + 1
    reason = f"{_name(function)} remembers no result for these arguments yet"
    raise SkipFrame(reason, permanent=False, even_whole=True)


@record
class _Kept:
    """What the C object keeps.

    Args:
        cache: key -> result; where there is a largest size, -> a link in a list of results.
        mark: separates keyword arguments in keys.
        links: keys and results in the order of last use, each followed by the link's class;
            empty where there is no largest size.
    """

    cache: dict[Any, Any]
    mark: Any
    links: list[Any]

    def result(self, key: Any) -> Any:
        """The result of a key of the cache."""
        if not self.links:
            return self.cache[key]
        return next(
            result
            for known, result in zip(self.links[::3], self.links[1::3], strict=True)
            if known == key and type(known) is type(key)
        )


def _kept_by(function: Any) -> _Kept:
    """What the function keeps.

    There are no public names for it: it is what the garbage collector finds.

    Raises:
        GraphBreak: it keeps nothing.
    """
    held = gc.get_referents(function)
    own = vars(function)
    dicts = [place for place, item in enumerate(held) if type(item) is dict and item is not own]
    marks = [item for item in held[::-1] if type(item) is object]
    if not dicts or not marks:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{_name(function)}, which remembers nothing")
    cache, links = held[dicts[-1]], held[1 : dicts[-1]]  # after the class; before the function
    is_bounded = any(type(link).__name__ == "_lru_list_elem" for link in cache.values())
    return _Kept(cache, marks[0], links if is_bounded else [])


def _key(args: list[Any], keywords: dict[str, Any], mark: Any, is_typed: bool) -> Any:
    """The key that the C code of the class makes."""
    flat = list(args)
    if keywords:
        flat.append(mark)
        for pair in keywords.items():
            flat.extend(pair)
    if is_typed:
        return (*flat, *(type(value) for value in (*args, *keywords.values())))
    return flat[0] if len(flat) == 1 and type(flat[0]) in (int, str) else tuple(flat)


def _hashed_plainly(machine: Machine, value: Value) -> tuple[Any] | None:
    """The object, guarded, if finding it among keys runs no code of the user's; else None."""
    if isinstance(value, TupleValue):
        items = [_hashed_plainly(machine, item) for item in value.items]
        if value.cls not in (tuple, Size) or any(item is None for item in items):
            return None
        machine.recorder.use(value)
        return (value.cls(item[0] for item in items if item is not None),)
    if isinstance(value, (Constant, Known, Scalar)):
        known = as_python(machine, value)
        return (known,) if _is_found_by_c(known) else None
    if isinstance(value, ObjectValue):
        return _by_identity(machine, value)
    return None


def _is_found_by_c(known: Any) -> bool:
    """True if it can be a key, and finding it calls no Python function: guards call none."""
    asked = [lookup(type(known), name) for name in ("__hash__", "__eq__")]
    if None in asked or any(isinstance(method, types.FunctionType) for method in asked):
        return False
    return not isinstance(known, (tuple, frozenset)) or all(map(_is_found_by_c, known))


def _by_identity(machine: Machine, value: ObjectValue) -> tuple[Any] | None:
    existing = machine.recorder.existing(value)
    kind = type(existing)
    plain = all(lookup(kind, name) is getattr(object, name) for name in ("__hash__", "__eq__"))
    if existing is None or not plain:
        return None
    place = machine.recorder.first_source(value)
    if not isinstance(place, sources.Constant):
        machine.recorder.guard(place, Kind.IDENTITY, existing, "a function remembers results by it")
    return (existing,)
