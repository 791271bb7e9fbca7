"""Decides whether each quote and depth is trusted, before anything else sees it.

    answer ─► its own time ─► its volumes ─► its prices ─► believed: it becomes the market's state
                 └──────────────┴──────────────┴─► held: the symbol takes no entry, and says why

The possible findings are in `findings.py`. Quote and depth are judged separately: good quotes do
not make a bad depth good. Held data is discarded: prices, sizes, bars and values stay those of the
last good answer. Working orders stay, and can be cancelled.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Final

from bot.domain.entry import CLOSE_NOTE, Numbers
from bot.domain.instrument import Exchange, Instrument, Phase
from bot.domain.local_time import clock_of, local_date
from bot.domain.message import DepthReceived, QuoteReceived
from bot.domain.order import Side
from bot.domain.quote import ClosesRead, LastClose
from bot.engine import ex_dates
from bot.engine.control_state import Standing
from bot.engine.findings import (
    AUCTIONS,
    EXCHANGE,
    OTHER_DAY,
    TRADING,
    frame_around,
    of_depth,
    of_quote,
)
from bot.engine.seen import VOLUME_MAX, Belief, Figures, Finding, Held, PhaseSeen, QuoteSeen, Source
from bot.engine.settings import LAG_MAX, LONG_AGO
from bot.engine.state import State

GOOD_ANSWERS: Final = 3
"""After this many good answers in a row, held data is trusted again."""
TOLD_AGAIN: Final = timedelta(minutes=30)
"""After an alert about data of one kind the next is so much later, however often it comes and goes.
"""
VOLUME_OF_AVERAGE_MAX: Final = 1_000
"""A multiple of the history's average day; but `VOLUME_ALWAYS` shares are plausible anywhere."""
VOLUME_ALWAYS: Final = 10_000_000
_NEW_LEVEL: Final = frozenset({"REFERENCE", "JUMP", "UNCONFIRMED", "OFF_CLOSE"})
"""Kinds about the price level: a person who resumes confirms the new one."""
SETTLED: Final = frozenset({Phase.PUT_THROUGH, Phase.POST_SESSION, Phase.CLOSED})
"""Phases in which no price moves any more that day, if they come at its end."""
_NOWHERE: Final = PhaseSeen(Phase.CLOSED, None)


def of(state: State, symbol: str) -> Belief:
    """Return what is known about a symbol."""
    found = state.beliefs.get(symbol)
    if found is None:
        found = state.beliefs[symbol] = Belief(symbol)
    return found


# ---------------------------------------------------------------------------------- what is known


def on_closes(state: State, event: ClosesRead) -> None:
    """Learn the last closes; None if none was found. An older one changes nothing."""
    told = list[str]()
    for close in event.closes:
        belief = of(state, close.symbol)
        belief.is_asked = True
        late = close.ex_dates - belief.ex_dates
        belief.ex_dates |= late
        ex_dates.note_late(state, close.symbol, late)
        if belief.are_ex_dates_unread and not close.are_ex_dates_unread:
            told.append(close.symbol)
        if late or belief.are_ex_dates_unread != close.are_ex_dates_unread:
            belief.frame = None  # of the close, or not
        belief.are_ex_dates_unread = close.are_ex_dates_unread
        if close.price is None or close.day < belief.close_day:
            continue
        if belief.close is None:
            belief.price = close.price
        belief.close, belief.close_day, belief.frame = close.price, close.day, None
        belief.is_close_read = close.is_reference
        if close.average_volume is not None:
            most = max(VOLUME_ALWAYS, VOLUME_OF_AVERAGE_MAX * close.average_volume)
            belief.volume_max = min(VOLUME_MAX, most)
    for symbol in told:
        ex_dates.note_told(state, symbol)


def note_closes(state: State, exchange: Exchange) -> None:
    """Store today's close of each symbol of an exchange that closes, to confirm the next start."""
    for _, seen in sorted(state.quotes.items()):
        if seen.quote.exchange is exchange and local_date(seen.at) == state.trading_date:
            note_close(state, seen)
            ex_dates.keep_doubted(state, seen.quote)


