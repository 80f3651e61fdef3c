"""Random programs of views, in-place writes and reads do what plain Python does."""

import warnings

import numpy as np
import pytest

from tests.support.python.tensor_effects import check_program
from tests.support.python.tensor_programs import program


@pytest.mark.parametrize("seed", range(300))
def test_program_is_as_in_plain_python(seed, compiler):
    """Values, versions, identity, aliasing (seen by writes), errors, gradients."""
    text, function, make = program(seed)
    compiled = compiler.compile(function)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            for _ in range(2):
                check_program(compiled, function, make)
        except AssertionError as error:
            raise AssertionError(f"{text}\n{error}") from None
