"""Weights that were fetched before, by PyTorch's older path; see `dynajit.hub`."""

from dynajit.hub import load_state_dict_from_url as load_url
from dynajit.hub import tqdm

__all__ = ["load_url", "tqdm"]
