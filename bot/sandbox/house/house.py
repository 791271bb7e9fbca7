"""The brokerage house: everything that the ledger can rebuild.

Accounts, orders, exchanges, simulated market, OTP issuer and faults change only through market time
(`advance`) and inputs (`carry_out`). An input is a ledger line; the same lines with the same
scenario and seed give the same house. What is due at one instant happens in a fixed order: the
exchange's own boundaries, its halts, faults, settlement, the boards' new day, shares going ex, then
the other investors.

The next due instant is needed with every request, so it is cached. It changes only with a step of
time (`_run`), a trade, an input other than an order, or a shown quote; each of these clears the
cache. Time that passes up to it does not change it, nor does an order before it trades.
"""

from collections import deque
from collections.abc import Callable
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Final, cast

from pydantic import JsonValue, TypeAdapter

from bot.domain.errors import CalendarEnds
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.quote import Quote
from bot.domain.rulebook import Rulebook
from bot.protocol.values.border import AmendRequest, PlaceRequest
from bot.sandbox.exchange.accounts import Account
from bot.sandbox.exchange.message import Listing, Traded
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.faults.rules import FaultRules
from bot.sandbox.faults.script import DropTwoFactor, FaultScript
from bot.sandbox.house.corporate_actions import MORNING, CorporateActions
from bot.sandbox.house.day_order_book import DayOrderBook
from bot.sandbox.house.ledger import Line
from bot.sandbox.house.order_entry import Change, OrderEntry
from bot.sandbox.house.order_record import OrderRecord, Rejection
from bot.sandbox.house.two_factor import OtpIssuer, given_of
from bot.sandbox.markets.mirror.market import OBSERVATIONS, MirroredMarket
from bot.sandbox.markets.recorder import Recorder
from bot.sandbox.markets.simulated import simulated_market
from bot.sandbox.markets.source import MarketAccess
from bot.sandbox.scenario import AccountScript, Scenario

_Place: Final = TypeAdapter(PlaceRequest)
_Amend: Final = TypeAdapter(AmendRequest)
_Rejection: Final = TypeAdapter(Rejection)
_ORDERS: Final = frozenset({"place", "amend", "cancel"})
_OTHER_INPUTS: Final = frozenset(
    {"otp_request", "otp_verify", "otp_revoke", "drop_2fa", "add_fault", "end_faults", "fault"}
)


