"""Random keys give what they give in PyTorch: read, assigned, with gradients, and compiled.

A key is a list of parts (`Part`), each of which makes itself for either library: integers, zero-dim
tensors and arrays, slices, None, ellipses, masks, index tensors, lists, truth values. Compared are
elements, sizes, strides, offsets, whether a write through the result reaches the tensor, what is
written elsewhere, gradients, and the classes of errors.

`DYNAJIT_RANDOM_KEYS=20000` tries so many keys instead of a few hundred.
"""

import os
import random
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

COUNT = int(os.environ.get("DYNAJIT_RANDOM_KEYS", "600"))
pytestmark = [
    pytest.mark.filterwarnings("ignore:indexing with"),
    pytest.mark.filterwarnings("ignore:Using a non-tuple sequence"),
]


class Part(NamedTuple):
    """An entry of a key: how it reads in a message, and how a library makes it."""

    text: str
    made: Callable[[Any], Any]


def plain(value: Any) -> Part:
    return Part(repr(value), lambda library: value)


def tensor(data: Any, dtype: str) -> Part:
    return Part(
        f"tensor({np.asarray(data).tolist()}, {dtype})",
        lambda library: library.tensor(data, dtype=getattr(library, dtype)),
    )


# -- random parts ---------------------------------------------------------------------------------


class Draw(random.Random):
    """Random numbers for one key, which has one fault at most: two may be refused in any order."""

    fault: str | None = None

    def takes(self, fault: str) -> bool:
        """Whether the key's fault is of this kind, and not made yet."""
        if self.fault != fault:
            return False
        self.fault = None
        return True


def number_of(rng: Draw, size: int) -> int:
    """An index into a dim."""
    if not size:
        rng.fault = None  # the only one: no number is an index
        return rng.choice([size, -size - 1])
    if rng.takes("number"):
        return rng.choice([size, -size - 1])
    return rng.randrange(-size, size)


def integer(rng: Draw, size: int) -> Part:
    number = number_of(rng, size)
    kind = rng.randrange(8)
    if kind == 0:
        return Part(f"int64({number})", lambda library: np.int64(number))
    if kind == 1:
        return Part(f"array({number})", lambda library: np.array(number, np.int32))
    if kind < 5:
        return tensor(number, rng.choice(["int64", "int64", "int32", "int16", "int8"]))
    return plain(number)


def bound(rng: Draw, size: int) -> Part:
    number = rng.choice([None, rng.randint(-size - 2, size + 2)])
    kind = rng.randrange(10)
    if number is None or kind > 1:
        return plain(number)
    if kind == 0:
        return Part(f"int32({number})", lambda library: np.int32(number))
    return tensor(number, "int64")


def a_slice(rng: Draw, size: int) -> Part:
    start, stop = bound(rng, size), bound(rng, size)
    step = -1 if rng.takes("step") else rng.choice([None, None, None, 1, 2, 3])
    return Part(
        f"slice({start.text}, {stop.text}, {step})",
        lambda library: slice(start.made(library), stop.made(library), step),
    )


def positions(rng: Draw, size: int) -> Part:
    """Index tensors, arrays and nested lists of one or two dims; some are empty."""
    shape = rng.choice([(2,), (3,), (1,), (2, 2), (2, 1), (1, 3), (0,), (1, 0)])
    if not size:
        shape = (0,)
    count = int(np.prod(shape))
    data = np.array([number_of(rng, size) for _ in range(count)], np.int64).reshape(shape)
    kind = rng.randrange(8)
    if kind == 0:
        return Part(f"array({data.tolist()})", lambda library: data)
    if kind == 1:
        return plain(data.tolist())
    if kind == 2 and data.ndim == 1:
        return plain(tuple(data.tolist()))
    if kind == 3 and data.ndim == 1:
        numbers = data.tolist()
        return Part(
            f"[tensor(n) for n in {numbers}]",
            lambda library: [library.tensor(n) for n in numbers],
        )
    if kind == 4 and data.ndim == 2:
        columns = data.T.tolist()
        return Part(f"tensor({columns}).t()", lambda library: library.tensor(columns).long().t())
    return tensor(data, rng.choice(["int64", "int64", "int32"]))


def mask(rng: Draw, shape: tuple[int, ...]) -> Part:
    if rng.takes("mask"):
        shape = (shape[0] + 1, *shape[1:])
    data = np.array([rng.random() < 0.5 for _ in range(int(np.prod(shape)))], bool).reshape(shape)
    kind = rng.randrange(6)
    if kind == 0 and data.ndim == 1:  # PyTorch counts others as one dim beside an ellipsis
        return Part(f"array({data.tolist()})", lambda library: data)
    if kind == 1 and data.ndim == 1 and data.size:
        return plain(data.tolist())
    return tensor(data, "uint8" if kind == 2 else "bool")