def note_close(state: State, seen: QuoteSeen) -> None:
    """Store a trusted price as the symbol's close of today if it is certain, once. Without a note
    the next start asks the history.
    """
    quote, today = seen.quote, state.trading_date
    belief = of(state, quote.symbol)
    is_noted = belief.noted is not None and belief.noted.day == today
    if is_noted or local_date(seen.at) != today or not _is_close(state, seen):
        return
    belief.noted = LastClose(quote.symbol, quote.last, today)
    numbers: Numbers = {"day": today.isoformat(), "close": quote.last}
    text = f"{quote.symbol} {quote.last:,} at the close"
    state.note(CLOSE_NOTE, text, numbers, symbol=quote.symbol)


def _is_close(state: State, seen: QuoteSeen) -> bool:
    """Return whether a price is from after the closing auction, without one from after the day's
    end: by its own time, or asked for so late that no node of the broker can have been so far
    behind. A price with the time of another day is of a node that is, or nothing was traded.
    """
    exchange, stamp = seen.quote.exchange, seen.quote.updated_at
    phase = state.phases.get(exchange)
    last_price_at = state.rulebook.last_price_at(exchange, seen.at)
    if phase is None or phase.phase not in SETTLED or last_price_at is None:
        return False
    if stamp is not None and local_date(stamp) != state.trading_date:
        return False
    settled = max(last_price_at, phase.moved_until)
    is_late = seen.at - settled >= LAG_MAX
    return is_late or (seen.at >= settled and stamp is not None and stamp >= settled)


def begin_day(state: State, ended: date) -> None:
    """Use the last trusted price of the day that has ended as a close, until a better
    one is read.
    """
    for belief in state.beliefs.values():
        traded = state.quotes.get(belief.symbol)
        is_of_day = traded is not None and local_date(traded.at) == ended
        if belief.price is not None and is_of_day and ended > belief.close_day:
            belief.close, belief.close_day, belief.is_close_read = belief.price, ended, False
        belief.frame, belief.reference, belief.references_shown = None, None, ()
        belief.has_traded, belief.volumes_shown = False, 0
        belief.first_last, belief.shown_reference, belief.is_priced = None, None, False
        belief.excused.clear()
        ex_dates.end_day(state, belief, ended)
        for source in belief.sources:
            source.gaps.clear()


# ------------------------------------------------------------------------------------ the judgement


def takes_quote(state: State, event: QuoteReceived) -> bool:
    """Judge a quote; return True if it is trusted."""
    at, quote = event.at, event.quote
    belief = of(state, quote.symbol)
    source = belief.quotes
    _hear(state, source, event)
    instrument = state.instruments.get(quote.symbol) or Instrument(quote.symbol, quote.exchange)
    phase = state.phase_of(instrument.exchange)
    for finding in of_quote(state.rules, belief, instrument, phase, at, quote):
        if finding.kind not in belief.excused:
            may_wait = not quote.volume and _is_early(state, phase)
            level = quote.reference or quote.last
            _hold(state, belief, source, finding, level=level, may_wait=may_wait)
            return False
    if not _accepts(state, belief, source, phase, at, quote.updated_at):
        return False
    is_of_today = quote.updated_at is not None and local_date(quote.updated_at) == local_date(at)
    if quote.volume is not None and is_of_today and phase.phase in TRADING:
        _settle(belief, quote.volume, quote.reference)
    belief.price, frame, reference = quote.last, belief.frame, quote.reference
    if reference and (frame is None or frame.reference != reference) and phase.phase in TRADING:
        # Before the opening the reference may still be yesterday's.
        belief.frame = frame_around(state.rules, belief, instrument, reference, at)
    return True


def _settle(belief: Belief, volume: int, reference: int | None) -> None:
    """Count a trusted quote of today's trading. As many in a row as make held data trusted settle
    that the symbol has traded, and the day's reference: one wrong quote settles neither.
    """
    if not volume:
        belief.volumes_shown, belief.references_shown = 0, ()
        return
    belief.volumes_shown += 1
    belief.has_traded = belief.has_traded or belief.volumes_shown >= GOOD_ANSWERS
    if reference is None:
        return
    shown = belief.references_shown = (*belief.references_shown, reference)[-GOOD_ANSWERS:]
    is_one = len(shown) == GOOD_ANSWERS and set(shown) == {reference}
    if is_one or belief.reference is not None:  # beside a settled one only our close is trusted
        belief.reference = reference


