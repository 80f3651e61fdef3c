"""What random programs are written from: the module's head, and statements as templates.

A template is one statement or several; see `programs.Writer.fill` for `$x` and `@kind`. Tables are
grouped by what they are about; `programs.Writer` picks from them.
"""

HEADER = """\
import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import operator

import dynajit as dj

COUNTER = 0
LOG = []
TABLE = {"k": 1}


class Box:
    kind = "box"

    def __init__(self, value=0):
        self.value = value
        self.items = []

    @property
    def doubled(self):
        return self.value * 2

    @doubled.setter
    def doubled(self, new):
        self.value = new / 2

    def bump(self, by=1):
        self.value = self.value + by
        self.items.append(by)
        return self

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]

    def __add__(self, other):
        return Box(self.value + other)

    def __eq__(self, other):
        return isinstance(other, Box) and self.value == other.value

    __hash__ = None


class Child(Box):
    kind = "child"

    def bump(self, by=2, *, twice=False):
        super().bump(by)
        if twice:
            super().bump(by)
        return self


@contextlib.contextmanager
def logged(name):
    LOG.append(("enter", name))
    try:
        yield name
    finally:
        LOG.append(("exit", name))


def countdown(n):
    while n > 0:
        yield n
        n -= 1
    return "done"


def stepwise(t, n):
    try:
        for q in range(n):
            got = yield t * q
            if got is not None:
                LOG.append(("got", got))
        return "end"
    finally:
        LOG.append("closed")


def delegating(t, n):
    result = yield from stepwise(t, n)
    LOG.append(result)
    yield t


def starred(*args, k=1, **more):
    LOG.append((len(args), sorted(more), k))
    return args[0] * k + len(args)


def collecting(t, seen=[]):
    seen.append(len(seen))
    return t + len(seen)


def factorial(t, k):
    return t if k <= 0 else factorial(t * 0.5 + k, k - 1)


def noted(function):
    @functools.wraps(function)
    def wrapper(*args, **named):
        LOG.append(function.__name__)
        return function(*args, **named)

    return wrapper


@noted
def halved(t, by=2):
    return t / by


class Steps:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Store:
    made = 0

    def __init__(self, **start):
        Store.made += 1
        self.data = dict(start)

    def __setitem__(self, key, value):
        self.data[key] = value

    def __getitem__(self, key):
        return self.data[key]

    def __delitem__(self, key):
        del self.data[key]

    def __contains__(self, key):
        return key in self.data

    def __bool__(self):
        return bool(self.data)

    def __call__(self, t, *rest):
        return t * len(self.data) + len(rest)

    def __getattr__(self, name):
        if name.startswith("_") or name == "data":
            raise AttributeError(name)
        return self.data.get(name)

    def __enter__(self):
        self.data["depth"] = self.data.get("depth", 0) + 1
        return self

    def __exit__(self, kind, error, trace):
        self.data["depth"] -= 1
        LOG.append(kind.__name__ if kind else None)
        return kind is KeyError

    @classmethod
    def full(cls, n):
        return cls(**{f"k{i}": i for i in range(n)})

    @staticmethod
    def double(value):
        return value * 2


@dataclasses.dataclass
class Point:
    a: object
    b: int = 2
    rest: list = dataclasses.field(default_factory=list)


Pair = collections.namedtuple("Pair", "left right")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dj.disable
def outside(value):
    LOG.append("outside")
    return value

"""

