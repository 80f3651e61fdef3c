"""Settings of capture by PyTorch's path `_dynamo.config`; see `compat.settings.foreign`.

Contract: those that dynajit has act on `dynajit.config`: both names are one setting.
"""

import sys
from typing import Any, Final

from dynajit.compat.settings.foreign import Acting, Row, Telling, acting, become
from dynajit.core.process import config

_ONE_LIMIT: Final = "each function has a limit of its own, recompile_limit."
_BREAKS: Final = "a graph ends where Python needs a number, and another one begins."
_ALWAYS: Final = "modules are captured like other Python, and always guarded."
_LOGS: Final = "choose what is logged by dynajit.set_logs, or DYNAJIT_LOG."


def _is_dynamic(whole: bool) -> Acting:
    """A switch of sizes: whether they become symbols when they change, or are at once (`whole`,
    whose opposite PyTorch's name says)."""

    def read() -> bool:
        return config.current().dynamic is not whole

    def write(value: Any) -> None:
        if not value:
            config.configure(dynamic=whole)
        elif config.current().dynamic is whole:
            config.configure(dynamic=None)

    return Acting(read, write)


def _fail_on_recompile(value: Any) -> None:
    config.configure(stance="fail_on_recompile" if value else "default")


ROWS: Final[dict[str, Row]] = {
    "accumulated_cache_size_limit": Telling((256,), _ONE_LIMIT),
    "accumulated_recompile_limit": Telling((256,), _ONE_LIMIT),
    "allow_unspec_int_on_nn_module": Telling((False, True), _ALWAYS),
    "assume_static_by_default": _is_dynamic(whole=True),
    "automatic_dynamic_shapes": _is_dynamic(whole=False),
    "cache_size_limit": acting("recompile_limit"),
    "capture_dynamic_output_shape_ops": Telling((False,), _BREAKS),
    "capture_scalar_outputs": Telling((False,), _BREAKS),
    "disable": acting("disable"),
    "dynamic_shapes": _is_dynamic(whole=False),
    "error_on_recompile": Acting(
        lambda: config.current().stance == "fail_on_recompile", _fail_on_recompile
    ),
    "guard_nn_modules": Telling((True,), _ALWAYS),
    "inline_inbuilt_nn_modules": Telling((True,), _ALWAYS),
    "log_level": Telling((None,), _LOGS),
    "optimize_ddp": Telling((True,), "buckets are always sent while backward goes on."),
    "recompile_limit": acting("recompile_limit"),
    "suppress_errors": acting("strict", negated=True),
    "trace_numpy": Telling((True,), "NumPy's functions are captured where they can be."),
    "verbose": Telling((False,), _LOGS),
}

become(sys.modules[__name__], "_dynamo.config", ROWS)
