"""Models and weights from the network by PyTorch's path: refused, since nothing here downloads.

Contract: every function that would fetch something raises.
"""

from dynajit.core.refusals import refused_function

_WHY = "dynajit downloads nothing.  Fetch the file by other means, and open it with dynajit.load."

download_url_to_file = refused_function("hub.download_url_to_file", _WHY)
get_dir = refused_function("hub.get_dir", _WHY)
help = refused_function("hub.help", _WHY)
list = refused_function("hub.list", _WHY)
load = refused_function("hub.load", _WHY)
load_state_dict_from_url = refused_function("hub.load_state_dict_from_url", _WHY)
set_dir = refused_function("hub.set_dir", _WHY)

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]
