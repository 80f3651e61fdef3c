"""What random programs are written from: statements as templates; `preamble` is the module's head.

A template is one statement or several; see `programs.Writer.fill` for `$x` and `@kind`. Tables are
grouped by what they are about; `programs.Writer` picks from them.
"""

#: Names bound to tensors.
TENSOR_ASSIGNMENTS = [
    "@tensor = $T", "@tensor = $T", "$v = $T",
]  # fmt: skip

#: Names bound to numbers.
NUMBERS = [
    "@int = $I", "@float = $f * 0.5 + $n", "@int = $I\n@int += $I", "@float = $n\n@float -= $f", "@float = math.sqrt(abs($n) + 1)",
    "@int = $i if $c else $i",
]  # fmt: skip

#: Names bound to lists, dicts and tuples.
CONTAINERS = [
    "@list = [$T, $I, $I]", "@dict = {'a': $T, 'k': $I}", "@tuple = ($T, $I)", "@list = $l + [$I]", "@dict = {**$d, 'z': $I}", "@tuple = (*$p, $T)",
    "@list = $l", "@list = list($l)", "@dict = dict($d)", "@list = $l[::-1]", "@list = [$p, $b]",
]  # fmt: skip

#: Lists, dicts, objects and globals changed in place.
MUTATIONS = [
    "$m.append($T)", "$m.insert(0, $I)", "$m.extend([$I, $I])", "$m[-1:] = [$I]", "$m.reverse()", "$m += ($I,)", "$d['k'] = $T", "$d[$I] = $I",
    "$d.setdefault('s', []).append($I)", "$d.pop('z', None)", "$d.update(q=$I)", "$b.value = $I", "$b.bump($I)", "$b.doubled = $I", "$b.extra = $T",
    "setattr($b, 'late', $I)", "COUNTER += 1", "LOG.append($I)", "TABLE['k'] = $I", "del $m[:1]", "$b.items.append($T)", "$m.pop() if $m else None",
    "$m[0:0] = $p",
]  # fmt: skip

#: Tensors written in place.
WRITES = [
    "$v.add_($T)", "$v.mul_(0.5)", "$v[0] = $n", "$v[1:] = ($T)[:2]", "$v += $T", "$v[1:].mul_(2)", "$v.copy_($T)", "$v[$v > 1] = 0.0",
    "$v.clamp_(-9, 9)", "@tensor = $v.view(-1)\n@tensor.add_(1)", "@tensor = $v.detach()\n$v.mul_(2)",
]  # fmt: skip

#: What ends a graph.
BREAKS = [
    "@float = $t.sum().item()", "dj.graph_break()", "print('p', $i)", "LOG.append($t.tolist())", "@tensor = outside($t * 2) + 1",
    "LOG.append([$I, $t.sum().item(), $I])", "@float = float($t.max()) + $f", "@tensor = $t * ($i if $t.sum() > 0 else 2)",
    "@list = [$t.mean().item() for q in range($w)]", "@float = $f + $t[0].item() * $n", "print($s, $t.sum().item() > 0)",
]  # fmt: skip

#: Objects of user classes.
BOXES = [
    "@box = Box($I)", "@box = Child($I).bump()", "@box = $b + $I", "@int = len($b) + int($b.kind == 'child')",
    "@list = [$b.kind, $b == Box($I), hasattr($b, 'extra')]", "@list = [getattr($b, 'late', $I), $b.doubled]",
    "@box = Child($I)\n@box.bump(twice=True)", "@tensor = $t * $b.value", "@list = [type($b).__name__, isinstance($b, Box)]",
]  # fmt: skip

#: Strings.
TEXT = [
    "@int1 = $I\n@str = f'{@int1:03d}'", "@str = str($I) + 'k'", "@str = '-'.join(str(v) for v in range($I))", "@str = $s.upper()[:3]",
    "@str = 'k' if $c else 'a'", "@str = f'{COUNTER:.2f}|{COUNTER!r:>5}' + format($f, '.1f')", "@str = $s.replace('a', 'b') * 2",
    "@list = $s.split('k')",
]  # fmt: skip

