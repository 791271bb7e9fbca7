"""The conditions of a backtest: reasons to refuse it before its first event, all at once and at
their places; and, for every result, what was modelled and what the bars do not contain.
"""

from collections.abc import Iterator, Sequence
from datetime import time, timedelta
from pathlib import Path
from typing import Final

from bot.config.problems import OperatorMistake, Problem, shown_path
from bot.config.rulebook import on_later_rules
from bot.config.yaml_file import Location, YamlDocument, read_yaml
from bot.domain.local_time import instant_of
from bot.domain.plan import StrategyPlan
from bot.domain.quote import DAY, width_name
from bot.runtime.history.backtest.fills import OPENING_PERCENT, SHARE_PERCENT
from bot.runtime.history.backtest.result import BacktestSpec
from bot.runtime.history.recording.recorded_days import RecordedDays
from bot.runtime.history.store.store import wider_of

UNSHOWN: Final = 10_000
"""Shares at bid and ask if a symbol's depth was not recorded: at its last price and
one tick above.
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
    "an order comes in at the moment it is decided: no answer is late or lost, no 2FA token is "
    "missing (on_2fa has no effect), and nothing that the recorded bot's operator did counts"
)
_NO_2FA = "no 2FA token is ever missing: on_2fa has no effect"
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


def require_possible(spec: BacktestSpec, places: Sequence[Path] = ()) -> None:
    """Raise OperatorMistake with everything that prevents a backtest. `places`: where its bars were
    found, which may hold wider ones too.
    """
    if problems := [*_of_range(spec), *_of_strategies(spec, places)]:
        raise OperatorMistake(problems)


def _of_range(spec: BacktestSpec) -> Iterator[Problem]:
    first, last, calendar = spec.first, spec.last, spec.rulebook.calendar
    covered = f"{min(calendar.years)}-01-01 to {max(calendar.years)}-12-31"
    if first > last:
        yield Problem("E-BT-001", f"--from {first} is after --to {last}: turn them round")
        return
    for option, day in (("--from", first), ("--to", last)):
        if not calendar.covers(day):
            text = f"{option} {day}: the calendar knows the trading days of {covered}; choose a day"
            yield Problem("E-BT-002", f"{text} in it, or add the years in market_rules")


def _of_strategies(spec: BacktestSpec, places: Sequence[Path]) -> Iterator[Problem]:
    source, have = spec.source, spec.source.symbols()
    for plan in (each.plan for each in spec.strategies):
        try:
            document = read_yaml(Path(plan.source))
        except OperatorMistake:  # it cannot be read again, so there are no lines to point at
            document = YamlDocument(plan.source, "", {})
        if spec.recorded is not None:
            yield from _of_recording(plan, document, spec.recorded)
            continue
        for index, symbol in enumerate(plan.symbols):
            span, also, width = source.span(symbol), "", ""
            if (wider := wider_of(places, symbol, source.width)) is not None:
                folder, name = wider
                also = f". {shown_path(folder)} has bars of {name} of {symbol}, which --data takes"
                width = f"{width_name(source.width)} of "
            if span is None:
                text = f"there are no bars of {width}{symbol}; there are some of {_some(have)}"
                yield document.at_value(
                    "E-BT-003", f"{text}{also or '. bot data list shows all'}", ("symbols", index)
                )
            elif span[1] < spec.first or spec.last < span[0]:
                text = (
                    f"the bars of {symbol} are of {span[0]} to {span[1]}, wanted are {spec.first}"
                )
                text += f" to {spec.last}: choose days in that range{also}"
                yield document.at_value("E-BT-004", text, ("symbols", index))
        yield from _of_wake(plan, document, source.width)


def _of_recording(
    plan: StrategyPlan, document: YamlDocument, recorded: RecordedDays
) -> Iterator[Problem]:
    """Check that the recording has what is needed: a symbol or depth that its bot never polled is
    missing.
    """
    for index, symbol in enumerate(plan.symbols):
        place: Location = ("symbols", index)
        if symbol not in recorded.quotes:
            text = f"nothing was recorded of {symbol}; there are quotes of"
            text = f"{text} {_some(tuple(sorted(recorded.quotes)))}"
            yield document.at_value("E-BT-003", f"{text}. Leave it out, or record it", place)
        elif plan.wake.depth is not None and symbol not in recorded.deep:
            text = (
                f"'wake.depth': no depth of {symbol} was recorded, only quotes. Record a day with"
            )
            text = f"{text} a strategy that wakes on its depth, or wake it by quote or bar"
            yield document.at_value("E-BT-005", text, ("wake", "depth"))


def _of_wake(plan: StrategyPlan, document: YamlDocument, width: timedelta) -> Iterator[Problem]:
    wake, shown = plan.wake, width_name(width)

    def wrong(key: str, text: str) -> Problem:
        place: Location = ("wake", key)
        return document.at_value("E-BT-005", text, place)

    if wake.depth is not None:
        text = (
            "'wake.depth': bars hold no depth. Name a recorded day (--data STATE_DIR/recorded, of a"
        )
        yield wrong("depth", f"{text} run with record: on), or wake it by bar")
    if wake.quote is not None and wake.quote < width:
        text = f"'wake.quote' {width_name(wake.quote)}: bars of {shown} show a price each {shown}."
        yield wrong("quote", f"{text} Take finer bars, or wake it by bar")
    if wake.bar is not None and wake.bar < width:
        text = (
            f"'wake.bar' {width_name(wake.bar)}: the bars are of {shown}, and none is cut in parts."
        )
        yield wrong("bar", f"{text} Take finer bars, or a width of {shown} and more")
    elif wake.bar is not None and wake.bar % width:
        text = f"'wake.bar' {width_name(wake.bar)} is no multiple of the bars' {shown}"
        yield wrong("bar", f"{text}: choose one")


def _some(symbols: tuple[str, ...]) -> str:
    shown = ", ".join(symbols[:8])
    more = len(symbols) - 8
    return (f"{shown} and {more} more" if more > 0 else shown) or "no symbol at all"


def assumptions_of(spec: BacktestSpec) -> tuple[str, ...]:
    """Return the assumptions behind a result, as sentences without a full stop."""
    later = on_later_rules(spec.rulebook, instant_of(spec.first, time(12)))
    said = [
        _OF_MODEL[spec.fill],
        _NO_LOOK_AHEAD,
        _TOUCH,
        _AUCTIONS,
        _money(spec),
        _NO_2FA,
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
    """Return the assumptions for recorded days; `cold`: the symbols whose strategies began without
    bars.
    """
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
