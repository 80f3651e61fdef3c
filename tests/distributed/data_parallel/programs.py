"""Training programs that run with dynajit and with PyTorch.

Contract: `PROGRAMS[name](t, wrapped, rank, size)` trains a few steps on this rank's part of the
inputs, with the library `t`, and gives parameters and buffers as NumPy arrays. `wrapped` makes a
module parallel. `trained` with rank 0 of 1 is training in one process on all inputs.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

STEPS = 4
BATCH = 8


def values(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def filled(t: Any, module: Any) -> Any:
    """Weights that do not depend on the library."""
    for place, parameter in enumerate(module.parameters()):
        given = 0.4 * values(place, *parameter.shape)
        parameter.data.copy_(t.tensor(given).to(parameter.dtype))
    return module


def mlp(t: Any) -> Any:
    nn = t.nn
    return nn.Sequential(
        nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 3)
    ).double()


def convolutions(t: Any) -> Any:
    nn = t.nn
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3, stride=2),
        nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3),
    ).double()  # fmt: skip


def recurrent(t: Any) -> Any:
    class Recurrent(t.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = t.nn.LSTM(4, 8, batch_first=True)
            self.head = t.nn.Linear(8, 3)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0][:, -1])

    return Recurrent().double()


def transformer(t: Any) -> Any:
    nn, F = t.nn, t.nn.functional

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.before, self.behind = nn.LayerNorm(8), nn.LayerNorm(8)
            self.mixed, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
            self.wide, self.narrow = nn.Linear(8, 32), nn.Linear(32, 8)

        def forward(self, x: Any) -> Any:
            parts = self.mixed(self.before(x)).split(8, dim=-1)
            q, k, v = (p.reshape(*p.shape[:2], 2, 4).transpose(1, 2) for p in parts)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(x.shape))
            return x + self.narrow(F.gelu(self.wide(self.behind(x))))

    class Transformer(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(5, 8)
            self.blocks = nn.Sequential(Block(), Block())
            self.head = nn.Linear(8, 11, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, x: Any) -> Any:
            y = self.tokens(x) + self.places(t.arange(x.shape[1]))
            return self.head(self.blocks(y))

    return Transformer().double()


MODELS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "mlp": (mlp, (6,)),
    "convolutions": (convolutions, (1, 6, 6)),
    "recurrent": (recurrent, (5, 4)),
    "transformer": (transformer, (5,)),
}


def inputs(t: Any, name: str, step: int, rank: int, size: int, batch: int = BATCH) -> Any:
    """This rank's part of a batch."""
    shape = (batch, *MODELS[name][1])
    part = slice(rank * batch // size, (rank + 1) * batch // size)
    if name == "transformer":
        return t.tensor(np.random.default_rng(step).integers(0, 11, shape)[part])
    return t.tensor(values(100 + step, *shape)[part])


def state(module: Any) -> dict[str, Any]:
    """Parameters and buffers, by the name that they have in the module."""
    inner = getattr(module, "module", module)
    return {
        name: value.detach().double().numpy().copy() for name, value in inner.state_dict().items()
    }


def trained(
    name: str,
    t: Any,
    wrapped: Callable[[Any], Any],
    rank: int,
    size: int,
    changed: Callable[[Any], Any] = lambda module: module,
    compiled: Callable[[Any], Any] = lambda module: module,
) -> dict[str, Any]:
    """A model after a few steps of AdamW."""
    module = wrapped(changed(filled(t, MODELS[name][0](t))))
    call = compiled(module)
    optimizer = t.optim.AdamW(module.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        call(inputs(t, name, step, rank, size)).square().mean().backward()
        optimizer.step()
    return state(module)


def accumulated(t: Any, wrapped: Callable[..., Any], rank: int, size: int) -> dict[str, Any]:
    """Gradients of two batches add up before one average."""
    module = wrapped(filled(t, mlp(t)))
    optimizer = t.optim.SGD(module.parameters(), lr=0.1)
    for step in range(0, 2 * STEPS, 2):
        optimizer.zero_grad()
        with module.no_sync():
            module(inputs(t, "mlp", step, rank, size)).square().mean().backward()
        module(inputs(t, "mlp", step + 1, rank, size)).square().mean().backward()
        optimizer.step()
    return state(module)


def branches(t: Any) -> Any:
    class Branches(t.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.parts = t.nn.ModuleList([t.nn.Linear(6, 3) for _ in range(4)])

        def forward(self, x: Any, which: int) -> Any:
            return self.parts[0](x) + self.parts[which](x)

    return Branches().double()


def as_it_is(step: Callable[..., Any]) -> Callable[..., Any]:
    """What PyTorch does with a step; `dj.compile` stands in its place."""
    return step


def some_unused(
    t: Any, wrapped: Callable[..., Any], rank: int, size: int, whole: Any = as_it_is
) -> dict[str, Any]:
    """Ranks use different parts; the last part is used by none. Momentum moves what has zeros."""
    module = wrapped(filled(t, branches(t)), find_unused_parameters=True)
    optimizer = t.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)

    @whole
    def trains(x: Any, which: int) -> None:
        optimizer.zero_grad()
        module(x, which).square().mean().backward()
        optimizer.step()

    for step in range(STEPS):
        trains(inputs(t, "mlp", step, rank, size), 1 + (rank + step) % 2)
    assert module.module.parts[3].weight.grad is None
    return state(module)


def static(
    t: Any, wrapped: Callable[..., Any], rank: int, size: int, whole: Any = as_it_is
) -> dict[str, Any]:
    """A graph that does not change, of which a part is never used."""
    module = wrapped(filled(t, branches(t)), static_graph=True)
    optimizer = t.optim.SGD(module.parameters(), lr=0.1)

    @whole
    def trains(x: Any) -> None:
        optimizer.zero_grad()
        module(x, 2).square().mean().backward()
        optimizer.step()

    for step in range(STEPS):
        trains(inputs(t, "mlp", step, rank, size))
    return state(module)


def uneven(
    t: Any, wrapped: Callable[..., Any], rank: int, size: int, by_all: bool = True
) -> dict[str, Any]:
    """Rank r has 2 + 2 r batches."""
    module = wrapped(filled(t, convolutions(t)))
    optimizer = t.optim.SGD(module.parameters(), lr=0.1)
    with module.join(divide_by_initial_world_size=by_all):
        for step in range(2 + 2 * rank):
            optimizer.zero_grad()
            module(inputs(t, "convolutions", step, rank, size)).square().mean().backward()
            optimizer.step()
    return state(module)


def mixed(
    t: Any, wrapped: Callable[..., Any], rank: int, size: int, whole: Any = as_it_is
) -> dict[str, Any]:
    """Two dtypes, a frozen parameter, and gradients that show the buckets."""

    class Mixed(t.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = t.nn.Linear(6, 8).double()
            self.second = t.nn.Linear(8, 8)
            self.third = t.nn.Linear(8, 3).double()
            self.third.bias.requires_grad_(False)

        def forward(self, x: Any) -> Any:
            return self.third(self.second(self.first(x).float()).double())

    module = wrapped(filled(t, Mixed()), gradient_as_bucket_view=True, bucket_cap_mb=0.0003)
    optimizer = t.optim.SGD((p for p in module.parameters() if p.requires_grad), lr=0.1)

    @whole
    def trains(x: Any, sets_to_none: bool) -> None:
        optimizer.zero_grad(set_to_none=sets_to_none)
        module(x).square().mean().backward()
        optimizer.step()

    for step in range(STEPS):
        trains(inputs(t, "mlp", step, rank, size), step % 2 == 0)
    return state(module)


def hooked(
    t: Any, wrapped: Callable[..., Any], rank: int, size: int, hook: Any, whole: Any = as_it_is
) -> dict[str, Any]:
    """A hook averages the buckets."""
    module = wrapped(filled(t, mlp(t)), bucket_cap_mb=0.001)
    module.register_comm_hook(None, hook(t))
    optimizer = t.optim.SGD(module.parameters(), lr=0.1)

    @whole
    def trains(x: Any) -> None:
        optimizer.zero_grad()
        module(x).square().mean().backward()
        optimizer.step()

    for step in range(STEPS):
        trains(inputs(t, "mlp", step, rank, size))
    return state(module)


def default_hook(t: Any) -> Any:
    return _hooks(t).allreduce_hook


def half_hook(t: Any) -> Any:
    return _hooks(t).fp16_compress_hook


def _hooks(t: Any) -> Any:
    if t.__name__ == "torch":
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    else:
        from dynajit.distributed.algorithms.ddp_comm_hooks import default_hooks
    return default_hooks


def own_hook(t: Any) -> Any:
    """Twice the average; looks at all that a bucket shows."""

    def hook(state, bucket):  # PyTorch reads annotations
        assert bucket.buffer().numel() == sum(g.numel() for g in bucket.gradients())
        assert [g.shape for g in bucket.gradients()] == [p.shape for p in bucket.parameters()]
        assert bucket.index() >= 0 and bucket.is_last() in (True, False)
        size = t.distributed.get_world_size()
        bucket.set_buffer(bucket.buffer() * (2.0 / size))
        work = t.distributed.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    return hook


def scaled(t: Any, wrapped: Callable[..., Any], rank: int, size: int) -> dict[str, Any]:
    """Autocast and a scaler of gradients, one of which is infinite on one rank."""
    module = wrapped(filled(t, mlp(t).float()))
    optimizer = t.optim.SGD(module.parameters(), lr=0.1)
    scaler = t.amp.GradScaler("cpu", init_scale=64.0)
    for step in range(STEPS):
        optimizer.zero_grad()
        with t.autocast("cpu", dtype=t.bfloat16) if step == 3 else nullcontext():
            loss = module(inputs(t, "mlp", step, rank, size).float()).float().square().mean()
        if step == 1 and rank == 0:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return {"scale": np.array(scaler.get_scale()), **state(module)}


PROGRAMS: dict[str, Callable[..., dict[str, Any]]] = {
    **{
        name: lambda t, wrapped, rank, size, name=name: trained(name, t, wrapped, rank, size)
        for name in MODELS
    },
    "small buckets": lambda t, wrapped, rank, size: trained(
        "transformer", t, lambda module: wrapped(module, bucket_cap_mb=0.001), rank, size
    ),
    "accumulated": accumulated,
    "some unused": some_unused,
    "static": static,
    "uneven": uneven,
    "uneven by those left": lambda *a: uneven(*a, by_all=False),
    "mixed": mixed,
    "default hook": lambda *a, **named: hooked(*a, default_hook, **named),
    "half hook": lambda *a, **named: hooked(*a, half_hook, **named),
    "own hook": lambda *a, **named: hooked(*a, own_hook, **named),
    "scaled": scaled,
}

WHOLE = ("some unused", "static", "mixed", "default hook", "half hook", "own hook")
"""Programs that take what is done with a function that makes a whole step: `whole=`."""
