"""The sentences that stand under every result: what was modelled, and what is not in the bars."""

from datetime import time

from bot.config.rulebook import on_later_rules
from bot.domain.bar_grid import DAY
from bot.domain.timetable import instant_of
from bot.runtime.history.backtest.fills import OPENING_PERCENT, SHARE_PERCENT
from bot.runtime.history.backtest.result import BacktestSpec

_OF_MODEL = {
    "touch": (
        "fill model touch: an order fills whole as soon as a bar reaches its limit, and what takes "
        "pays the bar's open. Kind to the strategy"
    ),
    "depth": (
        f"fill model depth: at most {SHARE_PERCENT} % of a bar's volume is ours (one lot always); "
        "what takes pays one tick more than the open (sells get the open); what rests fills as "
        "soon as a bar reaches its limit"
    ),
    "queue": (
        f"fill model queue: at most {SHARE_PERCENT} % of a bar's volume is ours (one lot always); "
        "what takes pays one tick more than the open (sells get the open); what rests fills where "
        "a bar trades through its limit, or after as many shares as the bar before it had have "
        "traded at its price"
    ),
}
_NO_LOOK_AHEAD = (
    "an order sent at the close of a bar fills from the next bar on, never in the bar that its "
    "strategy has seen"
)
_TOUCH = (
    "bid and ask are modelled: the last price, and one tick above; no ask at the ceiling, no bid "
    "at the floor, and nothing fills at a locked limit"
)
_AUCTIONS = (
    f"auctions have one price: the opening one the open of its bar with {OPENING_PERCENT} % of "
    "its volume, the closing one the close of its bar"
)
_OF_A_DAY = (
    "a bar of a day wakes its strategy when the next day's trading begins; live it does so at "
    "15:00, when no exchange takes an order"
)


def assumptions_of(spec: BacktestSpec) -> tuple[str, ...]:
    """Return what a result rests on, as sentences without a full stop."""
    later = on_later_rules(spec.rulebook, instant_of(spec.first, time(12)))
    fee, tax = spec.rulebook.fee_ppm / 10_000, spec.rulebook.fees.sale_tax_ppm / 10_000
    said = [
        _OF_MODEL[spec.fill],
        _NO_LOOK_AHEAD,
        _TOUCH,
        _AUCTIONS,
        f"fee {fee:g} %, tax on sales {tax:g} %, cash and shares settle on T+2 at 13:00",
        "nobody reacts to our orders; strategies begin without the bars of before the first day",
    ]
    if any(each.plan.wake.bar == DAY for each in spec.strategies):
        said.append(_OF_A_DAY)
    return (*said, later) if later else tuple(said)
