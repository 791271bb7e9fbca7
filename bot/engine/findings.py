"""What can be wrong with what the market shows: pure checks that yield findings.

No check trusts an answer about itself. A reference must be near the last close known before
(journal, history call), and where that close is the reference by the rules, every price lies in its
band too. So an error affecting quote, depth and band alike is noticed. Without a close nothing
confirms a price.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median
from typing import Final

from bot.domain.errors import NoRule
from bot.domain.instrument import Exchange, Instrument, InstrumentKind, Phase
from bot.domain.local_time import day_and_clock_of, local_date
from bot.domain.quote import Depth, Quote
from bot.domain.venue import Band
from bot.engine.seen import Belief, Finding, Frame, PhaseSeen, Rules, Source

JUMP_MAX: Final = 5
"""Multiple of the last trusted price, up or down, beyond which no price is trusted."""
GAPS_OF_AGE: Final = 10
"""A symbol may be silent for this many of its usual gaps of today."""
UNCROSSED_WITHIN: Final = timedelta(seconds=10)
"""After an auction its crossed book may still be shown for a moment; that is ignored."""
LONG_PAUSE: Final = timedelta(days=35)
"""A close older than this is from before a suspension of 25 trading days: the special
band applies.
"""
AVERAGED: Final = frozenset({Exchange.UPCOM})
"""Where the reference is the average of the day before, not its close (HSC rules, May 2025)."""
AUCTIONS: Final = frozenset({Phase.OPEN, Phase.PRE_CLOSED, Phase.CA})
TRADING: Final = AUCTIONS | {Phase.PROGRESS, Phase.POST_SESSION}
"""Phases in which an answer has to be from today: orders are taken."""
OTHER_DAY: Final = "OTHER_DAY"
DAY_RANGE: Final = "DAY_RANGE"
EXCHANGE: Final = "EXCHANGE"
_OF_TODAY: Final = timedelta(hours=2)
"""Nothing trades before 09:00, so an answer no older than this is from the same day."""

# ------------------------------------------------------------------------------- what can be wrong


def of_quote(
    rules: Rules,
    belief: Belief,
    instrument: Instrument,
    phase: PhaseSeen,
    at: datetime,
    quote: Quote,
) -> Iterator[Finding]:
    """Yield what is wrong with a quote, the most obvious first."""
    last, reference, known, frame = quote.last, quote.reference, belief.price, belief.frame
    if quote.exchange is not instrument.exchange:
        yield _elsewhere(quote.exchange, instrument.exchange)
    if quote.updated_at is not None:
        yield from _of_time(rules, belief.quotes, phase, at, quote.updated_at)
    if quote.volume is not None:
        yield from _of_volume(belief, phase, at, quote, quote.volume)
    if known is None and belief.is_asked:
        if not rules.rulebook.statuses.is_first_day(instrument.status):
            yield _unconfirmed(last)
    elif known is not None and _is_jump(last, known):
        yield _jump(last, known)
    if reference is None:
        frame = frame or _frame_of_close(rules, belief, instrument, at)
    elif frame is None or frame.reference != reference:
        yield from _of_reference(rules, belief, instrument, reference, at)
        frame = frame_around(rules, belief, instrument, reference, at)
    floor, ceiling = quote.floor, quote.ceiling
    if frame is not None:
        is_low = floor is not None and floor < frame.band.floor
        if is_low or (ceiling is not None and ceiling > frame.band.ceiling):
            yield _wide(frame, floor, ceiling)
        if last not in frame.known:
            yield from _of_price(frame, last)
    if (floor is not None and last < floor) or (ceiling is not None and last > ceiling):
        yield _outside(last, floor, ceiling, "its own band")
    yield from _of_day(frame, known, phase, quote)
    yield from _of_change(rules, belief, instrument, phase, at, quote)


def of_depth(
    rules: Rules,
    belief: Belief,
    instrument: Instrument | None,
    phase: PhaseSeen,
    at: datetime,
    depth: Depth,
) -> Iterator[Finding]:
    """Yield what is wrong with a depth, the most obvious first."""
    if depth.updated_at is not None:
        yield from _of_time(rules, belief.depths, phase, at, depth.updated_at)
    bids, asks = depth.bids, depth.asks
    is_crossed = bool(bids and asks and bids[0].price > asks[0].price)
    if is_crossed and phase.phase not in AUCTIONS and at - phase.since > UNCROSSED_WITHIN:
        bid, ask = bids[0].price, asks[0].price
        text = f"a bid of {bid:,} above the ask of {ask:,} outside an auction"
        yield Finding("CROSSED", text, {"bid": bid, "ask": ask})
    frame, known, volume_max = belief.frame, belief.price, belief.volume_max
    if frame is None and instrument is not None:
        frame = _frame_of_close(rules, belief, instrument, at)
    for level in (*bids, *asks):
        price = level.price
        if not 0 <= level.volume <= volume_max:
            yield _absurd(f"a volume at {price:,}", level.volume, belief)
        if frame is not None:
            if price not in frame.known:
                yield from _of_price(frame, price)
        elif known is not None:
            if _is_jump(price, known):
                yield _jump(price, known)
        elif belief.is_asked:
            yield _unconfirmed(price)


def _of_time(
    rules: Rules, source: Source, phase: PhaseSeen, at: datetime, stamp: datetime
) -> Iterator[Finding]:
    """Check an answer's own time: not in the future, not of another day, not too old.

    The age of data from before the phase counts from the phase's beginning: over lunch nothing
    moves.
    """
    settings, age, ahead = rules.settings, at - stamp, stamp - source.heard_at
    is_quote = source.name == "quote"
    limit = settings.max_quote_source_age if is_quote else settings.max_depth_source_age
    if ahead <= source.ahead_max and age <= min(limit, _OF_TODAY):
        return
    own = day_and_clock_of(stamp)
    if ahead > source.ahead_max:
        seconds = round(ahead.total_seconds())
        text = f"its own time {own} is {seconds:,} s ahead of ours"
        yield Finding("AHEAD", text, {"own_time": own, "ahead_s": seconds})
    elif phase.phase not in TRADING:
        return
    elif local_date(stamp) != local_date(at):
        yield Finding(OTHER_DAY, f"its own time {own} is not of today", {"own_time": own})
    elif phase.phase is Phase.PROGRESS and (age := at - max(stamp, phase.since)) > limit:
        if source.gaps:
            limit = max(limit, timedelta(seconds=GAPS_OF_AGE * median(source.gaps)))
        if age > limit:
            age_s, limit_s = round(age.total_seconds()), round(limit.total_seconds())
            text = f"its own time {own} is {age_s:,} s of trading ago, at most {limit_s:,}"
            yield Finding("STALE", text, {"own_time": own, "age_s": age_s, "age_s_max": limit_s})


def _of_volume(
    belief: Belief, phase: PhaseSeen, at: datetime, quote: Quote, volume: int
) -> Iterator[Finding]:
    """Check a day's volume. One of 0 is honest before the first trade, from a node that lags, and
    after the close, when it may be the next day's.
    """
    if not 0 <= volume <= belief.volume_max:
        yield _absurd("a day's volume", volume, belief)
    if volume == 0 and belief.has_traded and _is_newest(belief.quotes, phase, at, quote):
        text = f"a day's volume of 0, and {quote.symbol} has traded today"
        yield Finding("VOLUME", text, {"volume": 0, "volume_max": None})


def _is_newest(source: Source, phase: PhaseSeen, at: datetime, quote: Quote) -> bool:
    """Return whether a quote is of the day's trading, and not of a node that lags."""
    stamp = quote.updated_at
    is_newer = at >= source.asked_at and (stamp is None or stamp >= source.stamp)
    return is_newer and phase.phase is not Phase.CLOSED


