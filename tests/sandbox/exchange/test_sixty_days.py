"""Sixty days of random trading between accounts: every dong and every share is explained.

    python -m tests.sandbox.exchange.test_sixty_days [days] [seed]      60 days, seed 4

Investors trade with one another alone, so nothing may come in or go out but fees and taxes, and
dividends and new shares at random. They place, amend and cancel at random, in all phases; symbols
are halted and resumed; books lapse. At many instants, 12:59:59 and 13:00 of each day among them,
each account is compared with a ledger that is worked out from the list of trades.
"""

import sys
from collections import Counter
from datetime import date, datetime, timedelta
from random import Random
from typing import Any, Final

from pydantic import TypeAdapter

from bot.domain.order import Side
from bot.sandbox.exchange.accounts import Account
from bot.sandbox.exchange.message import NewOrder, OrderLapsed, Traded, VenueEvent
from bot.sandbox.house.corporate_actions import CorporateAction, CorporateActions
from tests.proofs import undone
from tests.sandbox.exchange.slow_ledger import FEE_PPM, Deal, Gift, SlowLedger
from tests.sandbox.exchange.stage import REFERENCES, Stage, local, only, rules

FIRST_DAY: Final = date(2026, 8, 24)
"""The National Day holidays, 31 August to 2 September, fall into the first settlements."""
INVESTORS: Final = ("ann", "bob", "cam", "dan")
CASH, SHARES = 200_000_000, 4_000
UNEXPLAINED: Final = ("VND unexplained", "shares unexplained")
CHECKS: Final = ("08:30", "10:07", "12:59:59", "13:00", "14:40", "15:30")
ACTION: Final[TypeAdapter[CorporateAction]] = TypeAdapter(CorporateAction)
TERMS_OF: Final = {
    "cash_dividend": {"vnd_per_share": (1, 2_000)},
    "stock_dividend": {"new": (1, 30), "held": (100, 100)},
    "bonus_shares": {"new": (1, 1), "held": (3, 30)},
    "rights_issue": {"new": (1, 1), "held": (2, 5), "price": (10_000, 10_000)},
}
OPENING, CLOSING = 9 * 60, 15 * 60
TYPES: Final = ("LO",) * 24 + ("MTL", "MTL", "ATO", "ATC", "PLO", "MAK", "MOK")
QUANTITIES: Final = (100, 100, 200, 200, 300, 300, 500, 500, 1_000, 2_000, 7, 50, 99, 150)


