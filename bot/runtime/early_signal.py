"""A halt by SIGUSR1 that comes before there is a brake.

The signal's default action would end the process, and a service would start it again. A module of
its own, as the command line imports it for every command, and the brake only for a run.
"""

from collections.abc import Callable
from types import FrameType


class EarlySignal:
    """Handles SIGUSR1 until the brake does, which takes over what came before (`take`)."""

    def __init__(self) -> None:
        self._is_heard = False
        self._keep: Callable[[], bool] | None = None
        self.is_lost = False
        """Whether a halt has come that nothing but this process knows of."""

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        self._is_heard = True
        self._try_to_keep()

    def keep_by(self, keep: Callable[[], bool]) -> None:
        """Keep a halt across the end of the process, by `keep`, which returns whether it has: one
        heard already at once, a later one as it comes.
        """
        self._keep = keep
        self._try_to_keep()

    def _try_to_keep(self) -> None:
        self.is_lost = self._is_heard and (self._keep is None or not self._keep())

    def take(self) -> bool:
        """Return whether a halt has come, which is the caller's from here on."""
        heard, self._is_heard, self.is_lost = self._is_heard, False, False
        return heard