def truth(rng: Draw) -> Part:
    value = rng.random() < 0.7
    return tensor(value, "bool") if rng.random() < 0.3 else plain(value)


def wrong(rng: Draw) -> Part:
    """What no key may hold."""
    return rng.choice([
        plain(1.5), plain(1j), plain({}), plain(object), tensor([0.0], "float32"),
        tensor(0.0, "float32"), plain(slice(None, None, 0)), plain(slice(0.5, None)),
        Part("bool_(True)", lambda library: np.bool_(True)),
    ])  # fmt: skip


def entries(rng: Draw, shape: tuple[int, ...]) -> list[Part]:
    """Parts for the dims of a shape in turn, often for all of them."""
    parts: list[Part] = []
    d = 0
    while d < len(shape) and rng.random() < 0.85:
        kind, size, rank = rng.random(), shape[d], 1
        if kind < 0.14:
            rank = rng.randint(1, min(2, len(shape) - d))
            parts.append(mask(rng, shape[d : d + rank]))
        elif kind < 0.45:
            parts.append(positions(rng, size))
        elif kind < 0.72:
            parts.append(integer(rng, size))
        else:
            parts.append(a_slice(rng, size))
        d += rank
    if d < len(shape) and rng.takes("wrong"):
        parts.append(wrong(rng))
    return parts


def key_of(rng: Draw, shape: tuple[int, ...]) -> list[Part]:
    """The parts of a key for a tensor of a shape."""
    kinds = ["number", "step", "mask", "wrong", "many", "ellipses"]
    rng.fault = rng.choice(kinds) if rng.random() < 0.15 else None
    parts = entries(rng, shape)
    for chance, part in ((0.15, plain(None)), (0.2, plain(...)), (0.06, truth(rng))):
        if rng.random() < chance:
            parts.insert(rng.randint(0, len(parts)), part)
    if rng.takes("many"):
        parts.extend(plain(0) for _ in (*shape, 0))
    if rng.takes("ellipses"):
        parts.insert(rng.randint(0, len(parts)), plain(...))
        parts.insert(rng.randint(0, len(parts)), plain(...))
    return parts


def indices_of(rng: Draw, shape: tuple[int, ...]) -> list[Part]:
    """Index tensors and masks, as `index_put_` takes them."""
    rng.fault = rng.choice(["number", "mask"]) if rng.random() < 0.1 else None
    parts = [part for part in entries(rng, shape) if part.text.startswith("tensor")]
    return [part for part in parts if "int8" not in part.text and "int16" not in part.text]


class Case(NamedTuple):
    """A key, for a tensor of a shape and layout; `is_single`: the one part is the key."""

    shape: tuple[int, ...]
    layout: str
    parts: list[Part]
    is_single: bool

    def key(self, library: Any) -> Any:
        made = [part.made(library) for part in self.parts]
        return made[0] if self.is_single else tuple(made)

    def __str__(self) -> str:
        return f"{self.layout} {self.shape}[{', '.join(part.text for part in self.parts)}]"


def case_of(rng: Draw, tensors_only: bool = False) -> Case:
    shape = tuple(rng.choice([1, 2, 3, 4, 3, 2, 0 if rng.random() < 0.2 else 3])
                  for _ in range(rng.choice([0, 1, 2, 2, 3, 3, 4, 5])))  # fmt: skip
    parts = indices_of(rng, shape) if tensors_only else key_of(rng, shape)
    if tensors_only and not parts:
        return case_of(rng, tensors_only)
    is_single = len(parts) == 1 and rng.random() < 0.6 and not tensors_only
    layout = rng.choice(["plain", "plain", "turned", "part"])
    return Case(shape, layout, parts, is_single)


def operand(library: Any, case: Case) -> Any:
    """A tensor of the shape and layout, with different elements."""
    shape = case.shape
    if case.layout == "turned":
        order = tuple(reversed(range(len(shape))))
        numbers = library.arange(float(np.prod(shape))).reshape(shape[::-1])
        return numbers.permute(order)
    if case.layout == "part":
        wide = tuple(n + 1 for n in shape)
        numbers = library.arange(float(np.prod(wide))).reshape(wide)
        return numbers[tuple(slice(1, None) for _ in shape)]
    return library.arange(float(np.prod(shape))).reshape(shape)


