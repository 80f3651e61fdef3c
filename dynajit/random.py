"""Random state by PyTorch's path: `dynajit.random.manual_seed` and its kin."""

from dynajit.eager.random import (
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

__all__ = ["get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]
