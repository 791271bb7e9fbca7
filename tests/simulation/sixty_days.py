"""Sixty short days of a busy bot in bad weather, killed now and then: every dong is explained.

    python -m tests.simulation.sixty_days [days] [seed]      60 days, seed 3

The real run (engine, order manager, client, journal) trades against one sandbox that lives through
all the days: some minutes in the morning and some after 13:00, when what was traded two days before
is delivered. Answers are lost, late, doubled, and up to 30 s old; requests meet 429, 5xx and
refusals; rows are hidden. Each run is a process of its own that may die at any commit or request
and is started again; the sandbox goes on here, from the lines that its ledger got meanwhile. At the
end the broker's account, its ledger of orders and the bot's journal must agree, no symbol may have
been halted, and the engine's own account must never have found a difference.
"""

import asyncio
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from bot.clock import SimulatedClock
from bot.config.rulebook import load_rulebook
from bot.config.scenario_file import load_scenario
from bot.config.settings.load import load_settings
from bot.domain.instrument import EXCHANGE_TZ
from bot.drill.oracle import faults_in, outcome_of
from bot.journal.reading.money import By, profit_of
from bot.journal.reading.reader import JournalReader
from bot.protocol.secret import Secret
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.runtime.state_dir import LEDGER
from bot.runtime.worlds.environment import Access, EnvironmentSpec
from bot.runtime.worlds.sandbox import SandboxEnvironment
from bot.sandbox.house.ledger import read_ledger
from bot.sandbox.sandbox import Sandbox
from tests.proofs import undone
from tests.simulation.simulate import in_child
from tests.simulation.test_storms import POINTS_MAX
from tests.simulation.weather import Weather
from tests.simulation.world import KILLED, Trap
from tests.story import Shown, write_project

FIRST_DAY: Final = date(2026, 8, 24)
"""The National Day holidays, 31 August to 2 September, fall into the first settlements."""
ACCOUNT: Final = "0009000011"
CASH, SHARES = 900_000_000, {"HPG": 2_000, "SHS": 2_000}
SPANS: Final = ((time(9, 20), timedelta(minutes=5)), (time(13, 5), timedelta(minutes=4)))
BAD: Final = timedelta(minutes=2)
"""How long the weather is bad in each span; a minute later the last wish is heard."""
QUIET: Final = time(9, 25)
"""When the bot begins once more, in fine weather and without a wish, to learn how all has ended."""
KILL_CHANCE = 0.5
SOME: Final = ("kills", "orders", "fills", "comparisons")
"""What some days must have had to show anything."""
BUSY: Final = """
from random import Random

from bot import Strategy


class Busy(Strategy):
    seed: int

    def on_quote(self, quote):
        if self.now.minute % 15 >= 8:
            return
        dice = Random(f"{self.seed}|{self.now}|{quote.symbol}")
        roll, tick = dice.random(), 50 if quote.symbol == "HPG" else 100
        if roll < 0.35:
            limit = quote.last + tick * dice.randint(-3, 3)
            self.buy(100 * dice.randint(1, 4), limit=limit, why="dice")
        elif roll < 0.55:
            self.close(why="dice")
        elif roll < 0.65:
            self.cancel(why="dice")
"""


class Lasting(SandboxEnvironment):
    """The sandbox of all days, behind weather and a trap."""

    def __init__(self, spec: EnvironmentSpec, days: "SixtyDays", trap: Trap) -> None:
        super().__init__(
            sandbox=days.sandbox,
            clock=days.clock,
            activity=spec.activity,
            port=None,
            speed=spec.loaded.settings.sandbox.speed,
        )
        self.story_start = days.clock.now()
        self._days, self._trap = days, trap

    async def open(self, _: AsyncExitStack, /) -> Access:
        days = self._days
        given = days.sandbox.credentials
        weather = Weather(days.sandbox.app, days.clock, days.fine_from, days.random)
        key, secret = Secret(given.api_key), Secret(given.api_secret)
        return Access("http://127.0.0.1:1", key, secret, self._trap.around(weather))

    def finish(self) -> None:
        """The end of a run is not the end of the days."""


