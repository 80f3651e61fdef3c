"""A region that ends in front of any instruction whatever goes on as plain Python does."""

import pytest

from dynajit.capture.execution import executor
from dynajit.core.process import config
from tests.support.python.harness import Compiler


class Recursive:
    def kept(self, item):
        return item

    def each(self, value):
        if isinstance(value, str):
            return self.kept(value)
        return [self.each(item) for item in value]


def cells_of_a_method():
    return Recursive().each(["a", ["b"]])


def closures():
    def outer(first, *rest, named=1, **others):
        def inner():
            return first, rest, named, others

        first = first + 1
        return inner()

    return [outer(number, number, named=number, other=5) for number in range(2)]


def generators():
    def numbers(count):
        for number in range(count):
            yield (lambda: number + count)()

    return list(numbers(2)), sum(number for number in numbers(2))


@pytest.mark.parametrize("function", [cells_of_a_method, closures, generators])
def test_limit_may_end_a_region_anywhere(function, monkeypatch):
    with config.override(strict=True):
        for count in range(1, 90):
            monkeypatch.setattr(executor, "MAX_INSTRUCTIONS", count)
            compiled = Compiler().compile(function)
            assert function() == compiled() == compiled(), count