#: Several targets.
UNPACKING = [
    "@int1, @int2, *@list = $I, $I, $T, 4", "(@int1, @int2), @list = ($I, $I), [$T]", "@int1, @int2 = $I, $I\n@int1, @int2 = @int2, @int1",
    "@int1, @list = $I, list(map(lambda q: q + 1, [$I, 2]))",
]  # fmt: skip

#: Comprehensions and iterators.
COMPREHENSIONS = [
    "@list = [$t * q for q in range(3) if q != $i]", "@dict = {str(q): $t + q for q in (1, 2)}", "@tensor = sum(($t * q for q in range(1, 3)), x * 0)",
    "@list = sorted({$i, 1, 2})", "@list = [a * b for a, b in zip([1, 2, $i], itertools.count(1))]",
    "@list = [(lambda k=q: k + $i)() for q in range(2)]", "@list = list(itertools.chain([$i], itertools.islice(itertools.cycle('ab'), 3)))",
    "@dict = dict(collections.Counter([$i, 1, 1]))", "@list = [fn(2) for fn in [lambda z, q=q: z * q for q in range(2)]]",
    "@int = next((q for q in range(5) if q > $i), -1)",
]  # fmt: skip

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

#: Objects that behave in their own way: comparisons, descriptors, diamonds, records, errors.
OBJECTS = [
    "@any1 = Bag($T, $I)\n@any1 += $I\n@list = [*@any1, $I in @any1, len((-@any1).held)]",
    "@list = [Bag($I) == Bag(2), Bag(1) < Bag(1, $I), Bag() != $i, Bag(1) == $t.shape]", "@int = $I + Bag(1, 2)",
    "@any1 = {Bag(1): $I, Bag(): 2}\n@any1[Bag($i)] = $T\n@int = len(@any1)", "@list = [Bag($T) in [Bag(1), $i], Bag() in (Bag(),)]",
    "try:\n    if Bag($i):\n        LOG.append(1)\nexcept TypeError as error:\n    LOG.append(str(error))",
    "@any1 = Both($I)\n@any1.size = $I\n@any = @any1.area()\n@list = [c.__name__ for c in type(@any1).__mro__]",
    "@any1 = Left($T)\n@tensor = @any1.area()[1]", "try:\n    Right(None)\nexcept TypeError as error:\n    @str = str(error)",
    "@any1 = Both($I)\n@any1.shared.append($I)\nBase.shared = Base.shared[-2:]", "@any1 = Both($i)\n@any1.late = $T\ndel @any1.late\n@list = sorted(vars(@any1))",
    "@list = sorted([Item(3), Item($I, $T), Item(1)])", "@list = [Item($i) < Item(2), Item(1, $T) == Item(1, 2), repr(Item($I))]",
    "try:\n    Frozen($T).a = $I\nexcept dataclasses.FrozenInstanceError as error:\n    LOG.append(str(error))",
    "@any = dataclasses.asdict(Frozen($I, $I))", "@dict = {Frozen($I): $T, Frozen(1, 0): 3}", "@any1 = Frozen($T, $I)\n@tensor = @any1.a * @any1.b",
    "try:\n    @int = failing($I)\nexcept Noted as error:\n    @int = error.held\n    LOG.append((str(error), error.args))",
    "try:\n    try:\n        failing($I)\n    except Noted as error:\n        error.add_note('noted')\n        raise ValueError($i) from error\nexcept ValueError as error:\n    LOG.append([type(error.__cause__).__name__, getattr(error.__cause__, '__notes__', None)])",
    "try:\n    $m.append($T)\n    $b.value = failing($I)\n    $m.append(2)\nexcept Noted:\n    $m.append(3)",
    "with Failing(eats=True):\n    @tensor = $T\n    failing($I)\n    LOG.append('passed')",
    "try:\n    with Failing(fails=$c), Failing(eats=$c):\n        failing($I)\nexcept (Noted, RuntimeError) as error:\n    LOG.append([type(error).__name__, type(error.__context__).__name__])",
    "@any1 = Box()\n@any1.__dict__['value'] = $I\n@float = @any1.doubled", "@any1 = Box($I)\nvars(@any1).update(value=$T, more=$I)\n@tensor = @any1.value",
    "@any1 = Box.bump\n@box = @any1(Box($I), $I)", "@any1 = $b.bump\n@any1($I)\n@any1()", "@any1 = super(Child, Child($I))\n@box = @any1.bump($I)",
    "@any1 = [Box(k) for k in range(3)]\nfor @any2 in @any1:\n    @any2.bump($I)\n@int = sum(k.value for k in @any1)",
    "object.__setattr__($b, 'raw', $I)\n@list = [$b.raw, '__class__' in dir($b)]", "delattr($b, 'extra') if hasattr($b, 'extra') else None",
    "@any1 = type($b)($I)\n@list = [@any1 == $b, @any1 != $b, @any1 is not $b, type(@any1) is Box]", "Box.kind = $s\n@str = $b.kind\nBox.kind = 'box'",
]  # fmt: skip

