"""An operator of the program's own: C for the CPU, a derivative, a place in the graph.

    python examples/custom_operator.py [--small]

The operator is a filter, y[i] = a y[i-1] + x[i]: each element needs the one before, so no
operation of the library says it in one go. Its derivative is the same filter, run backwards.
"""

import argparse
import time

import dynajit as dj

SOURCE = """
#include <stdint.h>

void forwards(const float *x, float factor, float *y, int64_t count) {
    float last = 0.0f;
    for (int64_t i = 0; i < count; i++) y[i] = last = factor * last + x[i];
}

void backwards(const float *x, float factor, float *y, int64_t count) {
    float last = 0.0f;
    for (int64_t i = count - 1; i >= 0; i--) y[i] = last = factor * last + x[i];
}
"""


def filtered(values: list[float], factor: float) -> list[float]:
    """In Python: what runs until C is registered, and what C is compared with."""
    last, found = 0.0, []
    for value in values:
        last = factor * last + value
        found.append(last)
    return found


@dj.library.custom_op("example::filter", mutates_args=())
def filter_forwards(x: dj.Tensor, factor: float) -> dj.Tensor:
    """y[i] = factor * y[i-1] + x[i]."""
    return dj.tensor(filtered(x.tolist(), factor), dtype=x.dtype)


@dj.library.custom_op("example::filter_backwards", mutates_args=())
def filter_backwards(x: dj.Tensor, factor: float) -> dj.Tensor:
    """y[i] = factor * y[i+1] + x[i]; a derivative that runs C is an operator, too."""
    return dj.tensor(filtered(x.tolist()[::-1], factor)[::-1], dtype=x.dtype)


def setup_context(ctx, inputs, output):
    """The derivative needs the factor only."""
    _, ctx.factor = inputs


def backward(ctx, grad):
    """dL/dx[i] is the sum of factor^(j-i) dL/dy[j] over j >= i: the filter from the end."""
    return filter_backwards(grad, ctx.factor), None


filter_forwards.register_fake(lambda x, factor: dj.empty_like(x))
filter_backwards.register_fake(lambda x, factor: dj.empty_like(x))
filter_forwards.register_autograd(backward, setup_context=setup_context)


def smoothed_loss(x: dj.Tensor, target: dj.Tensor) -> dj.Tensor:
    """The operator between generated kernels."""
    return ((0.1 * filter_forwards(x.tanh(), 0.9) - target) ** 2).mean()


def main() -> None:
    """Check the operator, compare C with Python, and use it in a compiled function."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--small", action="store_true", help="1000 elements")
    given = parser.parse_args()
    count = 1000 if given.small else given.count

    dj.manual_seed(0)
    x = dj.randn(count)
    start = time.perf_counter()
    by_python = filter_forwards(x, 0.9)
    python_s = time.perf_counter() - start
    filter_forwards.register_c_kernel(SOURCE, "forwards")
    filter_backwards.register_c_kernel(SOURCE, "backwards")
    start = time.perf_counter()
    by_c = filter_forwards(x, 0.9)
    print(f"Python {python_s:.4f} s, C {time.perf_counter() - start:.4f} s")
    dj.testing.assert_close(by_c, by_python, rtol=1e-4, atol=1e-4)
    dj.library.opcheck(filter_forwards, (x[:50].requires_grad_(), 0.9))

    target = dj.zeros(count)
    found = dj.explain(smoothed_loss)(x, target)
    print(f"{found.graph_count} graph, {found.break_count} breaks")

    values = x.clone().requires_grad_()
    dj.compile(smoothed_loss, fullgraph=True)(values, target).backward()
    again = x.clone().requires_grad_()
    smoothed_loss(again, target).backward()
    dj.testing.assert_close(values.grad, again.grad)
    print("gradients agree, eager and compiled")


if __name__ == "__main__":
    main()
