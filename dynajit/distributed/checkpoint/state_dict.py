"""State dicts of sharded modules, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_class, refused_function

_WHY = "dynajit runs in one process; nothing is sharded.  Use dynajit.save and dynajit.load."

StateDictOptions = refused_class("distributed.checkpoint.state_dict.StateDictOptions", _WHY)
get_model_state_dict = refused_function(
    "distributed.checkpoint.state_dict.get_model_state_dict", _WHY
)
get_optimizer_state_dict = refused_function(
    "distributed.checkpoint.state_dict.get_optimizer_state_dict", _WHY
)
get_state_dict = refused_function("distributed.checkpoint.state_dict.get_state_dict", _WHY)
set_model_state_dict = refused_function(
    "distributed.checkpoint.state_dict.set_model_state_dict", _WHY
)
set_optimizer_state_dict = refused_function(
    "distributed.checkpoint.state_dict.set_optimizer_state_dict", _WHY
)
set_state_dict = refused_function("distributed.checkpoint.state_dict.set_state_dict", _WHY)

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]