def _of_change(
    rules: Rules,
    belief: Belief,
    instrument: Instrument,
    phase: PhaseSeen,
    at: datetime,
    quote: Quote,
) -> Iterator[Finding]:
    """Check that a reference is the one believed since today's trades: it does not change during a
    day. Our close, where that is the reference by the rules, ends a false one.
    """
    reference, known = quote.reference, belief.reference
    if reference is None or known is None or known == reference:
        return
    if not _is_newest(belief.quotes, phase, at, quote):
        return
    if reference != belief.close or not _is_the_reference(rules, belief, instrument, at):
        text = f"a reference of {reference:,} after {known:,} earlier today"
        yield Finding("REFERENCE", text, {"reference": reference, "believed": known})


def _of_reference(
    rules: Rules, belief: Belief, instrument: Instrument, reference: int, at: datetime
) -> Iterator[Finding]:
    """Check that a reference is the previous close, or near it: within the day's band.

    If it is the average of the day before, both lie within one band, perhaps at opposite ends.
    """
    close, width = belief.close, _width(rules, instrument)
    if close is None or width is None or _goes_ex(belief, at):
        return
    most, least = max(reference, close), min(reference, close)
    if most * (100 - width) > least * _spread(instrument, width):
        text = f"a reference of {reference:,} after a close of {close:,}: more than {width} % apart"
        text += " without a known ex-date"
        yield Finding("REFERENCE", text, {"reference": reference, "close": close, "percent": width})


