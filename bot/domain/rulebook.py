"""The rules of the exchanges: what may be ordered, when, at which price, and what it costs.

Immutable and pure. Every number is data with an effective date, a source and a confidence
(`bot/domain/rules/`); this module only looks up and computes, in whole VND and whole shares.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from typing import Final

from bot.domain.calendar import TradingCalendar
from bot.domain.errors import CalendarEnds, NoRule, RuleDataError
from bot.domain.instrument import Exchange, Instrument, InstrumentKind, Lot, Phase
from bot.domain.local_time import instant_of, local_of
from bot.domain.order import OrderType
from bot.domain.rule_data import RuleData, RuleRow, closure_rows, override_rows, rule_rows
from bot.domain.status import NORMAL, StatusRules, SymbolStatus
from bot.domain.timetable import (
    DayPlan,
    PhaseBoundary,
    PhaseSpan,
    Timetable,
)
from bot.domain.venue import Band, TickTable, Venue, band_around, warrant_band

PPM: Final = 1_000_000
_NONE: Final[frozenset[OrderType]] = frozenset()
_OVERRIDE_KEYS: Final = (
    *("closed", "open", "years", "early_closes", "broker_fee_ppm", "max_quantity"),
)


@dataclass(frozen=True, slots=True)
class Fees:
    """Rates in parts per million. The broker's rate includes the exchange's own fee."""

    broker_ppm: int
    broker_cap_ppm: int
    sale_tax_ppm: int
    dividend_tax_ppm: int

    def __post_init__(self) -> None:
        if self.broker_ppm > self.broker_cap_ppm:
            wanted = f"at most the legal cap of {self.broker_cap_ppm} ppm"
            raise RuleDataError("broker_fee_ppm", wanted, self.broker_ppm)

    @classmethod
    def from_data(cls, data: RuleData, on: date | None) -> "Fees":
        broker = data["broker"].version(on)
        taxes = (data[name].version(on)["ppm"].integer() for name in ("sale_tax", "dividend_tax"))
        return cls(broker["ppm"].integer(), broker["cap_ppm"].integer(), *taxes)


@dataclass(frozen=True, slots=True)
class Settlement:
    """Trading days until delivery, by kind, and the local time of delivery, for shares and cash
    alike.
    """

    days: Mapping[InstrumentKind, int]
    delivered_at: time

    @classmethod
    def from_data(cls, data: RuleData, on: date | None) -> "Settlement":
        version = data.version(on)
        days = {kind: version["days"][kind].integer() for kind in InstrumentKind}
        return cls(days, version["delivered_at"].time_of_day())


@dataclass(frozen=True, slots=True)
class Rulebook:
    """The rules in effect. Instants passed in are aware; those returned are in UTC."""

    calendar: TradingCalendar
    venues: Mapping[Exchange, Venue]
    fees: Fees
    settlement: Settlement
    statuses: StatusRules
    rules: tuple[RuleRow, ...] = ()
    """Every version of every rule with its source, whether the bot uses the rule or only
    lists it.
    """
    on: date | None = field(default=None, compare=False)
    """The day whose versions these are; None: the newest."""

    @classmethod
    def from_mapping(cls, data: Mapping[str, object], on: date | None = None) -> "Rulebook":
        """Read exchanges, restricted trading, calendar, fees, settlement and status codes.

        Uses the versions in effect on a day (None: the newest). Raises RuleDataError.
        """
        root = RuleData(data)
        exchanges, restricted = root["exchanges"], root["restricted_trading"]
        return cls(
            calendar=TradingCalendar.from_data(root["calendar"]),
            venues={e: Venue.from_data(e, exchanges[e], restricted.get(e), on) for e in Exchange},
            fees=Fees.from_data(root["fees"], on),
            settlement=Settlement.from_data(root["settlement"], on),
            statuses=StatusRules.from_data(root["status_codes"], on),
            rules=(*rule_rows(root), *closure_rows(root["calendar"])),
            on=on,
        )

    @property
    def known_since(self) -> date:
        """The first day for which the rules of the exchanges are known."""
        return max(
            min(row.since for row in self.rules if row.rule == rule and row.since is not None)
            for rule in {row.rule for row in self.rules if row.rule.endswith(".phases")}
        )

    def changed_until(self, day: date) -> tuple[str, ...]:
        """Return the rules of which a later version is in effect by a day; the calendar's own days
        are none.
        """
        if (on := self.on) is None:
            return ()
        rows = [row for row in self.rules if not row.rule.startswith("calendar.")]
        return tuple(sorted({row.rule for row in rows if row.since and on < row.since <= day}))

    def table(self, on: date) -> tuple[RuleRow, ...]:
        """Return the versions in effect on a day: one of each rule, a closed day's reason,
        overrides.

        The rulebook itself computes with the versions of the day for which it was read.
        """
        return tuple(row for row in self.rules if row.holds(on))

    def with_override(self, data: Mapping[str, object]) -> "Rulebook":
        """Apply an operator's changes. Raises RuleDataError.

        `closed` and `open`: lists of `{date, name}`; a weekend cannot be opened. `years`: year to
        status. `early_closes`: a list of `{date, at, name}`. `broker_fee_ppm`: the broker's rate.
        `max_quantity`: exchange to shares per order.
        """
        root = RuleData(data)
        root.allow(*_OVERRIDE_KEYS)
        rate, sizes, venues = root.get("broker_fee_ppm"), root.get("max_quantity"), self.venues
        for key, shares in sizes.items() if sizes else ():
            venue = venues[RuleData(key, shares.place).member(Exchange)]
            if shares.integer() < venue.lots.board_lot:
                wanted = f"at least one lot of {venue.lots.board_lot}"
                raise RuleDataError(shares.place, wanted, shares.value)
            lots = replace(venue.lots, max_quantity=shares.integer())
            venues = {**venues, venue.exchange: replace(venue, lots=lots)}
        early = root.get("early_closes")
        for row in early.rows() if early else ():
            for venue in venues.values():
                spans = venue.plan.timetable.spans
                if not spans[1].start < row["at"].time_of_day() <= spans[-1].start:
                    wanted = f"after {spans[1].start:%H:%M} and by {spans[-1].start:%H:%M}"
                    raise RuleDataError(row["at"].place, wanted, row["at"].value)
        return replace(
            self,
            calendar=self.calendar.with_override(root),
            fees=replace(self.fees, broker_ppm=rate.integer()) if rate else self.fees,
            venues=venues,
            rules=(*self.rules, *override_rows(root)),
        )

    # ------------------------------------------------------------------------------- prices

    def ticks_of(self, instrument: Instrument) -> TickTable:
        """Return the price grid. Raises NoRule for a kind that is not traded there."""
        return self.venues[instrument.exchange].ticks_of(instrument.kind)

    def band(self, instrument: Instrument, reference: int, *, special: bool = False) -> Band:
        """Return ceiling (rounded down) and floor (rounded up); the market's own limits take
        precedence.

        `special`: first day, first day after a pause of more than 25 days, ex-date of treasury
        shares. Raises NoRule for bonds, which have no band, and for warrants (`warrant_band`).
        """
        width = self.venues[instrument.exchange].band_width(instrument.kind)
        percent = width.special if special else width.normal
        return band_around(reference, percent, self.ticks_of(instrument))

    def warrant_band(
        self, reference: int, *, underlying_reference: int, underlying: Band, ratio: Fraction | int
    ) -> Band:
        """Return the band of a covered warrant; `ratio` warrants buy one share."""
        return warrant_band(
            reference,
            underlying_reference=underlying_reference,
            underlying=underlying,
            ratio=Fraction(ratio),
            ticks=self.venues[Exchange.HOSE].ticks_of(InstrumentKind.CW),
        )

    # --------------------------------------------------------------------------------- time

    def phase_at(self, exchange: Exchange, at: datetime, status: SymbolStatus = NORMAL) -> Phase:
        """Return the phase of symbols with a given status.

        CLOSED on closed days and on days outside the calendar. Raises NoRule for restricted trading
        whose rules are not known.
        """
        span = self.span_at(exchange, at, status)
        return span.phase if span else Phase.CLOSED

    def span_at(
        self, exchange: Exchange, at: datetime, status: SymbolStatus = NORMAL
    ) -> PhaseSpan | None:
        """Return the span (a phase or a step of one) at an instant; None on a closed day."""
        local, plan = local_of(at), self._plan(exchange, status)
        if not self._trades(plan, local.date()):
            return None
        return self._timetable(plan, local.date()).span_at(local.time())

    def phase_since(self, exchange: Exchange, phase: Phase, at: datetime) -> datetime | None:
        """Return since when the exchange has been in a phase; None if it is in another one."""
        span = self.span_at(exchange, at)
        if span is None or span.phase is not phase:
            return None
        return instant_of(local_of(at).date(), span.start)

    def last_price_at(self, exchange: Exchange, at: datetime) -> datetime | None:
        """Return from when on the last price of that day is its close; None on a closed day."""
        day, plan = local_of(at).date(), self.venues[exchange].plan
        if not self._trades(plan, day):
            return None
        return instant_of(day, self._timetable(plan, day).last_price)

    def next_phase_change(
        self, exchange: Exchange, at: datetime, status: SymbolStatus = NORMAL
    ) -> PhaseBoundary:
        """Return the next boundary, strictly after `at`.

        Past the end of the calendar nothing opens: the result is then the next local midnight,
        CLOSED, so that a timetable asks again.
        """
        local, plan = local_of(at), self._plan(exchange, status)
        if self._trades(plan, local.date()):
            span = self._timetable(plan, local.date()).next_change(local.time())
            if span is not None:
                return PhaseBoundary(instant_of(local.date(), span.start), span.phase)
        return self._next_opening(plan, local.date())

    def next_step(
        self, exchange: Exchange, at: datetime, status: SymbolStatus = NORMAL
    ) -> datetime:
        """Return the start of the next span, strictly after `at`: a phase or a step of one."""
        local, plan = local_of(at), self._plan(exchange, status)
        if self._trades(plan, local.date()):
            span = self._timetable(plan, local.date()).next_span(local.time())
            if span is not None:
                return instant_of(local.date(), span.start)
        return self._next_opening(plan, local.date()).at

    def next_uncross(
        self, exchange: Exchange, at: datetime, status: SymbolStatus = NORMAL
    ) -> datetime | None:
        """Return the next instant of this trading day, strictly after `at`, at which an auction
        or the collected after-hours orders are matched."""
        local, plan = local_of(at), self._plan(exchange, status)
        if not self._trades(plan, local.date()):
            return None
        uncrosses = self._timetable(plan, local.date()).uncrosses
        later = (when for when in uncrosses if when > local.time())
        return next((instant_of(local.date(), when) for when in later), None)

    def timetable_on(self, exchange: Exchange, day: date) -> Timetable:
        """Return the timetable of a trading day for normal symbols, cut short if the day ends
        early.
        """
        return self._timetable(self.venues[exchange].plan, day)

    def _plan(self, exchange: Exchange, status: SymbolStatus) -> DayPlan:
        """Return the plan of a day. Raises NoRule if the rules of restricted trading are
        not known.
        """
        venue = self.venues[exchange]
        plan = venue.restricted if self.statuses.is_restricted(status) else venue.plan
        if plan is None:
            raise NoRule(f"restricted trading on {exchange}")
        return plan

    def _timetable(self, plan: DayPlan, day: date) -> Timetable:
        """Return the timetable of a day, cut short if the day ends early."""
        early = self.calendar.early_closes.get(day)
        return plan.timetable if early is None else plan.timetable.until(early.at)

    def _trades(self, plan: DayPlan, day: date) -> bool:
        return self.calendar.is_trading_day(day) and plan.trades_on(day)

    def _next_opening(self, plan: DayPlan, day: date) -> PhaseBoundary:
        opening, following = plan.timetable.opening, day
        try:
            while following == day or not plan.trades_on(following):
                following = self.calendar.next_trading_day(following)
        except CalendarEnds:
            return PhaseBoundary(instant_of(day + timedelta(days=1), time(0)), Phase.CLOSED)
        return PhaseBoundary(instant_of(following, opening.start), opening.phase)

    # --------------------------------------------------------------------------- order types

    def accepted_types(
        self, exchange: Exchange, phase: Phase, lot: Lot, status: SymbolStatus = NORMAL
    ) -> frozenset[OrderType]:
        """Return the order types that the exchange takes, in canonical names; empty if it takes
        none.
        """
        return self._plan(exchange, status).accepted.get((phase, lot), _NONE)

    def broker_listed_types(self, exchange: Exchange, phase: Phase) -> tuple[OrderType, ...]:
        """Return the types that the broker lists as available: more than the exchange takes."""
        return self.venues[exchange].listed.get(phase, ())

    def canonical(self, exchange: Exchange, order_type: OrderType) -> OrderType:
        """Return the one name of a type: MTL for MP on HOSE, MAK for FAK, MOK for FOK on HNX."""
        return self.venues[exchange].canonical.get(order_type, order_type)

    def routed(self, exchange: Exchange, order_type: OrderType) -> OrderType:
        """Return the type in the broker's answer after routing: MTL for MP on HOSE, FAK for MAK on
        HNX.
        """
        return self.venues[exchange].routed.get(order_type, order_type)

    def may_amend(
        self,
        exchange: Exchange,
        phase: Phase,
        at: datetime | None = None,
        status: SymbolStatus = NORMAL,
    ) -> bool:
        """Return whether a resting order may be changed.

        In CA not during the last 5 minutes of each auction; checking that needs the instant.
        """
        is_open = phase in self.venues[exchange].may_amend
        return is_open and not self._is_locked(exchange, at, status)

    def may_cancel(
        self,
        exchange: Exchange,
        phase: Phase,
        at: datetime | None = None,
        status: SymbolStatus = NORMAL,
    ) -> bool:
        """Return whether a resting order may be cancelled; `at` and `status` as in `may_amend`."""
        is_open = phase in self.venues[exchange].may_cancel
        return is_open and not self._is_locked(exchange, at, status)

    def _is_locked(self, exchange: Exchange, at: datetime | None, status: SymbolStatus) -> bool:
        span = self.span_at(exchange, at, status) if at else None
        return span is not None and span.is_locked

    # ------------------------------------------------------------------------------- statuses

    def objection(self, status: SymbolStatus) -> str | None:
        """Return why this bot places no order in a symbol of that status, None if it does.

        The exchange takes no orders in a halted or suspended symbol. A restricted one trades by
        call auctions or on Fridays only, and the bot does not trade it.
        """
        if not self.statuses.is_tradable(status):
            return f"the exchange takes no order: {status}"
        if self.statuses.is_restricted(status):
            return f"under restricted trading: {status}"
        return None

    # --------------------------------------------------------------------------------- money

    @property
    def fee_ppm(self) -> int:
        """The broker's rate, including the exchange's own fee."""
        return self.fees.broker_ppm

    def fee(self, amount: int, rate_ppm: int | None = None) -> int:
        """Return the fee on `amount` VND, rounded half up to whole VND."""
        rate = self.fees.broker_ppm if rate_ppm is None else rate_ppm
        return (amount * rate + PPM // 2) // PPM

    def sale_tax(self, amount: int) -> int:
        """Return the tax on a gross sale value, gain or loss, rounded half up to whole VND."""
        return (amount * self.fees.sale_tax_ppm + PPM // 2) // PPM

    def dividend_tax(self, amount: int) -> int:
        """Return the tax withheld from a gross cash dividend, rounded half up to whole VND."""
        return (amount * self.fees.dividend_tax_ppm + PPM // 2) // PPM

    def settles_at(self, instrument: Instrument, trade_date: date) -> datetime:
        """Return when shares bought on `trade_date` may be sold and the cash of a sale arrives.

        13:00 local of T+2, in UTC. Raises CalendarEnds beyond the calendar.
        """
        kind, settlement = instrument.kind, self.settlement
        if kind not in settlement.days:
            raise NoRule(f"settlement of {kind}")
        day = self.calendar.add_trading_days(trade_date, settlement.days[kind])
        return instant_of(day, settlement.delivered_at)