#: Containers that change while they are looked at, are passed on, or are shared.
CHANGES = [
    "@dict1 = {'a': $T, 'b': $I}\ntry:\n    for @str in @dict1:\n        @dict1[@str * 2] = $I\nexcept RuntimeError as error:\n    LOG.append(str(error))",
    "@dict1 = {1: 2, $i: $I}\nfor @int in list(@dict1):\n    if @int != 1:\n        del @dict1[@int]", "@list1 = [1, 2, $I]\nfor @int in @list1:\n    if len(@list1) < 6:\n        @list1.append(@int * 2)",
    "@list1 = [1, 2, 3, $I]\nfor @int in @list1:\n    @list1.remove(@int)", "@any1 = {1, 2, $i}\ntry:\n    for @int in @any1:\n        @any1.add(@int + 10)\nexcept RuntimeError as error:\n    LOG.append(str(error))",
    "@list1 = [1, $I]\nfor @int in reversed(@list1):\n    LOG.append(@int)\n    if len(@list1) < 5:\n        @list1.append($I)", "@dict1 = {'a': 1}\n@any1 = @dict1.keys()\n@dict1['z'] = $T\n@list = [*@any1, len(@any1), 'z' in @any1]",
    "@any1 = iter($m)\nnext(@any1, None)\n$m.append($T)\n@list = list(@any1)", "@list = changing($m, to=$I)\n@list.append($T)", "@dict = filling($d, $T)\n@tensor = @dict['last'] * 2",
    "@list = [filling({}, $T), changing([], to=$T)]", "@list1 = [[]] * 3\n@list1[0].append($I)\n@list1[1] = $T", "@list1 = [$t]\n@list1[0].mul_(2)\n@tensor = @list1[0] + $t",
    "@dict1 = {'w': $t}\n@dict1['w'] += 1\n@tensor = @dict1['w']", "@any1 = ([$I], $t)\n@any1[0].append($T)\n@any1[1].add_(1)", "@any1 = [$v, $v]\nfor @any2 in @any1:\n    @any2.add_(1)",
    "@list1 = [3, $I, 1]\n@list1.sort(reverse=$c)\n@list1[1:2] = range($w)", "@list1 = list(range(6))\n@list1[$i:] = [$I]\ndel @list1[::2]", "@list1 = [$I]\n@list1 *= 3\n@list1.extend(@list1)",
    "@list1 = []\n@list1.append(@list1)\n@int = len(@list1[0])", "@dict1 = dict.fromkeys('ab', $m)\n@dict1['a'].append($I)", "@any1 = $d.get('a')\n$d['a'] = $I\n@list = [@any1, $d.pop('a'), $d.get('a', 'none')]",
    "@any1 = $d.popitem() if $d else None", "@list = [*$d.values()][:2]\n$d.clear()", "$d.update({'k': $T}, z=$I)\n@list = sorted($d, key=str)", "@list = [k for k, v in $d.items() if isinstance(v, int)]",
    "$m[:] = [v for v in $m if not isinstance(v, int)]", "@any1 = collections.ChainMap({'a': $I}, $d)\n@any1['n'] = $I\n@list = ['k' in @any1, len(@any1.maps)]", "@any1 = bytearray(b'abc')\n@any1[0] = 65\n@any1 += b'z'\n@str = @any1.decode()",
    "@tuple = ($I, [$I])\ntry:\n    @tuple[1].append($T)\n    @tuple[0] += 1\nexcept TypeError as error:\n    LOG.append(str(error))", "@int1, $m[-1:] = $I, [$I]", "@list = [$I, 2]\n@list[0], @list[1] = @list[1], @list[0]",
    "TABLE[$s] = $I\n@list = sorted(TABLE, key=str)\nTABLE.pop($s, None)", "TABLE['held'] = $T\n@tensor = TABLE['held'] * 2", "LOG.append(len(LOG))", "del LOG[:-2]", "@any1 = LOG\nLOG = []\n@any1.append($I)",
    "COUNTER = $T", "SCALE = SCALE + $I % 2", "@tensor = scaled($T)", "FACTOR = $n\n@tensor = scaled($t)", "globals()['FACTOR'] = $n\n@float = FACTOR",
]  # fmt: skip