def _of_day(
    frame: Frame | None, known: int | None, phase: PhaseSeen, quote: Quote
) -> Iterator[Finding]:
    """Check the day's open, high and low as the last price is, once the day has traded. Before its
    first trade they may be of the day before: a factor is none all the same.

    They have a kind of their own: whoever accepts them has not accepted a last price like them.
    Without a band they may be far from one of the last trusted price and the reference, not both.
    """
    if phase.phase is Phase.CLOSED:
        return
    high, low, floor, ceiling = quote.high, quote.low, quote.floor, quote.ceiling
    if high and low and low > high:
        text = f"a low of the day of {low:,} above its high of {high:,}"
        yield Finding(DAY_RANGE, text, {"low": low, "high": high})
    bases = [each for each in (known, quote.reference) if each]
    for name, price in (("an open", quote.open), ("a high", high), ("a low", low)):
        if not price:
            continue
        what, found = f"{name} of the day", list[Finding]()
        if frame is not None and quote.volume:
            if price not in frame.known:
                found += _of_price(frame, price, what)
        elif bases and all(_is_jump(price, each) for each in bases):
            found.append(_jump(price, bases[0], what))
        is_outside = (floor or 0) > price or (ceiling is not None and price > ceiling)
        if quote.volume and is_outside:
            found.append(_outside(price, floor, ceiling, "its own band", what))
        for each in found:
            yield replace(each, kind=DAY_RANGE)


def _of_price(frame: Frame, price: int, what: str = "a price") -> Iterator[Finding]:
    """Check that a price is on the grid, within our computed bands; prices that pass are
    remembered. A reference may be off the grid: before the first trade it is the last price.
    """
    floor, ceiling = frame.band.floor, frame.band.ceiling
    if not frame.band.holds(price):
        yield _outside(price, floor, ceiling, f"the band {frame.basis}", what)
    elif frame.of_close is not None and not frame.of_close.holds(price):
        yield _off_close(frame.of_close, price, frame.reference, what)
    elif price != frame.reference and not frame.grid.is_on_grid(price):
        tick = frame.grid.tick_at(price)
        text = f"{what} of {price:,} off the tick of {tick:,}"
        yield Finding("OFF_TICK", text, {"price": price, "tick": tick})
    else:
        frame.known.add(price)


def _elsewhere(said: Exchange, listed: Exchange) -> Finding:
    text = f"it is of {said}, and {listed} in the list of today, which a start reads anew"
    return Finding(EXCHANGE, text, {"exchange": said, "listed": listed})


def _outside(
    price: int, floor: int | None, ceiling: int | None, band: str, what: str = "a price"
) -> Finding:
    text = f"{what} of {price:,} outside {band}, {_or_none(floor)} to {_or_none(ceiling)}"
    return Finding("OUT_OF_BAND", text, {"price": price, "floor": floor, "ceiling": ceiling})


def _off_close(frame: Frame, price: int, reference: int, what: str) -> Finding:
    close, floor, ceiling = frame.reference, frame.band.floor, frame.band.ceiling
    quoted = "" if reference == close else f" (its reference is {reference:,})"
    text = f"{what} of {price:,}{quoted} outside {floor:,} to {ceiling:,}, the band of our last"
    text += f" close of {close:,}, without a known ex-date"
    numbers = {"price": price, "close": close, "reference": reference}
    return Finding("OFF_CLOSE", text, {**numbers, "floor": floor, "ceiling": ceiling})


def _wide(frame: Frame, floor: int | None, ceiling: int | None) -> Finding:
    ours = f"{frame.band.floor:,} to {frame.band.ceiling:,}"
    text = f"a band of {_or_none(floor)} to {_or_none(ceiling)}, {frame.basis} it is {ours}"
    numbers = {
        "floor": floor,
        "ceiling": ceiling,
        "floor_by_rules": frame.band.floor,
        "ceiling_by_rules": frame.band.ceiling,
    }
    return Finding("WIDE_BAND", text, numbers)


def _is_jump(price: int, known: int) -> bool:
    return price > known * JUMP_MAX or price * JUMP_MAX < known