def takes_depth(state: State, event: DepthReceived) -> bool:
    """Judge a depth; return True if it is trusted."""
    at, depth = event.at, event.depth
    belief = of(state, depth.symbol)
    source = belief.depths
    _hear(state, source, event)
    instrument = state.instruments.get(depth.symbol)
    phase = state.phase_of(instrument.exchange) if instrument else _NOWHERE
    if instrument and (said := state.phases.get(instrument.exchange)) is not None:
        phase = said.whose_book(phase)
    for finding in of_depth(state.rules, belief, instrument, phase, at, depth):
        if finding.kind not in belief.excused:
            _hold(state, belief, source, finding, level=None, may_wait=_is_early(state, phase))
            return False
    bid, ask = depth.bid, depth.ask
    if bid is not None and ask is not None and bid > ask and phase.phase not in AUCTIONS:
        return False  # of the auction that has just ended
    return _accepts(state, belief, source, phase, at, depth.updated_at)


def _hear(state: State, source: Source, event: QuoteReceived | DepthReceived) -> None:
    """Record when an answer came. If our clock lags the broker's, honest answers are
    ahead of it.
    """
    source.heard_at = event.answered_at or event.at
    settings, skew = state.settings, state.gate.skew
    source.ahead_max = settings.max_source_ahead
    if skew is not None and skew > timedelta(0):
        source.ahead_max += settings.clock_max_offset
    if source.watched_since is LONG_AGO:
        source.watched_since = event.at


def _accepts(
    state: State,
    belief: Belief,
    source: Source,
    phase: PhaseSeen,
    at: datetime,
    stamp: datetime | None,
) -> bool:
    """Accept an answer without findings; return False if it still changes nothing.

    An older answer never replaces a newer one, by request time and by its own time, as one node of
    the broker may lag behind another. If the source is held, the answer counts as good; after
    enough of them it is trusted again. From successive own times we learn how long the symbol is
    usually silent.
    """
    if at < source.asked_at or (stamp is not None and stamp < source.stamp):
        return False
    if (held := source.held) is not None:
        held.good += 1
        if held.good < GOOD_ANSWERS:
            return False
        _release(state, belief, source, f"{GOOD_ANSWERS} good answers in a row")
    source.asked_at = at
    if stamp is not None:
        # A time of the future that a person has accepted must not outlast a clock that is mended.
        stamp = min(stamp, source.heard_at + source.ahead_max)
    if stamp is not None and stamp > source.stamp:
        before = max(source.stamp, phase.since, source.watched_since)
        if phase.phase is Phase.PROGRESS and stamp > before:
            source.gaps.append((stamp - before).total_seconds())
        source.stamp = stamp
    return True


# -------------------------------------------------------------------------------- held and released


def _is_early(state: State, phase: PhaseSeen) -> bool:
    """Return whether a symbol may honestly show the time of yesterday's last trade: before its
    first of the day.
    """
    lasts = state.now - phase.since
    return phase.phase is Phase.OPEN or lasts <= state.settings.max_quote_source_age


def _hold(
    state: State,
    belief: Belief,
    source: Source,
    finding: Finding,
    *,
    level: int | None,
    may_wait: bool,
) -> None:
    """Keep an answer from everybody: alerted once for its kind, then counted; alerted again if it
    is held again later, or after a person has resumed.
    """
    held, kind = source.held, finding.kind
    if held is None or held.finding.kind != kind:
        since = held.since if held else state.now
        count = held.count + 1 if held else 1
        held = source.held = Held(finding, since, level, count)
    else:
        held.finding, held.level, held.good = finding, level, 0
        held.count += 1
    told_at = source.told_at.get(kind, LONG_AGO)
    is_told = told_at >= held.since or state.now - told_at < TOLD_AGAIN
    if is_told or (may_wait and kind == OTHER_DAY):
        return
    source.told_at[kind] = state.now
    symbol = belief.symbol
    again = ", again after a resume" if belief.resumes else ""
    text = f"{symbol}: {_words(source, held)}{again}. {_follows(state, symbol)}"
    facts = _facts(state, symbol, source.name, finding)
    state.alert("HELD_DATA", text, facts, symbol=symbol)


