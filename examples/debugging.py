"""A debugging session: a graph break, a recompile and a NaN, each found and mended.

    python examples/debugging.py [--small]

Read it from top to bottom: each part has a function with a fault, what one asks dynajit about it,
and the function without the fault. The program checks that the answers are those that are told.
"""

import argparse
from collections.abc import Callable

import dynajit as dj


def headline(text: str) -> None:
    """Between the parts."""
    print(f"\n--- {text}")


# ---- a break -----------------------------------------------------------------------------------


def clipped(x: dj.Tensor) -> dj.Tensor:
    """Decides in Python by the value of a tensor."""
    scaled = x * 3
    if scaled.abs().max() > 1:
        scaled = scaled / scaled.abs().max()
    return scaled.sin()


def clipped_in_one_graph(x: dj.Tensor) -> dj.Tensor:
    """Decides by a tensor operation."""
    scaled = x * 3
    largest = scaled.abs().max()
    return (scaled / largest.clamp(min=1)).sin()


def find_the_break(x: dj.Tensor) -> None:
    """`explain` names the line; `fullgraph=True` keeps it mended."""
    headline("a break")
    found = dj.explain(clipped)(x)
    (found_break,) = found.breaks
    print(f"line {found_break.line}: {found_break.reason}\n{found_break.hint}")
    assert found.graph_count == 2

    mended = dj.compile(clipped_in_one_graph, fullgraph=True)
    dj.testing.assert_close(mended(x), clipped(x))
    print("mended: one graph, the same result")


# ---- a recompile -------------------------------------------------------------------------------


def find_the_recompile(x: dj.Tensor) -> None:
    """`report` names the guard that failed; a stance makes sure that there are no others."""
    headline("a recompile")

    @dj.compile
    def logged(x: dj.Tensor, label: str) -> dj.Tensor:
        return x * 2 if label.startswith("train") else x

    for label in ("train 1", "train 2", "train 3"):  # a text that is another one each time
        logged(x, label)
    print(logged.report())
    assert len(logged.guards()) > 1

    @dj.compile
    def unlabelled(x: dj.Tensor, is_training: bool) -> dj.Tensor:
        return x * 2 if is_training else x

    unlabelled(x, True)
    with dj.set_stance("fail_on_recompile"):
        for label in ("train 1", "train 2", "train 3"):
            unlabelled(x, label.startswith("train"))
    print("mended: one version")


# ---- a NaN -------------------------------------------------------------------------------------


def distance(x: dj.Tensor) -> dj.Tensor:
    """Its gradient at 0 is 0 / 0."""
    return (x**2).sum(dim=-1).sqrt().sum()


def safe_distance(x: dj.Tensor) -> dj.Tensor:
    """The root never sees 0."""
    return ((x**2).sum(dim=-1) + 1e-12).sqrt().sum()


def gradient(function: Callable[[dj.Tensor], dj.Tensor], x: dj.Tensor) -> dj.Tensor:
    """Of the sum of the function."""
    x = x.clone().requires_grad_()
    function(x).backward()
    assert x.grad is not None
    return x.grad


def find_the_nan(x: dj.Tensor) -> None:
    """Anomaly mode names the operation; eager execution is where it sees single ones."""
    headline("a NaN")
    x = x.clone()
    x[0] = 0.0
    assert gradient(dj.compile(distance), x).isnan().any()
    try:
        with dj.set_stance("force_eager"), dj.autograd.detect_anomaly(check_nan=True):
            gradient(distance, x)
    except RuntimeError as error:
        print(str(error).splitlines()[0])
    else:
        raise AssertionError("anomaly mode saw no NaN")

    assert gradient(dj.compile(safe_distance, fullgraph=True), x).isfinite().all()
    print("mended: every gradient is finite")


def main() -> None:
    """The three parts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="the same: it is small")
    parser.parse_args()
    dj.manual_seed(0)
    x = dj.randn(6, 3)
    find_the_break(x)
    find_the_recompile(x)
    find_the_nan(x)


if __name__ == "__main__":
    main()
