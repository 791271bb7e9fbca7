"""Explains what may be done with a symbol at an instant, and which rule says so."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final

from bot.domain.calendar import DayStatus, TradingCalendar, day_words
from bot.domain.errors import CalendarEnds, NoRule
from bot.domain.instrument import EXCHANGE_TZ, PHASE_WORDS, Instrument, InstrumentKind, Lot, Phase
from bot.domain.order import type_word
from bot.domain.rule_data import RuleRow
from bot.domain.rulebook import Rulebook

_STEPS: Final = {
    "COLLECT": "orders gather",
    "PLO_COLLECT": "orders gather",
    "PLO_CONTINUOUS": "orders match at once",
    "LOCKED": "no changes any more",
}
"""What happens in each part of a phase."""
_PPM_OF_A_PERCENT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Explained:
    """One thing that is or is not allowed; `rule` is None where no dated rule covers it."""

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
    def calendar(self) -> TradingCalendar:
        return self.rulebook.calendar

    @property
    def day(self) -> date:
        return self.at.astimezone(EXCHANGE_TZ).date()

    @property
    def moves_by(self) -> date | None:
        """The date by which all shares of its exchange move to another one; None if none do."""
        is_share = self.instrument.kind is InstrumentKind.STOCK
        return self.rulebook.venues[self.instrument.exchange].moved_by if is_share else None

    def clock(self, at: datetime) -> str:
        """Format a time; with its date if it is not on the given day."""
        local = at.astimezone(EXCHANGE_TZ)
        is_today = local.date() == self.day
        return f"{local:%H:%M:%S}" if is_today else f"{local:%Y-%m-%d %H:%M}"

    def line(self, what: str, says: str, *rules: str) -> Explained:
        """Return a line with the first rule, of the exchange or of all, of that name.

        If an operator has set two rows of one name, the later one is in effect.
        """
        rows = {row.rule: row for row in self.rulebook.table(self.day)}
        names = (name for rule in rules for name in (f"{self.instrument.exchange}.{rule}", rule))
        return Explained(what, says, next((rows[name] for name in names if name in rows), None))


def explain(rulebook: Rulebook, instrument: Instrument, at: datetime) -> tuple[Explained, ...]:
    """Explain a symbol's day, phase, orders, changes, prices and money at an instant.

    Raises NoRule for restricted trading whose rules are not known.
    """
    phase = rulebook.phase_at(instrument.exchange, at, instrument.status)
    case = _Case(rulebook, instrument, at, phase)
    lines = (*_symbol(case), _phase(case), *_orders(case), *_prices(case), *_money(case))
    if case.moves_by is None or case.day < case.moves_by:
        return lines
    # The share should have left its exchange by now, so its rules are less certain.
    own = f"{instrument.exchange}."
    return tuple(
        _less_sure(line) if line.rule and line.rule.rule.startswith(own) else line for line in lines
    )


def _less_sure(line: Explained) -> Explained:
    return replace(line, rule=replace(line.rule, confidence="low")) if line.rule else line


def _symbol(case: _Case) -> Iterator[Explained]:
    """Describe the symbol, a coming move to another exchange, and its trading day."""
    instrument, exchange, calendar = case.instrument, case.instrument.exchange, case.calendar
    known = f"status {instrument.status}" if instrument.status.is_known else "status not known"
    yield Explained("symbol", f"{exchange} {instrument.kind}, {known}")
    by = case.moves_by
    if by is not None:
        says = f"all {exchange} shares move to HOSE by {by}: other ticks, band and order types then"
        if case.day >= by:
            where = "ask the broker where it trades"
            says = f"all {exchange} shares were to be on HOSE by {by}: {where}"
        yield case.line("move", says, "moves_to_hose")
    objection = case.rulebook.objection(instrument.status)
    if objection is not None:
        yield case.line("bot", f"places no order: {objection}", "status_codes")
    closure = calendar.closures.get(case.day)
    is_operators = closure is not None and closure.status is DayStatus.OPERATOR
    rule = "operator.closed" if is_operators else "calendar.closed"
    if calendar.is_trading_day(case.day):
        rule = "calendar.unconfirmed_closures"
    yield case.line("day", day_words(calendar, case.day), rule)


def _phase(case: _Case) -> Explained:
    """Describe the phase, what ends within it, and what follows."""
    exchange, status, rulebook = case.instrument.exchange, case.instrument.status, case.rulebook
    change = rulebook.next_phase_change(exchange, case.at, status)
    following, when = PHASE_WORDS[change.phase], case.clock(change.at)
    span = rulebook.span_at(exchange, case.at, status)
    how = f", {_STEPS[span.step]}" if span and span.step else ""
    now = f"{PHASE_WORDS[case.phase]}{how}"
    says = f"{now} until {when}, then {following}"
    step = rulebook.next_step(exchange, case.at, status) if span is not None else change.at
    if step < change.at:
        batch = ", then orders match in one batch" if span and span.ends_in_uncross else ""
        says = f"{now} until {case.clock(step)}{batch}; {following} from {when}"
    is_restricted = rulebook.statuses.is_restricted(status)
    rule = f"restricted_trading.{exchange}" if is_restricted else "phases"
    line = case.line("phase", says, rule)
    return _less_sure(line) if case.day in case.calendar.doubts else line


def _orders(case: _Case) -> Iterator[Explained]:
    """Describe which order types and quantities are accepted, and what may be changed."""
    exchange, status, rulebook = case.instrument.exchange, case.instrument.status, case.rulebook
    lots = rulebook.venues[exchange].lots
    for lot, what in ((Lot.EVEN, "even lots"), (Lot.ODD, "odd lots")):
        taken = rulebook.accepted_types(exchange, case.phase, lot, status)
        if not rulebook.statuses.is_tradable(status):
            yield case.line(what, "none is taken", "status_codes")
        else:
            types = "/".join(sorted(map(type_word, taken)))
            yield case.line(what, types or "none is taken", "accepted_types")
    most = f"up to {lots.max_quantity:,}" if lots.max_quantity else "without a largest"
    odd = f", or {lots.odd_lots[0]} to {lots.odd_lots[-1]}" if lots.odd_lots else ""
    says = f"multiples of {lots.board_lot} {most}{odd}"
    yield case.line("quantity", says, f"operator.max_quantity.{exchange}", "max_quantity")
    where = (exchange, case.phase, case.at, status)
    span = rulebook.span_at(exchange, case.at, status)
    is_locked = span is not None and span.is_locked
    no = f"no: {'the last minutes of the auction' if is_locked else PHASE_WORDS[case.phase]}"
    yes = "a resting LIMIT order"
    yield case.line("amend", yes if rulebook.may_amend(*where) else no, "changes")
    yield case.line("cancel", yes if rulebook.may_cancel(*where) else no, "changes")


def _prices(case: _Case) -> Iterator[Explained]:
    kind, statuses = case.instrument.kind, case.rulebook.statuses
    venue = case.rulebook.venues[case.instrument.exchange]
    try:
        zones = venue.ticks_of(kind).zones
        ticks = ", ".join(f"{t:,} below {b:,}" if b else f"{t:,} from there on" for b, t in zones)
        yield case.line("tick", ticks if len(zones) > 1 else f"{zones[0][1]:,} VND", "ticks")
        width = venue.band_width(kind)
        is_special = statuses.has_special_band(case.instrument.status)
        percent = width.special if is_special else width.normal
        yield case.line("band", f"{percent} % up and down from the reference", "band")
    except NoRule as missing:
        yield Explained("price", str(missing))


def _money(case: _Case) -> Iterator[Explained]:
    fees = case.rulebook.fees
    if case.calendar.is_trading_day(case.day):
        yield from _settlement(case)
    fee = f"{fees.broker_ppm / _PPM_OF_A_PERCENT:g} % of the amount"
    yield case.line("fee", fee, "operator.broker_fee_ppm", "fees.broker")
    tax = f"{fees.sale_tax_ppm / _PPM_OF_A_PERCENT:g} % of a sale"
    yield case.line("tax", tax, "fees.sale_tax")


def _settlement(case: _Case) -> Iterator[Explained]:
    """Say when shares bought now may be sold; give both days where a day between may be closed."""
    cautious = replace(case.rulebook, calendar=case.calendar.if_doubts_close())
    try:
        early = case.rulebook.settles_at(case.instrument, case.day)
        late = cautious.settles_at(case.instrument, case.day)
    except CalendarEnds as end:
        yield Explained("settlement", str(end))
        return
    says = f"bought now: sellable {case.clock(early)}"
    if late == early:
        yield case.line("settlement", says, "settlement")
        return
    yield _less_sure(case.line("settlement", f"{says}, or {case.clock(late)}", "settlement"))
    last = late.astimezone(EXCHANGE_TZ).date()
    for day, doubt in case.calendar.doubts.items():
        if case.day <= day <= last:
            why = f"{day:%a} {day} is closed: {doubt.name}, not confirmed"
            rows = (
                r for r in case.rulebook.table(day) if r.rule == "calendar.unconfirmed_closures"
            )
            yield Explained("or", f"{case.clock(late)} if {why}", next(rows, None))