#: The language: calls, closures, generators, names, expressions.
LANGUAGE = [
    "@tensor = starred($T, $I, *$m[:1], z=$I, **{'w': 1})", "@tensor = starred(*[$T, $I], k=$I)",
    "@tensor = collecting($T)", "@tensor = factorial($T, 3)", "@tensor = halved($T, by=4)",
    "@list = [lambda z, k=1: z * q + k for q in range(3)]\n@tensor = @list[0]($T)",
    "@list1 = []\nfor @int1 in range(3):\n    @list1.append(lambda z: z * @int1)\n@tensor = @list1[0]($T) + @list1[2]($T)",
    "@list1 = []\nfor @int1 in range(3):\n    @list1.append(lambda z, k=@int1: z * k)\n@tensor = @list1[0]($T) + @list1[1]($T)",
    "for @tensor in stepwise($T, 3):\n    if $C:\n        break",
    "@tensor = x\nfor @tensor in stepwise($T, 2):\n    LOG.append($I)",
    "@gen = stepwise($T, 3)\nnext(@gen)\n@tensor = @gen.send($I)\n@gen.close()",
    "@gen = stepwise($T, 2)\n@tensor = next(@gen)\nLOG.append('between')",
    "@list = list(delegating($T, 2))", "@list = [*delegating($T, $i % 3)]",
    "@gen = stepwise($T, 3)\nnext(@gen)\ntry:\n    @gen.throw(KeyError('in'))\nexcept KeyError as error:\n    LOG.append(str(error))",
    "@gen = (v * $I for v in [1, $T, 2])\n@int = next(@gen)\n@tensor = next(@gen)\nLOG.append(list(@gen))",
    "if (@int := $I) > 1:\n    LOG.append(@int)", "@list = [w for v in range(4) if (w := v + $I) % 2]",
    "while (@int := len($m)) < 3:\n    $m.append(1)\n    break",
    "@int = $I\nLOG.append(@int)", "@list = [1, 2, $I]\ndel @list[0], @list[-1]",
    "t_gone = $T\nLOG.append(t_gone)\ndel t_gone",
    "t_gone = $I\ndel t_gone\ntry:\n    LOG.append(t_gone)\nexcept UnboundLocalError:\n    LOG.append('unbound')",
    "@dict = {v: v * $I for v in range(4) if v % 2 == $i % 2}", "@list = sorted({v % 3 for v in range(5) if v > $i})",
    "@list = [[a + b for a in range(2) if a != $i] for b in (1, $I)]",
    "@list = [1 < $I <= 4 != $i, $i == $i is not None, 0 <= $f < $n]",
    "@int = ($i and $I) or ($i if not $i else 3)", "@list = [*$m, *range($w), *$d]",
    "@tuple = $i, *[$T]\n@tensor = @tuple[-1]", "@int1, (@int2, *@list) = $I, (1, $T, 3)",
    "@int1 = @int2 = $I\n@int1 += 1", "@list1 = @list2 = [$I]\n@list1 += [2]", "assert $c, 'claimed'",
    "try:\n    assert $C, $I\nexcept AssertionError as error:\n    LOG.append(error.args)",
    "try:\n    raise ExceptionGroup('g', [ValueError(1), KeyError('k')])\nexcept* ValueError as group:\n    LOG.append(len(group.exceptions))\nexcept* KeyError:\n    LOG.append($T)",
    "try:\n    try:\n        1 // ($i - $i)\n    finally:\n        LOG.append($I)\nexcept ZeroDivisionError:\n    @tensor = $T",
    "for @int in range(3):\n    try:\n        if @int == 1:\n            continue\n        LOG.append($T)\n    finally:\n        LOG.append(@int)",
    "def local(k):\n    try:\n        return k + 1\n    finally:\n        LOG.append(k)\n@int = local($I)",
    "def local(k):\n    for q in range(3):\n        with logged(q):\n            if q == k:\n                return $T\n    return k\n@any = local($i % 4)",
    "def counted():\n    k = 0\n    def step(by=1):\n        nonlocal k\n        k += by\n        return k\n    return step\n@call = counted()\n@call()\n@int = @call($I)",
    "class Local(Box):\n    size = $I\n    def bump(self, by=3):\n        return super().bump(by + self.size)\n@box = Local($I).bump()",
    "if $C:\n    return $T", "@int = (lambda *a, **k: len(a) + len(k))(*range($w), **{'q': $I})",
    "LOG = LOG + [$I]", "COUNTER = COUNTER * 2 + $n", "@str = f'{$i!r:>4}|{$f:.1f}|{$n}'",
    "@str = '%s-%d' % ($s, $i)", "@float = round($f, 1) ** 2", "@int1, @int2 = divmod($i, 3)",
    "@int = int.from_bytes(b'ab', 'big') if $c else ~$i", "@int = $i << 2 | 1 & $i ^ 3",
]  # fmt: skip