@dataclass
class SixtyDays:
    """One folder, one seed; `sandbox` and `clock` outlive every run of the bot."""

    folder: Path
    seed: int
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = Random(f"sixty days {self.seed}")
        self.config = _project(self.folder, self.seed)
        loaded = load_settings(self.config)
        script = load_scenario(loaded.settings.sandbox.scenario, loaded.base_dir)
        self.clock = SimulatedClock(script.starts_at)
        self.rulebook = load_rulebook()
        self.sandbox = Sandbox(
            script,
            self.rulebook,
            clock=self.clock,
            wire=self.clock,
            ledger=loaded.state_dir / LEDGER,
        )
        self.ledger = loaded.state_dir / LEDGER
        self.fine_from = script.starts_at
        self.lines, self.kills = 0, 0
        self.last_day = FIRST_DAY

    def run(self, days: int) -> None:
        day = FIRST_DAY
        for _ in range(days):
            for start, span in SPANS:
                self._reach(datetime.combine(day, start, EXCHANGE_TZ).astimezone(UTC))
                self._live_through(span)
            self.last_day = day
            day = self.rulebook.calendar.next_trading_day(day)
        self._reach(datetime.combine(day, QUIET, EXCHANGE_TZ).astimezone(UTC))
        self.fine_from = self.clock.now()
        assert self._run(self.clock.now() + BAD, Trap(0)) == 0, f"seed {self.seed}"
        self.sandbox.close()

    def _reach(self, at: datetime) -> None:
        self.clock.advance_to(at)
        self.sandbox.advance(at)
        self.lines = len(read_ledger(self.ledger))

    def _live_through(self, span: timedelta) -> None:
        """Run the bot to the end of a span, however often it is killed in it."""
        end = self.clock.now() + span
        self.fine_from = self.clock.now() + BAD
        while self.random.random() < KILL_CHANCE and self.clock.now() < self.fine_from:
            code = self._run(end, Trap(self.random.randint(1, POINTS_MAX)))
            assert code in {0, KILLED}, f"seed {self.seed}"
            self.kills += code == KILLED
        assert self._run(end, Trap(0)) == 0, f"seed {self.seed}"

    def _run(self, end: datetime, trap: Trap) -> int:
        """Run the bot in a child until it ends or dies, and catch up with what it has done."""
        left = max(end - self.clock.now(), timedelta(minutes=2))
        options = RunOptions(run_for=left, answer_otp_after=timedelta(seconds=20))
        self.random = Random(self.random.random())

        def make(spec: EnvironmentSpec) -> Lasting:
            return Lasting(spec, self, trap)

        def work() -> None:
            trap.watch_commits()
            asyncio.run(run_bot(load_settings(self.config), options, Shown(), make=make))

        code = in_child(work)
        self._catch_up()
        return code

    def _catch_up(self) -> None:
        """Do what the child's sandbox did, as a sandbox does that starts over its ledger."""
        lines = read_ledger(self.ledger)
        for line in lines[self.lines :]:
            self.sandbox._replay_line(line)
        self.lines = len(lines)
        self.sandbox._house.take_outcomes()
        self.clock.advance_to(self.sandbox.now)

    # ------------------------------------------------------------------------------- judging

    def faults(self) -> list[str]:
        """Return all that is not explained; nothing when all is well."""
        outcome = outcome_of(self.folder / "state")
        fills = outcome.rows("select * from fills")
        notes = outcome.rows("select text from notes where numbers like '%\"BREAK\"%'")
        self.counts = {
            "kills": self.kills,
            "intents": len(outcome.rows("select intent_id from intents")),
            "orders": len(outcome.orders),
            "fills": len(fills),
            "comparisons": len(outcome.rows("select taken_at from account_snapshots")),
        }
        halts = outcome.rows(
            "select text from notes where kind = 'ALERT' and text like '% halted: %'"
        )
        self.counts["halts"] = len(halts)
        found = [*faults_in(outcome), *(str(note["text"]) for note in (*notes, *halts))]
        return found + self._money(fills) + self._shares(fills)

    def _account(self) -> Any:
        return self.sandbox._house.accounts[ACCOUNT]

    def _money(self, fills: list[dict[str, Any]]) -> list[str]:
        account = self._account()
        ours = CASH + account.dividends - account.dividend_taxes
        for fill in fills:
            sign = -1 if fill["side"] == "BUY" else 1
            ours += sign * fill["amount"] - fill["fee"] - fill["tax"]
        theirs = account.net_assets(dict.fromkeys(SHARES, 0))
        unexplained = theirs - ours
        told = CASH + account.dividends - account.dividend_taxes + self._told_by_pnl()
        found = [f"{unexplained:+,} VND unexplained"] if unexplained else []
        return found + ([f"{theirs - told:+,} VND are not in bot pnl"] if theirs != told else [])

    def _told_by_pnl(self) -> int:
        """What `bot pnl` says was earned, less what its open positions have cost."""
        with JournalReader(f"sqlite:///{self.folder / 'state' / 'journal.db'}") as reader:
            profits, positions = reader.profits(), reader.positions()
            prices = reader.prices(SHARES)
        told = [profit_of(profits, positions, prices, by=by) for by in By]
        for each in told:
            assert sum(row.net for row in each.rows) == each.total.net
            assert {row.symbol for row in each.held if row.last is None} == set()
        return told[0].total.net - sum(row.cost for row in told[0].held)

    def _shares(self, fills: list[dict[str, Any]]) -> list[str]:
        found = []
        for symbol, held in SHARES.items():
            signs = {"BUY": 1, "SELL": -1}
            moved = sum(signs[f["side"]] * f["quantity"] for f in fills if f["symbol"] == symbol)
            if (extra := self._account().held(symbol) - held - moved) != 0:
                found.append(f"{symbol}: {extra:+,} shares unexplained")
        return found


