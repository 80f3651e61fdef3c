"""Processes with different numbers of batches, by PyTorch's path: the one process waits for nobody.

Contract: as PyTorch's in a group of one process: the post hooks run at the end of the block, as of
the last that joins.
"""

from typing import Any

from dynajit.core.errors import InvalidValueError


class JoinHook:
    """What is done for a process that has ended: hooks to override."""

    def main_hook(self) -> None:
        """Shadows the collectives of others; there are none, so it never runs."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Runs once, when all processes have ended."""


class Joinable:
    """What can be given to `Join`: a class to derive from."""

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hooks of this object."""
        raise NotImplementedError("Joinable.join_hook: classes that are joined define it.")


class Join:
    """A block at whose end the hooks run.

    Args:
        joinables: at least one `Joinable`.
        enable: False: no hook runs.
        throw_on_early_termination: changes nothing: there is no other process.
        kwargs: given to each `join_hook`.

    Raises:
        InvalidValueError: there are none, a ValueError.
    """

    def __init__(
        self,
        joinables: list[Any],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if len(joinables) == 0:
            raise InvalidValueError("The join context manager requires at least one joinable")
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._enable = enable

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if not self._enable or kind is not None:
            return
        for hook in self._hooks:
            hook.post_hook(True)

    @staticmethod
    def notify_join_context(joinable: Any) -> None:
        """Say that this process has not ended: nobody listens."""


__all__ = ["Join", "JoinHook", "Joinable"]