#: Objects with protocols of their own, containers and the standard library.
PROTOCOLS = [
    "@list = list(Steps($i))", "@tensor = $T\nfor @int in Steps(3):\n    @tensor = @tensor + @int",
    "@list1 = [v for v in Steps(4) if v != $i]", "@any = Store(q=$I)\n@any['w'] = $T\n@tensor = @any($T, 1)",
    "@any = Store.full(2)\ndel @any['k0']\n@list = ['k1' in @any, 'k0' in @any, bool(@any), @any.k1, @any.nothing]",
    "with Store(q=1) as @any:\n    @any['z'] = $T\n    if $C:\n        raise KeyError('eaten')",
    "@float = Store.double($f)", "LOG.append(Store.made)", "@any = Point($T)\n@any.rest.append($I)\n@tensor = @any.a * @any.b",
    "@list = [Point(1) == Point($I), repr(Point($I))]", "@any = dataclasses.replace(Point($I), b=$I)",
    "@any = Pair($T, $I)\n@tensor = @any.left + @any.right", "@any = Pair($I, 2)._replace(left=$T)",
    "@list = [Color.RED is Color(1), Color.BLUE.name, Color['RED'].value, len(Color)]",
    "@any = collections.deque([1, $T], maxlen=2)\n@any.append($I)\n@any.rotate(1)",
    "@any = collections.defaultdict(list)\n@any['a'].append($T)\n@any[$I].append(1)",
    "@any = collections.OrderedDict(a=1, b=$T)\n@any.move_to_end('a')",
    "@list = sorted([3, $I, 2], key=lambda v: -v)", "@list = [any(v > $i for v in range(3)), all($m), min(3, $I)]",
    "@list = [(k, v) for k, v in enumerate(reversed([1, $T, 2]))]", "@list = list(zip($m, range(9), strict=False))",
    "@list = list(filter(None, [0, $I, 1]))", "@dict = dict(zip('ab', [$T, $I]))", "@list = [k for k in $d]",
    "@list = list($d.items())\n@int = len($d)", "@dict = $d | {'u': $I}", "@dict = $d\n@dict |= {'o': $I}",
    "@list = list(itertools.accumulate([1, $i, 3]))", "@list = list(itertools.product([1, $i], 'ab'))",
    "@list = [list(g) for _, g in itertools.groupby([1, 1, $i])]", "@float = functools.reduce(lambda a, b: a * b, [1, 2, $n])",
    "@tensor = operator.itemgetter(1)([1, $T])", "@any = operator.attrgetter('value')($b)", "@list = vars($b) and sorted(vars($b))",
    "@list = $m * 2\n@list.sort(key=str)", "@list = $m.copy()\n@list.clear()", "@list = [$m.count($i), 1 in $m]",
    "@any = frozenset([1, $i]) | {2}", "@any = {1, 2, $i}\n@any.discard(2)\n@any.add($I)\n@list = sorted(@any)",
    "@list = [1, 2, 3, 4]\n@list[::2] = [$I, $T]", "@any = iter([1, $T, $i])\n@int = next(@any)\n@list = [*@any]",
    "with contextlib.ExitStack() as stack:\n    stack.enter_context(logged('s'))\n    stack.callback(LOG.append, $I)\n    @tensor = $T",
    "@box = Box($I)\n@box.items += [$T]\n@box.value *= 2", "@box = $b\n@box.value, @box.late = $I, $T", "del $b.items[:1]",
    "@any = type('Made', (Box,), {'size': $I})($I)\n@int = @any.size", "@list = [getattr($b, name, None) for name in ('value', 'nothing')]",
]  # fmt: skip

#: Tensors: views, other types and shapes, indexing, gradients.
TENSORS = [
    "@tensor = $t.flip(0)", "@tensor = $t.cumsum(0)", "@tensor = $T.double().float()", "@tensor = ($t > 0).float()",
    "@tensor = $t.unsqueeze(0).squeeze(0)", "@tensor = $t[dj.arange($t.shape[0])]", "@tensor = $t.reshape(1, -1).t()[:, 0]",
    "@any1, @any2 = $t[:1], $t[1:]\n@tensor = dj.cat([@any2, @any1])", "@tensor = $t.sort()[0]", "@int = $t.dim() + $t.numel()",
    "@any1 = $t[1:]\n@any1.add_(1)\n@tensor = $t * 2", "@any1 = $t[:2]\n$v.mul_(2)\n@tensor = @any1.sum() + $t",
    "@any1 = $v.view(1, -1)\n@any1[0, 0] = $n\n@any1[:, 1:] += 1", "@tensor = $t.clone()\n@tensor[$i % 2] = $T[0]",
    "@tensor = $t.masked_fill($t > 0, 1.0)", "@tensor = dj.zeros_like($t)\n@tensor[1:].copy_($T[1:])", "@tensor = $t\n@tensor *= 2",
    "@tensor = $t * 1\n@any1 = @tensor\n@any1 -= $T", "@list = [$t.shape, $t.dtype is dj.float32, $t.requires_grad]",
    "@tensor = dj.ones($t.shape[0]) * $I", "@tensor = dj.full_like($t, $n)", "@tensor = $T @ dj.eye($t.shape[0])",
    "for @any1 in $t:\n    LOG.append(@any1 * 2)", "@list = [v * 2 for v in $t.unbind()]", "@any1, @any2, *@list = $t",
    "@tensor = $t.softmax(0) * $t.max()", "@any1 = $t.argmax()\n@tensor = $t[@any1] + $t", "@tensor = $t.detach() * $T",
    "@any1 = ($t * 2).detach().requires_grad_()\n(@any1 * @any1).sum().backward()\n@tensor = @any1.grad",
    "with dj.no_grad():\n    $v.mul_(0.5)", "@tensor = dj.where($t > $T, $t, $n)", "@tensor = $t.pow(2).sum().sqrt() + $t",
    "@tensor = $t + $t.shape[0] * $I", "if $t.shape[0] > 3:\n    @tensor = $T", "@tensor = $t.tile(2)[:$t.shape[0]]",
    "@tensor = dj.stack([$t for q in range($t.shape[0])])[0]", "@list = $t[:2].tolist()", "@list = [bool(v) for v in $t > 0]",
]  # fmt: skip