def _project(folder: Path, seed: int) -> Path:
    symbols = [
        {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000, "flow": {}},
        {"symbol": "SHS", "exchange": "HNX", "reference": 18_500, "flow": {}},
    ]
    faults = [
        {"match": {"verb": "POST", "path": "*/orders", "prob": 0.04}, "action": action}
        for action in _ACTIONS
    ]
    scenario = {
        "day": FIRST_DAY.isoformat(),
        "start": "09:15:00",
        "symbols": symbols,
        "quota": "PRO",
        "seed": seed,
        "faults": faults,
        "accounts": [{"id": ACCOUNT, "cash": CASH, "holdings": SHARES}],
        "corporate_actions": [_dividend(n) for n in range(4)],
    }
    config = write_project(folder, scenario=scenario, strategies=[_strategy(seed)])
    (folder / "strategies" / "busy.py").write_text(BUSY)
    return config


_ACTIONS: Final[tuple[Mapping[str, object], ...]] = (
    {"do": "reject", "code": "-900017"},
    {"do": "hide_row", "seconds": 40},
    {"do": "status", "status": 503},
    {"do": "too_many", "reset_s": 7},
    {"do": "truncate", "length": 60},
)


def _dividend(number: int) -> dict[str, object]:
    ex_date = FIRST_DAY + timedelta(days=1 + 14 * number)
    paid = {"ex_date": ex_date.isoformat(), "pays_on": (ex_date + timedelta(days=2)).isoformat()}
    return {"do": "cash_dividend", "symbol": "HPG", "vnd_per_share": 333, **paid}


def _strategy(seed: int) -> dict[str, object]:
    return {
        "name": "busy",
        "use": "busy",
        "symbols": ["HPG", "SHS"],
        "params": {"seed": seed},
        "wake": {"quote": "10s"},
        "order": {"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "30s"},
        "limits": {"max_order_value": 500_000_000},
        "on_2fa": "hold 60s",
    }


def main(days: int = 60, seed: int = 3) -> int:
    """Tell the days and judge them; 0 when all is explained."""
    with TemporaryDirectory() as folder:
        story = SixtyDays(Path(folder), seed)
        story.run(days)
        faults = story.faults()
        faults += undone(**{each: story.counts[each] for each in SOME})
    shown = "\n".join(f"  {name:12} {number:9,}" for name, number in story.counts.items())
    sys.stdout.write(f"seed {seed}, {days} days\n{shown}\n")
    sys.stdout.write("".join(f"  NOT EXPLAINED {each}\n" for each in faults))
    sys.stdout.write("  0 VND and 0 shares unexplained\n" if not faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