def _release(state: State, belief: Belief, source: Source, why: str) -> None:
    held, source.held = source.held, None
    if held is not None and any(at >= held.since for at in source.told_at.values()):
        answers = f"{held.count:,} {source.name}{'s' if held.count > 1 else ''} held"
        text = f"{belief.symbol}: its {source.name} is believed again: {why} ({answers})"
        state.note(
            "RESUME", text, {"source": source.name, "held": held.count}, symbol=belief.symbol
        )


def is_held(state: State, symbol: str) -> bool:
    """Return whether any market data of the symbol is not trusted now."""
    belief = state.beliefs.get(symbol)
    return belief is not None and any(each.held is not None for each in belief.sources)


def resume(state: State, symbol: str, reason: str) -> bool:
    """A person says that a symbol's data is right; return False if none of it was in doubt.

    A new price level becomes the basis for later answers, another exchange the one of today; other
    kinds of findings are ignored in the symbol for the rest of the day.
    """
    belief = state.beliefs.get(symbol)
    is_levelled = ex_dates.trust(state, symbol)
    held = [each for each in belief.sources if each.held is not None] if belief else []
    for source in held:
        assert belief is not None
        assert source.held is not None
        kind, level = source.held.finding.kind, source.held.level
        if kind in _NEW_LEVEL and level is not None:
            belief.close = belief.price = level
            belief.close_day, belief.frame, belief.reference = state.trading_date, None, None
            belief.is_close_read = False
            belief.references_shown = (level,) * (GOOD_ANSWERS - 1)  # the next one settles it
        elif kind == EXCHANGE:
            said = Exchange(str(source.held.finding.numbers["exchange"]))
            state.instruments[symbol] = replace(state.instruments[symbol], exchange=said)
            belief.frame = None
        elif belief.quotes.held is None or belief.quotes.held.finding.kind not in _NEW_LEVEL:
            belief.excused.add(kind)
    for source in held:
        assert belief is not None
        belief.resumes += 1
        _release(state, belief, source, reason)
        source.told_at.clear()
    return bool(held) or is_levelled


def objection(state: State, symbol: str, side: Side) -> tuple[str, Figures] | None:
    """Return why nothing may be ordered in a symbol on this side, with numbers; None if it may."""
    if side is Side.SELL and state.settings.exit_on_held_data:
        return None
    return doubt(state, symbol)


def doubt(state: State, symbol: str) -> tuple[str, Figures] | None:
    """Return why the data of a symbol is not trusted now, with numbers; None if it is."""
    belief = state.beliefs.get(symbol)
    for source in belief.sources if belief is not None else ():
        if source.held is not None:
            finding = source.held.finding
            text = f"its {source.name} is not believed: {finding.text}"
            return text, {"kind": finding.kind, "source": source.name, **finding.numbers}
    return None


def alerts(state: State) -> Iterator[Standing]:
    """Yield what is held now, and the consequences."""
    for symbol in sorted(state.beliefs):
        for source in state.beliefs[symbol].sources:
            if source.held is not None:
                since = clock_of(source.held.since)
                count = f"{source.held.count:,} held since {since}"
                words = f"{_words(source, source.held)} ({count})"
                facts = _facts(state, symbol, source.name, source.held.finding)
                text = f"{symbol}: {words}. {_follows(state, symbol)}"
                yield Standing("HELD_DATA", text, facts)


def _facts(state: State, symbol: str, source: str, finding: Finding) -> Numbers:
    do_exits = state.settings.exit_on_held_data
    facts = {"symbol": symbol, "source": source, "kind": finding.kind, **finding.numbers}
    return {**facts, "reason": finding.text, "do_exits_leave": do_exits, "good": GOOD_ANSWERS}


def _words(source: Source, held: Held) -> str:
    return f"its {source.name} is not believed: {held.finding.text}"


def _follows(state: State, symbol: str) -> str:
    exits = "exits go on" if state.settings.exit_on_held_data else "no exit is sent either"
    return (
        f"No entry in it until {GOOD_ANSWERS} good answers in a row; {exits}; working orders stay."
        f' If the data is right: bot resume {symbol} --reason "…"'
    )
