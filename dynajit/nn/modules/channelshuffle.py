"""Channel shuffling by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.resampling import ChannelShuffle

__all__ = [
    "ChannelShuffle",
]