#: Generators that are stopped, resumed and left in every way.
GENERATORS = [
    "@gen1 = pairs($T, 3)\nfor @int, @tensor in @gen1:\n    if $C:\n        break\n@gen1.close()", "for @int, @tensor in pairs($T, $w):\n    pass\nelse:\n    LOG.append('all')",
    "@gen1 = pairs($T, 3)\n@any = next(@gen1)\n@any1 = @gen1.throw(KeyError($I))\n@gen1.close()", "@gen1 = pairs($T, 2)\nnext(@gen1)\ntry:\n    @gen1.throw(ValueError($I))\nexcept ValueError as error:\n    LOG.append(error.args)\n@list = list(@gen1)",
    "@gen1 = stepwise($T, 3)\n@list = [next(@gen1), @gen1.send($I), @gen1.send(None)]\n@any = next(@gen1, 'over')", "@gen1 = countdown($i)\ntry:\n    while True:\n        @int = next(@gen1)\nexcept StopIteration as stop:\n    @str = stop.value",
    "@gen1 = (v * $T for v in countdown(3))\n@tensor = next(@gen1) + next(@gen1)\n@list = list(@gen1)", "@any1 = zip(countdown(3), stepwise($T, 5))\n@list = [*@any1]", "@list = [*itertools.takewhile(lambda v: v != $i, countdown(4))]",
    "@any1, @any2 = itertools.tee(countdown(3))\n@list = [next(@any1), next(@any2), *@any1]", "@any1, *@list = pairs($T, 3)", "def flat(v):\n    for w in v:\n        if isinstance(w, list):\n            yield from flat(w)\n        else:\n            yield w\n@list = list(flat([1, [$T, [2, $I]], []]))",
    "def averaging():\n    total = 0\n    while True:\n        got = yield total\n        total = total + got\n@gen1 = averaging()\nnext(@gen1)\n@gen1.send($T)\n@tensor = @gen1.send($I)\n@gen1.close()",
    "def guarding(t):\n    try:\n        yield t\n        yield t * 2\n    except ValueError as error:\n        yield str(error)\n    finally:\n        LOG.append('finally')\n@gen1 = guarding($T)\nnext(@gen1)\n@any = @gen1.throw(ValueError('v'))\nnext(@gen1, None)",
    "@gen1 = Bag($T, $I)\n@list = [v for v in @gen1]", "@dict = dict(pairs($T, 2))", "@tensor = sum((t for _, t in pairs($T, 3)), $t)", "@int = sum(1 for v in pairs($T, 3) if v[0] != $i)", "@float = max((v * 0.5 for v in countdown(3)), default=$n)",
    "@gen1 = countdown($I)\n@list = [@gen1 is iter(@gen1), next(@gen1, None)]", "@gen1 = stepwise($T, 1)\n@gen1.close()\n@any = next(@gen1, 'closed')", "@any1 = enumerate(countdown(2), $I)\n@list = list(map(list, @any1))",
]  # fmt: skip

