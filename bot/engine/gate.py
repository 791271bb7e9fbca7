"""May the bot send orders now? One word for it, by priority, and the causes behind it.

STOPPING > HALTED > STARTING > NEEDS_2FA > DEGRADED > PAUSED > RUNNING. Causes come and go by
themselves; the state shown is that of the strongest one, so that a token cannot end a halt.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from bot.domain.entry import RunState

PRIORITY: Final = (
    RunState.STOPPING,
    RunState.HALTED,
    RunState.STARTING,
    RunState.NEEDS_2FA,
    RunState.DEGRADED,
    RunState.PAUSED,
)
LASTING: Final = (RunState.HALTED, RunState.PAUSED)
"""States that a restart does not end, the stronger one first."""
ASLEEP: Final = frozenset({RunState.STOPPING, RunState.HALTED, RunState.STARTING})
"""States in which no strategy is woken; in the others their signals are heard and refused."""


BY_ENGINE: Final = "engine"
"""Who closed the gate when the engine's own fault did: open orders stay, then and at a restart."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why the gate is closed, who closed it, and since when it has been.

    An operator need give no reason. `code` is the broker's word for a missing token.
    """

    reason: str
    by: str
    code: str = ""
    since: datetime | None = None


@dataclass(slots=True)
class Gate:
    """What keeps the gate closed. `missed` counts the signals refused for want of a token.

    `recorded` is the state journalled last, `kept` the one that a restart would begin with.
    `sweeps` is why an order that was still on its way is cancelled when it turns up; empty: it
    is not.
    """

    causes: dict[RunState, Cause] = field(
        default_factory=lambda: {RunState.STARTING: Cause("reading the day order book", "bot")}
    )
    recorded: RunState = RunState.STARTING
    kept: RunState = RunState.RUNNING
    reason: str = "reading the day order book"
    since: datetime | None = None
    token_until: datetime | None = None
    is_unproven: bool = False
    missed: int = 0
    has_stopped: bool = False
    sweeps: str = ""

    @property
    def state(self) -> RunState:
        """The strongest cause's state; RUNNING without one."""
        return next((state for state in PRIORITY if state in self.causes), RunState.RUNNING)

    @property
    def lasting(self) -> RunState:
        """HALTED or PAUSED while an operator wants it, whatever else is shown; else RUNNING."""
        return next((state for state in LASTING if state in self.causes), RunState.RUNNING)

    @property
    def is_open(self) -> bool:
        """True when new orders may be sent."""
        return not self.causes

    @property
    def is_asleep(self) -> bool:
        """True when no strategy is to be woken."""
        return self.state in ASLEEP

    @property
    def lacks_token(self) -> bool:
        """True when no write can succeed: neither orders nor cancels."""
        return RunState.NEEDS_2FA in self.causes