class SixtyDays:
    """Four investors, three symbols, one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.counts: Counter[str] = Counter()
        self.stage = Stage("08:00", day=FIRST_DAY)
        self.accounts = {name: Account(rules(), cash=CASH, fee_ppm=FEE_PPM) for name in INVESTORS}
        self.ledgers = {
            name: SlowLedger(rules().calendar, CASH, dict.fromkeys(REFERENCES, SHARES))
            for name in INVESTORS
        }
        for account in self.accounts.values():
            for symbol, price in REFERENCES.items():
                account.deposit_shares(symbol, SHARES, cost_price=price)
        self.owners: dict[str, str] = {}
        self.actions: CorporateActions | None = None

    def announce(self, days: int) -> None:
        """Draw what will go ex: one action in three days, at least 8."""
        dates, calendar = [FIRST_DAY], rules().calendar
        while len(dates) <= days:
            dates.append(calendar.next_trading_day(dates[-1]))
        chosen = self.random.choices(dates[1:], k=max(8, days // 3))
        drawn = [
            self._drawn(ex_date, list(TERMS_OF)[n % len(TERMS_OF)])
            for n, ex_date in enumerate(chosen)
        ]
        self.actions = CorporateActions(
            [ACTION.validate_python(action) for action in drawn],
            rulebook=rules(),
            venue=self.stage.venue,
            accounts=self.accounts,
            since=self.stage.now,
        )
        for ledger in self.ledgers.values():
            ledger.gifts = [gift for action in drawn if (gift := _gift(action)) is not None]
        self.counts.update(action["do"] for action in drawn)

    def _drawn(self, ex_date: date, do: str) -> dict[str, Any]:
        paid = ex_date + timedelta(days=self.random.randint(1, 20))
        symbol = self.random.choice(list(REFERENCES))
        terms = {name: self.random.randint(*bounds) for name, bounds in TERMS_OF[do].items()}
        return {"do": do, "symbol": symbol, "ex_date": ex_date, "pays_on": paid, **terms}

    def run(self, days: int, operations_a_day: int) -> Counter[str]:
        day = FIRST_DAY
        self.announce(days)
        for _ in range(days):
            self._live_through(day, operations_a_day)
            day = rules().calendar.next_trading_day(day)
        self._reach(local("16:00", rules().calendar.add_trading_days(day, 15)))
        self.check()
        self.counts["days"] = days
        self.counts["VND of fees and taxes"] = sum(a.fees + a.taxes for a in self.accounts.values())
        self.counts["VND of dividends"] = sum(a.dividends for a in self.accounts.values())
        return self.counts

    def _live_through(self, day: date, operations: int) -> None:
        moments = [(local(text, day), True) for text in CHECKS]
        for _ in range(operations):
            minute = self.random.randint(OPENING, CLOSING)
            at = local("00:00", day) + timedelta(minutes=minute, seconds=self.random.randint(0, 59))
            moments.append((at, False))
        for at, is_check in sorted(moments):
            self._reach(at)
            if is_check:
                self._resume_all()
                self.check()
            else:
                self._operate()
        assert self.stage.venue.open_orders() == []
        assert all(account.secured == 0 for account in self.accounts.values())

    def _reach(self, at: datetime) -> None:
        """Let the market come to an instant, and every account settle at each delivery on the way.

        A delivery at the very instant of a trade comes first, as in the house.
        """
        assert self.actions is not None, "actions are announced before the first day"
        while (due := self.actions.next_due()) is not None and due <= at:
            self._settle(due)
            self.actions.run_due(due)
        self._settle(at)

    def _settle(self, at: datetime) -> None:
        self.stage.now = at
        self._book(self.stage.venue.advance(at))
        for account in self.accounts.values():
            account.settle(at)

    # ----------------------------------------------------------------------------- operations

    def _operate(self) -> None:
        self.counts["operations"] += 1
        deed = self.random.choices(
            (self._place, self._cancel, self._amend, self._halt), (60, 12, 18, 2)
        )[0]
        deed()

    def _place(self) -> None:
        random, venue = self.random, self.stage.venue
        symbol, owner = random.choice(list(REFERENCES)), random.choice(INVESTORS)
        board, kind = venue.board(symbol), random.choice(TYPES)
        side, quantity = random.choice(list(Side)), random.choice(QUANTITIES)
        price = self._price(symbol) if kind == "LO" else ""
        order = self.stage.order(f"{symbol} {side} {quantity} {kind} {price}", owner=owner)
        account = self.accounts[owner]
        if venue.refusal(order) or account.can_place(order, board):
            self.counts["refused"] += 1
            return
        self.owners[order.order_id] = owner
        account.reserve(order, board)
        self.counts["placed"] += 1
        self._book(venue.submit(order, self.stage.now))
        self._check_order(order)

    def _price(self, symbol: str) -> int:
        board = self.stage.venue.board(symbol)
        price = board.last or board.reference
        for _ in range(self.random.randint(0, 3)):
            ticks = rules().ticks_of(board.instrument)
            price = self.random.choice((ticks.up, ticks.down))(price)
        return price

    def _check_order(self, order: NewOrder) -> None:
        live = self.stage.venue.order(order.order_id)
        assert live is None or 0 < live.remaining <= order.quantity

    def _cancel(self) -> None:
        live = self.stage.venue.open_orders()
        if live:
            order = self.random.choice(live)
            self._book(self.stage.venue.cancel(order.order_id, self.stage.now))
            self.counts["cancels"] += 1

    def _amend(self) -> None:
        live = self.stage.venue.open_orders()
        if not live:
            return
        order, venue = self.random.choice(live), self.stage.venue
        price = self._price(order.symbol) if self.random.random() < 0.6 else None
        quantity = None if price else self.random.choice(QUANTITIES)
        account = self.accounts[self.owners[order.order_id]]
        if venue.amend_refusal(order.order_id, price=price, quantity=quantity):
            return
        change = (quantity or order.quantity) - order.quantity
        if account.can_amend(order.order_id, price=price, quantity_change=change) is None:
            now = self.stage.now
            self._book(venue.amend(order.order_id, now, price=price, quantity=quantity))
            self.counts["amendments"] += 1

    def _halt(self) -> None:
        symbol, venue = self.random.choice(list(REFERENCES)), self.stage.venue
        if venue.board(symbol).is_halted:
            self._book(venue.resume(symbol, self.stage.now))
        else:
            venue.halt(symbol)
        self.counts["halts and resumptions"] += 1

    def _resume_all(self) -> None:
        for symbol in REFERENCES:
            self._book(self.stage.venue.resume(symbol, self.stage.now))

    # ------------------------------------------------------------------------------- booking

    def _book(self, events: list[VenueEvent]) -> None:
        for event in events:
            for account in self.accounts.values():
                account.apply(event)
        for trade in only(events, Traded):
            self._note(trade)
        self.counts["lapses"] += len(only(events, OrderLapsed))

    def _note(self, trade: Traded) -> None:
        day, amount = (
            trade.at.astimezone(self.stage.now.tzinfo).date(),
            trade.price * trade.quantity,
        )
        for order_id, is_buy in ((trade.buy_order_id, True), (trade.sell_order_id, False)):
            deal = Deal(order_id, trade.symbol, is_buy, day, trade.quantity, amount)
            self.ledgers[self.owners[order_id]].deals.append(deal)
        self.counts["trades"] += 1
        self.counts["shares traded"] += trade.quantity

    # ------------------------------------------------------------------------------ checking

    def check(self) -> None:
        """Compare each account with its ledger, and all of them with what there was at first."""
        for name, account in self.accounts.items():
            self._compare(account, self.ledgers[name])
        self.counts["comparisons"] += 1
        self.counts["VND unexplained"] += abs(self._money() - CASH * len(INVESTORS))
        for symbol in REFERENCES:
            held = sum(ledger.held(symbol) for ledger in self.ledgers.values())
            given = sum(one.promised_at(symbol, self.stage.now) for one in self.ledgers.values())
            total = sum(self._total(account, symbol) for account in self.accounts.values())
            self.counts["shares unexplained"] += abs(total - given - SHARES * len(INVESTORS))
            assert held + given == total

    def _compare(self, account: Account, ledger: SlowLedger) -> None:
        now = self.stage.now
        assert account.cash == ledger.cash_at(now)
        assert account.fees + account.taxes == ledger.charges()
        assert account.cash >= account.secured >= 0
        assert account.figures(now.date()).dividends_due == ledger.dividends_due(now)
        views = {view.symbol: view for view in account.holdings(now.date())}
        for symbol in REFERENCES:
            given = ledger.promised_at(symbol, now)
            assert self._total(account, symbol) == ledger.held(symbol) + given
            if symbol in views:
                view = views[symbol]
                assert view.sellable >= 0
                assert view.sellable + view.selling == ledger.settled_at(symbol, now)

    def _money(self) -> int:
        """What there is, as if nothing had come in by dividends or gone out by charges."""
        accounts = self.accounts.values()
        worth = sum(each.net_assets(dict.fromkeys(REFERENCES, 0)) for each in accounts)
        charged = sum(each.fees + each.taxes + each.dividend_taxes for each in accounts)
        return worth + charged - sum(each.dividends for each in accounts)

    def _total(self, account: Account, symbol: str) -> int:
        views = account.holdings(self.stage.now.date())
        return sum(view.total for view in views if view.symbol == symbol)


def _gift(action: dict[str, Any]) -> Gift | None:
    """The action as the slow ledger knows it; a right that nobody uses gives nothing."""
    if action["do"] == "rights_issue":
        return None
    names = {"vnd_per_share": "vnd", "new": "new", "held": "held"}
    terms = {names[key]: value for key, value in action.items() if key in names}
    return Gift(action["symbol"], action["ex_date"], action["pays_on"], **terms)


def test_a_week_over_the_holidays_explains_every_dong_and_every_share():
    counts = SixtyDays(seed=4).run(6, operations_a_day=120)

    assert (counts["VND unexplained"], counts["shares unexplained"]) == (0, 0)
    assert counts["trades"] >= 50
    assert counts["amendments"] >= 5
    assert counts["VND of dividends"] > 0


def main(days: int = 60, seed: int = 4) -> int:
    """Live through so many; 0 when every dong and every share is explained."""
    counts = SixtyDays(seed).run(days, operations_a_day=250)
    shown = "\n".join(f"  {name:22} {number:13,}" for name, number in sorted(counts.items()))
    wrong = [f"NOT EXPLAINED {name}" for name in UNEXPLAINED if counts[name]]
    wrong += undone(trades=counts["trades"], comparisons=counts["comparisons"])
    said = "; ".join(wrong) or "accounts and ledgers agree"
    sys.stdout.write(f"seed {seed}: {said}\n{shown}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
