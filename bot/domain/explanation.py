"""What may be done with a symbol at an instant, and by which rule."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from bot.domain.calendar import DayStatus
from bot.domain.errors import CalendarEnds, NoRule
from bot.domain.instrument import EXCHANGE_TZ, PHASE_WORDS, Instrument, Lot, Phase
from bot.domain.order import OrderType
from bot.domain.rule_table import RuleRow
from bot.domain.rulebook import Rulebook

_SATURDAY: Final = 5
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
    return (
        Explained("symbol", f"{instrument.exchange} {instrument.kind}, status {instrument.status}"),
        *_standing(case),
        _day(case),
        _phase(case),
        *_orders(case),
        *_changes(case),
        *_prices(case),
        *_money(case),
    )


def _standing(case: _Case) -> Iterator[Explained]:
    objection = case.rulebook.objection(case.instrument.status)
    if objection is not None:
        yield case.line("bot", f"places no order: {objection}", "status_codes")


def _day(case: _Case) -> Explained:
    day, calendar = case.day, case.rulebook.calendar
    if day in calendar.closures:
        closure = calendar.closures[day]
        is_operators = closure.status is DayStatus.OPERATOR
        says = f"{day:%a} {day}, closed: {closure.name}"
        return case.line("day", says, "operator.closed" if is_operators else "calendar.closed")
    if calendar.is_trading_day(day):
        doubt = calendar.doubts.get(day)
        says = f"{day:%a} {day}, a trading day" + (f" unless {doubt.name}" if doubt else "")
        return case.line("day", says, "calendar.unconfirmed_closures")
    why = "weekend" if day.weekday() >= _SATURDAY else "a year that the calendar does not know"
    return Explained("day", f"{day:%a} {day}, closed: {why}")


def _phase(case: _Case) -> Explained:
    exchange, status = case.instrument.exchange, case.instrument.status
    change = case.rulebook.next_phase_change(exchange, case.at, status)
    until = change.at.astimezone(EXCHANGE_TZ)
    when = f"{until:%H:%M:%S}" if until.date() == case.day else f"{until:%Y-%m-%d %H:%M}"
    span = case.rulebook.span_at(exchange, case.at, status)
    step = f" ({span.step})" if span and span.step else ""
    rule = f"restricted_trading.{exchange}" if _is_restricted(case) else "phases"
    now, then = PHASE_WORDS[case.phase], PHASE_WORDS[change.phase]
    return case.line("phase", f"{now}{step} until {when}, then {then}", rule)


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
    words = sorted("LIMIT" if each is OrderType.LO else each.value for each in taken)
    return "/".join(words) or "none is taken"


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
        try:
            settled = rulebook.settles_at(case.instrument, case.day).astimezone(EXCHANGE_TZ)
            says = f"bought now: sellable {settled:%Y-%m-%d %H:%M}"
            yield case.line("settlement", says, "settlement")
        except CalendarEnds as end:
            yield Explained("settlement", str(end))
    fee = f"{_percent(fees.broker_ppm)} of the amount"
    yield case.line("fee", fee, "operator.broker_fee_ppm", "fees.broker")
    yield case.line("tax", f"{_percent(fees.sale_tax_ppm)} of a sale", "fees.sale_tax")


def _percent(ppm: int) -> str:
    return f"{ppm / _PPM_OF_A_PERCENT:g} %"