class House:
    """All state of the broker and of its exchanges."""

    def __init__(self, scenario: Scenario, rulebook: Rulebook) -> None:
        self.scenario = scenario
        self.rulebook = rulebook
        self.venue = Venue(rulebook, _listings(scenario), start=scenario.starts_at)
        self.accounts = {script.id: self._account(script) for script in scenario.accounts}
        self.recorder = Recorder(
            self.venue, [each.symbol for each in scenario.symbols], start=scenario.starts_at
        )
        self.day_order_book = DayOrderBook(
            self.venue, self.accounts, on_trade=self._note_trade, holds=self._holds
        )
        self.order_entry = OrderEntry(
            scenario,
            rulebook=rulebook,
            venue=self.venue,
            accounts=self.accounts,
            day_order_book=self.day_order_book,
            holds=self._holds,
        )
        self.otp = OtpIssuer(given_of(scenario))
        self.faults = FaultRules(
            seed=scenario.seed, at_time=scenario.at, state_of=self._status_in_path
        )
        self.forced = Forced(scenario, faults=self.faults, otp=self.otp)
        self._corporate_actions = CorporateActions(
            scenario.corporate_actions,
            rulebook=rulebook,
            venue=self.venue,
            accounts=self.accounts,
            since=scenario.starts_at,
        )
        access = MarketAccess(rulebook, self.venue, self.day_order_book.apply)
        self.mirror: MirroredMarket | None = None
        if scenario.fill is not None:
            release, start = self.day_order_book.release, scenario.starts_at
            self.mirror = MirroredMarket(
                scenario.fill, scenario.symbols, access, release=release, start=start
            )
        self._market = self.mirror or simulated_market(scenario, access)
        self._halts = deque(_halts(scenario))
        self._halted: set[str] = set()
        self.on_day_over: Callable[[], None] | None = None
        """Called when a day of the boards has ended, before the next one begins."""
        self._day_over: date | None = None
        self._due: datetime | None = None
        for fault in scenario.faults:
            self.faults.add(fault)
        self._halt_for_good()

    def __getstate__(self) -> dict[str, object]:
        """Leave out the day-over callback; the new owner of a checkpoint sets it again."""
        return {**self.__dict__, "on_day_over": None}

    def _account(self, script: AccountScript) -> Account:
        account = Account(self.rulebook, cash=script.cash, fee_ppm=self.scenario.fee_ppm)
        references = {each.symbol: each.reference for each in self.scenario.symbols}
        for symbol, quantity in script.holdings.items():
            account.deposit_shares(symbol, quantity, cost_price=references[symbol])
        return account

    def _holds(self, symbol: str) -> bool:
        return self.mirror is not None and self.mirror.holds(symbol)

    def _note_trade(self, trade: Traded) -> None:
        self._due = None
        self.recorder.record(trade)
        self.forced.note_trade(trade.symbol, (trade.buy_order_id, trade.sell_order_id), trade.at)
        if self.mirror is not None:
            self.mirror.note_trade(trade)

    def fidelity(self, order_id: str) -> str:
        """Describe how true to the mirrored market an order's state is, by its current id."""
        order = self.day_order_book.find(order_id)
        assert self.mirror is not None, "only a mirrored market has a fidelity"
        return self.mirror.fidelity(order.order_id if order else order_id)

    def _note_arrival(self, order: OrderRecord) -> None:
        if self.mirror is not None:
            self.mirror.note_arrival(order.order_id, order.symbol)

    def _status_in_path(self, path: str) -> str | None:
        order = self.day_order_book.find(path.rpartition("/")[2])
        return order.status(self.scenario.switches) if order else None

    @property
    def now(self) -> datetime:
        """Market time up to which everything has been processed."""
        return self.venue.now

    def show(self, quote: Quote) -> None:
        """Update the board of a mirrored symbol in which we have no working order."""
        assert self.mirror is not None, "only a mirrored market is shown anything"
        self._due = None
        self.mirror.show(quote)

    def next_due(self) -> datetime:
        """Market time of the next thing that happens by itself; cached, see the module."""
        if self._due is None:
            self._due = self.earliest_due()
        return self._due

    def earliest_due(self) -> datetime:
        """Compute `next_due` without the cache."""
        settlements = (account.next_settlement() for account in self.accounts.values())
        due = (self._market.next_due(), self.venue.next_boundary(self.now), self.faults.due_at())
        halt = self._halts[0][0] if self._halts else None
        others = (*settlements, self._morning(), self._corporate_actions.next_due(), halt)
        return min(at for at in (*due, *others) if at is not None)

    def _morning(self) -> datetime | None:
        """Return when the boards next begin a day, before orders are taken for it; None where
        another market's quotes say so, and at the end of the calendar.
        """
        if self.mirror is not None:
            return None
        try:
            day = self.rulebook.calendar.next_trading_day(self.venue.board_day)
        except CalendarEnds:
            return None
        return datetime.combine(day, MORNING)

    def advance(self, to: datetime) -> None:
        """Process everything due by `to`; an instant in the past changes nothing."""
        now = self.venue.now
        if to > now:
            while (due := self.next_due()) <= to:
                self._run(max(due, self.now))
            self.day_order_book.apply(self.venue.advance(to))
        elif self.next_due() <= now:
            # An input, or a late look, has made something due at this very instant.
            self._run(now)
        else:
            self.recorder.look(now)

    def _run(self, at: datetime) -> None:
        self._due = None
        day = self.venue.board_day
        is_over = day != self._day_over and at.astimezone(EXCHANGE_TZ).date() > day
        if self.on_day_over is not None and is_over:
            self._day_over = day
            self.on_day_over()
        self.recorder.look(at)
        self.day_order_book.apply(self.venue.advance(at))
        while self._halts and self._halts[0][0] <= at:
            _, symbol, begins = self._halts.popleft()
            if begins:
                self.venue.halt(symbol)
                self._halted.add(symbol)
            else:
                self.day_order_book.apply(self.venue.resume(symbol, at))
                self._halted.discard(symbol)
        for rule in self.faults.pop_due(at):
            if isinstance(rule.script.action, DropTwoFactor):
                self.otp.drop(rule.script.action.code)
        for account in self.accounts.values():
            account.settle(at)
        if (morning := self._morning()) is not None and morning <= at:
            self.venue.start_day(at)
            self._halt_for_good()
        self._corporate_actions.run_due(at)
        while self._market.next_due() <= at:
            self._market.run_next()

    def _halt_for_good(self) -> None:
        """Halt what the scenario halts for the whole run: on the exchange a day ends a halt."""
        for script in self.scenario.symbols:
            if script.is_halted:
                self.venue.halt(script.symbol)

    def is_input(self, line: Line) -> bool:
        """Return whether a replay carries out this ledger line."""
        kind = line.get("kind")
        is_observation = self.mirror is not None and kind in OBSERVATIONS
        return kind in _ORDERS or kind in _OTHER_INPUTS or is_observation

    def carry_out(self, line: Line) -> Change | None:
        """Carry out an input line at its market time; None where no order is changed."""
        self.advance(datetime.fromisoformat(str(line["at"])))
        kind = str(line["kind"])
        if kind not in _ORDERS:
            self._due = None
        match kind:
            case "place":
                account = next(
                    each for each in self.scenario.accounts if each.id == line["account"]
                )
                return self._place(account, _Place.validate_python(line["body"]), line)
            case "amend":
                order = self._order(str(line["order"]))
                change = self.order_entry.amend(
                    order, _Amend.validate_python(line["body"]), self.now
                )
                self._note_arrival(order)
                return change
            case "cancel":
                return self.order_entry.cancel(self._order(str(line["order"])), self.now)
            case "otp_request":
                self.otp.request(_wire(line))
            case "otp_verify":
                is_right = line["right"] is True
                self.otp.verify(str(line["ticket"]), _wire(line), is_right=is_right)
            case "otp_revoke":
                self.otp.revoke_number(str(line["number"]))
            case "drop_2fa":
                self.otp.drop(str(line["code"]))
            case "add_fault":
                self.faults.add(FaultScript.model_validate(line["script"]))
            case "end_faults":
                self.faults.end_all()
            case "fault":
                first = line["first"]
                self.faults.restore(
                    int(str(line["rule"])),
                    seen=int(str(line["seen"])),
                    struck=int(str(line["struck"])),
                    first_struck=datetime.fromisoformat(str(first)) if first else None,
                )
            case _:
                assert self.mirror is not None, "only a mirrored market observes"
                self.mirror.take(line)
        return None

    def place(
        self, account: AccountScript, body: PlaceRequest, at: datetime, scripted: Line
    ) -> Change:
        """Carry out what would be a `place` line with these values; `scripted` is
        what faults want.
        """
        self.advance(at)
        return self._place(account, body, scripted)

    def _place(self, account: AccountScript, body: PlaceRequest, scripted: Line) -> Change:
        reject = scripted.get("reject")
        rejection = None if reject is None else _Rejection.validate_python(reject)
        result = self.order_entry.place(account, body, self.now, scripted=rejection)
        if (hidden_s := scripted.get("hide_s")) is not None:
            order = self._order(result.order_id)
            order.hidden_until = self.now + timedelta(seconds=float(str(hidden_s)))
        if rejection is not None or (body.symbol in self._halted and result.status == "REJECTED"):
            self.forced.note_order(result.order_id)
        if result.order_id:
            self._note_arrival(self._order(result.order_id))
        return Change(result)

    def _order(self, order_id: str) -> OrderRecord:
        order = self.day_order_book.find(order_id)
        assert order is not None, "an input names an order that exists"
        return order

    def forget_outcomes(self) -> None:
        """Discard the outcomes of orders and accounts since the last call."""
        self.day_order_book.take_changed()

    def take_outcomes(self) -> list[dict[str, JsonValue]]:
        """Return the outcomes of orders and accounts since the last call, as ledger lines."""
        changed = self.day_order_book.take_changed()
        if not changed:
            return []
        at = self.now.isoformat()
        switches = self.scenario.switches
        lines: list[dict[str, JsonValue]] = [
            {"kind": "order", "at": at, **order.facts(switches)} for order in changed
        ]
        traded = dict.fromkeys(order.account.id for order in changed if order.executed_quantity)
        for each in traded:
            record = cast("JsonValue", self.accounts[each].to_record())
            lines.append({"kind": "account", "at": at, "account": each, "record": record})
        return lines