def _jump(price: int, known: int, what: str = "a price") -> Finding:
    text = f"{what} of {price:,}, more than {JUMP_MAX} times off the last believed {known:,}"
    return Finding("JUMP", text, {"price": price, "believed": known})


def _unconfirmed(price: int) -> Finding:
    text = f"no close of an earlier day is known that could confirm a price of {price:,}"
    return Finding("UNCONFIRMED", text, {"price": price})


def _absurd(what: str, volume: int, belief: Belief) -> Finding:
    text = f"{what} of {volume:,} shares, at most {belief.volume_max:,}"
    return Finding("VOLUME", text, {"volume": volume, "volume_max": belief.volume_max})


def _or_none(price: int | None) -> str:
    return "none" if price is None else f"{price:,}"


# --------------------------------------------------------------------------- which prices can be


def frame_around(
    rules: Rules, belief: Belief, instrument: Instrument, reference: int, at: datetime
) -> Frame | None:
    """Return the day's frame around a reference; None for kinds without a band
    (warrants, bonds).
    """
    rulebook, today = rules.rulebook, local_date(at)
    is_special = (
        rulebook.statuses.has_special_band(instrument.status)
        or today in belief.ex_dates
        or (belief.close is not None and today - belief.close_day > LONG_PAUSE)
    )
    grids = rulebook.venues[instrument.exchange].ticks
    if belief.has_supposed_kind and InstrumentKind.ETF in grids:
        # ETFs have the finer ticks: what is on either grid is on theirs.
        instrument = replace(instrument, kind=InstrumentKind.ETF)
    try:
        band = rulebook.band(instrument, reference, special=is_special)
        grid, close = rulebook.ticks_of(instrument), belief.close
        if close is None or not _is_the_reference(rules, belief, instrument, at):
            return Frame(reference, band, grid)
        if abs(reference - close) <= grid.tick_at(close):  # a rounding
            return Frame(reference, band, grid)
        of_close = rulebook.band(instrument, close, special=is_special)
        if belief.are_ex_dates_unread:  # it may have gone ex, which never raises a price
            of_close = Band(of_close.ceiling, min(of_close.floor, band.floor))
        own = Frame(close, of_close, grid)
        return Frame(reference, band, grid, of_close=own)
    except NoRule:
        return None


def _is_the_reference(rules: Rules, belief: Belief, instrument: Instrument, at: datetime) -> bool:
    """Return whether by the rules the close is today's reference: it is of the trading day before,
    read, and nothing went ex.
    """
    calendar, day, today = rules.rulebook.calendar, belief.close_day, local_date(at)
    return (
        belief.is_close_read
        and instrument.exchange not in AVERAGED
        and not rules.rulebook.statuses.is_first_day(instrument.status)
        and not _goes_ex(belief, at)
        and calendar.is_trading_day(today)
        and calendar.covers(day)
        and calendar.next_trading_day(day) == today
    )


def _frame_of_close(
    rules: Rules, belief: Belief, instrument: Instrument, at: datetime
) -> Frame | None:
    """Return what any believable reference would allow, and our close itself if it is the
    reference; None on a first day and an ex-date.
    """
    close, width = belief.close, _width(rules, instrument)
    is_first_day = rules.rulebook.statuses.is_first_day(instrument.status)
    if close is None or width is None or is_first_day or _goes_ex(belief, at):
        return None
    least, spread = 100 - width, _spread(instrument, width)
    lowest = frame_around(rules, belief, instrument, close * least // spread, at)
    highest = frame_around(rules, belief, instrument, close * spread // least, at)
    if lowest is None or highest is None:
        return None
    band = Band(highest.band.ceiling, lowest.band.floor)
    return Frame(close, band, lowest.grid, basis="by the last close", of_close=lowest.of_close)


def _goes_ex(belief: Belief, at: datetime) -> bool:
    """Return whether an ex-date is known since the close."""
    return any(belief.close_day < each <= local_date(at) for each in belief.ex_dates)


def _spread(instrument: Instrument, width: int) -> int:
    """Return the greater of reference and close, at most, where the smaller is `100 - width`."""
    return 100 + width if instrument.exchange in AVERAGED else 100


def _width(rules: Rules, instrument: Instrument) -> int | None:
    """Return the band's width in percent, None for kinds without one."""
    try:
        width = rules.rulebook.venues[instrument.exchange].band_width(instrument.kind)
    except NoRule:
        return None
    is_special = rules.rulebook.statuses.has_special_band(instrument.status)
    return width.special if is_special else width.normal
