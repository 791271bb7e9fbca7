"""A bot that is killed and started again, with a broker in another process that never is.

The broker's market runs by itself, `SPEED` times as fast as the wall; its ledger is the truth that
the bot never reads. A plug-in trades while a file says so, the harness amends and cancels over the
control socket, and at the end, when all is quiet, journal and ledger are compared.
"""

import contextlib
import json
import math
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from datetime import time as time_of_day
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from bot.config.problems import OperatorMistake
from bot.domain.instrument import EXCHANGE_TZ
from bot.drill.broker import SCENARIO, STATE
from bot.drill.oracle import StoryResult, faults_in, outcome_of
from bot.runtime.control.socket import NoBotRunning, ask
from tests.memory import roomy_memory
from tests.postgres_database import administer, own_database
from tests.postgres_server import private_postgres
from tests.processes import ROOT, BotProcess
from tests.proofs import is_settled
from tests.story import write_project

SPEED: Final = 20.0
READY_S_MAX: Final = 120.0
QUIET_S_MAX: Final = 120.0
MORNING_S: Final = 6_600.0
"""Market seconds from the start of a story to 11:10: cancels need an open market too."""
LOOK_S: Final = 0.02
ASK_AGAIN_S: Final = 2.0
LAST_CODE: Final = time_of_day(23, 59, 54)
SYMBOLS: Final = {
    "HPG": 27_000, "SSI": 33_000, "SHS": 18_500, "FPT": 132_000, "MBB": 24_000, "VCB": 61_000,
    "ACB": 25_000, "TCB": 38_000, "STB": 54_000, "VNM": 63_000, "MWG": 82_000, "VIC": 99_000,
}  # fmt: skip
TRADER: Final = """
from pathlib import Path
from random import Random

from bot import Strategy


class Trader(Strategy):
    asked: str
    seed: int

    def on_quote(self, quote):
        if not Path(self.asked).exists():
            return
        dice = Random(f"{self.seed}|{self.now}|{quote.symbol}")
        roll, tick = dice.random(), 100
        if roll < 0.7:
            limit = (quote.last // tick + dice.randint(-2, 2)) * tick
            self.buy(100 * dice.randint(1, 4), limit=limit, why="dice")
        elif roll < 0.8:
            self.close(why="dice")
        elif roll < 0.9:
            self.cancel(why="dice")


class Once(Strategy):
    asked: str
    seed: int

    def on_quote(self, quote):
        file = Path(self.asked)
        if file.exists():
            share = int(file.read_text())
            file.unlink()
            number = self.now.hour * 3600 + self.now.minute * 60 + self.now.second
            limit = (quote.last * share // 100_000 - number % 7) * 100
            self.buy(100 * (number % 20 + 1), limit=limit, why="asked")
"""
"""Trades at random while a file is there; or makes one order that rests, and takes it away."""
BAD_WEATHER: Final = (
    {"match": {"verb": "POST", "path": "*/orders", "prob": 0.08}, "point": "after_apply",
     "action": {"do": "rst"}},
    {"match": {"verb": "POST", "path": "*/orders", "prob": 0.08}, "point": "accept",
     "action": {"do": "rst"}},
    {"match": {"verb": "POST", "path": "*/orders", "prob": 0.3}, "point": "after_apply",
     "action": {"do": "delay", "seconds": 0.3}},
    {"match": {"verb": "PUT", "prob": 0.1}, "point": "after_apply", "action": {"do": "rst"}},
    {"match": {"verb": "DELETE", "prob": 0.1}, "point": "after_apply", "action": {"do": "rst"}},
)  # fmt: skip
"""Answers lost after the order was taken, requests lost before, answers that are late."""
TOLD: Final = (
    "state", "reason", "since", "at", "trouble", "blocked_by", "two_factor", "open_orders",
    "cancels", "held", "unknown", "faults", "halted_symbols", "alerts", "rate",
)  # fmt: skip
"""What of a status is told where a bot does not come up."""
KINDS: Final = (
    ("doubled", ("was sent", "orders")),
    ("lost", ("not in the journal", "without an order")),
    ("orphans", ("in no ledger", "has no intent")),
    ("wrong fills", ("executed", "fills")),
)


class NotReady(AssertionError):
    """The bot did not come up, or not to rest."""