def _listings(scenario: Scenario) -> list[Listing]:
    return [
        Listing(
            script.instrument,
            script.reference,
            is_special=script.is_special,
            underlying=script.underlying,
            ratio=None if script.ratio is None else Fraction(script.ratio),
        )
        for script in scenario.symbols
    ]


def _halts(scenario: Scenario) -> list[tuple[datetime, str, bool]]:
    """Return starts and ends of the scripted halts by time, without past ones."""
    found = []
    for script in scenario.symbols:
        for halt in script.halts:
            if scenario.at(halt.until) > scenario.starts_at:
                found.append((max(scenario.at(halt.at), scenario.starts_at), script.symbol, True))
                found.append((scenario.at(halt.until), script.symbol, False))
    return sorted(found)


def _wire(line: Line) -> datetime:
    return datetime.fromisoformat(str(line["wire"]))


_STRUCK_MAX: Final = 1_000


class Forced:
    """Records which requests and orders were affected by faults."""

    def __init__(self, scenario: Scenario, *, faults: FaultRules, otp: OtpIssuer) -> None:
        self.scenario = scenario.name
        self._faults, self._otp = faults, otp
        self._struck: deque[str] = deque(maxlen=_STRUCK_MAX)
        self._orders: set[str] = set()
        self._still = {
            script.symbol: [(scenario.at(each.at), scenario.at(each.until)) for each in standstills]
            for script in scenario.symbols
            if (standstills := script.standstills)
        }

    def note_request(self, nonce: str) -> None:
        """A fault has struck the request with this nonce."""
        self._struck.append(nonce)

    def note_order(self, order_id: str) -> None:
        """A fault, or a scripted halt, has refused the order."""
        self._orders.add(order_id)

    def note_trade(self, symbol: str, order_ids: tuple[str, ...], at: datetime) -> None:
        """Orders have traded; if only scripted levels were waiting, the trade counts as forced."""
        if any(start <= at < end for start, end in self._still.get(symbol, ())):
            self._orders.update(order_ids)

    def struck(self, nonce: str) -> bool:
        return nonce in self._struck

    def shaped(self, order_id: str) -> bool:
        """Return whether a fault refused the order, or it traded only with scripted levels."""
        return order_id in self._orders

    @property
    def took_the_token(self) -> bool:
        """True while the newest 2FA token has been ended by a fault."""
        return self._otp.is_dropped

    def limits(self, at: datetime) -> bool:
        """Return whether a 429 that a fault began still lasts."""
        return self._faults.limits(at)