#: Modules with state, hooks and modes; random numbers; modes of gradients.
MODULES = [
    "@tensor = NET($T)", "@tensor = NET($T, scale=$n)", "@any1 = NET.register_forward_hook(hook)\n@tensor = NET($T)\n@any1.remove()", "NET.train(bool($c))\n@tensor = dj.nn.functional.dropout($T, 0.5, NET.training)", "@list = [name for name, _ in NET.named_parameters()]",
    "with dj.no_grad():\n    NET.weight.add_(0.5)", "@list = [NET.calls, NET.seen, sorted(NET.state_dict())]", "@tensor = NET.inner[$i % 2]($T)", "NET.inner[0] = dj.nn.Sigmoid()\n@tensor = NET.inner($T)\nNET.inner[0] = dj.nn.ReLU()",
    "@any1 = NET.register_forward_pre_hook(lambda module, passed: (passed[0] + $i,))\n@tensor = NET($T)\n@any1.remove()", "NET.last = $T\n@tensor = NET.last * 2", "NET.extra = dj.nn.Identity()\n@tensor = NET.extra($T)\ndel NET.extra",
    "(NET($T).sum() + 0).backward()\n@any = NET.weight.grad\nNET.weight.grad = None", "@tensor = dj.rand_like($T) + $t", "@tensor = $T + dj.rand($t.shape[0])", "@list = [dj.randn(2), dj.rand(1).item()]",
    "with dj.enable_grad():\n    @tensor = $T", "@list = [dj.is_grad_enabled(), $t.requires_grad]", "with dj.no_grad():\n    @tensor = NET($T)\n    with dj.enable_grad():\n        @any = NET.weight * 2",
    "@any1 = dj.is_grad_enabled()\ndj.set_grad_enabled(False)\n@tensor = $T * 1\ndj.set_grad_enabled(@any1)", "@any1 = $T.detach().requires_grad_()\n@any2 = (@any1 * $I).sum()\n@any2.backward()\n@tensor = @any1.grad + 1",
    "for @any1 in NET.parameters():\n    @tensor = $T + @any1", "@list = [type(m).__name__ for m in NET.modules()]", "setattr(NET, 'flag', $I)\n@list = [NET.flag, hasattr(NET, 'nothing')]",
]  # fmt: skip

