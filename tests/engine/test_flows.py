"""Sums of fills, compared with a plain sum over all of them after every fill and every read."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from bot.domain.local_time import instant_of, local_date
from bot.engine.flows import Flow, Flows

START = datetime(2026, 11, 19, 2, 30, tzinfo=UTC)
STEP = timedelta(hours=3)
ACCOUNTS, SYMBOLS = ("A", "B"), ("HPG", "SHS")


@dataclass
class Ledger:
    """The index beside the list that it stands for; a read that comes late was asked for early.

    `in_doubt_to`: what settles until then may be in the figures of what had been traded by then.
    """

    flows: Flows = field(default_factory=Flows)
    all: list[Flow] = field(default_factory=list)
    asked_at: dict[str, datetime] = field(default_factory=dict)
    in_doubt_to: dict[tuple[str, str | None], datetime] = field(default_factory=dict)
    now: datetime = START

    def fill(self, number: int) -> None:
        is_buy, settles = number % 2 == 0, self.now + STEP * (number % 7)
        paid, got = (number, 0) if is_buy else (0, number)
        account, symbol = ACCOUNTS[number // 2 % 2], SYMBOLS[number // 4 % 2]
        flow = Flow(self.now, account, symbol, paid, got, got, paid, settles)
        self.flows.add(flow)
        self.all.append(flow)
        for key in ((account, None), (account, symbol)):
            self.in_doubt_to.setdefault(key, START - 9 * STEP)

    def read(self, number: int) -> None:
        account, asked_at = ACCOUNTS[number % 2], self.now - STEP * (number // 2 % 3)
        self.asked_at[account] = asked_at
        lacking = [symbol for bit, symbol in enumerate((None, *SYMBOLS)) if number >> bit & 1]
        self.flows.forget(account, asked_at, lacking)
        day_end = instant_of(local_date(asked_at) + timedelta(days=1), time())
        for key in self.in_doubt_to:
            if key[0] == account:
                self.in_doubt_to[key] = asked_at if key[1] in lacking else day_end
        self.all = [
            flow
            for flow in self.all
            if flow.account != account or asked_at < max(flow.at, flow.settles_at)
        ]

    def wait(self, number: int) -> None:
        self.now += STEP * (number % 4)

    def require_equal(self) -> None:
        for account in ACCOUNTS:
            asked_at = self.asked_at.get(account, START - STEP)
            mine = [flow for flow in self.all if flow.account == account]

            def come(symbol, mine=mine, account=account, asked_at=asked_at):
                since = max(asked_at, self.in_doubt_to.get((account, symbol), asked_at))
                return [one for one in mine if since < one.settles_at <= self.now]

            gone = [flow for flow in mine if flow.at > asked_at]
            cash = sum(one.cash_in for one in come(None)) - sum(one.cash_out for one in gone)
            assert self.flows.cash(account, asked_at, self.now) == cash
            since = {flow.symbol for flow in self.all if flow.at > asked_at}
            assert self.flows.symbols_since(asked_at) == since
            for symbol in SYMBOLS:
                shares = sum(one.shares_in for one in come(symbol) if one.symbol == symbol)
                shares -= sum(one.shares_out for one in gone if one.symbol == symbol)
                assert self.flows.shares(account, symbol, asked_at, self.now) == shares
                ahead = [
                    one.settles_at
                    for one in mine
                    if one.symbol == symbol and one.shares_in and asked_at < one.settles_at
                    if one.settles_at > self.now or one not in come(symbol)
                ]
                found = self.flows.next_delivery(account, symbol, self.now)
                assert found == min(ahead, default=None)


@given(
    st.lists(
        st.tuples(
            st.sampled_from((Ledger.fill, Ledger.fill, Ledger.read, Ledger.wait)),
            st.integers(1, 60),
        ),
        max_size=30,
    )
)
@example([(Ledger.read, 6), (Ledger.fill, 28)])
def test_they_lack_what_a_sum_over_all_fills_lacks(steps):
    ledger = Ledger()

    for step, number in steps:
        step(ledger, number)
        ledger.require_equal()


def test_what_was_before_a_start_counts_in_any_order():
    bought = [
        Flow(START + number * STEP, "A", "HPG", 10**number, 0, 0, 1, START + 9 * STEP)
        for number in range(3)
    ]
    flows = Flows()

    flows.restore(reversed(bought))

    assert flows.cash("A", START, START + 2 * STEP) == -110