@dataclass
class Crashing:
    """One story: a broker, a journal, and the bot of the moment."""

    folder: Path
    config: Path
    broker: subprocess.Popen[str]
    given: Mapping[str, Any]
    journal: str
    bot: BotProcess | None = None
    settings: dict[str, str] = field(default_factory=dict)
    """More of the bot's environment."""
    home: str = STATE
    """The state directory of the bot of the moment; another one's is a bot on another machine."""
    codes: Counter[date] = field(default_factory=Counter)
    """How many 2FA codes were asked for on each day of Vietnam; the broker mails five a day."""
    began_at: float = field(default_factory=time.monotonic)
    ready_s: list[float] = field(default_factory=list)
    """How long each start took until the bot ran, with the process forked already."""
    downs: list[tuple[float, float]] = field(default_factory=list)
    """From each kill to the start after it, by the system's clock; the last may have no end yet."""

    @property
    def state_dir(self) -> Path:
        return self.folder / STATE

    @property
    def asked(self) -> Path:
        return self.folder / "asked"

    @property
    def is_late(self) -> bool:
        """Whether the market's morning is nearly over, and the story should come to its end."""
        return (time.monotonic() - self.began_at) * SPEED > MORNING_S

    def ask_for(self, price: str) -> None:
        """Have the plug-in place an order, at a price in parts of 1,000 of the last."""
        whole = self.asked.with_suffix(".new")
        whole.write_text(price)
        whole.rename(self.asked)

    def start(self, *options: str) -> BotProcess:
        """Start the bot, and do not wait for it."""
        secrets = {
            "BOT_BROKER__API_KEY": self.given["api_key"],
            "BOT_BROKER__API_SECRET": self.given["api_secret"],
        }
        secrets["BOT_STATE_DIR"] = str(self.folder / self.home)
        secrets |= self.settings
        if self.downs:
            self.downs[-1] = (self.downs[-1][0], min(self.downs[-1][1], time.time()))
        self.bot = BotProcess("run", "-c", str(self.config), *options, **secrets)
        return self.bot

    def start_up(self, *options: str) -> BotProcess:
        """Start the bot and wait until it trades."""
        started = time.monotonic()
        bot = self.start(*options)
        self.until(lambda it: it["state"] == "RUNNING", READY_S_MAX)
        self.ready_s.append(time.monotonic() - started)
        return bot

    def kill(self) -> str:
        """End the bot as a power cut would; return the last that it has said."""
        assert self.bot is not None
        self.downs.append((time.time(), math.inf))
        self.bot.kill()
        out, err = self.bot.communicate()
        assert "Traceback" not in err, err
        assert self.bot.returncode == -signal.SIGKILL, f"it had ended: {self.bot.returncode}, {err}"
        return out

    def ask(self, do: str, **request: object) -> Mapping[str, Any]:
        """Ask the bot; it may be dead, or not yet listening."""
        try:
            return ask(self.folder / self.home, {"do": do, **request}, timeout_s=5)
        except (NoBotRunning, OperatorMistake, TimeoutError, OSError):
            return {}

    def status(self) -> Mapping[str, Any]:
        """What it says of itself; nothing where nobody answers."""
        found = self.ask("status").get("status", {})
        assert isinstance(found, dict)
        now = datetime.now(EXCHANGE_TZ)
        if (
            found.get("state") == "NEEDS_2FA"
            and not found["two_factor"]["until"]
            and now.time() < LAST_CODE  # a token of the day's last second has ended already
        ):
            self.codes[now.date()] += bool(self.ask("otp_request").get("ok"))
            self.ask("otp_submit", code=self.given["otp"])
        return found

    def until(self, is_so: Callable[[Mapping[str, Any]], object], seconds: float) -> None:
        """Look at the status until it is so. Raises NotReady."""
        give_up, found = time.monotonic() + seconds, None
        while time.monotonic() < give_up:
            found = self.status()
            if found and is_so(found):
                return
            if self.bot is not None and self.bot.poll() is not None:
                raise NotReady(self.bot.communicate())
            time.sleep(LOOK_S)
        raise NotReady(_in_short(found))

    def meddle(self, dice: Random) -> None:
        """Amend or cancel one of the open orders, if there is one."""
        rows = [row for row in self.status().get("open_orders", ()) if row["intent_id"]]
        if not rows:
            return
        row = dice.choice(rows)
        if dice.random() < 0.6:
            change: dict[str, object] = {"limit": (row["price"] or 20_000) - 100}
            if dice.random() < 0.5:
                change = {"quantity": row["quantity"] + 100}
            self.ask("modify", order_id=row["order_id"], **change)
        else:
            self.ask("cancel", order_id=row["order_id"])

    def trade_for(self, seconds: float, dice: Random) -> None:
        """Let it trade for a while, amending and cancelling now and then."""
        ends_at = time.monotonic() + seconds
        while (left := ends_at - time.monotonic()) > 0:
            if dice.random() < 0.3:
                self.meddle(dice)
            time.sleep(min(left, LOOK_S))

    def come_to_rest(self) -> None:
        """Trade no more, cancel all, wait until nothing is open, and stop in good order."""
        self.asked.unlink(missing_ok=True)
        if self.bot is None or self.bot.poll() is not None:
            self.start_up("-q")
        assert self.bot is not None
        self._end_faults()
        self.until_nothing_is_open()
        self.bot.send_signal(signal.SIGTERM)
        out, err = self.bot.communicate()
        assert (self.bot.returncode, "Traceback" in out + err) == (0, False), out + err

    def judge(self) -> Sequence[str]:
        """Return everything that breaks a promise."""
        return faults_in(outcome_of(self.state_dir, self.journal))

    def broker_orders(self) -> Mapping[str, Mapping[str, Any]]:
        """The last word of the broker's ledger on each order."""
        return outcome_of(self.state_dir, self.journal).orders

    def rows(self, query: str) -> list[dict[str, Any]]:
        """What the journal says."""
        return StoryResult(self.journal, {}).rows(query)

    def until_nothing_is_open(self) -> None:
        """Cancel all, again where it is needed, and wait until nothing is open or unknown."""
        asked_at = 0.0

        def is_quiet(found: Mapping[str, Any]) -> bool:
            nonlocal asked_at
            if found.get("open_orders") and time.monotonic() - asked_at > ASK_AGAIN_S:
                asked_at = time.monotonic()
                self.ask("cancel", all=True)
            kinds = ("open_orders", "held", "cancels")
            return not any(found.get(each, True) for each in kinds) and not self._unsettled(found)

        self.until(is_quiet, QUIET_S_MAX)

    def until_settled(self) -> None:
        """Wait until the bot runs and knows of every order what became of it."""

        def is_so(found: Mapping[str, Any]) -> bool:
            return found["state"] == "RUNNING" and not self._unsettled(found)

        self.until(is_so, QUIET_S_MAX)

    def _unsettled(self, found: Mapping[str, Any]) -> bool:
        """Whether a send may still be settled; REACHED stays a question until the day's end."""
        if not found["unknown"]:
            return False
        return any(
            row["state"] != "REACHED"
            for row in self.rows("select intent_id, state from intents")
            if row["intent_id"] in found["unknown"]
        )

    def settled_s(self) -> Iterator[float]:
        """Yield for how long each send was unknown while a bot ran, by the system's clock, until it
        was settled or fenced: infinity where it never was. The market is `SPEED` times as fast, so
        that what is found by a poll is found sooner than in live, what the nonce shows is not.
        """
        clocks = self._control("GET").json()
        market, wire = (datetime.fromisoformat(clocks[each]) for each in ("market", "wire"))
        since, took = dict[str, float](), dict[str, float]()
        for row in self.rows("select * from transitions where machine = 'send' order by seq"):
            passed_s = (datetime.fromisoformat(row["at"]) - market).total_seconds() / SPEED
            at, intent = wire.timestamp() + passed_s, row["intent_id"]
            if row["to_state"] == "UNKNOWN":
                since.setdefault(intent, at)
            elif intent in since and intent not in took and is_settled(row):
                took[intent] = at - since[intent] - _overlap(since[intent], at, self.downs)
        yield from (took.get(intent, math.inf) for intent in since)

    def _end_faults(self) -> None:
        self._control("DELETE")

    def _control(self, verb: str) -> Any:
        import httpx

        url = f"{self.given['base_url']}/_sandbox/control"
        answer = httpx.request(verb, url, headers={"X-FH-APIKEY": self.given["api_key"]})
        return answer.raise_for_status()