#: Tensors of other types, with no elements or no dims; writes through views; sizes.
CORNERS = [
    "@any1 = $t.sum()\n@tensor = $T * @any1", "@any1 = $t[0]\n@any1.mul_(2)\n@tensor = $t + @any1", "@any1 = $t[:0]\n@list = [@any1.sum(), @any1.shape, @any1 * 2]", "@tensor = dj.cat([$t, $t[:0]])", "@any = dj.tensor($n)\n@tensor = $T * @any",
    "@any1 = $T.long()\n@tensor = @any1 + $t\n@any2 = @any1 // 2", "@any = ($t > 0) & ($T < 1)", "@any = ($t > 0).sum() + $I", "@any1 = $T.double()\n@list = [(@any1 + $t).dtype is dj.float64, @any1 * $n]", "@any = $T.int() * $n", "@any = ($t > 0) * $I",
    "@any1 = $v[::2]\n@any1.add_($n)\n@tensor = $v * 1", "@any1 = $v.flip(0)\n@any1.mul_(2)\n@tensor = $v + 0", "@any1 = dj.zeros(2, $v.shape[0])\n@any1[0] = $T\n@any1[1].copy_(@any1[0])\n@tensor = @any1.sum(0)", "@any1 = dj.zeros(3, 3)\n@any1.t()[0] = $n\n@any1[:, 1].add_(2)\n@any1.diagonal().fill_(5)\n@any = @any1",
    "@any1 = $v.unsqueeze(0)\n@any1.squeeze(0).mul_(0.5)\n@tensor = @any1[0]", "@any1, @any2 = $v[:1], $v[1:]\n@any1.add_(1)\n@any2.copy_($T[1:])", "@any1 = $v[:]\n$v.zero_()\n@tensor = @any1 + $n", "@tensor = $v.fill_($n).neg()", "@any1 = $v.expand(2, $v.shape[0])\n$v.add_(1)\n@tensor = @any1[1] * 1",
    "@int1 = int($t.sum().item()) % 3\n@any = $t[:@int1]\n@list = [$T] * @int1", "@int1 = int($t.abs().max())\nwhile @int1 > 0:\n    @int1 = @int1 // 2 - 1\n    LOG.append(@int1)", "@tensor = $T\nfor q in range($w):\n    if @tensor.sum() > 100:\n        break\n    @tensor = @tensor * 2", "@any1 = $T\nif @any1.max() > $n:\n    @any1 = -@any1\nelif @any1.min().item() < 0:\n    @any1 += 1\n@tensor = @any1",
    "@any = [float(v) for v in $t]", "@any1 = $t.nonzero()\n@int = @any1.shape[0]", "@any = $t[$t > 0]", "@int1 = $t.shape[0]\n@tensor = $T.view(@int1, 1).expand(@int1, 2).sum(1)", "@int = $t.numel() * 2 + $i", "if $t.shape[0] % 2:\n    @tensor = $T\nelse:\n    LOG.append($t.shape)",
    "@any1 = [v for v in range($t.shape[0])]\n@any = $t[@any1]", "@tensor = $t[[k for k in range($t.shape[0])]]", "@any = dj.arange($t.shape[0]) * $I", "@any = $t.repeat(2)\n@any1 = $t.shape + (1,)", "@list = $t.split(2)\n@any = len(@list)", "@any1, @any2 = $t.max(0)\n@tensor = $T - @any1", "@any = $t.size(0) == $T.size(-1)",
    "@any = $T.reshape(-1, 1) @ $t.reshape(1, -1)", "@any = $t.dot($T)", "@tensor = written($v) .sum() + $T", "@any = written($t * 1, $n)", "@tensor = $v\n@tensor -= $T\n@list = [@tensor is $v]", "@any1 = $v\n@any1[$i % 2 :] += $n\n@any1[-1] -= 1", "$v[$v < 0] = $n", "$v[dj.tensor([0, 1])] = $T[:2]", "$v.add_($v)", "$v.mul_($v.sum())", "$v[1:] = $v[:-1]", "$v[:-1] += $v[1:]", "$v.copy_($v.flip(0))",
    "@any1 = $T\n@any2 = @any1.view(-1, 1)\n@any2 += 1\n@any1.sub_(1)\n@tensor = @any2[:, 0]", "@tensor = dj.maximum($t, $T).clamp(min=$n)", "@any = dj.stack([$t, $T]).argmax(0)", "@tensor = $T.where($t > 0, dj.zeros(()))", "@any = $t.sum() > 0 and $T.max() > 1", "@any = not $t.any()", "@any = 1 if $t[0] else 2", "@str = str($t.shape) + repr($t.dtype)",
    "@any1 = $t.numpy()\n@any = @any1.sum()", "@any1 = $T\n@any = hash(@any1) == hash(@any1)", "@any = $t in [$t]", "@any = [$t].index($t)", "@any = $t is $t.contiguous()", "@any = len($t) + $t.ndim", "@any1 = {$t: 1}\n@any = @any1[$t]",
]  # fmt: skip

