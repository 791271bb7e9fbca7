"""What a scenario file may say of a symbol whose market is the simulated order flow."""

from enum import StrEnum

from pydantic import Field

from bot.sandbox.scenario_part import Part


class DayKind(StrEnum):
    """What sort of day a symbol has.

    On a limit day the price is driven to the band's end before the closing auction, where one side
    stays empty and the other queues.
    """

    QUIET = "quiet"
    UP = "up"
    DOWN = "down"
    VOLATILE = "volatile"
    LIMIT_UP = "limit_up"
    LIMIT_DOWN = "limit_down"


class FlowScript(Part):
    """How the order flow of a symbol behaves: what a scenario may say under `flow`.

    `days` names its first days in their order, the seed draws all that follow. `daily_pct` is the
    typical move of an ordinary day in percent, `beta` how much of the market's move it makes
    besides (None: as is usual on its exchange). How much trades is told by the symbol's
    `level_volume`: an ordinary day's volume is 150 times what waits at a price.
    """

    days: tuple[DayKind, ...] = ()
    daily_pct: float = Field(default=1.1, gt=0, le=10)
    beta: float | None = Field(default=None, ge=-5, le=5)
