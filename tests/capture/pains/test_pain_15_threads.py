"""Pain 15: concurrent calls compile twice, mix up state or crash."""

import threading
from typing import Any

import numpy as np

import dynajit as dj

THREADS = 8
CALLS = 10_000


def test_eight_threads_of_ten_thousand_calls_with_three_shapes(compile_count: Any) -> None:
    def function(x: Any, scale: float) -> Any:
        return (x * scale + 1).sum()

    compiled = dj.compile(function, dynamic=False)
    shapes = ((4,), (2, 3), (2, 2, 2))
    inputs = [dj.ones(*shape) for shape in shapes]
    start = threading.Barrier(THREADS)
    wrong: list[Any] = []

    def work(number: int) -> None:
        start.wait()
        for i in range(CALLS):
            which = (i + number) % 3
            found = compiled(inputs[which], float(number)).item()
            expected = int(np.prod(shapes[which])) * (number + 1)
            if found != expected:
                wrong.append((number, i, found, expected))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == wrong
    assert 3 == compile_count()
    assert THREADS * CALLS == compiled.report().calls
