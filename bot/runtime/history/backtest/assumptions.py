"""The sentences that stand under every result: what was modelled, and what is not in the bars."""

from collections.abc import Sequence
from datetime import time
from typing import Final

from bot.config.rulebook import on_later_rules
from bot.domain.quote import DAY
from bot.domain.timetable import instant_of
from bot.runtime.history.backtest.fills import OPENING_PERCENT, SHARE_PERCENT
from bot.runtime.history.backtest.result import BacktestSpec
from bot.runtime.history.recording.recorded_days import RecordedDays

UNSHOWN: Final = 10_000
"""Shares at bid and at ask of a symbol whose depth was not recorded: its last price, a tick above.
"""
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
_OF_PLAYED = {
    "touch": (
        "fill model touch: any quantity takes the best displayed price, and what rests fills whole "
        "as soon as the other side's best price reaches it. Kind to the strategy"
    ),
    "depth": (
        "fill model depth: each displayed level gives what it holds, once until it shows another "
        "volume; what rests fills by what the other side displays at its limit or better"
    ),
    "queue": (
        "fill model queue: each displayed level gives what it holds, once until it shows another "
        "volume; what rests waits behind what was displayed at its price when it came, and a trade "
        "through its price fills it whole"
    ),
}
_BETWEEN_LOOKS = (
    "what happened between two recorded looks is not known: all shares of it count at the later "
    "price, and levels beyond the recorded ones are none"
)
_NO_MACHINE = (
    "an order comes in at the moment it is decided: no answer is late or lost, no 2FA is asked "
    "for, and nothing that the recorded bot's operator did counts"
)
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
    said = [
        _OF_MODEL[spec.fill],
        _NO_LOOK_AHEAD,
        _TOUCH,
        _AUCTIONS,
        _money(spec),
        "nobody reacts to our orders; strategies begin without the bars of before the first day",
    ]
    if any(each.plan.wake.bar == DAY for each in spec.strategies):
        said.append(_OF_A_DAY)
    early = spec.rulebook.calendar.early_closes
    said += [
        f"{day} ends at {early[day].at:%H:%M} ({early[day].name}): bars of later are left out"
        for day in sorted(early)
        if spec.first <= day <= spec.last
    ]
    return (*said, later) if later else tuple(said)


def assumptions_of_recording(
    spec: BacktestSpec, recorded: RecordedDays, cold: Sequence[str]
) -> tuple[str, ...]:
    """Return the same of recorded days; `cold`: the symbols whose strategies began without bars."""
    said = [_OF_PLAYED[spec.fill], _BETWEEN_LOOKS, _NO_MACHINE, _money(spec)]
    said.append("nobody reacts to our orders")
    symbols = sorted({symbol for each in spec.strategies for symbol in each.plan.symbols})
    if flat := [symbol for symbol in symbols if symbol not in recorded.deep]:
        text = f"no depth was recorded of {', '.join(flat)}: its bid is the last price, its ask one"
        said.append(f"{text} tick above, {UNSHOWN:,} shares each")
    if cold:
        text = f"no earlier bars were recorded of {', '.join(dict.fromkeys(cold))}: there the"
        said.append(f"{text} strategies begin cold")
    later = on_later_rules(spec.rulebook, instant_of(spec.first, time(12)))
    return (*said, later) if later else tuple(said)


def _money(spec: BacktestSpec) -> str:
    fee, tax = spec.rulebook.fee_ppm / 10_000, spec.rulebook.fees.sale_tax_ppm / 10_000
    return f"fee {fee:g} %, tax on sales {tax:g} %, cash and shares settle on T+2 at 13:00"