#: Assignments to what is not a name; deletions; odd forms of statements.
FORMS = [
    "[@int1, [@int2, *@list]] = [$I, [$I, $T]]", "*@list1, @int = range($w + 2)", "@int1 = @list1 = $I\n@list1 = [@int1]", "@list1 = [0, 0]\n@list1[@list1.append($I) or 0], @list1[-1] = $I, $T", "@int = 0\n@list1 = [0, 1]\n@int, @list1[@int] = 1, 5",
    "for $b.value in range(2):\n    LOG.append($b.value)", "@list1 = [0]\nfor @list1[0] in (1, $I):\n    pass", "with logged('w') as $b.held:\n    @int = $I", "for @int1, (@int2, @any) in [(1, (2, $T)), ($I, (3, 4))]:\n    LOG.append(@any)",
    "@int: int = $I", "@int = (@int1 := $I) + @int1", "@list = [(@int1 := v) for v in range(3)]\nLOG.append(@int1)", "@int = 1 if $c else (2 if $c else 3)", "@list = [v for w in [[1, $I], [$T]] for v in w]", "@list = [{k: v for k in range(v)} for v in range(3)]", "@any = {(k, v) for k in 'ab' for v in range($w)}",
    "@list = [(lambda: v)() for v in range(3)]", "@any1 = [lambda: v for v in range(3)]\n@list = [fn() for fn in @any1]", "@any1 = lambda *a, k=$i, **o: (a, k, sorted(o))\n@any = @any1(1, $I, z=2)", "@any1 = lambda t, /, k, *, j=1: t * k + j\n@tensor = @any1($T, $I, j=$n)",
    "try:\n    (lambda a: a)($I, 2)\nexcept TypeError as error:\n    @str = str(error)", "try:\n    starred(k=1, **{'k': 2})\nexcept TypeError as error:\n    @str = str(error)", "try:\n    @int1, @int2 = [$I]\nexcept ValueError as error:\n    @str = str(error)", "try:\n    None + $I\nexcept TypeError as error:\n    @str = str(error)",
    "try:\n    $d['nothing'] + 1\nexcept (KeyError, TypeError) as error:\n    LOG.append(repr(error))", "try:\n    $t.nothing\nexcept AttributeError as error:\n    LOG.append(error.name)", "try:\n    int('x')\nexcept ValueError as error:\n    LOG.append(str(error))", "try:\n    $t + [1]\nexcept Exception as error:\n    LOG.append(type(error).__name__)",
    "try:\n    $t[9]\nexcept IndexError:\n    LOG.append('index')", "try:\n    dj.cat([$t, dj.zeros(2, 2)])\nexcept Exception as error:\n    LOG.append(type(error).__name__)", "def local(k):\n    global COUNTER\n    COUNTER = k\n    return lambda: COUNTER\n@int = local($I)()", "def local(k, held=[]):\n    held.append(k)\n    return held\n@list = local($I) + local($T)",
    "def local(k):\n    def deeper():\n        nonlocal k\n        k = k * 2\n        return k\n    return deeper(), deeper(), k\n@list = [*local($T)]", "def local(n):\n    return 1 if n <= 0 else n * local(n - 1)\n@int = local($i % 4)", "def local(a, b):\n    a.append($I)\n    b = b + 1\n    return a is b\n@any = local($m, $I)",
    "def local(a, b):\n    a.mul_(2)\n    return a + b\n@tensor = local($v, $t)", "def local(t):\n    if $C:\n        return t\n    LOG.append('rest')\n    return t * 2\n@tensor = local($T)", "def local(t):\n    for q in range(3):\n        if (t * q).sum() > $n:\n            break\n        t = t + q\n    else:\n        return t\n    return t * 2\n@tensor = local($T)",
    "def local(t):\n    try:\n        return t.sum().item()\n    finally:\n        LOG.append('left')\n@float = local($T)", "def local(t):\n    for q in range(3):\n        try:\n            if q == $i % 3:\n                return t + q\n        finally:\n            LOG.append(q)\n            if q == 1 and $c:\n                break\n    return t\n@tensor = local($T)",
    "def local(k):\n    while True:\n        try:\n            k -= 1\n            if k < 0:\n                break\n            if k % 2:\n                continue\n            LOG.append(k)\n        finally:\n            LOG.append($I)\n    return k\n@int = local($i % 5)", "def local():\n    with Failing(eats=True):\n        return failing(2)\n    return 'eaten'\n@any = local()",
    "def local(k):\n    try:\n        raise KeyError(k)\n    except KeyError:\n        try:\n            return failing(k)\n        finally:\n            LOG.append('out')\ntry:\n    @any = local($I)\nexcept Noted as error:\n    LOG.append(type(error.__context__).__name__)", "import math as other\n@float = other.floor($f)", "from operator import add as plus\n@tensor = plus($T, $I)",
    "@any1 = noted(lambda t: t * 2)\n@tensor = @any1($T)", "@any1 = functools.partial(starred, $T, k=$I)\n@tensor = @any1(z=1)", "@any1 = functools.lru_cache(lambda k: k * 2)\n@list = [@any1($I), @any1(3)]", "@list = list(map(scaled, [$T, 2]))", "@any = eval('1 + 1')", "@list = [*'ab', *{1: 2}, *(v for v in [$T])]", "@dict = {**{'a': 1}, **dict(a=$I), 'b': $T}",
    "@any = ($I,) * 2 < ($I, 3)", "@any = [1, $I] == [1.0, $i]", "@any = $i is not None and $i in (1, 2, $I)", "@list = [$i // 1 or 'zero', $i and 'set', not $i]", "@any = -$i ** 2 % 5", "@any = 7 // $n if $n else 'none'", "@float = $f; @int = $I; LOG.append(@int)", "pass", "...", "@any = ...",
    "@int1 = 0\nwhile (@int1 := @int1 + 1) < 4:\n    if @int1 == $i:\n        continue\n    LOG.append(@int1)\nelse:\n    LOG.append('end')", "@any1 = None\nfor @any1 in ():\n    pass\nLOG.append(@any1)", "for @int in range(2):\n    for @any1 in range(2):\n        if @any1 == $i:\n            break\n    else:\n        continue\n    break",
]  # fmt: skip