def _in_short(status: Mapping[str, Any] | None) -> str:
    """What of a status says why nothing goes on, each on a line; a whole one has 500."""
    lines = (f"{name}: {json.dumps(status.get(name))}" for name in TOLD) if status else ()
    return "\n".join(("no answer" if not status else "its status:", *lines))


def _overlap(begin: float, end: float, spans: Sequence[tuple[float, float]]) -> float:
    """Return how much of the time from `begin` to `end` lies in the spans."""
    return sum(max(min(end, last) - max(begin, first), 0.0) for first, last in spans)


@contextlib.contextmanager
def crashing(
    url: str | None = None, *, seed: int = 1, plugin: str = "Trader", faults: Sequence[object] = ()
) -> Iterator[Crashing]:
    """Yield a story whose bot has not been started; `url` is a migrated journal elsewhere."""
    with TemporaryDirectory(dir=roomy_memory(), prefix="crash-") as name:
        folder = Path(name)
        config = _project(folder, url, seed, plugin, faults)
        broker = subprocess.Popen(
            [sys.executable, "-m", "bot.drill.broker", name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert broker.stdout is not None
            given = json.loads(broker.stdout.readline())
            text = config.read_text().replace("http://to.be.known", given["base_url"])
            config.write_text(text)
            journal = url or f"sqlite:///{folder / STATE / 'journal.db'}"
            story = Crashing(folder, config, broker, given, journal)
            try:
                yield story
            finally:
                if story.bot is not None:
                    story.bot.end()
        finally:
            broker.kill()
            broker.communicate()


@contextlib.contextmanager
def databases(kind: str) -> Iterator[Callable[[], contextlib.AbstractContextManager[str | None]]]:
    """Yield what makes a new journal of a kind: a file (None), or a PostgreSQL database."""
    if kind == "sqlite":
        yield contextlib.nullcontext
        return
    from bot.journal.database.schema import migrate

    with private_postgres() as server:
        administer(server, "create database crash_template")
        migrate(_for_sqlalchemy(f"{server}crash_template"))

        @contextlib.contextmanager
        def new() -> Iterator[str | None]:
            with own_database(server, "crash_template") as url:
                yield _for_sqlalchemy(url)

        yield new


def _for_sqlalchemy(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


def counted(found: Sequence[str]) -> Counter[str]:
    """Count what the oracle found by what is wrong."""
    return Counter(
        next((kind for kind, words in KINDS if any(word in each for word in words)), "other")
        for each in found
    )


def _project(
    folder: Path, url: str | None, seed: int, plugin: str, faults: Sequence[object]
) -> Path:
    symbols = [
        {"symbol": name, "exchange": "HNX" if name == "SHS" else "HOSE", "reference": price}
        for name, price in SYMBOLS.items()
    ]
    account = {"id": "0009000011", "cash": 90_000_000_000}
    scenario = {
        "day": "2026-11-19",
        "start": "09:20:00",
        "speed": SPEED,
        "seed": seed,
        "quota": "ENTERPRISE",  # a bot that starts every second must not wait for the next minute
        "symbols": symbols,
        "accounts": [account],
        "faults": list(faults),
    }
    (folder / SCENARIO).write_text(json.dumps(scenario))
    (folder / STATE).mkdir(mode=0o700)
    strategy = {
        "name": "trader",
        "use": f"strategies/trader.py:{plugin}",
        "symbols": list(SYMBOLS) if plugin == "Trader" else ["HPG"],
        "params": {"asked": str(folder / "asked"), "seed": seed},
        "wake": {"quote": "4s" if plugin == "Trader" else "1s"},
        "order": {"size": {"shares": 100}, "type": "LIMIT", "price": "ask"},
        "limits": {"max_order_value": 5_000_000_000, "max_orders_per_day": 10_000},
        "on_2fa": "hold 60s",
    }
    config = write_project(
        folder,
        scenario="quiet",
        strategies=[strategy],
        journal_url=url,
        broker={"base_url": "http://to.be.known", "requests_per_minute": 3000},
        risk={"allow_amend": True, "max_unknown": 10},
    )
    (folder / "strategies" / "trader.py").write_text(TRADER)
    return config
