"""What may be done with a symbol at an instant, and by which rule."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final

from bot.domain.calendar import Closure, DayStatus, day_words
from bot.domain.errors import CalendarEnds, NoRule
from bot.domain.instrument import EXCHANGE_TZ, PHASE_WORDS, Instrument, InstrumentKind, Lot, Phase
from bot.domain.order import OrderType, type_word
from bot.domain.rule_data import RuleRow
from bot.domain.rulebook import Rulebook

_STEPS: Final = {
    "COLLECT": "orders gather",
    "PLO_COLLECT": "orders gather",
    "PLO_CONTINUOUS": "orders match at once",
    "LOCKED": "no changes any more",
}
"""What the parts of one phase are like."""
_PPM_OF_A_PERCENT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Explained:
    """One thing that may be done or not; `rule` None where no dated rule says so."""

    what: str
    says: str
    rule: RuleRow | None = None


@dataclass(frozen=True, slots=True)
class _Case:
    rulebook: Rulebook
    instrument: Instrument
    at: datetime
    phase: Phase

    @property
    def day(self) -> date:
        return self.at.astimezone(EXCHANGE_TZ).date()

    @property
    def moves_by(self) -> date | None:
        """When all shares of its exchange are to be on another; None for what does not move."""
        is_share = self.instrument.kind is InstrumentKind.STOCK
        return self.rulebook.venues[self.instrument.exchange].moved_by if is_share else None

    def clock(self, at: datetime) -> str:
        """Return a time of this day, or the time of another with its date."""
        local = at.astimezone(EXCHANGE_TZ)
        is_today = local.date() == self.day
        return f"{local:%H:%M:%S}" if is_today else f"{local:%Y-%m-%d %H:%M}"

    def line(self, what: str, says: str, *rules: str) -> Explained:
        """Return a line with the first rule, of the exchange or of all, that goes by such a name.

        Of two rows of one name, both an operator's, the later is in effect.
        """
        rows = {row.rule: row for row in self.rulebook.table(self.day)}
        names = (name for rule in rules for name in (f"{self.instrument.exchange}.{rule}", rule))
        return Explained(what, says, next((rows[name] for name in names if name in rows), None))


def explain(rulebook: Rulebook, instrument: Instrument, at: datetime) -> tuple[Explained, ...]:
    """Explain a symbol's day, phase, orders, changes, prices and money at an instant.

    Raises NoRule for restricted trading where nothing is known of it.
    """
    phase = rulebook.phase_at(instrument.exchange, at, instrument.status)
    case = _Case(rulebook, instrument, at, phase)
    lines = (
        _symbol(case),
        *_move(case),
        *_standing(case),
        _day(case),
        _phase(case),
        *_orders(case),
        *_changes(case),
        *_prices(case),
        *_money(case),
    )
    return tuple(_after_the_move(case, line) for line in lines)


def _symbol(case: _Case) -> Explained:
    instrument = case.instrument
    known = f"status {instrument.status}" if instrument.status.is_known else "status not known"
    return Explained("symbol", f"{instrument.exchange} {instrument.kind}, {known}")


def _move(case: _Case) -> Iterator[Explained]:
    """A move of all shares of an exchange changes all that is said here of one of them."""
    if case.moves_by is None:
        return
    exchange, by = case.instrument.exchange, case.moves_by
    says = f"all {exchange} shares move to HOSE by {by}: other ticks, band and order types then"
    if case.day >= by:
        says = f"all {exchange} shares were to be on HOSE by {by}: ask the broker where it trades"
    yield case.line("move", says, "moves_to_hose")


def _after_the_move(case: _Case, line: Explained) -> Explained:
    """Be less sure of the rules of an exchange that the share should have left."""
    is_over = case.moves_by is not None and case.day >= case.moves_by
    is_own = line.rule is not None and line.rule.rule.startswith(f"{case.instrument.exchange}.")
    return _less_sure(line) if is_over and is_own else line


def _less_sure(line: Explained) -> Explained:
    return replace(line, rule=replace(line.rule, confidence="low")) if line.rule else line


def _standing(case: _Case) -> Iterator[Explained]:
    objection = case.rulebook.objection(case.instrument.status)
    if objection is not None:
        yield case.line("bot", f"places no order: {objection}", "status_codes")


def _day(case: _Case) -> Explained:
    day, calendar = case.day, case.rulebook.calendar
    closure = calendar.closures.get(day)
    is_operators = closure is not None and closure.status is DayStatus.OPERATOR
    rule = "operator.closed" if is_operators else "calendar.closed"
    if calendar.is_trading_day(day):
        rule = "calendar.unconfirmed_closures"
    return case.line("day", day_words(calendar, day), rule)


def _phase(case: _Case) -> Explained:
    """Say the phase, what ends within it, and what follows."""
    exchange, status, rulebook = case.instrument.exchange, case.instrument.status, case.rulebook
    change = rulebook.next_phase_change(exchange, case.at, status)
    following, when = PHASE_WORDS[change.phase], case.clock(change.at)
    span, step = rulebook.span_at(exchange, case.at, status), None
    if span is not None:
        step = rulebook.next_step(exchange, case.at, status)
    how = f", {_STEPS[span.step]}" if span and span.step else ""
    now = f"{PHASE_WORDS[case.phase]}{how}"
    says = f"{now} until {when}, then {following}"
    if step is not None and step < change.at:
        batch = ", then orders match in one batch" if span and span.ends_in_uncross else ""
        says = f"{now} until {case.clock(step)}{batch}; {following} from {when}"
    rule = f"restricted_trading.{exchange}" if _is_restricted(case) else "phases"
    line = case.line("phase", says, rule)
    return _less_sure(line) if case.day in rulebook.calendar.doubts else line


def _is_restricted(case: _Case) -> bool:
    return case.rulebook.statuses.is_restricted(case.instrument.status)


def _orders(case: _Case) -> Iterator[Explained]:
    exchange, status, rulebook = case.instrument.exchange, case.instrument.status, case.rulebook
    lots = rulebook.venues[exchange].lots
    for lot, what in ((Lot.EVEN, "even lots"), (Lot.ODD, "odd lots")):
        taken = rulebook.accepted_types(exchange, case.phase, lot, status)
        if not rulebook.statuses.is_tradable(status):
            yield case.line(what, "none is taken", "status_codes")
        else:
            yield case.line(what, _types(taken), "accepted_types")
    most = f"up to {lots.max_quantity:,}" if lots.max_quantity else "without a largest"
    odd = f", or {lots.odd_lots[0]} to {lots.odd_lots[-1]}" if lots.odd_lots else ""
    says = f"multiples of {lots.board_lot} {most}{odd}"
    yield case.line("quantity", says, f"operator.max_quantity.{exchange}", "max_quantity")


def _types(taken: frozenset[OrderType]) -> str:
    return "/".join(sorted(map(type_word, taken))) or "none is taken"


def _changes(case: _Case) -> Iterator[Explained]:
    exchange, status = case.instrument.exchange, case.instrument.status
    where = (exchange, case.phase, case.at, status)
    span = case.rulebook.span_at(exchange, case.at, status)
    no = (
        "no: the last minutes of the auction"
        if span and span.is_locked
        else f"no: {PHASE_WORDS[case.phase]}"
    )
    may_amend, may_cancel = case.rulebook.may_amend(*where), case.rulebook.may_cancel(*where)
    yield case.line("amend", "a resting LIMIT order" if may_amend else no, "changes")
    yield case.line("cancel", "a resting LIMIT order" if may_cancel else no, "changes")


def _prices(case: _Case) -> Iterator[Explained]:
    exchange, kind = case.instrument.exchange, case.instrument.kind
    venue = case.rulebook.venues[exchange]
    try:
        zones = venue.ticks_of(kind).zones
        ticks = ", ".join(f"{t:,} below {b:,}" if b else f"{t:,} from there on" for b, t in zones)
        yield case.line("tick", ticks if len(zones) > 1 else f"{zones[0][1]:,} VND", "ticks")
        width = venue.band_width(kind)
        is_special = case.rulebook.statuses.has_special_band(case.instrument.status)
        percent = width.special if is_special else width.normal
        yield case.line("band", f"{percent} % up and down from the reference", "band")
    except NoRule as missing:
        yield Explained("price", str(missing))


def _money(case: _Case) -> Iterator[Explained]:
    fees, rulebook = case.rulebook.fees, case.rulebook
    if rulebook.calendar.is_trading_day(case.day):
        yield from _settlement(case)
    fee = f"{_percent(fees.broker_ppm)} of the amount"
    yield case.line("fee", fee, "operator.broker_fee_ppm", "fees.broker")
    yield case.line("tax", f"{_percent(fees.sale_tax_ppm)} of a sale", "fees.sale_tax")


def _settlement(case: _Case) -> Iterator[Explained]:
    """Say when shares bought now may be sold; both days where a day between may be closed."""
    calendar, instrument = case.rulebook.calendar, case.instrument
    cautious = replace(case.rulebook, calendar=calendar.if_doubts_close())
    try:
        early = case.rulebook.settles_at(instrument, case.day)
        late = cautious.settles_at(instrument, case.day)
    except CalendarEnds as end:
        yield Explained("settlement", str(end))
        return
    says = f"bought now: sellable {case.clock(early)}"
    if late == early:
        yield case.line("settlement", says, "settlement")
        return
    last = late.astimezone(EXCHANGE_TZ).date()
    doubts = [doubt for day, doubt in calendar.doubts.items() if case.day <= day <= last]
    yield _less_sure(case.line("settlement", f"{says}, or {case.clock(late)}", "settlement"))
    for doubt in doubts:
        why = f"{doubt.day:%a} {doubt.day} is closed: {doubt.name}, not confirmed"
        yield Explained("or", f"{case.clock(late)} if {why}", _doubt_row(case, doubt))


def _doubt_row(case: _Case, doubt: Closure) -> RuleRow | None:
    rows = case.rulebook.table(doubt.day)
    return next((row for row in rows if row.rule == "calendar.unconfirmed_closures"), None)


def _percent(ppm: int) -> str:
    return f"{ppm / _PPM_OF_A_PERCENT:g} %"