# -- outcomes -------------------------------------------------------------------------------------


class Refused(NamedTuple):
    error: type
    text: str


def outcome(run: Callable[..., Any], library: Any, *args: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return run(library, *args)
        except Exception as error:
            return Refused(type(error), str(error))


def difference(theirs: Any, ours: Any) -> str | None:
    """What differs between an outcome in PyTorch and one here, or None."""
    is_same = theirs == ours
    if isinstance(theirs, Refused) and isinstance(ours, Refused):
        is_same = issubclass(ours.error, theirs.error)
    return None if is_same else f"{theirs} is not {ours}"


def is_explained(theirs: Any, ours: Any, case: Case) -> bool:
    """The differences on purpose: see docs/differences.md."""
    if isinstance(theirs, Refused) and "masked_fill_ only supports boolean" in theirs.text:
        return True  # PyTorch takes a mask of bytes for reading only
    if isinstance(ours, Refused) and "nothing can follow" in ours.text:
        return True  # slices behind a second ellipsis that PyTorch does not look at
    is_refused = isinstance(ours, Refused) and issubclass(ours.error, IndexError)
    return is_refused and _chooses_nothing(case)


def _chooses_nothing(case: Case) -> bool:
    """PyTorch does not look at index tensors where no element is chosen."""
    chosen = outcome(lambda library: operand(library, case)[case.key(library)].numel(), torch)
    return chosen == 0 or 0 in case.shape


def memory_of(x: Any) -> list[float]:
    """All that lies in a tensor's storage, through which writes are seen."""
    base = x if x._base is None else x._base
    return base.reshape(-1).tolist()


def plainly(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def read(library: Any, case: Case, through: Any = plainly) -> Any:
    """A key is read; then the caller writes to the result."""
    x, key = operand(library, case), case.key(library)
    result = through(lambda x: x[key])(x)
    shares = result._base is not None
    seen = [tuple(result.shape), result.tolist(), shares]
    if result.numel():
        are_all_told = shares and [part.text for part in case.parts].count("Ellipsis") < 2
        steps = zip(result.stride(), result.shape, strict=True)
        seen += [step for step, size in steps if size > 1 or are_all_told]
        seen.append(result.storage_offset())
    result.add_(100)
    return seen, memory_of(x)


def written_through(library: Any, case: Case, through: Any = plainly) -> Any:
    """What a key reads is written to, and read before and after writes elsewhere."""
    key = case.key(library)

    def run(x: Any) -> Any:
        part = x[key]
        before = part * 1
        part.mul_(2)
        x.add_(1)
        return before, part, part * 1, x[key]

    x = operand(library, case)
    found = through(run)(x)
    return [result.tolist() for result in found], memory_of(x)


def assigned(library: Any, case: Case, value: Any, through: Any = plainly) -> Any:
    x, key, given = operand(library, case), case.key(library), value(library)

    def run(x: Any) -> None:
        x[key] = given

    through(run)(x)
    return memory_of(x)


def added(library: Any, case: Case, value: Any, through: Any = plainly) -> Any:
    x, key, given = operand(library, case), case.key(library), value(library)

    def run(x: Any) -> None:
        x[key] += given

    through(run)(x)
    return memory_of(x)


def put(library: Any, case: Case, value: Any, accumulate: bool, through: Any = plainly) -> Any:
    x, key, given = operand(library, case), case.key(library), value(library)
    result = through(lambda x: x.index_put_(key, given, accumulate))(x)
    return result.tolist(), memory_of(x)


def weights(library: Any, x: Any) -> Any:
    return library.arange(1.0, x.numel() + 1).reshape(tuple(x.shape))


def gradient(x: Any) -> Any:
    """The elements of a gradient; where PyTorch has none, they are 0 here."""
    return x.grad.tolist() if x.grad is not None and x.grad.any() else 0


def read_gradient(library: Any, case: Case, through: Any = plainly) -> Any:
    leaf, key = operand(library, case).detach().requires_grad_(), case.key(library)
    result = through(lambda leaf: (leaf * 1)[key])(leaf)
    (result * weights(library, result)).sum().backward()
    return gradient(leaf)


def assigned_gradient(library: Any, case: Case, value: Any, through: Any = plainly) -> Any:
    leaf, key = operand(library, case).detach().requires_grad_(), case.key(library)
    given = value(library)
    if not isinstance(given, float):
        given.requires_grad_()

    def run(leaf: Any, given: Any) -> Any:
        x = leaf * 1
        x[key] = given
        return x

    x = through(run)(leaf, given)
    (x * weights(library, x)).sum().backward()
    return x.tolist(), gradient(leaf), 0 if isinstance(given, float) else gradient(given)


def written_through_gradient(library: Any, case: Case, through: Any = plainly) -> Any:
    leaf, key = operand(library, case).detach().requires_grad_(), case.key(library)

    def run(leaf: Any) -> Any:
        x = leaf * 1
        x[key].mul_(3)
        return x

    x = through(run)(leaf)
    (x * weights(library, x)).sum().backward()
    return x.tolist(), gradient(leaf)


def value_for(rng: Draw, case: Case) -> Callable[[Any], Any]:
    """What is assigned: a number, or a tensor that broadcasts to the region (mostly)."""
    region = outcome(lambda library: operand(library, case)[case.key(library)], torch)
    shape = () if isinstance(region, Refused) else tuple(region.shape)
    repeated = _is_repeated(case)
    kind = rng.randrange(6)
    if kind == 0 or isinstance(region, Refused):
        return lambda library: 7.5
    if kind == 1 or repeated:
        return lambda library: library.tensor(7.5)
    if kind == 2:
        shape = (1,) * rng.randint(1, 2) + shape
    elif kind == 3:
        shape = tuple(1 if rng.random() < 0.4 else n for n in shape)[rng.randint(0, len(shape)) :]
    elif kind == 4 and rng.random() < 0.2:
        shape = (*shape, 5)
    return lambda library: library.arange(float(np.prod(shape))).reshape(shape) + 0.5


def _is_repeated(case: Case) -> bool:
    """Whether elements are chosen twice, so that the order of writes would matter."""

    def chosen(library: Any) -> Any:
        whole = library.arange(int(np.prod(case.shape))).reshape(case.shape)
        return whole[case.key(library)].reshape(-1).tolist()

    found = outcome(chosen, torch)
    return not isinstance(found, Refused) and len(set(found)) < len(found)


# -- the tests ------------------------------------------------------------------------------------


def compare(
    count: int, seed: str, made: Callable[..., Any], tensors_only: bool = False,
    through: Any = plainly,
) -> None:  # fmt: skip
    """Run what `made(rng, case)` says, (program, arguments), on both sides for random keys."""
    rng = Draw(seed)
    differences = []
    for _ in range(count):
        case = case_of(rng, tensors_only)
        program, *args = made(rng, case)
        theirs = outcome(program, torch, case, *args)
        ours = outcome(program, dj, case, *args, through)
        found = difference(theirs, ours)
        if found is not None and not is_explained(theirs, ours, case):
            differences.append(f"{program.__name__} {case}: {found}")

    assert [] == differences, f"{len(differences)} of {count}:\n" + "\n".join(differences[:20])


def a_read(rng: Draw, case: Case) -> tuple[Any, ...]:
    return (rng.choice([read, written_through]),)


def a_write(rng: Draw, case: Case) -> tuple[Any, ...]:
    return rng.choice([assigned, assigned, added]), value_for(rng, case)


def a_put(rng: Draw, case: Case) -> tuple[Any, ...]:
    value = rng.choice([value_for(rng, case), lambda library: library.tensor(2.5)])
    given = value if not isinstance(value(torch), float) else lambda library: library.ones(())
    return put, given, rng.random() < 0.5


def a_gradient(rng: Draw, case: Case) -> tuple[Any, ...]:
    program = rng.choice([read_gradient, assigned_gradient, written_through_gradient])
    return (program, value_for(rng, case)) if program is assigned_gradient else (program,)


PROGRAMS = {"read": a_read, "write": a_write, "put": a_put, "gradient": a_gradient}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_random_keys_do_what_they_do_in_pytorch(kind):
    compare(COUNT, kind, PROGRAMS[kind], tensors_only=kind == "put")


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", PROGRAMS)
def test_random_keys_do_so_in_compiled_code(kind, dynamic):
    def through(function):
        return dj.compile(function, backend="numpy", dynamic=dynamic)

    compare(COUNT // 10, f"{kind} compiled", PROGRAMS[kind], kind == "put", through)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_new_dim_gets_its_stride_when_all_numbers_have_chosen(dynamic):
    def read(x, t):
        return x[-1, t, -1, None]

    expected = read(torch.ones(3, 4, 2), torch.tensor(1))
    actual = dj.compile(read, dynamic=dynamic)(dj.ones(3, 4, 2), dj.tensor(1))

    assert expected.stride() == actual.stride()