#: Subjects and patterns of `match`; `$x` as everywhere.
PATTERNS = [
    "case (1, str() as @str1):\n    LOG.append(@str1)", "case {'k': @any1, **@dict1}:\n    LOG.append(sorted(@dict1, key=str))", "case 0 | 1 | 2:\n    LOG.append('small')", "case Box(value=@any1) if @any1:\n    LOG.append(@any1)",
    "case [int(), *_]:\n    LOG.append('first')", "case [@any1, @any2]:\n    LOG.append((@any1, @any2))", "case Item(rank=0) | Item(rank=1):\n    LOG.append('low')", "case Item(@any1, @any2):\n    LOG.append(@any1)", "case Frozen(a=int(@int1)):\n    LOG.append(@int1)", "case -1 | None | True:\n    LOG.append('constant')",
    "case {'a': [@any1, *@list1]}:\n    LOG.append(len(@list1))", "case str('k' | 'a'):\n    LOG.append('text')", "case Color.RED:\n    LOG.append('red')", "case [*@list1, {'z': 1 as @int1}]:\n    LOG.append(@int1)", "case @any1 if $C:\n    LOG.append(2)",
]  # fmt: skip

#: Tables of simple statements; more often chosen: named twice.
SIMPLE = [
    TENSOR_ASSIGNMENTS, TENSOR_ASSIGNMENTS, NUMBERS, CONTAINERS, MUTATIONS, MUTATIONS, WRITES, BREAKS, BOXES, TEXT, UNPACKING,
    COMPREHENSIONS, LANGUAGE, LANGUAGE, PROTOCOLS, TENSORS, TENSORS, OBJECTS, CHANGES, CHANGES, GENERATORS, MODULES, CORNERS, CORNERS, FORMS, FORMS,
]  # fmt: skip
