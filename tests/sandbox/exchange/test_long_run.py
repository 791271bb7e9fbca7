"""Many random operations: the venue against the plain list, seeded. A sample runs with the suite.

    python -m tests.sandbox.exchange.test_long_run [operations] [seed]      100,000, seed 4

Each story is a day, or a part of one: an opening auction, continuous trading, a closing auction, or
the periodic auctions of a restricted symbol. After every operation venue and list hold the same
orders, with the same prices and open parts, and made the same trades; outside auctions no book is
crossed, and whatever traded is on a tick and in the band.
"""

import sys
from collections import Counter
from random import Random
from typing import Final

from bot.domain.instrument import Exchange, Instrument
from bot.domain.status import Administration, SymbolStatus
from bot.sandbox.exchange.message import Listing, Traded
from tests.proofs import undone
from tests.sandbox.exchange.slow_market import SlowMarket
from tests.sandbox.exchange.stage import REFERENCES, SYMBOLS, Stage, only
from tests.sandbox.exchange.test_against_the_slow_market import TICKS, Both, as_rows

Action = tuple[str, str, int, int]

STEPS: Final = (-4, -3, -2, -1, 0, 0, 1, 2, 3, 4, -99, 99)
CONTINUOUS: Final = {
    Exchange.HNX: ("LO", "LO", "LO", "LO", "MTL", "MAK", "MOK"),
    Exchange.HOSE: ("LO", "LO", "LO", "LO", "MTL"),
}
CHANGES: Final = ("cancel", "price", "quantity")
RESTRICTED: Final = SymbolStatus(Administration.RES)
PERIODS: Final = ("09:30", "09:45", "10:00", "10:15", "10:30", "10:45", "11:00", "11:15", "11:30")


class Restricted(Both):
    """A restricted HOSE symbol, matched in periodic auctions."""

    def __init__(self, at: str) -> None:
        self.exchange, self.symbol = Exchange.HOSE, SYMBOLS[Exchange.HOSE]
        instrument = Instrument(self.symbol, Exchange.HOSE, status=RESTRICTED)
        self.stage = Stage(at, Listing(instrument, REFERENCES[self.symbol]))
        self.slow = SlowMarket(TICKS[Exchange.HOSE], REFERENCES[self.symbol])


class LongRun:
    """Stories one after another until enough operations are done."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.counts: Counter[str] = Counter()
        self._number = 0

    def run(self, operations: int) -> Counter[str]:
        stories = (self.hose_morning, self.hnx_afternoon, self.hose_afternoon, self.periodic)
        while self.counts["operations"] < operations:
            self.random.choice(stories)()
        return self.counts

    # -------------------------------------------------------------------------------- stories

    def hose_morning(self) -> None:
        both = Both("09:00", Exchange.HOSE)
        self._collect(both, "AO")
        both.uncross("09:15")
        self._trade(both)
        self._finish(both)

    def hose_afternoon(self) -> None:
        self._afternoon(Both("13:30", Exchange.HOSE))

    def hnx_afternoon(self) -> None:
        self._afternoon(Both("13:30", Exchange.HNX))

    def _afternoon(self, both: Both) -> None:
        self._trade(both)
        both.stage.at("14:30")
        self._collect(both, "ATC")
        both.uncross("14:45")
        self._finish(both)

    def periodic(self) -> None:
        both = Restricted("09:15")
        for end in PERIODS:
            self._collect(both, None)
            both.uncross(end)
            assert both.rows() == as_rows(both.stage.venue.open_orders()) or end == PERIODS[-1]
        self._finish(both)

    # ----------------------------------------------------------------------------- operations

    def _trade(self, both: Both) -> None:
        kinds = CONTINUOUS[both.exchange] + CHANGES
        for _ in range(self.random.randint(20, 120)):
            both.work(self._next(), self._action(kinds))

    def _collect(self, both: Both, unpriced: str | None) -> None:
        kinds = ("LO", "LO", "LO", unpriced) if unpriced else ("LO",)
        for _ in range(self.random.randint(0, 16)):
            self._gather(both, f"o{self._next()}", self._action(kinds))

    def _gather(self, both: Both, name: str, action: Action) -> None:
        """As `Both.collect`, with the closing auction of HOSE too."""
        kind, side, lots, step = action
        price = TICKS[both.exchange][self._index(both.exchange, step)] if kind == "LO" else None
        word = "ATO" if kind == "AO" else kind
        both.slow.orders.append(both.slow.new(name, side, word, price, lots))
        line = f"{both.symbol} {side} {lots} {word} {price or ''}"
        assert both.stage.venue.refusal(both.stage.order(line)) is None
        both.stage.submit(line, name=name)

    def _index(self, exchange: Exchange, step: int) -> int:
        ticks = TICKS[exchange]
        middle = ticks.index(REFERENCES[SYMBOLS[exchange]])
        return min(max(middle + step, 0), len(ticks) - 1)

    def _action(self, kinds: tuple[str, ...]) -> Action:
        random, kind = self.random, self.random.choice(kinds)
        self.counts[kind] += 1
        lots = 100 * random.randint(1, 6)
        step = random.choice(STEPS)
        which = random.randint(0, 9) if kind in CHANGES else random.choice(("BUY", "SELL"))
        return kind, which, lots, step  # type: ignore[return-value]

    def _next(self) -> int:
        self._number += 1
        self.counts["operations"] += 1
        return self._number

    def _finish(self, both: Both) -> None:
        trades = only(both.stage.all, Traded)
        self.counts["stories"] += 1
        self.counts["trades"] += len(trades)
        self.counts["shares traded"] += sum(trade.quantity for trade in trades)
        assert {trade.price for trade in trades} <= set(TICKS[both.exchange])


def test_the_venue_does_what_the_plain_list_does():
    counts = LongRun(seed=4).run(2_000)

    assert counts["operations"] >= 2_000
    assert counts["trades"] >= 500


def main(operations: int = 100_000, seed: int = 4) -> int:
    """Do so many; a disagreement is an error."""
    counts = LongRun(seed).run(operations)
    shown = "\n".join(f"  {name:14} {number:11,}" for name, number in counts.most_common())
    nothing = undone(operations=counts["operations"], trades=counts["trades"])
    sys.stdout.write("\n".join((f"seed {seed}: venue and plain list agree", shown, *nothing, "")))
    return 1 if nothing else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
